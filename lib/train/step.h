/*
 * One training step, written once for whoever trains or times training: forward, loss, backward,
 * reduce, clip, update. Leaves to others: where batches come from, records, checkpoints.
 */
#ifndef SMOE_STEP_H
#define SMOE_STEP_H

#include "data/data.h"
#include "spec/spec.h"
#include "vit/model.h"

/* Between backward and clipping, where several processes sum what each has of a batch: the
 * gradients (params->g, all of them are there) and `sums`. A failure ends the step. */
typedef int smoe_reduce(void *user, smoe_params *params, double *sums, size_t count, smoe_err *err);

typedef struct smoe_step_options {
    smoe_reduce *reduce; /* NULL: there is one process */
    void *reduce_user;
    size_t first, whole; /* the images here are first .. of a batch of `whole`; 0: they are all */
    bool unchecked;      /* a loss or gradient that is not finite is no failure: for timing */
} smoe_step_options;

typedef struct smoe_step {
    smoe_model *model;
    const smoe_spec *spec;
    smoe_step_options options;
    size_t N;
    real *dlogits; /* [B,N] */
    double *rows;  /* [B] losses of the images */
    /* of the last step, means over the batch: */
    double loss, precision;
    double aux;  /* the auxiliary losses, not weighted */
    double norm; /* of the gradient, before clipping */
} smoe_step;

/* Allocates weights, gradients and moments, which are zero, and binds the activations of
 * train.batch_size images, with classes N. options may be NULL. Borrows model and spec; free in any
 * case. */
int smoe_step_open(smoe_step *step, smoe_model *model, const smoe_spec *spec, size_t classes,
                   const smoe_step_options *options, smoe_err *err) SMOE_MUST_CHECK;
void smoe_step_free(smoe_step *step);

/* The step after `done` finished ones and `updates` finished updates; clock may be NULL. With a
 * loss or gradient that is not finite nothing is updated: SMOE_NONFINITE, naming step, layer and
 * parameter. */
int smoe_step_run(smoe_step *step, const smoe_batch *batch, uint64_t done, uint64_t updates,
                  smoe_clock *clock, smoe_err *err) SMOE_MUST_CHECK;

#endif
