/* smoe sweep: a grid of runs from one spec, its section `sweep` and lists on the command line, and
 * evaluations of them, or of one run that is there, at other settings; trials.h runs what comes of
 * it. */
#include "trials.h"
#include "cmd.h"
#include "sweep/compare.h"
#include "sweep/evaluations.h"
#include "sweep/primary.h"
#include "store/run.h"

#include <stdlib.h>
#include <string.h>

/* The command line: overrides of the trials, and those of their evaluations without the prefix. */
typedef struct lists {
    char **own, **later;
    size_t owns, laters;
    char **plain; /* of own, those without a list; then of later */
    size_t plains;
    char *seeds; /* of own, too */
    smoe_axes axes, points;
} lists;

static int lists_open(lists *l, const smoe_options *options, smoe_err *err) {
    size_t prefix = strlen(SMOE_EVALUATED), n = options->overrides + 2;
    *l = (lists){.own = calloc(n, sizeof *l->own),
                 .later = calloc(n, sizeof *l->later),
                 .plain = calloc(n, sizeof *l->plain)};
    if (!l->own || !l->later || !l->plain) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (smoe_trials_seeds(&l->seeds, options, err)) return -1;
    if (l->seeds) l->own[l->owns++] = l->seeds;
    for (size_t i = 0; i < options->overrides; i++) {
        char *text = options->override[i];
        if (!strncmp(text, "seed=", 5)) continue;
        if (strncmp(text, SMOE_EVALUATED, prefix))
            l->own[l->owns++] = text;
        else
            l->later[l->laters++] = text + prefix;
    }
    return 0;
}

static void lists_free(lists *l) {
    smoe_axes_free(&l->axes);
    smoe_axes_free(&l->points);
    free(l->own);
    free(l->later);
    free(l->plain);
    free(l->seeds);
}

/* The axes of the trials and of the evaluations; the latter have lists alone. */
static int lists_axes(lists *l, const smoe_sweep_spec *sweep, smoe_err *err) {
    size_t single = 0;
    if (smoe_axes_of(&l->points, &sweep->evaluate, l->later, l->laters, l->plain, &single, err))
        return -1;
    if (single)
        return smoe_fail(err, SMOE_USAGE, "override %s%s: give two values or more, as in a,b",
                         SMOE_EVALUATED, l->plain[0]);
    return smoe_axes_of(&l->axes, &sweep->train, l->own, l->owns, l->plain, &l->plains, err);
}

static void move_figure(smoe_sweep *sweep, smoe_spec *spec) {
    sweep->figure = spec->sweep.figure;
    spec->sweep.figure = (smoe_sweep_figure){0};
}

/* The trials, from the lists. */
static int make_trials(smoe_sweep *sweep, const smoe_spec_text *text, lists *l,
                       const smoe_options *options, smoe_err *err) {
    smoe_spec base = {0};
    smoe_err own = {0};
    size_t skipped = 0;
    int status = smoe_sweep_expand(sweep, text, l->plain, l->plains, &l->axes,
                                   options->skip_invalid, &skipped, err);
    /* What every trial has is said once. */
    if (status && skipped && !sweep->trials &&
        smoe_spec_parse_text(&base, text, l->plain, l->plains, &own))
        *err = own;
    else if (status && skipped && l->axes.count && !options->skip_invalid)
        smoe_fail_more(err, SMOE_USAGE,
                       "%zu combination%s no valid spec; --skip-invalid leaves %s out", skipped,
                       skipped == 1 ? " is" : "s are", skipped == 1 ? "it" : "them");
    else if (skipped && !options->quiet && !status)
        fprintf(stderr, "%zu combination%s no valid spec and skipped:\n%s\n", skipped,
                skipped == 1 ? " is" : "s are", err->text);
    smoe_spec_free(&base);
    return status;
}

/* The trials of SPEC.yaml and the overrides. */
static int expand_spec(smoe_sweep *sweep, const char *file, const smoe_options *options,
                       smoe_err *err) {
    smoe_spec_text text;
    smoe_spec spec = {0};
    lists l;
    int status = smoe_cmd_text(&text, file, options, err);
    if (!status) status = smoe_spec_parse_text(&spec, &text, NULL, 0, err);
    /* What is wrong with the spec by itself may be right in every trial; mistakes in its section
     * `sweep`, or no spec at all, are not. */
    if (status && !spec.sweep.bad && err->code == SMOE_USAGE && spec.origin) status = 0;
    int opened = lists_open(&l, options, err);
    if (!status) status = opened ? -1 : lists_axes(&l, &spec.sweep, err);
    bool nothing = !status && !l.axes.count && !l.points.count;
    if (!status) status = make_trials(sweep, &text, &l, options, err);
    if (!status && nothing)
        status =
            smoe_fail(err, SMOE_USAGE,
                      "%s: nothing to sweep: give it a section sweep, or key=a,b,c", text.label);
    if (!status && l.points.count) status = smoe_evaluations_plan(sweep, &l.points, err);
    if (!status) move_figure(sweep, &spec);
    if (!status) status = smoe_primary_plan(sweep, &spec.sweep.plan, err);
    if (!status && spec.sweep.reference && !options->reference)
        status = smoe_compare_refer(sweep, spec.sweep.reference, "sweep.reference", err);
    lists_free(&l);
    smoe_spec_free(&spec);
    smoe_spec_text_free(&text);
    return status;
}

/* A sweep of one trial, which is there: the run, evaluated at the lists of the command line. */
static int expand_run(smoe_sweep *sweep, const char *dir, const smoe_options *options,
                      smoe_err *err) {
    static const smoe_sweep_keys none = {0};
    static const smoe_axes one = {0};
    lists l;
    smoe_spec_text spec = {0};
    char *file = smoe_text_format("%s/spec.yaml", dir), *model = NULL, *text = NULL;
    size_t skipped;
    int status = lists_open(&l, options, err);
    if (!status && l.laters)
        status = smoe_fail(err, SMOE_USAGE,
                           "%s%s: %s is a run, which is evaluated and not trained; leave out %s",
                           SMOE_EVALUATED, l.later[0], dir, SMOE_EVALUATED);
    if (!status) status = smoe_axes_of(&l.points, &none, l.own, l.owns, l.plain, &l.plains, err);
    if (!status && !l.points.count)
        status = smoe_fail(err, SMOE_USAGE, "%s: nothing to sweep: give key=a,b,c", dir);
    if (!status) status = smoe_run_locate(dir, "latest", &model, &text, err);
    if (!status)
        status = file ? smoe_spec_text_read(&spec, file, err)
                      : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (!status)
        status = smoe_sweep_expand(sweep, &spec, l.plain, l.plains, &one, false, &skipped, err);
    if (!status) {
        sweep->run = realpath(dir, NULL);
        sweep->checkpoint = realpath(model, NULL);
        if (!sweep->run || !sweep->checkpoint)
            status = smoe_fail_errno(err, SMOE_RUNTIME, "%s: has no path", model);
    }
    if (!status) status = smoe_evaluations_plan(sweep, &l.points, err);
    lists_free(&l);
    smoe_spec_text_free(&spec);
    free(file);
    free(model);
    free(text);
    return status;
}

static int expand(smoe_sweep *sweep, const char *arg, const smoe_options *options, smoe_err *err) {
    return smoe_trials_is_run(arg) ? expand_run(sweep, arg, options, err)
                                   : expand_spec(sweep, arg, options, err);
}

int cmd_sweep(const smoe_options *options, smoe_err *err) {
    static const smoe_trials_kind grid = {.suffix = "sweep", .expand = expand};
    return smoe_trials_command(&grid, options, err);
}
