/* Results of a sweep; see results.h. The figure is in results_figure.c, the comparing in compare.c.
 */
#include "sweep/results.h"
#include "spec/metrics.h"
#include "sweep/compare.h"
#include "sweep/evaluations.h"
#include "sweep/primary.h"
#include "sweep/results_contrasts.h"
#include "sweep/settings.h"
#include "sweep/trend.h"
#include "base/file.h"
#include "base/frame.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ------------------------------------------------------------------------------ */

static const json_t *result_of(const smoe_trial *trial) {
    return trial->state == SMOE_TRIAL_DONE ? json_object_get(trial->outcome, "result") : NULL;
}

size_t smoe_results_metric(const smoe_results *results, const char *name) {
    for (size_t m = 0; m < results->metrics; m++)
        if (!strcmp(results->metric[m], name)) return m;
    return SIZE_MAX;
}

/* Every metric that some trial has, in the order in which trials first have them. */
static int find_metrics(smoe_results *r) {
    for (size_t i = 0; i < r->sweep->trials; i++) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)result_of(&r->sweep->trial[i]), key, value) {
            if (smoe_results_metric(r, key) != SIZE_MAX) continue;
            const char **metric = realloc(r->metric, (r->metrics + 1) * sizeof *metric);
            if (!metric) return -1;
            r->metric = metric;
            r->metric[r->metrics++] = key;
        }
    }
    return 0;
}

static bool same_group(const smoe_sweep *sweep, const smoe_trial *a, const smoe_trial *b) {
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed && strcmp(a->value[c], b->value[c])) return false;
    return true;
}

static int make(smoe_results *r, const smoe_sweep *sweep, size_t x_from, size_t trained,
                smoe_err *err);

/* The results of the trials' evaluations. */
static int make_evaluations(smoe_results *r, smoe_err *err) {
    if (!r->sweep->evaluate.points) return 0;
    r->evaluated = calloc(1, sizeof *r->evaluated);
    r->evaluations = calloc(1, sizeof *r->evaluations);
    if (!r->evaluated || !r->evaluations)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the evaluations");
    if (smoe_evaluations_table(r->evaluated, r->sweep, err)) return -1;
    if (make(r->evaluations, r->evaluated, r->sweep->columns, r->sweep->columns, err)) return -1;
    r->evaluations->planned = r->planned;
    return 0;
}

static int make(smoe_results *r, const smoe_sweep *sweep, size_t x_from, size_t trained,
                smoe_err *err) {
    *r = (smoe_results){
        .sweep = sweep, .x_from = x_from, .trained = trained, .planned = sweep->plan.primaries};
    int status = find_metrics(r);
    r->value = calloc(sweep->trials * r->metrics + 1, sizeof *r->value);
    r->group = calloc(sweep->trials + 1, sizeof *r->group);
    r->first = calloc(sweep->trials + 1, sizeof *r->first);
    if (status || !r->value || !r->group || !r->first)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the results");
    for (size_t i = 0; i < sweep->trials; i++) {
        size_t g = 0;
        while (g < r->groups && !same_group(sweep, &sweep->trial[r->first[g]], &sweep->trial[i]))
            g++;
        if (g == r->groups) r->first[r->groups++] = i;
        r->group[i] = g;
        for (size_t m = 0; m < r->metrics; m++) {
            const json_t *value = json_object_get(result_of(&sweep->trial[i]), r->metric[m]);
            r->value[i * r->metrics + m] = json_is_number(value) ? json_number_value(value) : NAN;
        }
    }
    if (smoe_results_compare(r, err) || smoe_results_follow(r, err)) return -1;
    return make_evaluations(r, err);
}

int smoe_results_make(smoe_results *r, const smoe_sweep *sweep, smoe_err *err) {
    return make(r, sweep, 0, sweep->columns, err) ? -1 : smoe_results_decide(r, err);
}

