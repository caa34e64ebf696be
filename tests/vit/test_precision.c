/*
 * train.precision and eval.precision: gradients of every router of routers.def compared with those
 * of F32, the same bits for any number of threads, images independent of one another, and which of
 * the two keys a pass follows. The products themselves are in math/test_matrix.c.
 */
#include "base/threads.h"
#include "gradcheck.h"
#include "isas.h"
#include "models.h"
#include "spec/routers.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 6, KEYS = 512 };

/* Wide enough to have partial and whole tiles; 5 x 5 tokens and one more. */
static const char wide[] = "data.image_size=20 model.width=40 model.mlp=72 model.heads=2 "
                           "model.head=token model.moe.total_slots=12";

static void pass(models_rig *r, const real *projection, int threads) {
    smoe_threads_set(threads);
    memset(r->params->g, 0, r->params->size * sizeof *r->params->g);
    smoe_model_forward(r->model, r->image, &r->pass);
    smoe_model_backward(r->model, projection, &r->pass);
    smoe_threads_set(2);
}

/* Cosine of two tensors' gradients, and the ratio of their norms. */
static double cosine(const real *x, const real *y, size_t n, double *ratio) {
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    *ratio = xx > 0 ? sqrt(yy / xx) : yy > 0 ? INFINITY : 1;
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : xx == yy;
}

/* Whether gradients agree tensor by tensor. One operand of a product has an error of at most u =
 * 2^-8 in BF16, and 2^-16 split; a gradient has gone through fewer than 32 products in sequence,
 * whose errors have random signs. */
static void assert_gradients(const models_rig *right, const models_rig *r, const char *keys,
                             double u) {
    double most = 32 * u;
    for (size_t i = 0; i < r->params->count; i++) {
        const smoe_param *p = &r->params->param[i];
        const real *x = right->params->g + p->offset, *y = r->params->g + p->offset;
        double ratio, cos = cosine(x, y, p->size, &ratio);
        if (strstr(p->name, "qkv.bias")) continue; /* a third of it is 0 up to rounding */
        /* A single number is a sum of terms that mostly cancel: only the terms have a bound. */
        if (p->size == 1) continue;
        if (!(1 - cos <= most * most / 2 && fabs(ratio - 1) <= most))
            fail_msg("%s: %s: cosine %.9f, ratio %.9f", keys, p->name, cos, ratio);
    }
}

static bool accepted(const char *router, const char *extra, const char *precision, models_rig *r) {
    char keys[KEYS];
    snprintf(keys, sizeof keys, "%s model.moe.router=%s train.precision=%s %s", wide, router,
             precision, extra);
    return models_make(r, keys, IMAGES, true);
}

static void gradients(void **state) {
    static const struct {
        const char *name;
        double u;
    } precisions[] = {{"bf16x3", 0x1p-16}, {"bf16", 0x1p-8}};
    /* Choice routers choose in F32, but from rows that rounding has changed: with all experts,
     * or a constant choice, no decision can change. */
    static const char *const extras[] = {"", "model.moe.total_slots=0 model.moe.k=3 "
                                             "model.moe.capacity=3 model.moe.noise=0 "
                                             "model.moe.aux_weight=0"};
    size_t compared = 0;
    for (size_t i = 0; i < SMOE_ROUTERS; i++)
        for (size_t e = 0; e < 2; e++) {
            const char *router = smoe_routers[i].name;
            models_rig right;
            /* Rounding changes which entries of its plan are 0. */
            if (!e && !strcmp(router, "experts-choice-sparse")) continue;
            if (!accepted(router, extras[e], "f32", &right)) continue;
            real *projection = calloc(IMAGES * right.N, sizeof *projection);
            assert_non_null(projection);
            gradcheck_normal(projection, IMAGES * right.N, 23);
            pass(&right, projection, 1);
            for (size_t p = 0; p < 2; p++) {
                models_rig r;
                char keys[KEYS];
                assert_true(accepted(router, extras[e], precisions[p].name, &r));
                pass(&r, projection, 1);
                snprintf(keys, sizeof keys, "%s %s, %s", router, extras[e], precisions[p].name);
                assert_gradients(&right, &r, keys, precisions[p].u);
                size_t bytes = r.params->size * sizeof *r.params->g;
                real *alone = malloc(bytes);
                assert_non_null(alone);
                memcpy(alone, r.params->g, bytes);
                assert_memory_not_equal(alone, right.params->g, bytes);
                for (int threads = 2; threads <= 3; threads++) {
                    pass(&r, projection, threads);
                    assert_memory_equal(alone, r.params->g, bytes);
                }
                free(alone);
                models_free(&r);
                compared++;
            }
            free(projection);
            models_free(&right);
            break;
        }
    assert_int_equal(compared, 2 * SMOE_ROUTERS);
}

/* The gradient of a dense model whose weights of queries and keys are `factor` times as large, so
 * that its logits of attention are factor^2 times as large; if `rounded`, all weights are rounded to
 * BF16. Fresh. */
