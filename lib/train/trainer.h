/*
 * The training loop and evaluation, shared by train, ablate and sweep. Speaks to nobody: whoever
 * runs it hands it an observer.
 */
#ifndef SMOE_TRAINER_H
#define SMOE_TRAINER_H

#include "base/base.h"
#include "spec/spec.h"
#include "data/data.h"
#include "store/run.h"
#include "store/safetensors.h"
#include "vit/model.h"

#include <signal.h>

typedef struct smoe_train_status { /* after every step */
    uint64_t step, steps;          /* done, of */
    double epoch, loss, precision, lr, images_per_s, seconds_left;
} smoe_train_status;

typedef struct smoe_eval {
    size_t images;
    double loss, precision_at_1;
    double seconds;
} smoe_eval;

typedef struct smoe_observer {
    void *user;
    void (*step)(void *user, const smoe_train_status *status);
    void (*eval)(void *user, uint64_t step, const char *split, const smoe_eval *eval);
    void (*note)(void *user, const char *text); /* a remark: resumed from ... */
    void (*say)(void *user, const char *text);  /* one that nobody should miss: what `init` gave */
} smoe_observer;

/* What else an evaluation measures, handed in by rooms above: adds members to its record. The model
 * is reserved for `batch` images. */
typedef int smoe_eval_hook(void *user, smoe_model *model, size_t batch, json_t *record,
                           smoe_err *err);

typedef struct smoe_train_options {
    const char *dir; /* the run directory */
    smoe_run_mode mode;
    const char *init; /* a safetensors file to start from, or NULL */
    smoe_fit fit;     /* how far it may differ from the model */
    json_t *env;      /* for env.json; taken over */
    const volatile sig_atomic_t
        *stop;                     /* non-zero: finish the step, checkpoint, return SMOE_STOPPED */
    const smoe_observer *observer; /* may be NULL */
    smoe_eval_hook *measure;       /* at every evaluation; may be NULL */
    void *measure_user;
} smoe_train_options;

typedef struct smoe_train_result {
    uint64_t step;
    double train_loss, step_seconds; /* of the last step; median over the latest 4096. NAN where a
                                        resume found no step left to do */
    smoe_eval test;                  /* the last evaluation; images 0: none */
    double best;
    uint64_t best_step;
    size_t classes; /* N, once the data is open */
} smoe_train_result;

/* Trains as the spec says. Returns -1 with code SMOE_STOPPED after a requested stop (the checkpoint
 * is written), SMOE_NONFINITE naming step, layer and parameter (or the tensor that was to be
 * saved), or any other failure; STATUS in the run directory says the same. err must not be NULL:
 * which word STATUS gets is read from it. */
int smoe_train(const smoe_spec *spec, const smoe_train_options *options, smoe_train_result *result,
               smoe_err *err) SMOE_MUST_CHECK;

/* What an evaluation hands out batch by batch: logits [images, N] of the images batch->index. */
typedef int smoe_eval_sink(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                           smoe_err *err);

/* Loss and precision@1 of a whole split in batches of batch_size, for which `model` must be
 * reserved; the last short batch included. Images are taken
 * in the order of smoe_data_order; where they do not influence one another the result does not
 * depend on it, to the bit. sink may be NULL; its failure ends the
 * evaluation, and so does a loss that is not finite (SMOE_NONFINITE, naming image and tensor). */
int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, smoe_eval_sink *sink, void *user, smoe_eval *result,
                  smoe_err *err) SMOE_MUST_CHECK;

/* The same, and what became of each image: outcomes [images of the set, 2] gets 1 or 0, whether the
 * top class is one of its labels, and its loss, in data-set order; NULL: nothing. */
int smoe_evaluate_each(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                       size_t batch_size, float *outcomes, smoe_eval_sink *sink, void *user,
                       smoe_eval *result, smoe_err *err) SMOE_MUST_CHECK;

#endif
