/*
 * Experts Choice by a transport plan (transport.h), which has no gradient; weights are g, the
 * softmax over experts.
 *   sinkhorn  an expert takes the tokens that have most of Pi_te = exp(z_te + u_t + v_e), whose
 *             rows sum to 1 and columns to n/E, so that a token that many want counts for less
 *             (arXiv 2401.15969). In a column v is the same for all: tokens rank by z + u
 *   sparse    an expert takes the tokens that have a part in its column, which has as many entries
 *             as its buffer has places, at most (arXiv 2209.15466, 2401.15969). So buffers may stay
 *             partly empty
 */
#include "base/team.h"
#include "route/experts.h"
#include "route/transport.h"
#include "spec/routers.h"

static void transport_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep) {
    smoe_experts *self = (smoe_experts *)r;
    smoe_experts_reserve(r, B, train, keep);
    size_t G = (B * r->image_tokens + r->T - 1) / r->T, n = G * r->T;
    self->score = smoe_arena_take(keep, n * r->E, sizeof(real));
    self->plan = smoe_arena_take(keep, n * r->E, sizeof *self->plan);
    self->scratch =
        smoe_arena_take(keep, G * smoe_transport_scratch(r->T, r->E), sizeof *self->scratch);
    self->order = smoe_arena_take(keep, n, sizeof *self->order);
}

/* The scores of group g. */
static void solve(smoe_experts *self, size_t g, bool sparse) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, first, n = smoe_experts_group(self, g, &first),
           steps = r->spec->transport_steps;
    size_t room = smoe_moe_places(r->spec, r->block, n, r->image_tokens);
    const real *z = self->gate.noisy + first * E;
    double *plan = self->plan + first * E;
    double *u = self->scratch + g * smoe_transport_scratch(r->T, E);
    if (sparse)
        smoe_transport_sparse(plan, u, self->order + g * r->T, z, n, E, room, steps);
    else
        smoe_transport_sinkhorn(plan, u, z, n, E, steps);
    for (size_t i = 0; i < n * E; i++)
        self->score[first * E + i] = (real)(sparse ? plan[i] : (double)z[i] + u[i / E]);
}

static void transport_forward(smoe_router *r, const real *x, const smoe_pass *pass, bool sparse) {
    smoe_experts *self = (smoe_experts *)r;
    smoe_experts_begin(self, x, pass);
    SMOE_SHARED(routing, r->plan.tokens * r->E * r->spec->transport_steps)
    for (size_t g = 0; g < r->plan.G; g++) solve(self, g, sparse);
    smoe_experts_place(self, sparse);
}

static void forward_sinkhorn(smoe_router *r, const real *x, const smoe_pass *pass) {
    transport_forward(r, x, pass, false);
}

static void forward_sparse(smoe_router *r, const real *x, const smoe_pass *pass) {
    transport_forward(r, x, pass, true);
}

#define TRANSPORT(how)                                                                          \
    {                                                                                           \
        .size = sizeof(smoe_experts), .init = smoe_experts_setup, .reserve = transport_reserve, \
        .cost = smoe_experts_cost, .forward = how, .backward = smoe_experts_backward            \
    }
const smoe_router_type smoe_router_sinkhorn = TRANSPORT(forward_sinkhorn);
const smoe_router_type smoe_router_sparse = TRANSPORT(forward_sparse);
