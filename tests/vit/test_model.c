/*
 * The whole model: an image's logits do not depend on the other images, to the bit; reserving for
 * training or for inference, for more images or with another number of threads, changes no bit; the
 * memory that is measured equals the memory that is used; which layer is named for a number that is
 * not finite.
 */
#include "base/rng.h"
#include "base/threads.h"
#include "approx.h"
#include "gradcheck.h"
#include "models.h"
#include "spec/routers.h"
#include "train/task.h"
#include "train/optim.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGES = 9, MOST_CLASSES = 8 };

/* A size at which products are split, tiles are partial and threads share work. */
#define WIDER                                                                       \
    "model.width=24 model.heads=3 model.mlp=40 model.patch_size=2 data.channels=3 " \
    "model.moe.capacity=1.5 "

static void reserve(models_rig *r, size_t B, bool train) {
    smoe_err err;
    if (smoe_model_reserve(r->model, B, train, &err)) fail_msg("%s", err.text);
}

/* Logits of all images in batches of B, evaluated. */
static void logits_of(models_rig *r, real *out, size_t B) {
    for (size_t b = 0; b < IMAGES; b += B) {
        smoe_pass pass = {.images = IMAGES - b < B ? IMAGES - b : B};
        smoe_model_forward(r->model, r->image + b * r->pixels, &pass);
        memcpy(out + b * r->N, smoe_model_logits(r->model), pass.images * r->N * sizeof *out);
    }
}

static void assert_same_logits(const models_rig *r, const real *a, const real *b, const char *why) {
    if (memcmp(a, b, IMAGES * r->N * sizeof *a)) fail_msg("%s: %s", r->spec.model.moe.router, why);
    for (size_t i = 0; i < IMAGES * r->N; i++) assert_true(isfinite(a[i]) && a[i] != 0);
}

/* Routers whose images do not compete: all but the choice family. */
static bool images_compete(const models_rig *r) {
    return strstr(r->spec.model.moe.router, "-choice") != NULL;
}

static void independent(const char *keys) {
    models_rig r;
    real alone[IMAGES * MOST_CLASSES], other[IMAGES * MOST_CLASSES];
    if (!models_make(&r, keys, IMAGES, false)) fail_msg("%s was refused", keys);
    if (!images_compete(&r)) {
        logits_of(&r, alone, 1);
        for (size_t B = 2; B <= IMAGES; B++) {
            logits_of(&r, other, B);
            assert_same_logits(&r, alone, other, "an image's batch changed its logits");
        }
        /* other images, another place: in reverse order */
        size_t bytes = r.pixels * sizeof *r.image;
        real *reversed = malloc(IMAGES * bytes), back[IMAGES * MOST_CLASSES], *image = r.image;
        assert_non_null(reversed);
        for (size_t b = 0; b < IMAGES; b++)
            memcpy(reversed + (IMAGES - 1 - b) * r.pixels, image + b * r.pixels, bytes);
        r.image = reversed;
        logits_of(&r, back, IMAGES);
        r.image = image;
        for (size_t b = 0; b < IMAGES; b++)
            memcpy(other + b * r.N, back + (IMAGES - 1 - b) * r.N, r.N * sizeof *back);
        assert_same_logits(&r, alone, other, "an image's place changed its logits");
        free(reversed);
        reserve(&r, IMAGES, true);
        for (size_t B = 1; B <= 7; B += B == 1 ? 2 : 4) {
            logits_of(&r, other, B);
            assert_same_logits(&r, alone, other, "reserving for training changed the logits");
        }
        reserve(&r, IMAGES, false);
        logits_of(&r, other, IMAGES);
        assert_same_logits(&r, alone, other, "reserving again for inference changed the logits");
    }
    models_free(&r);
}

