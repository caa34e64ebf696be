/*
 * One training step, used for training and for timing it: for each piece of the batch forward,
 * loss, backward; then the sum of the gradients over pieces and processes; clip, update; and the
 * metrics of the step. Leaves to others: where batches come from, when there is a record, and
 * checkpoints.
 */
#pragma once

#include "train/grad_accum.h"
#include "train/sharded.h"
#include "vit/model.h"
#include "data/loader.h"

#include <jansson.h>

/* Of images and captions. */
typedef struct smoe_step_pairs {
    real *target;      /* [B,B]: the caption of each image is its own; NULL: there are classes */
    real *embedded[2]; /* [batch,D] images and captions of the whole batch */
} smoe_step_pairs;

/* Of several processes that share each batch. */
typedef struct smoe_step_processes {
    smoe_expert_parallel *experts; /* sharded over processes; NULL: they are not */
    smoe_sharded_gradients sharded;
    smoe_sharded_state state; /* what other processes have */
    real *block;              /* what arrives */
    double *squares;          /* of the units of the gradient */
} smoe_step_processes;

/* Of a step, means over the batch. */
typedef struct smoe_step_result {
    double loss, precision;
    double aux;  /* the auxiliary losses of balance, not weighted */
    double z;    /* the z-losses, not weighted */
    double norm; /* of the gradient, before clipping */
} smoe_step_result;

typedef struct smoe_step {
    smoe_alloc_pool memory;
    smoe_model *model;
    const smoe_spec *spec;
    smoe_comm alone, *comm;
    size_t N; /* classes; of pairs, texts: B */
    bool pairs;
    size_t pieces, images; /* of the batch that are computed here; images of a piece */
    smoe_grad_accum tree;
    double *sums; /* [pieces, 4 + counts of states + 5 layers] what is summed beside gradients */
    double *router_sums; /* [pieces, numbers of smoe_model_sums] */
    real *dlogits;       /* [images,N], of pairs [batch,batch] */
    double *losses;      /* [images], of pairs [batch] losses of the images */
    char bad[48];        /* the first layer of this step that was not finite; empty: none */
    smoe_step_pairs of_pairs;
    smoe_step_processes processes;
    smoe_step_result last;
    /* Set by the caller if wanted: a loss or gradient that is not finite is not an error, for
     * timing; the routing of each MoE layer in the next steps, in `stats`. */
    bool unchecked, measure;
    smoe_plan_stats *stats;
} smoe_step;

/* Allocates weights, gradients, moments and the moving average, which are zero, and binds the
 * activations of a piece, with classes N. comm: the processes that share each batch; NULL: only
 * this one. Borrows model, spec and comm, whose number of processes must divide train.pieces
 * (SMOE_USAGE); free in any case. */
int smoe_step_open(smoe_step *step, smoe_model *model, const smoe_spec *spec, size_t classes,
                   smoe_comm *comm, smoe_err *err) SMOE_MUST_CHECK;
void smoe_step_free(smoe_step *step);

/* The step after `done` finished ones and `updates` finished updates; clock may be NULL. `batch` is
 * this process's part. With a loss or gradient that is not finite nothing is updated:
 * SMOE_NONFINITE, naming step, layer and parameter. Afterwards every process has all weights, and
 * the moments of its own range of the slabs. */
int smoe_step_run(smoe_step *step, const smoe_batch *batch, uint64_t done, uint64_t updates,
                  smoe_clock *clock, smoe_err *err) SMOE_MUST_CHECK;

/* How many forward passes over the batch a process makes in addition to that of the step: pieces
 * are computed again if a loss needs the whole batch. */
int smoe_step_again(const smoe_model *model, const smoe_train_spec *train);

/* Counts in comm->sent what a process sends in a step that is not logged, including the two
 * agreements of the trainer; for choice routers, if all buffers are full. comm has no link
 * (comm/comm.h). The table needs no slabs; with sharded experts, the memory of a piece was
 * measured. */
void smoe_step_expect(smoe_model *model, const smoe_train_spec *train, smoe_comm *comm);

/* Adds the metrics of the last step, whose routing was measured, to its record. rate: the learning
 * rate; waited_s: seconds of waiting for the loader. */
void smoe_step_record(json_t *record, const smoe_step *step, double rate, double images_per_s,
                      double waited_s);
