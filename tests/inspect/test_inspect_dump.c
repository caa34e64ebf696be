/*
 * The weights and placements that smoe inspect keeps and dumps, against the equations of the
 * methods in double precision, written out from the pixels on. Attention is made to add nothing, so
 * that the router's input is
 *   x_t = LN(W patch_t + b + position_t)
 * For the soft family (Soft MoE eq. 1-3), L = l2n(X) . (scale l2n(Phi)), D = softmax of L over
 * tokens, C over slots. For the choice family g = softmax(W x), and placement follows V-MoE and
 * Soft MoE 3.2.
 */
#include "approx.h"
#include "inspect_fixture.h"
#include "scratch.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 12 };

/* Single precision: logits up to about 10 with a few roundings each; weights are their
 * exponentials. */
static const double CLOSE = 2e-5;

#define FIRST "model.moe.layers=[0] model.depth=1 "

static void silence(inspect_fixture *x, const char *name) {
    size_t size;
    real *w = inspect_fixture_tensor(x, name, &size);
    memset(w, 0, size * sizeof *w);
}

static void begin(inspect_fixture *x, const char *keys) {
    inspect_fixture_open(x, keys, IMAGES, 4);
    silence(x, "blocks.0.attn.proj.weight");
    silence(x, "blocks.0.attn.proj.bias");
    inspect_fixture_run(x);
}

/* The input of block 0's MoE layer for token t of an image: newly allocated, [d]. */
static double *layer_input(inspect_fixture *x, size_t image, size_t t) {
    const smoe_sample *s = &x->sample[image];
    size_t d = x->spec.model.width, patch = s->size / s->side, c = s->channels;
    const real *w = inspect_fixture_tensor(x, "patch_embed.proj.weight", NULL);
    const real *b = inspect_fixture_tensor(x, "patch_embed.proj.bias", NULL);
    const real *position = inspect_fixture_tensor(x, "pos_embed", NULL);
    const real *norm = inspect_fixture_tensor(x, "blocks.0.norm2.weight", NULL);
    const real *shift = inspect_fixture_tensor(x, "blocks.0.norm2.bias", NULL);
    double *out = calloc(d, sizeof *out), mean = 0, variance = 0;
    for (size_t i = 0; i < d; i++) {
        out[i] = (double)position[t * d + i];
        if (t < s->first_patch) {
            out[i] += (double)inspect_fixture_tensor(x, "cls_token", NULL)[i];
        } else {
            size_t top = (t - s->first_patch) / s->side * patch,
                   left = (t - s->first_patch) % s->side * patch;
            out[i] += (double)b[i];
            for (size_t k = 0; k < c * patch * patch; k++)
                out[i] +=
                    (double)w[i * c * patch * patch + k] *
                    (double)s
                        ->pixels[(k / patch / patch * s->size + top + k / patch % patch) * s->size +
                                 left + k % patch];
        }
        mean += out[i] / (double)d;
    }
    for (size_t i = 0; i < d; i++) variance += (out[i] - mean) * (out[i] - mean) / (double)d;
    for (size_t i = 0; i < d; i++)
        out[i] = (out[i] - mean) / sqrt(variance + 1e-6) * (double)norm[i] + (double)shift[i];
    return out;
}

/* ---- soft family ----------------------------------------------------------------------------- */

/* L [T,S] of an image. */
static double *soft_logits(inspect_fixture *x, size_t image) {
    size_t d = x->spec.model.width, S = x->S;
    const real *phi = inspect_fixture_tensor(x, "blocks.0.mlp.router.phi", NULL);
    bool normalize = x->spec.model.moe.soft.normalize;
    double scale =
        normalize ? (double)*inspect_fixture_tensor(x, "blocks.0.mlp.router.scale", NULL) : 1;
    double *logit = calloc(x->T * S, sizeof *logit);
    for (size_t t = 0; t < x->T; t++) {
        double *token = layer_input(x, image, t), length = 0;
        for (size_t i = 0; i < d; i++) length += token[i] * token[i];
        for (size_t s = 0; s < S; s++) {
            double along = 0, slot = 0;
            for (size_t i = 0; i < d; i++) {
                along += token[i] * (double)phi[i * S + s];
                slot += (double)phi[i * S + s] * (double)phi[i * S + s];
            }
            logit[t * S + s] =
                normalize ? scale * along / ((sqrt(length) + 1e-6) * (sqrt(slot) + 1e-6)) : along;
        }
        free(token);
    }
    return logit;
}

