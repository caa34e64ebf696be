/*
 * Special experts: shared experts that see every token, and universal ones of another width, with
 * every router. Gradients are in test_grad_layers.c; here a part of the layer is made equal to
 * something else, and must have its bits.
 */
#include "approx.h"
#include "models.h"
#include "spec/routers.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 2, CLASSES = 5 };

static real *weights(const models_rig *r, const char *name, size_t *size) {
    char full[80];
    snprintf(full, sizeof full, "blocks.1.mlp.%s", name);
    const smoe_param *p = smoe_params_find(r->params, full);
    if (!p) fail_msg("no tensor %s", full);
    if (size) *size = p->size;
    return r->params->w + p->offset;
}

static void make(models_rig *r, const char *router, const char *keys) {
    char all[320];
    snprintf(all, sizeof all, "model.moe.router=%s model.moe.slots_per_expert=2 %s", router, keys);
    if (!models_make(r, all, IMAGES, true)) fail_msg("%s was refused", all);
}

static const char *const tensors[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

/* Everything except the experts of block 1 is copied from another model. */
static void take_rest(models_rig *to, const models_rig *from) {
    for (size_t i = 0; i < to->params->count; i++) {
        const smoe_param *p = &to->params->param[i];
        const smoe_param *other = smoe_params_find(from->params, p->name);
        if (other && other->size == p->size)
            memcpy(to->params->w + p->offset, from->params->w + other->offset,
                   p->size * sizeof(real));
    }
}

static void assert_same_logits(models_rig *a, models_rig *b, const char *router) {
    smoe_model_forward(a->model, a->image, &a->pass);
    smoe_model_forward(b->model, b->image, &b->pass);
    const real *x = smoe_model_logits(a->model), *y = smoe_model_logits(b->model);
    for (size_t i = 0; i < (size_t)IMAGES * CLASSES; i++) {
        assert_true(isfinite(x[i]) && x[i] != 0);
        if (x[i] != y[i]) fail_msg("%s: logit %zu is %g, not %g", router, i, x[i], y[i]);
    }
}

/* Two of five experts in a tensor of their own, with the same width, equal the same five experts
 * in one. */
static void universal_ones_are_experts(void **state) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        models_rig all, split;
        const char *router = smoe_routers[i].name;
        static const char dropped[] = "model.moe.experts=5 model.moe.expert_dropout=0.4";
        char keys[128];
        snprintf(keys, sizeof keys, "%s model.moe.universal_experts=2", dropped);
        make(&all, router, dropped);
        make(&split, router, keys);
        take_rest(&split, &all);
        for (size_t k = 0; k < 4; k++) {
            char name[40];
            size_t n, core, rest;
            snprintf(name, sizeof name, "experts.%s", tensors[k]);
            const real *from = weights(&all, name, &n);
            real *to = weights(&split, name, &core);
            memcpy(to, from, core * sizeof *to);
            snprintf(name, sizeof name, "universal.%s", tensors[k]);
            to = weights(&split, name, &rest);
            memcpy(to, from + core, rest * sizeof *to);
            assert_int_equal(core, n / 5 * 3);
            assert_int_equal(rest, n / 5 * 2);
        }
        assert_same_logits(&all, &split, router);
        models_free(&all);
        models_free(&split);
    }
}

/* If routed experts give 0, a layer with a shared expert is the dense block with its weights. */
static void shared_one_alone_is_the_dense_mlp(void **state) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        models_rig dense, r;
        make(&dense, "soft", "model.moe.layers=none");
        make(&r, smoe_routers[i].name, "model.moe.shared_experts=1");
        take_rest(&r, &dense);
        for (size_t k = 0; k < 4; k++) {
            char name[40];
            size_t n, m;
            const real *from = weights(&dense, tensors[k], &n);
            snprintf(name, sizeof name, "shared.%s", tensors[k]);
            real *to = weights(&r, name, &m);
            assert_int_equal(n, m);
            memcpy(to, from, n * sizeof *to);
            snprintf(name, sizeof name, "experts.%s", tensors[k]);
            to = weights(&r, name, &m);
            if (k >= 2) memset(to, 0, m * sizeof *to);
        }
        assert_same_logits(&dense, &r, smoe_routers[i].name);
        models_free(&dense);
        models_free(&r);
    }
}

/* Widths, and initial values of a shared expert: n experts of width h side by side, each with
 * the standard deviation for its own width. h = 3, d = 8: sqrt(2/11). */
static void widths(void **state) {
    models_rig r;
    make(&r, "soft",
         "model.moe.experts=4 model.moe.expert_mlp=3 model.moe.universal_experts=1 "
         "model.moe.universal_mlp=7 model.moe.shared_experts=2");
    const struct {
        const char *name;
        size_t size;
    } rows[] = {{"experts.fc1.weight", 3 * 3 * 8}, {"experts.fc1.bias", 3 * 3},
                {"universal.fc2.weight", 7 * 8},   {"shared.fc1.weight", 2 * 3 * 8},
                {"shared.fc2.weight", 2 * 3 * 8},  {"shared.fc2.bias", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size;
        weights(&r, rows[i].name, &size);
        assert_int_equal(size, rows[i].size);
    }
    const smoe_param *p = smoe_params_find(r.params, "blocks.1.mlp.shared.fc1.weight");
    assert_close(p->std * p->std, 2.0 / 11, 1e-12);
    p = smoe_params_find(r.params, "blocks.0.mlp.fc1.weight"); /* a dense block has its own width */
    assert_int_equal(p->dim[0], 6);
    models_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(universal_ones_are_experts),
        cmocka_unit_test(shared_one_alone_is_the_dense_mlp),
        cmocka_unit_test(widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