void smoe_results_free(smoe_results *r) {
    free(r->metric);
    free(r->value);
    free(r->group);
    free(r->first);
    for (size_t c = 0; r->reference && c < r->sweep->columns; c++) free(r->reference[c]);
    free(r->reference);
    free(r->difference);
    free(r->trend);
    free(r->primary);
    if (r->evaluations) smoe_results_free(r->evaluations);
    if (r->evaluated) smoe_sweep_free(r->evaluated);
    free(r->evaluations);
    free(r->evaluated);
    *r = (smoe_results){0};
}

smoe_stats smoe_results_stats(const smoe_results *r, size_t group, size_t metric) {
    double *value = calloc(r->sweep->trials + 1, sizeof *value);
    size_t n = 0;
    if (!value || metric == SIZE_MAX) {
        free(value);
        return (smoe_stats){.mean = NAN, .sd = NAN};
    }
    for (size_t i = 0; i < r->sweep->trials; i++)
        if (r->group[i] == group) value[n++] = r->value[i * r->metrics + metric];
    smoe_stats stats = smoe_stats_of(value, n);
    free(value);
    return stats;
}

const char *smoe_results_text(char *buf, size_t size, smoe_stats s) {
    if (!s.n)
        snprintf(buf, size, "-");
    else if (s.n == 1)
        snprintf(buf, size, "%.4g", s.mean);
    else if (s.sd == 0)
        snprintf(buf, size, "%.6g", s.mean); /* parameters, FLOPs: the same for all seeds */
    else
        snprintf(buf, size, "%.4g \xc2\xb1 %.2g", s.mean, s.sd);
    return buf;
}

char *smoe_results_reference(const smoe_results *r) {
    char *text = NULL;
    for (size_t c = 0; r->reference && c < r->sweep->columns; c++) {
        if (!r->reference[c]) continue;
        char *longer = smoe_text_format("%s%s%s=%s", text ? text : "", text ? " " : "",
                                        r->sweep->column[c], r->reference[c]);
        free(text);
        if (!(text = longer)) return NULL;
    }
    return text ? text : strdup("");
}

const char *smoe_results_row(const smoe_results *r, const smoe_difference *d, size_t column) {
    bool set = r->reference[column] && !smoe_settings_is_any(r->reference[column]);
    return d->pooled && !set ? NULL : r->sweep->trial[r->first[d->group]].value[column];
}

const char *smoe_results_difference(char *buf, size_t size, const smoe_paired *p) {
    if (p->n == 1)
        snprintf(buf, size, "%+.4g", p->mean);
    else
        snprintf(buf, size, "%+.4g \xc2\xb1 %.2g", p->mean, p->half);
    return buf;
}

const char *smoe_results_verdict(char *buf, size_t size, const smoe_difference *d) {
    if (d->equivalent)
        snprintf(buf, size, "equivalent within \xc2\xb1%g", d->margin);
    else if (isfinite(d->margin))
        snprintf(buf, size, d->paired.distinguishable ? "different" : "not decided");
    else
        snprintf(buf, size, d->paired.distinguishable ? "distinguishable" : "not distinguishable");
    return buf;
}

const char *smoe_results_direction(const smoe_trend *t) {
    if (!t->paired.distinguishable) return "not distinguishable";
    return t->paired.mean > 0 ? "rising" : "falling";
}