static void soft_weights(void **state) {
    static const struct {
        const char *keys;
        bool dispatch, combine; /* learnt, or uniform */
    } kinds[] = {
        {FIRST "model.moe.router=soft", true, true},
        {FIRST "model.moe.router=soft model.moe.normalize=false model.head=token", true, true},
        {FIRST "model.moe.router=soft-uniform", true, false},
        {FIRST "model.moe.router=uniform-soft", false, true}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        inspect_fixture x;
        begin(&x, kinds[k].keys);
        for (size_t image = 0; image < IMAGES; image++) {
            const smoe_sample_layer *layer = x.sample[image].layer;
            double *logit = soft_logits(&x, image);
            for (size_t i = 0; i < x.T * x.S; i++) {
                double column = 0, row = 0;
                for (size_t t = 0; t < x.T; t++) column += exp(logit[t * x.S + i % x.S]);
                for (size_t s = 0; s < x.S; s++) row += exp(logit[i / x.S * x.S + s]);
                assert_close(layer->dispatch[i],
                             kinds[k].dispatch ? exp(logit[i]) / column : 1 / (double)x.T, CLOSE);
                assert_close(layer->combine[i],
                             kinds[k].combine ? exp(logit[i]) / row : 1 / (double)x.S, CLOSE);
            }
            free(logit);
        }
        inspect_fixture_free(&x);
    }
}

/* ---- choice family --------------------------------------------------------------------------- */

/* g [tokens,E] of `images` images, beginning with image `first`. */
static double *gates(inspect_fixture *x, const uint32_t *image, size_t images) {
    size_t d = x->spec.model.width, E = x->E;
    const real *w = inspect_fixture_tensor(x, "blocks.0.mlp.router.weight", NULL);
    double *g = calloc(images * x->T * E, sizeof *g);
    for (size_t t = 0; t < images * x->T; t++) {
        double *token = layer_input(x, image[t / x->T], t % x->T), sum = 0;
        for (size_t e = 0; e < E; e++) {
            double z = 0;
            for (size_t i = 0; i < d; i++) z += token[i] * (double)w[e * d + i];
            sum += g[t * E + e] = exp(z);
        }
        for (size_t e = 0; e < E; e++) g[t * E + e] /= sum;
        free(token);
    }
    return g;
}

/* The rank of the i-th of n numbers at distance `stride`, largest first. */
static size_t place_of(const double *x, size_t n, size_t stride, size_t i) {
    size_t before = 0;
    for (size_t j = 0; j < n; j++) before += x[j * stride] > x[i * stride];
    return before;
}

/* given [tokens,E]: whether the expert processes the token. */
static bool *choose_tokens(const smoe_moe_spec *moe, const double *g, size_t tokens, size_t E) {
    bool *given = calloc(tokens * E, sizeof *given);
    double *most = calloc(tokens, sizeof *most);
    size_t *used = calloc(E, sizeof *used), *turn = calloc(tokens, sizeof *turn);
    size_t room =
        (size_t)rint((double)(smoe_moe_k(moe, 1) * tokens) * smoe_moe_ratio(moe, 1) / (double)E);
    for (size_t i = 0; i < tokens * E; i++) most[i / E] = fmax(most[i / E], g[i]);
    for (size_t t = 0; t < tokens; t++)
        turn[moe->choice.priority == SMOE_PRIORITY_BPR ? place_of(most, tokens, 1, t) : t] = t;
    for (size_t k = 0; k < smoe_moe_k(moe, 1); k++)
        for (size_t i = 0; i < tokens; i++)
            for (size_t e = 0; e < E; e++) {
                if (place_of(g + turn[i] * E, E, 1, e) != k || used[e] == room) continue;
                used[e]++;
                given[turn[i] * E + e] = true;
            }
    free(most);
    free(used);
    free(turn);
    return given;
}

