/* Models small enough for exhaustive tests: 8x8 images in four patches of 4, width 8, two
 * blocks, the second with experts, five classes. Every failure fails the calling test. */
#pragma once

#include "overrides.h"
#include "vit/model.h"

extern const char models_base[]; /* that spec, as text */

/* models_base with overrides, separated by blanks; false if they are refused (SMOE_USAGE). */
bool models_spec(smoe_spec *spec, const char *keys) SMOE_MUST_CHECK;

typedef struct models_rig {
    smoe_spec spec;
    smoe_model *model;
    smoe_params *params;
    size_t B, N, pixels; /* images; classes; numbers per image */
    real *image;         /* [B, channels, size, size] normal numbers */
    smoe_pass pass;
    real *targets; /* [B,N] of the pass: positive numbers whose sum is 1 for each image */
} models_rig;

/* A model of that spec for B images, weights and gradients allocated, weights scattered (see
 * gradcheck_scatter); false if the spec is refused, and then there is nothing to free. */
bool models_make(models_rig *rig, const char *keys, size_t B, bool train) SMOE_MUST_CHECK;
void models_free(models_rig *rig);
