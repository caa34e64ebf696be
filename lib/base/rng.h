/*
 * Random numbers by key: a stream is identified by (seed, purpose, layer, step, sample) and has no
 * other state. So results depend neither on the number of threads nor on interruptions, and no use
 * of random numbers affects another. The generator is the counter-based Philox 4x64-10 of Random123
 * (librandom123-dev), so any stream can be started at no cost.
 */
#pragma once

#include "base/base.h"

/* What a stream is for. The numbers are part of every result: add at the end, never renumber. */
typedef enum smoe_purpose {
    SMOE_RNG_INIT = 1,       /* initial weights; layer: hash of the parameter's name */
    SMOE_RNG_SHUFFLE = 2,    /* order of an epoch; step: epoch */
    SMOE_RNG_AUGMENT = 3,    /* crops, flips, RandAugment; step: epoch, sample: index */
    SMOE_RNG_MIXUP = 4,      /* step: training step */
    SMOE_RNG_DROPOUT = 5,    /* layer: site, step, sample: place of a row in the whole batch */
    SMOE_RNG_NOISE = 6,      /* added to scores; layer: site, step, sample: token */
    SMOE_RNG_SHAPES = 7,     /* generated images; layer: split, sample: index */
    SMOE_RNG_FEWSHOT = 8,    /* chosen shots; step: which seed */
    SMOE_RNG_TEST = 9,       /* tests */
    SMOE_RNG_SCORES = 10,    /* random scores; layer: site, step: image, sample: token */
    SMOE_RNG_ANALYSIS = 11,  /* comparisons with chance; layer: which, step: draw, sample: image */
    SMOE_RNG_ROUNDING = 12,  /* of moments to BF16; layer: hash of the name, step, sample: piece */
    SMOE_RNG_ORDER = 13,     /* order of an evaluation */
    SMOE_RNG_LABELS = 14,    /* classes of generated images; layer: split, sample: index */
    SMOE_RNG_FACTS = 15,     /* images; layer: split, sample: index; tables: layer 0, step: which */
    SMOE_RNG_PRIORITY = 16,  /* order of placement; layer: site, step, sample: first image */
    SMOE_RNG_CUTMIX = 17,    /* step: training step */
    SMOE_RNG_DROP_PATH = 18, /* layer: site, step, sample: image of the batch */
    SMOE_RNG_HASH = 19,      /* of positions, the same for all seeds; layer: site */
    SMOE_RNG_HOLDOUT = 20,   /* images that are held out of training; layer: hash of the class */
    SMOE_RNG_CAPTION = 21,   /* which caption of several; step: epoch, sample: index */
    SMOE_RNG_SHIFT = 22      /* of an image by data.shift; layer: split, sample: index */
} smoe_purpose;

typedef struct smoe_rng {
    uint64_t key[2], counter[4], block[4];
    unsigned left;  /* words of block not handed out yet */
    bool has_spare; /* the second normal of a pair */
    double spare;
} smoe_rng;

smoe_rng smoe_rng_at(uint64_t seed, smoe_purpose purpose, uint32_t layer, uint64_t step,
                     uint64_t sample);
uint64_t smoe_rng_u64(smoe_rng *rng);
double smoe_rng_uniform(smoe_rng *rng); /* in [0, 1), 53 bits */
/* Of the next n uniform numbers, which are below `share`, in (0, 1): faster than one by one. */
void smoe_rng_below_share(smoe_rng *rng, bool *below, size_t n, double share);
uint64_t smoe_rng_below(smoe_rng *rng, uint64_t n); /* in [0, n), unbiased; n > 0 */
double smoe_rng_normal(smoe_rng *rng);              /* mean 0, variance 1 (polar method) */
/* The next n normal numbers, faster. */
void smoe_rng_normals(smoe_rng *rng, double *out, size_t n);

/* order[0..n) becomes a uniformly random permutation of 0..n-1 (Fisher-Yates). */
void smoe_rng_permutation(smoe_rng *rng, uint32_t *order, size_t n);

/* FNV-1a of a name: the `layer` of a parameter's initial values. */
uint32_t smoe_rng_name(const char *name);
