/* What a sweep came to: a table of its cells, summaries over seeds, differences between rows, a
 * figure. */
#ifndef SMOE_RESULTS_H
#define SMOE_RESULTS_H

#include "math/stats.h"
#include "sweep/sweep.h"

/* A row and its reference, seed by seed. */
typedef struct smoe_difference {
    size_t group; /* the row; of a pool, the first one */
    size_t metric;
    /* All rows that have the same as `group` where the reference has a value are one sample, those
     * compared with the same cell averaged. */
    bool pooled;
    smoe_paired paired; /* row - reference, with a 95% interval */
} smoe_difference;

typedef struct smoe_results {
    const smoe_sweep *sweep;
    const char **metric; /* [metrics] "test_loss"; owned by the outcomes */
    size_t metrics;
    double *value; /* [cells,metrics]; NAN where a cell has none */
    size_t *group; /* [cells] cells that differ in the seed alone share a group */
    size_t *first; /* [groups] the first cell of each */
    size_t groups;
    /* The first columns, that tell trainings apart: all, of evaluations those of the cells. */
    size_t trained;
    size_t x_from; /* the first column that a figure may have as its x axis */
    /* What the row that a row is compared with has in each column: a value, "*", anything, or NULL,
     * the row's own. By metric, a pool behind its rows; rows that have no pairs are left out. See
     * compare.h. */
    char **reference; /* [columns]; NULL: nothing is compared */
    smoe_difference *difference;
    size_t differences;
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
/* The metric to look at first: `wish` where it is there (may be NULL), else precision_at_1, else a
 * loss. */
size_t smoe_results_first(const smoe_results *results, const char *wish);
/* Over the seeds of a group. */
smoe_stats smoe_results_stats(const smoe_results *results, size_t group, size_t metric);
/* What the references of all rows have in common, "model.moe.router=soft model.moe.k=1"; fresh,
 * NULL when out of memory. */
char *smoe_results_reference(const smoe_results *results);
/* What a difference's row has in a column; NULL: of a pool, where its rows may differ. */
const char *smoe_results_row(const smoe_results *results, const smoe_difference *difference,
                             size_t column);
/* "+0.084 +- 0.027", the second half the interval; without it of a single pair. Returns buf. */
const char *smoe_results_difference(char *buf, size_t size, const smoe_paired *paired);
/* "0.8120 +- 0.0040" with the sign for +-, "0.8120" of a single value or of equal ones, "-" of
 * none. Returns buf. */
const char *smoe_results_text(char *buf, size_t size, smoe_stats stats);

/* Is the metric one that people look at first; with `brief`, on a screen? */
bool smoe_results_shown(const char *metric, bool brief);
/* How many cells of a group are done. */
size_t smoe_results_done(const smoe_results *results, size_t group);

/* DIR/results.csv, a row a cell; DIR/summary.csv, a row a group with mean, sd and n of every
 * metric; DIR/differences.csv, a row a difference, where there are some; DIR/summary.md. Of the
 * evaluations the same in DIR/evaluations.csv, DIR/evaluations_summary.csv,
 * DIR/evaluations_differences.csv and a section of the summary. */
int smoe_results_write(const smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* Whether the sweep's figure can be drawn, as far as that is known before any cell has run.
 * SMOE_USAGE: a column that is neither set nor measured. */
int smoe_results_check(const smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* DIR/sweep.gp and, with gnuplot, DIR/sweep.svg, and the same of DIR/evaluations (*drawn is false
 * when one should be there and is not); see results_figure.h. SMOE_USAGE: the sweep's `figure`
 * names what the results do not have. */
int smoe_results_draw(const smoe_results *results, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

#endif
