/* The results of a sweep: a table of its trials, summaries over seeds, contrasts, a figure. */
#pragma once

#include "compare/tables.h"
#include "spec/metrics.h"
#include "sweep/sweep.h"

typedef struct smoe_results {
    const smoe_sweep *sweep;
    smoe_measures *measured; /* the trials are its runs; names of metrics are the outcomes' */
    char *const **setting;   /* [trials] for it: what each trial has in the columns */
    smoe_contrasts contrasts;
    /* The number of columns that tell trainings apart, which come first: all columns, or of
     * evaluations those of the trials. */
    size_t trained;
    /* The evaluations of the trials at other settings, as results of a sweep of their own; or NULL.
     * */
    struct smoe_results *evaluations;
    smoe_sweep *evaluated;
} smoe_results;

/* From the last known outcomes of all trials. Free in any case. */
int smoe_results_make(smoe_results *results, const smoe_sweep *sweep,
                      smoe_err *err) SMOE_MUST_CHECK;
void smoe_results_free(smoe_results *results);

/* The split that a trial is evaluated on; "" where that is not known. */
void smoe_results_split(const smoe_sweep *sweep, size_t trial, char split[SMOE_METRIC_KEY]);

/* The main metric: `wish` if it exists (may be NULL), else precision_at_1, else a loss. */
size_t smoe_results_first(const smoe_results *results, const char *wish);
/* Whether a group has means of both metrics, and no other has means that are as good in both and
 * better in one. */
bool smoe_results_on_front(const smoe_results *results, size_t group, size_t x, size_t y);
/* The number of finished trials of a group. */
size_t smoe_results_done(const smoe_results *results, size_t group);

/* Adds the trials, a row per group with mean, sd and n of every metric, and the contrasts, then the
 * same of the evaluations; or the contrasts alone. Names of files and of lists in JSON are those of
 * smoe-sweep(1). */
void smoe_results_add(smoe_result *result, const smoe_results *results, bool all);

/* DIR/results.csv, a row per trial; DIR/summary.csv, a row per group with mean, sd and n of every
 * metric; DIR/differences.csv, DIR/trends.csv and DIR/primary.csv, a row per contrast, where there
 * are some; DIR/summary.md. Of the evaluations the same in DIR/evaluations.csv and
 * DIR/evaluations_*.csv and a section of the summary. */
int smoe_results_write(const smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* Whether the sweep's figure can be drawn, as far as that is known before any trial has run.
 * SMOE_USAGE: a column that is neither set nor measured. */
int smoe_results_check(const smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;
/* Whether it shows metrics over the steps of training. */
bool smoe_results_over_steps(const smoe_sweep_figure *figure);

/* DIR/sweep.gp and, with gnuplot, DIR/sweep.svg, and the same of DIR/evaluations (*drawn is false
 * when one should be there and is not); see results_figure.c. SMOE_USAGE: the sweep's `figure`
 * names what the results do not have. */
int smoe_results_draw(const smoe_results *results, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* Whether values that rise from point to point look like powers: three or more, all positive, each
 * at least 1.4 times the one before. `value` is sorted in place. */
bool smoe_results_powers(double *value, size_t n);
