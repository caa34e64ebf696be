/*
 * Checkpoints of a run: ckpt/step_XXXXXXXX/{model,state}.safetensors and the links ckpt/latest and
 * ckpt/best.
 *
 * A checkpoint is complete or absent: it is written under a temporary name, synced, renamed into
 * place, and only then linked to; it is renamed away before it is deleted. So a directory called
 * step_* is complete at any moment, and leftovers of a killed process have names that
 * smoe_checkpoints_recover knows.
 *
 * Several processes write the files of a checkpoint, each some of them. The first process makes the
 * folder and renames it, between agreements of all.
 */
#include "store/checkpoint.h"
#include "base/file.h"
#include "store/model_file.h"
#include "tensors/shards.h"
#include "tensors/safetensors.h"
#include "tensors/params_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, NAME_ROOM = 32 };

static const char BUILDING[] = SMOE_FILE_TEMPORARY "new"; /* a checkpoint not yet whole */
static const char DELETING[] = SMOE_FILE_TEMPORARY "old"; /* one on its way out */
static const char MODEL_CRC[] = "smoe.model_crc32";
/* The checksum of the moments, which older versions wrote; used for files without a digest. */
static const char STATE_CRC[] = "smoe.state_crc32";
static const char AVERAGE_CRC[] = "smoe.ema_crc32", AVERAGE[] = "ema.safetensors";
static const char REPLACED[] = ".replaced-"; /* stands in while its successor is renamed */

typedef struct place {
    char path[PATH_ROOM];
} place;

/* "FOLDER/PREFIXstep_00001000/FILE", without "/FILE" where file is NULL. A path that is too long is
 * cut, and then not found. */
static const char *step_path(place *at, const char *ckpt, const char *prefix, uint64_t step,
                             const char *file) {
    int n = snprintf(at->path, sizeof at->path, "%s/%sstep_%08" PRIu64 "%s%s", ckpt, prefix, step,
                     file ? "/" : "", file ? file : "");
    if (n < 0 || (size_t)n >= sizeof at->path) at->path[0] = '\0';
    return at->path;
}

static const char *in_folder(place *at, const char *folder, const char *name) {
    int n = snprintf(at->path, sizeof at->path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof at->path) at->path[0] = '\0';
    return at->path;
}

/* The step of "step_00001000"; false for any other spelling. */
static bool step_of(const char *name, uint64_t *step) {
    char back[NAME_ROOM];
    if (sscanf(name, "step_%" SCNu64, step) != 1) return false;
    snprintf(back, sizeof back, "step_%08" PRIu64, *step);
    return !strcmp(name, back);
}

bool smoe_checkpoint_named(const char *name) {
    uint64_t step;
    return step_of(name, &step);
}

/* The checkpoints of a folder, newest first. */
typedef struct steps {
    uint64_t *step;
    size_t count;
} steps;

static int newest_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A folder that does not exist has none. */
static int steps_list(steps *list, const char *ckpt, smoe_err *err) {
    *list = (steps){0};
    DIR *dir = opendir(ckpt);
    if (!dir && errno == ENOENT) return 0;
    if (!dir) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read the folder", ckpt);
    size_t room = 0;
    int status = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        uint64_t step;
        if (!step_of(entry->d_name, &step)) continue;
        if (list->count == room) {
            uint64_t *more = realloc(list->step, (room = 2 * room + 16) * sizeof *more);
            if (!more) {
                free(list->step);
                *list = (steps){0};
                status = smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", ckpt);
                break;
            }
            list->step = more;
        }
        list->step[list->count++] = step;
    }
    closedir(dir);
    if (list->count) qsort(list->step, list->count, sizeof *list->step, newest_first);
    return status;
}

/* The step that a link names. 1: found; 0: no such link; -1: it names something else (SMOE_DATA).
 */
