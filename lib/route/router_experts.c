/*
 * Experts Choice (Soft MoE 3.2): g = softmax over experts of W x + N(0, (noise/E)^2), the noise in
 * training only; each expert takes the tokens of the group with the highest g, as many as its
 * buffer holds, weighted by g. A token may be taken by several experts or by none. There is no
 * auxiliary loss, so the logits without noise are not needed.
 */
#include "base/team.h"
#include "route/gate.h"
#include "spec/routers.h"

#include <string.h>

enum { BAND = 16 }; /* experts that one task chooses for: a cache line of weights */

typedef struct experts_router {
    smoe_gate gate;
    smoe_ranked *ranked; /* [threads,BAND,T] */
    int threads;
} experts_router;

static int init(smoe_router *r, smoe_err *err) {
    (void)err;
    smoe_gate_init((smoe_gate *)r);
    return 0;
}

static void reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    experts_router *self = (experts_router *)r;
    size_t G = (B * r->image_tokens + r->T - 1) / r->T;
    smoe_gate_reserve(&self->gate, B, train, false, keep);
    smoe_plan_reserve_sparse(&r->plan, G, r->T, r->E, r->P, train, keep);
    self->threads = smoe_threads();
    self->ranked = smoe_arena_take(keep, (size_t)self->threads * BAND * r->T, sizeof *self->ranked);
}

/* Every expert may choose the same token. */
static smoe_router_cost cost(const smoe_router *r, const smoe_cost_options *options) {
    return smoe_gate_cost((const smoe_gate *)r, options, r->E);
}

/* The choices of `count` experts from e on, of one group with n tokens from `first` on. Their
 * weights are gathered token by token, since those of neighbouring experts lie side by side. */
static void choose(experts_router *self, smoe_ranked *ranked, size_t g, size_t e, size_t count) {
    smoe_router *r = &self->gate.base;
    smoe_plan *plan = &r->plan;
    size_t E = r->E, first = g * r->T, left = plan->tokens - first;
    size_t n = left < r->T ? left : r->T, room = smoe_moe_places(r->spec, r->block, n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++)
            ranked[k * n + i] = (smoe_ranked){self->gate.g[(first + i) * E + e + k], (int32_t)i};
    for (size_t k = 0; k < count; k++, ranked += n) {
        size_t buffer = g * E + e + k;
        smoe_ranked_select(ranked, n, room);
        for (size_t p = 0; p < room; p++) {
            plan->slot_token[buffer * r->P + p] = (int32_t)first + ranked[p].index;
            plan->slot_weight[buffer * r->P + p] = ranked[p].score;
        }
        plan->used[buffer] = (int32_t)room;
    }
}

static void forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    experts_router *self = (experts_router *)r;
    smoe_plan *plan = &r->plan;
    size_t E = r->E, bands = (E + BAND - 1) / BAND;
    smoe_plan_begin(plan, pass->images * r->image_tokens);
    smoe_gate_forward(&self->gate, x, smoe_gate_noise(&self->gate, pass), pass);
    SMOE_SHARED_BY(routing, smoe_team_for(plan->tokens * E, self->threads), schedule(static))
    for (size_t task = 0; task < plan->G * bands; task++) {
        size_t e = task % bands * BAND, count = E - e < BAND ? E - e : BAND;
        choose(self, self->ranked + smoe_thread() * BAND * r->T, task / bands, e, count);
    }
    for (size_t buffer = 0; buffer < plan->G * E; buffer++)
        plan->chosen[buffer % E] += (size_t)plan->used[buffer];
    smoe_plan_seal(plan);
}

static void backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass) {
    experts_router *self = (experts_router *)r;
    memset(self->gate.dz, 0, r->plan.tokens * r->E * sizeof(real));
    smoe_gate_backward(&self->gate, dx, x, pass);
}

const smoe_router_type smoe_router_experts_choice = {
    .size = sizeof(experts_router),
    .init = init,
    .reserve = reserve,
    .cost = cost,
    .forward = forward,
    .backward = backward,
};
