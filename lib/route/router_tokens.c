/*
 * Tokens Choice (V-MoE 2.3-2.4, 4, appendix A): every token chooses its top K experts, experts have
 * buffers of fixed size, first choices are placed before second ones.
 *   weights    g itself, softmax before top-k, not renormalised:
 *              g = softmax(W x + N(0, (noise/E)^2)), or the sigmoids of these (gate: sigmoid)
 *              topk: before has the two in reverse order (A.1): g = softmax over the K chosen of
 *              the same logits, 0 for the other experts; renormalize: true divides the weights of
 *              the K chosen by their sum; with a softmax, that is the same
 *   order      vanilla: as the tokens come; bpr: by largest g; bpr-sum: by the sum of the top K;
 *              random: a random permutation of each group; learnt, learnt-sigmoid: by the score of
 *              its own, which multiplies the weights; patch-expert: choices, not tokens, in the
 *              order of their g, so that a second choice may come before another token's first
 *   balance    loss: the auxiliary loss below, of the whole batch or as a mean over groups
 *              (aux_over), training only; bias: the
 *              top K are those of g + b, though weights are g, and b, a state, grows by
 *              balance_rate where an expert was chosen less often than the mean of a step, and
 *              falls by it where more often
 */
#include "base/team.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "route/tokens.h"
#include "spec/routers.h"

/* Those of the gate. */
static size_t group_size(const smoe_tokens *self) {
    return self->gate.base.T / self->gate.unit;
}

static bool has_loss(const smoe_router *r) {
    return r->spec->balance.way == SMOE_BALANCE_LOSS;
}

/* The learnt score is a sigmoid. */
static bool is_squashed(const smoe_router *r) {
    return r->spec->choice.priority == SMOE_PRIORITY_LEARNT_SIGMOID;
}

static bool learns_score(const smoe_router *r) {
    return r->spec->choice.priority == SMOE_PRIORITY_LEARNT || is_squashed(r);
}

static bool ranks_choices(const smoe_router *r) {
    return r->spec->choice.priority == SMOE_PRIORITY_PATCH_EXPERT;
}

/* ---- the learnt priority of a token (V-MoE, appendix C.1) ---------------------------------------
 * s = w . x + b, or its sigmoid. Tokens are placed in decreasing order of s, and s multiplies the
 * weights of a token's placements, so that it has a gradient:
 *   d s_t = sum over the placements of token t of g dweight */

/* Registers w and b. At first b is 1, or 0 with a sigmoid. */
static void score_init(smoe_tokens *self, smoe_router *r) {
    const size_t dim[] = {1, r->d};
    double std = 1 / sqrt((double)r->d);
    self->weight = smoe_params_add(r->params, smoe_param_normal(SMOE_PARAM_KERNEL, std), 2, dim,
                                   "%s.score.weight", r->prefix);
    self->bias = smoe_params_add(r->params, smoe_param_constant(is_squashed(r) ? 0 : 1), 1, dim,
                                 "%s.score.bias", r->prefix);
}

static void score_forward(smoe_tokens *self, const smoe_router *r, const real *x, size_t tokens) {
    smoe_matrix w = smoe_matrix_of(smoe_weight(r->params, self->weight), 1, r->d);
    smoe_product s = smoe_product_of(self->s, smoe_matrix_of(x, tokens, r->d), smoe_transposed(w));
    s.to.bias = smoe_weight(r->params, self->bias);
    smoe_gemm(s);
    for (size_t t = 0; t < tokens && is_squashed(r); t++)
        self->s[t] = (real)smoe_sigmoid((double)self->s[t]);
}

/* To be called before smoe_gate_backward: the gradients of the plan's weights become those of g.
 * Adds to dx [tokens,d] and to the gradients of w and b. */
