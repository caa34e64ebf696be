/* What a sweep came to: a table of its cells, summaries over seeds, a figure. */
#ifndef SMOE_RESULTS_H
#define SMOE_RESULTS_H

#include "study/stats.h"
#include "study/sweep.h"

typedef struct smoe_results {
    const smoe_sweep *sweep;
    const char **metric; /* [metrics] "test_loss"; owned by the outcomes */
    size_t metrics;
    double *value; /* [cells,metrics]; NAN where a cell has none */
    size_t *group; /* [cells] cells that differ in the seed alone share a group */
    size_t *first; /* [groups] the first cell of each */
    size_t groups;
    size_t x_from; /* the first column that a figure may have as its x axis */
    /* Of the cells' evaluations at other settings, or NULL: their own results, and the sweep these
     * are of. */
    struct smoe_results *evaluations;
    smoe_sweep *evaluated;
} smoe_results;

/* From the outcomes as last looked at, all cells. Free in any case. */
int smoe_results_make(smoe_results *results, const smoe_sweep *sweep,
                      smoe_err *err) SMOE_MUST_CHECK;
void smoe_results_free(smoe_results *results);

/* The column of a metric, SIZE_MAX where no cell has it. */
size_t smoe_results_metric(const smoe_results *results, const char *name);
/* Over the seeds of a group. */
smoe_stats smoe_results_stats(const smoe_results *results, size_t group, size_t metric);
/* "0.8120 +- 0.0040" with the sign for +-, "0.8120" of a single value, "-" of none. Returns buf. */
const char *smoe_results_text(char *buf, size_t size, smoe_stats stats);

/* Is the metric one that people look at first; with `brief`, on a screen? */
bool smoe_results_shown(const char *metric, bool brief);
/* How many cells of a group are done. */
size_t smoe_results_done(const smoe_results *results, size_t group);

/* DIR/results.csv, a row a cell; DIR/summary.csv, a row a group with mean, sd and n of every metric;
 * DIR/summary.md; and for the evaluations, DIR/evaluations.csv, DIR/evaluations_summary.csv and a section of
 * the summary. */
int smoe_results_write(const smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* DIR/sweep.gp and, with gnuplot, DIR/sweep.svg, and the same of DIR/evaluations (*drawn is false
 * when one should be there and is not); see results_figure.h. SMOE_USAGE: the sweep's `figure` names
 * what the results do not have. */
int smoe_results_draw(const smoe_results *results, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

#endif
