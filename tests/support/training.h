/* A spec, the folder in which it is trained, and the result: for tests of training from outside.
 * Every failure fails the calling test, except in training_run. */
#pragma once

#include "models.h"
#include "scratch.h"
#include "train/trainer.h"

/* Small enough for hundreds of steps; `shapes` has ten classes. */
#define JOBS_SMALL                                                                   \
    "data.image_size=16 data.channels=3 data.classes=0 model.width=16 model.mlp=24 " \
    "model.moe.capacity=1.5 train.batch_size=8 "

typedef struct job {
    scratch folder;
    char dir[SCRATCH_PATH]; /* of the run, inside the folder */
    smoe_spec spec;
    char init[SCRATCH_PATH]; /* a file to start from; empty: none */
    uint64_t stop_at;        /* step at which to request a stop; 0: never */
    volatile sig_atomic_t stop;
    double step_pause, eval_pause; /* seconds that the observer waits */
    size_t steps, evals;           /* number of calls */
    smoe_train_result result;
    smoe_err err;
} job;

/* models_base with `keys` (models.h), and a folder. */
void training_begin(job *j, const char *keys);
void training_end(job *j);

/* 0, or the code of the failure. */
int training_run(job *j, smoe_run_mode mode, uint64_t stop_at);
void training_finish(job *j, smoe_run_mode mode);
/* A new run of that name in the folder; its path is in `dir`. */
void training_finish_in(job *j, char dir[SCRATCH_PATH], const char *name);

/* ---- what is in a run directory ---- */

/* A file in newly allocated memory; size may be NULL. */
char *training_read(const char *dir, const char *name, size_t *size);
void training_assert_status(const char *dir, const char *word);
/* metrics.jsonl as a newly allocated array; and a number of a record, which must have it. */
json_t *training_records(const char *dir);
double training_number(const json_t *record, const char *key);
