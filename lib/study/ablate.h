/*
 * Routing ablations (Soft MoE paper, Table 3): one spec with its router replaced, over seeds. Runs
 * of one seed see the same data in the same order and start from the same weights outside the
 * routers, so rows are compared seed by seed.
 */
#ifndef SMOE_ABLATE_H
#define SMOE_ABLATE_H

#include "study/results.h"

/* Axes "router" and "seed" from two lists with commas. The row dense is the spec without MoE layers.
 * A row identity gets as many slots an expert
 * as its tokens need. SMOE_USAGE: an unknown or repeated router, or a spec without MoE layers; whether
 * a seed is one is seen when it is set. */
int smoe_ablate_axes(smoe_axes *axes, const smoe_spec *spec, const char *routers, const char *seeds,
                     smoe_err *err) SMOE_MUST_CHECK;

/* The row the others are compared with: soft, or the first where there is none. A group of the
 * results, which have a column "router" and besides it only seeds. */
size_t smoe_ablate_reference(const smoe_results *results);

/* group - reference of a metric over the seeds both have, with a 95% confidence interval. */
smoe_paired smoe_ablate_compare(const smoe_results *results, size_t group, size_t reference,
                                size_t metric);

/* DIR/differences.csv: router, metric, difference, low, high, n, distinguishable. */
int smoe_ablate_write(const smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* Is the metric one that rows are compared by? */
bool smoe_ablate_metric(const char *metric);

#endif
