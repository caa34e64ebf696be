/* What a sweep came to: a table of its trials, summaries over seeds, differences between rows, a
 * figure. */
#ifndef SMOE_RESULTS_H
#define SMOE_RESULTS_H

#include "math/stats.h"
#include "sweep/sweep.h"

/* A row and its reference, seed by seed and image by image. */
typedef struct smoe_difference {
    size_t group; /* the row; of a pool, the first one */
    size_t metric;
    /* The mean over all rows that have the same as `group` where the reference has a value, each
     * with its own reference, of every seed. */
    bool pooled;
    smoe_paired paired; /* row - reference, with a 95% interval */
    double p;           /* that there is no difference; NAN below two seeds */
    double margin;      /* within which the two count as equivalent; NAN: nobody says */
    bool equivalent;    /* within it, by two one-sided tests at 5% */
} smoe_difference;

/* How a metric changes for each doubling of a swept number; see trend.h. */
typedef struct smoe_trend {
    size_t group; /* the first row; the others have other values in `column` */
    size_t column, metric;
    size_t rows;
    smoe_paired paired; /* the slope */
    double p;
} smoe_trend;

typedef enum smoe_finding {
    SMOE_OPEN, /* the data do not tell */
    SMOE_CONFIRMED,
    SMOE_REFUTED
} smoe_finding;

/* What came of a primary contrast of the sweep; see primary.h. */
typedef struct smoe_primary_result {
    const smoe_primary *asked;
    size_t rows; /* that have a counterpart, or that the trend goes over */
    smoe_paired paired;
    double margin;      /* of expect: equivalent; else NAN */
    double p, adjusted; /* of what is tested; adjusted by Holm's method */
    smoe_finding finding;
} smoe_primary_result;

typedef struct smoe_results {
    const smoe_sweep *sweep;
    const char **metric; /* [metrics] "test_loss"; owned by the outcomes */
    size_t metrics;
    double *value; /* [trials,metrics]; NAN where a trial has none */
    size_t *group; /* [trials] trials that differ in the seed alone share a group */
    size_t *first; /* [groups] the first trial of each */
    size_t groups;
    /* The first columns, that tell trainings apart: all, of evaluations those of the trials. */
    size_t trained;
    size_t x_from; /* the first column that a figure may have as its x axis */
    /* What the row that a row is compared with has in each column: a value, "*", anything, or NULL,
     * the row's own. By metric, a pool behind its rows; rows that have no pairs are left out. See
     * compare.h. */
    char **reference; /* [columns]; NULL: nothing is compared */
    smoe_difference *difference;
    size_t differences;
    smoe_trend *trend; /* by metric */
    size_t trends;
    bool planned;                 /* there are primary contrasts: all else is exploratory */
    smoe_primary_result *primary; /* of the sweep's primary contrasts, in their order */
    size_t primaries;
    /* Of the trials' evaluations at other settings, or NULL: their own results, and the sweep these
     * are of. */
    struct smoe_results *evaluations;
    smoe_sweep *evaluated;
} smoe_results;

/* From the outcomes as last looked at, all trials. Free in any case. */
int smoe_results_make(smoe_results *results, const smoe_sweep *sweep,
                      smoe_err *err) SMOE_MUST_CHECK;
void smoe_results_free(smoe_results *results);

/* The column of a metric, SIZE_MAX where no trial has it. */
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
/* "distinguishable" or "not distinguishable"; with a margin "equivalent within +-0.01", "different"
 * or "not decided". Returns buf. */
const char *smoe_results_verdict(char *buf, size_t size, const smoe_difference *difference);
/* "rising", "falling", "not distinguishable". */
const char *smoe_results_direction(const smoe_trend *trend);
/* "confirmed", "refuted", "open". */
const char *smoe_results_finding(smoe_finding finding);
/* "+0.084 +- 0.027", the second half the interval; without it of a single pair. Returns buf. */
const char *smoe_results_difference(char *buf, size_t size, const smoe_paired *paired);
/* "0.8120 +- 0.0040" with the sign for +-, "0.8120" of a single value or of equal ones, "-" of
 * none. Returns buf. */
const char *smoe_results_text(char *buf, size_t size, smoe_stats stats);

/* Is the metric one that people look at first; with `brief`, on a screen? */
bool smoe_results_shown(const char *metric, bool brief);
/* How many trials of a group are done. */
size_t smoe_results_done(const smoe_results *results, size_t group);

/* DIR/results.csv, a row per trial; DIR/summary.csv, a row per group with mean, sd and n of every
 * metric; DIR/differences.csv, DIR/trends.csv and DIR/primary.csv, a row per contrast, where there
 * are some; DIR/summary.md. Of the evaluations the same in DIR/evaluations.csv and
 * DIR/evaluations_*.csv and a section of the summary. */
int smoe_results_write(const smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* Whether the sweep's figure can be drawn, as far as that is known before any trial has run.
 * SMOE_USAGE: a column that is neither set nor measured. */
int smoe_results_check(const smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* DIR/sweep.gp and, with gnuplot, DIR/sweep.svg, and the same of DIR/evaluations (*drawn is false
 * when one should be there and is not); see results_figure.h. SMOE_USAGE: the sweep's `figure`
 * names what the results do not have. */
int smoe_results_draw(const smoe_results *results, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

#endif
