/*
 * The measurements of some runs: the table that all comparisons start from. A run has settings, one
 * of which may be its seed; runs that differ only in the seed are a group. The owner of the runs
 * fills the table, for example a sweep from its trials (sweep/results.h).
 */
#pragma once

#include "compare/settings.h"
#include "math/stats.h"

typedef struct smoe_measures {
    /* Borrowed: names of the settings [columns], and what each run has there. */
    char *const *column;
    size_t columns;
    size_t seed;           /* the column that is the seed; SIZE_MAX: none */
    char *const **setting; /* [runs][columns] */
    size_t runs;
    /* Owned; the values are filled after smoe_measures_open. */
    const char **metric; /* [metrics] "test_loss"; the names are borrowed */
    size_t metrics;
    double *value; /* [runs,metrics]; NAN where a run has none */
    /* Owned: per image, a file of outcomes (compare/outcomes.h) of each run, or NULL; and a text
     * that tells what its test images are, or NULL. Runs with equal texts have the same images.
     * Those with other first lines have independent ones; others may share some of them. */
    char **outcomes, **images; /* [runs] */
    /* Owned, or NULL: runs that contrasts leave out, because their results were known before those
     * of the other seeds [runs]. */
    bool *seen;
    /* Owned, and filled by smoe_measures_open. */
    size_t *group;         /* [runs] */
    smoe_combinations own; /* settings of the groups, with the seed of the first run of each */
    size_t groups;
} smoe_measures;

/* Finds the groups of runs whose borrowed members and metrics are set, and makes room for what is
 * known of them; values are NAN. Free in any case. */
void smoe_measures_open(smoe_measures *measures);
void smoe_measures_free(smoe_measures *measures);

/* The index of a metric, SIZE_MAX where there is none of that name. */
size_t smoe_measures_metric(const smoe_measures *measures, const char *name);
/* The value of the runs of a group in a column. */
const char *smoe_measures_setting(const smoe_measures *measures, size_t group, size_t column);
/* Whether a metric is 0 in every run that has it; then there is nothing to compare. */
bool smoe_measures_zero(const smoe_measures *measures, size_t metric);
/* The verdict on a time: cells ran one after another, beside whatever else the machine did, which
 * no interval over seeds takes into account. */
#define SMOE_MEASURES_TIME "a time: not judged"
/* Mean and deviation over the seeds of a group. */
smoe_stats smoe_measures_stats(const smoe_measures *measures, size_t group, size_t metric);