static int link_step(const char *ckpt, const char *name, uint64_t *step, smoe_err *err) {
    place at;
    char target[256];
    ssize_t n = readlink(in_folder(&at, ckpt, name), target, sizeof target - 1);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return 0;
    if (n < 0) return smoe_fail_errno(err, SMOE_DATA, "%s: cannot read the link", at.path);
    while (n > 1 && target[n - 1] == '/') n--;
    target[n] = '\0';
    if (step_of(target, step)) return 1;
    return smoe_fail(err, SMOE_DATA, "%s: links to %s, which is not a checkpoint of the run",
                     at.path, target);
}

/* The checkpoint to continue from. Without the link (killed before the first one) it is the newest,
 * because a directory of that name is complete. */
static int latest_step(const char *ckpt, uint64_t *step, smoe_err *err) {
    int found = link_step(ckpt, "latest", step, err);
    if (found) return found;
    steps list;
    if (steps_list(&list, ckpt, err)) return -1;
    if (list.count) *step = list.step[0];
    free(list.step);
    return list.count > 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Numbers as in JSON, which are read back as the same double in any locale. */
static void real_text(char buf[NAME_ROOM], double x) {
    json_t *number = json_real(x);
    size_t n = json_dumpb(number, buf, NAME_ROOM - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    buf[n < NAME_ROOM ? n : 0] = '\0'; /* empty, which no reader takes, when out of memory */
    json_decref(number);
}

/* The checksum of the weights, or of their average, which belong to the moments. It is stored with
 * the moments and not with the weights, because other tools may change the file of weights. */
static int weights_crc(const smoe_params *params, real *values, uint32_t *crc, smoe_err *err) {
    smoe_slab weights = {.prefix = "", .values = values};
    smoe_tensor *tensors = NULL;
    int status = smoe_params_tensors(params, &weights, &tensors, err);
    if (!status) status = smoe_tensors_crc32(tensors, params->count, crc, err);
    free(tensors);
    return status;
}

static const char *integer_text(char buf[NAME_ROOM], uint64_t number) {
    snprintf(buf, NAME_ROOM, "%" PRIu64, number);
    return buf;
}

/* What a checkpoint is made of, and which of its files are this process's. */
typedef struct making {
    const char *folder;
    const smoe_params *params;
    const smoe_spec *spec;
    const smoe_checkpoint *state;
    uint32_t model, average; /* checksums */
    smoe_turns turns;
} making;

/* Writes the file with its metadata, without the numbers that are not known. */
static int state_put(making *m, const char *path, const smoe_tensor *tensors, size_t count,
                     smoe_err *err) {
    enum { NUMBERS = 10 };
    const smoe_checkpoint *state = m->state;
    const struct {
        const char *key;
        uint64_t value;
        bool always;
    } number[NUMBERS] = {{"smoe.step", state->step, true},
                         {"smoe.optimizer_steps", state->optimizer_steps, true},
                         {"smoe.best_step", state->best_step, true},
                         {"smoe.carried", state->carried, false},
                         {MODEL_CRC, m->model, true},
                         {AVERAGE_CRC, m->average, m->params->average != NULL},
                         {"smoe.recorded", state->recorded, false},
                         {"smoe.records", state->records, false},
                         {"smoe.images", state->images, false},
                         {"smoe.classes", state->classes, false}};
    char best[NAME_ROOM], text[NUMBERS][NAME_ROOM];
    smoe_pair metadata[NUMBERS + 2] = {{"smoe.version", SMOE_VERSION}, {"smoe.best", best}};
    size_t pairs = 2;
    real_text(best, state->best);
    for (size_t i = 0; i < NUMBERS; i++)
        if (number[i].always || number[i].value)
            metadata[pairs++] = (smoe_pair){number[i].key, integer_text(text[i], number[i].value)};
    return smoe_shards_write(path, m->spec->train.shard_bytes, tensors, count, metadata, pairs,
                             &m->turns, err);
}

/* The moments of the table as tensors in one array; names live in the two blocks. */
static int state_write(making *m, const char *path, smoe_err *err) {
    const smoe_params *params = m->params;
    smoe_slab slabs[2];
    size_t most = params->count + (params->second ? params->second->count : params->count);
    smoe_tensor *block[2] = {NULL, NULL}, *all = calloc(most + 1, sizeof *all);
    size_t moments = smoe_params_moments(params, slabs), count = 0;
    int status = -1;
    if (!all) {
        smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", path);
        goto out;
    }
    for (size_t s = 0; s < moments; s++) {
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        if (smoe_params_tensors(table, &slabs[s], &block[s], err)) goto out;
        for (size_t i = 0; i < table->count; i++)
            if (smoe_slab_has(&slabs[s], &table->param[i])) all[count++] = block[s][i];
    }
    status = state_put(m, path, all, count, err);
out:
    free(block[0]);
    free(block[1]);
    free(all);
    return status;
}

const char *smoe_checkpoint_left(const char *dir) {
    return smoe_checkpoint_latest(dir) ? "the last checkpoint is unchanged"
                                       : "the run has no checkpoint yet";
}

/* Whether all elements of a part of a slab are finite, in parallel pieces. */
static bool stretch_finite(const smoe_slab *slab, size_t first, size_t size) {
    enum { PIECE = 1 << 18 };
    size_t pieces = (size + PIECE - 1) / PIECE;
    bool bad = false;
#pragma omp parallel for schedule(static) reduction(| : bad) if (pieces > 1)
    for (size_t p = 0; p < pieces; p++) {
        size_t begin = first + p * PIECE, left = first + size - begin;
        size_t end = begin + (left < PIECE ? left : PIECE);
        for (size_t i = begin; slab->values && i < end; i++) bad |= !isfinite(slab->values[i]);
        for (size_t i = begin; slab->narrow && i < end; i++)
            bad |= !isfinite(smoe_bf16_widen(slab->narrow[i]));
    }
    return !bad;
}

/* Weights, moments and the average must be finite, or the only checkpoint that is kept could be
 * useless. Each process looks at what it has. */
static int check_finite(const char *dir, const smoe_params *params, uint64_t step, smoe_err *err) {
    smoe_slab slabs[4] = {{.prefix = "", .values = params->w}};
    size_t count = 1 + smoe_params_moments(params, slabs + 1);
    if (params->average) slabs[count++] = (smoe_slab){.prefix = "ema.", .values = params->average};
    for (size_t s = 0; s < count; s++) {
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        for (size_t i = 0; i < table->count; i++) {
            const smoe_param *param = &table->param[i];
            if (!smoe_slab_has(&slabs[s], param) ||
                stretch_finite(&slabs[s], param->offset, param->size))
                continue;
            return smoe_fail(err, SMOE_NONFINITE,
                             "step %" PRIu64 ": tensor %s%s is not finite and was not saved; %s",
                             step, slabs[s].prefix, param->name, smoe_checkpoint_left(dir));
        }
    }
    return 0;
}

/* Writes weights, or their average, which has a model file of its own that every command can
 * read. */
static int model_write(making *m, const char *name, const smoe_params *params, smoe_err *err) {
    place at;
    return smoe_model_file_write(in_folder(&at, m->folder, name), params, m->spec, m->state->step,
                                 m->state->names, &m->turns, err);
}

/* This process's files. */
static int files_write(making *m, smoe_err *err) {
    place at;
    smoe_params view = *m->params;
    if (model_write(m, "model.safetensors", m->params, err)) return -1;
    smoe_params_exchange_average(&view);
    if (m->params->average && model_write(m, AVERAGE, &view, err)) return -1;
    return state_write(m, in_folder(&at, m->folder, "state.safetensors"), err);
}

/* After this process has read, or failed: until all others have, too. */
static int finish_reading(const making *m, smoe_comm *comm, int status, smoe_err *err) {
    const smoe_part_reader *reader = m->params->reader;
    if (reader) reader->finish(reader->user);
    return smoe_comm_agree(comm, status, NULL, err);
}

/* The first process computes the checksums, which all files of the state have. */
static int checksums(making *m, smoe_comm *comm, smoe_err *err) {
    const smoe_params *params = m->params;
    uint32_t crc[2] = {0};
    int status = 0;
    if (!comm->rank) status = weights_crc(params, params->w, &crc[0], err);
    if (!comm->rank && !status && params->average)
        status = weights_crc(params, params->average, &crc[1], err);
    if (finish_reading(m, comm, status, err)) return -1;
    smoe_comm_broadcast(comm, crc, sizeof crc);
    m->model = crc[0];
    m->average = crc[1];
    return 0;
}

/* All processes write, unless one of them does not see the folder that the first one has made: then
 * that one alone. */
static smoe_turns writers_of(const char *folder, smoe_comm *comm) {
    struct stat here;
    uint64_t number[2] = {0}, first[2];
    if (!stat(folder, &here)) number[0] = 1, number[1] = here.st_ino;
    memcpy(first, number, sizeof first);
    smoe_comm_broadcast(comm, first, sizeof first);
    double strangers = memcmp(first, number, sizeof first) != 0;
    smoe_comm_sum(comm, &strangers, 1);
    return (smoe_turns){.writers = strangers > 0 ? 1 : (size_t)comm->size,
                        .own = (size_t)comm->rank};
}

static int make_folder(const char *ckpt, const char *folder, smoe_err *err) {
    if (mkdir(ckpt, 0777) && errno != EEXIST)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", ckpt);
    if (smoe_file_remove(folder, err)) return -1;
    if (mkdir(folder, 0777)) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot create", folder);
    return 0;
}

/* Writes all files into the temporary folder, which is then ready to be renamed. */
static int build(making *m, smoe_comm *comm, smoe_err *err) {
    if (checksums(m, comm, err)) return -1;
    m->turns = writers_of(m->folder, comm);
    return finish_reading(m, comm, files_write(m, err), err);
}

/* Renames a checkpoint away, so that no incomplete one has its name, and deletes it. */
static int step_delete(const char *ckpt, uint64_t step, smoe_err *err) {
    place from, to;
    step_path(&from, ckpt, "", step, NULL);
    step_path(&to, ckpt, DELETING, step, NULL);
    if (smoe_file_remove(to.path, err)) return -1;
    if (rename(from.path, to.path))
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot remove", from.path);
    return smoe_file_remove(to.path, err);
}

/* The finished folder takes its place. An older checkpoint of the same step (a resume does steps
 * again) is exchanged in one operation; if the file system cannot do this, it is renamed to a name
 * that recovery renames back. */
static int install(const char *ckpt, uint64_t step, smoe_err *err) {
    place from, to, aside;
    step_path(&from, ckpt, BUILDING, step, NULL);
    step_path(&to, ckpt, "", step, NULL);
    step_path(&aside, ckpt, REPLACED, step, NULL);
    if (!rename(from.path, to.path)) return smoe_file_sync_folder(ckpt, err);
    if (errno != ENOTEMPTY && errno != EEXIST)
        return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot put in place", to.path);
    bool failed = false;
    const char *old = from.path;
    if (renameat2(AT_FDCWD, from.path, AT_FDCWD, to.path, RENAME_EXCHANGE)) {
        failed = rename(to.path, aside.path) || rename(from.path, to.path);
        old = aside.path;
    }
    if (failed) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot replace", to.path);
    return smoe_file_sync_folder(ckpt, err) || smoe_file_remove(old, err) ? -1 : 0;
}

/*
 * Removes all checkpoints except the newest, those that are linked to, and the multiples of
 * `every`.
 */
static int retain(const char *ckpt, size_t keep, size_t every, smoe_err *err) {
    uint64_t latest = 0, best = 0;
    int has_latest = link_step(ckpt, "latest", &latest, err);
    int has_best = link_step(ckpt, "best", &best, err);
    steps list;
    if (has_latest < 0 || has_best < 0 || steps_list(&list, ckpt, err)) return -1;
    int status = 0;
    for (size_t i = keep; !status && i < list.count; i++) {
        uint64_t step = list.step[i];
        bool linked = (has_latest && step == latest) || (has_best && step == best);
        bool milestone = every && step % every == 0;
        if (!linked && !milestone) status = step_delete(ckpt, step, err);
    }
    free(list.step);
    return status;
}

int smoe_checkpoints_link(const char *dir, const smoe_checkpoint *state, smoe_err *err) {
    /* best before latest, so that the best checkpoint that latest refers to exists. */
    const char *const names[] = {"best", "latest"};
    const uint64_t wanted[] = {state->best_step, state->step};
    place ckpt, at;
    in_folder(&ckpt, dir, "ckpt");
    for (size_t i = state->best < 0; i < 2; i++) {
        char target[NAME_ROOM];
        uint64_t step;
        int linked = link_step(ckpt.path, names[i], &step, err);
        if (linked < 0) return -1;
        if (linked && step == wanted[i]) continue;
        if (access(step_path(&at, ckpt.path, "", wanted[i], NULL), F_OK)) continue;
        snprintf(target, sizeof target, "step_%08" PRIu64, wanted[i]);
        if (smoe_file_link(target, in_folder(&at, ckpt.path, names[i]), err)) return -1;
    }
    return smoe_file_sync_folder(ckpt.path, err);
}

int smoe_checkpoint_write(const smoe_checkpoint_to *to, const smoe_params *params,
                          const smoe_spec *spec, const smoe_checkpoint *state, smoe_err *err) {
    place ckpt, building;
    bool chief = !to->comm->rank;
    making m = {.folder = building.path, .params = params, .spec = spec, .state = state};
    in_folder(&ckpt, to->dir, "ckpt");
    step_path(&building, ckpt.path, BUILDING, state->step, NULL);
    int status = check_finite(to->dir, params, state->step, err);
    if (smoe_comm_agree(to->comm, status, NULL, err)) return -1;
    if (chief) status = make_folder(ckpt.path, building.path, err);
    status = smoe_comm_agree(to->comm, status, NULL, err);
    if (!status) status = build(&m, to->comm, err);
    if (!chief) return smoe_comm_agree(to->comm, status, NULL, err);
    if (!status &&
        (smoe_file_sync_folder(building.path, err) || install(ckpt.path, state->step, err)))
        status = -1;
    if (status) smoe_file_remove(building.path, NULL); /* the failure that counts is in err */
    if (!status) status = smoe_checkpoints_link(to->dir, state, err);
    if (!status) status = retain(ckpt.path, to->keep, spec->train.keep_every, err);
    return smoe_comm_agree(to->comm, status, NULL, err);
}

int smoe_checkpoints_prune(const char *dir, const smoe_spec *spec, smoe_err *err) {
    place ckpt;
    return retain(in_folder(&ckpt, dir, "ckpt"), spec->train.keep, spec->train.keep_every, err);
}

/* Restores or removes checkpoints that were being replaced. */
static int replaced_recover(const char *ckpt, smoe_err *err) {
    DIR *dir = opendir(ckpt);
    if (!dir) return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read the folder", ckpt);
    int status = 0;
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        place aside, proper;
        uint64_t step;
        if (strncmp(entry->d_name, REPLACED, sizeof REPLACED - 1)) continue;
        if (!step_of(entry->d_name + sizeof REPLACED - 1, &step)) continue;
        step_path(&aside, ckpt, REPLACED, step, NULL);
        step_path(&proper, ckpt, "", step, NULL);
        if (!access(proper.path, F_OK))
            status = smoe_file_remove(aside.path, err);
        else if (rename(aside.path, proper.path))
            status = smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot move back", proper.path);
    }
    closedir(dir);
    return status;
}

int smoe_checkpoints_recover(const char *dir, smoe_err *err) {
    place ckpt;
    in_folder(&ckpt, dir, "ckpt");
    if (access(ckpt.path, F_OK)) return 0;
    return replaced_recover(ckpt.path, err) || smoe_file_sweep(ckpt.path, err) ? -1 : 0;
}

int smoe_checkpoints_remove(const char *dir, smoe_err *err) {
    static const char *const links[] = {"latest", "best"};
    place ckpt, link;
    steps list;
    in_folder(&ckpt, dir, "ckpt");
    if (smoe_checkpoints_recover(dir, err) || steps_list(&list, ckpt.path, err)) return -1;
    int status = 0;
    for (size_t i = 0; i < sizeof links / sizeof *links && !status; i++)
        status = smoe_file_remove(in_folder(&link, ckpt.path, links[i]), err);
    for (size_t i = 0; i < list.count && !status; i++)
        status = step_delete(ckpt.path, list.step[i], err);
    free(list.step);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int metadata_integer(const smoe_safetensors *file, const char *key, uint64_t *value,
                            smoe_err *err) {
    const char *text = smoe_safetensors_metadata(file, key);
    int end = 0;
    if (text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 20 &&
        sscanf(text, "%" SCNu64 "%n", value, &end) == 1 && !text[end])
        return 0;
    return smoe_fail(err, SMOE_DATA, "%s: __metadata__ %s: %.40s is not a whole number",
                     smoe_safetensors_path(file), key, text ? text : "(absent)");
}

static int metadata_real(const smoe_safetensors *file, const char *key, double *value,
                         smoe_err *err) {
    const char *text = smoe_safetensors_metadata(file, key);
    json_t *number = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    bool good = json_is_number(number);
    if (good) *value = json_number_value(number);
    json_decref(number);
    if (good) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: __metadata__ %s: %.40s is not a number",
                     smoe_safetensors_path(file), key, text ? text : "(absent)");
}

/* The step in the metadata must be that of the folder: a model and a state of different steps are
 * not a checkpoint. */
static int step_agrees(const smoe_safetensors *file, uint64_t step, smoe_err *err) {
    uint64_t found = 0;
    if (metadata_integer(file, "smoe.step", &found, err)) return -1;
    if (found == step) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: is of step %" PRIu64 ", not of step %" PRIu64,
                     smoe_safetensors_path(file), found, step);
}

