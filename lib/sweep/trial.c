/*
 * Trials of a sweep that has a folder; see trial.h. The state of a trial is in a file of its own,
 * written by the process that holds its claim.
 */
#include "sweep/trial.h"
#include "base/digest.h"
#include "base/json.h"
#include "spec/schema.h"
#include "store/run.h"
#include "store/run_files.h"

size_t smoe_sweep_column(const smoe_sweep *sweep, const char *key) {
    for (size_t c = 0; key && c < sweep->columns; c++)
        if (!strcmp(sweep->column[c], key)) return c;
    return SIZE_MAX;
}

/* ---- files that hold their digest ------------------------------------------------------------ */

static const char MARK[] = "\"xxh3\": \"";

int smoe_sealed_write(const char *path, json_t *object, smoe_err *err) {
    json_object_set_new(object, "xxh3", json_string(SMOE_DIGEST_ZEROS));
    SMOE_FREED char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    smoe_digest_seal(text, strlen(text), strlen(text), MARK);
    return smoe_file_write(path, text, strlen(text), err);
}

json_t *smoe_sealed_parse(const char *text, size_t size, const char *path, bool *sealed,
                          smoe_err *err) {
    json_error_t error;
    smoe_seal seal = smoe_digest_sealed(text, size, size, MARK);
    json_t *value = json_loadb(text, size, 0, &error);
    *sealed = seal == SMOE_SEAL_RIGHT;
    if (value && seal != SMOE_SEAL_WRONG) return value;
    if (!value)
        smoe_fail(err, SMOE_DATA, "%s:%d: %s; remove the file to compute it again", path,
                  error.line, error.text);
    else
        smoe_fail(err, SMOE_DATA,
                  "%s: changed since it was written: its digest is another; "
                  "remove the file to compute it again",
                  path);
    json_decref(value);
    return NULL;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

enum { OUTCOME_MOST = 1 << 20 };

char *smoe_trial_dir(const smoe_sweep *sweep, size_t i) {
    return sweep->run ? smoe_alloc_text(sweep->run)
                      : smoe_text_format("%s/%s", sweep->dir, sweep->trial[i].name);
}

char *smoe_trial_outcomes(const smoe_sweep *sweep, size_t i) {
    if (sweep->trial[i].outcomes) return smoe_alloc_text(sweep->trial[i].outcomes);
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
    return smoe_text_format("%s/" SMOE_RUN_OUTCOMES, dir);
}

static char *claim_path(const smoe_sweep *sweep, size_t i, const char *suffix) {
    return smoe_text_format("%s/claims/%s.%s", sweep->dir, sweep->trial[i].name, suffix);
}

int smoe_trial_claim(const smoe_sweep *sweep, size_t i, smoe_claim *claim, unsigned lease,
                     smoe_claim_seen *seen, smoe_err *err) {
    SMOE_FREED char *path = claim_path(sweep, i, "claim");
    SMOE_FREED char *claims = smoe_text_format("%s/claims", sweep->dir);
    /* The folder is missing if a removal was interrupted, or if the sweep was copied without it:
     * then no cell is claimed or done. */
    return smoe_file_make_folder(claims, err) ? -1 : smoe_claim_take(claim, path, lease, seen, err);
}

char *smoe_trial_holder(const smoe_sweep *sweep, size_t i) {
    SMOE_FREED char *path = claim_path(sweep, i, "claim");
    return smoe_claim_holder(path);
}

int smoe_trial_look(smoe_sweep *sweep, size_t i, smoe_err *err) {
    smoe_trial *trial = &sweep->trial[i];
    SMOE_FREED char *path = claim_path(sweep, i, "json"), *text = NULL;
    size_t size = 0;
    json_decref(trial->outcome);
    trial->outcome = NULL;
    trial->state = SMOE_TRIAL_OPEN;
    trial->sealed = false;
    if (smoe_file_is_absent(path)) return 0;
    if (smoe_file_read(path, OUTCOME_MOST, &text, &size, err) ||
        !(trial->outcome = smoe_sealed_parse(text, size, path, &trial->sealed, err)))
        return -1;
    const char *word = json_string_value(json_object_get(trial->outcome, "status"));
    if (word && !strcmp(word, "done")) trial->state = SMOE_TRIAL_DONE;
    if (word && !strcmp(word, "failed")) trial->state = SMOE_TRIAL_FAILED;
    if (trial->state != SMOE_TRIAL_OPEN) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: does not say how the cell ended; remove it to run the cell again", path);
}

int smoe_trial_finish(const smoe_sweep *sweep, size_t i, json_t *outcome, smoe_err *err) {
    SMOE_FREED char *path = claim_path(sweep, i, "json");
    int status = smoe_sealed_write(path, outcome, err);
    json_decref(outcome);
    return status;
}

json_t *smoe_trial_failure(int code, const char *error) {
    return json_pack("{s:s, s:i, s:o}", "status", "failed", "code", code, "error",
                     smoe_json_text(error));
}

void smoe_trial_clear(smoe_trial *trial, size_t columns) {
    smoe_texts_free(trial->value, columns);
    free(trial->name);
    free(trial->spec);
    free(trial->outcomes);
    json_decref(trial->outcome);
    *trial = (smoe_trial){0};
}

void smoe_sweep_free(smoe_sweep *sweep) {
    for (size_t i = 0; i < sweep->trials; i++) smoe_trial_clear(&sweep->trial[i], sweep->columns);
    smoe_texts_free(sweep->column, sweep->columns);
    smoe_points_free(&sweep->evaluate);
    smoe_spec_figure_clear(&sweep->figure);
    free(sweep->reference);
    smoe_spec_sweep_plan_clear(&sweep->plan);
    free(sweep->trial);
    free(sweep->run);
    free(sweep->checkpoint);
    free(sweep->init);
    free(sweep->remarks);
    free(sweep->name);
    free(sweep->dir);
    *sweep = (smoe_sweep){0};
}

/* ---- hashes ---------------------------------------------------------------------------------- */

static const uint64_t HASH_START = 14695981039346656037u;

/* FNV-1a, continued from h. It protects a manifest against accidents of an editor or of memory, not
 * against intent, so no cryptographic hash is needed. */
static uint64_t hash_of(const char *text, uint64_t h) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* The one form of a resolved spec that is stored, hashed and compared, fresh; NULL of no spec. */
static char *trial_canonical(const json_t *spec, uint64_t *hash) {
    char *text =
        spec ? json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    if (text) *hash = hash_of(text, HASH_START);
    return text;
}

int smoe_trial_set_spec(smoe_trial *trial, const json_t *spec) {
    trial->spec = trial_canonical(spec, &trial->hash);
    return trial->spec ? 0 : -1;
}

static json_t *blocks_json(const bool *picked, size_t depth) {
    json_t *list = json_array();
    for (size_t i = 0; i < depth; i++) json_array_append_new(list, json_boolean(picked[i]));
    return list;
}

uint64_t smoe_trial_meaning(json_t *spec, const smoe_model_spec *model) {
    json_t *moe = smoe_json_at(spec, "model.moe");
    uint64_t meaning = 0;
    json_object_set_new(moe, "layers", blocks_json(model->moe.is_moe, model->depth));
    json_object_set_new(moe, "random_layers",
                        blocks_json(model->moe.random.is_random, model->depth));
    free(trial_canonical(spec, &meaning));
    return meaning;
}

int smoe_trial_parse(smoe_spec *spec, const smoe_trial *trial, smoe_err *err) {
    return smoe_spec_parse(spec, &(smoe_spec_text){.text = trial->spec, .label = trial->name}, NULL,
                           0, err);
}

bool smoe_trial_same(const smoe_trial *was, const smoe_trial *is) {
    if (was->hash == is->hash) return true;
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    uint64_t hash = 0;
    if (smoe_trial_parse(&spec, was, NULL)) return false;
    json_auto_t *json = smoe_spec_object(&spec);
    SMOE_FREED char *now = trial_canonical(json, &hash);
    return now && hash == is->hash;
}

char *smoe_trial_differs(const smoe_sweep *sweep, size_t i) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec cell = {0};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec run = {0};
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i), *path = smoe_text_format("%s/spec.yaml", dir);
    char *names = NULL;
    smoe_err ignored;
    if (smoe_trial_parse(&cell, &sweep->trial[i], &ignored) ||
        smoe_spec_read(&run, path, NULL, 0, &ignored))
        return NULL;
    json_auto_t *wanted = smoe_spec_object(&cell), *found = smoe_spec_object(&run);
    for (size_t k = 0; k < SMOE_SCHEMA_COUNT; k++) {
        const char *key = smoe_schema[k].key;
        /* a sweep that evaluates a run may do so on other data, and the run may go on after it */
        bool decides = smoe_sweep_column(sweep, key) < SIZE_MAX ||
                       (!sweep->run && (!strcmp(key, "train.steps") || !smoe_run_spec_free(key)));
        if (decides && smoe_schema[k].kind != SMOE_KIND_PATH &&
            (smoe_spec_acts(&cell, key) || smoe_spec_acts(&run, key)) &&
            !json_equal(smoe_json_at(wanted, key), smoe_json_at(found, key)))
            smoe_text_add(&names, "%s%s", names ? " " : "", key);
    }
    return names;
}

