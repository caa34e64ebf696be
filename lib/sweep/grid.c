/* From the command line to the trials of a sweep; see sweep.h. Their folder is in
 * sweep_folder.c. */
#include "bench/cost.h"
#include "sweep/evaluations.h"
#include "sweep/trial.h"

#include <ctype.h>

enum { MOST_TRIALS = 100000, NAME_ROOM = 120, SHOWN = 400 };

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
static const char *describe_trial(const smoe_sweep *sweep, const smoe_trial *trial,
                                  char buf[SHOWN]) {
    SMOE_FREED char *text = NULL;
    for (size_t c = 0; c < sweep->columns; c++)
        smoe_text_add(&text, "%s%s=%s", c ? " " : "", sweep->column[c], trial->value[c]);
    return smoe_text_shown(text ? text : "the only cell", buf, SHOWN);
}

/* ---- values without effect ------------------------------------------------------------------- */

/* Values that were given and have no effect in any trial so far. */
typedef struct idles {
    smoe_idle *item;
    size_t count;
    bool begun;
} idles;

static bool idle_in(const smoe_spec *spec, const smoe_idle *which) {
    smoe_idle idle;
    for (size_t at = 0; (at = smoe_spec_idle(spec, at, &idle));)
        if (!strcmp(idle.key, which->key) && idle.overridden == which->overridden) return true;
    return false;
}

