/*
 * Experts Choice by sparsity-constrained transport (arXiv 2209.15466, 2401.15969): an expert takes
 * the tokens that have a part in its column of the plan of transport.h, which has as many entries
 * as its buffer has places, at most. So buffers may stay partly empty. Weights are g, the softmax
 * over experts; the plan has no gradient.
 */
#include "route/experts.h"
#include "route/transport.h"
#include "spec/routers.h"

static void solve(smoe_experts *self, size_t g) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, first, n = smoe_experts_group(self, g, &first);
    size_t room = smoe_moe_places(r->spec, r->block, n, r->image_tokens);
    double *plan = self->plan + first * E;
    smoe_transport_sparse(plan, self->scratch + g * smoe_transport_scratch(r->T, E),
                          self->order + g * r->T, self->gate.noisy + first * E, n, E, room,
                          r->spec->transport_steps);
    for (size_t i = 0; i < n * E; i++) self->score[first * E + i] = (real)plan[i];
}

static void forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_experts_forward_plan((smoe_experts *)r, x, pass, solve, true);
}

const smoe_router_type smoe_router_sparse = {
    .size = sizeof(smoe_experts),
    .init = smoe_experts_setup,
    .reserve = smoe_experts_reserve_transport,
    .cost = smoe_experts_cost,
    .forward = forward,
    .backward = smoe_experts_backward,
};