static bool *choose_experts(const smoe_moe_spec *moe, const double *g, size_t tokens, size_t E) {
    bool *given = calloc(tokens * E, sizeof *given);
    size_t room = (size_t)rint((double)tokens * smoe_moe_ratio(moe, 1) / (double)E);
    for (size_t i = 0; i < tokens * E; i++) given[i] = place_of(g + i % E, tokens, E, i / E) < room;
    return given;
}

/* The placements of one image are exactly the given ones, ordered by token and expert; each slot
 * of a buffer is used at most once. */
static void check_image(const inspect_fixture *x, size_t image, const double *g,
                        const bool *given) {
    const smoe_sample_layer *layer = x->sample[image].layer;
    size_t at = 0;
    for (size_t i = 0; i < x->T * x->E; i++) {
        assert_close(layer->gate[i], g[i], CLOSE);
        if (!given[i]) continue;
        assert_true(at < layer->places);
        assert_int_equal(layer->place[at].token, i / x->E);
        assert_int_equal(layer->place[at].expert, i % x->E);
        assert_true(layer->place[at].slot < layer->P);
        assert_close(layer->place[at].weight, g[i], CLOSE);
        at++;
    }
    assert_int_equal(at, layer->places);
}

static void choice_placements(void **state) {
    static const char *const kinds[] = {
        FIRST "model.moe.router=tokens-choice model.moe.k=2 model.moe.capacity=0.7 "
              "model.moe.group_images=2",
        FIRST "model.moe.router=tokens-choice model.moe.capacity=0.6 model.moe.priority=vanilla "
              "model.head=token",
        FIRST "model.moe.router=experts-choice model.moe.capacity=1.4 model.moe.group_images=4"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        inspect_fixture x;
        begin(&x, kinds[k]);
        const smoe_moe_spec *moe = &x.spec.model.moe;
        bool tokens_choose = !strcmp(moe->router, "tokens-choice");
        size_t group = moe->choice.group_images, tokens = group * x.T;
        uint32_t order[IMAGES];
        smoe_dataset_order(order, IMAGES, &x.spec);
        for (size_t first = 0; first < IMAGES; first += group) {
            double *g = gates(&x, order + first, group);
            bool *given = tokens_choose ? choose_tokens(moe, g, tokens, x.E)
                                        : choose_experts(moe, g, tokens, x.E);
            for (size_t i = 0; i < group; i++)
                check_image(&x, order[first + i], g + i * x.T * x.E, given + i * x.T * x.E);
            free(g);
            free(given);
        }
        inspect_fixture_free(&x);
    }
}

/* Token t goes to expert t mod E, slot floor(t/E). */
static void identity_placements(void **state) {
    inspect_fixture x;
    inspect_fixture_make(&x, "model.moe.router=identity model.moe.slots_per_expert=6", 5, 3);
    for (size_t i = 0; i < 5 * x.L; i++) {
        const smoe_sample_layer *layer = &x.sample[i / x.L].layer[i % x.L];
        assert_int_equal(layer->places, x.T);
        assert_null(layer->gate);
        for (size_t t = 0; t < x.T; t++) {
            assert_int_equal(layer->place[t].token, t);
            assert_int_equal(layer->place[t].expert, t % x.E);
            assert_int_equal(layer->place[t].slot, t / x.E);
            assert_true(layer->place[t].weight == 1);
        }
    }
    inspect_fixture_free(&x);
}

/* ---- other stored values, and the files ------------------------------------------------------ */

static void images_are_told_apart(void **state) {
    inspect_fixture x;
    size_t chosen[] = {11, 0, 7};
    inspect_fixture_open(&x, "model.moe.router=soft", IMAGES, 4);
    memcpy(x.image, chosen, sizeof chosen);
    x.images = 3;
    inspect_fixture_run(&x);
    real *pixels = calloc(64, sizeof *pixels), target[10];
    for (size_t i = 0; i < 3; i++) {
        const smoe_sample *s = &x.sample[i];
        char name[64];
        int64_t label;
        smoe_err err;
        assert_int_equal(s->image, chosen[i]);
        assert_string_equal(s->run, "mine");
        assert_string_equal(s->name, smoe_dataset_image_name(x.set, chosen[i], name, sizeof name));
        assert_int_equal(smoe_dataset_image(x.set, chosen[i], false, pixels, target, &label, &err),
                         0);
        assert_string_equal(s->label, smoe_dataset_class_name(x.set, (size_t)label));
        for (size_t k = 0; k < 64; k++) assert_true(s->pixels[k] == (float)pixels[k]);
        smoe_pass pass = {.images = 1};
        smoe_model_forward(x.model, pixels, &pass);
        const real *logit = smoe_model_logits(x.model);
        size_t best = 0;
        double sum = 0;
        for (size_t c = 0; c < 10; c++)
            if (logit[c] > logit[best]) best = c;
        for (size_t c = 0; c < 10; c++) sum += exp((double)logit[c]);
        assert_string_equal(s->prediction, smoe_dataset_class_name(x.set, best));
        /* ten exponentials in single precision */
        assert_close(s->probability, exp((double)logit[best]) / sum, 1e-6);
    }
    free(pixels);
    inspect_fixture_free(&x);
}

