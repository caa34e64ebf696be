/* What is printed about the trials of a sweep: summary, status, estimate; see trials.h. */
#include "trials.h"
#include "heading.h"
#include "cmd.h"
#include "table.h"
#include "trial_cost.h"
#include "base/file.h"
#include "spec/metrics.h"
#include "sweep/evaluations.h"
#include "store/run.h"
#include "base/json.h"
#include "sweep/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the summary ----------------------------------------------------------------------------- */

static json_t *values_json(const smoe_sweep *sweep, const smoe_trial *trial, bool seed) {
    json_t *set = json_object();
    for (size_t c = 0; c < sweep->columns; c++)
        if (seed || c != sweep->seed)
            json_object_set_new(set, sweep->column[c], smoe_trials_value(trial->value[c]));
    return set;
}

static json_t *group_json(const smoe_results *r, size_t g) {
    json_t *metrics = json_object();
    for (size_t m = 0; m < r->measured->metrics; m++) {
        smoe_stats s = smoe_measures_stats(r->measured, g, m);
        json_object_set_new(metrics, r->measured->metric[m],
                            json_pack("{s:o, s:o, s:I}", "mean", smoe_run_number(s.mean), "sd",
                                      smoe_run_number(s.sd), "n", (json_int_t)s.n));
    }
    return json_pack("{s:o, s:o}", "set",
                     values_json(r->sweep, &r->sweep->trial[r->measured->first[g]], false),
                     "metrics", metrics);
}

static json_t *results_json(const smoe_results *r) {
    json_t *trials = json_array(), *groups = json_array();
    for (size_t i = 0; i < r->sweep->trials; i++) {
        const smoe_trial *trial = &r->sweep->trial[i];
        json_t *record =
            json_pack("{s:s, s:o}", "cell", trial->name, "set", values_json(r->sweep, trial, true));
        if (trial->outcome) json_object_update(record, trial->outcome);
        json_array_append_new(trials, record);
    }
    for (size_t g = 0; g < r->measured->groups; g++)
        json_array_append_new(groups, group_json(r, g));
    json_t *value = json_pack("{s:s, s:s, s:o, s:o}", "sweep", r->sweep->name, "dir", r->sweep->dir,
                              "cells", trials, "groups", groups);
    if (value) smoe_trials_contrasts_json(value, r, "");
    if (value && r->evaluations) {
        json_t *list = json_array();
        for (size_t g = 0; g < r->evaluations->measured->groups; g++)
            json_array_append_new(list, group_json(r->evaluations, g));
        json_object_set_new(value, "evaluations", list);
        smoe_trials_contrasts_json(value, r->evaluations, "evaluations_");
    }
    return value;
}

/* One row per group: its settings, its results, and how many of its cells are done. */
static int print_groups(const smoe_results *r, const smoe_options *options, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    smoe_table table = {0};
    char text[64];
    smoe_trials_columns(&table, sweep);
    for (size_t m = 0; m < r->measured->metrics; m++) {
        if (!smoe_metric_is_shown(r->measured->metric[m], true)) continue;
        smoe_table_add(&table, "%s", r->measured->metric[m]);
        table.columns++;
    }
    smoe_table_add(&table, "n");
    table.columns++;
    for (size_t g = 0; g < r->measured->groups; g++) {
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed)
                smoe_table_add(&table, "%s", smoe_measures_setting(r->measured, g, c));
        for (size_t m = 0; m < r->measured->metrics; m++)
            if (smoe_metric_is_shown(r->measured->metric[m], true))
                smoe_table_add(
                    &table, "%s",
                    smoe_results_text(text, sizeof text, smoe_measures_stats(r->measured, g, m)));
        smoe_table_add(&table, "%zu", smoe_results_done(r, g));
    }
    int status = smoe_table_print(&table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(&table);
    return status;
}

