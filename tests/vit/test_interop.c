/* Whole models against a separate implementation: tests/interop/reference.py, which writes the
 * methods in PyTorch, in double precision and with its own gradients, made expected.def. Logits
 * of an evaluation, then the losses of a few training steps. Weights and pixels follow the
 * formulas given there. */
#include "approx.h"
#include "models.h"
#include "spec/routers.h"
#include "train/task.h"
#include "train/optim.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 4, CLASSES = 5, STEPS = 4, PIXELS = 8 * 8 };

static const size_t labels[IMAGES] = {0, 3, 1, 4};

static const char training[] = " train.optimizer.lr=0.01 train.optimizer.momentum=0.9"
                               " train.optimizer.weight_decay=0.03 train.optimizer.clip=1"
                               " train.optimizer.head_weight_decay=3 train.optimizer.beta1=0.9"
                               " train.optimizer.beta2=0.999 train.optimizer.eps=1e-3"
                               " train.optimizer.groups=[{\"match\":\"*.phi\",\"decay\":0.03}]";

static const struct reference {
    const char *keys;
    double logits[IMAGES * CLASSES], losses[STEPS];
} references[] = {
#define LIST(...) \
    { __VA_ARGS__ }
#define CASE(keys, logits, losses) {keys, LIST logits, LIST losses},
#include "../interop/expected.def"
#undef CASE
#undef LIST
};

static bool ends(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static void fill_weights(smoe_params *params) {
    for (size_t r = 0; r < params->count; r++) {
        const smoe_param *p = &params->param[r];
        bool norm = strstr(p->name, "norm"), weight = ends(p->name, ".weight");
        bool kernel = !norm && (weight || ends(p->name, ".phi"));
        real base = (real)(norm && weight ? 1 : ends(p->name, ".scale") ? 4 : 0);
        size_t sum = 0;
        for (const char *c = p->name; *c; c++) sum += (unsigned char)*c;
        for (size_t i = 0; i < p->size; i++) {
            int v = (int)((3 * i * i + 7 * i + sum) % 251) - 125;
            params->w[p->offset + i] = base + (real)v / (kernel ? 128 : 512);
        }
    }
}

static void fill_pixels(real *pixels) {
    for (size_t i = 0; i < (size_t)IMAGES * PIXELS; i++)
        pixels[i] = (real)((double)((5 * i * i + 11 * i + i / 64 * 77) % 256) / 127.5 - 1);
}

static void check_logits(const smoe_model *model, const struct reference *right) {
    for (size_t i = 0; i < (size_t)IMAGES * CLASSES; i++)
        /* Up to 100 roundings of numbers near 1, each of 6e-8, and logits up to 5. */
        assert_close(smoe_model_logits(model)[i], right->logits[i], 6e-6);
}

static double train_step(smoe_model *model, const smoe_spec *spec, const real *pixels,
                         size_t step) {
    real target[IMAGES * CLASSES] = {0}, dlogits[IMAGES * CLASSES];
    double rows[IMAGES];
    smoe_params *params = smoe_model_params(model);
    smoe_pass pass = {.train = true, .step = step, .images = IMAGES};
    smoe_task_sums sums = {0};
    for (size_t b = 0; b < IMAGES; b++) target[b * CLASSES + labels[b]] = 1;
    smoe_model_forward(model, pixels, &pass);
    smoe_task_measure(smoe_task_of(spec->train.loss), &sums, dlogits, rows,
                      &(const smoe_task_batch){.logits = smoe_model_logits(model),
                                               .target = target,
                                               .B = IMAGES,
                                               .N = CLASSES,
                                               .whole = IMAGES});
    double loss = sums.loss / IMAGES + smoe_model_losses(model).weighted;
    smoe_model_backward(model, dlogits, &pass);
    smoe_optim_step(params, &spec->train, step, smoe_optim_norm(params));
    return loss;
}

static void check_case(const struct reference *right) {
    char keys[768];
    real pixels[IMAGES * PIXELS];
    smoe_spec spec;
    smoe_model *model = NULL;
    smoe_err err;
    snprintf(keys, sizeof keys, "%s%s", right->keys, training);
    assert_true(models_spec(&spec, keys));
    assert_int_equal(smoe_model_create(&model, &spec, CLASSES, &err), 0);
    assert_int_equal(smoe_params_allocate(smoe_model_params(model), 4, &err), 0);
    fill_weights(smoe_model_params(model));
    fill_pixels(pixels);

    assert_int_equal(smoe_model_reserve(model, IMAGES, false, &err), 0);
    smoe_model_forward(model, pixels, &(smoe_pass){.images = IMAGES});
    check_logits(model, right);

    assert_int_equal(smoe_model_reserve(model, IMAGES, true, &err), 0);
    for (size_t step = 0; step < STEPS; step++)
        /* Near 1; the update of each step has only the rounding errors of the gradient's sums. */
        assert_close(train_step(model, &spec, pixels, step), right->losses[step], 5e-6);
    smoe_model_free(model);
    smoe_spec_free(&spec);
}

static void every_reference(void **state) {
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        print_message("%s\n", references[i].keys);
        check_case(&references[i]);
    }
}

/* A new router in the table needs a case there. */
static void every_router_has_one(void **state) {
    for (size_t r = 0; r < SMOE_ROUTERS; r++) {
        char key[64];
        size_t found = !strcmp(smoe_routers[r].name, "soft"); /* the default */
        snprintf(key, sizeof key, "model.moe.router=%s ", smoe_routers[r].name);
        for (size_t i = 0; i < sizeof references / sizeof *references; i++)
            found += strstr(references[i].keys, key) != NULL;
        if (!found) fail_msg("tests/interop/reference.py has no case for %s", smoe_routers[r].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reference),
        cmocka_unit_test(every_router_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
