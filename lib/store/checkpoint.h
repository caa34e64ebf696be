/*
 * Checkpoints of a run directory: ckpt/step_XXXXXXXX/{model,state}.safetensors (and
 * ema.safetensors, if there is a moving average), as checkpoints.h finds and keeps them. This file
 * does not depend on the rest of the run; run.h describes when they are written. DIR is the run
 * directory.
 * smoe-checkpoint(5) has the details.
 */
#pragma once

#include "base/param.h"
#include "comm/comm.h"
#include "spec/spec.h"
#include "store/checkpoints.h"
#include "tensors/safetensors.h"

typedef struct smoe_checkpoint { /* what state.safetensors holds beside the moments */
    uint64_t step; /* steps done; schedule, random streams and data position follow from it */
    uint64_t optimizer_steps;
    double best; /* best test precision so far, negative: none */
    uint64_t best_step;
    uint64_t carried; /* updates of the run whose moments this one started with; 0: none */
    /* For detecting files that do not belong together; 0: unknown. */
    uint64_t recorded; /* step of the last record in metrics.jsonl */
    uint64_t records;  /* how many records it has; set by smoe_run_checkpoint */
    uint64_t images;   /* of the training data */
    uint64_t classes;  /* a checksum of the names of its classes, */
    uint64_t data;     /* and that of its images (smoe_dataset_checksum); 0 if they are generated */
    uint64_t tested;   /* the same of the images of the last evaluation, */
    uint64_t fewshot;  /* and of those of eval.fewshot.data in it */
    const char *names; /* these names as a list in JSON, for the model's file; borrowed; NULL: none.
                          Not read back */
} smoe_checkpoint;

/* Where a checkpoint is written, and by whom. */
typedef struct smoe_checkpoint_to {
    const char *dir; /* of the run */
    size_t keep;
    smoe_comm *comm; /* its processes */
} smoe_checkpoint_to;

/* Writes ckpt/step_XXXXXXXX with weights, moments and average (those allocated) and `state`, sets
 * the links (smoe_checkpoints_link), then deletes older ones (smoe_checkpoints_prune). All
 * processes call it, with the same state, and each writes some of the files; which files there are,
 * and their bytes, do not depend on the processes.
 * An existing checkpoint of that step is replaced. Disk full or unwritable: SMOE_RUNTIME; a weight
 * or a moment that is not finite: SMOE_NONFINITE, naming it. On failure all older checkpoints
 * stay. */
int smoe_checkpoint_write(const smoe_checkpoint_to *to, const smoe_params *params,
                          const smoe_spec *spec, const smoe_checkpoint *state,
                          smoe_err *err) SMOE_MUST_CHECK;

/* Restores weights, moments and average (those allocated) and state from ckpt/latest. 1: restored;
 * 0: there is no checkpoint yet; -1 failed, params and state untouched: SMOE_DATA names every fault
 * and, if there is one, an older checkpoint that is intact. */
int smoe_checkpoint_restore(const char *dir, smoe_params *params, smoe_checkpoint *state,
                            smoe_err *err) SMOE_MUST_CHECK;

/* Compares the step in the metadata of an opened file of a checkpoint with the name of its folder;
 * other files, and those in folders of other names, agree. SMOE_DATA: it is of another step. */
int smoe_checkpoint_check_step(const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* The same, and its data is compared with the checksum that state.safetensors beside it has of it,
 * where there is one: the checks of smoe_checkpoint_restore that need no model. */
int smoe_checkpoint_check(const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* The state in ckpt/latest alone. 1: read; 0: there is no checkpoint yet; -1: SMOE_DATA, or
 * SMOE_RUNTIME. */
int smoe_checkpoint_state(const char *dir, smoe_checkpoint *state, smoe_err *err) SMOE_MUST_CHECK;
