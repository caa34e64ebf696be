/* Slots that matter for a caption: their fall against the similarity of a model in which the only
 * slot of an expert gives nothing because its last matrix and bias are 0; and their patches against
 * the dispatch weights. */
#include "inspect_fixture.h"
#include "text/tokenizer.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 3, EXPERTS = 10, SHOWN = 8, PATCHES = 4, SIDE = 4, CONTEXT = 24, PIXELS = 64 };

/* Cosines in single precision, from embeddings of a few numbers. */
static const double CLOSE = 1e-5;

/* The cosine of an image and its caption. */
static double cosine(inspect_fixture *x, size_t image) {
    real pixels[PIXELS], target[10];
    uint32_t tokens[CONTEXT];
    char caption[SMOE_CAPTION];
    int64_t label;
    smoe_tokenizer *tokenizer;
    smoe_err err;
    assert_int_equal(smoe_dataset_image(x->set, image, false, pixels, target, &label, &err), 0);
    assert_int_equal(smoe_dataset_caption(x->set, image, NULL, caption, sizeof caption, &err), 0);
    assert_int_equal(smoe_tokenizer_open(&tokenizer, &x->spec, &err), 0);
    size_t length = smoe_tokenizer_encode(tokenizer, tokens, CONTEXT, caption);
    smoe_tokenizer_free(tokenizer);
    const smoe_inputs in = {pixels, tokens, &length};
    smoe_model_embed_pairs(x->model, &in, &(smoe_pass){.images = 1});
    const real *u = smoe_model_logits(x->model), *v = smoe_model_texts(x->model);
    double uv = 0, uu = 0, vv = 0;
    for (size_t k = 0; k < smoe_model_width(x->model); k++) {
        uv += (double)u[k] * (double)v[k];
        uu += (double)u[k] * (double)u[k];
        vv += (double)v[k] * (double)v[k];
    }
    return uv / sqrt(uu * vv);
}

static double without(inspect_fixture *x, size_t image, size_t block, size_t expert) {
    static const char *const names[] = {"weight", "bias"};
    real *all[2], *kept[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.mlp.experts.fc2.%s", block, names[i]);
        all[i] = inspect_fixture_tensor(x, name, &size[i]);
        kept[i] = malloc(size[i] * sizeof **kept);
        assert_non_null(kept[i]);
        memcpy(kept[i], all[i], size[i] * sizeof **kept);
        size_t each = size[i] / EXPERTS;
        memset(all[i] + expert * each, 0, each * sizeof **kept);
    }
    double result = cosine(x, image);
    for (int i = 0; i < 2; i++) {
        memcpy(all[i], kept[i], size[i] * sizeof **kept);
        free(kept[i]);
    }
    return result;
}

static size_t index_at(const smoe_frame *frame, size_t row, const char *column) {
    return (size_t)inspect_fixture_number(frame, row, column);
}

/* The rows of one image in one layer, from `row` on. */
static void check_rows(inspect_fixture *x, const smoe_frame *frame, size_t row, size_t image,
                       size_t l) {
    const smoe_sample_layer *layer = inspect_fixture_layer(x, image, l);
    double whole = cosine(x, image), falls[EXPERTS], before = INFINITY;
    for (size_t e = 0; e < EXPERTS; e++) falls[e] = whole - without(x, image, layer->block, e);
    for (size_t k = 0; k < SHOWN * PATCHES; k++, row++) {
        size_t slot = index_at(frame, row, "slot"), larger = 0, heavier = 0;
        double fall = inspect_fixture_number(frame, row, "fall");
        assert_int_equal(index_at(frame, row, "image"), image);
        assert_int_equal(index_at(frame, row, "block"), layer->block);
        assert_int_equal(index_at(frame, row, "rank"), k / PATCHES + 1);
        assert_int_equal(index_at(frame, row, "expert"), slot);
        assert_float_equal(inspect_fixture_number(frame, row, "similarity"), whole, CLOSE);
        assert_float_equal(fall, falls[slot], CLOSE);
        assert_true(fall <= before);
        before = fall;
        for (size_t e = 0; e < EXPERTS; e++) larger += falls[e] > fall + 2 * CLOSE;
        assert_true(larger <= k / PATCHES);
        size_t first = x->T - SIDE * SIDE; /* of the patches */
        size_t token = first + index_at(frame, row, "row") * SIDE + index_at(frame, row, "column");
        float weight = layer->dispatch[token * x->S + slot];
        assert_true(inspect_fixture_number(frame, row, "dispatch") == (double)weight);
        for (size_t t = first; t < x->T; t++) heavier += layer->dispatch[t * x->S + slot] > weight;
        assert_int_equal(heavier, k % PATCHES);
        assert_int_equal(index_at(frame, row, "patch"), k % PATCHES + 1);
    }
}

static void check_model(const char *spec) {
    inspect_fixture x;
    inspect_fixture_open(&x, spec, IMAGES, 4);
    inspect_fixture_run(&x);
    const smoe_frame *frame = inspect_fixture_frame(&x, "caption_slots");
    assert_int_equal(frame->rows, x.L * IMAGES * SHOWN * PATCHES);
    for (size_t i = 0; i < IMAGES; i++)
        for (size_t l = 0; l < x.L; l++)
            check_rows(&x, frame, (i * x.L + l) * SHOWN * PATCHES, i, l);
    inspect_fixture_free(&x);
}

#define PAIRS                                                                   \
    "model.moe.slots_per_expert=1 model.moe.experts=10 train.loss=contrastive " \
    "text.context=24 text.width=8 text.heads=2 text.depth=1 eval.zeroshot=a{}"

static void falls_and_patches(void **state) {
    check_model(PAIRS);
    check_model(PAIRS " model.head=token model.registers=3"); /* which are no patches */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(falls_and_patches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