int smoe_trials_summary(const smoe_results *r, const smoe_options *options, smoe_err *err) {
    static const char *const files[] = {"results.csv",
                                        "summary.csv",
                                        "primary.csv",
                                        "differences.csv",
                                        "trends.csv",
                                        "evaluations.csv",
                                        "evaluations_summary.csv",
                                        "evaluations_differences.csv",
                                        "evaluations_trends.csv",
                                        "summary.md",
                                        "sweep.svg",
                                        "sweep.pdf",
                                        "evaluations.svg",
                                        "evaluations.pdf"};
    const smoe_results *later = r->evaluations;
    if (options->json) return smoe_cmd_json(results_json(r), err);
    if (print_groups(r, options, err)) return -1;
    if (smoe_trials_contrasts(r, "", options, err)) return -1;
    if (later) {
        printf("\nEvaluated at other settings:\n");
        if (print_groups(later, options, err)) return -1;
        if (smoe_trials_contrasts(later, "evaluations_", options, err)) return -1;
    }
    printf("\n");
    smoe_heading_list(stdout, "", r->sweep->dir, files, sizeof files / sizeof *files, NULL);
    return 0;
}

/* ---- the status ------------------------------------------------------------------------------ */

/* "done", "failed", "running" (another process has it), "stopped" (it has begun), "waiting". */
static const char *state_of(const smoe_sweep *sweep, size_t i, const char *holder) {
    if (sweep->trial[i].state == SMOE_TRIAL_DONE) return "done";
    if (holder) return "running";
    if (sweep->trial[i].state == SMOE_TRIAL_FAILED) return "failed";
    char *dir = smoe_trial_dir(sweep, i);
    bool begun = dir && !access(dir, F_OK);
    free(dir);
    return begun ? "stopped" : "waiting";
}

static int keep_step(void *step, const smoe_record *record, smoe_err *err) {
    (void)err;
    *(json_int_t *)step = (json_int_t)record->step;
    return 0;
}

/* The last step that the metrics of a trial's run have, 0 where there is none. Of a long file only
 * the end is read. */
static json_int_t last_step(const smoe_sweep *sweep, size_t i) {
    enum { END = 1 << 18 };
    char *dir = smoe_trial_dir(sweep, i);
    char *path = dir ? smoe_text_format("%s/metrics.jsonl", dir) : NULL;
    json_int_t step = 0;
    smoe_err ignored; /* records that are damaged end before the last step */
    if (path) (void)!smoe_records_each(path, END, keep_step, &step, &ignored);
    free(path);
    free(dir);
    return step;
}

/* How far the training of a trial is. */
static void add_steps(smoe_table *table, json_t *record, const smoe_sweep *sweep, size_t i) {
    json_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
    json_int_t steps = json_integer_value(json_object_get(json_object_get(spec, "train"), "steps"));
    /* A packed sweep has no records. */
    json_int_t step = sweep->trial[i].state == SMOE_TRIAL_DONE ? steps : last_step(sweep, i);
    smoe_table_add(table, "%lld of %lld", (long long)step, (long long)steps);
    json_object_set_new(record, "step", json_integer(step));
    json_object_set_new(record, "steps", json_integer(steps));
    json_decref(spec);
}

/* One row of the status; a sweep that evaluates says how many evaluations are there. */
static int add_status(smoe_table *table, json_t *records, const smoe_sweep *sweep, size_t i,
                      smoe_err *err) {
    const smoe_trial *trial = &sweep->trial[i];
    const json_t *p = json_object_get(json_object_get(trial->outcome, "result"),
                                      smoe_metrics[SMOE_METRIC_PRECISION].column);
    char *holder = smoe_trial_holder(sweep, i);
    const char *state = state_of(sweep, i, holder);
    json_t *record = json_pack("{s:s, s:s}", "cell", trial->name, "state", state), *list;
    smoe_table_add(table, "%s", trial->name);
    bool running = !strcmp(state, "running");
    if (running)
        smoe_table_add(table, "%s: %s", state, holder);
    else
        smoe_table_add(table, "%s", state);
    if (running && record) json_object_set_new(record, "holder", json_string(holder));
    free(holder);
    add_steps(table, record, sweep, i);
    if (p)
        smoe_table_add(table, "%.4f", json_number_value(p));
    else
        smoe_table_add(table, "-");
    if (record && sweep->evaluate.points) {
        if (smoe_evaluations_read(&list, sweep, i, err)) {
            json_decref(record);
            return -1;
        }
        size_t n = json_array_size(list);
        smoe_table_add(table, "%zu of %zu", n, sweep->evaluate.points);
        json_object_set_new(record, "evaluations", json_integer((json_int_t)n));
        json_decref(list);
    }
    if (record && !strcmp(state, "failed")) {
        json_object_set(record, "code", json_object_get(trial->outcome, "code"));
        json_object_set(record, "error", json_object_get(trial->outcome, "error"));
    }
    json_array_append_new(records, record);
    return 0;
}

