/*
 * Statistics of small samples; see stats.h. Student's t from the regularised incomplete beta
 * function, which is its continued fraction evaluated by the modified method of Lentz:
 *   P(|T| > t) = I_x(n/2, 1/2),  x = n / (n + t^2)
 */
#include "math/stats.h"

static const double LEVEL = 0.95;

int smoe_stats_rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double smoe_stats_median(double *value, size_t n) {
    if (!n) return NAN;
    qsort(value, n, sizeof *value, smoe_stats_rising);
    return (value[(n - 1) / 2] + value[n / 2]) / 2;
}

void smoe_stats_best(size_t *order, size_t best, const double *value, size_t n) {
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t k = 0; k < best && k < n; k++) {
        size_t top = k;
        for (size_t i = k + 1; i < n; i++) {
            double a = value[order[i]], b = value[order[top]];
            if (a > b || (a == b && order[i] < order[top])) top = i;
        }
        SMOE_SWAP(order[top], order[k]);
    }
}

double smoe_stats_apart(double a, double b) {
    double apart = a - b;
    return fabs(apart) <= 1e-12 * fmax(fabs(a), fabs(b)) ? 0 : apart;
}

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

/* A few seeds that agree exactly have an interval without width: then the p-value decides. */
static void stats_distinguish(smoe_paired *p) {
    bool spread = p->seeds_var + p->images_var > 0;
    p->distinguishable =
        fabs(p->mean) > p->half && (spread || smoe_stats_p(p, p->mean) < 1 - LEVEL);
}

/* A mean that is smaller than this share of the standard deviation is 0, and the other way round.
 * Differences of shares are rounded by 1e-16, so that values that cancel may leave 1e-17. */
static const double stats_rounding = 1e-10;

smoe_paired smoe_stats_paired(const double *value, size_t n) {
    smoe_stats s = smoe_stats_of(value, n);
    if (fabs(s.mean) <= stats_rounding * s.sd) s.mean = 0;
    if (s.sd <= stats_rounding * fabs(s.mean)) s.sd = 0; /* as of 0.505 - 0.5 and 0.205 - 0.2 */
    smoe_paired p = {.n = s.n, .mean = s.mean, .seeds_var = s.sd * s.sd / (double)s.n};
    p.half = p.seeds_half = smoe_stats_half(&p, LEVEL);
    stats_distinguish(&p);
    return p;
}

/* The means of rows or columns of d [S,I], whichever have `count` elements `stride` apart. */
static double stats_mean_of(const double *d, size_t count, size_t stride) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += d[i * stride];
    return sum / (double)count;
}

void smoe_stats_add_images(smoe_paired *p, const double *d, size_t S, size_t I) {
    double images = 0, rest = 0, whole = 0, n = (double)S, m = (double)I;
    if (S < 2 || I < 2) return;
    for (size_t s = 0; s < S; s++) whole += stats_mean_of(d + s * I, I, 1) / n;
    for (size_t i = 0; i < I; i++) {
        double off = stats_mean_of(d + i, S, I) - whole;
        images += off * off;
    }
    /* The residual of a seed's values without its mean and the means of the images: the squares add
     * up */
    for (size_t s = 0; s < S; s++) {
        double own = stats_mean_of(d + s * I, I, 1);
        for (size_t i = 0; i < I; i++) rest += (d[s * I + i] - own) * (d[s * I + i] - own);
    }
    images *= n;
    rest = fmax(0, rest - images) / ((n - 1) * (m - 1));
    smoe_stats_add_variances(p, I, rest / (n * m), fmax(0, (images / (m - 1) - rest) / (n * m)));
}

void smoe_stats_add_variances(smoe_paired *p, size_t images, double rest_var, double images_var) {
    p->images += images;
    p->rest_var += rest_var;
    p->seeds_var = fmax(p->seeds_var, p->rest_var);
    p->images_var += images_var;
    p->half = smoe_stats_half(p, LEVEL);
    stats_distinguish(p);
}

double smoe_stats_half(const smoe_paired *p, double level) {
    if (p->n < 2) return NAN;
    double t = smoe_stats_t_quantile((1 + level) / 2, (double)(p->n - 1)), square = t * t;
    square *= p->seeds_var;
    if (p->images_var > 0) {
        t = smoe_stats_t_quantile((1 + level) / 2, (double)(p->images - 1));
        square += t * t * p->images_var;
    }
    return sqrt(square);
}

double smoe_stats_p(const smoe_paired *p, double distance) {
    double low = 0, high = 1;
    distance = fabs(distance);
    if (p->n < 2 || !isfinite(distance)) return NAN;
    if (!(p->seeds_var + p->images_var > 0)) /* no spread: all images agree, or all seeds */
        return !(distance > 0) ? 1 : p->images ? 0 : pow(0.5, (double)p->n - 1);
    if (!(p->images_var > 0))
        return 2 * smoe_stats_t_cdf(-distance / sqrt(p->seeds_var), (double)(p->n - 1));
    for (int i = 0; i < 48; i++) {
        double middle = (low + high) / 2;
        if (smoe_stats_half(p, 1 - middle) > distance)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

double smoe_stats_p_equivalent(const smoe_paired *p, double margin) {
    double room = margin - fabs(p->mean), both = smoe_stats_p(p, room);
    bool none = p->images && p->seeds_var == 0 && p->images_var == 0 && p->mean == 0;
    if (none && margin > 0) return pow(fmax(1 - margin, 0), (double)p->images);
    return room < 0 ? 1 - both / 2 : both / 2;
}

void smoe_stats_holm(double *adjusted, const double *p, size_t count, size_t family) {
    for (size_t i = 0; i < count; i++) {
        double own = isnan(p[i]) ? 1 : p[i], most = 0;
        for (size_t k = 0; k < count; k++) {
            size_t before = 0;
            double other = isnan(p[k]) ? 1 : p[k];
            if (other > own) continue;
            for (size_t j = 0; j < count; j++) before += (isnan(p[j]) ? 1 : p[j]) < other;
            most = fmax(most, (double)(family - before) * other);
        }
        adjusted[i] = fmin(1, most);
    }
}
