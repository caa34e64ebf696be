/*
 * The files of a checkpoint, written and read; checkpoints.c has their folder.
 *
 * Several processes write the files of a checkpoint, each some of them. The first process makes the
 * folder and renames it, between agreements of all.
 */
#include "store/checkpoint.h"
#include "base/file.h"
#include "store/model_file.h"
#include "tensors/params_io.h"

#include <inttypes.h>
#include <sys/stat.h>

/* What the metadata of state.safetensors holds. The checksums of the weights, and of their average,
 * which belong to the moments, are stored with these, because other tools may change the file of
 * weights. */
typedef struct stored {
    smoe_checkpoint state;
    uint64_t model, average, moments; /* CRC-32; 0: unknown */
} stored;

static const struct number {
    const char *key;
    size_t at;
    bool always; /* it is there; others may be unknown, 0, as in older checkpoints */
    bool step;   /* not beyond that of the checkpoint */
} numbers[] = {
    {"smoe.step", offsetof(stored, state.step), true, true},
    {"smoe.optimizer_steps", offsetof(stored, state.optimizer_steps), true, true},
    {"smoe.best_step", offsetof(stored, state.best_step), true, true},
    {"smoe.carried", offsetof(stored, state.carried), false, false},
    {"smoe.model_crc32", offsetof(stored, model), false, false},
    {"smoe.ema_crc32", offsetof(stored, average), false, false},
    /* which older versions wrote; for files without a digest */
    {"smoe.state_crc32", offsetof(stored, moments), false, false},
    {"smoe.recorded", offsetof(stored, state.recorded), false, true},
    {"smoe.records", offsetof(stored, state.records), false, false},
    {"smoe.images", offsetof(stored, state.images), false, false},
    {"smoe.classes", offsetof(stored, state.classes), false, false},
    {"smoe.data", offsetof(stored, state.data), false, false},
    {"smoe.tested", offsetof(stored, state.tested), false, false},
    {"smoe.fewshot", offsetof(stored, state.fewshot), false, false},
};
enum { NUMBERS = SMOE_COUNT(numbers) };