static void score_backward(smoe_tokens *self, real *dx, const real *x) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t R = plan->tokens;
    double db = 0;
    SMOE_SHARED(routing, R * r->E)
    for (size_t t = 0; t < R; t++) {
        double s = (double)self->s[t], ds = 0;
        for (int32_t i = plan->list.first[t]; i < plan->list.first[t + 1]; i++) {
            size_t slot = (size_t)plan->list.slot[i], e = smoe_gate_expert(r, slot, t);
            ds += (double)self->gate.g[t * r->E + e] * (double)plan->list.dweight[slot];
            plan->list.dweight[slot] *= self->s[t];
        }
        self->ds[t] = (real)(is_squashed(r) ? ds * s * (1 - s) : ds);
    }
    for (size_t t = 0; t < R; t++) db += (double)self->ds[t];
    real *dw = smoe_gradient(r->params, self->weight), *b = smoe_gradient(r->params, self->bias);
    if (b) *b += (real)db;
    smoe_matrix ds = smoe_matrix_of(self->ds, R, 1);
    smoe_matrix w = smoe_matrix_of(smoe_weight(r->params, self->weight), 1, r->d);
    if (dw) smoe_gemm(smoe_product_added(dw, smoe_transposed(ds), smoe_matrix_of(x, R, r->d)));
    smoe_gemm(smoe_product_added(dx, ds, w));
}

/* ---- making one ------------------------------------------------------------------------------ */

void smoe_tokens_init(smoe_router *r) {
    smoe_tokens *self = (smoe_tokens *)r;
    smoe_gate_init(&self->gate);
    self->gate.form = r->spec->choice.gate;
    self->gate.chosen = smoe_moe_renormalizes(r->spec);
    if (r->spec->balance.way == SMOE_BALANCE_BIAS) smoe_router_add_state(r, r->E, 0, "bias");
    if (learns_score(r)) score_init(self, r);
    if (has_loss(r) && r->spec->balance.aux_over == SMOE_AUX_BATCH) r->summed = 2 * r->E;
}

void smoe_tokens_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_tokens *self = (smoe_tokens *)r;
    size_t tokens = B * r->image_tokens / self->gate.unit, T = group_size(self);
    size_t G = (tokens + T - 1) / T;
    smoe_gate_reserve(&self->gate, B, train, train && r->spec->choice.noise > 0, keep);
    smoe_plan_reserve(&r->plan, true, G, train, keep);
    r->plan.choices.choice = self->choice =
        smoe_arena_take(keep, tokens * r->K, sizeof *self->choice);
    r->plan.choices.K = r->K;
    self->ranked = smoe_arena_take(keep, tokens, sizeof *self->ranked);
    self->choices =
        ranks_choices(r) ? smoe_arena_take(keep, tokens * r->K, sizeof *self->choices) : NULL;
    if (learns_score(r)) {
        self->s = smoe_arena_take(keep, tokens, sizeof *self->s);
        self->ds = train ? smoe_arena_take(keep, tokens, sizeof *self->ds) : NULL;
    }
    self->drawn = NULL;
    if (r->spec->choice.priority == SMOE_PRIORITY_RANDOM)
        self->drawn = smoe_arena_take(keep, tokens, sizeof *self->drawn);
    if (self->gate.form == SMOE_GATE_SIGMOID && self->gate.chosen)
        self->share = smoe_arena_take(keep, tokens * r->K, sizeof *self->share);
    self->biased = NULL;
    if (r->counted) {
        self->biased = smoe_arena_take(keep, tokens * r->E, sizeof(real));
        r->counts = smoe_arena_take(keep, r->counted, sizeof *r->counts);
    }
    if (!train || !has_loss(r)) return;
    self->soft = smoe_arena_take(keep, tokens * r->E, sizeof(real));
    self->p = smoe_arena_take(keep, G * r->E, sizeof *self->p);
    self->sums = smoe_arena_take(keep, G * 2 * r->E, sizeof(double));
    self->slopes = smoe_arena_take(keep, G * 2 * r->E, sizeof(double));
    r->sums = r->summed ? smoe_arena_take(keep, r->summed, sizeof *r->sums) : NULL;
}

/* How many of the n tokens of a group may be placed. */
static size_t kept_of(const smoe_router *r, size_t n) {
    return (size_t)rint(r->spec->choice.skip_patch * (double)n);
}

