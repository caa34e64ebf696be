/* One training step: where the hook for sums over processes lies, and what a step that fails leaves
 * behind. That steps are what the trainer does is in test_train_steps.c. */
#include "approx.h"
#include "gradcheck.h"
#include "models.h"
#include "train/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { IMAGES = 4 };

typedef struct stepper {
    models_rig rig;
    smoe_step step;
    real *target;
    real *before; /* the weights at first */
    smoe_err err;
} stepper;

static stepper *stepper_make(const char *keys, const smoe_step_options *options) {
    stepper *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_true(models_make(&s->rig, keys, IMAGES, true));
    smoe_params *params = s->rig.params;
    if (smoe_step_open(&s->step, s->rig.model, &s->rig.spec, s->rig.N, options, &s->err))
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

/* With so many images from one on. */
static int stepper_run_part(stepper *s, size_t first, size_t images) {
    smoe_batch batch = {.images = images,
                        .pixels = s->rig.image + first * s->rig.pixels,
                        .target = s->target + first * s->rig.N};
    return smoe_step_run(&s->step, &batch, 0, 0, NULL, &s->err);
}

static int stepper_run(stepper *s) {
    return stepper_run_part(s, 0, IMAGES);
}

static bool stepper_moved(const stepper *s) {
    return memcmp(s->before, s->rig.params->w, s->rig.params->size * sizeof(real)) != 0;
}

/* ---- the hook -------------------------------------------------------------------------------- */

typedef struct hook {
    size_t calls, absent; /* parameters whose gradient was not in memory */
    bool fail;
} hook;

/* As if there were two processes with the same images. */
static int twice(void *user, smoe_params *params, double *sums, size_t count, smoe_err *err) {
    hook *h = user;
    h->calls++;
    for (size_t i = 0; i < params->count; i++)
        h->absent += params->row[i].fresh || params->row[i].outer;
    for (size_t i = 0; i < params->size; i++) params->g[i] *= 2;
    for (size_t i = 0; i < count; i++) sums[i] *= 2;
    return h->fail ? smoe_fail(err, SMOE_RUNTIME, "a process is gone") : 0;
}

/* Without clipping, twice the gradient is an update twice as large, by steepest descent at least;
 * with clipping far below the norm both come to the same update. Doubling is exact. */
static void the_hook_comes_after_backward_and_before_clipping(void **state) {
    (void)state;
#define DESCENT                                                                            \
    "model.moe.router=tokens-choice model.moe.capacity=3 train.optimizer.name=sgd "        \
    "train.optimizer.momentum=0 train.optimizer.weight_decay=0 train.optimizer.lr=0.0625 " \
    "train.optimizer.head_weight_decay=0 "
    static const char *const keys[] = {DESCENT "train.optimizer.clip=0",
                                       DESCENT "train.optimizer.clip=0.001"};
    for (int clipped = 0; clipped < 2; clipped++) {
        hook h = {0};
        smoe_step_options options = {.reduce = twice, .reduce_user = &h};
        stepper *one = stepper_make(keys[clipped], NULL),
                *two = stepper_make(keys[clipped], &options);
        assert_int_equal(stepper_run(one), 0);
        assert_int_equal(stepper_run(two), 0);
        assert_int_equal(h.calls, 1);
        assert_int_equal(h.absent, 0);
        assert_true(one->step.loss > 0 && one->step.aux > 0 && one->step.norm > 0.001);
        assert_close(two->step.loss, 2 * one->step.loss, 0);
        assert_close(two->step.precision, 2 * one->step.precision, 0);
        assert_close(two->step.aux, 2 * one->step.aux, 0);
        assert_close(two->step.norm, 2 * one->step.norm, 0);
        assert_true(stepper_moved(one));
        for (size_t i = 0; i < one->rig.params->size; i++) {
            /* Two roundings of numbers below 4. */
            double first = (double)one->rig.params->w[i] - (double)one->before[i];
            double second = (double)two->rig.params->w[i] - (double)two->before[i];
            assert_close(second, (clipped ? 1 : 2) * first, 4 * 3 * 0x1p-24);
        }
        stepper_free(one);
        stepper_free(two);
    }
}

static void a_hook_that_fails_ends_the_step(void **state) {
    (void)state;
    hook h = {.fail = true};
    smoe_step_options options = {.reduce = twice, .reduce_user = &h};
    stepper *s = stepper_make("model.moe.router=soft", &options);
    assert_int_equal(stepper_run(s), -1);
    assert_string_equal(s->err.text, "a process is gone");
    assert_false(stepper_moved(s));
    stepper_free(s);
}

/* What another process has of the batch. */
typedef struct other {
    real *g;
    double sums[4];
} other;

static int take(void *user, smoe_params *params, double *sums, size_t count, smoe_err *err) {
    other *o = user;
    o->g = malloc(params->size * sizeof *o->g);
    assert_true(o->g && count <= 4);
    memcpy(o->g, params->g, params->size * sizeof *o->g);
    memcpy(o->sums, sums, count * sizeof *sums);
    return smoe_fail(err, SMOE_RUNTIME, "taken");
}

static int add(void *user, smoe_params *params, double *sums, size_t count, smoe_err *err) {
    const other *o = user;
    (void)err;
    for (size_t i = 0; i < params->size; i++) params->g[i] += o->g[i];
    for (size_t i = 0; i < count; i++) sums[i] += o->sums[i];
    return 0;
}

static void two_halves_summed_are_the_whole(void **state) {
    (void)state;
    static const char keys[] = DESCENT "train.optimizer.clip=1 model.dropout=0.3 "
                                       "train.label_smoothing=0.1";
    other o = {0};
    smoe_step_options first = {.reduce = add, .reduce_user = &o, .first = 0, .whole = IMAGES};
    smoe_step_options second = {
        .reduce = take, .reduce_user = &o, .first = IMAGES / 2, .whole = IMAGES};
    stepper *all = stepper_make(keys, NULL), *a = stepper_make(keys, &first),
            *b = stepper_make(keys, &second);
    assert_int_equal(stepper_run(all), 0);
    assert_int_equal(stepper_run_part(b, IMAGES / 2, IMAGES / 2), -1);
    assert_int_equal(stepper_run_part(a, 0, IMAGES / 2), 0);
    assert_true(stepper_moved(all));
    assert_close(a->step.loss, all->step.loss, 1e-5);
    assert_close(a->step.precision, all->step.precision, 1e-12);
    assert_close(a->step.aux, all->step.aux, 1e-5);
    assert_close(a->step.norm, all->step.norm, 1e-5);
    for (size_t i = 0; i < all->rig.params->size; i++)
        assert_close(a->rig.params->w[i], all->rig.params->w[i], 1e-6);
    stepper_free(all);
    stepper_free(a);
    stepper_free(b);
    free(o.g);
}

static size_t factored(const stepper *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->rig.params->count; i++) count += s->rig.params->row[i].outer;
    return count;
}

