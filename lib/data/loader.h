/*
 * The batch loader: from a data set to batches in memory. Leaves to others: the model, the loss.
 */
#pragma once

#include "data/dataset.h"
#include "text/tokenizer.h"

/* A batch in row-major order; memory belongs to the loader and lives until the next call. */
typedef struct smoe_batch {
    size_t images;        /* B */
    const real *pixels;   /* [B, channels, image_size, image_size] */
    const real *target;   /* [B, N] non-negative: one-hot, mixed (mixup), or a 1 for each true class
                             (multi) */
    const int64_t *label; /* [B] main label */
    const uint64_t *index;  /* [B] which image of the split, in data-set order */
    const uint32_t *tokens; /* [B, text.context] of the captions, padded with 0; NULL without */
    const size_t *lengths;  /* [B] tokens of each */
    const size_t *captions; /* [B] how many captions the image has, of which this is one */
    size_t first;           /* evaluation: the place of its first image in the order of the pass */
    double epoch;           /* passes over the data completed before this batch */
} smoe_batch;

typedef struct smoe_loader smoe_loader;

typedef struct smoe_loader_options {
    size_t batch_size;
    bool train; /* shuffle by (seed, epoch), augment, drop the short batch, never end; otherwise one
                   pass in the order of smoe_dataset_order */
    const uint32_t *only; /* evaluation: these images of the set in this order; NULL: all */
    size_t images;        /* their number */
    bool multi;           /* multi-labels in the target (sigmoid loss) */
    uint64_t seed;
    uint64_t first_step; /* train: the step the first batch is for; batches depend on (seed, step)
                            alone */
    /* Several processes: train: of `parts` equal parts of each batch, number `part`; evaluation: of
     * the batches, part, part + parts, ... 0: everything. */
    size_t part, parts;
    /* train: images of a piece of the batch, within which images are mixed; 0: the batch is one. */
    size_t piece;
    const smoe_tokenizer *tokenizer; /* of captions, which a batch then has; borrowed; or NULL */
} smoe_loader_options;

/* Starts loading in parallel to the computation: separate threads prepare the next batches. The
 * data set must outlive the loader. Fails with SMOE_USAGE when training asks for batches larger
 * than the data set. */
int smoe_loader_open(smoe_loader **loader, const smoe_dataset *set, const smoe_spec *spec,
                     const smoe_loader_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* 1: *batch is the next batch; 0: the pass is over (evaluation only); -1: failed, as it will again.
 */
int smoe_loader_next(smoe_loader *loader, smoe_batch *batch, smoe_err *err) SMOE_MUST_CHECK;

/* Seconds the caller has waited in smoe_loader_next so far. */
double smoe_loader_waited(const smoe_loader *loader);
void smoe_loader_free(smoe_loader *loader);
SMOE_FREES(smoe_loader)
