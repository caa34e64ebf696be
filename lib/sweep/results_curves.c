/* The figure of what the trials of a sweep recorded during training; see results_plan.h. */
#include "sweep/results_plan.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/result.h"
#include "store/curves.h"
#include "sweep/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool smoe_results_over_steps(const smoe_sweep_figure *wish) {
    return wish->x && !strcmp(wish->x, smoe_metrics[SMOE_METRIC_STEP].name);
}

/* The values of a metric in the records of a trial: a column of results, or a name of the records;
 * NULL where there are none. */
static const smoe_curve *curve_of(const smoe_sweep *sweep, size_t i, const smoe_curves *records,
                                  const char *name) {
    char split[SMOE_METRIC_KEY], key[SMOE_METRIC_KEY];
    size_t number;
    smoe_metric m = smoe_metric_of_column(name, &number);
    if (m == SMOE_METRICS || !smoe_metrics[m].name) return smoe_curves_find(records, name);
    smoe_results_split(sweep, i, split);
    return smoe_curves_find(records, smoe_metric_key(key, m, split, number));
}

static double curves_value_at(const smoe_curve *curve, double step) {
    for (size_t k = 0; curve && k < curve->points; k++)
        if (curve->step[k] == step) return curve->value[k];
    return NAN;
}

/* curves.csv: a row for each trial and step of the first of the metrics. */
static int write_curves(const smoe_results_plan *p, const smoe_curves *records, char *const *name,
                        size_t names, smoe_err *err) {
    const smoe_sweep *sweep = p->r->sweep;
    const smoe_measures *m = p->r->measured;
    const char *cost = smoe_metrics[SMOE_METRIC_FLOPS_TRAIN].column;
    size_t flops = smoe_measures_metric(m, cost);
    smoe_result result = {0};
    smoe_frame *frame = smoe_result_table(&result, NULL, "curves");
    for (size_t i = 0; i < sweep->trials; i++) {
        const smoe_curve *first = curve_of(sweep, i, &records[i], name[0]);
        for (size_t k = 0; first && k < first->points; k++) {
            for (size_t c = 0; c < sweep->columns; c++)
                smoe_cell_text(frame, sweep->column[c], sweep->trial[i].value[c]);
            smoe_cell_number(frame, cost,
                             flops == SIZE_MAX ? NAN : m->value[i * m->metrics + flops]);
            smoe_cell_number(frame, smoe_metrics[SMOE_METRIC_STEP].name, first->step[k]);
            for (size_t n = 0; n < names; n++)
                smoe_cell_number(
                    frame, name[n],
                    curves_value_at(curve_of(sweep, i, &records[i], name[n]), first->step[k]));
            smoe_frame_end(frame);
        }
    }
    bool any = frame->rows;
    int status = smoe_result_check(&result, err);
    if (!status && !any)
        status = smoe_fail(err, SMOE_USAGE,
                           "%s: no cell has records of '%s' during training (packed sweeps have "
                           "none); names are those of metrics.csv in the folder of a cell",
                           sweep->dir, name[0]);
    if (!status) status = smoe_result_csv(&result, sweep->dir, err);
    smoe_result_free(&result);
    return status;
}

enum { MOST_BARS = 24 }; /* more points have none */

/* The mean over the trials of a group at each step of its first one. */
static void add_curve(smoe_results_plan *p, size_t group, const smoe_curves *records,
                      const char *name) {
    const smoe_sweep *sweep = p->r->sweep;
    const smoe_curve **curve = smoe_alloc(sweep->trials, sizeof *curve);
    double *value = smoe_alloc(sweep->trials, sizeof *value);
    size_t n = 0;
    for (size_t i = 0; i < sweep->trials; i++)
        if (p->r->measured->group[i] == group && (curve[n] = curve_of(sweep, i, &records[i], name)))
            n++;
    for (size_t k = 0, l = n ? smoe_results_line(p, group) : 0; n && k < curve[0]->points; k++) {
        double step = curve[0]->step[k];
        for (size_t i = 0; i < n; i++) value[i] = curves_value_at(curve[i], step);
        smoe_paired s = smoe_stats_paired(value, n);
        smoe_chart_point point = {
            .x = step, .y = s.mean, .error = curve[0]->points > MOST_BARS ? NAN : s.half};
        if (isfinite(s.mean)) smoe_results_add_point(&p->figure.line[l], point);
        if (isfinite(point.error) && s.n > p->seeds) p->seeds = s.n;
    }
    free(curve);
    free(value);
}

int smoe_results_curves_draw(smoe_results_plan *p, const char *text, bool *drawn, smoe_err *err) {
    const smoe_sweep *sweep = p->r->sweep;
    SMOE_FREED smoe_curves *records = smoe_alloc(sweep->trials, sizeof *records);
    char *copy = smoe_alloc_text(text), *rest = copy, **name = NULL, words[SMOE_METRIC_KEY];
    size_t names = 0;
    int status = 0;
    do {
        name = smoe_alloc_next(name, names, sizeof *name);
        name[names++] = strsep(&rest, ",");
    } while (rest);
    p->x = sweep->columns; /* none of them: all tell lines apart */
    for (size_t i = 0; i < sweep->trials && !status; i++) {
        SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
        if (smoe_file_holds(dir, "metrics.jsonl")) status = smoe_curves_read(&records[i], dir, err);
    }
    if (!status) status = write_curves(p, records, name, names, err);
    for (size_t g = 0; g < p->r->measured->groups && !status; g++)
        add_curve(p, g, records, name[0]);
    smoe_results_say(p, name[0], words);
    p->y_label = p->seeds < 2 ? smoe_alloc_text(words)
                              : smoe_text_format("%s (95%% interval, %zu seeds)", words, p->seeds);
    p->figure.x_label = smoe_metrics[SMOE_METRIC_STEP].label;
    p->figure.y_label = p->y_label;
    p->figure.share = smoe_metric_is_share(name[0]);
    if (!status) status = smoe_chart_write(&p->figure, sweep->dir, "sweep", drawn, err);
    for (size_t i = 0; i < sweep->trials; i++) smoe_curves_free(&records[i]);
    free(name);
    free(copy);
    return status;
}