/* A number that older checkpoints lack; 0 then. */
static int metadata_known(const smoe_safetensors *file, const char *key, uint64_t *value,
                          smoe_err *err) {
    *value = 0;
    return smoe_safetensors_metadata(file, key) ? metadata_integer(file, key, value, err) : 0;
}

/* No count can be beyond the step, and a precision is from 0 to 1, or -1 before the first
 * evaluation. */
static int state_sane(const smoe_safetensors *file, const smoe_checkpoint *state, smoe_err *err) {
    const struct {
        const char *key;
        uint64_t step;
    } counter[] = {{"smoe.optimizer_steps", state->optimizer_steps},
                   {"smoe.best_step", state->best_step},
                   {"smoe.recorded", state->recorded}};
    const char *path = smoe_safetensors_path(file);
    for (size_t i = 0; i < sizeof counter / sizeof *counter; i++)
        if (counter[i].step > state->step)
            return smoe_fail(err, SMOE_DATA,
                             "%s: __metadata__ %s: %" PRIu64 " is beyond the step, %" PRIu64, path,
                             counter[i].key, counter[i].step, state->step);
    if (state->best == -1 || (state->best >= 0 && state->best <= 1)) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: __metadata__ smoe.best: %g is neither -1 nor from 0 to 1",
                     path, state->best);
}

