/* Power by numerical integration; see power.h. */
#include "compare/power.h"

static double normal_cdf(double x) {
    return erfc(-x / sqrt(2)) / 2;
}

/* Density of u = sqrt(chi^2(k) / k):  2 (k/2)^(k/2) / Gamma(k/2) u^(k-1) exp(-k u^2 / 2). */
static double density(double u, double k) {
    if (u <= 0) return k > 1 ? 0 : sqrt(2 / M_PI);
    return 2 * exp(k / 2 * log(k / 2) - lgamma(k / 2) + (k - 1) * log(u) - k * u * u / 2);
}

/* The chance that the mean is further from 0 than the half that goes with u. */
static double beyond(double u, double t, double z, double seeds, double images, double difference) {
    double half = sqrt(t * t * u * u * seeds + z * z * images), sd = sqrt(seeds + images);
    return normal_cdf((difference - half) / sd) + normal_cdf((-difference - half) / sd);
}

double smoe_power_of(const smoe_paired *p, size_t n, double difference) {
    enum { PIECES = 2000 };
    double k = (double)(n - 1), seeds = p->seeds_var * (double)p->n / (double)n, sum = 0;
    double images = p->images ? p->images_var : 0;
    if (p->n < 2 || n < 2) return NAN;
    if (!(seeds + images > 0)) return difference != 0;
    double t = smoe_stats_t_quantile(0.975, k);
    double z = images > 0 ? smoe_stats_t_quantile(0.975, (double)(p->images - 1)) : 0;
    /* Nine deviations of u, which is about 1 -+ 1 / sqrt(2 k); Simpson's rule */
    double low = fmax(0, 1 - 9 / sqrt(2 * k)), high = 1 + 9 / sqrt(2 * k);
    double step = (high - low) / PIECES;
    for (int i = 0; i <= PIECES; i++) {
        double u = low + i * step, weight = i == 0 || i == PIECES ? 1 : i % 2 ? 4 : 2;
        sum += weight * density(u, k) * beyond(u, t, z, seeds, images, difference);
    }
    return sum * step / 3;
}

size_t smoe_power_seeds(const smoe_paired *p, double difference, double power) {
    size_t low = 1, high = 2;
    if (p->n < 2) return 0;
    while (high < SMOE_POWER_MOST && !(smoe_power_of(p, high, difference) >= power)) {
        low = high;
        high *= 2;
    }
    if (high > SMOE_POWER_MOST) high = SMOE_POWER_MOST;
    if (!(smoe_power_of(p, high, difference) >= power)) return 0;
    while (high - low > 1) { /* power rises with the seeds */
        size_t middle = (low + high) / 2;
        if (smoe_power_of(p, middle, difference) >= power)
            high = middle;
        else
            low = middle;
    }
    return high;
}