static real *gradient_of(const char *head, double factor, const char *precision, bool rounded,
                         size_t *size) {
    models_rig r;
    char extra[80];
    real projection[IMAGES * 8];
    snprintf(extra, sizeof extra, "model.moe.layers=none model.head=%s", head);
    assert_true(accepted("soft", extra, precision, &r) && r.N <= 8);
    gradcheck_normal(projection, IMAGES * r.N, 23);
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *p = &r.params->param[i];
        real *w = r.params->w + p->offset;
        bool scores = strstr(p->name, "qkv.weight");
        for (size_t k = 0; scores && k < p->size / 3 * 2; k++) w[k] *= (real)factor;
        for (size_t k = 0; rounded && k < p->size; k++)
            w[k] = (real)smoe_bf16_widen(smoe_bf16_round((float)w[k]));
    }
    pass(&r, projection, 2);
    *size = r.params->size;
    real *g = malloc(*size * sizeof *g);
    assert_non_null(g);
    memcpy(g, r.params->g, *size * sizeof *g);
    models_free(&r);
    return g;
}

/* The distance of two gradients, relative to the first, which is kept; the other is freed. */
static double distance(const real *x, real *y, size_t n) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        size += (double)x[i] * (double)x[i];
    }
    free(y);
    return sqrt(apart / size);
}

/* Large logits of attention make a gradient sensitive to rounding. In BF16 its error is that of a
 * model in F32 whose weights are rounded once, and no more: a seventh of the gradient at logits of
 * 84. The factor 4: activations and gradients are rounded too, by as much, and where errors are not
 * small they are not proportional. */
static void large_logits(void **state) {
    static const char *const heads[] = {"gap", "token", "map"};
    for (size_t h = 0; h < 3; h++)
        for (double factor = 0.5; factor <= 4; factor *= 2) {
            size_t n;
            real *right = gradient_of(heads[h], factor, "f32", false, &n);
            double rounding = distance(right, gradient_of(heads[h], factor, "f32", true, &n), n);
            double found = distance(right, gradient_of(heads[h], factor, "bf16", false, &n), n);
            double split = distance(right, gradient_of(heads[h], factor, "bf16x3", false, &n), n);
            if (!(found <= 4 * rounding) || !(split <= 4 * rounding / 0x1p8))
                fail_msg(
                    "head %s, factor %g: %.5f in bf16, %.7f in bf16x3, %.5f by rounding weights",
                    heads[h], factor, found, split, rounding);
            free(right);
        }
}

/* An image has the same logits alone and as the last of several. */
static void images_apart(void **state) {
    for (int split = 0; split < 2; split++) {
        models_rig r;
        assert_true(accepted("soft", "", split ? "bf16x3" : "bf16", &r));
        real alone[16];
        assert_true(r.N <= 16);
        smoe_pass one = {.seed = r.pass.seed, .images = 1}, all = one;
        smoe_model_forward(r.model, r.image + (IMAGES - 1) * r.pixels, &one);
        memcpy(alone, smoe_model_logits(r.model), r.N * sizeof *alone);
        all.images = IMAGES;
        smoe_model_forward(r.model, r.image, &all);
        assert_memory_equal(alone, smoe_model_logits(r.model) + (IMAGES - 1) * r.N,
                            r.N * sizeof *alone);
        models_free(&r);
    }
}

/* Logits of a pass, training or not, with these precisions. */
static void logits_of(real *logits, const char *train, const char *eval, bool training) {
    models_rig r;
    char extra[64];
    snprintf(extra, sizeof extra, "eval.precision=%s", eval);
    assert_true(accepted("soft", extra, train, &r));
    r.pass.train = training;
    smoe_model_forward(r.model, r.image, &r.pass);
    memcpy(logits, smoe_model_logits(r.model), 5 * sizeof *logits);
    models_free(&r);
}

static void which_key_sets_the_precision(void **state) {
    real f32[5], bf16[5], x[5];
    logits_of(f32, "f32", "trained", false);
    logits_of(bf16, "bf16", "trained", false);
    assert_memory_not_equal(f32, bf16, sizeof f32);
    logits_of(x, "f32", "bf16", false);
    assert_memory_equal(x, bf16, sizeof x);
    logits_of(x, "bf16", "f32", false);
    assert_memory_equal(x, f32, sizeof x);
    logits_of(x, "bf16", "f32", true);
    assert_memory_equal(x, bf16, sizeof x);
    logits_of(x, "f32", "bf16x3", false);
    assert_memory_not_equal(x, f32, sizeof x);
    assert_memory_not_equal(x, bf16, sizeof x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),      cmocka_unit_test(large_logits),
        cmocka_unit_test(images_apart),   cmocka_unit_test(which_key_sets_the_precision),
        cmocka_unit_test(isas_run_again),
    };
    smoe_threads_set(2);
    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
