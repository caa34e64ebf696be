/*
 * libsmoe: mixtures of experts in vision transformers, trained and used on a CPU. This header is
 * all that is installed of the library, and all that a program needs of it, in C and in C++.
 *
 *     static smoe_err err;
 *     smoe_model *model;
 *     if (smoe_model_load(&model, "runs/quickstart", &err)) puts(err.text);
 *
 * Build with `cc program.c $(pkg-config --cflags --libs smoe)`; share/smoe/examples/predict.c is a
 * whole program.
 *
 * Status: what can fail returns 0, or -1 with err filled; err may be NULL. What returns nothing
 * cannot fail. The library never prints, and never ends the process, with one exception: see
 * smoe_out_of_memory_set. Paths are relative to the current folder, those inside a spec to the
 * folder of the spec's file.
 *
 * Call smoe_threads_set if OpenMP's default number of threads is not what you want.
 *
 * Inside the library this header is the floor: it includes nothing of the library, and what it
 * declares is declared nowhere else.
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

#define SMOE_VERSION "1.0.0"

/* A function of the shared library; the others cannot be reached from outside. */
#define SMOE_API __attribute__((visibility("default")))
#define SMOE_MUST_CHECK __attribute__((warn_unused_result))

/* SMOE_VERSION of the library that is linked. */
SMOE_API const char *smoe_version(void);

/* ---- errors ---------------------------------------------------------------------------------- */

/* What went wrong: the exit status of the program `smoe`. */
typedef enum smoe_code {
    SMOE_OK = 0,
    SMOE_RUNTIME = 1,   /* I/O, memory, a place that cannot be written */
    SMOE_USAGE = 2,     /* command line or spec */
    SMOE_DATA = 3,      /* input data or checkpoint */
    SMOE_NONFINITE = 4, /* the loss is not a finite number */
    SMOE_PARTIAL = 5,   /* a sweep or ablation with failed cells */
    SMOE_STOPPED = 75   /* stopped on request after a checkpoint */
} smoe_code;

/* One failure, or several of one pass (a spec with three errors), one per line, no final '\n'. */
typedef struct smoe_err {
    smoe_code code;
    size_t lines;    /* failures reported, also those that no longer fit in text */
    size_t left_out; /* of these, missing in text: all from the first one that did not fit */
    char text[4096]; /* NUL-terminated; the last line says how many were left out */
} smoe_err;

/* ---- memory ---------------------------------------------------------------------------------- */

/* Weights, activations, images or data sets that do not fit into memory are errors. A lack of
 * memory for small things, such as names and lists, calls `handler`, which must not return; NULL,
 * the default, prints a line on standard error and ends the process with exit status 1. Files are
 * complete or absent even then. The library sets the allocator of Jansson for the whole process to
 * one that follows this rule. */
SMOE_API void smoe_out_of_memory_set(void (*handler)(void));

/* ---- threads --------------------------------------------------------------------------------- */

/* More than any machine has. OpenMP's runtime needs stack for each thread of a team, and crashes
 * with tens of thousands. */
enum { SMOE_MOST_THREADS = 1024 };

/* The number of threads that share the calling thread's work from now on, at most
 * SMOE_MOST_THREADS; 0: as many as the process may run on. Results do not depend on it. */
SMOE_API void smoe_threads_set(int n);
SMOE_API int smoe_threads(void);

/* ---- specs ----------------------------------------------------------------------------------- */

/* What a run is: smoe-spec(5) describes the file and its keys. */
typedef struct smoe_spec smoe_spec;

/* Reads FILE ("-": standard input) and applies `overrides` ("model.moe.experts=32") in order. Every
 * mistake is a line of err, FILE:LINE:COLUMN: key: problem (SMOE_USAGE), and *spec is NULL;
 * otherwise the caller closes it. */
SMOE_API int smoe_spec_open(smoe_spec **spec, const char *file, const char *const *overrides,
                            size_t count, smoe_err *err) SMOE_MUST_CHECK;
SMOE_API void smoe_spec_close(smoe_spec *spec);

/* Every key of the spec as one line of JSON, which the caller frees. */
SMOE_API char *smoe_spec_json(const smoe_spec *spec);

/* ---- models ---------------------------------------------------------------------------------- */

/* A model with its weights. Use it from one thread at a time; it runs several itself. */
typedef struct smoe_model smoe_model;

