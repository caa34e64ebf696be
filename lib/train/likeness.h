/*
 * How like two models are on the same images: the logits of one before and after it was made into
 * another (train/upcycle.h, train/prune.h).
 */
#ifndef SMOE_LIKENESS_H
#define SMOE_LIKENESS_H

#include "data/dataset.h"
#include "vit/model.h"

/* Logits [images, width] of images that lie evenly over the set, without augmentation. The model is
 * reserved for `batch` images. */
int smoe_likeness_logits(float *logits, smoe_model *model, const smoe_spec *spec,
                         const smoe_dataset *set, size_t images, size_t batch,
                         smoe_err *err) SMOE_MUST_CHECK;

typedef struct smoe_likeness {
    size_t images, same;         /* of these, with the same top class */
    double largest, rms, spread; /* differences; the standard deviation of the logits before */
    bool preserved;              /* but for another order of sums */
} smoe_likeness;

/* before, after [images, width]. */
smoe_likeness smoe_likeness_of(const float *before, const float *after, size_t images,
                               size_t width);

/* "logits of 64 images before and after: ..." */
void smoe_likeness_text(char *buf, size_t size, const smoe_likeness *likeness);

#endif
