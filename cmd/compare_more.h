/* What smoe compare adds to pairs of runs: groups of runs that differ in the seed alone, and the
 * logits of two models on the same images. */
#ifndef SMOE_COMPARE_MORE_H
#define SMOE_COMPARE_MORE_H

#include "opt.h"
#include "base/frame.h"

#include <jansson.h>

/* One of the arguments. */
typedef struct smoe_compared {
    const char *arg;
    const json_t *spec;
    bool records; /* it is a run */
} smoe_compared;

/* A row for each metric of two groups with two seeds or more in common: last values, and their
 * difference paired by seed. A group are runs with the same settings but for seed and name; each is
 * compared with that of the first argument. Initialises the frame; free it in any case. */
int smoe_compare_seeds(smoe_frame *frame, const smoe_compared *run, size_t count,
                       smoe_err *err) SMOE_MUST_CHECK;

/* Two models on the same images. */
typedef struct smoe_logits_apart {
    size_t images, agree; /* with the same top class */
    size_t right[2][2];   /* [a is right][b is right] */
    double most, rms;     /* differences of a logit */
    char where[256];      /* the image of the largest */
} smoe_logits_apart;

/* Evaluates both, each with its own spec, on eval.split. SMOE_DATA where images or classes of the
 * two are not the same. */
int smoe_compare_outputs(smoe_logits_apart *outputs, const char *a, const char *b,
                         const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

#endif
