/*
 * Checkpoints of a run directory: ckpt/step_XXXXXXXX/{model,state}.safetensors (and
 * ema.safetensors, if there is a moving average), ckpt/latest and ckpt/best. This file does not
 * depend on the rest of the run; run.h describes when they are written. DIR is the run directory.
 * smoe-checkpoint(5) has the details.
 */
#ifndef SMOE_CHECKPOINT_H
#define SMOE_CHECKPOINT_H

#include "base/base.h"
#include "base/param.h"
#include "comm/comm.h"
#include "spec/spec.h"

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
    uint64_t classes;  /* a checksum of the names of its classes */
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
 * the links (smoe_checkpoints_link), then deletes all but the newest `keep`, the latest, the best
 * and the multiples of train.keep_every. All processes call it, with the same state, and each
 * writes some of the files; which files there are, and their bytes, do not depend on the processes.
 * An existing checkpoint of that step is replaced. Disk full or unwritable: SMOE_RUNTIME; a weight
 * or a moment that is not finite: SMOE_NONFINITE, naming it. On failure all older checkpoints
 * stay. */
int smoe_checkpoint_write(const smoe_checkpoint_to *to, const smoe_params *params,
                          const smoe_spec *spec, const smoe_checkpoint *state,
                          smoe_err *err) SMOE_MUST_CHECK;

/* Restores weights, moments and average (those allocated) and state from ckpt/latest. 1: restored;
 * 0: there is no checkpoint yet; -1 failed, params and state untouched: SMOE_DATA names every fault
 * and, if there is one, an older checkpoint that is whole. */
int smoe_checkpoint_restore(const char *dir, smoe_params *params, smoe_checkpoint *state,
                            smoe_err *err) SMOE_MUST_CHECK;

/* Whether a name in ckpt/ is that of a checkpoint. */
bool smoe_checkpoint_named(const char *name);

/* Repairs the checkpoints of a run that was killed at any moment. */
int smoe_checkpoints_recover(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* ckpt/latest is the checkpoint of `state`, and ckpt/best that of its best_step if best >= 0 and it
 * is there; a process may have been killed before it set them. */
int smoe_checkpoints_link(const char *dir, const smoe_checkpoint *state,
                          smoe_err *err) SMOE_MUST_CHECK;

/* The end of a message about a failed run: which checkpoint is left. */
const char *smoe_checkpoint_left(const char *dir);

/* Deletes what smoe_checkpoint_write would have deleted, had its process not been killed. */
int smoe_checkpoints_prune(const char *dir, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

/* Removes every checkpoint and every leftover of an incomplete one; other files stay. */
int smoe_checkpoints_remove(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Steps done at the latest checkpoint; 0 if none is found. */
uint64_t smoe_checkpoint_latest(const char *dir);

/* Path of the model of checkpoint `which`: "best", "latest", "ema" (the average of the latest), or
 * a step as in 500, step_500 and step_00000500; NULL: latest. Fresh; NULL
 * with err: SMOE_USAGE for another word, SMOE_DATA where there is no such checkpoint. */
char *smoe_checkpoint_find(const char *dir, const char *which, smoe_err *err) SMOE_MUST_CHECK;

#endif
