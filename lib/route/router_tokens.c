/*
 * Tokens Choice (V-MoE 2.3-2.4, 4, appendix A): every token chooses its top K experts, experts have
 * buffers of fixed size, first choices are placed before second ones.
 *   weights    g itself, softmax before top-k, not renormalised:
 *              g = softmax(W x + N(0, (noise/E)^2))
 *              topk: before has the two in reverse order (A.1): g = softmax over the K chosen of
 *              the same logits, 0 for the other experts
 *   order      vanilla: as the tokens come; bpr: by largest g; bpr-sum: by the sum of the top K;
 *              random: a random permutation of each group
 *   auxiliary  (importance + load)/2 averaged over groups, training only, each the squared
 *              variation CV^2 = variance/mean^2 over experts of
 *              importance_e = sum_t softmax(W x_t)_e
 *              load_e = sum_t Phi((z_te - threshold_t)/sigma), the threshold being the k-th largest
 *              noisy logit of the token
 */
#include "base/team.h"
#include "math/kernels.h"
#include "route/gate.h"
#include "spec/routers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct tokens_router {
    smoe_gate gate;
    int32_t *choice;     /* [tokens,K] experts in order of their noisy logits */
    smoe_ranked *ranked; /* [tokens] */
    uint32_t *drawn;     /* [tokens] random order of each group's tokens; NULL: not wanted */
    real *soft;          /* [tokens,E] softmax(z) without noise: importance */
    double *sums;        /* [G,2,E] importance and load of each group */
} tokens_router;

static int init(smoe_router *r, smoe_err *err) {
    smoe_gate_init((smoe_gate *)r);
    if (r->K > r->E)
        return smoe_fail(err, SMOE_USAGE, "model.moe.k: %zu choices of %zu experts", r->K, r->E);
    return 0;
}

static void reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    tokens_router *self = (tokens_router *)r;
    size_t tokens = B * r->image_tokens, G = (tokens + r->T - 1) / r->T;
    smoe_gate_reserve(&self->gate, B, train, train && r->spec->noise > 0, keep);
    smoe_plan_reserve_sparse(&r->plan, G, r->T, r->E, r->P, train, keep);
    self->choice = smoe_arena_take(keep, tokens * r->K, sizeof *self->choice);
    self->ranked = smoe_arena_take(keep, tokens, sizeof *self->ranked);
    self->drawn = NULL;
    if (r->spec->priority == SMOE_PRIORITY_RANDOM)
        self->drawn = smoe_arena_take(keep, tokens, sizeof *self->drawn);
    self->soft = train ? smoe_arena_take(keep, tokens * r->E, sizeof(real)) : NULL;
    self->sums = train ? smoe_arena_take(keep, G * 2 * r->E, sizeof(double)) : NULL;
}

static smoe_router_cost cost(const smoe_router *r, const smoe_cost_options *options) {
    return smoe_gate_cost((const smoe_gate *)r, options, r->K);
}

/* The K largest of the logits z [E], largest first, ties to the lower index: insertion into a short
 * list. g is not used, because all values far below the largest are 0 in it. */
static void top_experts(int32_t *choice, const real *z, size_t E, size_t K) {
    size_t held = 0;
    for (size_t e = 0; e < E; e++) {
        if (held == K && !(z[e] > z[choice[K - 1]])) continue;
        size_t at = held < K ? held++ : K - 1;
        for (; at > 0 && z[e] > z[choice[at - 1]]; at--) choice[at] = choice[at - 1];
        choice[at] = (int32_t)e;
    }
}

/* g of a token whose K choices come before the softmax. The backward pass of the softmax over all
 * experts is that of this one too: where g is 0, so is the gradient. */
static void softmax_of_chosen(real *g, const real *z, const int32_t *choice, size_t E, size_t K) {
    double top = (double)z[choice[0]], sum = 0;
    for (size_t k = 0; k < K; k++) sum += exp((double)z[choice[k]] - top);
    memset(g, 0, E * sizeof *g);
    for (size_t k = 0; k < K; k++) g[choice[k]] = (real)(exp((double)z[choice[k]] - top) / sum);
}

/* The order of a group is keyed by block, step and the place of its first image in the batch; at
 * evaluation by the number of that image, so that it is the same every time. */