static uint64_t *checkpoint_number_at(stored *s, const struct number *number) {
    return (uint64_t *)(void *)((char *)s + number->at);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int weights_crc(const smoe_params *params, real *values, uint64_t *crc, smoe_err *err) {
    uint32_t sum = 0;
    smoe_slab weights = {.prefix = "", .values = values};
    SMOE_FREED smoe_tensor *tensors = values ? smoe_params_tensors(params, &weights) : NULL;
    int status = values ? smoe_tensors_crc32(tensors, params->count, &sum, err) : 0;
    *crc = sum;
    return status;
}

/* What a checkpoint is made of, and which of its files are this process's. */
typedef struct making {
    const char *dir; /* of the run */
    const smoe_params *params;
    const smoe_spec *spec;
    stored stored;
    smoe_turns turns;
} making;

/* Writes the file with its metadata, without the numbers that are not known. */
static int state_put(making *m, const char *path, const smoe_tensor *tensors, size_t count,
                     smoe_err *err) {
    json_auto_t *precision = json_real(m->stored.state.best);
    SMOE_FREED char *best = json_dumps(precision, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    char text[NUMBERS][24];
    smoe_pair metadata[NUMBERS + 2] = {{"smoe.version", SMOE_VERSION}, {"smoe.best", best}};
    size_t pairs = 2;
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t value = *checkpoint_number_at(&m->stored, &numbers[i]);
        snprintf(text[i], sizeof text[i], "%" PRIu64, value);
        if (numbers[i].always || value) metadata[pairs++] = (smoe_pair){numbers[i].key, text[i]};
    }
    return smoe_shards_write(path, m->spec->train.shard_bytes,
                             &(const smoe_content){tensors, count, metadata, pairs}, &m->turns,
                             err);
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

static bool is_finite(const smoe_slab *slab, const smoe_param *param) {
    size_t first = param->offset, end = first + param->size;
    bool bad = false;
#pragma omp parallel for schedule(static) reduction(| : bad) if (param->size > 1 << 18)
    for (size_t i = first; i < end; i++)
        bad |= !isfinite(slab->narrow ? smoe_bf16_widen(slab->narrow[i]) : slab->values[i]);
    return !bad;
}

/* Weights, moments and the average must be finite, or the only checkpoint that is kept could be
 * useless. Each process checks its own part. */
static int check_finite(const char *dir, const smoe_params *params, uint64_t step, smoe_err *err) {
    smoe_slab slabs[4] = {{.prefix = "", .values = params->w}};
    size_t count = 1 + smoe_params_moments(params, slabs + 1);
    if (params->average) slabs[count++] = (smoe_slab){.prefix = "ema.", .values = params->average};
    for (size_t s = 0; s < count; s++) {
        const smoe_params *table = smoe_slab_table(&slabs[s], params);
        for (size_t i = 0; i < table->count; i++) {
            const smoe_param *param = &table->param[i];
            if (!smoe_slab_has(&slabs[s], param) || is_finite(&slabs[s], param)) continue;
            return smoe_fail(err, SMOE_NONFINITE,
                             "step %" PRIu64 ": tensor %s%s is not finite and was not saved; %s",
                             step, slabs[s].prefix, param->name, smoe_checkpoint_left(dir));
        }
    }
    return 0;
}

static char *new_file(const making *m, const char *name) {
    return smoe_checkpoints_new(m->dir, m->stored.state.step, name);
}

/* Writes weights, or their average, which has a model file of its own that every command can
 * read. */
static int model_write(making *m, const char *name, const smoe_params *params, smoe_err *err) {
    SMOE_FREED char *path = new_file(m, name);
    return smoe_model_file_write(path, params, m->spec, m->stored.state.step, m->stored.state.names,
                                 &m->turns, err);
}

/* This process's files. */
static int files_write(making *m, smoe_err *err) {
    SMOE_FREED char *state = new_file(m, "state.safetensors");
    smoe_params view = *m->params;
    if (model_write(m, "model.safetensors", m->params, err)) return -1;
    smoe_params_exchange_average(&view);
    if (m->params->average && model_write(m, SMOE_CHECKPOINT_AVERAGE, &view, err)) return -1;
    return state_write(m, state, err);
}

/* Waits until all processes have read, or failed. */
static int finish_reading(const making *m, smoe_comm *comm, int status, smoe_err *err) {
    const smoe_part_reader *reader = m->params->reader;
    if (reader) reader->finish(reader->user);
    return smoe_comm_agree(comm, status, NULL, err);
}

/* The first process computes the checksums, which all files of the state have. */
static int checksums(making *m, smoe_comm *comm, smoe_err *err) {
    const smoe_params *params = m->params;
    uint64_t crc[2] = {0};
    int status = 0;
    if (!comm->rank && (weights_crc(params, params->w, &crc[0], err) ||
                        weights_crc(params, params->average, &crc[1], err)))
        status = -1;
    if (finish_reading(m, comm, status, err)) return -1;
    smoe_comm_broadcast(comm, crc, sizeof crc);
    m->stored.model = crc[0];
    m->stored.average = crc[1];
    return 0;
}

/* All processes write, unless one of them does not see the folder that the first one has made: then
 * that one alone. */
static smoe_turns writers_of(const making *m, smoe_comm *comm) {
    SMOE_FREED char *folder = new_file(m, NULL);
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

int smoe_checkpoint_write(const smoe_checkpoint_to *to, const smoe_params *params,
                          const smoe_spec *spec, const smoe_checkpoint *state, smoe_err *err) {
    bool chief = !to->comm->rank;
    making m = {.dir = to->dir, .params = params, .spec = spec, .stored = {*state}};
    int status = check_finite(to->dir, params, state->step, err);
    if (smoe_comm_agree(to->comm, status, NULL, err)) return -1;
    if (chief) status = smoe_checkpoints_make(to->dir, state->step, err);
    status = smoe_comm_agree(to->comm, status, NULL, err);
    if (!status) status = checksums(&m, to->comm, err);
    if (!status) {
        m.turns = writers_of(&m, to->comm);
        status = finish_reading(&m, to->comm, files_write(&m, err), err);
    }
    if (!chief) return smoe_comm_agree(to->comm, status, NULL, err);
    if (!status && smoe_checkpoints_install(to->dir, state->step, err)) status = -1;
    if (status) smoe_checkpoints_discard(to->dir, state->step);
    if (!status) status = smoe_checkpoints_link(to->dir, state->step, state->best_step, err);
    if (!status) status = smoe_checkpoints_prune(to->dir, to->keep, spec->train.keep_every, err);
    return smoe_comm_agree(to->comm, status, NULL, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int metadata_integer(const smoe_safetensors *file, const char *key, uint64_t *value,
                            smoe_err *err) {
    const char *text = smoe_safetensors_metadata(file, key);
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (digits && digits < 20 && !text[digits]) return *value = strtoull(text, NULL, 10), 0;
    return smoe_fail(err, SMOE_DATA, "%s: __metadata__ %s: %.40s is not a whole number",
                     smoe_safetensors_path(file), key, text ? text : "(absent)");
}

static int metadata_real(const smoe_safetensors *file, const char *key, double *value,
                         smoe_err *err) {
    const char *text = smoe_safetensors_metadata(file, key);
    json_auto_t *number = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    *value = json_number_value(number);
    if (json_is_number(number)) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: __metadata__ %s: %.40s is not a number",
                     smoe_safetensors_path(file), key, text ? text : "(absent)");
}

/* A precision is from 0 to 1, or -1 before the first evaluation. */
static int state_read(const smoe_safetensors *file, stored *s, smoe_err *err) {
    const char *path = smoe_safetensors_path(file);
    for (size_t i = 0; i < NUMBERS; i++)
        if ((numbers[i].always || smoe_safetensors_metadata(file, numbers[i].key)) &&
            metadata_integer(file, numbers[i].key, checkpoint_number_at(s, &numbers[i]), err))
            return -1;
    double *best = &s->state.best;
    if (metadata_real(file, "smoe.best", best, err)) return -1;
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i].step && *checkpoint_number_at(s, &numbers[i]) > s->state.step)
            return smoe_fail(err, SMOE_DATA,
                             "%s: __metadata__ %s: %" PRIu64 " is beyond the step, %" PRIu64, path,
                             numbers[i].key, *checkpoint_number_at(s, &numbers[i]), s->state.step);
    if (*best == -1 || (*best >= 0 && *best <= 1)) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: __metadata__ smoe.best: %g is neither -1 nor from 0 to 1",
                     path, *best);
}

/* Compares the data of a file with its checksum in the state, if there is one. */
static int crc_agrees(const smoe_safetensors *file, const smoe_safetensors *state, const char *key,
                      uint64_t want, smoe_err *err) {
    uint32_t have;
    size_t count = smoe_safetensors_count(file);
    if (!want) return 0;
    if (smoe_tensors_crc32(count ? smoe_safetensors_at(file, 0) : NULL, count, &have, err))
        return -1;
    if (have == want) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: its data is not what was saved (CRC-32 %" PRIu32 ", %s in %s is %" PRIu64
                     "): damaged, or from another checkpoint",
                     smoe_safetensors_path(file), have, key, smoe_safetensors_path(state), want);
}

/* The step in the metadata of a file must be that of its folder: a model and a state of different
 * steps are not a checkpoint. */
static int step_agrees(const smoe_safetensors *file, uint64_t step, smoe_err *err) {
    uint64_t found = 0;
    if (metadata_integer(file, "smoe.step", &found, err)) return -1;
    if (found == step) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: is of step %" PRIu64 ", not of step %" PRIu64,
                     smoe_safetensors_path(file), found, step);
}

