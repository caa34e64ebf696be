/* What trials start from; see start.h. */
#include "sweep/start.h"
#include "base/file.h"
#include "sweep/trial.h"

#include <stdlib.h>
#include <string.h>

/* The value of "model.moe.k" in a resolved spec, borrowed. */
static const json_t *value_at(const json_t *spec, const char *key) {
    char part[64];
    while (spec && key) {
        const char *dot = strchr(key, '.');
        snprintf(part, sizeof part, "%.*s", (int)(dot ? (size_t)(dot - key) : strlen(key)), key);
        spec = json_object_get(spec, part);
        key = dot ? dot + 1 : NULL;
    }
    return spec;
}

/* The first column in which two trials differ, or NULL. */
static const char *differs(const smoe_sweep *from, const json_t *theirs, const json_t *ours) {
    for (size_t c = 0; c < from->columns; c++) {
        const json_t *a = value_at(theirs, from->column[c]), *b = value_at(ours, from->column[c]);
        if (a != b && !json_equal((json_t *)a, (json_t *)b)) return from->column[c];
    }
    return NULL;
}

/* The number of the only trial of `from` that agrees with a trial; SIZE_MAX with err. */
static size_t find(const smoe_sweep *from, const smoe_trial *trial, smoe_err *err) {
    size_t found = SIZE_MAX, count = 0;
    json_t *ours = json_loads(trial->spec, 0, NULL);
    for (size_t i = 0; i < from->trials; i++) {
        json_t *theirs = json_loads(from->trial[i].spec, 0, NULL);
        if (!differs(from, theirs, ours)) {
            found = i;
            count++;
        }
        json_decref(theirs);
    }
    json_decref(ours);
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

int smoe_start_set(smoe_sweep *sweep, const char *init, bool upcycle, smoe_err *err) {
    smoe_sweep from = {0};
    sweep->upcycle = upcycle;
    sweep->init = realpath(init, NULL);
    if (!sweep->init) return smoe_fail_errno(err, SMOE_DATA, "%s", init);
    if (!is_sweep(init)) return 0;
    int status = smoe_sweep_open(&from, init, err);
    for (size_t i = 0; i < sweep->trials && !status; i++)
        if (find(&from, &sweep->trial[i], err) == SIZE_MAX) status = -1;
    smoe_sweep_free(&from);
    return status;
}

char *smoe_start_of(const smoe_sweep *sweep, size_t i, smoe_err *err) {
    smoe_sweep from = {0};
    char *path = NULL;
    if (!is_sweep(sweep->init)) {
        path = strdup(sweep->init);
    } else {
        if (smoe_sweep_open(&from, sweep->init, err)) return NULL;
        size_t found = find(&from, &sweep->trial[i], err);
        if (found != SIZE_MAX) path = smoe_trial_dir(&from, found);
        smoe_sweep_free(&from);
        if (found == SIZE_MAX) return NULL;
    }
    if (!path) smoe_fail(err, SMOE_RUNTIME, "out of memory");
    return path;
}
