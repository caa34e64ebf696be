/*
 * Experts Choice (Soft MoE 3.2): g = softmax over experts of W x + N(0, (noise/E)^2), the noise in
 * training only; each expert takes the tokens of the group with the highest g, as many as its
 * buffer holds, weighted by g. A token may be taken by several experts or by none. With
 * `renormalize` its weights are divided by their sum, as in Sparse Upcycling (arXiv 2212.05055).
 * There is no auxiliary loss, so the logits without noise are not needed.
 *
 * Two routers differ from it in the scores by which an expert ranks tokens: by a transport plan
 * (transport.h), which has no gradient; weights are g.
 *   sinkhorn  an expert takes the tokens that have most of Pi_te = exp(z_te + u_t + v_e), whose
 *             rows sum to 1 and columns to n/E, so that a token that many want counts for less
 *             (arXiv 2401.15969). In a column v is the same for all: tokens rank by z + u
 *   sparse    an expert takes the tokens that have a part in its column, which has as many entries
 *             as its buffer has places, at most (arXiv 2209.15466, 2401.15969). So buffers may stay
 *             partly empty
 */
#include "base/team.h"
#include "route/transport.h"
#include "spec/routers.h"

typedef struct smoe_experts {
    smoe_gate gate;
    smoe_ranked *ranked; /* [threads,BAND,T] */
    int threads;
    real *score; /* [tokens,E] scores; gate.g where the router has none of its own */
    /* Transport plans: [G,T,E], scratch [G,T+E] and [G,T]; NULL: the router solves none. */
    double *plan, *scratch;
    smoe_ranked *order;
} smoe_experts;

enum { BAND = 16 }; /* experts that one task chooses for: a cache line of weights */

extern const smoe_router_type smoe_router_experts_choice, smoe_router_sparse;

static void router_experts_init(smoe_router *r) {
    smoe_gate_init((smoe_gate *)r);
}

static void router_experts_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_experts *self = (smoe_experts *)r;
    smoe_gate_reserve(&self->gate, B, train, false, keep);
    size_t G = (B * r->image_tokens + r->T - 1) / r->T;
    smoe_plan_reserve(&r->plan, true, G, train, keep);
    self->threads = smoe_threads();
    self->ranked = smoe_arena_take(keep, (size_t)self->threads * BAND * r->T, sizeof *self->ranked);
    self->score = self->gate.g;
    if (r->type == &smoe_router_experts_choice) return;
    size_t n = G * r->T;
    self->score = smoe_arena_take(keep, n * r->E, sizeof(real));
    self->plan = smoe_arena_take(keep, n * r->E, sizeof *self->plan);
    self->scratch =
        smoe_arena_take(keep, G * smoe_transport_scratch(r->T, r->E), sizeof *self->scratch);
    self->order = smoe_arena_take(keep, n, sizeof *self->order);
}

/* Every expert may choose the same token. */
static smoe_router_cost router_experts_cost(const smoe_router *r) {
    return smoe_gate_cost((const smoe_gate *)r, (double)r->E);
}

/* The number of tokens of group g, which begin with *first. */
static size_t router_experts_group(const smoe_experts *self, size_t g, size_t *first) {
    const smoe_router *r = &self->gate.base;
    *first = g * r->T;
    size_t left = r->plan.tokens - *first;
    return left < r->T ? left : r->T;
}

/* The choices of `count` experts from e on, of group g. Scores are gathered token by token, since
 * those of neighbouring experts lie side by side. */
static void router_experts_choose(smoe_experts *self, smoe_ranked *ranked, size_t g, size_t e,
                                  size_t count, bool positive) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t E = r->E, first, n = router_experts_group(self, g, &first);
    size_t room = smoe_moe_places(r->spec, r->block, n, r->image_tokens);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++)
            ranked[k * n + i] = (smoe_ranked){self->score[(first + i) * E + e + k], (int32_t)i};
    for (size_t k = 0; k < count; k++, ranked += n) {
        size_t buffer = g * E + e + k, used = 0;
        smoe_ranked_select(ranked, n, room);
        for (size_t p = 0; p < room; p++) {
            if (positive && !(ranked[p].score > 0)) continue;
            size_t token = first + (size_t)ranked[p].index, slot = buffer * r->P + used++;
            plan->list.slot_token[slot] = (int32_t)token;
            plan->list.slot_weight[slot] = self->gate.g[token * E + e + k];
        }
        plan->list.used[buffer] = (int32_t)used;
    }
}

