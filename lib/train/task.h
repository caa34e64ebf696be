/*
 * What a model is trained for: its targets, its loss and its metrics. A task is one file (task_*.c)
 * and one entry of spec/tasks.def, which makes it a value of train.loss.
 */
#pragma once

#include "spec/spec.h"

typedef struct smoe_task_sums {
    double loss;    /* sum over images */
    size_t correct; /* images whose top class (lowest index among equals) has a positive target */
} smoe_task_sums;

/* The targets of an image, keep * t_c + floor each, and their sum, which smoothing does not change.
 */
typedef struct smoe_targets {
    const real *t;
    double keep, floor, mass;
} smoe_targets;

static inline double smoe_target(const smoe_targets *x, size_t c) {
    return x->keep * (double)x->t[c] + x->floor;
}

/* Images whose logits are compared with targets, both [B,N], of a batch of `whole` images.
 * Smoothing makes of each t_c (1 - smoothing) t_c + smoothing (sum of t)/N, in the loss and not in
 * what counts as correct. */
typedef struct smoe_task_batch {
    const real *logits, *target;
    size_t B, N, whole;
    double smoothing;
} smoe_task_batch;

/* Loss of one image [N], with its gradient times `scale` in dl (may be NULL). */
typedef double smoe_task_image_loss(real *dl, const real *l, const smoe_targets *t, size_t N,
                                    double scale);

typedef struct smoe_task {
    /* Whether classes are independent of one another: the targets are all labels of an image, and
     * the probability of a class is the sigmoid 1/(1 + e^-l) of its logit. Otherwise the target is
     * the main label, and the probabilities are the softmax of the logits. */
    bool multi;
    /* One of the two: the loss of an image, if that of a batch is their sum; or that of a batch. */
    smoe_task_image_loss *image;
    void (*batch)(smoe_task_sums *sums, real *dlogits, double *losses, const smoe_task_batch *x);
} smoe_task;

/*
 * Loss and metrics: adds the images of a batch to *sums.
 *   softmax  -sum_c t_c log p_c       sigmoid  sum_c log(1 + e^l_c) - t_c l_c
 * With dlogits [B,N] (may be NULL) also the gradient of the loss divided by `whole`. `losses` [B]
 * is scratch.
 */
void smoe_task_measure(const smoe_task *task, smoe_task_sums *sums, real *dlogits, double *losses,
                       const smoe_task_batch *x);

/* The top class of an image, the lowest index among equals, and whether it has a positive target.
 * Both [N]. */
size_t smoe_task_top(const real *logits, size_t N);
bool smoe_task_correct(const real *logits, const real *target, size_t N);

/* The probability of class c according to the model, from logits [N]. */
double smoe_task_probability(const smoe_task *task, const real *logits, size_t N, size_t c);

const smoe_task *smoe_task_of(smoe_loss loss);