static int state_read(const smoe_safetensors *file, uint64_t step, smoe_checkpoint *state,
                      smoe_err *err) {
    state->step = step;
    if (step_agrees(file, step, err)) return -1;
    if (metadata_integer(file, "smoe.optimizer_steps", &state->optimizer_steps, err)) return -1;
    if (metadata_real(file, "smoe.best", &state->best, err)) return -1;
    if (metadata_integer(file, "smoe.best_step", &state->best_step, err)) return -1;
    if (metadata_known(file, "smoe.carried", &state->carried, err)) return -1;
    if (metadata_known(file, "smoe.recorded", &state->recorded, err)) return -1;
    if (metadata_known(file, "smoe.records", &state->records, err)) return -1;
    if (metadata_known(file, "smoe.images", &state->images, err)) return -1;
    if (metadata_known(file, "smoe.classes", &state->classes, err)) return -1;
    return state_sane(file, state, err);
}

/* Compares the data of a file with the checksum in the state, if there is one. */
static int crc_agrees(const smoe_safetensors *file, const smoe_safetensors *state, const char *key,
                      smoe_err *err) {
    uint64_t want = 0;
    uint32_t have;
    if (!smoe_safetensors_metadata(state, key)) return 0;
    if (metadata_integer(state, key, &want, err)) return -1;
    size_t count = smoe_safetensors_count(file);
    if (smoe_tensors_crc32(count ? smoe_safetensors_at(file, 0) : NULL, count, &have, err))
        return -1;
    if (have == want) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: its data is not what was saved (CRC-32 %" PRIu32 ", %s in %s is %" PRIu64
                     "): damaged, or from another checkpoint",
                     smoe_safetensors_path(file), have, key, smoe_safetensors_path(state), want);
}

