/*
 * Statistics of small samples; see stats.h. Student's t from the regularised incomplete beta
 * function, which is its continued fraction evaluated by the modified method of Lentz:
 *   P(|T| > t) = I_x(n/2, 1/2),  x = n / (n + t^2)
 */
#include "math/stats.h"

#include <math.h>

smoe_stats smoe_stats_of(const double *value, size_t n) {
    smoe_stats s = {0};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(value[i])) continue;
        s.n++;
        sum += value[i];
    }
    s.mean = s.n ? sum / (double)s.n : NAN;
    for (size_t i = 0; i < n; i++)
        if (isfinite(value[i])) squares += (value[i] - s.mean) * (value[i] - s.mean);
    s.sd = s.n > 1 ? sqrt(squares / (double)(s.n - 1)) : NAN;
    return s;
}

/* The continued fraction of I_x(a, b), quick for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double f = d;
    for (int m = 1; m < 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step = 1;
        for (int half = 0; half < 2; half++) {
            double numerator = half ? odd : even;
            d = 1 + numerator * d;
            c = 1 + numerator / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            if (fabs(c) < tiny) c = tiny;
            step = c * d;
            f *= step;
        }
        if (fabs(step - 1) < 1e-15) break;
    }
    return f;
}

static double beta_regularised(double a, double b, double x) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double smoe_stats_t_cdf(double t, double freedom) {
    double outside = beta_regularised(freedom / 2, 0.5, freedom / (freedom + t * t));
    return t < 0 ? outside / 2 : 1 - outside / 2;
}

double smoe_stats_t_quantile(double p, double freedom) {
    if (p < 0.5) return -smoe_stats_t_quantile(1 - p, freedom);
    double low = 0, high = 1;
    while (smoe_stats_t_cdf(high, freedom) < p && high < 1e18) high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
        double middle = (low + high) / 2;
        if (smoe_stats_t_cdf(middle, freedom) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

smoe_paired smoe_stats_paired(const double *a, const double *b, size_t n, double level) {
    smoe_paired p = {.mean = 0, .half = NAN};
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(a[i] - b[i])) {
            p.n++;
            p.mean += a[i] - b[i];
        }
    p.mean = p.n ? p.mean / (double)p.n : NAN;
    if (p.n < 2) return p;
    for (size_t i = 0; i < n; i++) {
        double off = a[i] - b[i] - p.mean;
        if (isfinite(off)) squares += off * off;
    }
    double freedom = (double)(p.n - 1);
    p.half =
        smoe_stats_t_quantile((1 + level) / 2, freedom) * sqrt(squares / freedom / (double)p.n);
    p.distinguishable = fabs(p.mean) > p.half;
    return p;
}
