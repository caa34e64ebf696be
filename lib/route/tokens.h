/*
 * The functions of Tokens Choice (router_tokens.c), for routers in which a token chooses, or a
 * whole image does (gate.unit).
 */
#pragma once

#include "route/gate.h"

/* "tokens" are those of the gate. */
typedef struct smoe_tokens {
    smoe_gate gate;
    int32_t *choice;      /* [tokens,K] experts in the order of the token's preference */
    smoe_ranked *ranked;  /* [tokens] */
    smoe_ranked *choices; /* [tokens,K] in order; NULL: tokens are placed, not choices */
    size_t weight, bias;  /* of a learnt priority: rows of w [1,d] and b [1], */
    real *s, *ds;         /* [tokens] the scores; ds NULL in inference */
    uint32_t *drawn;      /* [tokens] random order of each group's tokens; NULL: not wanted */
    real *biased;         /* [tokens,E] g + b; NULL: no biases */
    double *share;        /* [tokens,K] scratch of sigmoids that are renormalised */
    /* Of the loss of balance: */
    real *soft;     /* [tokens,E] p */
    double *p;      /* [G,E] p of a token */
    double *sums;   /* [G,2,E] importance and load of each group */
    double *slopes; /* [G,2,E] gradients of the loss by them */
} smoe_tokens;

void smoe_tokens_init(smoe_router *r);
void smoe_tokens_reserve(smoe_router *r, size_t B, bool train, smoe_arena *keep);
smoe_router_cost smoe_tokens_cost(const smoe_router *r);
void smoe_tokens_forward(smoe_router *r, const real *x, const smoe_pass *pass);
/* The first part of a backward pass: gate.dz [tokens,E] becomes the gradient of the weighted loss
 * of balance, or 0. smoe_gate_backward is the second part. */
void smoe_tokens_balance_backward(smoe_router *r, const smoe_pass *pass);
void smoe_tokens_settle(smoe_router *r, const double *chosen, const smoe_pass *pass);