/* The average of a checkpoint, opened and checked. */
static int average_open(smoe_safetensors **file, const char *ckpt, uint64_t step,
                        const smoe_params *params, const smoe_safetensors *moments, smoe_err *err) {
    place at;
    smoe_slab weights = {.prefix = ""};
    if (smoe_safetensors_open(file, step_path(&at, ckpt, "", step, AVERAGE), err)) return -1;
    if (step_agrees(*file, step, err)) return -1;
    if (smoe_params_load_slabs(params, &weights, 1, *file, SMOE_FIT_EXACT, NULL, err)) return -1;
    return crc_agrees(*file, moments, AVERAGE_CRC, err);
}

/* Checks one checkpoint against the table and, with `fill`, reads it; nothing is changed before all
 * has been checked. */
static int step_load(const char *ckpt, uint64_t step, const smoe_params *params, bool fill,
                     smoe_checkpoint *state, smoe_err *err) {
    place at;
    smoe_safetensors *model = NULL, *moments = NULL, *average = NULL;
    smoe_checkpoint read;
    smoe_slab weights = {.prefix = ""}, averages = weights, slabs[2], checked[2];
    size_t count = smoe_params_moments(params, slabs);
    int status = -1;
    for (size_t i = 0; i < count; i++)
        checked[i] = (smoe_slab){.prefix = slabs[i].prefix, .table = slabs[i].table};
    if (smoe_safetensors_open(&model, step_path(&at, ckpt, "", step, "model.safetensors"), err))
        goto out;
    if (smoe_safetensors_open(&moments, step_path(&at, ckpt, "", step, "state.safetensors"), err))
        goto out;
    if (step_agrees(model, step, err) || state_read(moments, step, &read, err)) goto out;
    if (smoe_params_load_slabs(params, &weights, 1, model, SMOE_FIT_EXACT, NULL, err)) goto out;
    if (smoe_params_load_slabs(params, checked, count, moments, SMOE_FIT_EXACT, NULL, err))
        goto out;
    if (crc_agrees(model, moments, MODEL_CRC, err) || crc_agrees(moments, moments, STATE_CRC, err))
        goto out;
    if (params->average && average_open(&average, ckpt, step, params, moments, err)) goto out;
    status = 0;
    if (!fill) goto out;
    weights.values = params->w;
    averages.values = params->average;
    status = smoe_params_load_slabs(params, &weights, 1, model, SMOE_FIT_EXACT, NULL, err);
    if (!status)
        status = smoe_params_load_slabs(params, slabs, count, moments, SMOE_FIT_EXACT, NULL, err);
    if (!status && average)
        status = smoe_params_load_slabs(params, &averages, 1, average, SMOE_FIT_EXACT, NULL, err);
    if (!status) *state = read;
out:
    smoe_safetensors_free(average);
    smoe_safetensors_free(model);
    smoe_safetensors_free(moments);
    return status;
}