/* Experts with few rows leave their gradients as factors, which nobody can sum. */
static void with_a_hook_all_gradients_are_in_memory(void **state) {
    (void)state;
    static const char keys[] = "model.width=64 model.mlp=64 model.moe.experts=8 "
                               "model.moe.slots_per_expert=1";
    hook h = {0};
    smoe_step_options options = {.reduce = twice, .reduce_user = &h};
    stepper *alone = stepper_make(keys, NULL), *summed = stepper_make(keys, &options);
    assert_int_equal(factored(alone), 2);
    assert_int_equal(factored(summed), 0);
    assert_int_equal(stepper_run(summed), 0);
    assert_int_equal(h.absent, 0);
    stepper_free(alone);
    stepper_free(summed);
}

/* ---- what is not finite ---------------------------------------------------------------------- */

static void what_is_not_finite_updates_nothing(void **state) {
    (void)state;
    smoe_step_options options = {.unchecked = true};
    stepper *s = stepper_make("", NULL), *timed = stepper_make("", &options);
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
        cmocka_unit_test(the_hook_comes_after_backward_and_before_clipping),
        cmocka_unit_test(a_hook_that_fails_ends_the_step),
        cmocka_unit_test(two_halves_summed_are_the_whole),
        cmocka_unit_test(with_a_hook_all_gradients_are_in_memory),
        cmocka_unit_test(what_is_not_finite_updates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