/* The elements of a .npy file; its header must contain this dictionary. */
static const void *elements(const char *text, const char *dictionary) {
    size_t length = (unsigned char)text[8] + 256 * (size_t)(unsigned char)text[9];
    assert_true(!strncmp(text + 10, dictionary, strlen(dictionary)));
    return text + 10 + length;
}

static void dense_dump(void **state) {
    char buf[SCRATCH_PATH], dictionary[128];
    const char *path = scratch_path(*state, buf, "dense.npy");
    inspect_fixture x;
    smoe_err err;
    size_t size;
    inspect_fixture_make(
        &x, "model.moe.router=soft model.moe.slots_per_expert=0 model.moe.capacity=[0.5,1.5]", 3,
        2);
    size_t S = x.sample->layer[1].S; /* the most, of the second layer */
    assert_true(x.S < S);
    assert_int_equal(smoe_inspect_dump(x.inspection, path, &err), 0);
    char *text = scratch_read(path, &size);
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 2, %zu, %zu)", x.T, S);
    const float *at = elements(text, dictionary);
    assert_int_equal(text + size - (char *)at, 3 * 2 * 2 * x.T * S * sizeof *at);
    for (size_t i = 0; i < 3 * 2 * 2 * x.T * S; i++) {
        const smoe_sample_layer *layer = &x.sample[i / S / x.T / 4].layer[i / S / x.T / 2 % 2];
        const float *w = i / S / x.T % 2 ? layer->combine : layer->dispatch;
        size_t t = i / S % x.T, s = i % S;
        assert_true(at[i] == (s < layer->S ? w[t * layer->S + s] : 0));
    }
    free(text);
    inspect_fixture_free(&x);
}

static void sparse_dump(void **state) {
    char buf[SCRATCH_PATH], dictionary[128];
    const char *path = scratch_path(*state, buf, "sparse.npy");
    inspect_fixture x;
    smoe_err err;
    size_t size, rows = 0, at = 0;
    inspect_fixture_make(&x, "model.moe.router=tokens-choice model.moe.capacity=0.5", 3, 2);
    for (size_t i = 0; i < 6; i++) rows += x.sample[i / 2].layer[i % 2].places;
    assert_true(rows > 0 && rows < 3 * 2 * x.T);
    assert_int_equal(smoe_inspect_dump(x.inspection, path, &err), 0);
    char *text = scratch_read(path, &size);
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '<f8', 'fortran_order': False, 'shape': (%zu, 6)", rows);
    const double *row = elements(text, dictionary);
    assert_int_equal(text + size - (char *)row, rows * 6 * sizeof *row);
    for (size_t i = 0; i < 6; i++) {
        const smoe_sample_layer *layer = &x.sample[i / 2].layer[i % 2];
        for (size_t k = 0; k < layer->places; k++, at += 6) {
            const smoe_sample_place *place = &layer->place[k];
            const double right[] = {(double)(i / 2),      (double)layer->block,
                                    (double)place->token, (double)place->expert,
                                    (double)place->slot,  (double)place->weight};
            assert_memory_equal(row + at, right, sizeof right);
        }
    }
    assert_int_equal(at, rows * 6);
    free(text);
    inspect_fixture_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soft_weights),        cmocka_unit_test(choice_placements),
        cmocka_unit_test(identity_placements), cmocka_unit_test(images_are_told_apart),
        unit_test_with(dense_dump, scratch),   unit_test_with(sparse_dump, scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