smoe_router_cost smoe_tokens_cost(const smoe_router *r) {
    size_t n = smoe_moe_shape_of(r->spec, r->block, r->image_tokens).T;
    double most = (double)(r->K * kept_of(r, n)) / (double)n;
    smoe_router_cost cost = smoe_gate_cost((const smoe_gate *)r, most);
    if (learns_score(r)) cost.logits += (double)(r->image_tokens * r->d);
    return cost;
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

/* share [K] is scratch. */
static void sigmoid_of_chosen(real *g, const real *z, const int32_t *choice, size_t E, size_t K,
                              double *share) {
    smoe_sigmoid_shares(share, z, choice, K);
    memset(g, 0, E * sizeof *g);
    for (size_t k = 0; k < K; k++) g[choice[k]] = (real)share[k];
}

/* The K experts of token t, and the weights that follow from them. Scores that are random have no
 * bias. */
static void tokens_choose(smoe_tokens *self, size_t t, bool biased) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, K = r->K;
    const real *z = self->gate.noisy + t * E, *by = z;
    real *g = self->gate.g + t * E;
    int32_t *choice = self->choice + t * K;
    if (biased) {
        const real *b = smoe_weight(r->params, r->state);
        for (size_t e = 0; e < E; e++) self->biased[t * E + e] = g[e] + b[e];
        by = self->biased + t * E;
    }
    top_experts(choice, by, E, K);
    if (!self->gate.chosen) return;
    if (self->gate.form == SMOE_GATE_SIGMOID)
        sigmoid_of_chosen(g, z, choice, E, K, self->share + t * K);
    else
        softmax_of_chosen(g, z, choice, E, K);
}

/* The order of a group is keyed by block, step and the place of its first image in the batch; at
 * evaluation by the number of that image, so that it is the same every time. */
static void draw_order(smoe_tokens *self, size_t g, size_t first, size_t n, const smoe_pass *pass) {
    const smoe_router *r = &self->gate.base;
    smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_PRIORITY, (uint32_t)r->site, pass->step,
                               pass->first + g * r->spec->choice.group_images);
    smoe_rng_permutation(&rng, self->drawn + first, n);
    for (size_t i = 0; i < n; i++)
        self->ranked[first + i] = (smoe_ranked){0, (int32_t)self->drawn[first + i]};
}

/* Tokens of the group in the order in which they are placed; returns how many of them are
 * (skip_patch). */
