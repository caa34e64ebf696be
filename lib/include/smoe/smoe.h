/*
 * libsmoe: mixtures of experts in vision transformers, trained and used on a CPU. This is the only
 * header of the library that is installed, and the only one that a program needs, in C and in C++.
 *
 *     static smoe_err err;
 *     smoe_model *model;
 *     if (smoe_model_load(&model, "runs/quickstart", &err)) puts(err.text);
 *
 * Build with `cc program.c $(pkg-config --cflags --libs smoe)`; share/smoe/examples/predict.c is a
 * complete program.
 *
 * Errors: a function that can fail returns 0, or -1 and fills err, which may be NULL. A function
 * that returns void cannot fail. The library never prints, and never ends the process, with one
 * exception: see smoe_out_of_memory_set. Paths are relative to the current folder, paths inside a
 * spec to the folder of the spec's file.
 *
 * Numbers in specs and files have a decimal point, whatever the locale of the program; while a
 * function works, and when it calls back, the calling thread has the locale C.
 *
 * OpenMP's default number of threads is used; smoe_threads_set changes it.
 *
 * Inside the library, this header is below all others: it includes no other header of the library,
 * and what it declares is declared nowhere else.
 */
#ifndef SMOE_SMOE_H
#define SMOE_SMOE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SMOE_VERSION "1.0.19"

/* Marks a function that the shared library exports; all others are hidden. */
#define SMOE_API __attribute__((visibility("default")))
#define SMOE_MUST_CHECK __attribute__((warn_unused_result))

/* SMOE_VERSION of the linked library. */
SMOE_API const char *smoe_version(void);

/* ---- errors ---------------------------------------------------------------------------------- */

/* What went wrong: the exit status of the program `smoe`. */
typedef enum smoe_code {
    SMOE_OK = 0,
    SMOE_RUNTIME = 1,   /* I/O, memory, a file that cannot be written */
    SMOE_USAGE = 2,     /* command line or spec */
    SMOE_DATA = 3,      /* input data or checkpoint */
    SMOE_NONFINITE = 4, /* the loss is not a finite number */
    SMOE_PARTIAL = 5,   /* a sweep or ablation with failed cells */
    SMOE_STOPPED = 75   /* stopped on request after a checkpoint */
} smoe_code;

/* One failure, or several (a spec with three errors), one per line, without a final '\n'. */
typedef struct smoe_err {
    smoe_code code;
    size_t lines;    /* failures reported, including those that do not fit in text */
    size_t left_out; /* those missing in text: all from the first one that did not fit */
    char text[4096]; /* NUL-terminated; the last line says how many were left out */
} smoe_err;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Weights, activations, images or data sets that do not fit into memory are errors. If there is no
 * memory for small things, such as names and lists, `handler` is called, which must not return.
 * NULL, the default, prints a line on standard error and ends the process with exit status 1. Even
 * then files are complete or absent. The library sets the allocator of Jansson, for the whole
 * process, to one that follows this rule. */
SMOE_API void smoe_out_of_memory_set(void (*handler)(void));

/* ---- threads --------------------------------------------------------------------------------- */

/* An upper limit. OpenMP's runtime needs stack for each thread, and crashes with tens of thousands
 * of them. */
enum { SMOE_MOST_THREADS = 1024 };

/* The number of threads that share the work of the calling thread from now on; 0: as many as the
 * process may run on. A larger number than SMOE_MOST_THREADS counts as SMOE_MOST_THREADS. Results
 * do not depend on the number. */
SMOE_API void smoe_threads_set(int n);
SMOE_API int smoe_threads(void);

/* ---- specs ----------------------------------------------------------------------------------- */

/* The description of a run; see smoe-spec(5) for the file and its keys. */
typedef struct smoe_spec smoe_spec;

/* Reads FILE ("-": standard input) and applies `overrides` ("model.moe.experts=32") in order. Every
 * mistake is a line of err, FILE:LINE:COLUMN: key: problem (SMOE_USAGE), and *spec is NULL;
 * otherwise the caller closes it. */
SMOE_API int smoe_spec_open(smoe_spec **spec, const char *file, const char *const *overrides,
                            size_t count, smoe_err *err) SMOE_MUST_CHECK;
SMOE_API void smoe_spec_close(smoe_spec *spec);

/* All keys of the spec as one line of JSON, which the caller frees. */
SMOE_API char *smoe_spec_json(const smoe_spec *spec);

/* ---- models ---------------------------------------------------------------------------------- */

/* A model with its weights. Use it from one thread at a time; it uses several threads itself. */
typedef struct smoe_model smoe_model;

/* The model of a run directory (its latest checkpoint), of a checkpoint directory, or of a
 * safetensors file that contains its spec. The file is mapped, and must not change until the model
 * is freed. On failure *model is NULL. */
SMOE_API int smoe_model_load(smoe_model **model, const char *path, smoe_err *err) SMOE_MUST_CHECK;
SMOE_API void smoe_model_free(smoe_model *model);

/* Its input and output: images of [channels, size, size] pixels, and one logit per class. A model
 * that compares images with captions (a contrastive loss) has 0 classes: it can only be evaluated.
 */
SMOE_API size_t smoe_model_channels(const smoe_model *model);
SMOE_API size_t smoe_model_image_size(const smoe_model *model);
SMOE_API size_t smoe_model_classes(const smoe_model *model);

/* The name of a class in the data that the model was trained on; NULL if its file has no names. */
SMOE_API const char *smoe_model_class_name(const smoe_model *model, size_t label);

