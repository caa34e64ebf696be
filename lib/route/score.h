/*
 * The learnt priority of a token (V-MoE, appendix C.1): s = w . x + b, or its sigmoid. Tokens are
 * placed in decreasing order of s, and s multiplies the weights of a token's placements, so that it
 * has a gradient:
 *   d s_t = sum over the placements of token t of g dweight
 */
#ifndef SMOE_SCORE_H
#define SMOE_SCORE_H

#include "route/gate.h"

typedef struct smoe_token_score {
    bool sigmoid;
    size_t weight, bias; /* rows of w [1,d] and b [1] */
    real *s;             /* [tokens]; NULL: the router has no such score */
    real *ds;            /* [tokens]; NULL in inference */
} smoe_token_score;

/* Registers w and b. At first b is 1, or 0 with a sigmoid. */
void smoe_score_init(smoe_token_score *score, smoe_router *r, bool sigmoid);
void smoe_score_reserve(smoe_token_score *score, size_t tokens, bool train, smoe_arena *keep);
/* s of the tokens x [tokens,d]. */
void smoe_score_forward(smoe_token_score *score, const smoe_router *r, const real *x,
                        size_t tokens);
/* To be called before smoe_gate_backward: the gradients of the plan's weights become those of g.
 * Adds to dx [tokens,d] and to the gradients of w and b. */
void smoe_score_backward(smoe_token_score *score, smoe_gate *gate, real *dx, const real *x);

#endif
