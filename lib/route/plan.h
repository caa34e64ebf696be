/*
 * The plan: the decision of a router for G groups of T tokens and S = E*P slots, and its only
 * output. Dispatch, combine and their backward passes exist once, in plan.c.
 *
 *   dense   disp, comb [G,T,S]: X~ = disp^T X, Y = comb Y~ (Soft MoE eq. 1-3)
 *   sparse  placements (token, slot, weight), at most one token per slot:
 *           X~[slot] = X[token], Y[token] = sum over its placements of weight * Y~[slot]
 *
 * Slots lie expert after expert, so that each expert's inputs are consecutive rows,
 * [first_row[e], first_row[e+1]):
 *   dense   row of (group g, slot s) is s*G + g
 *   sparse  only filled slots have a row, group after group within an expert
 */
#pragma once

#include "base/bf16.h"
#include "math/precision.h"

/* What a router adds to the loss in training; 0: nothing. */
typedef struct smoe_plan_losses {
    double aux;      /* of balance */
    double z;        /* of large logits */
    double weighted; /* what is added: each times its weight */
} smoe_plan_losses;

/* The weights of a dense plan, all [G,T,S]. */
typedef struct smoe_plan_dense {
    real *disp, *comb;
    real *mixed_disp, *mixed_comb; /* what products take: disp and comb, or rounded copies */
    real *ddisp, *dcomb; /* written by the backwards; ddisp may be NULL with disp_constant */
    bool disp_constant, comb_constant; /* that side has no gradient */
    double scale; /* learnt factor of the logits, in this pass; 0: there is none */
} smoe_plan_dense;

/* The placements of a sparse plan, filled by the router ... */
typedef struct smoe_plan_list {
    int32_t *slot_token;  /* [G,E,P] row of x in that slot; entries past `used` are not read */
    real *slot_weight;    /* [G,E,P] */
    int32_t *used;        /* [G,E] filled slots of an expert's buffer: 0 .. used-1 */
    bool weight_constant; /* the weights have no gradient */
    /* ... and by smoe_plan_seal: ordered by token, then slot */
    size_t placed;
    int32_t *first; /* [tokens+2] the placements of token i are first[i] .. first[i+1] */
    int32_t *slot;  /* [placed] index into slot_token */
    int32_t *row;   /* [G,E,P] row of a filled slot among the experts' inputs */
    real *dweight;  /* [G,E,P] by slot; written by smoe_plan_combine_backward */
} smoe_plan_list;

/* What choice routers report about their last pass: exact counts, and the scores that they chose
 * by. */
typedef struct smoe_plan_choices {
    size_t dropped;        /* tokens without a placement */
    size_t *chosen, *lost; /* [E] choices made; choices that found the buffer full */
    const real *gate;   /* [tokens,E] weights that decide the choices; NULL: not a choice router */
    const real *scores; /* [tokens / unit,E] the scores they come from, at evaluation */
    size_t unit;        /* tokens that share scores: 1, or those of an image */
    const int32_t *choice; /* [tokens / unit,K] experts that tokens chose, placed or not, at
                              evaluation -1 if they do not take part (skip_patch); NULL: tokens
                              do not choose */
    size_t K;
} smoe_plan_choices;

typedef struct smoe_plan {
    bool sparse;
    size_t G, T, E, P,
        S;             /* of this pass; S = E*P; the last group of a sparse plan may be shorter */
    size_t tokens;     /* of all groups: rows of x */
    size_t *first_row; /* [E+1] */
    size_t rows;       /* first_row[E] */
    bool rounded;      /* products take weights in BF16 (smoe_plan_round); set before reserve */
    smoe_precision precision; /* of its products, in this pass */
    union {
        smoe_plan_dense dense;
        smoe_plan_list list; /* if sparse */
    };
    smoe_plan_choices choices;
    smoe_plan_losses losses;
} smoe_plan;

/* The learnt factor of the logits; 0: there is none. */
static inline double smoe_plan_scale(const smoe_plan *plan) {
    return plan->sparse ? 0 : plan->dense.scale;
}

/* Declares the arrays of a plan, whose T, E, P and S are set, for up to G groups; `train` adds the
 * gradients. */
void smoe_plan_reserve(smoe_plan *plan, bool sparse, size_t G, bool train, smoe_arena *keep);

/* Begins a pass over `tokens` tokens in groups of T: sets G and, for dense plans, the rows. */
void smoe_plan_begin(smoe_plan *plan, size_t tokens);

/* Whether one of the G*S slots is filled. If so, also its row, and its place: a number that
 * identifies it by token and expert in a sparse plan, and by group and slot in a dense plan. The
 * places of an image follow those of the image before; smoe_plan_places is their number. */
bool smoe_plan_slot(const smoe_plan *plan, size_t slot, size_t *row, size_t *place);
size_t smoe_plan_places(const smoe_plan *plan);

/* Orders the placements of a sparse plan by token and counts the dropped tokens. */
void smoe_plan_seal(smoe_plan *plan);

/* For a `rounded` plan that the router has filled: rounds the weights to the nearest BF16 number,
 * ties to even. Dense weights are rounded in copies, those of placements in place. The gradients of
 * rounded weights are used as those of the weights before rounding. */
void smoe_plan_round(smoe_plan *plan);

/* The rows of experts may be in BF16 if the precision of a dense plan is BF16; what is written is
 * rounded to nearest.
 * slots [rows,d] = dispatch of x [tokens,d]. */
void smoe_plan_dispatch(const smoe_plan *plan, smoe_outputs slots, const real *x, size_t d);

/* y [tokens,d] = residual [tokens,d] + combine of the experts' outputs out [rows,d]. */
void smoe_plan_combine(const smoe_plan *plan, real *y, smoe_values out, const real *residual,
                       size_t d);

/* dout [rows,d] (overwritten) and the plan's dcomb or dweight from dy [tokens,d]. */
void smoe_plan_combine_backward(smoe_plan *plan, smoe_outputs dout, const real *dy, smoe_values out,
                                size_t d);

/* dx [tokens,d] (overwritten) and the plan's ddisp from dslots [rows,d]. */
void smoe_plan_dispatch_backward(smoe_plan *plan, real *dx, smoe_values dslots, const real *x,
                                 size_t d);

/* Statistics of the last pass, exact, in double. */
typedef struct smoe_plan_stats {
    double dispatch_max;    /* mean over slots of the largest dispatch weight */
    double combine_max;     /* mean over tokens of the largest combine weight */
    double tokens_per_slot; /* exp(entropy) of a slot's dispatch weights, mean over filled slots */
    double slots_per_token; /* exp(entropy) of a token's normalised combine weights, mean over
                               tokens */
    double dropped;         /* share of tokens without a placement */
    double scale;           /* learnt factor of the logits; 0: there is none */
} smoe_plan_stats;
void smoe_plan_measure(const smoe_plan *plan, smoe_plan_stats *stats);