/* After a corrupt checkpoint: names the newest older one that is intact, and how to continue from
 * it. */
static void suggest_older(const char *ckpt, uint64_t bad, const smoe_params *params,
                          smoe_err *err) {
    steps list;
    if (steps_list(&list, ckpt, NULL)) return;
    for (size_t i = 0; i < list.count; i++) {
        place whole;
        if (list.step[i] >= bad || step_load(ckpt, list.step[i], params, false, NULL, NULL))
            continue;
        step_path(&whole, ckpt, "", list.step[i], NULL);
        smoe_fail_more(
            err, SMOE_DATA,
            "%s: this older checkpoint is intact; to resume from it: ln -sfn step_%08" PRIu64
            " %s/latest",
            whole.path, list.step[i], ckpt);
        break;
    }
    free(list.step);
}

int smoe_checkpoint_restore(const char *dir, smoe_params *params, smoe_checkpoint *state,
                            smoe_err *err) {
    place ckpt;
    uint64_t step = 0;
    in_folder(&ckpt, dir, "ckpt");
    int found = latest_step(ckpt.path, &step, err);
    if (found <= 0) return found;
    if (!step_load(ckpt.path, step, params, true, state, err)) return 1;
    if (err && err->code == SMOE_DATA) suggest_older(ckpt.path, step, params, err);
    return -1;
}