static size_t tokens_order(smoe_tokens *self, size_t g, size_t first, size_t n,
                           const smoe_pass *pass) {
    const smoe_router *r = &self->gate.base;
    size_t K = r->K, kept = kept_of(r, n);
    smoe_ranked *ranked = self->ranked + first;
    if (r->spec->choice.priority == SMOE_PRIORITY_RANDOM) {
        draw_order(self, g, first, n, pass);
        return kept;
    }
    for (size_t i = 0; i < n; i++) {
        const real *weight = self->gate.g + (first + i) * r->E;
        const int32_t *choice = self->choice + (first + i) * K;
        real score = learns_score(r) ? self->s[first + i] : weight[choice[0]];
        for (size_t k = 1; k < K && r->spec->choice.priority == SMOE_PRIORITY_BPR_SUM; k++)
            score += weight[choice[k]];
        ranked[i] = (smoe_ranked){score, (int32_t)i};
    }
    if (r->spec->choice.priority != SMOE_PRIORITY_VANILLA) {
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

/* The choices of the `kept` tokens that come first, as numbers token * K + k within the group, in
 * the order of their weights; of equal ones the lower number is first. */
static const smoe_ranked *rank_choices(smoe_tokens *self, size_t first, size_t kept) {
    const smoe_router *r = &self->gate.base;
    size_t K = r->K;
    smoe_ranked *ranked = self->choices + first * K;
    for (size_t j = 0; j < kept; j++)
        for (size_t k = 0; k < K; k++) {
            size_t i = (size_t)self->ranked[first + j].index, token = first + i;
            size_t e = (size_t)self->choice[token * K + k];
            ranked[j * K + k] = (smoe_ranked){self->gate.g[token * r->E + e], (int32_t)(i * K + k)};
        }
    qsort(ranked, kept * K, sizeof *ranked, smoe_ranked_compare);
    return ranked;
}

/* A token takes its place for choice k, if there is one. */
static void place_choice(smoe_tokens *self, size_t g, size_t token, size_t k, size_t room) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t e = (size_t)self->choice[token * r->K + k], unit = self->gate.unit;
    int32_t *used = plan->list.used + g * r->E + e;
    size_t *count = &plan->choices.chosen[e];
#pragma omp atomic
    *count += unit;
    if ((size_t)*used == room * unit) {
        count = &plan->choices.lost[e];
#pragma omp atomic
        *count += unit;
        return;
    }
    size_t slot = (g * r->E + e) * r->P + (size_t)*used;
    real weight = self->gate.g[token * r->E + e];
    if (learns_score(r)) weight *= self->s[token];
    for (size_t i = 0; i < unit; i++) {
        plan->list.slot_token[slot + i] = (int32_t)(token * unit + i);
        plan->list.slot_weight[slot + i] = weight;
    }
    *used += (int32_t)unit;
}

/* At evaluation, the other tokens of a group have chosen no expert. */
static void forget_choices(smoe_tokens *self, size_t first, size_t kept, size_t n) {
    size_t K = self->gate.base.K;
    for (size_t j = kept; j < n; j++)
        for (size_t k = 0; k < K; k++)
            self->choice[(first + (size_t)self->ranked[first + j].index) * K + k] = -1;
}

static void tokens_place(smoe_tokens *self, size_t g, size_t first, size_t n,
                         const smoe_pass *pass) {
    smoe_router *r = &self->gate.base;
    size_t K = r->K, room = smoe_moe_capacity(r->spec, r->block, n, K);
    memset(r->plan.list.used + g * r->E, 0, r->E * sizeof *r->plan.list.used);
    size_t kept = tokens_order(self, g, first, n, pass);
    const smoe_ranked *ranked = self->ranked + first;
    if (!pass->train) forget_choices(self, first, kept, n);
    for (size_t k = 0; k < K && !ranks_choices(r); k++)
        for (size_t j = 0; j < kept; j++)
            place_choice(self, g, first + (size_t)ranked[j].index, k, room);
    if (!ranks_choices(r)) return;
    ranked = rank_choices(self, first, kept);
    for (size_t j = 0; j < kept * K; j++) {
        size_t choice = (size_t)ranked[j].index;
        place_choice(self, g, first + choice / K, choice % K, room);
    }
}

/* ---- the loss of balance (V-MoE A.2) -----------------------------------------------------------
 * For a set of tokens (CV^2(importance) + CV^2(load))/2, the squared variation CV^2 =
 * variance/mean^2 over experts of
 *   importance_e = sum_t p_te, p = softmax(W x_t), or sigmoids divided by their sum
 *   load_e = sum_t Phi((z_te - threshold_t)/sigma), threshold: the k-th largest noisy logit
 * of the token; without noise there is no load. */

/* Beyond this many deviations Phi is 0 or 1 to the last bit of a sum of such numbers, and its
 * density is negligible. With many experts sigma is small, so this holds for nearly all logits. */
static const double far_off = 9;

/* (z - threshold)/sigma, threshold the k-th largest noisy logit of the token. */
static double load_score(const smoe_tokens *self, size_t t, size_t e, double sigma) {
    const smoe_router *r = &self->gate.base;
    size_t K = r->K, last = (size_t)self->choice[t * K + K - 1];
    double threshold = (double)self->gate.noisy[t * r->E + last];
    return ((double)self->gate.z[t * r->E + e] - threshold) / sigma;
}

static double variance_of(const double *x, size_t n, double *mean) {
    double variance = 0;
    *mean = 0;
    for (size_t i = 0; i < n; i++) *mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) variance += (x[i] - *mean) * (x[i] - *mean) / (double)n;
    return variance;
}

static double squared_variation(const double *x, size_t n) {
    double mean, variance = variance_of(x, n, &mean);
    return mean > 0 ? variance / (mean * mean) : 0;
}

/* slope = scale times the gradient of the squared variation of x:
 * d(variance/mean^2)/dx_i = 2 ((x_i - mean)/mean^2 - variance/mean^3)/n. */