/* The number of trials in each state, and why some failed. */
static void print_states(const smoe_sweep *sweep, const json_t *records) {
    static const char *const states[] = {"done", "failed", "running", "stopped", "waiting"};
    const char *comma = "";
    printf("\n%zu cells: ", sweep->trials);
    for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
        size_t n = 0;
        for (size_t i = 0; i < sweep->trials; i++)
            n += !strcmp(json_string_value(json_object_get(json_array_get(records, i), "state")),
                         states[s]);
        if (n) printf("%s%zu %s", comma, n, states[s]);
        if (n) comma = ", ";
    }
    putchar('\n');
    for (size_t i = 0; i < sweep->trials; i++) {
        const char *why = json_string_value(json_object_get(json_array_get(records, i), "error"));
        if (why)
            smoe_cmd_print(stdout, "%s: %.*s\n", sweep->trial[i].name, (int)strcspn(why, "\n"),
                           why);
    }
}

int smoe_trials_status(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    smoe_table table = {.columns = 4};
    json_t *records = json_array();
    int status = 0;
    smoe_table_add(&table, "cell");
    smoe_table_add(&table, "state");
    smoe_table_add(&table, "steps");
    smoe_table_add(&table, "precision@1");
    if (sweep->evaluate.points) {
        smoe_table_add(&table, "evaluations");
        table.columns++;
    }
    for (size_t i = 0; i < sweep->trials && !status; i++)
        status = add_status(&table, records, sweep, i, err);
    if (!status && options->json)
        status = smoe_cmd_json(json_incref(records), err);
    else if (!status)
        status = smoe_table_print(&table, stdout, smoe_cmd_color(options, stdout), err);
    if (!status && !options->json) print_states(sweep, records);
    json_decref(records);
    smoe_table_free(&table);
    return status;
}

/* ---- the estimate ---------------------------------------------------------------------------- */

static int estimate_trial(smoe_estimate *e, smoe_estimator *by, const smoe_trial *trial,
                          const smoe_options *options, smoe_err *err) {
    smoe_spec spec = {0};
    smoe_cost cost = {0};
    size_t classes;
    int status = smoe_trial_cost(&spec, &classes, &cost, trial, options, err);
    if (!status) status = smoe_estimate_make(e, by, &spec, classes, &cost, err);
    smoe_cost_free(&cost);
    smoe_spec_free(&spec);
    return status;
}

/* Trials that differ in the seed alone cost the same: measured once. */
static size_t like(const smoe_sweep *sweep, size_t i) {
    for (size_t k = 0; k < i; k++) {
        bool same = true;
        for (size_t c = 0; c < sweep->columns; c++)
            same &= c == sweep->seed || !strcmp(sweep->trial[k].value[c], sweep->trial[i].value[c]);
        if (same) return k;
    }
    return i;
}

static void add_line(smoe_table *table, const char *name, const smoe_estimate *e) {
    char text[48];
    smoe_table_add(table, "%s", name);
    smoe_table_add(table, "%s", smoe_text_si(text, sizeof text, e->params, ""));
    smoe_table_add(table, "%s", smoe_text_si(text, sizeof text, e->flops, "FLOP"));
    smoe_table_add(table, "%s", smoe_text_si(text, sizeof text, e->bytes, "B"));
    smoe_table_add(table, "%s", smoe_cmd_estimate_text(text, sizeof text, e));
}

static json_t *estimate_json(const smoe_sweep *sweep, const smoe_trial *trial,
                             const smoe_estimate *e) {
    json_t *record =
        json_pack("{s:s, s:o, s:o, s:f, s:o}", "cell", trial->name, "set",
                  values_json(sweep, trial, true), "params", smoe_json_of_number(e->params),
                  "flops_train", e->flops, "bytes", smoe_json_of_number(e->bytes));
    if (record) smoe_cmd_estimate_json(record, e);
    return record;
}