/* Adds a trial: values that have an effect in it are no longer idle. */
static void idles_add(idles *list, const smoe_spec *spec) {
    size_t kept = 0;
    smoe_idle idle;
    for (size_t at = 0; !list->begun && (at = smoe_spec_idle(spec, at, &idle));) {
        SMOE_APPEND(list->item, list->count) = idle;
    }
    list->begun = true;
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
static int resolve_trial(smoe_sweep *sweep, smoe_trial *trial, const smoe_spec_text *from,
                         char *const *assign, size_t overrides, idles *idle, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    smoe_err own = {0};
    char shown[SHOWN];
    if (smoe_budget_parse(&spec, from, assign, overrides, &own)) {
        smoe_fail_more(err, own.code, "%s: %.*s", describe_trial(sweep, trial, shown),
                       (int)strcspn(own.text, "\n"), own.text);
        return own.code == SMOE_USAGE ? 0 : -1;
    }
    json_auto_t *json = smoe_spec_object(&spec);
    if (!sweep->name) sweep->name = smoe_alloc_text(spec.name);
    smoe_trial_set_spec(trial, json);
    for (size_t c = 0; c < sweep->columns; c++) /* its meaning includes what it starts from */
        if (smoe_spec_started(sweep->column[c]))
            json_object_set_new(json, sweep->column[c], json_string(trial->value[c]));
    trial->meaning = smoe_trial_meaning(json, &spec.model);
    idles_add(idle, &spec);
    return 1;
}

/* No trial may occur twice, however its values are written: seed 00 beside seed 0 would count as a
 * second seed without deviation. Resolved specs have every key, so trials that merely have the same
 * results, such as those without experts for any router, remain different. */
static int check_distinct(const smoe_sweep *sweep, smoe_err *err) {
    char shown[2][SHOWN];
    for (size_t i = 0; i < sweep->trials; i++)
        for (size_t k = 0; k < i; k++) {
            const smoe_trial *a = &sweep->trial[k], *b = &sweep->trial[i];
            if (a->meaning != b->meaning) continue;
            return smoe_fail(err, SMOE_USAGE, "%s and %s are the same: a value is given twice",
                             describe_trial(sweep, a, shown[0]),
                             describe_trial(sweep, b, shown[1]));
        }
    return 0;
}

int smoe_sweep_expand(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_sweep_keys *keys, bool skip, smoe_err *err) {
    SMOE_FREED_BY(smoe_points_free) smoe_points all = {0};
    smoe_spec_text cells = *text;
    idles idle = {0};
    int status = 0;
    cells.of_cells = true;
    *sweep = (smoe_sweep){.seed = SIZE_MAX};
    *err = (smoe_err){0};
    if (!smoe_axes_product(&all, keys, MOST_TRIALS))
        return smoe_fail(
            err, SMOE_USAGE,
            "more than %d cells; give fewer values, or divide them over several sweeps",
            MOST_TRIALS);
    sweep->trial = smoe_alloc(all.points + 1, sizeof *sweep->trial);
    sweep->column = smoe_texts_copy((const char *const *)all.column, all.columns);
    sweep->columns = all.columns;
    sweep->seed = smoe_sweep_column(sweep, "seed");
    for (size_t number = 0; number < all.points && !status; number++) {
        smoe_trial *trial = &sweep->trial[sweep->trials];
        SMOE_FREED char **assign = smoe_alloc(count + all.columns + SMOE_AXES_MORE, sizeof *assign);
        for (size_t i = 0; i < count; i++) assign[i] = overrides[i];
        size_t own = smoe_axes_assign(assign + count, &all, number);
        trial->value = all.value[number];
        all.value[number] = NULL;
        int good = resolve_trial(sweep, trial, &cells, assign, count + own, &idle, err);
        while (own) free(assign[count + --own]);
        if (good == 1) trial->name = trial_name(sweep, trial, number);
        if (good < 1) smoe_trial_clear(trial, sweep->columns);
        sweep->trials += good == 1;
        sweep->skipped += good == 0;
        status = good < 0 ? -1 : 0;
    }
    if (!status && !(sweep->skipped && !skip)) status = idles_judge(sweep, &idle, text->label, err);
    free(idle.item);
    if (status || (sweep->skipped && !skip)) return -1;
    if (!sweep->trials) return smoe_fail_more(err, SMOE_USAGE, "no valid combination is left");
    return check_distinct(sweep, err);
}

/* ---- from the command line ------------------------------------------------------------------- */

/* The overrides of the trials, and those of their evaluations without the prefix. */
typedef struct lists {
    smoe_alloc_pool memory;
    char **own, **later; /* borrowed */
    size_t owns, laters;
    char **plain; /* of own, those without a list; then of later */
    size_t plains;
    smoe_sweep_keys axes, points; /* of the trials, and of their evaluations */
} lists;

static void lists_open(lists *l, char *const *overrides, size_t count) {
    size_t prefix = strlen(SMOE_EVALUATED);
    l->own = smoe_alloc_in(&l->memory, count + 1, sizeof *l->own);
    l->later = smoe_alloc_in(&l->memory, count + 1, sizeof *l->later);
    l->plain = smoe_alloc_in(&l->memory, count + 1, sizeof *l->plain);
    for (size_t i = 0; i < count; i++) {
        char *text = overrides[i];
        if (strncmp(text, SMOE_EVALUATED, prefix))
            l->own[l->owns++] = text;
        else
            l->later[l->laters++] = text + prefix;
    }
}

static void lists_free(lists *l) {
    smoe_spec_keys_clear(&l->axes);
    smoe_spec_keys_clear(&l->points);
    smoe_alloc_pool_free(&l->memory);
}

static int make_trials(smoe_sweep *sweep, const smoe_spec_text *text, lists *l, bool skip,
                       smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec base = {0};
    smoe_spec_text common = *text;
    smoe_err own = {0};
    common.of_cells = true;
    int status = smoe_sweep_expand(sweep, text, l->plain, l->plains, &l->axes, skip, err);
    /* A mistake that every trial has is reported once. */
    if (status && sweep->skipped && !sweep->trials &&
        smoe_spec_parse(&base, &common, l->plain, l->plains, &own))
        *err = own;
    else if (status && sweep->skipped && l->axes.count && !skip)
        smoe_fail_more(err, SMOE_USAGE, "%zu combination%s not valid; --skip-invalid leaves %s out",
                       sweep->skipped, sweep->skipped == 1 ? " is" : "s are",
                       sweep->skipped == 1 ? "it" : "them");
    return status;
}

int smoe_grid_of_spec(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_grid_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(lists_free) lists l = {0};
    /* A spec that is invalid by itself may be valid in every trial. But mistakes in its section
     * `sweep`, or a file that is not a spec, are always errors. */
    if (smoe_spec_parse(&spec, text, NULL, 0, err) &&
        (spec.sweep.bad || err->code != SMOE_USAGE || !spec.origin))
        return -1;
    lists_open(&l, overrides, count);
    size_t single = 0;
    if (smoe_axes_of(&l.points, &spec.sweep.evaluate, l.later, l.laters, l.plain, &single, err))
        return -1;
    if (single)
        return smoe_fail(err, SMOE_USAGE, "override %s%s: give two or more values, as in a,b",
                         SMOE_EVALUATED, l.plain[0]);
    if (smoe_axes_of(&l.axes, &spec.sweep.train, l.own, l.owns, l.plain, &l.plains, err)) return -1;
    bool nothing = !l.axes.count && !l.points.count;
    if (make_trials(sweep, text, &l, options->skip_invalid, err)) return -1;
    if (nothing)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: nothing to sweep: give it a section sweep, or key=a,b,c",
                         text->label);
    if (l.points.count && smoe_evaluations_plan(sweep, &l.points, err)) return -1;
    sweep->figure = spec.sweep.figure;
    spec.sweep.figure = (smoe_sweep_figure){0};
    if (smoe_sweep_set_plan(sweep, &spec.sweep.plan, err)) return -1;
    if (spec.sweep.reference && !options->referred &&
        smoe_sweep_refer(sweep, spec.sweep.reference, spec.sweep.reference_from, err))
        return -1;
    if (!options->init && options->planned) return 0;
    if (smoe_start_set(sweep, options->init, &options->start, err)) return -1;
    return options->join ? 0 : smoe_start_check(sweep, NULL, err);
}

int smoe_grid_of_run(smoe_sweep *sweep, const char *dir, char *const *overrides, size_t count,
                     smoe_err *err) {
    static const smoe_sweep_keys none = {0};
    SMOE_FREED_BY(lists_free) lists l = {0};
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text spec = {0};
    SMOE_FREED char *file = smoe_text_format("%s/spec.yaml", dir);
    lists_open(&l, overrides, count);
    if (l.laters)
        return smoe_fail(err, SMOE_USAGE,
                         "%s%s: %s is a run, which is evaluated and not trained; leave out %s",
                         SMOE_EVALUATED, l.later[0], dir, SMOE_EVALUATED);
    if (smoe_axes_of(&l.points, &none, l.own, l.owns, l.plain, &l.plains, err)) return -1;
    if (!l.points.count)
        return smoe_fail(err, SMOE_USAGE, "%s: nothing to sweep: give key=a,b,c", dir);
    if (smoe_spec_text_read(&spec, file, err) ||
        smoe_sweep_expand(sweep, &spec, l.plain, l.plains, &none, false, err))
        return -1;
    if (!(sweep->run = realpath(dir, NULL))) return smoe_fail_errno(err, SMOE_RUNTIME, "%s", dir);
    return smoe_kept_find(sweep, err) ? -1 : smoe_evaluations_plan(sweep, &l.points, err);
}
