/* See inspect_fixture.h. */
#include "inspect_fixture.h"
#include "gradcheck.h"
#include "models.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void inspect_fixture_open(inspect_fixture *x, const char *keys, size_t images, size_t batch) {
    char all[1024];
    smoe_err err = {0};
    *x = (inspect_fixture){.images = images, .batch = batch};
    snprintf(all, sizeof all,
             "data.classes=10 data.limit=%zu data.seed=2 model.patch_size=2 model.moe.layers=all"
             " model.moe.slots_per_expert=2 %s",
             images, keys);
    if (!models_spec(&x->spec, all)) fail_msg("'%s' is refused", keys);
    if (smoe_dataset_open(&x->set, &x->spec, "test", NULL, &err)) fail_msg("%s", err.text);
    assert_int_equal(smoe_dataset_images(x->set), images);
    x->N = smoe_dataset_classes(x->set);
    if (smoe_model_create(&x->model, &x->spec, x->N, &err)) fail_msg("%s", err.text);
    x->params = smoe_model_params(x->model);
    gradcheck_scatter(x->params, 5, 0.5, 0);
    x->image = calloc(images, sizeof *x->image);
    assert_non_null(x->image);
    for (size_t i = 0; i < images; i++) x->image[i] = i;
}

static void forget(inspect_fixture *x) {
    smoe_inspect_free(x->inspection);
    smoe_frames_free(x->frame, x->frames);
    x->inspection = NULL;
    x->frame = NULL;
}

void inspect_fixture_run(inspect_fixture *x) {
    smoe_err err = {0};
    size_t count;
    forget(x);
    if (smoe_model_reserve(x->model, x->batch, false, &err)) fail_msg("%s", err.text);
    smoe_frames_open(&x->frame, &x->frames);
    smoe_inspect_subject subject = {.run = "mine",
                                    .checkpoint = "mine/model.safetensors",
                                    .metrics = x->metrics,
                                    .spec = &x->spec,
                                    .set = x->set,
                                    .model = x->model,
                                    .batch = x->batch,
                                    .image = x->image,
                                    .images = x->images,
                                    .random_routers = x->random_routers,
                                    .exchange_experts = x->exchange_experts,
                                    .memory = x->memory};
    if (smoe_inspect_run(&x->inspection, &subject, &err)) fail_msg("%s", err.text);
    if (smoe_inspect_fill(x->inspection, x->frame, &err)) fail_msg("%s", err.text);
    x->sample = smoe_inspect_samples(x->inspection, &count);
    assert_int_equal(count, x->images);
    const smoe_sample_layer *layer = x->sample->layer;
    x->T = x->sample->T;
    x->L = x->sample->layers;
    x->E = layer->E;
    x->P = layer->P;
    x->S = layer->S;
    assert_int_equal(x->S, x->E * x->P);
}

void inspect_fixture_make(inspect_fixture *x, const char *keys, size_t images, size_t batch) {
    inspect_fixture_open(x, keys, images, batch);
    inspect_fixture_run(x);
}

void inspect_fixture_free(inspect_fixture *x) {
    forget(x);
    smoe_model_free(x->model);
    smoe_dataset_free(x->set);
    smoe_spec_free(&x->spec);
    free(x->image);
}

real *inspect_fixture_tensor(inspect_fixture *x, const char *name, size_t *size) {
    const smoe_param *param = smoe_params_find(x->params, name);
    if (!param) fail_msg("no tensor %s", name);
    if (size) *size = param->size;
    return x->params->w + param->offset;
}

const smoe_frame *inspect_fixture_frame(const inspect_fixture *x, const char *name) {
    const smoe_frame *frame = smoe_frames_find(x->frame, x->frames, name);
    assert_non_null(frame);
    if (!frame->rows) fail_msg("%s has no rows", name);
    return frame;
}

double inspect_fixture_number(const smoe_frame *frame, size_t row, const char *column) {
    size_t c = smoe_frame_find(frame, column);
    if (c == SIZE_MAX) fail_msg("%s has no column %s", frame->name, column);
    return smoe_frame_number_at(frame, row, c);
}

const smoe_sample_layer *inspect_fixture_layer(const inspect_fixture *x, size_t image, size_t l) {
    return &x->sample[image].layer[l];
}

size_t inspect_fixture_row(const smoe_frame *frame, const inspect_fixture *x, size_t l,
                           size_t each) {
    size_t row = 0, rows = 0;
    double block = (double)x->sample->layer[l].block;
    while (row < frame->rows && inspect_fixture_number(frame, row, "block") != block) row++;
    for (size_t i = row; i < frame->rows; i++)
        rows += inspect_fixture_number(frame, i, "block") == block;
    assert_int_equal(rows, each);
    assert_string_equal(smoe_frame_text_at(frame, row, 0), "mine");
    return row;
}
