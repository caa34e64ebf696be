/*
 * The gate of the choice routers: g = softmax over experts of z = W x (+ noise), W [E,d] without
 * bias (V-MoE 2.3, Soft MoE 3.2), or the sigmoid of each, and the selection that they need. The
 * routers decide which choices become placements.
 *   z-loss  mean over the tokens of the batch of log(sum over experts of exp z)^2, training only
 */
#pragma once

#include "route/router.h"

typedef struct smoe_gate {
    smoe_router base;
    size_t weight;       /* row of W */
    real *z;             /* [tokens,E] W x; at evaluation of a random router, noise alone */
    real *noisy;         /* [tokens,E] z + noise; z itself where there is none */
    real *g;             /* [tokens,E] softmax of noisy, or of the chosen ones among them */
    real *dz;            /* [tokens,E] */
    smoe_gate_form form; /* of g from noisy; set by the router's init, as the next two: */
    bool chosen;         /* the router makes g: only of the chosen experts, with the sum 1 */
    size_t unit;  /* consecutive tokens whose mean the gate sees as one token: 1, or those of an
                    image. "Tokens" above and below means these, except for the plan */
    real *mean;   /* [tokens,d] these means, where unit is not 1 */
    real *dmean;  /* [tokens,d] */
    real *spread; /* [tokens of the plan,E] g of each, for the plan */
    double *lse;  /* [tokens] log(sum exp noisy), where there is a z-loss */
} smoe_gate;

/* A token and its score; in double, because prices of a transport plan bring scores close together
 * (transport.c). */
typedef struct smoe_ranked {
    double score;
    int32_t index;
} smoe_ranked;

/* Tokens of the gate in a pass. */
static inline size_t smoe_gate_tokens(const smoe_gate *gate, const smoe_pass *pass) {
    return pass->images * gate->base.image_tokens / gate->unit;
}

/* Tokens of the whole batch, over which losses are means. */
double smoe_gate_batch(const smoe_gate *gate, const smoe_pass *pass);

/* The expert whose slot in the plan holds this placement of the token. */
static inline size_t smoe_gate_expert(const smoe_router *r, size_t slot, size_t token) {
    return slot / r->P - token / r->T * r->E;
}

/* Registers W. `unit` is set, 0 counts as 1. */
void smoe_gate_init(smoe_gate *gate);
void smoe_gate_reserve(smoe_gate *gate, size_t B, bool train, bool noise, smoe_arena *keep);
/* Its cost, if buffers hold at most `most` choices of a token, on average. */
smoe_router_cost smoe_gate_cost(const smoe_gate *gate, double most);
/* Standard deviation of the noise of a pass: noise/E in training, else 0. */
double smoe_gate_noise(const smoe_gate *gate, const smoe_pass *pass);
/* Fills z, noisy and g. At evaluation, in a block of spec->is_random, z consists of standard normal
 * numbers instead of W x, or of W x in a random order (V-MoE E.1). std: standard deviation of
 * the noise, 0 for none. If `reserve` allocated no buffer for the noise, z gets it. */
void smoe_gate_forward(smoe_gate *gate, const real *x, double std, const smoe_pass *pass);
/* Where unit is not 1: what the plan shows of g, once the router has made it. */
void smoe_gate_spread(smoe_gate *gate);
/* dz holds the gradients of the auxiliary loss (or zeros); adds those of the z-loss and those of
 * the plan's weights through softmax or sigmoid, then dW += dz^T x and dx += dz W. */
void smoe_gate_backward(smoe_gate *gate, real *dx, const real *x, const smoe_pass *pass);

/* sigmoid(z) without overflow; and sigmoids divided by their sum, of n logits z[which[i]] or, where
 * `which` is NULL, z[i]: p [n]. */
double smoe_sigmoid(double z);
void smoe_sigmoid_shares(double *p, const real *z, const int32_t *which, size_t n);

/* Higher score first, then lower index. */
int smoe_ranked_compare(const void *a, const void *b);
/* The k best of n move to the front, in no order: linear time on average (Hoare's selection). */
void smoe_ranked_select(smoe_ranked *list, size_t n, size_t k);
