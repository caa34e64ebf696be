/*
 * What the routers with dense weights that are learnt have in common: slot vectors Phi and the
 * products of tokens with them. What becomes of these they decide themselves.
 */
#ifndef SMOE_SOFT_H
#define SMOE_SOFT_H

#include "route/router.h"

typedef struct smoe_soft {
    smoe_router base;
    bool normalize;    /* tokens and slot vectors have length one */
    size_t phi, scale; /* rows of the parameter table; scale only where there is one */
    real *unit;        /* [d,S] f(phi_s) phi_s */
    real *column;      /* [2,S] f(phi_s), and its slope */
    real *z;           /* [R,S] X unit, or X Phi */
    real *token;       /* [R,2] f(x_t) and its slope; 1 without `normalize` */
    real *dunit;       /* [d,S] */
    real *pull;        /* [R] sum over slots of dL z */
} smoe_soft;

/* Registers Phi. */
void smoe_soft_init(smoe_soft *soft, bool normalize);
/* `reserve` and `cost` of a router; the plan is dense. */
void smoe_soft_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep);
smoe_router_cost smoe_soft_cost(const smoe_router *r, const smoe_cost_options *options);

/* Begins the plan of a pass, and fills z and token: the cosine of token t and slot s is
 * token[2t] z[t,s]. */
void smoe_soft_cosines(smoe_soft *soft, const real *x, const smoe_pass *pass);

/* With dcomb of the plan = dz [R,S] and, where normalised, pull_t = sum_s dL_ts z_ts of logits
 * L = scale * cosine: adds to dx [R,d] and to the gradient of Phi. */
void smoe_soft_cosines_backward(smoe_soft *soft, real *dx, const real *x, real scale);

#endif
