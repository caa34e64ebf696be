/*
 * The run directory: made exclusively, described by files that a stranger can rerun it from.
 *   spec.yaml env.json metrics.jsonl log.txt STATUS
 *   ckpt/step_00001000/{model,state}.safetensors ckpt/latest ckpt/best
 * Checkpoints appear whole or not at all: a temporary directory, fsync of files and folders,
 * rename. smoe-run(5) is the long form.
 */
#ifndef SMOE_RUN_H
#define SMOE_RUN_H

#include "store/checkpoint.h"

#include <jansson.h>
#include <sys/types.h>

typedef struct smoe_run smoe_run;

typedef enum smoe_run_mode { SMOE_RUN_NEW, SMOE_RUN_RESUME, SMOE_RUN_FORCE } smoe_run_mode;

/* NEW: makes DIR exclusively (folders above it where needed) and writes spec.yaml, env.json, STATUS
 * running. FORCE: the same, also over an existing run directory (one with spec.yaml and STATUS),
 * whose checkpoints, metrics and log go; files that are not of a run stay. A DIR that is not there
 * is made. RESUME: DIR must be a run whose resolved spec is the same as `spec`: keys that change
 * results and differ are named (SMOE_USAGE); train.steps, the intervals, eval.*, data.cache_mb,
 * name and the folder of data.path may differ and are noted in log.txt. Leftovers of interrupted
 * checkpoints are removed. A directory killed while it was made (no
 * record, no checkpoint, no STATUS) counts as new to FORCE and RESUME; a run with checkpoints that
 * has lost its STATUS is for RESUME alone.
 * One process at a time: a lock (flock on metrics.jsonl) is held until close; a second one gets
 * SMOE_RUNTIME. `env` is taken over, also on failure; may be NULL. */
int smoe_run_open(smoe_run **run, const char *dir, smoe_run_mode mode, const smoe_spec *spec,
                  json_t *env, smoe_err *err) SMOE_MUST_CHECK;

/* A number for a record: jansson has no NaN and no infinity, they become null. */
json_t *smoe_run_number(double x);

/* One object a line to metrics.jsonl, full round-trip digits; takes over `record`. Written through
 * at once, in one piece; a line that does not fit on the disk is taken back. Reals come from
 * smoe_run_number. */
int smoe_run_metrics(smoe_run *run, json_t *record, smoe_err *err) SMOE_MUST_CHECK;

/* Drops the records of metrics.jsonl beyond `step` (a resume never overlaps), a half line at the
 * end too. Every record has an integer "step", never falling. Records that end before step
 * `recorded` have lost some: SMOE_DATA, and nothing is dropped. */
int smoe_run_truncate(smoe_run *run, uint64_t step, uint64_t recorded,
                      smoe_err *err) SMOE_MUST_CHECK;

/* The file of a run with the outcomes of the images of its last evaluation. */
#define SMOE_RUN_OUTCOMES "outcomes.npy"

/* Writes outcome [images, 2] (train/trainer.h) in its place; removes the file where images is 0. */
int smoe_run_outcomes(smoe_run *run, const float *outcome, size_t images,
                      smoe_err *err) SMOE_MUST_CHECK;

/* A record, and where its line ends in the file. */
typedef struct smoe_run_record {
    const json_t *json;
    uint64_t step;
    off_t end;
} smoe_run_record;

/* 0: the next one; 1: enough; -1: failed, with err. */
typedef int smoe_run_record_fn(void *user, const smoe_run_record *record, smoe_err *err);

/* Hands the records of a metrics.jsonl to fn, in order. The one rule for reading such a file: what
 * is behind the last newline is a line that is still written, or was when its process died, and is
 * left out; any other line that is no object with an integer step is SMOE_DATA, with its number.
 * tail: 0, or only the lines that begin in so many bytes at the end of the file. */
int smoe_run_each_record(const char *path, size_t tail, smoe_run_record_fn *fn, void *user,
                         smoe_err *err) SMOE_MUST_CHECK;

/* A line to log.txt, with time. Failures of the log are ignored. */
void smoe_run_log(smoe_run *run, const char *fmt, ...) SMOE_PRINTF(2, 3);

/* STATUS := done | failed | stopped (NULL: left as it is), then closes; run may be NULL. Frees in
 * any case. */
int smoe_run_close(smoe_run *run, const char *status, smoe_err *err) SMOE_MUST_CHECK;

/* ---- checkpoints: checkpoint.h, in step with the records ------------------------------------- */

/* smoe_checkpoint_write, after the records have reached the disk: those up to the step must be
 * written before. */
int smoe_run_checkpoint(smoe_run *run, const smoe_params *params, const smoe_spec *spec,
                        const smoe_checkpoint *state, size_t keep, smoe_err *err) SMOE_MUST_CHECK;

/* smoe_checkpoint_restore; where there is no checkpoint yet, what metrics.jsonl had is dropped, as
 * the run starts again. */
int smoe_run_restore(smoe_run *run, smoe_params *params, smoe_checkpoint *state,
                     smoe_err *err) SMOE_MUST_CHECK;

/* ---- finding a model (locate.c) -------------------------------------------------------------- */

/* RUN|CHECKPOINT of eval and inspect: a run directory (its `which` checkpoint: "best", "latest" or
 * a step; NULL: latest), a checkpoint directory, or a bare .safetensors file. *model is the path of
 * model.safetensors and *spec_text its smoe.spec metadata, NULL when it has none (a foreign file);
 * both fresh strings. SMOE_DATA: arg is none of these, there is no such checkpoint, or the file is
 * bad; SMOE_USAGE: `which` is no name of a checkpoint, or arg is a sweep. */
int smoe_run_locate(const char *arg, const char *which, char **model, char **spec_text,
                    smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE where dir is a sweep's and no run's, naming a cell of it to take, then `instead`: what
 * else one could mean. */
int smoe_run_no_sweep(const char *dir, const char *instead, smoe_err *err) SMOE_MUST_CHECK;

/* Whether arg is for smoe_run_locate and no spec: a folder, or a file that begins like a
 * safetensors file, with the eight bytes of a length that is far below 2^32, as no text does. What
 * is not there goes by its name. */
bool smoe_run_is_model(const char *arg);

#endif