static int file_open(smoe_safetensors **file, const char *dir, uint64_t step, const char *name,
                     smoe_err *err) {
    SMOE_FREED char *path = smoe_checkpoints_file(dir, step, name);
    if (smoe_safetensors_open(file, path, err)) return -1;
    return step_agrees(*file, step, err);
}

/* The files of a checkpoint, and which checksum in the state each has. */
static const char *const own[][2] = {{"model.safetensors", "smoe.model_crc32"},
                                     {"state.safetensors", "smoe.state_crc32"},
                                     {SMOE_CHECKPOINT_AVERAGE, "smoe.ema_crc32"}};

static const char *sum_key(const smoe_safetensors *file) {
    const char *name = basename(smoe_safetensors_path(file));
    for (size_t i = 0; i < SMOE_COUNT(own); i++)
        if (!strcmp(name, own[i][0])) return own[i][1];
    return NULL;
}

int smoe_checkpoint_check_step(const smoe_safetensors *file, smoe_err *err) {
    SMOE_FREED char *folder = smoe_file_folder(smoe_safetensors_path(file));
    SMOE_FREED char *path = realpath(folder, NULL); /* ckpt/latest is a link */
    const char *name = path ? basename(path) : "";
    if (!sum_key(file) || !smoe_checkpoint_named(name)) return 0;
    return step_agrees(file, strtoull(strchr(name, '_') + 1, NULL, 10), err);
}

