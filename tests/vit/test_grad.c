/*
 * The gradient check itself, on functions with known gradients: right ones pass, wrong ones (zeros,
 * NaN, a missing term, a sign, one bad element, independence of the input) must not. Then the
 * losses of classes. Layers and models are in test_grad_layers.c and test_grad_models.c.
 */
#include "gradcheck.h"
#include "spec/tasks.h"
#include "train/task.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SMOE_F64
static const double STEP = 1e-5, TOLERANCE = 1e-6;
#else
/* Single precision: rounding of 1e-7 over a step of 1e-2, and as much for curvature. */
static const double STEP = 1e-2, TOLERANCE = 1e-2;
#endif

enum { N = 5 };

/* L = sum of a_i sin(x_i) + x_0 x_1; with `kink` also a jump at x_2 = 1 that counts as a changed
 * choice. */
typedef struct function {
    real x[N], a[N];
    bool constant;
    uint64_t side;
} function;

static double value(void *user) {
    function *f = user;
    double sum = (double)f->x[0] * (double)f->x[1];
    for (size_t i = 0; i < N; i++) sum += (double)f->a[i] * sin((double)f->x[i]);
    f->side = f->x[2] > (real)1.2;
    return f->constant ? 3 : sum + (f->side ? 100 : 0);
}

static uint64_t side(void *user) {
    return ((function *)user)->side;
}

static void slopes(real *g, const function *f) {
    for (size_t i = 0; i < N; i++) g[i] = f->a[i] * (real)cos((double)f->x[i]);
    g[0] += f->x[1];
    g[1] += f->x[0];
}

static function example(void) {
    return (function){.x = {(real)0.3, (real)-0.8, (real)0.5, (real)1.1, (real)2},
                      .a = {1, (real)-2, (real)0.5, (real)1.5, (real)-1}};
}

static gradcheck check_of(function *f) {
    gradcheck c = {.loss = value, .user = f, .step = STEP, .tolerance = TOLERANCE};
    gradcheck_begin(&c);
    return c;
}

static void right_gradients_pass(void **state) {
    function f = example();
    real g[N], before[N];
    slopes(g, &f);
    memcpy(before, f.x, sizeof before);
    gradcheck c = check_of(&f);
    if (!gradcheck_array(&c, "x", f.x, g, N)) fail_msg("%s", c.fault);
    assert_int_equal(c.checked, N + 1);
    assert_int_equal(c.skipped, 0);
    assert_memory_equal(before, f.x, sizeof before);
}

static void expect_fault(real *g, const char *why) {
    function f = example();
    gradcheck c = check_of(&f);
    assert_false(gradcheck_array(&c, "x", f.x, g, N));
    if (!strstr(c.fault, why)) fail_msg("'%s' does not say '%s'", c.fault, why);
}

static void wrong_gradients_are_caught(void **state) {
    function f = example();
    real right[N], g[N] = {0};
    slopes(right, &f);
    expect_fault(g, "vacuous");
    memcpy(g, right, sizeof g);
    g[3] = (real)NAN;
    expect_fault(g, "x[3]: gradient");
    memcpy(g, right, sizeof g);
    g[0] -= f.x[1]; /* a missing term */
    expect_fault(g, "x[0]: gradient");
    memcpy(g, right, sizeof g);
    g[4] = -g[4];
    expect_fault(g, "x[4]: gradient");
    for (size_t i = 0; i < N; i++) g[i] = right[i] * (real)(1 + 4 * TOLERANCE);
    expect_fault(g, "differences say");
}

/* A loss that is NaN agrees with nothing. */
static double not_a_number(void *user) {
    (void)user;
    return NAN;
}

static void a_loss_without_meaning_is_caught(void **state) {
    function f = example();
    real g[N];
    slopes(g, &f);
    gradcheck c = {.loss = not_a_number, .user = &f, .step = STEP, .tolerance = TOLERANCE};
    assert_false(gradcheck_array(&c, "x", f.x, g, N));
}

/* Gradients that may vanish must vanish for the loss too. */
static void vanishing_is_checked(void **state) {
    function f = example();
    real g[N] = {0};
    gradcheck c = check_of(&f);
    c.may_vanish = "x";
    assert_false(gradcheck_array(&c, "x", f.x, g, N));
    f.constant = true;
    c = check_of(&f);
    assert_false(gradcheck_array(&c, "x", f.x, g, N));
    c = check_of(&f);
    c.may_vanish = "x";
    if (!gradcheck_array(&c, "x", f.x, g, N)) fail_msg("%s", c.fault);
}

/* A step across the jump would give a slope of 100/2h; if it is marked as a choice, the step is
 * left out. */
static void flipped_choices_are_skipped(void **state) {
    function f = example();
    real g[N];
    f.x[2] = (real)(1.2 - STEP / 4);
    slopes(g, &f);
    gradcheck c = check_of(&f);
    assert_false(gradcheck_array(&c, "x", f.x, g, N));
    c = check_of(&f);
    c.choices = side;
    gradcheck_begin(&c);
    if (!gradcheck_array(&c, "x", f.x, g, N)) fail_msg("%s", c.fault);
    assert_in_range(c.skipped, 1, 2);
}

/* ---- losses ---------------------------------------------------------------------------------- */

enum { B = 3, CLASSES = 4 };

typedef struct scores {
    real logits[B * CLASSES], target[B * CLASSES];
    double rows[B], smoothing;
    smoe_loss kind;
} scores;

/* A task sums over images; its gradient is that of the mean. */
static double mean_loss(void *user) {
    scores *s = user;
    smoe_task_sums sums = {0};
    smoe_task_measure(smoe_task_of(s->kind), &sums, NULL, s->rows,
                      &(const smoe_task_batch){.logits = s->logits,
                                               .target = s->target,
                                               .B = B,
                                               .N = CLASSES,
                                               .whole = B,
                                               .smoothing = s->smoothing});
    return sums.loss / B;
}

static void losses(void **state) {
    /* one-hot, mixed, and two true classes (mass 2: the softmax gradient is 2p - target) */
    scores s = {.target = {0, 1, 0, 0, (real)0.25, 0, (real)0.75, 0, 1, 0, 0, 1}};
    gradcheck_normal(s.logits, B * CLASSES, 5);
    for (int i = 0; i < 2 * SMOE_TASKS; i++) {
        real g[B * CLASSES];
        smoe_task_sums sums = {0};
        s.kind = (smoe_loss)(i / 2);
        s.smoothing = i % 2 ? 0.2 : 0;
        if (smoe_task_pairs(s.kind)) continue; /* test_text.c has those */
        for (size_t c = 0; c < B * CLASSES; c++) g[c] = (real)NAN;
        smoe_task_measure(smoe_task_of(s.kind), &sums, g, s.rows,
                          &(const smoe_task_batch){.logits = s.logits,
                                                   .target = s.target,
                                                   .B = B,
                                                   .N = CLASSES,
                                                   .whole = B,
                                                   .smoothing = s.smoothing});
        gradcheck check = {.loss = mean_loss, .user = &s, .step = STEP, .tolerance = TOLERANCE};
        gradcheck_begin(&check);
        if (!gradcheck_array(&check, "logits", s.logits, g, B * CLASSES))
            fail_msg("%s", check.fault);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_gradients_pass),
        cmocka_unit_test(wrong_gradients_are_caught),
        cmocka_unit_test(a_loss_without_meaning_is_caught),
        cmocka_unit_test(vanishing_is_checked),
        cmocka_unit_test(flipped_choices_are_skipped),
        cmocka_unit_test(losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
