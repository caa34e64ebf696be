/* Results of a sweep; see results.h. The figure is drawn in results_figure.c, contrasts are in
 * compare/. */
#include "sweep/results.h"
#include "spec/sources.h"
#include "sweep/evaluations.h"
#include "sweep/trial.h"
#include "train/data_mark.h"

/* ---- collecting ------------------------------------------------------------------------------ */

static const json_t *result_of(const smoe_trial *trial) {
    return trial->state == SMOE_TRIAL_DONE ? json_object_get(trial->outcome, "result") : NULL;
}

void smoe_results_split(const smoe_sweep *sweep, size_t trial, char split[SMOE_METRIC_KEY]) {
    json_auto_t *spec = json_loads(sweep->trial[trial].spec, 0, NULL);
    const char *own = json_string_value(smoe_json_at(spec, "eval.split"));
    size_t column = smoe_sweep_column(sweep, SMOE_EVALUATED "eval.split");
    if (column < SIZE_MAX) own = sweep->trial[trial].value[column];
    snprintf(split, SMOE_METRIC_KEY, "%s", own ? own : "");
}

/* Where the test images of a trial come from, and in the next line what determines them: the keys
 * of its data, without those that only training uses, the split, and the seed of the run where
 * training images, which it generates, are evaluated. Fresh. */
static char *images_of(const smoe_sweep *sweep, size_t i) {
    json_auto_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
    char split[SMOE_METRIC_KEY];
    smoe_results_split(sweep, i, split);
    bool train = !strcmp(split, "train");
    json_t *data = smoe_data_keys(spec, split);
    json_object_set_new(spec, "data", data);
    for (size_t c = 0; c < sweep->columns; c++) {
        static const size_t before = sizeof SMOE_EVALUATED - 1;
        const char *column = sweep->column[c], *value = sweep->trial[i].value[c];
        if (!strncmp(column, SMOE_EVALUATED "data.", before + 5))
            smoe_json_put(spec, column + before, '.', json_string(value));
    }
    json_t *path = json_object_get(data, "path"), *source = json_object_get(data, "source");
    const smoe_source_entry *entry = smoe_source_find(source ? json_string_value(source) : "");
    bool generated = entry && entry->generated;
    json_t *run = generated && train ? json_object_get(spec, "seed") : NULL;
    json_auto_t *images = json_pack("[O?, s, O?]", data, split, run);
    json_auto_t *origin = json_pack("[O?, O?]", generated ? source : path,
                                    !generated ? NULL
                                    : run      ? run
                                               : json_object_get(data, "seed"));
    SMOE_FREED char *from = json_dumps(origin, JSON_COMPACT);
    SMOE_FREED char *which = json_dumps(images, JSON_COMPACT | JSON_SORT_KEYS);
    return smoe_text_format("%s\n%s", from, which);
}

/* Which trials contrasts leave out: those of seeds that were seen before, if others are done. */
static void results_leave_out(smoe_measures *m, const smoe_sweep *sweep) {
    bool more = false;
    if (!sweep->plan.seen || sweep->seed == SIZE_MAX) return;
    m->seen = smoe_alloc(sweep->trials + 1, sizeof *m->seen);
    for (size_t i = 0; i < sweep->trials; i++) {
        m->seen[i] = smoe_sweep_seen(&sweep->plan, sweep->trial[i].value[sweep->seed]);
        more |= !m->seen[i] && result_of(&sweep->trial[i]);
    }
    if (more) return;
    free(m->seen);
    m->seen = NULL;
}

/* The trials as runs of a table. The table borrows setting [trials]. */
static void results_measure(smoe_measures *m, char *const **setting, const smoe_sweep *sweep) {
    *m = (smoe_measures){.column = sweep->column,
                         .columns = sweep->columns,
                         .seed = sweep->seed,
                         .setting = setting,
                         .runs = sweep->trials};
    for (size_t i = 0; i < sweep->trials; i++) setting[i] = sweep->trial[i].value;
    for (size_t i = 0; i < sweep->trials; i++) { /* in the order in which trials first have them */
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)result_of(&sweep->trial[i]), key, value) {
            if (smoe_measures_metric(m, key) != SIZE_MAX) continue;
            SMOE_APPEND(m->metric, m->metrics) = key;
        }
    }
    results_leave_out(m, sweep);
    smoe_measures_open(m);
    for (size_t i = 0; i < sweep->trials; i++) {
        m->images[i] = images_of(sweep, i);
        if (sweep->dir) m->outcomes[i] = smoe_trial_outcomes(sweep, i);
        for (size_t k = 0; k < m->metrics; k++) {
            const json_t *value = json_object_get(result_of(&sweep->trial[i]), m->metric[k]);
            if (json_is_number(value)) m->value[i * m->metrics + k] = json_number_value(value);
        }
    }
}