/* g of a token becomes the softmax over the experts that took it, which is g divided by its sum
 * over them, and 0 for the others. The backward pass of the softmax over all experts is that of
 * this one too: where g is 0, so is the gradient. */
static void renormalize(smoe_experts *self, size_t t) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t E = r->E;
    const real *z = self->gate.noisy + t * E;
    real *g = self->gate.g + t * E;
    double most = -INFINITY, sum = 0;
    memset(g, 0, E * sizeof *g);
    for (int32_t i = plan->list.first[t]; i < plan->list.first[t + 1]; i++)
        most = fmax(most, (double)z[smoe_gate_expert(r, (size_t)plan->list.slot[i], t)]);
    for (int32_t i = plan->list.first[t]; i < plan->list.first[t + 1]; i++)
        sum += exp((double)z[smoe_gate_expert(r, (size_t)plan->list.slot[i], t)] - most);
    for (int32_t i = plan->list.first[t]; i < plan->list.first[t + 1]; i++) {
        size_t slot = (size_t)plan->list.slot[i], e = smoe_gate_expert(r, slot, t);
        g[e] = sum > 0 ? (real)(exp((double)z[e] - most) / sum) : 0;
        plan->list.slot_weight[slot] = g[e];
    }
}

/* Placements by the scores, with weights g; `positive`: only tokens with scores above 0. */
static void router_experts_place(smoe_experts *self, bool positive) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t E = r->E, bands = (E + BAND - 1) / BAND;
    SMOE_SHARED_BY(routing, smoe_team_for(plan->tokens * E, self->threads), schedule(static))
    for (size_t task = 0; task < plan->G * bands; task++) {
        size_t e = task % bands * BAND, count = E - e < BAND ? E - e : BAND;
        router_experts_choose(self, self->ranked + smoe_thread() * BAND * r->T, task / bands, e,
                              count, positive);
    }
    for (size_t g = 0; g < plan->G; g++)
        for (size_t e = 0; e < E; e++)
            plan->choices.chosen[e] += (size_t)plan->list.used[g * E + e];
    smoe_plan_seal(plan);
    if (!r->spec->choice.renormalize) return;
    SMOE_SHARED(routing, plan->tokens * E)
    for (size_t t = 0; t < plan->tokens; t++) renormalize(self, t);
}

/* The scores of group g, by its transport plan. */
static void solve(smoe_experts *self, size_t g, bool sparse) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, first, n = router_experts_group(self, g, &first),
           steps = r->spec->choice.transport_steps;
    size_t room = smoe_moe_places(r->spec, r->block, n, r->image_tokens);
    const smoe_transport_gains gains = {self->gate.noisy + first * E, n, E};
    double *plan = self->plan + first * E;
    double *u = self->scratch + g * smoe_transport_scratch(r->T, E);
    if (sparse)
        smoe_transport_sparse(plan, u, self->order + g * r->T, gains, room, steps);
    else
        smoe_transport_sinkhorn(plan, u, gains, steps);
    for (size_t i = 0; i < n * E; i++)
        self->score[first * E + i] = (real)(sparse ? plan[i] : (double)gains.z[i] + u[i / E]);
}

static void router_experts_forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_experts *self = (smoe_experts *)r;
    bool sparse = r->type == &smoe_router_sparse;
    smoe_plan_begin(&r->plan, pass->images * r->image_tokens);
    smoe_gate_forward(&self->gate, x, smoe_gate_noise(&self->gate, pass), pass);
    if (self->plan) {
        SMOE_SHARED(routing, r->plan.tokens * r->E * r->spec->choice.transport_steps)
        for (size_t g = 0; g < r->plan.G; g++) solve(self, g, sparse);
    }
    router_experts_place(self, sparse);
}

static void router_experts_backward(smoe_router *r, real *dx, const real *x,
                                    const smoe_pass *pass) {
    smoe_experts *self = (smoe_experts *)r;
    memset(self->gate.dz, 0, r->plan.tokens * r->E * sizeof(real));
    smoe_gate_backward(&self->gate, dx, x, pass);
}

#define EXPERTS                                                                \
    {                                                                          \
        .size = sizeof(smoe_experts), .init = router_experts_init,             \
        .reserve = router_experts_reserve, .cost = router_experts_cost,        \
        .forward = router_experts_forward, .backward = router_experts_backward \
    }
const smoe_router_type smoe_router_experts_choice = EXPERTS, smoe_router_sinkhorn = EXPERTS,
                       smoe_router_sparse = EXPERTS;