const char *smoe_results_finding(smoe_finding finding) {
    static const char *const words[] = {"open", "confirmed", "refuted"};
    return words[finding];
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *state_name(smoe_trial_state state) {
    return state == SMOE_TRIAL_DONE ? "done" : state == SMOE_TRIAL_FAILED ? "failed" : "open";
}

/* Why a trial has failed, the first line of it; "" where it has not. To be freed. */
static char *error_of(const smoe_trial *trial) {
    const char *error = json_string_value(json_object_get(trial->outcome, "error"));
    return error ? strndup(error, strcspn(error, "\n")) : strdup("");
}

/* results.csv: one row per trial. */
static void fill_trials(smoe_frame *frame, const smoe_results *r) {
    const smoe_sweep *sweep = r->sweep;
    smoe_frame_column(frame, "cell", true);
    for (size_t c = 0; c < sweep->columns; c++) smoe_frame_column(frame, sweep->column[c], true);
    smoe_frame_column(frame, "status", true);
    for (size_t m = 0; m < r->metrics; m++) smoe_frame_column(frame, r->metric[m], false);
    /* And not evaluations, which have no state of their own. */
    bool trials = r->trained == sweep->columns;
    if (trials) smoe_frame_column(frame, "error", true);
    for (size_t i = 0; i < sweep->trials; i++) {
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        char *error = error_of(&sweep->trial[i]);
        frame->failed |= !error;
        smoe_frame_cells_text(&row, "cell", sweep->trial[i].name);
        for (size_t c = 0; c < sweep->columns; c++)
            smoe_frame_cells_text(&row, sweep->column[c], sweep->trial[i].value[c]);
        smoe_frame_cells_text(&row, "status", state_name(sweep->trial[i].state));
        for (size_t m = 0; m < r->metrics; m++)
            smoe_frame_cells_number(&row, r->metric[m], r->value[i * r->metrics + m]);
        if (trials) smoe_frame_cells_text(&row, "error", error);
        smoe_frame_cells_put(&row, frame);
        free(error);
    }
}

/* summary.csv: one row per group. */
static void fill_summary(smoe_frame *frame, const smoe_results *r) {
    static const char *const parts[] = {"mean", "sd", "n"};
    const smoe_sweep *sweep = r->sweep;
    char **name = calloc(3 * r->metrics + 1, sizeof *name);
    frame->failed |= !name;
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) smoe_frame_column(frame, sweep->column[c], true);
    for (size_t i = 0; name && i < 3 * r->metrics; i++) {
        name[i] = smoe_text_format("%s_%s", r->metric[i / 3], parts[i % 3]);
        if (name[i])
            smoe_frame_column(frame, name[i], false);
        else
            frame->failed = true;
    }
    for (size_t g = 0; g < r->groups && !frame->failed; g++) {
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed)
                smoe_frame_cells_text(&row, sweep->column[c], sweep->trial[r->first[g]].value[c]);
        for (size_t m = 0; m < r->metrics; m++) {
            smoe_stats s = smoe_results_stats(r, g, m);
            smoe_frame_cells_number(&row, name[3 * m], s.mean);
            smoe_frame_cells_number(&row, name[3 * m + 1], s.sd);
            smoe_frame_cells_number(&row, name[3 * m + 2], (double)s.n);
        }
        smoe_frame_cells_put(&row, frame);
    }
    for (size_t i = 0; name && i < 3 * r->metrics; i++) free(name[i]);
    free(name);
}

bool smoe_results_shown(const char *metric, bool brief) {
    smoe_metric m = smoe_metric_of_column(metric, NULL);
    return m < SMOE_METRICS &&
           smoe_metrics[m].shown >= (brief ? SMOE_SHOWN_SCREEN : SMOE_SHOWN_SUMMARY);
}

size_t smoe_results_done(const smoe_results *r, size_t group) {
    size_t n = 0;
    for (size_t i = 0; i < r->sweep->trials; i++)
        n += r->group[i] == group && r->sweep->trial[i].state == SMOE_TRIAL_DONE;
    return n;
}

