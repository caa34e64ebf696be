/* One training step: a batch in pieces, and the state after a step that fails. That the trainer
 * does these steps is checked in test_train_steps.c. */
#include "approx.h"
#include "gradcheck.h"
#include "models.h"
#include "train/step.h"
#include "data/loader.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 4 };

typedef struct stepper {
    models_rig rig;
    smoe_step step;
    real *target;
    real *before; /* initial weights */
    smoe_err err;
} stepper;

static stepper *stepper_make(const char *keys) {
    stepper *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_true(models_make(&s->rig, keys, IMAGES, true));
    smoe_params *params = s->rig.params;
    if (smoe_step_open(&s->step, s->rig.model, &s->rig.spec, s->rig.N, NULL, &s->err))
        fail_msg("%s", s->err.text);
    s->target = calloc(IMAGES * s->rig.N, sizeof *s->target);
    for (size_t b = 0; b < IMAGES; b++) s->target[b * s->rig.N + b % s->rig.N] = 1;
    s->before = malloc(params->size * sizeof *s->before);
    memcpy(s->before, params->w, params->size * sizeof *s->before);
    return s;
}

static void stepper_free(stepper *s) {
    smoe_step_free(&s->step);
    models_free(&s->rig);
    free(s->target);
    free(s->before);
    free(s);
}

static int stepper_run(stepper *s) {
    smoe_batch batch = {.images = IMAGES, .pixels = s->rig.image, .target = s->target};
    return smoe_step_run(&s->step, &batch, 0, 0, NULL, &s->err);
}

static bool stepper_moved(const stepper *s) {
    return memcmp(s->before, s->rig.params->w, s->rig.params->size * sizeof(real)) != 0;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

#define DESCENT                                                                            \
    "model.moe.router=tokens-choice model.moe.capacity=3 train.optimizer.name=sgd "        \
    "train.optimizer.momentum=0 train.optimizer.weight_decay=0 train.optimizer.lr=0.0625 " \
    "train.optimizer.head_weight_decay=0 "

/* Dropout, noise and the auxiliary loss see the same images at the same places, so only the
 * order of sums differs. */
static void pieces_are_the_whole_up_to_rounding(void **state) {
    static const char *const forms[] = {
        "train.label_smoothing=0.1",
        "model.moe.layers=all model.moe.aux_over=batch model.moe.aux_weight=1 "
        "model.moe.group_images=1"};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        char keys[512];
        snprintf(keys, sizeof keys, DESCENT "train.optimizer.clip=1 model.dropout=0.3 %s",
                 forms[f]);
        stepper *all = stepper_make(keys);
        assert_int_equal(stepper_run(all), 0);
        assert_true(stepper_moved(all));
        assert_true(all->step.last.loss > 0 && all->step.last.aux > 0 &&
                    all->step.last.norm > 0.001);
        for (int pieces = 2; pieces <= 4; pieces *= 2) {
            snprintf(keys, sizeof keys,
                     DESCENT "train.optimizer.clip=1 model.dropout=0.3 train.pieces=%d %s", pieces,
                     forms[f]);
            stepper *x = stepper_make(keys);
            assert_int_equal(x->step.images * x->step.pieces, IMAGES);
            assert_int_equal(stepper_run(x), 0);
            assert_close(x->step.last.loss, all->step.last.loss, 1e-5);
            assert_close(x->step.last.precision, all->step.last.precision, 1e-12);
            assert_close(x->step.last.aux, all->step.last.aux, 1e-5);
            assert_close(x->step.last.norm, all->step.last.norm, 1e-5);
            for (size_t k = 0; k < all->rig.params->size; k++)
                assert_close(x->rig.params->w[k], all->rig.params->w[k], 1e-6);
            stepper_free(x);
        }
        stepper_free(all);
    }
}

/* Two steps: gradients left from the first do not reach the second. */
static void a_second_step_begins_without_gradients(void **state) {
    stepper *one = stepper_make(DESCENT), *four = stepper_make(DESCENT "train.pieces=4");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stepper_run(one), 0);
        assert_int_equal(stepper_run(four), 0);
    }
    for (size_t k = 0; k < one->rig.params->size; k++)
        assert_close(four->rig.params->w[k], one->rig.params->w[k], 1e-5);
    stepper_free(one);
    stepper_free(four);
}

