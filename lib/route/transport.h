/*
 * Transport of n tokens, of mass 1 each, to E experts that take n/E each; a unit from token t to
 * expert e gains z_te. Two routers choose by such plans Pi [n,E]. All in double, by one thread.
 */
#pragma once

#include "route/gate.h"

/* The gains z [n,E]. */
typedef struct smoe_transport_gains {
    const real *z;
    size_t n, E;
} smoe_transport_gains;

/* Numbers of scratch for either. */
static inline size_t smoe_transport_scratch(size_t n, size_t E) {
    return n + E;
}

/* The plan of the largest <Pi, z> + entropy(Pi): Pi_te = exp(z_te + u_t + v_e), by `steps` of
 * Sinkhorn's iteration, columns and then rows: rows sum to 1, columns nearly to n/E. scratch [n+E]
 * begins with u. */
void smoe_transport_sinkhorn(double *plan, double *scratch, smoe_transport_gains gains,
                             size_t steps);

/* The plan of the largest <Pi, z> - |Pi|^2/2 with at most k tokens per expert: columns of at most k
 * entries that sum to n/E, rows nearly to 1, by `steps` of gradient ascent on the tokens' prices.
 * ranked [n] and scratch [n+E] are scratch. */
void smoe_transport_sparse(double *plan, double *scratch, smoe_ranked *ranked,
                           smoe_transport_gains gains, size_t k, size_t steps);
