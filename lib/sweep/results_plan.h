/* For the figures of a sweep: how groups are called, where they stand, the lines of a chart. */
#ifndef SMOE_RESULTS_PLAN_H
#define SMOE_RESULTS_PLAN_H

#include "draw/chart.h"
#include "spec/metrics.h"
#include "sweep/results.h"

typedef struct smoe_results_plan {
    const smoe_results *r;
    size_t x;        /* the column on the x axis; SIZE_MAX: a metric is */
    size_t x_metric; /* that one */
    size_t y;        /* the column on the y axis of cells; SIZE_MAX: a metric is there */
    size_t line;     /* the only column that tells lines apart; SIZE_MAX: see tells_apart */
    bool numbers;    /* places on the x axis are numbers */
    size_t metric;
    smoe_chart figure;
    char split[SMOE_METRIC_KEY]; /* the split of the evaluations; "": several splits */
    char x_label[SMOE_METRIC_KEY], *y_label;
    char **title;                     /* [lines] */
    size_t *of;                       /* [lines] a group of each */
    double *weight;                   /* [groups] scratch */
    size_t references, *reference_of; /* groups that others are compared with; [lines] of each */
    size_t seeds;                     /* of curves: how many the bars are over; 0: there are none */
    size_t images; /* images that the intervals include; 0: intervals are over seeds alone */
} smoe_results_plan;

/* The plan of a figure with room for a line per group; free it in any case. */
smoe_results_plan smoe_results_plan_open(const smoe_results *results);
void smoe_results_plan_free(smoe_results_plan *plan);

/* What a group has in a column. */
const char *smoe_results_value(const smoe_results_plan *plan, size_t group, size_t column);
/* Whether a text is a finite number. */
bool smoe_results_number(const char *text, double *number);
/* Whether the values of a column are numbers, and not all the same. */
bool smoe_results_is_numeric(const smoe_results_plan *plan, size_t column);
/* The place of a group's value among those of a column: of numbers their order, else that of first
 * appearance. */
double smoe_results_rank(const smoe_results_plan *plan, size_t group, size_t column);
/* A column in words: the key, and whether it was set for evaluations, or is that of the start. */
const char *smoe_results_words(const char *column, char buf[SMOE_METRIC_KEY]);
/* The words of a metric that is a column or a name of the records. Returns words. */
const char *smoe_results_say(const smoe_results_plan *plan, const char *name,
                             char words[SMOE_METRIC_KEY]);
/* The split that a trial is evaluated on. */
void smoe_results_split(const smoe_sweep *sweep, size_t i, char split[SMOE_METRIC_KEY]);

/* The line of a group, which is added if there is none yet; and a point of a line. */
size_t smoe_results_line(smoe_results_plan *plan, size_t group);
void smoe_results_add_point(smoe_chart_line *line, smoe_chart_point point);

/* ---- kinds of figures ------------------------------------------------------------------------ */

/* Cells: the column that "KEY" or "KEY:METRIC" names, SIZE_MAX where there is none; the metric's
 * name, or NULL, in *colour. */
size_t smoe_results_cells_key(const smoe_sweep *sweep, const char *text, const char **colour);
/* The plan's metric as colours over its x and y: DIR/NAME.gp, .svg, and the numbers in
 * DIR/NAME_cells.csv. */
int smoe_results_cells_draw(smoe_results_plan *plan, const char *name, bool *drawn,
                            smoe_err *err) SMOE_MUST_CHECK;

/* Curves: whether the x axis is the step of training. */
bool smoe_results_over_steps(const smoe_sweep_figure *wish);
/* Metrics, separated by commas, over the steps of each trial: DIR/curves.csv; and the first one as
 * DIR/sweep.gp and .svg, means over seeds. SMOE_USAGE: no trial has records of it. */
int smoe_results_curves_draw(smoe_results_plan *plan, const char *text, bool *drawn,
                             smoe_err *err) SMOE_MUST_CHECK;

#endif