static void squared_variation_slopes(double *slope, const double *x, size_t n, double scale) {
    double mean, variance = variance_of(x, n, &mean);
    double f = mean > 0 ? 2 * scale / ((double)n * mean * mean) : 0;
    for (size_t i = 0; i < n; i++) slope[i] = f * (x[i] - mean - (mean > 0 ? variance / mean : 0));
}

/* p of a token. */
static void shares(const smoe_tokens *self, real *p, const real *z, double *scratch) {
    size_t E = self->gate.base.E;
    if (self->gate.form != SMOE_GATE_SIGMOID) {
        memcpy(p, z, E * sizeof *p);
        smoe_kernels_get()->row->softmax(p, 1, E, E);
        return;
    }
    smoe_sigmoid_shares(scratch, z, NULL, E);
    for (size_t e = 0; e < E; e++) p[e] = (real)scratch[e];
}

/* Fills importance and load of group g, whose n tokens begin with `first`. sigma: of the noise. */
static void balance_measure(smoe_tokens *self, size_t g, size_t first, size_t n, double sigma) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E;
    double *importance = self->sums + g * 2 * E, *load = importance + E;
    memset(importance, 0, 2 * E * sizeof *importance);
    for (size_t t = first; t < first + n; t++) {
        real *soft = self->soft + t * E;
        shares(self, soft, self->gate.z + t * E, self->p + g * E);
        for (size_t e = 0; e < E; e++) importance[e] += (double)soft[e];
        for (size_t e = 0; e < E && sigma > 0; e++) {
            double u = load_score(self, t, e, sigma);
            if (u > -far_off) load[e] += u < far_off ? erfc(-u * M_SQRT1_2) / 2 : 1;
        }
    }
}

/* The loss of E experts with these sums [2,E]. */
static double balance_loss(const double *sums, size_t E, double sigma) {
    double importance = squared_variation(sums, E) / 2;
    return sigma > 0 ? importance + squared_variation(sums + E, E) / 2 : importance;
}

/*
 * Importance: through p = softmax(z), dz = p (dimportance - sum of p dimportance); of sigmoids
 * divided by their sum, that times 1 - sigmoid(z). Load: with u the score and phi its density,
 * dz_te += dload_e phi(u)/sigma, and what all experts of a token get is taken from the logit that
 * is its threshold. dz of n tokens from `first` on, from the slopes [2,E] of the sums they are part
 * of.
 */
static void balance_backward(smoe_tokens *self, const double *slopes, size_t first, size_t n,
                             double sigma) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, K = r->K;
    const double *dimportance = slopes, *dload = slopes + E;
    for (size_t t = first; t < first + n; t++) {
        real *dz = self->gate.dz + t * E;
        const real *p = self->soft + t * E;
        double along = 0, moved = 0;
        for (size_t e = 0; e < E; e++) along += (double)p[e] * dimportance[e];
        for (size_t e = 0; e < E; e++) dz[e] = (real)((double)p[e] * (dimportance[e] - along));
        for (size_t e = 0; e < E && self->gate.form == SMOE_GATE_SIGMOID; e++)
            dz[e] *= (real)smoe_sigmoid(-(double)self->gate.z[t * E + e]);
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

/* ---- the auxiliary loss, of the batch or the mean over its groups ---------------------------- */

static double groups_of_batch(const smoe_router *r, const smoe_pass *pass) {
    return (double)((smoe_pass_whole(pass) * r->image_tokens + r->T - 1) / r->T);
}

/* The part of this pass, so that the parts of a batch add up to its loss. */
static double aux_loss(const smoe_tokens *self, double sigma, const smoe_pass *pass) {
    const smoe_router *r = &self->gate.base;
    double sum = 0;
    if (r->summed) {
        if (!pass->summed) memset(r->sums, 0, r->summed * sizeof *r->sums);
        for (size_t i = 0; i < r->plan.G * r->summed && !pass->summed; i++)
            r->sums[i % r->summed] += self->sums[i];
        return balance_loss(r->sums, r->E, sigma) * (double)pass->images /
               (double)smoe_pass_whole(pass);
    }
    for (size_t g = 0; g < r->plan.G; g++)
        sum += balance_loss(self->sums + g * 2 * r->E, r->E, sigma);
    return sum / groups_of_batch(r, pass);
}

void smoe_tokens_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_tokens *self = (smoe_tokens *)r;
    smoe_plan *plan = &r->plan;
    double sigma = smoe_gate_noise(&self->gate, pass);
    bool biased = self->biased && (pass->train || !r->spec->random.is_random[r->block]);
    bool loss = pass->train && has_loss(r);
    smoe_plan_begin(plan, pass->images * r->image_tokens);
    smoe_gate_forward(&self->gate, x, sigma, pass);
    if (learns_score(r)) score_forward(self, r, x, plan->tokens);
    size_t tokens = smoe_gate_tokens(&self->gate, pass), T = group_size(self);
    SMOE_SHARED(routing, tokens * r->E)
    for (size_t t = 0; t < tokens; t++) tokens_choose(self, t, biased);
    SMOE_SHARED(routing, plan->tokens * r->E)
    for (size_t g = 0; g < plan->G; g++) {
        size_t first = g * T, left = tokens - first, n = left < T ? left : T;
        tokens_place(self, g, first, n, pass);
        if (loss) balance_measure(self, g, first, n, sigma);
    }
    smoe_plan_seal(plan);
    smoe_gate_spread(&self->gate);
    for (size_t e = 0; e < r->counted; e++) r->counts[e] = (double)plan->choices.chosen[e];
    if (!loss) return;
    plan->losses.aux = aux_loss(self, sigma, pass);
    plan->losses.weighted += r->spec->balance.aux_weight * plan->losses.aux;
}

