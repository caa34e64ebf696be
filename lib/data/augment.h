/*
 * Training augmentation of an image after its box has been cropped: random pad-crop, flip,
 * RandAugment; and the random numbers of mixup and CutMix. All choices are drawn from the caller's
 * stream. Leaves to others: the inception box (image.h), which stream it is, batches (loader.c).
 */
#pragma once

#include "data/image.h"
#include "spec/spec.h"

/* The grey that fills what lies outside an image: the byte nearest to 0 after normalisation. */
enum { SMOE_FILL = 128 };

/* In place, in this order: crop pad (image_size/8 of fill on every side, a random window), flip
 * (one half of the images), RandAugment(n, m). `work` is scratch. */
int smoe_augment(const smoe_data_spec *data, smoe_image *image, smoe_image *work, smoe_rng *rng,
                 smoe_err *err) SMOE_MUST_CHECK;

/* The operations of RandAugment, one by one (for tests and galleries). Returns NULL past the last.
 */
const char *smoe_randaugment_name(size_t op);

/* Operation `op` with magnitude m of 10 on image; the sign where there is one comes from rng. */
int smoe_randaugment_apply(size_t op, double m, smoe_image *image, smoe_image *work, smoe_rng *rng,
                           smoe_err *err) SMOE_MUST_CHECK;

/* lambda of a batch: the larger of Beta(alpha, alpha) and 1 minus it, so that the image that keeps
 * its label keeps the greater part. */
double smoe_mixup_lambda(smoe_rng *rng, double alpha);

/* Columns left .. right-1 of rows top .. bottom-1. */
typedef struct smoe_cut {
    size_t left, right, top, bottom;
} smoe_cut;

/* The box of a batch of images of size^2 (CutMix, Yun et al. 2019): of size sqrt(1 - Beta(alpha,
 * alpha)) about a random pixel, cut off at the edges; it may be empty. */
smoe_cut smoe_cutmix_cut(smoe_rng *rng, double alpha, size_t size);
