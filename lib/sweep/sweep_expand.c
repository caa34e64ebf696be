/* The trials that the axes of a sweep span; see sweep.h. Their folder is in sweep_folder.c. */
#include "bench/budget.h"
#include "base/alloc.h"
#include "sweep/sweep.h"
#include "sweep/trial.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIALS = 100000, NAME_ROOM = 120 };

/* ---- trials ---------------------------------------------------------------------------------- */

/* "003-experts=8,seed=1": the last part of each key, what file names should not hold replaced;
 * "start.k=1" of what it starts from. */
static char *trial_name(const smoe_sweep *sweep, const smoe_trial *trial, size_t index) {
    char name[NAME_ROOM];
    size_t used = (size_t)snprintf(name, sizeof name, "%03zu", index);
    for (size_t c = 0; c < sweep->columns && used < sizeof name; c++) {
        const char *dot = strrchr(sweep->column[c], '.');
        used += (size_t)snprintf(name + used, sizeof name - used, "%c%s%s=%s", c ? ',' : '-',
                                 smoe_spec_started(sweep->column[c]) ? SMOE_STARTED : "",
                                 dot ? dot + 1 : sweep->column[c], trial->value[c]);
    }
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_=,.+", *c)) *c = '_';
    return smoe_alloc_text(name);
}

/* The settings of a combination, for messages: "experts=8, seed=1". */
static void sweep_expand_describe(char *buf, size_t size, const smoe_sweep *sweep,
                                  const smoe_trial *trial) {
    size_t used = 0;
    snprintf(buf, size, "the only cell");
    for (size_t c = 0; c < sweep->columns && used < size; c++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s=%s", c ? " " : "", sweep->column[c],
                                 trial->value[c]);
}

static void trial_clear(smoe_trial *trial, size_t columns) {
    smoe_texts_free(trial->value, columns);
    free(trial->name);
    free(trial->spec);
    free(trial->outcomes);
    json_decref(trial->outcome);
    *trial = (smoe_trial){0};
}

