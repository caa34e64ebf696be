/* Small samples: mean and deviation over seeds, Student's t, paired differences. */
#ifndef SMOE_STATS_H
#define SMOE_STATS_H

#include "base/base.h"

typedef struct smoe_stats {
    size_t n;        /* finite values; others are left out */
    double mean, sd; /* sd with n - 1; NAN below two values (mean: below one) */
} smoe_stats;

/* Of n values. */
smoe_stats smoe_stats_of(const double *value, size_t n);

/* P(T <= t) of Student's t with `freedom` degrees of freedom. */
double smoe_stats_t_cdf(double t, double freedom);
/* The t with P(T <= t) = p, 0 < p < 1. */
double smoe_stats_t_quantile(double p, double freedom);

typedef struct smoe_paired {
    size_t n;             /* pairs */
    double mean;          /* of a - b; NAN without pairs */
    double half;          /* of the confidence interval mean -+ half; NAN below two pairs */
    bool distinguishable; /* the interval does not include 0 */
} smoe_paired;

/* Differences a[i] - b[i], pairs with a value that is not finite left out; `level` is 0.95 for a
 * 95% interval. */
smoe_paired smoe_stats_paired(const double *a, const double *b, size_t n, double level);

#endif
