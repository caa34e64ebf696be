/* Small samples: mean and deviation over seeds, Student's t, paired differences. */
#pragma once

#include "base/base.h"

typedef struct smoe_stats {
    size_t n;        /* finite values; others are left out */
    double mean, sd; /* sd with n - 1; NAN below two values (mean: below one) */
} smoe_stats;

/* a - b; 0 if it is as small as the rounding of the sums of two means, which depends on the number
 * and the order of their values. */
double smoe_stats_apart(double a, double b);

/* Of n values. */
smoe_stats smoe_stats_of(const double *value, size_t n);

/* For qsort: numbers, or what begins with one. */
int smoe_stats_rising(const void *a, const void *b);

/* The middle one of n values, of an even number the mean of the middle two; they are sorted in
 * place. NAN of none. */
double smoe_stats_median(double *value, size_t n);

/* order [n]: the numbers 0 .. n-1, first those of the `best` largest values, largest first, the
 * lower of equal ones first. */
void smoe_stats_best(size_t *order, size_t best, const double *value, size_t n);

/* P(T <= t) of Student's t with `freedom` degrees of freedom. */
double smoe_stats_t_cdf(double t, double freedom);
/* The t with P(T <= t) = p, 0 < p < 1. */
double smoe_stats_t_quantile(double p, double freedom);

/* The mean over seeds of a difference, or of another contrast, with one value per seed; if it is
 * also known for each image, with the variance that the choice of the test images adds. */
typedef struct smoe_paired {
    size_t n;                     /* seeds */
    size_t images;                /* in the interval; 0: it is over seeds alone */
    double mean;                  /* NAN without seeds */
    double seeds_var, images_var; /* of the mean: over seeds, NAN below two; over images */
    double rest_var;              /* of it: what the images alone prove */
    double half;                  /* of the 95% interval mean -+ half; NAN below two seeds */
    double seeds_half;            /* what it would be over seeds alone */
    bool distinguishable;         /* from 0, at the level of the interval: see smoe_stats_p */
} smoe_paired;

/* Over the finite ones of n values. */
smoe_paired smoe_stats_paired(const double *value, size_t n);

/*
 * Adds the images to the interval. d [S,I]: the same contrast for each seed and image, which are
 * crossed: d[s][i] = mu + a[s] + b[i] + e[s][i]. The interval over seeds contains the variance of a
 * and e; b adds (MS_images - MS_rest) / (S I), at least 0, from the mean squares
 *   MS_images = S sum_i (d[.][i] - d[.][.])^2 / (I - 1)
 *   MS_rest   = sum_si (d[s][i] - d[s][.] - d[.][i] + d[.][.])^2 / ((S - 1) (I - 1))
 * The variance over seeds becomes at least MS_rest / (S I), that of e alone: it is part of its
 * expectation, and known from (S - 1) (I - 1) values, where the seeds have only S - 1. Without this
 * bound, two or three seeds that agree by chance have an interval narrower than the noise of their
 * test images. Needs two seeds and two images; with fewer, nothing is changed.
 * A contrast that is a sum over sets of images, independent of one another, is added set by set:
 * the variances of b, and those of e, add up.
 */
void smoe_stats_add_images(smoe_paired *paired, const double *d, size_t S, size_t I);
/* Adds what such sets add. */
void smoe_stats_add_variances(smoe_paired *paired, size_t images, double rest_var,
                              double images_var);

/* Half of the interval of a level (0.95 ...): the two parts, each with the quantile of its own
 * degrees of freedom, n - 1 and images - 1, added in squares. With two seeds, Satterthwaite's
 * single number of degrees of freedom gives a coverage of 87% instead of 95; this gives at least
 * 95%, and more where the bound of smoe_stats_add_images acts (tests/math/test_stats.c). It is
 * never narrower than the interval over seeds alone. */
double smoe_stats_half(const smoe_paired *paired, double level);

/* The two-sided p-value: 1 - p is the level of the interval whose half is `distance`. NAN below two
 * seeds. If all n seeds have the same value and no outcomes are known, that interval has no width,
 * although a few seeds agree by chance where values are shares of a count: then it is 2^(1 - n), as
 * in the sign test. */
double smoe_stats_p(const smoe_paired *paired, double distance);

/* The p-value of equivalence, that the mean is within -+margin: the larger p of two one-sided
 * tests. It is below 0.05 if the 90% interval lies within the margin. NAN below two seeds. If the
 * outcomes of no image differ, the interval has no width, which proves little with few images: then
 * it is (1 - margin)^I, the probability of this if a share `margin` of all outcomes differed. */
double smoe_stats_p_equivalent(const smoe_paired *paired, double margin);

/* Holm's adjusted p of `count` tests in a family of `family` (at least as many); the other tests
 * count as p = 1, and so does NAN. */
void smoe_stats_holm(double *adjusted, const double *p, size_t count, size_t family);
