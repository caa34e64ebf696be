/*
 * The training loop, shared by train, ablate and sweep. Prints nothing: the caller passes an
 * observer.
 */
#pragma once

#include "store/run.h"
#include "train/evaluate.h"
#include "train/watch.h"
#include "tensors/params_io.h"

#include <signal.h>

typedef struct smoe_train_status { /* after every step */
    uint64_t step, steps;          /* done, of */
    double epoch, loss, precision, lr, images_per_s, seconds_left;
    const char *state; /* a word about the losses (train/watch.h), or NULL */
} smoe_train_status;

typedef struct smoe_train_begin { /* before the first step; all borrowed */
    const smoe_spec *spec;
    const char *dir;
    const smoe_dataset *train, *test; /* test: of the evaluations, or NULL */
    smoe_model *model;
    uint64_t step; /* done before, by a run that is resumed */
} smoe_train_begin;

typedef struct smoe_observer {
    void *user;
    void (*begin)(void *user, const smoe_train_begin *begin);
    void (*step)(void *user, const smoe_train_status *status);
    void (*eval)(void *user, uint64_t step, const char *split, const smoe_eval *eval);
    void (*note)(void *user, const char *text); /* a remark: resumed from ... */
    void (*say)(void *user, const char *text);  /* an important remark: the tensors from `init` */
} smoe_observer;

/* Pictures of an evaluation for the events of the run (smoe_run_picture), passed in by higher
 * rooms: called if the run writes events, before the record. The model is reserved for `batch`
 * images. */
typedef int smoe_picture_hook(smoe_run *run, smoe_model *model, const smoe_spec *spec,
                              const smoe_dataset *set, size_t batch, smoe_err *err);

typedef struct smoe_train_options {
    const char *dir; /* the run directory */
    smoe_run_mode mode;
    smoe_comm *comm;  /* the processes that train together; NULL: this one alone */
    const char *init; /* a run, a checkpoint or a file to start from (smoe_run_locate), or NULL */
    smoe_file_choice choice; /* what the user says about a file of another program */
    smoe_fit fit;            /* how far it may differ from the model */
    bool moments;            /* the optimiser's moments also start from it: train/moments_init.h */
    double noise;            /* of SMOE_FIT_UPCYCLE: see smoe_upcycle_noise; 0: none */
    const struct smoe_beside *beside; /* [besides] runs that have the same data: data_mark.h */
    size_t besides;
    json_t *env; /* for env.json; taken over */
    const volatile sig_atomic_t
        *stop; /* non-zero: finish the step, checkpoint, return SMOE_STOPPED; may be NULL */
    volatile sig_atomic_t *save; /* non-zero: a checkpoint, set to 0 before it; may be NULL */
    smoe_scan *scan;             /* is told of data that is read; may be NULL */
    bool evaluates; /* after the last step in any case, even if train.eval_every is 0 */
    const smoe_observer *observer; /* may be NULL */
    smoe_picture_hook *draw;       /* may be NULL */
} smoe_train_options;

typedef struct smoe_train_result {
    uint64_t step;
    double train_loss, step_seconds; /* of the last step; median over the latest 4096. NAN where a
                                        resume found no step left to do */
    smoe_eval test, average;         /* the last evaluation, and that of the moving average; images
                                        0: none */
    double best;
    uint64_t best_step;
    size_t classes;               /* N, once the data is open */
    char remark[SMOE_WATCH_TEXT]; /* the last one on the losses (train/watch.h); empty: none */
} smoe_train_result;

/* Trains as the spec says, with its few-shot evaluation, if it has one, at every evaluation.
 * Returns -1 with code SMOE_STOPPED after a requested stop (the checkpoint is written),
 * SMOE_NONFINITE naming step, layer and parameter (or the tensor that was to be saved), or any
 * other failure; STATUS in the run directory says the same. err must not be NULL: which word STATUS
 * gets is read from it. */
int smoe_train(const smoe_spec *spec, const smoe_train_options *options, smoe_train_result *result,
               smoe_err *err) SMOE_MUST_CHECK;

/* With several processes each computes a part of every batch, and process 0 alone writes the
 * records and calls the observer. All write checkpoints. If one process fails, all fail, and the
 * message names it. */