/* The table of the summary: one row per group. */
static void put_table(FILE *out, const smoe_results *r) {
    const smoe_sweep *sweep = r->sweep;
    char text[64];
    fputc('|', out);
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) fprintf(out, " %s |", sweep->column[c]);
    fputs(" n |", out);
    for (size_t m = 0; m < r->metrics; m++)
        if (smoe_results_shown(r->metric[m], false)) fprintf(out, " %s |", r->metric[m]);
    fputs("\n|", out);
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) fputs(" --- |", out);
    fputs(" ---: |", out);
    for (size_t m = 0; m < r->metrics; m++)
        if (smoe_results_shown(r->metric[m], false)) fputs(" ---: |", out);
    fputc('\n', out);
    for (size_t g = 0; g < r->groups; g++) {
        fputc('|', out);
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed) fprintf(out, " %s |", sweep->trial[r->first[g]].value[c]);
        fprintf(out, " %zu |", smoe_results_done(r, g));
        for (size_t m = 0; m < r->metrics; m++)
            if (smoe_results_shown(r->metric[m], false))
                fprintf(out, " %s |",
                        smoe_results_text(text, sizeof text, smoe_results_stats(r, g, m)));
        fputc('\n', out);
    }
}

static int put_markdown(FILE *out, const void *context, smoe_err *err) {
    const smoe_results *r = context;
    (void)err;
    const smoe_sweep *sweep = r->sweep;
    size_t failed = 0, open = 0;
    fprintf(out, "# %s\n\n", sweep->name);
    fputs("Mean and standard deviation over n seeds.\n\n", out);
    put_table(out, r);
    smoe_contrasts_markdown(out, r, "##");
    for (size_t i = 0; i < sweep->trials; i++) {
        failed += sweep->trial[i].state == SMOE_TRIAL_FAILED;
        open += sweep->trial[i].state == SMOE_TRIAL_OPEN;
    }
    if (failed || open)
        fprintf(out, "\n%zu of %zu cells failed, %zu are not finished.\n", failed, sweep->trials,
                open);
    if (!r->evaluations) return 0;
    fputs("\n## Evaluations\n\nThe trained cells, evaluated at other settings.\n\n", out);
    put_table(out, r->evaluations);
    smoe_contrasts_markdown(out, r->evaluations, "###");
    return 0;
}

/* A table as a file; one without rows is none, and an earlier file of the name goes. */
static int write_frame(const smoe_results *r, const char *name,
                       void (*fill)(smoe_frame *frame, const smoe_results *r), smoe_err *err) {
    smoe_frame frame;
    char *path = smoe_text_format("%s/%s.csv", r->sweep->dir, name);
    smoe_frame_init(&frame, name, NULL, NULL, NULL);
    fill(&frame, r);
    int status = !path ? smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", r->sweep->dir)
                 : frame.rows || frame.failed ? smoe_frame_csv(&frame, path, err)
                                              : smoe_file_remove(path, err);
    smoe_frame_free(&frame);
    free(path);
    return status;
}

static int write_markdown(const smoe_results *r, smoe_err *err) {
    char *path = smoe_text_format("%s/summary.md", r->sweep->dir);
    int status = path ? smoe_file_print(path, put_markdown, r, err)
                      : smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", r->sweep->dir);
    free(path);
    return status;
}

int smoe_results_write(const smoe_results *r, smoe_err *err) {
    static const struct {
        const char *name;
        void (*fill)(smoe_frame *frame, const smoe_results *r);
    } files[][4] = {{{"results", fill_trials},
                     {"summary", fill_summary},
                     {"differences", smoe_contrasts_differences},
                     {"trends", smoe_contrasts_trends}},
                    {{"evaluations", fill_trials},
                     {"evaluations_summary", fill_summary},
                     {"evaluations_differences", smoe_contrasts_differences},
                     {"evaluations_trends", smoe_contrasts_trends}}};
    for (size_t later = 0; later < (r->evaluations ? 2 : 1); later++)
        for (size_t i = 0; i < 4; i++)
            if (write_frame(later ? r->evaluations : r, files[later][i].name, files[later][i].fill,
                            err))
                return -1;
    return write_frame(r, "primary", smoe_contrasts_primary, err) ? -1 : write_markdown(r, err);
}
