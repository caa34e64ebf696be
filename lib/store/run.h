/*
 * The run directory: always new, with all files needed to repeat the run.
 *   spec.yaml env.json metrics.jsonl log.txt STATUS
 *   ckpt/step_00001000/{model,state}.safetensors ckpt/latest ckpt/best
 *   metrics.csv MANIFEST.sha256 tb/ (run_files.h)
 * Checkpoints appear completely or not at all: a temporary directory, fsync of files and folders,
 * rename. smoe-run(5) has the details.
 */
#pragma once

#include "spec/metrics.h"
#include "store/checkpoint.h"
#include "store/records.h"
#include "tensors/safetensors.h"

#include <jansson.h>
#include <sys/types.h>

typedef struct smoe_run smoe_run;

/* NEW: makes DIR exclusively (folders above it where needed) and writes spec.yaml, env.json, STATUS
 * running. FORCE: the same, but an existing run directory (one with spec.yaml and STATUS) is
 * replaced: its checkpoints, metrics and log are removed; files that do not belong to a run stay. A
 * missing DIR is created. RESUME: DIR must be a run whose resolved spec is the same as `spec`: keys
 * that change results and differ are named (SMOE_USAGE); train.steps, the intervals, eval.*,
 * data.cache_mb, name and the folder of data.path may differ and are noted in log.txt. Leftovers of
 * interrupted checkpoints are removed. A directory whose process was killed while making it (no
 * record, no checkpoint, no STATUS) counts as new to FORCE and RESUME; a run with checkpoints that
 * has lost its STATUS is for RESUME alone. One process at a time: a lock (flock on metrics.jsonl)
 * is held until close; a second process gets SMOE_RUNTIME. `env` is taken over, also on failure; it
 * may be NULL. */
