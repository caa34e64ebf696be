/* What trials start from; see sweep.h. */
#include "sweep/sweep.h"
#include "store/implied.h"
#include "store/run.h"
#include "sweep/axes.h"
#include "sweep/trial.h"
#include "tensors/params_io.h"
#include "train/moments_init.h"
#include "vit/model.h"

/* What a spec has in a column. That of the rows of an ablation is no key: they are routers, and the
 * spec without MoE layers. */
static const json_t *value_in(const json_t *spec, const char *column) {
    const json_t *layers = smoe_json_at(spec, "model.moe.layers");
    if (strcmp(column, SMOE_ABLATED)) return smoe_json_at(spec, column);
    return json_is_string(layers) && !strcmp(json_string_value(layers), "none")
               ? layers
               : smoe_json_at(spec, "model.moe.router");
}

/* Whether trial i of `from` is what a trial, with the spec `ours`, starts from: its values are
 * those that the trial has for its start, or else in its own spec. */
static bool is_start(const smoe_sweep *from, size_t i, const smoe_sweep *sweep,
                     const smoe_trial *trial, const json_t *ours) {
    json_auto_t *theirs = json_loads(from->trial[i].spec, 0, NULL);
    for (size_t c = 0; c < from->columns; c++) {
        const char *key = from->column[c];
        size_t chosen = SIZE_MAX; /* the column that chooses the start by this key */
        for (size_t k = 0; k < sweep->columns && chosen == SIZE_MAX; k++) {
            const char *started = smoe_spec_started(sweep->column[k]);
            if (started && !strcmp(started, key)) chosen = k;
        }
        const json_t *a = value_in(theirs, key), *b = value_in(ours, key);
        if (chosen != SIZE_MAX ? strcmp(trial->value[chosen], from->trial[i].value[c]) != 0
                               : a != b && !json_equal((json_t *)a, (json_t *)b))
            return false;
    }
    return true;
}

/* The number of the only trial of `from` that a trial can start from; SIZE_MAX with err. */
static size_t start_find(const smoe_sweep *from, const smoe_sweep *sweep, const smoe_trial *trial,
                         smoe_err *err) {
    size_t found = SIZE_MAX, count = 0;
    json_auto_t *ours = json_loads(trial->spec, 0, NULL);
    for (size_t i = 0; i < from->trials; i++)
        if (is_start(from, i, sweep, trial, ours)) {
            found = i;
            count++;
        }
    if (count == 1 && from->trial[found].state == SMOE_TRIAL_DONE) return found;
    if (!count)
        smoe_fail(err, SMOE_USAGE, "%s: no cell has the settings of cell %s", from->dir,
                  trial->name);
    else if (count > 1)
        smoe_fail(err, SMOE_USAGE, "%s: %zu cells have the settings of cell %s", from->dir, count,
                  trial->name);
    else
        smoe_fail(err, SMOE_USAGE, "%s: cell %s, which cell %s starts from, has not finished",
                  from->dir, from->trial[found].name, trial->name);
    return SIZE_MAX;
}

static bool is_sweep(const char *path) {
    return smoe_file_is_folder(path) && smoe_file_holds(path, "cells.jsonl");
}

smoe_fit smoe_start_fit(const smoe_sweep *sweep, const smoe_spec *spec) {
    if (sweep->start.partial) return SMOE_FIT_PARTIAL;
    return spec->model.moe.layer_count && sweep->start.upcycle ? SMOE_FIT_UPCYCLE : SMOE_FIT_INIT;
}

/* Whether a trial can start from the file. */
static int start_fits(const smoe_sweep *sweep, const smoe_spec *spec, const smoe_safetensors *file,
                      smoe_err *err) {
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    smoe_fit fit = smoe_start_fit(sweep, spec);
    /* Some number that the spec allows. The data say which it is, and it does not matter here: a
     * head for another number is no error. */
    size_t listed = spec->model.moe.balance.superclasses.count;
    size_t classes = spec->data.classes ? spec->data.classes : listed ? listed : 2;
    if (smoe_model_create(&model, spec, classes, err) ||
        smoe_params_check(smoe_model_params(model), file, fit, err) ||
        (fit != SMOE_FIT_PARTIAL && smoe_implied_check(spec, file, false, err)))
        return -1;
    return sweep->start.moments ? smoe_moments_init_check(file, spec, fit, err) : 0;
}

/* Checks that trial i can start from its model. *file stays open for the next trial; *from is its
 * path. */
static int check_start(const smoe_sweep *sweep, size_t i, char **from, smoe_safetensors **file,
                       smoe_err *err) {
    const smoe_trial *trial = &sweep->trial[i];
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED char *start = smoe_start_of(sweep, i, err);
    bool open = start && *from && !strcmp(start, *from);
    if (start && !open) {
        smoe_safetensors_free(*file);
        smoe_text_set(from, start);
        *file = NULL;
    }
    if (start && (open || !smoe_run_model(file, start, NULL, &sweep->start.choice, err)) &&
        !smoe_trial_parse(&spec, trial, err) && !start_fits(sweep, &spec, *file, err))
        return 0;
    return smoe_fail_prefix(err, "%s", trial->name);
}

/* Checks that `from`, empty where trials do not start from a sweep, varies every key that chooses
 * what they start from. */
static int check_chosen(const smoe_sweep *sweep, const smoe_sweep *from, smoe_err *err) {
    for (size_t c = 0; c < sweep->columns; c++) {
        const char *key = smoe_spec_started(sweep->column[c]);
        if (key && smoe_sweep_column(from, key) == SIZE_MAX)
            return smoe_fail(err, SMOE_USAGE,
                             "%s: needs --init with the folder of a sweep that varies %s",
                             sweep->column[c], key);
    }
    return 0;
}

int smoe_start_set(smoe_sweep *sweep, const char *init, const smoe_start *how, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep from = {0};
    sweep->start = *how;
    if (init && !(sweep->init = realpath(init, NULL)))
        return smoe_fail_errno(err, SMOE_DATA, "%s", init);
    bool sweeps = init && is_sweep(init);
    if ((sweeps && smoe_sweep_open(&from, init, err)) || check_chosen(sweep, &from, err)) return -1;
    for (size_t i = 0; i < sweep->trials && sweeps; i++)
        if (start_find(&from, sweep, &sweep->trial[i], err) == SIZE_MAX) return -1;
    return 0;
}

int smoe_start_check(const smoe_sweep *sweep, const char *dir, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep old = {0};
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    SMOE_FREED char *path = NULL;
    bool more = sweep->init && dir && smoe_file_holds(dir, "cells.jsonl");
    if (more && smoe_sweep_open(&old, dir, err)) return -1;
    for (size_t i = 0, k; i < sweep->trials && sweep->init; i++) {
        for (k = 0; k < old.trials && !smoe_trial_same(&old.trial[k], &sweep->trial[i]);) k++;
        if (k == old.trials && check_start(sweep, i, &path, &file, err)) return -1;
    }
    return 0;
}

char *smoe_start_of(const smoe_sweep *sweep, size_t i, smoe_err *err) {
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep from = {0};
    if (!is_sweep(sweep->init)) return smoe_alloc_text(sweep->init);
    if (smoe_sweep_open(&from, sweep->init, err)) return NULL;
    size_t found = start_find(&from, sweep, &sweep->trial[i], err);
    return found == SIZE_MAX ? NULL : smoe_trial_dir(&from, found);
}