void smoe_sweep_free(smoe_sweep *sweep) {
    for (size_t i = 0; i < sweep->trials; i++) trial_clear(&sweep->trial[i], sweep->columns);
    smoe_texts_free(sweep->column, sweep->columns);
    smoe_axis_clear(&sweep->evaluate);
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

static void columns_of(smoe_sweep *sweep, const smoe_axes *axes) {
    size_t columns = 0;
    sweep->seed = SIZE_MAX;
    for (size_t i = 0; i < axes->count; i++) columns += axes->axis[i].columns;
    sweep->column = smoe_alloc(columns + 1, sizeof *sweep->column);
    for (size_t i = 0; i < axes->count; i++)
        for (size_t c = 0; c < axes->axis[i].columns; c++) {
            if (!strcmp(axes->axis[i].column[c], "seed")) sweep->seed = sweep->columns;
            sweep->column[sweep->columns++] = smoe_alloc_text(axes->axis[i].column[c]);
        }
}

/* Combination `number`: the values of its trial, and its overrides behind the first `given`, which
 * are the caller's. Returns how many there are then. */
static size_t sweep_expand_combine(smoe_trial *trial, char **assign, size_t given,
                                   const smoe_axes *axes, size_t columns, size_t number) {
    trial->value = smoe_alloc(columns + 1, sizeof *trial->value);
    for (size_t i = axes->count; i-- > 0;) {
        const smoe_axis *axis = &axes->axis[i];
        const smoe_point *point = &axis->point[number % axis->points];
        number /= axis->points;
        columns -= axis->columns;
        for (size_t c = 0; c < axis->columns; c++)
            trial->value[columns + c] = smoe_alloc_text(point->value[c]);
        for (size_t o = 0; o < point->overrides; o++) assign[given++] = point->assign[o];
    }
    return given;
}

static json_t *blocks_json(const bool *picked, size_t depth) {
    json_t *list = json_array();
    for (size_t i = 0; i < depth; i++) json_array_append_new(list, json_boolean(picked[i]));
    return list;
}

/* Unlike the resolved spec, this form does not keep how blocks are written: last-1 of two is
 * [1]. It has what the trial starts from. */
static void hash_meaning(const smoe_sweep *sweep, smoe_trial *trial, json_t *json,
                         const smoe_model_spec *model) {
    json_t *moe = json_object_get(json_object_get(json, "model"), "moe");
    json_object_set_new(moe, "layers", blocks_json(model->moe.is_moe, model->depth));
    json_object_set_new(moe, "random_layers", blocks_json(model->moe.is_random, model->depth));
    for (size_t c = 0; c < sweep->columns; c++)
        if (smoe_spec_started(sweep->column[c]))
            json_object_set_new(json, sweep->column[c], json_string(trial->value[c]));
    free(smoe_trial_canonical(json, &trial->meaning));
}

/* ---- values without effect ------------------------------------------------------------------- */

/* Values that were given and have no effect in any trial so far. */
typedef struct idles {
    smoe_idle *item;
    size_t count;
    bool begun;
} idles;

static void idles_begin(idles *list, const smoe_spec *spec) {
    smoe_idle idle;
    list->begun = true;
    for (size_t at = 0; (at = smoe_spec_idle(spec, at, &idle));) {
        list->item = smoe_alloc_next(list->item, list->count, sizeof *list->item);
        list->item[list->count++] = idle;
    }
}

static bool idle_in(const smoe_spec *spec, const smoe_idle *which) {
    smoe_idle idle;
    for (size_t at = 0; (at = smoe_spec_idle(spec, at, &idle));)
        if (!strcmp(idle.key, which->key) && idle.overridden == which->overridden) return true;
    return false;
}

/* Adds a trial: values that have an effect in it are no longer idle. */
static void idles_add(idles *list, const smoe_spec *spec) {
    size_t kept = 0;
    if (!list->begun) idles_begin(list, spec);
    for (size_t i = 0; i < list->count; i++)
        if (idle_in(spec, &list->item[i])) list->item[kept++] = list->item[i];
    list->count = kept;
}

/* Overrides and swept keys without effect in any trial are errors; values of the file are
 * remarks. */
static int idles_judge(smoe_sweep *sweep, const idles *list, const char *label, smoe_err *err) {
    int status = 0;
    for (size_t i = 0; i < list->count; i++) {
        const smoe_idle *idle = &list->item[i];
        if (idle->overridden) {
            status = smoe_fail_more(err, SMOE_USAGE, "%s: has no effect in any cell: %s", idle->key,
                                    idle->why);
            continue;
        }
        smoe_text_add(&sweep->remarks, "%s:%zu:%zu: %s: has no effect in any cell: %s\n", label,
                      idle->line, idle->column, idle->key, idle->why);
    }
    return status;
}

/* ---- resolving trials ------------------------------------------------------------------------ */

/* Resolves a combination: 1 a trial, 0 no valid spec, its first mistake added to err; -1. */
static int sweep_expand_resolve(smoe_sweep *sweep, smoe_trial *trial, const smoe_spec_text *from,
                                char *const *assign, size_t overrides, idles *idle, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    smoe_err own = {0};
    char what[400], shown[400];
    if (smoe_budget_parse(&spec, from, assign, overrides, &own)) {
        sweep_expand_describe(what, sizeof what, sweep, trial);
        smoe_fail_more(err, own.code, "%s: %.*s", smoe_text_shown(what, shown, sizeof shown),
                       (int)strcspn(own.text, "\n"), own.text);
        return own.code == SMOE_USAGE ? 0 : -1;
    }
    SMOE_FREED char *text = smoe_spec_json(&spec);
    json_auto_t *json = json_loads(text, 0, NULL);
    if (!sweep->name) sweep->name = smoe_alloc_text(spec.name);
    smoe_trial_set_spec(trial, json);
    hash_meaning(sweep, trial, json, &spec.model);
    idles_add(idle, &spec);
    return 1;
}

/* No trial may occur twice, however its values are written: seed 00 beside seed 0 would count as a
 * second seed without deviation. Resolved specs have every key, so trials that merely have the same
 * results, such as those without experts for any router, remain different. */
static int check_distinct(const smoe_sweep *sweep, smoe_err *err) {
    char what[2][200], shown[2][200];
    for (size_t i = 0; i < sweep->trials; i++)
        for (size_t k = 0; k < i; k++) {
            const smoe_trial *a = &sweep->trial[k], *b = &sweep->trial[i];
            if (a->meaning != b->meaning) continue;
            sweep_expand_describe(what[0], sizeof *what, sweep, a);
            sweep_expand_describe(what[1], sizeof *what, sweep, b);
            return smoe_fail(err, SMOE_USAGE, "%s and %s are the same: a value is given twice",
                             smoe_text_shown(what[0], shown[0], sizeof *shown),
                             smoe_text_shown(what[1], shown[1], sizeof *shown));
        }
    return 0;
}

int smoe_sweep_expand(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_axes *axes, bool skip, size_t *skipped,
                      smoe_err *err) {
    size_t trials = 1, longest = count;
    smoe_spec_text cells = *text;
    idles idle = {0};
    cells.of_cells = true;
    *sweep = (smoe_sweep){0};
    *skipped = 0;
    *err = (smoe_err){0};
    for (size_t i = 0; i < axes->count; i++) {
        size_t most = 0;
        trials *= axes->axis[i].points;
        for (size_t p = 0; p < axes->axis[i].points; p++)
            if (axes->axis[i].point[p].overrides > most) most = axes->axis[i].point[p].overrides;
        longest += most;
        if (trials > MOST_TRIALS)
            return smoe_fail(err, SMOE_USAGE, "more than %d cells", MOST_TRIALS);
    }
    char **assign = smoe_alloc(longest + 1, sizeof *assign);
    sweep->trial = smoe_alloc(trials + 1, sizeof *sweep->trial);
    int status = 0;
    columns_of(sweep, axes);
    for (size_t i = 0; i < count && !status; i++) assign[i] = overrides[i];
    for (size_t number = 0; number < trials && !status; number++) {
        smoe_trial *trial = &sweep->trial[sweep->trials];
        size_t n = sweep_expand_combine(trial, assign, count, axes, sweep->columns, number);
        int good = sweep_expand_resolve(sweep, trial, &cells, assign, n, &idle, err);
        if (good == 1) trial->name = trial_name(sweep, trial, number);
        if (good < 1) trial_clear(trial, sweep->columns);
        sweep->trials += good == 1;
        *skipped += good == 0;
        status = good < 0 ? -1 : 0;
    }
    free(assign);
    if (!status && !(*skipped && !skip)) status = idles_judge(sweep, &idle, text->label, err);
    free(idle.item);
    if (status || (*skipped && !skip)) return -1;
    if (!sweep->trials) return smoe_fail_more(err, SMOE_USAGE, "no combination is left");
    return check_distinct(sweep, err);
}