static int results_make(smoe_results *r, const smoe_sweep *sweep, size_t trained, size_t planned,
                        smoe_err *err) {
    const smoe_compare_options options = {.reference = sweep->reference,
                                          .equivalence = sweep->plan.equivalence,
                                          .from = trained < sweep->columns ? trained : 0};
    *r = (smoe_results){.sweep = sweep,
                        .trained = trained,
                        .contrasts.planned = planned,
                        .measured = smoe_alloc(1, sizeof *r->measured),
                        .setting = smoe_alloc(sweep->trials + 1, sizeof *r->setting)};
    results_measure(r->measured, r->setting, sweep);
    if (smoe_comparison_make(&r->contrasts.compared, r->measured, &options, err)) return -1;
    if (smoe_trends_make(&r->contrasts.trends, r->measured, err)) return -1;
    if (r->measured->seen) r->contrasts.seen = sweep->plan.seen;
    return 0;
}

int smoe_results_make(smoe_results *r, const smoe_sweep *sweep, smoe_err *err) {
    size_t columns = sweep->columns, planned = sweep->plan.primaries;
    if (smoe_trial_check_all(sweep, err) || results_make(r, sweep, columns, planned, err))
        return -1;
    if (sweep->evaluate.points) {
        r->evaluated = smoe_alloc(1, sizeof *r->evaluated);
        r->evaluations = smoe_alloc(1, sizeof *r->evaluations);
        if (smoe_evaluations_table(r->evaluated, sweep, err) ||
            results_make(r->evaluations, r->evaluated, columns, planned, err))
            return -1;
    }
    r->contrasts.primaries = sweep->plan.primaries;
    return smoe_primary_decide(&r->contrasts.primary, &sweep->plan, r->measured,
                               r->evaluations ? r->evaluations->measured : NULL, err);
}

void smoe_results_free(smoe_results *r) {
    smoe_contrasts_free(&r->contrasts);
    if (r->measured) smoe_measures_free(r->measured);
    free(r->measured);
    free(r->setting);
    if (r->evaluations) smoe_results_free(r->evaluations);
    if (r->evaluated) smoe_sweep_free(r->evaluated);
    free(r->evaluations);
    free(r->evaluated);
    *r = (smoe_results){0};
}

/* ---- checking the figure --------------------------------------------------------------------- */

bool smoe_results_over_steps(const smoe_sweep_figure *wish) {
    return wish->x && !strcmp(wish->x, smoe_metrics[SMOE_METRIC_STEP].name);
}

static bool is_set(const smoe_sweep *sweep, const char *name) {
    size_t prefix = strlen(SMOE_EVALUATED);
    for (size_t c = 0; c < sweep->evaluate.columns && !strncmp(name, SMOE_EVALUATED, prefix); c++)
        if (!strcmp(name + prefix, sweep->evaluate.column[c])) return true;
    return smoe_sweep_column(sweep, name) != SIZE_MAX;
}

static int check_axis(const smoe_sweep *sweep, const char *axis, const char *name, bool may_set,
                      bool may_measure, smoe_err *err) {
    char known[1000] = "", swept[1000] = "";
    if (!name || (may_set && is_set(sweep, name)) ||
        (may_measure && smoe_metric_of_column(name, NULL) < SMOE_METRICS))
        return 0;
    for (size_t m = 0; m < SMOE_METRICS; m++)
        if (smoe_metrics[m].column)
            smoe_text_list(known, sizeof known, "%s", smoe_metrics[m].column);
    for (size_t c = 0; c < sweep->columns; c++)
        smoe_text_list(swept, sizeof swept, "%s", sweep->column[c]);
    for (size_t c = 0; c < sweep->evaluate.columns; c++)
        smoe_text_list(swept, sizeof swept, SMOE_EVALUATED "%s", sweep->evaluate.column[c]);
    smoe_fail(err, SMOE_USAGE, "the figure's %s: '%s' is %s%s", axis, name,
              !may_measure ? "not a swept key"
              : may_set    ? "neither a swept key nor a measured column; these are measured: "
                           : "not a measured column; these are: ",
              may_measure ? known : "");
    return may_set ? smoe_fail_more(err, SMOE_USAGE, "these keys are swept: %s", swept) : -1;
}

