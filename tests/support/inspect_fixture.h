/* A small model over a few generated images, inspected with every image kept: for tests that
 * compute each statistic again from the weights. Every failure fails the calling test. */
#pragma once

#include "inspect/inspect.h"

typedef struct inspect_fixture {
    smoe_spec spec;
    smoe_dataset *set;
    smoe_model *model;
    smoe_params *params;
    size_t batch, images, *image;
    const char *metrics; /* may be set before a run; NULL: none */
    bool random_routers, exchange_experts;
    size_t memory; /* as in smoe_inspect_subject */
    smoe_inspection *inspection;
    smoe_frame *frame; /* [frames] */
    size_t frames;
    const smoe_sample *sample; /* [images] */
    size_t T, E, P, S, L, N;   /* L: MoE layers */
} inspect_fixture;

/* The model of models_base (models.h) with shapes of ten classes in 16 patches, MoE in both
 * blocks, and `keys`; weights scattered. Evaluated in batches of `batch`. The first 24 images of
 * the test split contain all ten classes (data.seed). */
void inspect_fixture_open(inspect_fixture *x, const char *keys, size_t images, size_t batch);
/* Inspects it, again if it has been inspected before. */
void inspect_fixture_run(inspect_fixture *x);
/* Opens and inspects. */
void inspect_fixture_make(inspect_fixture *x, const char *keys, size_t images, size_t batch);
void inspect_fixture_free(inspect_fixture *x);

/* The values of a tensor, which may be changed between open and run. */
real *inspect_fixture_tensor(inspect_fixture *x, const char *name, size_t *size);

/* The frame with that name; it has at least one row. */
const smoe_frame *inspect_fixture_frame(const inspect_fixture *x, const char *name);
double inspect_fixture_number(const smoe_frame *frame, size_t row, const char *column);
/* Frames with rows per layer are sorted by layer: the first row of layer l, which has
 * `each`. */
size_t inspect_fixture_row(const smoe_frame *frame, const inspect_fixture *x, size_t l,
                           size_t each);

/* The sample of an image in layer l. */
const smoe_sample_layer *inspect_fixture_layer(const inspect_fixture *x, size_t image, size_t l);