static void images_are_independent(void **state) {
    static const char *const heads[] = {"gap", "token", "map"};
    for (size_t i = 0; i < SMOE_ROUTERS; i++)
        for (size_t h = 0; h < 3; h++) {
            char keys[256];
            snprintf(keys, sizeof keys, WIDER "model.head=%s model.moe.router=%s %s", heads[h],
                     smoe_routers[i].name, h == 2 ? "model.qk_norm=true" : "");
            independent(keys);
        }
    independent(WIDER "model.moe.layers=none");
    independent(WIDER
                "model.moe.layers=every-1 model.moe.slots_per_expert=7 model.moe.normalize=false");
    independent("model.moe.slots_per_expert=1 model.patch_size=8");
    /* Few images use two products per layer, more the fused MLP (math/fused_mlp.h). */
    int threads = smoe_threads();
    smoe_threads_set(2);
    independent(WIDER "model.moe.layers=every-1 model.moe.experts=8 model.moe.slots_per_expert=3");
    smoe_threads_set(threads);
}

/* The images of one group compete, those of different groups do not: the law above can fail. */
static void groups_are_independent(void **state) {
    models_rig r;
    real whole[IMAGES * MOST_CLASSES], pairs[IMAGES * MOST_CLASSES], single[IMAGES * MOST_CLASSES];
    assert_true(models_make(&r,
                            WIDER "model.moe.router=tokens-choice model.moe.group_images=2 "
                                  "model.moe.capacity=0.5 model.moe.priority=bpr",
                            IMAGES, false));
    logits_of(&r, whole, IMAGES);
    logits_of(&r, pairs, 2);
    assert_same_logits(&r, whole, pairs, "another group changed a group's logits");
    logits_of(&r, single, 1);
    assert_memory_not_equal(whole, single, sizeof(real) * IMAGES * r.N);
    models_free(&r);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Five steps of training; gradients of the first into g. */
static void train(models_rig *r, real *g) {
    smoe_train_spec *t = &r->spec.train;
    real target[IMAGES * MOST_CLASSES] = {0}, d[IMAGES * MOST_CLASSES];
    double rows[IMAGES];
    for (size_t b = 0; b < IMAGES; b++) target[b * r->N + b % r->N] = 1;
    for (size_t step = 0; step < 5; step++) {
        smoe_task_sums sums = {0};
        r->pass.step = step;
        smoe_model_forward(r->model, r->image, &r->pass);
        smoe_task_measure(smoe_task_of(t->loss), &sums, d, rows,
                          &(const smoe_task_batch){.logits = smoe_model_logits(r->model),
                                                   .target = target,
                                                   .B = IMAGES,
                                                   .N = r->N,
                                                   .whole = IMAGES});
        smoe_model_backward(r->model, d, &r->pass);
        if (!step) memcpy(g, r->params->g, r->params->size * sizeof *g);
        smoe_optim_step(r->params, t, step, smoe_optim_norm(r->params));
    }
}

static void same_bits(const char *keys) {
    real *first[2] = {NULL, NULL}; /* gradients and weights of one thread */
    for (int threads = 1; threads <= 3; threads++) {
        models_rig r;
        smoe_err err;
        smoe_threads_set(threads);
        if (!models_make(&r, keys, IMAGES, true)) fail_msg("%s was refused", keys);
        assert_int_equal(smoe_params_allocate(r.params, 4, &err), 0);
        size_t bytes = r.params->size * sizeof(real);
        real *g = malloc(bytes), *w = malloc(bytes);
        assert_true(g && w);
        train(&r, g);
        memcpy(w, r.params->w, bytes);
        models_free(&r);
        if (threads == 1) {
            first[0] = g;
            first[1] = w;
            continue;
        }
        if (memcmp(first[0], g, bytes)) fail_msg("%s: gradients, %d threads", keys, threads);
        if (memcmp(first[1], w, bytes)) fail_msg("%s: weights, %d threads", keys, threads);
        free(g);
        free(w);
    }
    for (size_t i = 0; first[0][i] == 0; i++) {
    } /* there were gradients */
    free(first[0]);
    free(first[1]);
    smoe_threads_set(2);
}

static void same_bits_for_any_threads(void **state) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        char keys[256];
        snprintf(keys, sizeof keys,
                 WIDER "train.batch_size=9 model.moe.router=%s model.moe.group_images=3 "
                       "model.moe.k=2 model.dropout=0.1 model.moe.expert_dropout=0.2",
                 smoe_routers[i].name);
        same_bits(keys);
    }
    same_bits(WIDER "model.head=map model.qk_norm=true model.drop_path=0.5");
    same_bits(WIDER "model.head=token model.moe.experts=20 train.loss=sigmoid");
    /* products large enough to be split */
    same_bits("model.width=96 model.heads=3 model.mlp=192 model.patch_size=1 model.moe.experts=4");
}

