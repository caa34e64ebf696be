/*
 * How similar two models are on the same images: the logits before and after one was converted into
 * the other (train/upcycle.h, train/prune.h).
 */
#pragma once

#include "data/dataset.h"
#include "tensors/safetensors.h"
#include "vit/model.h"

/* A trained model: its spec, and the file with its weights. */
typedef struct smoe_model_source {
    smoe_model *model;
    const smoe_spec *spec;
    const smoe_safetensors *file;
} smoe_model_source;

/* The images on which models are compared: this number of images, evenly over the set, without
 * augmentation, in the order of an evaluation, so that groups of choice routers have images of any
 * class; the models are reserved for `batch` images. */
typedef struct smoe_likeness_images {
    const smoe_dataset *set;
    size_t images, batch;
} smoe_likeness_images;

/* Logits [images, width]; SMOE_NONFINITE, naming image and tensor, if one is not finite. */
int smoe_likeness_logits(real *logits, smoe_model *model, const smoe_spec *spec,
                         const smoe_likeness_images *by, smoe_err *err) SMOE_MUST_CHECK;

typedef struct smoe_likeness {
    size_t images, same;         /* of these, with the same top class */
    double largest, rms, spread; /* differences; the standard deviation of the logits before */
    bool preserved;              /* but for another order of sums */
} smoe_likeness;

/* before, after [images, width]. */
smoe_likeness smoe_likeness_of(const real *before, const real *after, size_t images, size_t width);

/* "logits of 64 images before and after: ..." */
void smoe_likeness_text(char *buf, size_t size, const smoe_likeness *likeness);