/* The model of a run directory (its latest checkpoint), of a checkpoint directory, or of a
 * safetensors file that contains its spec. The file is mapped, and must not change until the model
 * is freed. On failure *model is NULL. */
SMOE_API int smoe_model_load(smoe_model **model, const char *path, smoe_err *err) SMOE_MUST_CHECK;
SMOE_API void smoe_model_free(smoe_model *model);

/* Its input and output: images of [channels, size, size] pixels, a logit for each class. */
SMOE_API size_t smoe_model_channels(const smoe_model *model);
SMOE_API size_t smoe_model_image_size(const smoe_model *model);
SMOE_API size_t smoe_model_classes(const smoe_model *model);

/* The name of a class in the data that the model was trained on; NULL if its file has no names. */
SMOE_API const char *smoe_model_class_name(const smoe_model *model, size_t label);

/* pixels [channels, size, size] of a JPEG or PNG image, of a file or of bytes in memory, as in an
 * evaluation: the central square, resized; x/127.5 - 1, or as data.mean and data.std say; planes
 * red, green, blue (or grey). SMOE_DATA if it is not such an image, or damaged. */
SMOE_API int smoe_pixels_read(float *pixels, const smoe_model *model, const char *path,
                              smoe_err *err) SMOE_MUST_CHECK;
SMOE_API int smoe_pixels_decode(float *pixels, const smoe_model *model, const void *bytes,
                                size_t size, smoe_err *err) SMOE_MUST_CHECK;

/* logits [images, classes] of pixels [images, channels, size, size], in batches of at most
 * eval.batch_size of the model's spec. With the routers tokens-choice and experts-choice the images
 * of a group (model.moe.group_images) compete, so a logit may depend on its neighbours; with all
 * others it does not. */
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

/* On the split `split` ("test", "train", "val") of the data that the model's spec names. */
SMOE_API int smoe_model_evaluate(smoe_model *model, smoe_score *score, const char *split,
                                 smoe_err *err) SMOE_MUST_CHECK;

/* ---- training -------------------------------------------------------------------------------- */

/* What to do with the directory of a run or of a sweep. */
typedef enum smoe_run_mode {
    SMOE_RUN_NEW,    /* create it; it must not exist */
    SMOE_RUN_RESUME, /* continue it with the same bits; start a new one if there is none */
    SMOE_RUN_FORCE   /* replace what is there */
} smoe_run_mode;

/* All zero: a new run from random initial weights, without reports of its progress. */
typedef struct smoe_train_settings {
    smoe_run_mode mode;
    const char *init; /* a model to start from, as smoe_model_load takes it; NULL: none */
    /* When it is set, for example by a signal handler, the step is finished, a checkpoint is
     * written, and training ends with SMOE_STOPPED. NULL: training is not stopped. */
    const volatile sig_atomic_t *stop;
    /* Called after every step, of `steps` in total; NULL: no calls. */
    void (*step)(void *user, uint64_t step, uint64_t steps, double loss);
    void *user;
} smoe_train_settings;

typedef struct smoe_trained {
    uint64_t step;     /* the last one */
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

/* All zero: a new sweep, one trial after the other, without reports of its progress. */
typedef struct smoe_sweep_settings {
    smoe_run_mode mode;
    size_t jobs;                       /* trials at once; 0: one */
    bool skip_invalid;                 /* leave out combinations that are not valid specs */
    bool retry_failed;                 /* run trials again that failed earlier */
    bool fail_fast;                    /* the first failure ends the sweep */
    const volatile sig_atomic_t *stop; /* as in smoe_train_settings */
    /* Called when a trial of this process is done or has failed; NULL: no calls. The precision is
     * NaN if there is none. */
    void (*ended)(void *user, const char *trial, bool done, double precision_at_1);
    void *user;
    const char *init; /* what each trial starts from: a model, or another sweep, of which the
                         trial with the same settings is taken; NULL: new weights */
    bool upcycle;     /* with init: experts start as copies of the dense MLP */
} smoe_sweep_settings;

typedef struct smoe_sweep_counts {
    size_t trials, done, failed; /* the rest is open */
} smoe_sweep_counts;

/*
 * Runs the sweep of FILE, a spec with a section `sweep`, of overrides with lists (seed=0,1,2), or
 * of both, in DIR: a run directory per trial, results.csv, summary.csv, summary.md, figures
 * (smoe-sweep(1)). If FILE is NULL, the sweep in DIR continues. settings and counts may be NULL.
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