/* Multiplies the tensors that end the branches of block 0: attention's, and the MLP's or
 * experts'. */
static void scale_branches(models_rig *r, const double by[2]) {
    static const char *const ends[2][4] = {{"blocks.0.attn.proj.weight", "blocks.0.attn.proj.bias"},
                                           {"blocks.0.mlp.fc2.weight", "blocks.0.mlp.fc2.bias",
                                            "blocks.0.mlp.experts.fc2.weight",
                                            "blocks.0.mlp.experts.fc2.bias"}};
    for (size_t k = 0; k < 8; k++) {
        const char *name = ends[k / 4][k % 4];
        const smoe_param *p = name ? smoe_params_find(r->params, name) : NULL;
        for (size_t i = 0; p && i < p->size; i++) r->params->w[p->offset + i] *= (real)by[k / 4];
    }
}

/* Training with drop_path 0.75 equals, image by image, the model whose branches are multiplied
 * by 0 or 4: all four combinations occur among 64 images. A single block has the whole rate. */
static void branches_weigh_nothing_or_more(void **state) {
    static const char *const keys[] = {
        "model.moe.layers=none", "model.moe.layers=all model.moe.slots_per_expert=2",
        "model.moe.layers=all model.moe.router=experts-choice model.moe.noise=0",
        "model.moe.layers=all model.moe.router=identity"};
    enum { MANY = 64 };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        real as[4][MANY * MOST_CLASSES], trained[MANY * MOST_CLASSES];
        models_rig r;
        char text[256];
        snprintf(text, sizeof text, "model.depth=1 model.drop_path=0.75 %s", keys[k]);
        assert_true(models_make(&r, text, MANY, true));
        smoe_model_forward(r.model, r.image, &r.pass);
        memcpy(trained, smoe_model_logits(r.model), MANY * r.N * sizeof *trained);
        r.pass.train = false;
        for (size_t c = 0; c < 4; c++) {
            models_rig other;
            assert_true(models_make(&other, text, MANY, false));
            scale_branches(&other, (const double[]){c / 2 ? 4 : 0, c % 2 ? 4 : 0});
            smoe_model_forward(other.model, r.image, &r.pass);
            memcpy(as[c], smoe_model_logits(other.model), MANY * r.N * sizeof **as);
            models_free(&other);
        }
        size_t found[4] = {0};
        for (size_t b = 0; b < MANY; b++) {
            size_t like = 0, which = 0;
            for (size_t c = 0; c < 4; c++) {
                double far = 0;
                for (size_t i = b * r.N; i < (b + 1) * r.N; i++)
                    far = fmax(far, fabs((double)(trained[i] - as[c][i])));
                if (far > 1e-4) continue;
                like++;
                which = c;
            }
            assert_int_equal(like, 1);
            found[which]++;
        }
        for (size_t c = 0; c < 4; c++) assert_true(found[c] > 0);
        assert_true(found[0] > found[3]); /* 9/16 and 1/16 of them */
        models_free(&r);
    }
}