void smoe_tokens_balance_backward(smoe_router *r, const smoe_pass *pass) {
    smoe_tokens *self = (smoe_tokens *)r;
    const smoe_plan *plan = &r->plan;
    double sigma = smoe_gate_noise(&self->gate, pass);
    double scale = r->spec->balance.aux_weight / (r->summed ? 1 : groups_of_batch(r, pass));
    size_t tokens = smoe_gate_tokens(&self->gate, pass), T = group_size(self), E = r->E;
    memset(self->gate.dz, 0, tokens * E * sizeof(real));
    if (!pass->train || !has_loss(r) || !(r->spec->balance.aux_weight > 0)) return;
    SMOE_SHARED(routing, tokens * E)
    for (size_t g = 0; g < plan->G; g++) {
        size_t first = g * T, left = tokens - first;
        double *slopes = self->slopes + g * 2 * E;
        const double *sums = r->summed ? r->sums : self->sums + g * 2 * E;
        squared_variation_slopes(slopes, sums, E, scale / 2);
        if (sigma > 0) squared_variation_slopes(slopes + E, sums + E, E, scale / 2);
        balance_backward(self, slopes, first, left < T ? left : T, sigma);
    }
}

static void tokens_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    smoe_tokens *self = (smoe_tokens *)r;
    smoe_tokens_balance_backward(r, pass);
    if (learns_score(r)) score_backward(self, dx, x);
    smoe_gate_backward(&self->gate, dx, x, pass);
}

/* b_e += rate sign(mean - chosen_e). */
void smoe_tokens_settle(smoe_router *r, const double *chosen, const smoe_pass *pass) {
    (void)pass;
    real *b = r->params->w + r->params->param[r->state].offset;
    real rate = (real)r->spec->balance.rate;
    double sum = 0;
    for (size_t e = 0; e < r->E; e++) sum += chosen[e];
    for (size_t e = 0; e < r->E; e++) {
        double above = chosen[e] * (double)r->E - sum; /* whole numbers: exact */
        b[e] += above < 0 ? rate : above > 0 ? -rate : 0;
    }
}

const smoe_router_type smoe_router_tokens_choice = {
    .size = sizeof(smoe_tokens),
    .init = smoe_tokens_init,
    .reserve = smoe_tokens_reserve,
    .cost = smoe_tokens_cost,
    .forward = smoe_tokens_forward,
    .backward = tokens_backward,
    .settle = smoe_tokens_settle,
};