static void draw_order(tokens_router *self, size_t g, size_t first, size_t n,
                       const smoe_pass *pass) {
    const smoe_router *r = &self->gate.base;
    smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_PRIORITY, (uint32_t)r->site, pass->step,
                               pass->first + g * r->spec->group_images);
    smoe_rng_permutation(&rng, self->drawn + first, n);
    for (size_t i = 0; i < n; i++)
        self->ranked[first + i] = (smoe_ranked){0, (int32_t)self->drawn[first + i]};
}

/* Tokens of the group in the order in which they are placed; returns the number of tokens that take
 * part (skip_patch). */
static size_t order(tokens_router *self, size_t g, size_t first, size_t n, const smoe_pass *pass) {
    const smoe_router *r = &self->gate.base;
    size_t K = r->K, kept = (size_t)rint(r->spec->skip_patch * (double)n);
    smoe_ranked *ranked = self->ranked + first;
    if (r->spec->priority == SMOE_PRIORITY_RANDOM) {
        draw_order(self, g, first, n, pass);
        return kept;
    }
    for (size_t i = 0; i < n; i++) {
        const real *weight = self->gate.g + (first + i) * r->E;
        const int32_t *choice = self->choice + (first + i) * K;
        real score = weight[choice[0]];
        for (size_t k = 1; k < K && r->spec->priority == SMOE_PRIORITY_BPR_SUM; k++)
            score += weight[choice[k]];
        ranked[i] = (smoe_ranked){score, (int32_t)i};
    }
    if (r->spec->priority != SMOE_PRIORITY_VANILLA) {
        qsort(ranked, n, sizeof *ranked, smoe_ranked_compare);
        return kept;
    }
    if (kept < n) {
        smoe_ranked_select(ranked, n, kept);
        for (size_t i = 0; i < kept; i++) ranked[i].score = 0; /* back to the order they came in */
        qsort(ranked, kept, sizeof *ranked, smoe_ranked_compare);
    }
    return kept;
}

static void place(tokens_router *self, size_t g, size_t first, size_t n, const smoe_pass *pass) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t K = r->K, room = smoe_moe_places(r->spec, r->block, n);
    size_t kept = order(self, g, first, n, pass);
    int32_t *used = plan->used + g * r->E;
    memset(used, 0, r->E * sizeof *used);
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < kept; i++) {
            size_t token = first + (size_t)self->ranked[first + i].index;
            size_t e = (size_t)self->choice[token * K + k];
            size_t *count = &plan->chosen[e];
#pragma omp atomic
            (*count)++;
            if ((size_t)used[e] == room) {
                count = &plan->lost[e];
#pragma omp atomic
                (*count)++;
                continue;
            }
            size_t slot = (g * r->E + e) * r->P + (size_t)used[e]++;
            plan->slot_token[slot] = (int32_t)token;
            plan->slot_weight[slot] = self->gate.g[token * r->E + e];
        }
}

/* Beyond this many deviations Phi is 0 or 1 to the last bit of a sum of such numbers, and its
 * density is negligible. With many experts sigma is small, so this holds for nearly all logits. */
static const double far_off = 9;

/* (z - threshold)/sigma, threshold the k-th largest noisy logit of the token. */
static double load_score(const tokens_router *self, size_t t, size_t e, double sigma) {
    const smoe_router *r = &self->gate.base;
    size_t K = r->K, last = (size_t)self->choice[t * K + K - 1];
    double threshold = (double)self->gate.noisy[t * r->E + last];
    return ((double)self->gate.z[t * r->E + e] - threshold) / sigma;
}

static double squared_variation(const double *x, size_t n) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    return mean > 0 ? variance / (mean * mean) : 0;
}

/* x becomes scale times the gradient of its squared variation:
 * d(variance/mean^2)/dx_i = 2 ((x_i - mean)/mean^2 - variance/mean^3)/n. */
static void squared_variation_slopes(double *x, size_t n, double scale) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    double f = mean > 0 ? 2 * scale / ((double)n * mean * mean) : 0;
    for (size_t i = 0; i < n; i++) x[i] = f * (x[i] - mean - (mean > 0 ? variance / mean : 0));
}

/* Fills the importance and load of one group. */
static void balance(tokens_router *self, size_t g, size_t first, size_t n, double sigma) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E;
    double *importance = self->sums + g * 2 * E, *load = importance + E;
    memset(importance, 0, 2 * E * sizeof *importance);
    for (size_t t = first; t < first + n; t++) {
        real *soft = self->soft + t * E;
        memcpy(soft, self->gate.z + t * E, E * sizeof *soft);
        smoe_kernels_get()->row->softmax(soft, 1, E, E);
        for (size_t e = 0; e < E; e++) importance[e] += (double)soft[e];
        for (size_t e = 0; e < E && sigma > 0; e++) {
            double u = load_score(self, t, e, sigma);
            if (u > -far_off) load[e] += u < far_off ? erfc(-u * M_SQRT1_2) / 2 : 1;
        }
    }
}

