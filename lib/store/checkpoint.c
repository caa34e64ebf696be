/*
 * The files of a checkpoint, written and read; checkpoints.c has their folder.
 *
 * Several processes write the files of a checkpoint, each some of them. The first process makes the
 * folder and renames it, between agreements of all.
 */
#include "store/checkpoint.h"
#include "base/alloc.h"
#include "store/model_file.h"
#include "tensors/params_io.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

enum { NAME_ROOM = 32 };

static const char MODEL_CRC[] = "smoe.model_crc32";
/* The checksum of the moments, which older versions wrote; used for files without a digest. */
static const char STATE_CRC[] = "smoe.state_crc32";
static const char AVERAGE_CRC[] = "smoe.ema_crc32";

/* ---- writing --------------------------------------------------------------------------------- */

/* Numbers as in JSON, which are read back as the same double in any locale. */
static void real_text(char buf[NAME_ROOM], double x) {
    json_auto_t *number = json_real(x);
    size_t n = json_dumpb(number, buf, NAME_ROOM - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    buf[n < NAME_ROOM ? n : 0] = '\0'; /* empty, which no reader takes, where there is no room */
}

/* The checksum of the weights, or of their average, which belong to the moments. It is stored with
 * the moments and not with the weights, because other tools may change the file of weights. */
static int weights_crc(const smoe_params *params, real *values, uint32_t *crc, smoe_err *err) {
    smoe_slab weights = {.prefix = "", .values = values};
    SMOE_FREED smoe_tensor *tensors = smoe_params_tensors(params, &weights);
    return smoe_tensors_crc32(tensors, params->count, crc, err);
}

static const char *integer_text(char buf[NAME_ROOM], uint64_t number) {
    snprintf(buf, NAME_ROOM, "%" PRIu64, number);
    return buf;
}

/* What a checkpoint is made of, and which of its files are this process's. */
typedef struct making {
    const char *dir; /* of the run */
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
    SMOE_FREED smoe_tensor *all = smoe_alloc(most, sizeof *all);
    smoe_tensor *block[2] = {NULL, NULL};
    size_t moments = smoe_params_moments(params, slabs), count = 0;
    for (size_t s = 0; s < moments; s++) {
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        block[s] = smoe_params_tensors(table, &slabs[s]);
        for (size_t i = 0; i < table->count; i++)
            if (smoe_slab_has(&slabs[s], &table->param[i])) all[count++] = block[s][i];
    }
    int status = state_put(m, path, all, count, err);
    free(block[0]);
    free(block[1]);
    return status;
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

static const char *new_file(const making *m, smoe_checkpoints_path *at, const char *name) {
    return smoe_checkpoints_new(at, m->dir, m->state->step, name);
}

/* Writes weights, or their average, which has a model file of its own that every command can
 * read. */
static int model_write(making *m, const char *name, const smoe_params *params, smoe_err *err) {
    smoe_checkpoints_path at;
    return smoe_model_file_write(new_file(m, &at, name), params, m->spec, m->state->step,
                                 m->state->names, &m->turns, err);
}

/* This process's files. */
static int files_write(making *m, smoe_err *err) {
    smoe_checkpoints_path at;
    smoe_params view = *m->params;
    if (model_write(m, "model.safetensors", m->params, err)) return -1;
    smoe_params_exchange_average(&view);
    if (m->params->average && model_write(m, SMOE_CHECKPOINT_AVERAGE, &view, err)) return -1;
    return state_write(m, new_file(m, &at, "state.safetensors"), err);
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
static smoe_turns writers_of(const making *m, smoe_comm *comm) {
    smoe_checkpoints_path at;
    struct stat here;
    uint64_t number[2] = {0}, first[2];
    if (!stat(new_file(m, &at, NULL), &here)) number[0] = 1, number[1] = here.st_ino;
    memcpy(first, number, sizeof first);
    smoe_comm_broadcast(comm, first, sizeof first);
    double strangers = memcmp(first, number, sizeof first) != 0;
    smoe_comm_sum(comm, &strangers, 1);
    return (smoe_turns){.writers = strangers > 0 ? 1 : (size_t)comm->size,
                        .own = (size_t)comm->rank};
}

/* Writes all files into the temporary folder, which is then ready to be renamed. */
static int checkpoint_build(making *m, smoe_comm *comm, smoe_err *err) {
    if (checksums(m, comm, err)) return -1;
    m->turns = writers_of(m, comm);
    return finish_reading(m, comm, files_write(m, err), err);
}

uint64_t smoe_checkpoint_best(const smoe_checkpoint *state) {
    return state->best < 0 ? 0 : state->best_step;
}

int smoe_checkpoint_write(const smoe_checkpoint_to *to, const smoe_params *params,
                          const smoe_spec *spec, const smoe_checkpoint *state, smoe_err *err) {
    bool chief = !to->comm->rank;
    making m = {.dir = to->dir, .params = params, .spec = spec, .state = state};
    int status = check_finite(to->dir, params, state->step, err);
    if (smoe_comm_agree(to->comm, status, NULL, err)) return -1;
    if (chief) status = smoe_checkpoints_make(to->dir, state->step, err);
    status = smoe_comm_agree(to->comm, status, NULL, err);
    if (!status) status = checkpoint_build(&m, to->comm, err);
    if (!chief) return smoe_comm_agree(to->comm, status, NULL, err);
    if (!status && smoe_checkpoints_install(to->dir, state->step, err)) status = -1;
    if (status) smoe_checkpoints_discard(to->dir, state->step);
    if (!status)
        status = smoe_checkpoints_link(to->dir, state->step, smoe_checkpoint_best(state), err);
    if (!status) status = smoe_checkpoints_prune(to->dir, to->keep, spec->train.keep_every, err);
    return smoe_comm_agree(to->comm, status, NULL, err);
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

static int state_read(const smoe_safetensors *file, smoe_checkpoint *state, smoe_err *err) {
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

/* A file of a checkpoint, opened. */
static int file_open(smoe_safetensors **file, const char *dir, uint64_t step, const char *name,
                     smoe_err *err) {
    smoe_checkpoints_path at;
    if (smoe_safetensors_open(file, smoe_checkpoints_file(&at, dir, step, name), err)) return -1;
    return step_agrees(*file, step, err);
}

/* Checks slabs without values against a file, and fills others from it. */
static int checkpoint_load(const smoe_params *params, const smoe_slab *slabs, size_t count,
                           const smoe_safetensors *file, smoe_err *err) {
    return smoe_params_load_slabs(params, slabs, count, file, SMOE_FIT_EXACT, NULL, err);
}

/* Checks one checkpoint against the table and, with `fill`, reads it; nothing is changed before all
 * has been checked. */
static int step_load(const char *dir, uint64_t step, const smoe_params *params, bool fill,
                     smoe_checkpoint *state, smoe_err *err) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *model = NULL;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *moments = NULL;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *average = NULL;
    smoe_checkpoint read = {.step = step};
    smoe_slab weights = {.prefix = ""}, averages = weights, slabs[2], checked[2];
    size_t count = smoe_params_moments(params, slabs);
    for (size_t i = 0; i < count; i++)
        checked[i] = (smoe_slab){.prefix = slabs[i].prefix, .table = slabs[i].table};
    if (smoe_checkpoints_own(dir, step, err) ||
        file_open(&model, dir, step, "model.safetensors", err) ||
        file_open(&moments, dir, step, "state.safetensors", err) ||
        state_read(moments, &read, err) || checkpoint_load(params, &weights, 1, model, err) ||
        checkpoint_load(params, checked, count, moments, err) ||
        crc_agrees(model, moments, MODEL_CRC, err) || crc_agrees(moments, moments, STATE_CRC, err))
        return -1;
    if (params->average && (file_open(&average, dir, step, SMOE_CHECKPOINT_AVERAGE, err) ||
                            checkpoint_load(params, &weights, 1, average, err) ||
                            crc_agrees(average, moments, AVERAGE_CRC, err)))
        return -1;
    if (!fill) return 0;
    weights.values = params->w;
    averages.values = params->average;
    if (checkpoint_load(params, &weights, 1, model, err) ||
        checkpoint_load(params, slabs, count, moments, err) ||
        (average && checkpoint_load(params, &averages, 1, average, err)))
        return -1;
    *state = read;
    return 0;
}

/* After a corrupt checkpoint: names the newest older one that is intact, and how to continue from
 * it. */
static void suggest_older(const char *dir, uint64_t bad, const smoe_params *params, smoe_err *err) {
    smoe_checkpoints list;
    if (smoe_checkpoints_list(&list, dir, NULL)) return;
    for (size_t i = 0; i < list.count; i++) {
        smoe_checkpoints_path whole;
        if (list.step[i] >= bad || step_load(dir, list.step[i], params, false, NULL, NULL))
            continue;
        smoe_checkpoints_file(&whole, dir, list.step[i], NULL);
        smoe_fail_more(
            err, SMOE_DATA,
            "%s: this older checkpoint is intact; to resume from it: ln -sfn step_%08" PRIu64
            " %s/ckpt/latest",
            whole.path, list.step[i], dir);
        break;
    }
    free(list.step);
}

int smoe_checkpoint_restore(const char *dir, smoe_params *params, smoe_checkpoint *state,
                            smoe_err *err) {
    uint64_t step = 0;
    int found = smoe_checkpoints_newest(dir, &step, err);
    if (found <= 0) return found;
    if (!step_load(dir, step, params, true, state, err)) return 1;
    if (err && err->code == SMOE_DATA) suggest_older(dir, step, params, err);
    return -1;
}
