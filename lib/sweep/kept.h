/*
 * The checkpoint of a sweep that evaluates a run. A run that still trains deletes its checkpoints,
 * so the sweep keeps one of its own, DIR/claims/checkpoint: hard links to the files of the model,
 * or copies of them where links cannot be made, as on another file system.
 */
#pragma once

#include "sweep/sweep.h"

/* The name of the folder in DIR/claims. */
#define SMOE_KEPT "checkpoint"

/* Sets sweep->checkpoint to the latest one of sweep->run. SMOE_DATA where it has none. */
int smoe_kept_find(smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* Keeps sweep->checkpoint in the folder DIR/claims, which is there. If the run has deleted it, the
 * latest one takes its place, in the sweep too. */
int smoe_kept_make(smoe_sweep *sweep, const char *claims, smoe_err *err) SMOE_MUST_CHECK;

/* The file to evaluate, fresh: the run's own where none is kept, as earlier versions did. */
char *smoe_kept_model(const smoe_sweep *sweep);