int smoe_checkpoint_check(const smoe_safetensors *file, smoe_err *err) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *state = NULL;
    SMOE_FREED char *beside = smoe_file_beside(smoe_safetensors_path(file), "state.safetensors");
    const char *key = sum_key(file);
    uint64_t want = 0;
    if (smoe_checkpoint_check_step(file, err)) return -1;
    if (!key || smoe_safetensors_peek(&state, beside, NULL, NULL) ||
        !smoe_safetensors_metadata(state, key))
        return 0;
    return metadata_integer(state, key, &want, err) || crc_agrees(file, state, key, want, err) ? -1
                                                                                               : 0;
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
    stored read = {0};
    smoe_slab weights = {.prefix = ""}, averages = weights, slabs[2], checked[2];
    size_t count = smoe_params_moments(params, slabs);
    for (size_t i = 0; i < count; i++)
        checked[i] = (smoe_slab){.prefix = slabs[i].prefix, .table = slabs[i].table};
    if (smoe_checkpoints_own(dir, step, err) ||
        file_open(&model, dir, step, "model.safetensors", err) ||
        file_open(&moments, dir, step, "state.safetensors", err) ||
        state_read(moments, &read, err) || checkpoint_load(params, &weights, 1, model, err) ||
        checkpoint_load(params, checked, count, moments, err) ||
        crc_agrees(model, moments, "smoe.model_crc32", read.model, err) ||
        crc_agrees(moments, moments, "smoe.state_crc32", read.moments, err))
        return -1;
    if (params->average && (file_open(&average, dir, step, SMOE_CHECKPOINT_AVERAGE, err) ||
                            checkpoint_load(params, &weights, 1, average, err) ||
                            crc_agrees(average, moments, "smoe.ema_crc32", read.average, err)))
        return -1;
    if (!fill) return 0;
    weights.values = params->w;
    averages.values = params->average;
    if (checkpoint_load(params, &weights, 1, model, err) ||
        checkpoint_load(params, slabs, count, moments, err) ||
        (average && checkpoint_load(params, &averages, 1, average, err)))
        return -1;
    *state = read.state;
    return 0;
}

/* After a corrupt checkpoint: names the newest older one that is intact, and how to continue from
 * it. */
static void suggest_older(const char *dir, uint64_t bad, const smoe_params *params, smoe_err *err) {
    SMOE_FREED uint64_t *step = NULL;
    size_t count;
    if (smoe_checkpoints_list(&step, &count, dir, NULL)) return;
    for (size_t i = 0; i < count; i++) {
        if (step[i] >= bad || step_load(dir, step[i], params, false, NULL, NULL)) continue;
        smoe_fail_more(
            err, SMOE_DATA,
            "%s/ckpt/step_%08" PRIu64
            ": this older checkpoint is intact; to resume from it: ln -sfn step_%08" PRIu64
            " %s/ckpt/latest",
            dir, step[i], step[i], dir);
        return;
    }
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

int smoe_checkpoint_state(const char *dir, smoe_checkpoint *state, smoe_err *err) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    stored read = {0};
    uint64_t step = 0;
    int found = smoe_checkpoints_newest(dir, &step, err);
    if (found <= 0) return found;
    if (file_open(&file, dir, step, "state.safetensors", err) || state_read(file, &read, err))
        return -1;
    *state = read.state;
    return 1;
}
