/*
 * The run directory: made exclusively, described by files that a stranger can rerun it from.
 *   spec.yaml env.json metrics.jsonl log.txt STATUS ckpt/step_00001000/{model,state}.safetensors ckpt/latest ckpt/best
 * Checkpoints appear whole or not at all: a temporary directory, fsync of files and folders, rename.
 */
#ifndef SMOE_RUN_H
#define SMOE_RUN_H

#include "base/base.h"
#include "base/param.h"
#include "spec/spec.h"

#include <jansson.h>

typedef struct smoe_run smoe_run;

typedef enum smoe_run_mode { SMOE_RUN_NEW, SMOE_RUN_RESUME, SMOE_RUN_FORCE } smoe_run_mode;

/* NEW: mkdir DIR exclusively, write spec.yaml, env.json, STATUS running. FORCE: the same, replacing an existing run directory (only one that looks
 * like a run: has spec.yaml and STATUS). RESUME: DIR must be a run whose resolved spec is the same as `spec` (differences that change results are named; train.steps, eval
 * and checkpoint intervals may differ), not locked by a living process (flock on STATUS); leftovers of interrupted checkpoints are removed. `env` is taken over. */
int smoe_run_open(smoe_run **run, const char *dir, smoe_run_mode mode, const smoe_spec *spec,
                  json_t *env, smoe_err *err) SMOE_MUST_CHECK;
const char *smoe_run_dir(const smoe_run *run);

/* One object a line to metrics.jsonl, full round-trip digits, non-finite numbers as null; takes over `record`. Written
 * through at once. */
int smoe_run_metrics(smoe_run *run, json_t *record, smoe_err *err) SMOE_MUST_CHECK;

/* Drops the records of metrics.jsonl beyond `step` (a resume never overlaps), a half line at the end too. */
int smoe_run_truncate(smoe_run *run, uint64_t step, smoe_err *err) SMOE_MUST_CHECK;

/* A line to log.txt, with time. Failures of the log are ignored. */
void smoe_run_log(smoe_run *run, const char *fmt, ...) SMOE_PRINTF(2, 3);

typedef struct smoe_checkpoint { /* what state.safetensors holds beside the moments */
    uint64_t step;               /* steps done; random streams and data position follow from it */
    uint64_t optimizer_steps;
    double best;                 /* best test precision so far, negative: none */
    uint64_t best_step;
} smoe_checkpoint;

/* Writes ckpt/step_XXXXXXXX with weights, moments (those allocated) and `state`, points ckpt/latest (and ckpt/best when best_step == step) at it, then deletes
 * all but the newest `keep` and the best. Disk full or unwritable: SMOE_RUNTIME, and everything older is still there. */
int smoe_run_checkpoint(smoe_run *run, const smoe_params *params, const smoe_spec *spec,
                        const smoe_checkpoint *state, size_t keep, smoe_err *err) SMOE_MUST_CHECK;

/* Restores weights, moments and state from ckpt/latest. 1: restored; 0: the run has no checkpoint yet; -1 failed. */
int smoe_run_restore(smoe_run *run, smoe_params *params, smoe_checkpoint *state,
                     smoe_err *err) SMOE_MUST_CHECK;

/* STATUS := done | failed | stopped, then closes. */
int smoe_run_close(smoe_run *run, const char *status, smoe_err *err);

/* RUN|CHECKPOINT of eval and inspect: a run directory (its `which` checkpoint: "best", "latest" or step_...), a checkpoint directory, or a
 * bare .safetensors file. *model is the path of model.safetensors and *spec_text its smoe.spec metadata, NULL when it
 * has none (a foreign file); both fresh strings. */
int smoe_run_locate(const char *arg, const char *which, char **model, char **spec_text,
                    smoe_err *err) SMOE_MUST_CHECK;

#endif
