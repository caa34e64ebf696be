/*
 * The folder of a run's checkpoints: which exist, which is the latest and which the best, and how
 * one is put in place, deleted or found. checkpoint.h writes and reads their files. DIR is the run
 * directory.
 */
#pragma once

#include "base/base.h"

#define SMOE_CHECKPOINT_AVERAGE "ema.safetensors"

/* ---- names ----------------------------------------------------------------------------------- */

/* Path of a file of a checkpoint, or of its folder if file is NULL; and the same of the checkpoint
 * that is being written. Fresh. */
char *smoe_checkpoints_file(const char *dir, uint64_t step, const char *file);
char *smoe_checkpoints_new(const char *dir, uint64_t step, const char *file);

/* Whether a name in ckpt/ is that of a checkpoint. */
bool smoe_checkpoint_named(const char *name);

/* ---- finding --------------------------------------------------------------------------------- */

/* The steps of all checkpoints, newest first, fresh; NULL: there are none. */
int smoe_checkpoints_list(uint64_t **step, size_t *count, const char *dir,
                          smoe_err *err) SMOE_MUST_CHECK;

/* The checkpoint to continue from. 1: found; 0: there is none yet; -1: failed, SMOE_DATA if the
 * link names something else. */
int smoe_checkpoints_newest(const char *dir, uint64_t *step, smoe_err *err) SMOE_MUST_CHECK;

/* Fails with SMOE_DATA if a link of the run is none, or leads to nothing that can be continued. */
int smoe_checkpoints_check(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Fails with SMOE_DATA if the checkpoint or one of its files is a symbolic link: it would lead out
 * of the run, to bytes that others may change. Missing files are no error here. */
int smoe_checkpoints_own(const char *dir, uint64_t step, smoe_err *err) SMOE_MUST_CHECK;

/* Steps done at the latest checkpoint; 0 if none is found. */
uint64_t smoe_checkpoint_latest(const char *dir);

/* Path of the model of checkpoint `which`: "best", "latest", "ema" (the average of the latest), or
 * a step as in 500, step_500 and step_00000500; NULL: latest. Fresh; NULL
 * with err: SMOE_USAGE for another word, SMOE_DATA where there is no such checkpoint. */
char *smoe_checkpoint_find(const char *dir, const char *which, smoe_err *err) SMOE_MUST_CHECK;

/* The end of a message about a failed run: which checkpoint is left. */
const char *smoe_checkpoint_left(const char *dir);

/* ---- changing -------------------------------------------------------------------------------- */

/* Makes the folder of a checkpoint to be written. Afterwards it is put in place, where it replaces
 * one of the same step, or removed. */
int smoe_checkpoints_make(const char *dir, uint64_t step, smoe_err *err) SMOE_MUST_CHECK;
int smoe_checkpoints_install(const char *dir, uint64_t step, smoe_err *err) SMOE_MUST_CHECK;
void smoe_checkpoints_discard(const char *dir, uint64_t step);

/* Sets ckpt/latest, and ckpt/best if that checkpoint is there and `best` is not 0; a process may
 * have been killed before it set them. */
int smoe_checkpoints_link(const char *dir, uint64_t latest, uint64_t best,
                          smoe_err *err) SMOE_MUST_CHECK;

/* Deletes all checkpoints except the newest `keep`, those that are linked to, and the multiples of
 * `every` (0: none). */
int smoe_checkpoints_prune(const char *dir, size_t keep, size_t every,
                           smoe_err *err) SMOE_MUST_CHECK;

/* Repairs the checkpoints of a run that was killed at any moment. */
int smoe_checkpoints_recover(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Removes every checkpoint and every leftover of an incomplete one; other files stay. */
int smoe_checkpoints_remove(const char *dir, smoe_err *err) SMOE_MUST_CHECK;
