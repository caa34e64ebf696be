/*
 * Experts Choice by Sinkhorn's iteration (arXiv 2401.15969): an expert takes the tokens that have
 * most of the transport plan Pi_te = exp(z_te + u_t + v_e), whose rows sum to 1 and columns to n/E,
 * so that a token that many want counts for less. In a column v is the same for all: tokens rank by
 * z + u. Weights are g, the softmax over experts; Pi has no gradient.
 */
#include "route/experts.h"
#include "route/transport.h"

static void rank(smoe_experts *self, size_t g) {
    const smoe_router *r = &self->gate.base;
    size_t E = r->E, first, n = smoe_experts_group(self, g, &first);
    const real *z = self->gate.noisy + first * E;
    double *u = self->scratch + g * smoe_transport_scratch(r->T, E);
    smoe_transport_sinkhorn(self->plan + first * E, u, z, n, E, r->spec->transport_steps);
    for (size_t t = 0; t < n; t++)
        for (size_t e = 0; e < E; e++)
            self->score[(first + t) * E + e] = (real)((double)z[t * E + e] + u[t]);
}

static void forward(smoe_router *r, const real *x, const smoe_pass *pass) {
    smoe_experts_forward_plan((smoe_experts *)r, x, pass, rank, false);
}

const smoe_router_type smoe_router_sinkhorn = {
    .size = sizeof(smoe_experts),
    .init = smoe_experts_setup,
    .reserve = smoe_experts_reserve_transport,
    .cost = smoe_experts_cost,
    .forward = forward,
    .backward = smoe_experts_backward,
};
