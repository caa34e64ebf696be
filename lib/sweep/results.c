/* Results of a sweep; see results.h. The figure is in results_figure.c, contrasts are in
 * compare/. */
#include "sweep/results.h"
#include "spec/metrics.h"
#include "sweep/evaluations.h"
#include "base/file.h"
#include "base/frame.h"
#include "base/json.h"
#include "sweep/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ------------------------------------------------------------------------------ */

static const json_t *result_of(const smoe_trial *trial) {
    return trial->state == SMOE_TRIAL_DONE ? json_object_get(trial->outcome, "result") : NULL;
}

/* Every metric that some trial has, in the order in which trials first have them. */
static int find_metrics(smoe_measures *m, const smoe_sweep *sweep) {
    for (size_t i = 0; i < sweep->trials; i++) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)result_of(&sweep->trial[i]), key, value) {
            if (smoe_measures_metric(m, key) != SIZE_MAX) continue;
            const char **metric = realloc(m->metric, (m->metrics + 1) * sizeof *metric);
            if (!metric) return -1;
            m->metric = metric;
            m->metric[m->metrics++] = key;
        }
    }
    return 0;
}

/* What determines the test images of a trial: the keys of its data, without those that only
 * training uses, and the split. Fresh; NULL where that is not known. */
static char *images_of(const smoe_sweep *sweep, size_t i) {
    static const char *const training[] = {"augment", "cache_mb"};
    json_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
    json_t *data = json_object_get(spec, "data");
    json_t *split = json_object_get(json_object_get(spec, "eval"), "split");
    for (size_t k = 0; k < sizeof training / sizeof *training; k++)
        json_object_del(data, training[k]);
    for (size_t c = 0; c < sweep->columns; c++)
        if (!strcmp(sweep->column[c], SMOE_EVALUATED "eval.split"))
            json_string_set(split, sweep->trial[i].value[c]);
    json_t *images = json_pack("[O?, O?]", data, split);
    char *text = images ? smoe_json_whole(images, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(images);
    json_decref(spec);
    return text;
}

/* The trials as runs of a table. The table borrows setting [trials]. */
static int measure(smoe_measures *m, char *const **setting, const smoe_sweep *sweep,
                   smoe_err *err) {
    *m = (smoe_measures){.column = sweep->column,
                         .columns = sweep->columns,
                         .seed = sweep->seed,
                         .setting = setting,
                         .runs = sweep->trials};
    for (size_t i = 0; i < sweep->trials; i++) setting[i] = sweep->trial[i].value;
    if (find_metrics(m, sweep))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the results");
    if (smoe_measures_open(m, err) || smoe_measures_allocate(m, err)) return -1;
    for (size_t i = 0; i < sweep->trials; i++) {
        m->images[i] = images_of(sweep, i);
        if (sweep->dir && !(m->outcomes[i] = smoe_trial_outcomes(sweep, i)))
            return smoe_fail(err, SMOE_RUNTIME, "out of memory for the results");
        for (size_t k = 0; k < m->metrics; k++) {
            const json_t *value = json_object_get(result_of(&sweep->trial[i]), m->metric[k]);
            if (json_is_number(value)) m->value[i * m->metrics + k] = json_number_value(value);
        }
    }
    return 0;
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
    r->evaluations->contrasts.planned = r->contrasts.planned;
    return 0;
}

static int make(smoe_results *r, const smoe_sweep *sweep, size_t x_from, size_t trained,
                smoe_err *err) {
    const smoe_compare_options options = {
        .reference = sweep->reference, .equivalence = sweep->plan.equivalence, .from = x_from};
    *r = (smoe_results){.sweep = sweep,
                        .x_from = x_from,
                        .trained = trained,
                        .contrasts.planned = sweep->plan.primaries,
                        .measured = calloc(1, sizeof *r->measured),
                        .setting = calloc(sweep->trials + 1, sizeof *r->setting)};
    if (!r->measured || !r->setting)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the results");
    if (measure(r->measured, r->setting, sweep, err)) return -1;
    if (smoe_comparison_make(&r->contrasts.compared, r->measured, &options, err)) return -1;
    if (smoe_trends_make(&r->contrasts.trends, r->measured, err)) return -1;
    return make_evaluations(r, err);
}

int smoe_results_make(smoe_results *r, const smoe_sweep *sweep, smoe_err *err) {
    if (make(r, sweep, 0, sweep->columns, err)) return -1;
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

/* ---- writing --------------------------------------------------------------------------------- */

static const char *state_name(smoe_trial_state state) {
    return state == SMOE_TRIAL_DONE ? "done" : state == SMOE_TRIAL_FAILED ? "failed" : "open";
}

/* The first line of the reason why a trial failed; "" if it has not. To be freed. */
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
    for (size_t m = 0; m < r->measured->metrics; m++)
        smoe_frame_column(frame, r->measured->metric[m], false);
    /* Evaluations have no state of their own. */
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
        for (size_t m = 0; m < r->measured->metrics; m++)
            smoe_frame_cells_number(&row, r->measured->metric[m],
                                    r->measured->value[i * r->measured->metrics + m]);
        if (trials) smoe_frame_cells_text(&row, "error", error);
        smoe_frame_cells_put(&row, frame);
        free(error);
    }
}