/* Metrics over steps, separated by commas: columns, or names of records. */
static int check_curves(const char *text, smoe_err *err) {
    SMOE_FREED char *copy = smoe_alloc_text(text);
    smoe_metric_place place;
    for (char *rest = copy, *name; (name = strsep(&rest, ","));)
        if (smoe_metric_of_column(name, NULL) == SMOE_METRICS && !smoe_metric_read(&place, name))
            return smoe_fail(err, SMOE_USAGE,
                             "the figure's y: '%s' is neither a measured column nor a metric that "
                             "training records; smoe-sweep(1) and smoe-run(5) list them",
                             name);
    return 0;
}

/* y is a metric, or the key of cells with the metric of their colours. */
int smoe_results_check(const smoe_sweep *sweep, smoe_err *err) {
    const smoe_sweep_figure *wish = &sweep->figure;
    if (smoe_results_over_steps(wish)) return check_curves(wish->y, err);
    SMOE_FREED char *key = smoe_alloc_text(wish->y);
    char *colour = key ? strchr(key, ':') : NULL;
    if (colour) *colour++ = '\0';
    bool cells = key && is_set(sweep, key);
    if (cells && check_axis(sweep, "colour", colour, false, true, err)) return -1;
    if (check_axis(sweep, "x", wish->x, true, !cells, err)) return -1;
    if (!cells && check_axis(sweep, "y", colour ? key : wish->y, colour, !colour, err)) return -1;
    return check_axis(sweep, "line", wish->line, true, false, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

size_t smoe_results_done(const smoe_results *r, size_t group) {
    size_t n = 0;
    for (size_t i = 0; i < r->sweep->trials; i++)
        n += r->measured->group[i] == group && r->sweep->trial[i].state == SMOE_TRIAL_DONE;
    return n;
}

/* How much better group a is than b in a metric, in its own unit; 0: not at all, or unknown. */
static double gain(const smoe_measures *m, size_t a, size_t b, size_t metric) {
    smoe_metric_better better = smoe_metrics[smoe_metric_of_column(m->metric[metric], NULL)].better;
    double more = smoe_stats_apart(smoe_measures_stats(m, a, metric).mean,
                                   smoe_measures_stats(m, b, metric).mean);
    return better == SMOE_HIGHER ? more : better == SMOE_LOWER ? -more : 0;
}

size_t smoe_results_first(const smoe_results *r, const char *wish) {
    const char *const names[] = {wish, smoe_metrics[SMOE_METRIC_PRECISION].column,
                                 smoe_metrics[SMOE_METRIC_TRAIN_LOSS].column,
                                 smoe_metrics[SMOE_METRIC_EVALUATION_LOSS].column};
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < SMOE_COUNT(names) && found == SIZE_MAX; i++)
        if (names[i]) found = smoe_measures_metric(r->measured, names[i]);
    return found;
}

bool smoe_results_on_front(const smoe_results *r, size_t group, size_t x, size_t y) {
    if (!isfinite(smoe_measures_stats(r->measured, group, x).mean) ||
        !isfinite(smoe_measures_stats(r->measured, group, y).mean))
        return false;
    for (size_t g = 0; g < r->measured->groups; g++) {
        double in_x = gain(r->measured, g, group, x), in_y = gain(r->measured, g, group, y);
        if (in_x >= 0 && in_y >= 0 && in_x + in_y > 0) return false;
    }
    return true;
}

/* results.csv: one row per trial. */
static void add_trials(smoe_result *result, const smoe_results *r, const char *name) {
    const smoe_sweep *sweep = r->sweep;
    smoe_frame *frame = smoe_result_table(result, NULL, name);
    frame->where = SMOE_IN_CSV;
    static const char *const states[] = {
        [SMOE_TRIAL_OPEN] = "open", [SMOE_TRIAL_DONE] = "done", [SMOE_TRIAL_FAILED] = "failed"};
    bool trials = r->trained == sweep->columns; /* evaluations have no state of their own */
    for (size_t i = 0; i < sweep->trials; i++) {
        const char *why = json_string_value(json_object_get(sweep->trial[i].outcome, "error"));
        SMOE_FREED char *error = smoe_alloc_part(why ? why : "", why ? strcspn(why, "\n") : 0);
        smoe_cell_text(frame, "cell", sweep->trial[i].name);
        for (size_t c = 0; c < sweep->columns; c++)
            smoe_cell_text(frame, sweep->column[c], sweep->trial[i].value[c]);
        smoe_cell_text(frame, "status", states[sweep->trial[i].state]);
        for (size_t m = 0; m < r->measured->metrics; m++)
            smoe_cell_number(frame, r->measured->metric[m],
                             r->measured->value[i * r->measured->metrics + m]);
        if (trials) smoe_cell_text(frame, "error", error);
        smoe_frame_end(frame);
    }
}

/* Mean, standard deviation and number of a metric; in print "0.8120 +- 0.0040" with the sign for
 * +-, "0.8120" of a single value or of equal ones. */
static void add_stats(smoe_frame *frame, const char *metric, smoe_stats s, unsigned where) {
    static const char *const parts[] = {"mean", "sd", "n"};
    const double value[] = {s.mean, s.sd, (double)s.n};
    char name[SMOE_METRIC_KEY + 8], path[SMOE_METRIC_KEY + 16], text[64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s_%s", metric, parts[i]);
        snprintf(path, sizeof path, "metrics:%s:%s", metric, parts[i]);
        smoe_cell_number(frame, name, value[i], .path = path, .where = SMOE_IN_FILES);
    }
    /* parameters, FLOPs: the same for all seeds, but for the rounding of their mean */
    bool spread = s.n > 1 && s.sd > 1e-12 * fabs(s.mean);
    snprintf(text, sizeof text,
             spread    ? "%.4g \xc2\xb1 %.2g"
             : s.n > 1 ? "%.6g"
                       : "%.4g",
             s.mean, s.sd);
    if (where) smoe_cell_text(frame, NULL, s.n ? text : NULL, .heading = metric, .where = where);
}

/* Whether a metric is more than a quarter larger in one group than in another. */
static bool flops_differ(const smoe_results *r, size_t metric) {
    double low = INFINITY, high = 0;
    for (size_t g = 0; g < r->measured->groups; g++) {
        double mean = smoe_measures_stats(r->measured, g, metric).mean;
        low = fmin(low, mean);
        high = fmax(high, mean);
    }
    return high > 1.25 * low;
}

/* Where a metric is printed: what the figure shows always, a metric that is 0 everywhere never. */
static unsigned where_printed(const smoe_results *r, size_t metric, size_t flops) {
    const smoe_sweep_figure *figure = &r->sweep->figure;
    const char *name = r->measured->metric[metric];
    if ((figure->x && !strcmp(figure->x, name)) || (figure->y && !strcmp(figure->y, name)) ||
        (metric == flops && flops_differ(r, metric)))
        return SMOE_IN_PRINT;
    if (smoe_measures_zero(r->measured, metric)) return 0;
    return (smoe_metric_is_shown(name, true) ? SMOE_IN_TEXT : 0) |
           (smoe_metric_is_shown(name, false) ? SMOE_IN_MARKDOWN : 0);
}

/* summary.csv: one row per group. */
static void add_groups(smoe_result *result, const smoe_results *r, const char *key,
                       const char *name) {
    const smoe_sweep *sweep = r->sweep;
    smoe_frame *frame = smoe_result_table(result, key, name);
    size_t x = smoe_measures_metric(r->measured, sweep->figure.front ? sweep->figure.x : "");
    size_t y = smoe_measures_metric(r->measured, sweep->figure.front ? sweep->figure.y : "");
    size_t flops =
        smoe_measures_metric(r->measured, smoe_metrics[SMOE_METRIC_FLOPS_INFER_COMPUTED].column);
    size_t most = 0;
    if (flops == SIZE_MAX) /* the cells are of an older version */
        flops = smoe_measures_metric(r->measured, smoe_metrics[SMOE_METRIC_FLOPS_INFER].column);
    if (!r->measured->metrics) frame->where = SMOE_IN_FILES; /* no trial is done: keys alone */
    for (size_t g = 0; g < r->measured->groups; g++) {
        smoe_tables_keys(frame, r->measured, "set", (const char *const *)r->measured->own.value[g]);
        for (size_t m = 0; m < r->measured->metrics; m++)
            add_stats(frame, r->measured->metric[m], smoe_measures_stats(r->measured, g, m),
                      where_printed(r, m, flops));
        size_t done = smoe_results_done(r, g);
        if (done > most) most = done;
        if (r->measured->metrics) smoe_cell_number(frame, NULL, (double)done, .heading = "n");
        if (x != SIZE_MAX && y != SIZE_MAX)
            smoe_frame_cells(frame, {"front", SMOE_TRUTH_OF(smoe_results_on_front(r, g, x, y))});
        smoe_frame_end(frame);
    }
    if (most > 1) smoe_result_line(result, NULL, "mean \xc2\xb1 standard deviation, over n seeds");
}

/* What every cell has, as the sweep knows it. */
static void results_add_cells(smoe_result *result, const smoe_sweep *sweep) {
    smoe_result_list(result, "cells");
    for (size_t i = 0; i < sweep->trials; i++) {
        const smoe_trial *trial = &sweep->trial[i];
        smoe_result *cell = smoe_result_part(result, "cells"), *set;
        smoe_fact_text(cell, "cell", trial->name);
        set = smoe_result_object(cell, "set");
        for (size_t c = 0; c < sweep->columns; c++)
            smoe_fact_text(set, sweep->column[c], trial->value[c],
                           .typed = !smoe_spec_holds_text(sweep->column[c]));
        if (trial->outcome) smoe_result_members(cell, trial->outcome);
    }
}

void smoe_results_add(smoe_result *result, const smoe_results *r, bool all) {
    bool trials = r->trained == r->sweep->columns; /* else their evaluations */
    if (all && trials) {
        smoe_result_facts(result, {"sweep", SMOE_TEXT_OF(r->sweep->name)},
                          {"dir", SMOE_TEXT_OF(r->sweep->dir)});
        results_add_cells(result, r->sweep);
    }
    if (trials && r->contrasts.seen) smoe_fact_text(result, "seen", r->contrasts.seen);
    if (all) add_trials(result, r, trials ? "results" : "evaluations");
    if (all)
        add_groups(result, r, trials ? "groups" : "evaluations",
                   trials ? "summary" : "evaluations_summary");
    smoe_tables_contrasts(result, &r->contrasts, trials ? "" : "evaluations_",
                          smoe_results_first(r, r->sweep->figure.y));
    size_t failed = smoe_trial_count(r->sweep, SMOE_TRIAL_FAILED, true);
    size_t open = smoe_trial_count(r->sweep, SMOE_TRIAL_OPEN, true);
    if (all && trials && (failed || open))
        smoe_result_line(result, NULL, "%zu of %zu cell%s failed, %zu not finished.", failed,
                         r->sweep->trials, SMOE_S(r->sweep->trials), open);
    if (!r->evaluations) return;
    smoe_result *part = smoe_result_part(result, NULL);
    if (r->evaluations->measured->metrics) part->title = "Evaluations at other settings";
    smoe_results_add(part, r->evaluations, all);
}

static int put_markdown(FILE *out, const void *context, smoe_err *err) {
    (void)err;
    smoe_result_markdown(context, out, 1);
    return 0;
}

int smoe_results_write(const smoe_results *r, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {.title = r->sweep->name};
    SMOE_FREED char *path = smoe_text_format("%s/summary.md", r->sweep->dir);
    smoe_results_add(&result, r, true);
    if (smoe_result_check(&result, err) || smoe_result_csv(&result, r->sweep->dir, err)) return -1;
    return smoe_file_print(path, put_markdown, &result, err);
}
