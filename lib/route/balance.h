/*
 * The loss that keeps the experts of tokens that choose in balance (V-MoE A.2). For a set of tokens
 * it is (CV^2(importance) + CV^2(load))/2, the squared variation CV^2 = variance/mean^2 over
 * experts of
 *   importance_e = sum_t p_te, p = softmax(W x_t), or sigmoids divided by their sum
 *   load_e = sum_t Phi((z_te - threshold_t)/sigma), threshold: the k-th largest noisy logit
 * of the token; without noise there is no load.
 */
#ifndef SMOE_BALANCE_H
#define SMOE_BALANCE_H

#include "route/gate.h"

typedef struct smoe_balance {
    const smoe_gate *gate;
    const int32_t *choice; /* [tokens,K] experts in order of their noisy logits */
    real *soft;            /* [tokens,E] p */
    double *share;         /* [G,E] p of a token */
    double *sums;          /* [G,2,E] importance and load of each group */
    double *slopes;        /* [G,2,E] gradients of the loss by them */
} smoe_balance;

void smoe_balance_reserve(smoe_balance *b, size_t tokens, size_t G, smoe_arena *keep);
/* Fills importance and load of group g, whose n tokens begin with `first`. sigma: of the noise. */
void smoe_balance_measure(smoe_balance *b, size_t g, size_t first, size_t n, double sigma);
/* The loss of E experts with these sums [2,E], and slopes [2,E] = scale times its gradient. */
double smoe_balance_loss(const double *sums, size_t E, double sigma);
void smoe_balance_slopes(double *slopes, const double *sums, size_t E, double sigma, double scale);
/* gate->dz of n tokens from `first` on, from the slopes [2,E] of the sums they are part of. */
void smoe_balance_backward(smoe_balance *b, const double *slopes, size_t first, size_t n,
                           double sigma);

#endif