/* Each step draws anew: dropout and noise of two steps differ, those of the same step agree. */
static void passes_are_keyed(void **state) {
    static const char *const keys[] = {
        "model.dropout=0.5", "model.moe.expert_dropout=0.5", "model.drop_path=0.5",
        "model.moe.soft_noise=3",
        "model.moe.router=tokens-choice model.moe.noise=9 model.patch_size=2"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        models_rig r;
        real a[IMAGES * MOST_CLASSES], b[IMAGES * MOST_CLASSES], c[IMAGES * MOST_CLASSES];
        real *const out[] = {a, b, c};
        assert_true(models_make(&r, keys[i], IMAGES, true));
        for (size_t k = 0; k < 3; k++) {
            r.pass.step = k == 1 ? 3 : 2;
            smoe_model_forward(r.model, r.image, &r.pass);
            memcpy(out[k], smoe_model_logits(r.model), IMAGES * r.N * sizeof *a);
        }
        assert_memory_equal(a, c, IMAGES * r.N * sizeof *a);
        assert_memory_not_equal(a, b, IMAGES * r.N * sizeof *a);
        models_free(&r);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of address space of this process. */
static size_t mapped(void) {
    char line[128];
    FILE *in = fopen("/proc/self/statm", "re");
    assert_non_null(in);
    assert_non_null(fgets(line, sizeof line, in));
    fclose(in);
    return strtoul(line, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* What _measure returns is what _reserve maps, up to a page for each of the two arenas. */
static void memory_is_as_measured(void **state) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < SMOE_ROUTERS; i++)
        for (int train = 0; train < 2; train++) {
            models_rig r;
            char keys[200];
            snprintf(keys, sizeof keys, WIDER "model.moe.router=%s", smoe_routers[i].name);
            assert_true(models_make(&r, keys, 1, train));
            mapped(); /* so that memory of the C library is already mapped */
            size_t one = smoe_model_measure(r.model, 1, train), before = mapped();
            size_t many = smoe_model_measure(r.model, 64, train);
            reserve(&r, 64, train);
            size_t grown = mapped() - before;
            assert_true(many > 20 * one); /* grows with the batch */
            assert_true(grown + one + 4 * page >= many && grown + one <= many + 4 * page);
            assert_int_equal(smoe_model_measure(r.model, 1, train), one); /* changes nothing */
            models_free(&r);
        }
}

/* ---- numbers that are not finite, values that may be read ------------------------------------ */

static void poison(const char *tensor, const char *layer) {
    models_rig r;
    char name[64] = "";
    assert_true(models_make(&r, "model.depth=3", 2, true));
    if (tensor) {
        const smoe_param *p = smoe_params_find(r.params, tensor);
        assert_non_null(p);
        r.params->w[p->offset + p->size - 1] = (real)NAN;
    }
    smoe_model_forward(r.model, r.image, &r.pass);
    smoe_model_nonfinite(r.model, &r.pass, name, sizeof name);
    assert_string_equal(name, layer);
    models_free(&r);
}

static void first_layer_that_is_not_finite(void **state) {
    poison("patch_embed.proj.bias", "patch_embed");
    poison("blocks.0.attn.qkv.bias", "blocks.0.attn");
    poison("blocks.1.mlp.fc2.weight", "blocks.1.mlp");
    poison("blocks.2.mlp.experts.fc1.weight", "blocks.2.mlp");
    poison("blocks.2.mlp.router.phi", "blocks.2.mlp");
    poison("head.weight", "head");
    poison(NULL, "loss");
}

typedef struct seen {
    size_t calls, last;
    double sum;
} seen;

static void watch(void *user, size_t i, const smoe_router *router) {
    seen *s = user;
    s->calls++;
    s->last = i;
    for (size_t k = 0; k < router->plan.S; k++) s->sum += (double)router->plan.dense.comb[k];
}

static void plans_can_be_watched(void **state) {
    models_rig r;
    seen s = {0};
    assert_true(models_make(&r, "model.depth=4 model.moe.layers=[1,3]", 2, false));
    assert_int_equal(smoe_model_moe_layers(r.model), 2);
    assert_int_equal(smoe_model_moe_block(r.model, 1), 3);
    smoe_model_watch(r.model, watch, &s);
    smoe_model_forward(r.model, r.image, &r.pass);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.last, 1);
    assert_close(s.sum, 2, 1e-6); /* a row of C in each layer: a few roundings of 6e-8 */
    models_free(&r);
}

/* Logits are the head applied to the features. */
static void features_before_the_head(void **state) {
    static const char *const heads[] = {"model.head=gap", "model.head=token", "model.head=map"};
    for (size_t h = 0; h < 3; h++) {
        models_rig r;
        assert_true(models_make(&r, heads[h], 2, false));
        smoe_model_forward(r.model, r.image, &r.pass);
        const real *features = smoe_model_features(r.model), *logits = smoe_model_logits(r.model);
        const real *w = r.params->w + smoe_params_find(r.params, "head.weight")->offset;
        const real *bias = r.params->w + smoe_params_find(r.params, "head.bias")->offset;
        for (size_t i = 0; i < 2 * r.N; i++) {
            double sum = (double)bias[i % r.N];
            for (size_t k = 0; k < 8; k++)
                sum += (double)features[i / r.N * 8 + k] * (double)w[i % r.N * 8 + k];
            assert_close(logits[i], sum, 1e-6); /* nine terms of about 1 at most */
        }
        models_free(&r);
    }
}

/* Before training, a sigmoid predicts 1/(1 + N) for each of N classes, as one class in N needs
 * (V-MoE); a softmax predicts 1/N. */
static void the_head_before_learning(void **state) {
    static const char *const keys[] = {"data.classes=10 train.loss=softmax",
                                       "data.classes=10 train.loss=sigmoid"};
    for (int k = 0; k < 2; k++) {
        models_rig r;
        assert_true(models_make(&r, keys[k], 1, false));
        smoe_params_init(r.params, 1);
        smoe_model_forward(r.model, r.image, &r.pass);
        for (size_t c = 0; c < 10; c++)
            assert_close(smoe_model_logits(r.model)[c], (real)(k ? -log(10) : 0), 0);
        models_free(&r);
    }
}

/* One training pass and its backward pass over random dlogits. */
static void differentiate(models_rig *r) {
    real dlogits[IMAGES * MOST_CLASSES];
    smoe_rng rng = smoe_rng_at(4, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < r->B * r->N; i++) dlogits[i] = (real)smoe_rng_normal(&rng);
    smoe_pass pass = {.train = true, .images = r->B};
    smoe_model_forward(r->model, r->image, &pass);
    smoe_model_backward(r->model, dlogits, &pass);
}

/* A fresh gradient counts as zero whatever is in memory, also for experts without a row. The
 * optimiser marks those of the experts' kernels as fresh, and clears all others. */
static void fresh_gradients(void **state) {
    static const char *const routers[] = {
        "soft", "tokens-choice model.moe.experts=9 model.moe.capacity=0.2",
        "identity model.moe.experts=2 model.moe.slots_per_expert=2"};
    for (size_t k = 0; k < sizeof routers / sizeof *routers; k++) {
        char keys[200];
        models_rig r;
        snprintf(keys, sizeof keys, "model.moe.router=%s", routers[k]);
        if (!models_make(&r, keys, IMAGES, true)) fail_msg("%s was refused", keys);
        size_t bytes = r.params->size * sizeof(real), fresh = 0;
        real *zeroed = malloc(bytes);
        assert_non_null(zeroed);
        memset(r.params->g, 0, bytes);
        differentiate(&r);
        memcpy(zeroed, r.params->g, bytes);
        smoe_optim_step(r.params, &(smoe_train_spec){.optimizer = {.name = SMOE_OPTIMIZER_SGD}}, 0,
                        1); /* lr 0 */
        for (size_t i = 0; i < r.params->count; i++) {
            const smoe_param *p = &r.params->param[i];
            assert_int_equal(p->fresh,
                             strstr(p->name, ".experts.fc") && strstr(p->name, ".weight"));
            fresh += p->fresh;
            for (size_t j = 0; j < p->size; j++) {
                real *g = &r.params->g[p->offset + j];
                if (p->fresh)
                    *g = (real)NAN;
                else
                    assert_true(*g == 0);
            }
        }
        assert_true(fresh > 0);
        differentiate(&r);
        assert_memory_equal(r.params->g, zeroed, bytes);
        differentiate(
            &r); /* added to the present ones: twice as much, up to 6e-8 for each of 100 rows */
        for (size_t i = 0; i < r.params->size; i++)
            assert_close(r.params->g[i], 2 * zeroed[i], 1e-5 * (1 + fabs((double)zeroed[i])));
        free(zeroed);
        models_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_independent),
        cmocka_unit_test(groups_are_independent),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(passes_are_keyed),
        cmocka_unit_test(branches_weigh_nothing_or_more),
        cmocka_unit_test(memory_is_as_measured),
        cmocka_unit_test(first_layer_that_is_not_finite),
        cmocka_unit_test(plans_can_be_watched),
        cmocka_unit_test(features_before_the_head),
        cmocka_unit_test(the_head_before_learning),
        cmocka_unit_test(fresh_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
