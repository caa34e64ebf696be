/*
 * The functions of Experts Choice (router_experts.c), for routers that differ from it only in the
 * scores by which an expert ranks tokens.
 */
#ifndef SMOE_EXPERTS_H
#define SMOE_EXPERTS_H

#include "route/gate.h"

typedef struct smoe_experts {
    smoe_gate gate;
    smoe_ranked *ranked; /* [threads,BAND,T] */
    int threads;
    real *score; /* [tokens,E] scores; gate.g where the router has none of its own */
    /* Transport plans: [G,T,E], scratch [G,T+E] and [G,T]; NULL: the router solves none. */
    double *plan, *scratch;
    smoe_ranked *order;
} smoe_experts;

void smoe_experts_setup(smoe_router *r);
void smoe_experts_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep);
smoe_router_cost smoe_experts_cost(const smoe_router *r, const smoe_cost_options *options);
/* The logits and g of a pass; then the scores of group g, whose n tokens begin with `first`, are
 * the router's to fill; then the placements, with weights g. `positive`: of tokens whose score is
 * above 0 alone. */
void smoe_experts_begin(smoe_experts *self, const real *x, const smoe_pass *pass);
size_t smoe_experts_group(const smoe_experts *self, size_t g, size_t *first);
void smoe_experts_place(smoe_experts *self, bool positive);
void smoe_experts_backward(smoe_router *r, real *dx, const real *x, const smoe_pass *pass);

#endif
