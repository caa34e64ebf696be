/*
 * A batch in one pass, and in two passes of half of it, each told which images it has: the same
 * dropout masks, the same dropped branches, the same noise and order of placement, hence the same
 * logits; auxiliary losses and gradients add up to those of the whole. For every router of
 * routers.def.
 */
#include "approx.h"
#include "gradcheck.h"
#include "models.h"
#include "spec/routers.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 8, HALF = IMAGES / 2, COUNTS = 64 };

/* Sums of some hundreds of numbers up to about ten, rounded in another order. */
static const double CLOSE = sizeof(real) == 8 ? 1e-11 : 1e-4;

typedef struct outcome {
    double added, counts[COUNTS]; /* auxiliary losses; the routers' counts for their states */
    real *logits, *g;
} outcome;

/* The gradients of a projection p [IMAGES,N] of the logits and of the auxiliary loss. */
static outcome run(models_rig *r, const real *p, size_t images, bool told) {
    outcome x = {0};
    size_t size = r->params->trained;
    x.logits = calloc(IMAGES * r->N, sizeof(real));
    x.g = calloc(size, sizeof(real));
    memset(r->params->g, 0, size * sizeof(real));
    for (size_t first = 0; first < IMAGES; first += images) {
        smoe_pass pass = r->pass;
        pass.images = images;
        pass.first = told ? first : 0;
        pass.whole = told ? IMAGES : 0;
        smoe_model_forward(r->model, r->image + first * r->pixels, &pass);
        memcpy(x.logits + first * r->N, smoe_model_logits(r->model), images * r->N * sizeof(real));
        double counts[COUNTS] = {0};
        smoe_model_counts(r->model, counts);
        for (size_t i = 0; i < COUNTS; i++) x.counts[i] += counts[i];
        x.added += smoe_model_losses(r->model).weighted;
        smoe_model_backward(r->model, p + first * r->N, &pass);
    }
    memcpy(x.g, r->params->g, size * sizeof(real));
    return x;
}

static void outcome_free(outcome *x) {
    free(x->logits);
    free(x->g);
}

static double farthest(const real *a, const real *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static void law(const char *keys) {
    models_rig r;
    if (!models_make(&r, keys, IMAGES, true)) fail_msg("%s was refused", keys);
    real *p = calloc(IMAGES * r.N, sizeof *p);
    gradcheck_normal(p, IMAGES * r.N, 11);
    outcome whole = run(&r, p, IMAGES, false), parts = run(&r, p, HALF, true);
    outcome alone = run(&r, p, HALF, false);
    size_t first = HALF * r.N, rest = first;
    double logits = farthest(whole.logits, parts.logits, IMAGES * r.N);
    if (!(logits < CLOSE)) fail_msg("%s: logits differ by %g", keys, logits);
    assert_close(whole.added, parts.added, CLOSE);
    assert_memory_equal(whole.counts, parts.counts, sizeof whole.counts);
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *param = &r.params->param[i];
        if (param->state) continue;
        double apart = farthest(whole.g + param->offset, parts.g + param->offset, param->size);
        if (!(apart < 10 * CLOSE))
            fail_msg("%s: %s: gradients differ by %g", keys, param->name, apart);
    }
    /* if not told, the second half draws the same as the first */
    assert_true(farthest(whole.logits, alone.logits, first) < CLOSE);
    assert_true(farthest(whole.logits + first, alone.logits + first, rest) > 10 * CLOSE);
    outcome_free(&whole);
    outcome_free(&parts);
    outcome_free(&alone);
    free(p);
    models_free(&r);
}

/* Groups do not cross parts. */
#define GROUPS "train.batch_size=8 model.moe.group_images=2 "

static void every_router(void **state) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        static const char *const drawn[] = {"model.dropout=0.3", "model.moe.expert_dropout=0.4",
                                            "model.drop_path=0.5"};
        for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++) {
            char keys[256];
            snprintf(keys, sizeof keys, GROUPS "model.moe.router=%s %s", smoe_routers[i].name,
                     drawn[k]);
            law(keys);
        }
    }
}

static void noise_and_order(void **state) {
    static const char *const keys[] = {
        GROUPS "model.moe.router=soft model.moe.soft_noise=1",
        GROUPS "model.moe.router=tokens-choice model.moe.k=2 model.moe.noise=3",
        GROUPS "model.moe.router=tokens-choice model.moe.noise=3 model.moe.capacity=0.5 "
               "model.moe.aux_weight=0.5",
        GROUPS "model.moe.router=tokens-choice model.moe.noise=0 model.moe.capacity=0.3 "
               "model.moe.priority=random model.patch_size=2",
        GROUPS "model.moe.router=experts-choice model.moe.noise=3 model.moe.capacity=0.5",
        GROUPS "model.moe.router=experts-choice model.moe.noise=0.5 model.moe.z_weight=0.5",
        GROUPS "model.moe.router=tokens-choice model.moe.k=2 model.moe.gate=sigmoid "
               "model.moe.renormalize=true model.moe.balance=bias model.moe.z_weight=0.5",
        GROUPS "model.moe.layers=none model.head=map model.dropout=0.4",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) law(keys[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_router),
                                       cmocka_unit_test(noise_and_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