/* Of all trials: their sum, and the largest in parameters and memory. */
static smoe_estimate sum_of(const smoe_estimate *all, size_t trials) {
    smoe_estimate sum = {.measured = true, .fits = true};
    for (size_t i = 0; i < trials; i++) {
        sum.params = fmax(sum.params, all[i].params);
        sum.bytes = fmax(sum.bytes, all[i].bytes);
        sum.flops += all[i].flops;
        sum.seconds += all[i].seconds;
        sum.measured &= all[i].measured;
        sum.fits &= all[i].fits;
    }
    return sum;
}

/* What is too large for this machine, alone or beside others. */
static void print_memory(const smoe_estimate *all, size_t trials, size_t jobs, double memory) {
    char a[32], b[32];
    size_t large = 0;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < trials; i++) {
        large += !all[i].fits;
        least = fmin(least, all[i].bytes);
        if (all[i].fits) most = fmax(most, all[i].bytes);
    }
    smoe_text_si(a, sizeof a, memory, "B");
    if (large)
        printf("%zu of %zu cells do not fit: this machine has %s of memory, the smallest cell "
               "needs %s\n",
               large, trials, a, smoe_text_si(b, sizeof b, least, "B"));
    if (jobs > 1 && (double)jobs * most > memory)
        printf("%zu cells at once may not fit: this machine has %s of memory, they need up to %s\n",
               jobs, a, smoe_text_si(b, sizeof b, (double)jobs * most, "B"));
}

/* What a trial is evaluated at, once it is trained. */
static void print_points(const smoe_sweep *sweep) {
    const smoe_axis *axis = &sweep->evaluate;
    printf("%s%zu evaluations%s:\n", sweep->run ? "" : "then ", axis->points,
           sweep->run ? "" : " of each cell");
    for (size_t p = 0; p < axis->points; p++)
        for (size_t c = 0; c < axis->columns; c++)
            printf("%s%s=%s%s", c ? " " : "  ", axis->column[c], axis->point[p].value[c],
                   c + 1 < axis->columns ? "" : "\n");
}

/* The estimates of all trials; those that differ in the seed alone are one. */
static int estimate_all(smoe_estimate *all, smoe_estimator *by, const smoe_sweep *sweep,
                        const smoe_options *options, smoe_err *err) {
    for (size_t i = 0; i < sweep->trials; i++) {
        size_t twin = like(sweep, i);
        if (twin < i)
            all[i] = all[twin];
        else if (estimate_trial(&all[i], by, &sweep->trial[i], options, err))
            return -1;
    }
    return 0;
}

static int print_estimates(const smoe_sweep *sweep, const smoe_estimate *all, double memory,
                           const smoe_options *options, smoe_err *err) {
    static const char *const heading[] = {"cell", "parameters", "training", "memory", "time"};
    smoe_table table = {.columns = 5};
    smoe_estimate sum = sum_of(all, sweep->trials);
    for (size_t c = 0; c < 5; c++) smoe_table_add(&table, "%s", heading[c]);
    for (size_t i = 0; i < sweep->trials; i++) add_line(&table, sweep->trial[i].name, &all[i]);
    add_line(&table, "all (parameters, memory: the largest)", &sum);
    int status = smoe_table_print(&table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(&table);
    if (!status) print_memory(all, sweep->trials, (size_t)options->jobs, memory);
    return status;
}

int smoe_trials_estimate(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    size_t trials = sweep->run ? 0 : sweep->trials; /* a run that is there is not trained */
    smoe_estimate *all = calloc(trials + 1, sizeof *all);
    smoe_estimator by = {0};
    json_t *list = json_array();
    if (!all || !list) {
        free(all);
        json_decref(list);
        return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    int status = trials ? estimate_all(all, &by, sweep, options, err) : 0;
    for (size_t i = 0; i < trials && !status; i++)
        json_array_append_new(list, estimate_json(sweep, &sweep->trial[i], &all[i]));
    if (!status && options->json)
        status = smoe_cmd_json(json_incref(list), err);
    else if (!status && trials)
        status = print_estimates(sweep, all, by.memory, options, err);
    if (!status && !options->json && sweep->evaluate.points) print_points(sweep);
    json_decref(list);
    free(all);
    return status;
}