int smoe_trial_check_all(const smoe_sweep *sweep, smoe_err *err) {
    for (size_t i = 0; i < sweep->trials; i++) {
        if (sweep->trial[i].state != SMOE_TRIAL_DONE) continue;
        SMOE_FREED char *names = smoe_trial_differs(sweep, i);
        if (!names || !strcmp(names, "train.steps")) continue; /* its outcome is that of before */
        SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
        return smoe_fail(err, SMOE_DATA,
                         "%s: the run of another cell: its spec.yaml has another %s; remove it and "
                         "%s/claims/%s.json to train the cell again",
                         dir, names, sweep->dir, sweep->trial[i].name);
    }
    return 0;
}

size_t smoe_trial_number(const smoe_trial *trial) {
    return (size_t)strtoull(trial->name, NULL, 10);
}

uint64_t smoe_trial_hash_values(const smoe_sweep *sweep, const smoe_trial *trial) {
    uint64_t h = HASH_START;
    for (size_t c = 0; c < sweep->columns; c++) {
        h = hash_of(sweep->column[c], h);
        h = hash_of("=", h);
        h = hash_of(trial->value[c], h);
        h = hash_of("\n", h);
    }
    return h;
}

/* ---- which trials a process runs ------------------------------------------------------------- */

/* Takes the trials of one part of the list, "17" or "17-20". */
static int choose_part(smoe_sweep *sweep, const char *part, smoe_err *err) {
    unsigned long long first = 0, last = 0;
    int end = 0, numbers = sscanf(part, "%llu%n-%llu%n", &first, &end, &last, &end);
    bool plain = !part[strspn(part, "0123456789-")] && *part != '-' && !strstr(part, "--");
    bool begins = false, ends = false;
    if (numbers == 1) last = first;
    if (!plain || numbers < 1 || part[end] || first > last)
        return smoe_fail(err, SMOE_USAGE,
                         "--cells: '%s': expected the numbers of cells, as 3,17-20; --dry-run and "
                         "--status list them",
                         part);
    for (size_t i = 0; i < sweep->trials; i++) {
        unsigned long long n = smoe_trial_number(&sweep->trial[i]);
        if (n < first || n > last) continue;
        sweep->trial[i].left_out = false;
        begins |= n == first;
        ends |= n == last;
    }
    if (begins && ends) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "--cells: '%s': %s has no cell %llu; --dry-run and --status list its cells",
                     part, sweep->name, begins ? last : first);
}

int smoe_choose_trials(smoe_sweep *sweep, const char *list, smoe_err *err) {
    SMOE_FREED char *copy = smoe_alloc_text(list);
    for (size_t i = 0; i < sweep->trials; i++) sweep->trial[i].left_out = true;
    for (char *rest = copy, *part; (part = strsep(&rest, ","));)
        if (choose_part(sweep, part, err)) return -1;
    return 0;
}

size_t smoe_trial_count(const smoe_sweep *sweep, smoe_trial_state state, bool all) {
    size_t count = 0;
    for (size_t i = 0; i < sweep->trials; i++)
        count += sweep->trial[i].state == state && (all || !sweep->trial[i].left_out);
    return count;
}

size_t smoe_choose_count(const smoe_sweep *sweep) {
    size_t chosen = 0;
    for (size_t i = 0; i < sweep->trials; i++) chosen += !sweep->trial[i].left_out;
    return chosen;
}
