/*
 * The gate of the choice routers: g = softmax over experts of W x (+ noise), W [E,d] without bias
 * (V-MoE 2.3, Soft MoE 3.2), and the selection that both routers need. router_tokens.c and
 * router_experts.c decide which choices become placements.
 */
#ifndef SMOE_GATE_H
#define SMOE_GATE_H

#include "route/router.h"

typedef struct smoe_gate {
    smoe_router base;
    size_t weight; /* row of W */
    real *z;       /* [tokens,E] W x; at evaluation of a random router, noise alone */
    real *noisy;   /* [tokens,E] z + noise; z itself where there is none */
    real *g;       /* [tokens,E] softmax of noisy, or of the chosen ones among them */
    real *dz;      /* [tokens,E] */
} smoe_gate;

/* A token and its score. */
typedef struct smoe_ranked {
    real score;
    int32_t index;
} smoe_ranked;

/* Registers W. */
void smoe_gate_init(smoe_gate *gate);
void smoe_gate_reserve(smoe_gate *gate, size_t B, bool train, bool noise, smoe_arena *keep);
/* Its cost, if buffers hold at most `most` choices of a token. */
smoe_router_cost smoe_gate_cost(const smoe_gate *gate, const smoe_cost_options *options,
                                size_t most);
/* Standard deviation of the noise of a pass: noise/E in training, else 0. */
double smoe_gate_noise(const smoe_gate *gate, const smoe_pass *pass);
/* Fills z, noisy and g. At evaluation, in a block of spec->is_random, z consists of standard normal
 * numbers instead of W x (V-MoE E.1). std: standard deviation of the noise, 0 for none. If
 * `reserve` allocated no buffer for the noise, it is added to z itself. */
void smoe_gate_forward(smoe_gate *gate, const real *x, double std, const smoe_pass *pass);
/* dz holds the gradients of the auxiliary loss (or zeros); adds those of the plan's weights through
 * the softmax, then dW += dz^T x and dx += dz W. */
void smoe_gate_backward(smoe_gate *gate, real *dx, const real *x);

/* Higher score first, then lower index. */
int smoe_ranked_compare(const void *a, const void *b);
/* The k best of n move to the front, in no order: linear time on average (Hoare's selection). */
void smoe_ranked_select(smoe_ranked *list, size_t n, size_t k);

#endif
