/* The trials of a grid; see grid.h. */
#include "sweep/grid.h"
#include "base/alloc.h"
#include "sweep/kept.h"
#include "sweep/sweep_plan.h"
#include "sweep/start.h"
#include "sweep/evaluations.h"

#include <stdlib.h>
#include <string.h>

/* The overrides of the trials, and those of their evaluations without the prefix. */
typedef struct lists {
    char **own, **later; /* borrowed */
    size_t owns, laters;
    char **plain; /* of own, those without a list; then of later */
    size_t plains;
    smoe_axes axes, points;
} lists;

static void lists_open(lists *l, char *const *overrides, size_t count) {
    size_t prefix = strlen(SMOE_EVALUATED);
    *l = (lists){.own = smoe_alloc(count + 1, sizeof *l->own),
                 .later = smoe_alloc(count + 1, sizeof *l->later),
                 .plain = smoe_alloc(count + 1, sizeof *l->plain)};
    for (size_t i = 0; i < count; i++) {
        char *text = overrides[i];
        if (strncmp(text, SMOE_EVALUATED, prefix))
            l->own[l->owns++] = text;
        else
            l->later[l->laters++] = text + prefix;
    }
}

static void lists_free(lists *l) {
    smoe_axes_free(&l->axes);
    smoe_axes_free(&l->points);
    free(l->own);
    free(l->later);
    free(l->plain);
}

/* The axes of the trials and of the evaluations; the latter may only be lists. */
static int lists_axes(lists *l, const smoe_sweep_spec *sweep, smoe_err *err) {
    size_t single = 0;
    if (smoe_axes_of(&l->points, &sweep->evaluate, l->later, l->laters, l->plain, &single, err))
        return -1;
    if (single)
        return smoe_fail(err, SMOE_USAGE, "override %s%s: give two or more values, as in a,b",
                         SMOE_EVALUATED, l->plain[0]);
    return smoe_axes_of(&l->axes, &sweep->train, l->own, l->owns, l->plain, &l->plains, err);
}

static void move_figure(smoe_sweep *sweep, smoe_spec *spec) {
    sweep->figure = spec->sweep.figure;
    spec->sweep.figure = (smoe_sweep_figure){0};
}

/* The trials, from the lists. */
static int make_trials(smoe_sweep *sweep, const smoe_spec_text *text, lists *l, bool skip,
                       size_t *skipped, smoe_err *err) {
    smoe_spec base = {0};
    smoe_spec_text common = *text;
    smoe_err own = {0};
    common.of_cells = true;
    *skipped = 0;
    int status = smoe_sweep_expand(sweep, text, l->plain, l->plains, &l->axes, skip, skipped, err);
    /* A mistake that every trial has is reported once. */
    if (status && *skipped && !sweep->trials &&
        smoe_spec_parse_text(&base, &common, l->plain, l->plains, &own))
        *err = own;
    else if (status && *skipped && l->axes.count && !skip)
        smoe_fail_more(err, SMOE_USAGE,
                       "%zu combination%s no valid spec; --skip-invalid leaves %s out", *skipped,
                       *skipped == 1 ? " is" : "s are", *skipped == 1 ? "it" : "them");
    smoe_spec_free(&base);
    return status;
}

int smoe_grid_of_spec(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_grid_options *options, size_t *skipped,
                      smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED_BY(lists_free) lists l = {0};
    /* A spec that is invalid by itself may be valid in every trial. But mistakes in its section
     * `sweep`, or a file that is not a spec, are always errors. */
    if (smoe_spec_parse_text(&spec, text, NULL, 0, err) &&
        (spec.sweep.bad || err->code != SMOE_USAGE || !spec.origin))
        return -1;
    lists_open(&l, overrides, count);
    if (lists_axes(&l, &spec.sweep, err)) return -1;
    bool nothing = !l.axes.count && !l.points.count;
    if (make_trials(sweep, text, &l, options->skip_invalid, skipped, err)) return -1;
    if (nothing)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: nothing to sweep: give it a section sweep, or key=a,b,c",
                         text->label);
    if (l.points.count && smoe_evaluations_plan(sweep, &l.points, err)) return -1;
    move_figure(sweep, &spec);
    if (smoe_sweep_set_plan(sweep, &spec.sweep.plan, err)) return -1;
    if (spec.sweep.reference && !options->referred &&
        smoe_sweep_refer(sweep, spec.sweep.reference, "sweep.reference", err))
        return -1;
    if (!options->init && options->planned) return 0;
    return smoe_start_set(sweep, options->init, &options->start, err);
}

int smoe_grid_of_run(smoe_sweep *sweep, const char *dir, char *const *overrides, size_t count,
                     smoe_err *err) {
    static const smoe_sweep_keys none = {0};
    static const smoe_axes one = {0};
    SMOE_FREED_BY(lists_free) lists l = {0};
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text spec = {0};
    SMOE_FREED char *file = smoe_text_format("%s/spec.yaml", dir);
    size_t skipped;
    lists_open(&l, overrides, count);
    if (l.laters)
        return smoe_fail(err, SMOE_USAGE,
                         "%s%s: %s is a run, which is evaluated and not trained; leave out %s",
                         SMOE_EVALUATED, l.later[0], dir, SMOE_EVALUATED);
    if (smoe_axes_of(&l.points, &none, l.own, l.owns, l.plain, &l.plains, err)) return -1;
    if (!l.points.count)
        return smoe_fail(err, SMOE_USAGE, "%s: nothing to sweep: give key=a,b,c", dir);
    if (smoe_spec_text_read(&spec, file, err) ||
        smoe_sweep_expand(sweep, &spec, l.plain, l.plains, &one, false, &skipped, err))
        return -1;
    if (!(sweep->run = realpath(dir, NULL))) return smoe_fail_errno(err, SMOE_RUNTIME, "%s", dir);
    return smoe_kept_find(sweep, err) ? -1 : smoe_evaluations_plan(sweep, &l.points, err);
}