/* pixels [channels, size, size] of a JPEG, PNG or WebP image, in a file or in memory, prepared as
 * in an evaluation: the central square, resized; normalised with data.mean and data.std, by default
 * x/127.5 - 1; planes red, green, blue (or grey). SMOE_DATA if it is damaged or another format. */
SMOE_API int smoe_pixels_read(float *pixels, const smoe_model *model, const char *path,
                              smoe_err *err) SMOE_MUST_CHECK;
SMOE_API int smoe_pixels_decode(float *pixels, const smoe_model *model, const void *bytes,
                                size_t size, smoe_err *err) SMOE_MUST_CHECK;

/* logits [images, classes] of pixels [images, channels, size, size], in batches of at most
 * eval.batch_size of the model's spec. With choice routers (smoe-routers(7)) the images of a group
 * (model.moe.group_images) compete for places, so the logits of an image may depend on the other
 * images, and a batch has at least one group; with all other routers they do not. SMOE_USAGE if the
 * model has no classes. */
SMOE_API int smoe_model_predict(smoe_model *model, float *logits, const float *pixels,
                                size_t images, smoe_err *err) SMOE_MUST_CHECK;

/* probabilities [images, classes]: the softmax of the logits of each image or, if the model was
 * trained with loss sigmoid, the sigmoid of each logit. Both may be the same array. */
SMOE_API void smoe_model_probabilities(const smoe_model *model, float *probabilities,
                                       const float *logits, size_t images);

/* The loss and precision of a model on a split of its data. */
typedef struct smoe_score {
    size_t images; /* 0: not measured */
    double loss, precision_at_1;
} smoe_score;

/* On the split `split` ("test", "train", "val") of the data that the model's spec names. The loss
 * and precision are those of smoe-eval(1), also for a model without classes. */
SMOE_API int smoe_model_evaluate(smoe_model *model, smoe_score *score, const char *split,
                                 smoe_err *err) SMOE_MUST_CHECK;

/* ---- training -------------------------------------------------------------------------------- */

/* How to treat the directory of a run or of a sweep. */
typedef enum smoe_run_mode {
    SMOE_RUN_NEW,    /* create it; it must not exist */
    SMOE_RUN_RESUME, /* continue it with the same bits; start a new one if there is none */
    SMOE_RUN_FORCE   /* replace the run or sweep that is there */
} smoe_run_mode;

/* All zero: a new run from random initial weights, without progress reports. */
typedef struct smoe_train_settings {
    smoe_run_mode mode;
    const char *init; /* a model to start from, as for smoe_model_load; NULL: none */
    /* When *stop is set, for example by a signal handler, the step is finished, a checkpoint is
     * written, and training ends with SMOE_STOPPED. NULL: training cannot be stopped. */
    const volatile sig_atomic_t *stop;
    /* Called after every step, of `steps` in total; NULL: no calls. */
    void (*step)(void *user, uint64_t step, uint64_t steps, double loss);
    void *user;
} smoe_train_settings;

typedef struct smoe_trained {
    uint64_t step;     /* the last step done */
    double train_loss; /* of the last batch; NaN if no step was left */
    smoe_score test;   /* the last evaluation of the split eval.split */
} smoe_trained;

/* Trains as the spec says and writes a run directory (smoe-run(5)), which smoe_model_load reads.
 * settings and trained may be NULL. SMOE_STOPPED after a requested stop, SMOE_NONFINITE if the loss
 * or a gradient is not finite. */
SMOE_API int smoe_train_run(const smoe_spec *spec, const char *dir,
                            const smoe_train_settings *settings, smoe_trained *trained,
                            smoe_err *err) SMOE_MUST_CHECK;

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* All zero: a new sweep, one trial after the other, without progress reports. */
typedef struct smoe_sweep_settings {
    smoe_run_mode mode;
    size_t jobs;                       /* trials that run at once; 0: one */
    bool skip_invalid;                 /* leave out combinations that are not valid specs */
    bool retry_failed;                 /* run failed trials again */
    bool fail_fast;                    /* the first failure ends the sweep */
    const volatile sig_atomic_t *stop; /* as in smoe_train_settings */
    /* Called when a trial of this process is done or has failed; NULL: no calls. The precision is
     * NaN if there is none. */
    void (*ended)(void *user, const char *trial, bool done, double precision_at_1);
    void *user;
    const char *init; /* what each trial starts from: a model, or a sweep, in which case its trial
                         with the same settings is used; NULL: new weights */
    bool upcycle;     /* with init: experts start as copies of the dense MLP */
} smoe_sweep_settings;

typedef struct smoe_sweep_counts {
    size_t trials, done, failed; /* the other trials are open */
} smoe_sweep_counts;

/*
 * Runs a sweep in DIR. Its trials come from the section `sweep` of the spec FILE, from overrides
 * with lists (seed=0,1,2), or from both. DIR gets a run directory per trial, results.csv,
 * summary.csv, summary.md and figures (smoe-sweep(1)). If FILE is NULL, the sweep in DIR continues,
 * whatever mode and init are; its trials are fixed, so overrides are an error (SMOE_USAGE).
 * settings and counts may be NULL.
 * SMOE_STOPPED after a requested stop, SMOE_PARTIAL if trials failed; results are written in both
 * cases.
 *
 * Each trial runs in a child process; trials that run at once share the caller's number of threads.
 * Meanwhile nothing else may wait for children of this process, and SIGCHLD must not be ignored.
 * SIGINT and SIGTERM are left to the caller: let a handler set `stop`.
 */
SMOE_API int smoe_sweep_run(const char *file, const char *const *overrides, size_t count,
                            const char *dir, const smoe_sweep_settings *settings,
                            smoe_sweep_counts *counts, smoe_err *err) SMOE_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
