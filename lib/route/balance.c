/* The loss of balance; see balance.h. */
#include "route/balance.h"
#include "math/kernels.h"

#include <math.h>
#include <string.h>

void smoe_balance_reserve(smoe_balance *b, size_t tokens, size_t G, smoe_arena *keep) {
    size_t E = b->gate->base.E;
    b->soft = smoe_arena_take(keep, tokens * E, sizeof(real));
    b->share = smoe_arena_take(keep, G * E, sizeof *b->share);
    b->sums = smoe_arena_take(keep, G * 2 * E, sizeof(double));
    b->slopes = smoe_arena_take(keep, G * 2 * E, sizeof(double));
}

/* Beyond this many deviations Phi is 0 or 1 to the last bit of a sum of such numbers, and its
 * density is negligible. With many experts sigma is small, so this holds for nearly all logits. */
static const double far_off = 9;

/* (z - threshold)/sigma, threshold the k-th largest noisy logit of the token. */
static double load_score(const smoe_balance *b, size_t t, size_t e, double sigma) {
    const smoe_router *r = &b->gate->base;
    size_t K = r->K, last = (size_t)b->choice[t * K + K - 1];
    double threshold = (double)b->gate->noisy[t * r->E + last];
    return ((double)b->gate->z[t * r->E + e] - threshold) / sigma;
}

static double squared_variation(const double *x, size_t n) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    return mean > 0 ? variance / (mean * mean) : 0;
}

/* slope = scale times the gradient of the squared variation of x:
 * d(variance/mean^2)/dx_i = 2 ((x_i - mean)/mean^2 - variance/mean^3)/n. */
static void squared_variation_slopes(double *slope, const double *x, size_t n, double scale) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    double f = mean > 0 ? 2 * scale / ((double)n * mean * mean) : 0;
    for (size_t i = 0; i < n; i++) slope[i] = f * (x[i] - mean - (mean > 0 ? variance / mean : 0));
}

/* p of a token. */
static void shares(const smoe_balance *b, real *p, const real *z, double *scratch) {
    size_t E = b->gate->base.E;
    if (b->gate->form != SMOE_GATE_SIGMOID) {
        memcpy(p, z, E * sizeof *p);
        smoe_kernels_get()->row->softmax(p, 1, E, E);
        return;
    }
    smoe_sigmoid_shares(scratch, z, NULL, E);
    for (size_t e = 0; e < E; e++) p[e] = (real)scratch[e];
}

void smoe_balance_measure(smoe_balance *b, size_t g, size_t first, size_t n, double sigma) {
    const smoe_router *r = &b->gate->base;
    size_t E = r->E;
    double *importance = b->sums + g * 2 * E, *load = importance + E;
    memset(importance, 0, 2 * E * sizeof *importance);
    for (size_t t = first; t < first + n; t++) {
        real *soft = b->soft + t * E;
        shares(b, soft, b->gate->z + t * E, b->share + g * E);
        for (size_t e = 0; e < E; e++) importance[e] += (double)soft[e];
        for (size_t e = 0; e < E && sigma > 0; e++) {
            double u = load_score(b, t, e, sigma);
            if (u > -far_off) load[e] += u < far_off ? erfc(-u * M_SQRT1_2) / 2 : 1;
        }
    }
}

double smoe_balance_loss(const double *sums, size_t E, double sigma) {
    double importance = squared_variation(sums, E) / 2;
    return sigma > 0 ? importance + squared_variation(sums + E, E) / 2 : importance;
}

void smoe_balance_slopes(double *slopes, const double *sums, size_t E, double sigma, double scale) {
    squared_variation_slopes(slopes, sums, E, scale / 2);
    if (sigma > 0) squared_variation_slopes(slopes + E, sums + E, E, scale / 2);
}

/*
 * Importance: through p = softmax(z), dz = p (dimportance - sum of p dimportance); of sigmoids
 * divided by their sum, that times 1 - sigmoid(z). Load: with u the score and phi its density,
 * dz_te += dload_e phi(u)/sigma, and what all experts of a token get is taken from the logit that
 * is its threshold.
 */
void smoe_balance_backward(smoe_balance *b, const double *slopes, size_t first, size_t n,
                           double sigma) {
    const smoe_router *r = &b->gate->base;
    size_t E = r->E, K = r->K;
    const double *dimportance = slopes, *dload = slopes + E;
    for (size_t t = first; t < first + n; t++) {
        real *dz = b->gate->dz + t * E;
        const real *p = b->soft + t * E;
        double along = 0, moved = 0;
        for (size_t e = 0; e < E; e++) along += (double)p[e] * dimportance[e];
        for (size_t e = 0; e < E; e++) dz[e] = (real)((double)p[e] * (dimportance[e] - along));
        for (size_t e = 0; e < E && b->gate->form == SMOE_GATE_SIGMOID; e++)
            dz[e] *= (real)smoe_sigmoid(-(double)b->gate->z[t * E + e]);
        if (!(sigma > 0)) continue;
        for (size_t e = 0; e < E; e++) {
            double u = load_score(b, t, e, sigma);
            if (!(fabs(u) < far_off)) continue;
            double slope = dload[e] * exp(-u * u / 2) / (sigma * sqrt(2 * M_PI));
            dz[e] += (real)slope;
            moved += slope;
        }
        dz[b->choice[t * K + K - 1]] -= (real)moved;
    }
}