/* summary.csv: one row per group. */
static void fill_summary(smoe_frame *frame, const smoe_results *r) {
    static const char *const parts[] = {"mean", "sd", "n"};
    const smoe_sweep *sweep = r->sweep;
    char **name = calloc(3 * r->measured->metrics + 1, sizeof *name);
    frame->failed |= !name;
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) smoe_frame_column(frame, sweep->column[c], true);
    for (size_t i = 0; name && i < 3 * r->measured->metrics; i++) {
        name[i] = smoe_text_format("%s_%s", r->measured->metric[i / 3], parts[i % 3]);
        if (name[i])
            smoe_frame_column(frame, name[i], false);
        else
            frame->failed = true;
    }
    for (size_t g = 0; g < r->measured->groups && !frame->failed; g++) {
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed)
                smoe_frame_cells_text(&row, sweep->column[c],
                                      smoe_measures_setting(r->measured, g, c));
        for (size_t m = 0; m < r->measured->metrics; m++) {
            smoe_stats s = smoe_measures_stats(r->measured, g, m);
            smoe_frame_cells_number(&row, name[3 * m], s.mean);
            smoe_frame_cells_number(&row, name[3 * m + 1], s.sd);
            smoe_frame_cells_number(&row, name[3 * m + 2], (double)s.n);
        }
        smoe_frame_cells_put(&row, frame);
    }
    for (size_t i = 0; name && i < 3 * r->measured->metrics; i++) free(name[i]);
    free(name);
}

size_t smoe_results_done(const smoe_results *r, size_t group) {
    size_t n = 0;
    for (size_t i = 0; i < r->sweep->trials; i++)
        n += r->measured->group[i] == group && r->sweep->trial[i].state == SMOE_TRIAL_DONE;
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
    for (size_t m = 0; m < r->measured->metrics; m++)
        if (smoe_metric_is_shown(r->measured->metric[m], false))
            fprintf(out, " %s |", r->measured->metric[m]);
    fputs("\n|", out);
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) fputs(" --- |", out);
    fputs(" ---: |", out);
    for (size_t m = 0; m < r->measured->metrics; m++)
        if (smoe_metric_is_shown(r->measured->metric[m], false)) fputs(" ---: |", out);
    fputc('\n', out);
    for (size_t g = 0; g < r->measured->groups; g++) {
        fputc('|', out);
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed) fprintf(out, " %s |", smoe_measures_setting(r->measured, g, c));
        fprintf(out, " %zu |", smoe_results_done(r, g));
        for (size_t m = 0; m < r->measured->metrics; m++)
            if (smoe_metric_is_shown(r->measured->metric[m], false))
                fprintf(
                    out, " %s |",
                    smoe_results_text(text, sizeof text, smoe_measures_stats(r->measured, g, m)));
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
    smoe_tables_markdown(out, &r->contrasts, "##");
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
    smoe_tables_markdown(out, &r->evaluations->contrasts, "###");
    return 0;
}

static void fill_differences(smoe_frame *frame, const smoe_results *r) {
    smoe_tables_differences(frame, &r->contrasts.compared);
}

static void fill_trends(smoe_frame *frame, const smoe_results *r) {
    smoe_tables_trends(frame, &r->contrasts.trends);
}

static void fill_primary(smoe_frame *frame, const smoe_results *r) {
    smoe_tables_primary(frame, r->contrasts.primary, r->contrasts.primaries);
}

/* Writes a table to a file. A table without rows has no file, and an earlier file is removed. */
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
                     {"differences", fill_differences},
                     {"trends", fill_trends}},
                    {{"evaluations", fill_trials},
                     {"evaluations_summary", fill_summary},
                     {"evaluations_differences", fill_differences},
                     {"evaluations_trends", fill_trends}}};
    for (size_t later = 0; later < (r->evaluations ? 2 : 1); later++)
        for (size_t i = 0; i < 4; i++)
            if (write_frame(later ? r->evaluations : r, files[later][i].name, files[later][i].fill,
                            err))
                return -1;
    return write_frame(r, "primary", fill_primary, err) ? -1 : write_markdown(r, err);
}
