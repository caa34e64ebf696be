/* Losses and precision@1 over a batch of logits. */
#ifndef SMOE_LOSS_H
#define SMOE_LOSS_H

#include "base/base.h"
#include "spec/spec.h"

typedef struct smoe_loss_sums {
    double loss;    /* sum over images */
    size_t correct; /* images whose top class (lowest index among equals) has a positive target */
} smoe_loss_sums;

/* Has the top class of an image, the lowest index among equals, a positive target? Both [N]. */
bool smoe_loss_correct(const real *logits, const real *target, size_t N);

/*
 * Adds a batch to *sums. logits, target [B,N].
 *   softmax  -sum_c t_c log p_c       sigmoid  sum_c log(1 + e^l_c) - t_c l_c
 * smoothing: each t_c becomes (1 - smoothing) t_c + smoothing (sum of t)/N, in the loss and not in
 * what counts as correct.
 * With dlogits [B,N] (may be NULL) also the gradient of the mean over the batch. `rows` [B] gets
 * the losses of the images.
 */
void smoe_loss_batch(smoe_loss_sums *sums, real *dlogits, double *rows, const real *logits,
                     const real *target, size_t B, size_t N, smoe_loss kind, double smoothing);

#endif
