/*
 * The plan: what a router decides for G groups of T tokens and S = E*P slots, and the only thing that
 * leaves it. Dispatch, combine and their backwards exist once, in plan.c.
 *
 *   dense   disp, comb [G,T,S]: X~ = disp^T X, Y = comb Y~ (Soft MoE eq. 1-3)
 *   sparse  a list of placements (token, slot, weight), at most one token a slot:
 *           X~[slot] = X[token], Y[token] = sum over its placements of weight * Y~[slot]
 *
 * Slots lie expert after expert, so that each expert's inputs are consecutive rows:
 *   dense   row of (group g, slot s) is s*G + g
 *   sparse  only filled slots have a row; row_of[g*S + s] says which (-1: empty)
 * expert e owns rows [first_row[e], first_row[e+1]) either way.
 */
#ifndef SMOE_PLAN_H
#define SMOE_PLAN_H

#include "base/base.h"

typedef struct smoe_plan {
    bool sparse;
    size_t G, T, E, P, S; /* of this pass; S = E*P */
    size_t *first_row;    /* [E+1] */
    size_t rows;          /* first_row[E] */

    /* dense */
    real *disp, *comb;    /* [G,T,S] */
    real *ddisp, *dcomb;  /* [G,T,S]; plan_combine_backward and plan_dispatch_backward write them */
    bool disp_constant, comb_constant; /* that side has no gradient; its d array may be NULL */

    /* sparse: placements sorted by (group, token, choice) */
    size_t placed;        /* how many */
    int32_t *token;       /* [placed] token of the placement, g*T + t */
    int32_t *row;         /* [placed] its row among the experts' inputs */
    real *weight;         /* [placed] */
    real *dweight;        /* [placed]; written by plan_combine_backward */
    size_t *first;        /* [G*T+1] placements of token i are first[i] .. first[i+1] */
    bool weight_constant; /* the weights have no gradient (identity) */

    /* counts, exact, for metrics and inspection; choice routers only */
    size_t dropped;       /* tokens without a placement */
    size_t *chosen, *lost; /* [E] choices made; choices that found the buffer full; NULL for dense */
    double aux;           /* auxiliary loss of this layer (unweighted), 0 when there is none */
} smoe_plan;

/* Names the arrays of a plan for at most G groups: dense when `sparse` is false, else with room for
 * `placements` placements. `train` adds the gradients. */
void smoe_plan_reserve(smoe_plan *plan, bool sparse, size_t G, size_t T, size_t E, size_t P,
                       size_t placements, bool train, smoe_arena *keep);

/* slots [rows, d] = dispatch of x [G*T, d]. */
void smoe_plan_dispatch(const smoe_plan *plan, real *slots, const real *x, size_t d);
/* y [G*T, d] = combine of the experts' outputs out [rows, d], added to residual [G*T, d]. */
void smoe_plan_combine(const smoe_plan *plan, real *y, const real *out, const real *residual,
                       size_t d);
/* dout [rows, d] and the plan's dcomb (or dweight) from dy [G*T, d]. */
void smoe_plan_combine_backward(smoe_plan *plan, real *dout, const real *dy, const real *out,
                                size_t d);
/* dx [G*T, d] (overwritten) and the plan's ddisp from dslots [rows, d]. */
void smoe_plan_dispatch_backward(smoe_plan *plan, real *dx, const real *dslots, const real *x,
                                 size_t d);

/* ---- statistics, exact, in double ---- */
typedef struct smoe_plan_stats {
    double dispatch_max, combine_max; /* mean over slots (tokens) of the largest dispatch (combine) weight */
    double tokens_per_slot;  /* exp of the entropy of a slot's dispatch weights, mean over slots */
    double slots_per_token;  /* exp of the entropy of a token's combine weights, mean over tokens */
    double dropped;          /* share of tokens without a placement */
} smoe_plan_stats;
void smoe_plan_measure(const smoe_plan *plan, smoe_plan_stats *stats);

#endif
