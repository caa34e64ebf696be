/* A small model over a few generated images, inspected with every image kept whole: for tests that compute each statistic again
 * from the weights. Every failure fails the test that asked. */
#ifndef SMOE_TEST_INSPECTED_H
#define SMOE_TEST_INSPECTED_H

#include "inspect/inspect.h"

typedef struct inspect_fixture {
    smoe_spec spec;
    smoe_dataset *set;
    smoe_model *model;
    smoe_params *params;
    size_t batch, images, *image;
    const char *metrics; /* to be set before a run; NULL: none */
    bool random_routers, exchange_experts;
    size_t memory; /* as in a subject */
    smoe_inspection *inspection;
    smoe_frame *frame; /* [frames] */
    size_t frames;
    const smoe_sample *sample; /* [images] */
    size_t T, E, P, S, L, N;   /* L: MoE layers */
} inspect_fixture;

/* The model of models_base (models.h) with shapes of ten classes in 16 patches, MoE in both blocks, and `keys`; weights
 * scattered. Evaluated in batches of `batch`. Among the first 24 images of the test split are all ten classes (data.seed). */
void inspect_fixture_open(inspect_fixture *x, const char *keys, size_t images, size_t batch);
/* Inspects it, anew where it has been. */
void inspect_fixture_run(inspect_fixture *x);
/* Both. */
void inspect_fixture_make(inspect_fixture *x, const char *keys, size_t images, size_t batch);
void inspect_fixture_free(inspect_fixture *x);

/* The values of a tensor, to be changed between open and run. */
real *inspect_fixture_tensor(inspect_fixture *x, const char *name, size_t *size);

/* The frame of a name, with at least one row. */
const smoe_frame *inspect_fixture_frame(const inspect_fixture *x, const char *name);
double inspect_fixture_number(const smoe_frame *frame, size_t row, const char *column);
/* Rows of a frame by layers come layer after layer: the first of layer l where each has `each`. */
size_t inspect_fixture_row(const smoe_frame *frame, const inspect_fixture *x, size_t l,
                           size_t each);

/* What layer l did with an image. */
const smoe_sample_layer *inspect_fixture_layer(const inspect_fixture *x, size_t image, size_t l);

#endif