/* Groups of the whole batch, over which the auxiliary loss is averaged. */
static double groups_of_batch(const smoe_router *r, const smoe_pass *pass) {
    return (double)((smoe_pass_whole(pass) * r->image_tokens + r->T - 1) / r->T);
}

static void forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    tokens_router *self = (tokens_router *)r;
    smoe_plan *plan = &r->plan;
    double sigma = smoe_gate_noise(&self->gate, pass), aux = 0;
    size_t E = r->E, K = r->K;
    smoe_plan_begin(plan, pass->images * r->image_tokens);
    smoe_gate_forward(&self->gate, x, sigma, pass);
    SMOE_SHARED(routing, plan->tokens * E)
    for (size_t t = 0; t < plan->tokens; t++) {
        const real *z = self->gate.noisy + t * E;
        top_experts(self->choice + t * K, z, E, K);
        if (r->spec->topk == SMOE_TOPK_BEFORE)
            softmax_of_chosen(self->gate.g + t * E, z, self->choice + t * K, E, K);
    }
    SMOE_SHARED(routing, plan->tokens * E)
    for (size_t g = 0; g < plan->G; g++) {
        size_t first = g * r->T, left = plan->tokens - first, n = left < r->T ? left : r->T;
        place(self, g, first, n, pass);
        if (pass->train) balance(self, g, first, n, sigma);
    }
    smoe_plan_seal(plan);
    if (!pass->train) return;
    for (size_t g = 0; g < plan->G; g++) {
        const double *sums = self->sums + g * 2 * E;
        aux += squared_variation(sums, E) / 2;
        if (sigma > 0) aux += squared_variation(sums + E, E) / 2;
    }
    plan->aux = aux / groups_of_batch(r, pass);
}

/*
 * dz of the auxiliary loss of one group, whose sums become their own gradients. Importance: through
 * p = softmax(z), dz = p (dimportance - sum of p dimportance). Load: with u the score and phi its
 * density, dz_te += dload_e phi(u)/sigma, and the sum of these over the experts of a token is
 * subtracted from the gradient of the logit that is its threshold.
 */
static void auxiliary_backward(tokens_router *self, size_t g, size_t first, size_t n, double sigma,
                               double scale) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, K = r->K;
    double *dimportance = self->sums + g * 2 * E, *dload = dimportance + E;
    squared_variation_slopes(dimportance, E, scale);
    squared_variation_slopes(dload, E, scale);
    for (size_t t = first; t < first + n; t++) {
        real *dz = self->gate.dz + t * E;
        const real *p = self->soft + t * E;
        double along = 0, moved = 0;
        for (size_t e = 0; e < E; e++) along += (double)p[e] * dimportance[e];
        for (size_t e = 0; e < E; e++) dz[e] = (real)((double)p[e] * (dimportance[e] - along));
        if (!(sigma > 0)) continue;
        for (size_t e = 0; e < E; e++) {
            double u = load_score(self, t, e, sigma);
            if (!(fabs(u) < far_off)) continue;
            double slope = dload[e] * exp(-u * u / 2) / (sigma * sqrt(2 * M_PI));
            dz[e] += (real)slope;
            moved += slope;
        }
        dz[self->choice[t * K + K - 1]] -= (real)moved;
    }
}

static void backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    tokens_router *self = (tokens_router *)r;
    const smoe_plan *plan = &r->plan;
    double sigma = smoe_gate_noise(&self->gate, pass);
    double scale = r->spec->aux_weight / (2 * groups_of_batch(r, pass));
    memset(self->gate.dz, 0, plan->tokens * r->E * sizeof(real));
    if (pass->train && r->spec->aux_weight > 0) {
        SMOE_SHARED(routing, plan->tokens * r->E)
        for (size_t g = 0; g < plan->G; g++) {
            size_t first = g * r->T, left = plan->tokens - first;
            auxiliary_backward(self, g, first, left < r->T ? left : r->T, sigma, scale);
        }
    }
    smoe_gate_backward(&self->gate, dx, x);
}

const smoe_router_type smoe_router_tokens_choice = {
    .size = sizeof(tokens_router),
    .init = init,
    .reserve = reserve,
    .cost = cost,
    .forward = forward,
    .backward = backward,
};