/* A mean over all images, not over the last piece. */
static void routing_is_measured_over_all_pieces(void **state) {
    static const char keys[] = "model.moe.router=soft model.moe.scale_init=20 ";
    char cut[128];
    snprintf(cut, sizeof cut, "%strain.pieces=%d", keys, IMAGES);
    stepper *all = stepper_make(keys), *x = stepper_make(cut);
    all->step.measure = x->step.measure = true;
    assert_int_equal(stepper_run(all), 0);
    assert_int_equal(stepper_run(x), 0);
    const smoe_plan_stats *want = all->step.stats, *have = x->step.stats;
    assert_true(want->dispatch_max > 0.01 && want->combine_max > 0.01);
    assert_close(have->dispatch_max, want->dispatch_max, 1e-6);
    assert_close(have->combine_max, want->combine_max, 1e-6);
    assert_close(have->tokens_per_slot, want->tokens_per_slot, 1e-6);
    assert_true(want->scale > 10);
    assert_close(have->scale, want->scale, 1e-5);
    smoe_plan_stats last;
    smoe_plan_measure(&smoe_model_router(x->rig.model, 0)->plan, &last);
    assert_true(fabs(last.dispatch_max - want->dispatch_max) > 1e-5);
    stepper_free(all);
    stepper_free(x);
}

static size_t factored(const stepper *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->rig.params->count; i++)
        count += s->rig.params->param[i].outer != NULL;
    return count;
}

/* Experts with few rows keep their gradients as factors, also those of several pieces. Summed tile
 * by tile they have the bits of gradients in memory, which no code may read here. */
static void factors_of_pieces_are_summed_as_gradients_are(void **state) {
#define FEW_ROWS "model.width=64 model.mlp=64 model.moe.experts=8 model.moe.slots_per_expert=1 "
    static const char *const keys[] = {
        FEW_ROWS "train.pieces=2",
        FEW_ROWS "train.pieces=4 model.moe.shared_experts=1 train.optimizer.clip=0.01",
        FEW_ROWS "train.pieces=4 model.moe.router=tokens-choice train.optimizer.name=sgd",
        FEW_ROWS "train.pieces=4 model.moe.expert_dropout=0.5 train.optimizer.moments=bf16"};
    stepper *alone = stepper_make(FEW_ROWS);
    assert_int_equal(factored(alone), 2);
    stepper_free(alone);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        stepper *x = stepper_make(keys[k]), *plain = stepper_make(keys[k]);
        smoe_params *params = x->rig.params;
        assert_int_equal(factored(x), 2);
        plain->rig.params->passes = 0;
        assert_int_equal(smoe_model_reserve(plain->rig.model, plain->step.images, true, NULL), 0);
        assert_int_equal(factored(plain), 0);
        for (size_t i = 0; i < params->count; i++) {
            const smoe_param *p = &params->param[i];
            for (size_t j = 0; p->outer && j < p->size; j++) params->g[p->offset + j] = (real)NAN;
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stepper_run(x), 0);
            assert_int_equal(stepper_run(plain), 0);
            assert_true(x->step.last.norm > 0 && x->step.last.norm == plain->step.last.norm);
        }
        assert_memory_equal(params->w, plain->rig.params->w, params->size * sizeof(real));
        stepper_free(x);
        stepper_free(plain);
    }
}

/* ---- what is not finite ---------------------------------------------------------------------- */

static void what_is_not_finite_updates_nothing(void **state) {
    stepper *s = stepper_make("train.pieces=2"), *timed = stepper_make("");
    timed->step.unchecked = true;
    s->rig.image[3] = timed->rig.image[3] = (real)NAN;
    assert_int_equal(stepper_run(s), -1);
    assert_int_equal(s->err.code, SMOE_NONFINITE);
    if (strncmp(s->err.text,
                "step 1: the loss is nan: first non-finite values in layer patch_embed", 68))
        fail_msg("%s", s->err.text);
    assert_false(stepper_moved(s));
    assert_int_equal(stepper_run(timed), 0);
    stepper_free(s);
    stepper_free(timed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_whole_up_to_rounding),
        cmocka_unit_test(a_second_step_begins_without_gradients),
        cmocka_unit_test(routing_is_measured_over_all_pieces),
        cmocka_unit_test(factors_of_pieces_are_summed_as_gradients_are),
        cmocka_unit_test(what_is_not_finite_updates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