int smoe_run_open(smoe_run **run, const char *dir, smoe_run_mode mode, const smoe_spec *spec,
                  json_t *env, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE if a caller of the library gives no directory, or a mode that does not exist, which
 * could be taken for FORCE. */
int smoe_run_check_mode(smoe_run_mode mode, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* For a dry run: fails where smoe_run_open would refuse to resume the run with this spec. */
int smoe_run_check_resume(const char *dir, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

/* After RESUME, when checkpoint and records have been restored and nothing is left that could
 * refuse the run: writes its spec, env.json, the log so far and STATUS running, and removes
 * MANIFEST.sha256. A run that is closed before keeps all of them as they were. Otherwise it does
 * nothing. */
int smoe_run_begin(smoe_run *run, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

/* Whether a process writes the run now, as far as its lock shows. */
bool smoe_run_is_written(const char *dir);

/* A number for a record: NaN and infinities, which JSON does not have, become null. */
json_t *smoe_run_number(double x);

/* Sets the number of a metric in a record; split and number as for smoe_metric_key. */
void smoe_run_metric(json_t *record, smoe_metric metric, const char *split, size_t number,
                     double value);

/* Appends one object as a line to metrics.jsonl, and to it the running checksum "chain", with all
 * digits needed to read the same doubles; takes over `record`. It is written at once in one piece;
 * a line that does not fit on the disk is removed. Reals come from smoe_run_number. */
int smoe_run_metrics(smoe_run *run, json_t *record, smoe_err *err) SMOE_MUST_CHECK;

/* Whether the run writes events (train.tensorboard), and a picture for the event of the next
 * record: the bytes of a PNG of three channels. */
bool smoe_run_events(const smoe_run *run);
int smoe_run_picture(smoe_run *run, const char *tag, size_t width, size_t height, const void *png,
                     size_t size, smoe_err *err) SMOE_MUST_CHECK;

/* Removes the records of metrics.jsonl after the step of a checkpoint, so that a resumed run does
 * not write them twice, and a partial line at the end. Every record has an integer "step", which
 * never decreases. If there are fewer than at the checkpoint, or they end before its step
 * `recorded`: SMOE_DATA, and nothing is removed. *wall_s becomes that of the last record that is
 * kept: the time of earlier processes, which no checkpoint contains, so that the same run writes
 * the same bytes. */
int smoe_run_truncate(smoe_run *run, const smoe_checkpoint *at, double *wall_s,
                      smoe_err *err) SMOE_MUST_CHECK;

/* Writes outcome [images, 2] (train/evaluate.h) to SMOE_RUN_OUTCOMES; removes the file if images is
 * 0. */
int smoe_run_outcomes(smoe_run *run, const float *outcome, size_t images,
                      smoe_err *err) SMOE_MUST_CHECK;

/* The text that env.json has under `key` for the process before this one; NULL: none. Owned by the
 * caller. */
char *smoe_run_previous(const smoe_run *run, const char *key);

/* Appends a line with the time to log.txt. Failures do not end training. */
#define smoe_run_log(run, ...) smoe_run_log_line(run, smoe_text_format(__VA_ARGS__))
void smoe_run_log_line(smoe_run *run, char *fresh);

/* Whether a line could not be written, and err why; told once. */
bool smoe_run_log_lost(smoe_run *run, smoe_err *err);

/* Sets STATUS to done, failed or stopped (NULL, or before smoe_run_begin: unchanged), writes
 * metrics.csv and, of a run that is done, MANIFEST.sha256, then closes; run may be NULL. Frees in
 * any case. */
int smoe_run_close(smoe_run *run, const char *status, smoe_err *err) SMOE_MUST_CHECK;

/* ---- checkpoints: checkpoint.h, in step with the records ------------------------------------- */

/* smoe_checkpoint_write, after the records have been synced; all records up to the step must have
 * been written. metrics.csv is written last, so that a failure of it loses no checkpoint. `run` is
 * NULL except in the first process, whose state all take. */
int smoe_run_checkpoint(smoe_run *run, const smoe_checkpoint_to *to, const smoe_params *params,
                        const smoe_spec *spec, const smoe_checkpoint *state,
                        smoe_err *err) SMOE_MUST_CHECK;

/* smoe_checkpoint_restore and smoe_checkpoints_link. If there is no checkpoint yet, the run starts
 * again, and metrics.jsonl is emptied. */
int smoe_run_restore(smoe_run *run, smoe_params *params, smoe_checkpoint *state,
                     smoe_err *err) SMOE_MUST_CHECK;

/* ---- finding a model (locate.c) -------------------------------------------------------------- */

/* RUN|CHECKPOINT of eval and inspect: a run directory (its `which` checkpoint: "best", "latest" or
 * a step; NULL: latest), a checkpoint directory, or a bare .safetensors file. *file is the model,
 * opened: it stays readable when a run that still trains deletes its checkpoint. It knows its path,
 * and its spec is in the metadata smoe.spec, unless another program wrote it. SMOE_DATA: arg is
 * none of these, there is no such checkpoint, or the file is bad; SMOE_USAGE: `which` is not the
 * name of a checkpoint, or arg is a sweep; *file is NULL then. */
int smoe_run_locate(smoe_safetensors **file, const char *arg, const char *which,
                    smoe_err *err) SMOE_MUST_CHECK;

/* The same, and the file is verified. `choice`: what the user says of a file of another
 * program; "ema" of a checkpoint of this program is its moving average; NULL: nothing. */
int smoe_run_model(smoe_safetensors **file, const char *arg, const char *which,
                   const smoe_file_choice *choice, smoe_err *err) SMOE_MUST_CHECK;

/* The spec in the latest checkpoint of a run, as it is to be continued. 1: there is none; -1: it is
 * not valid. */
int smoe_run_latest_spec(smoe_spec *spec, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE if dir is the folder of a sweep and not of a run. The message names one of its cells
 * to use, then `instead`, an alternative. */
int smoe_run_no_sweep(const char *dir, const char *instead, smoe_err *err) SMOE_MUST_CHECK;

/* Whether arg is for smoe_run_locate and not a spec: a folder, or a file that begins like a
 * safetensors file, with eight bytes of a length far below 2^32, which no text has. If it does not
 * exist, its name decides. */
bool smoe_run_is_model(const char *arg);

/* Whether dir is no run, and has the file of a model in it. */
bool smoe_run_is_checkpoint(const char *dir);

/* Whether dir is the folder of a run, even if a model file has been written into it too. */
bool smoe_run_is_folder(const char *dir);

/* ---- which keys may change when a run is resumed (run_spec.c) -------------------------------- */

/* Whether a key may change: one that cannot change the weights of a step. */
bool smoe_run_spec_free(const char *key);

/* Gets a line for each key that has changed and may change, if no other key is refused; may be
 * NULL. */
typedef void smoe_run_spec_note(void *user, const char *text);

/* Compares the spec of a run with the one that is to continue it. SMOE_USAGE: a line for each key
 * that must not differ, beginning with `dir`. Keys without effect in both specs may differ. */
int smoe_run_spec_check(const char *dir, const smoe_spec *old, const smoe_spec *now,
                        smoe_run_spec_note *note, void *user, smoe_err *err) SMOE_MUST_CHECK;

/* Writes the spec of a run. */
int smoe_run_spec_write(const char *path, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;