/* ---- finding --------------------------------------------------------------------------------- */

uint64_t smoe_checkpoint_latest(const char *dir) {
    place ckpt;
    uint64_t step;
    return latest_step(in_folder(&ckpt, dir, "ckpt"), &step, NULL) > 0 ? step : 0;
}

/* The step for 500, step_500 or step_00000500, as given by a user. */
static bool step_meant(const char *which, uint64_t *step) {
    const char *digits = strncmp(which, "step_", 5) ? which : which + 5;
    size_t count = strspn(digits, "0123456789");
    return count && count < 20 && !digits[count] && sscanf(digits, "%" SCNu64, step) == 1;
}

char *smoe_checkpoint_find(const char *dir, const char *which, smoe_err *err) {
    place ckpt, at;
    uint64_t step = 0;
    int found;
    const char *file = "model.safetensors";
    in_folder(&ckpt, dir, "ckpt");
    if (!which || !strcmp(which, "latest")) {
        found = latest_step(ckpt.path, &step, err);
    } else if (!strcmp(which, "ema")) {
        file = AVERAGE;
        found = latest_step(ckpt.path, &step, err);
        if (found > 0) found = smoe_shards_there(step_path(&at, ckpt.path, "", step, file));
    } else if (!strcmp(which, "best")) {
        found = link_step(ckpt.path, "best", &step, err);
    } else if (step_meant(which, &step)) {
        found = !access(step_path(&at, ckpt.path, "", step, NULL), F_OK);
    } else {
        smoe_fail(err, SMOE_USAGE, "checkpoint %s: not best, latest, ema or the number of a step",
                  which);
        return NULL;
    }
    if (found > 0) {
        char *path = strdup(step_path(&at, ckpt.path, "", step, file));
        if (!path) smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", dir);
        return path;
    }
    if (!found && latest_step(ckpt.path, &step, NULL) > 0)
        smoe_fail(err, SMOE_DATA, "%s: the run has no checkpoint %s", dir, which);
    else if (!found)
        smoe_fail(err, SMOE_DATA, "%s: the run has no checkpoint yet", dir);
    return NULL;
}
