/* The number of seeds that are needed to detect a difference, from existing intervals. */
#pragma once

#include "math/stats.h"

/*
 * The chance that the 95% interval of `seeds` seeds, two or more, does not include 0 where the
 * difference is `difference`. With v the variance of one seed's difference and w what the test
 * images add (math/stats.h), both taken to be as estimated, the mean is normal with variance
 * v/n + w, and the interval has half of
 *   sqrt(t^2 u^2 v/n + z^2 w),  u^2 = chi^2(n - 1) / (n - 1),
 * independent of it; the chance is integrated over u. Without w that is the noncentral t.
 */
double smoe_power_of(const smoe_paired *paired, size_t seeds, double difference);

enum { SMOE_POWER_MOST = 10000 }; /* seeds that are tried */

/* The smallest number of seeds with that power. 0: not even SMOE_POWER_MOST seeds have it, because
 * there are too few images or the difference is too small. */
size_t smoe_power_seeds(const smoe_paired *paired, double difference, double power);
