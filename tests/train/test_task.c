/* Losses and precision by hand; gradients of losses are checked in test_grad.c. */
#include "approx.h"
#include "base/threads.h"
#include "gradcheck.h"
#include "spec/tasks.h"
#include "train/task.h"
#include "unit.h"

#include <math.h>
#include <string.h>

static smoe_task_sums smoothed(const real *logits, const real *target, size_t B, size_t N,
                               smoe_loss kind, real *dlogits, double smoothing) {
    smoe_task_sums sums = {0};
    double rows[64];
    smoe_task_measure(smoe_task_of(kind), &sums, dlogits, rows,
                      &(const smoe_task_batch){.logits = logits,
                                               .target = target,
                                               .B = B,
                                               .N = N,
                                               .whole = B,
                                               .smoothing = smoothing});
    return sums;
}

static smoe_task_sums loss(const real *logits, const real *target, size_t B, size_t N,
                           smoe_loss kind, real *dlogits) {
    return smoothed(logits, target, B, N, kind, dlogits, 0);
}

/*
 * l = (ln 1, ln 2, ln 5), p = (1 2 5)/8. Target the second: loss ln 4, gradient (1/8, -3/4, 5/8).
 * Mixed 1/4 of the third and 3/4 of the first: 1/4 ln(8/5) + 3/4 ln 8, gradient (-5/8, 1/4, 3/8).
 * The gradient is that of the mean over the batch of two: half of it.
 */
static void softmax_by_hand(void **state) {
    const real l[] = {0, (real)log(2), (real)log(5), 0, (real)log(2), (real)log(5)};
    const real target[] = {0, 1, 0, 0.75f, 0, 0.25f};
    real d[6];
    smoe_task_sums sums = loss(l, target, 2, 3, SMOE_LOSS_SOFTMAX, d);
    assert_close(sums.loss, log(4) + 0.25 * log(1.6) + 0.75 * log(8), 1e-6);
    const double right[] = {1. / 8, -3. / 4, 5. / 8, -5. / 8, 1. / 4, 3. / 8};
    for (size_t i = 0; i < 6; i++) assert_close(d[i], right[i] / 2, 1e-7);
    assert_int_equal(sums.correct,
                     1); /* the third is on top twice, and true once, if only by a quarter */
}

/*
 * l = (0, ln 3, -ln 3): log(1 + e^l) = ln 2, ln 4, ln 4/3. Targets (1, 1, 0): ln 2 + ln 4 - ln 3 +
 * ln 4/3 = ln(32/9). Gradient s(l) - t = (-1/2, -1/4, 1/4).
 */
static void sigmoid_by_hand(void **state) {
    const real l[] = {0, (real)log(3), -(real)log(3)}, target[] = {1, 1, 0};
    real d[3];
    smoe_task_sums sums = loss(l, target, 1, 3, SMOE_LOSS_SIGMOID, d);
    assert_close(sums.loss, log(32. / 9), 1e-6);
    const double right[] = {-0.5, -0.25, 0.25};
    for (size_t i = 0; i < 3; i++) assert_close(d[i], right[i], 1e-7);
    assert_int_equal(sums.correct, 1);
}

/*
 * Smoothing 0.3 of (0 1 0): (0.1 0.8 0.1). Softmax with p = (1 2 5)/8: 0.1 ln 8 + 0.8 ln 4 + 0.1 ln
 * 8/5, gradient p - t. Two true classes, (1 1 0): 0.7 of it and 0.3 * 2/3 = 0.2, so (0.9 0.9 0.2);
 * sigmoid with l = (0, ln 3, -ln 3): ln 2 + ln 4 - 0.9 ln 3 + ln 4/3 + 0.2 ln 3. Precision uses the
 * targets before smoothing: none is correct here, where the third class is on top.
 */
static void smoothing_by_hand(void **state) {
    const real l[] = {0, (real)log(2), (real)log(5)}, target[] = {0, 1, 0};
    real d[3];
    smoe_task_sums sums = smoothed(l, target, 1, 3, SMOE_LOSS_SOFTMAX, d, 0.3);
    assert_close(sums.loss, 0.1 * log(8) + 0.8 * log(4) + 0.1 * log(1.6), 1e-6);
    const double right[] = {0.125 - 0.1, 0.25 - 0.8, 0.625 - 0.1};
    for (size_t i = 0; i < 3; i++) assert_close(d[i], right[i], 1e-7);
    assert_int_equal(sums.correct, 0);
    const real m[] = {0, (real)log(3), -(real)log(3)}, both[] = {1, 1, 0};
    sums = smoothed(m, both, 1, 3, SMOE_LOSS_SIGMOID, d, 0.3);
    assert_close(sums.loss, log(2) + log(4) + log(4. / 3) - 0.7 * log(3), 1e-6);
    const double sigmoid[] = {0.5 - 0.9, 0.75 - 0.9, 0.25 - 0.2};
    for (size_t i = 0; i < 3; i++) assert_close(d[i], sigmoid[i], 1e-7);
    assert_int_equal(sums.correct, 1);
}

/*
 * Two images and captions, l = (ln 1, ln 3; ln 2, ln 2). Rows: p = (1 3)/4, (2 2)/4; columns: (1
 * 2)/3, (3 2)/5. Losses (ln 4 + ln 3)/2 and (ln 2 + ln 5/2)/2; gradients ((p_row + p_column)/2 -
 * 1[b = c])/2: (7/24 - 1, 27/40; 7/12, 9/20 - 1)/2. The first image has the other caption on top.
 * The second has equal logits, which the lower index wins: also the other caption, so both are
 * wrong.
 */
static void contrastive_by_hand(void **state) {
    const real l[] = {0, (real)log(3), (real)log(2), (real)log(2)}, target[] = {1, 0, 0, 1};
    real d[4];
    double rows[2];
    smoe_task_sums sums = {0};
    smoe_task_measure(
        smoe_task_of(SMOE_LOSS_CONTRASTIVE), &sums, d, rows,
        &(const smoe_task_batch){.logits = l, .target = target, .B = 2, .N = 2, .whole = 2});
    assert_close(rows[0], (log(4) + log(3)) / 2, 1e-6);
    assert_close(rows[1], (log(2) + log(2.5)) / 2, 1e-6);
    assert_close(sums.loss, rows[0] + rows[1], 1e-12);
    const double right[] = {7. / 24 - 1, 27. / 40, 7. / 12, 9. / 20 - 1};
    for (size_t i = 0; i < 4; i++) assert_close(d[i], right[i] / 2, 1e-7);
    assert_int_equal(sums.correct, 0);
}

/* Equal logits: log N. With -log N, the bias of the sigmoid head, for all: N log(1 + 1/N) + log
 * N for one class. */
static void where_training_starts(void **state) {
    enum { N = 10 };
    real l[N] = {0}, target[N] = {0};
    target[4] = 1;
    assert_close(loss(l, target, 1, N, SMOE_LOSS_SOFTMAX, NULL).loss, log(10), 1e-12);
    for (size_t i = 0; i < N; i++) l[i] = -(real)log(10);
    assert_close(loss(l, target, 1, N, SMOE_LOSS_SIGMOID, NULL).loss, 10 * log(1.1) + log(10),
                 1e-6);
}

/* Rows of the table: the initial bias of the head, 0 or -log N, and which labels count. */
static void rows_of_the_table(void **state) {
    assert_close(smoe_task_bias(SMOE_LOSS_SOFTMAX, 10), 0, 0);
    assert_close(smoe_task_bias(SMOE_LOSS_SIGMOID, 10), -log(10), 0);
    assert_false(smoe_task_pairs(SMOE_LOSS_SIGMOID));
    assert_true(smoe_task_pairs(SMOE_LOSS_CONTRASTIVE) &&
                smoe_task_pairs(SMOE_LOSS_CONTRASTIVE_SIGMOID));
    assert_false(smoe_task_of(SMOE_LOSS_SOFTMAX)->multi);
    assert_true(smoe_task_of(SMOE_LOSS_SIGMOID)->multi);
}

/* The largest floats do not overflow: the loss is the difference of logits, or the logit itself. */
static void extremes(void **state) {
    const real l[] = {1e30f, -1e30f, 0}, first[] = {1, 0, 0}, second[] = {0, 1, 0};
    real d[3];
    assert_close(loss(l, first, 1, 3, SMOE_LOSS_SOFTMAX, d).loss, 0, 0);
    for (size_t i = 0; i < 3; i++) assert_close(d[i], 0, 0);
    assert_close(loss(l, second, 1, 3, SMOE_LOSS_SOFTMAX, d).loss / 2e30, 1, 1e-6);
    assert_close(d[0], 1, 0);
    assert_close(d[1], -1, 0);
    assert_close(loss(l, first, 1, 3, SMOE_LOSS_SIGMOID, d).loss, log(2), 1e-6);
    assert_close(loss(l, second, 1, 3, SMOE_LOSS_SIGMOID, d).loss / 2e30, 1, 1e-6);
    /* A class with logit -inf that is not true: no NaN from 0 times infinity. */
    const real never[] = {0, -(real)INFINITY, 0};
    assert_close(loss(never, first, 1, 3, SMOE_LOSS_SOFTMAX, d).loss, log(2), 1e-6);
    assert_close(d[1], 0, 0);
    /* ... but NaN logits give a NaN loss, for both */
    const real broken[] = {0, (real)NAN, 0};
    assert_true(isnan(loss(broken, first, 1, 3, SMOE_LOSS_SOFTMAX, d).loss));
    assert_true(isnan(loss(broken, first, 1, 3, SMOE_LOSS_SIGMOID, d).loss));
}

/* Ties go to the lower index; any true label counts; sums are added to earlier ones. */
static void precision(void **state) {
    const real l[] = {2, 2, 1, /**/ 0, 1, 1, /**/ 0, 0, 3};
    const real target[] = {0, 1, 0, /**/ 0, 1, 1, /**/ 1, 0, 1};
    smoe_task_sums sums = {.loss = 5, .correct = 7};
    double rows[3];
    smoe_task_measure(
        smoe_task_of(SMOE_LOSS_SIGMOID), &sums, NULL, rows,
        &(const smoe_task_batch){.logits = l, .target = target, .B = 3, .N = 3, .whole = 3});
    assert_int_equal(sums.correct, 7 + 2);
    assert_true(sums.loss > 5);
}

/* A batch of classes is the sum of its images; a batch of pairs does not split. Both have the
 * same bits for any number of threads. */
static void same_bits_for_any_threads(void **state) {
    enum { B = 64, CLASSES = 11 };
    real l[B * B], target[B * B], d[B * B], d1[B * B];
    gradcheck_normal(l, B * B, 3);
    for (int kind = 0; kind < SMOE_TASKS; kind++) {
        bool pairs = smoe_task_pairs((smoe_loss)kind);
        size_t N = pairs ? B : CLASSES;
        double alone = 0;
        memset(target, 0, sizeof target);
        for (size_t b = 0; b < B; b++) target[b * N + b % N] = 1;
        for (size_t b = 0; b < B && !pairs; b++)
            alone += loss(l + b * N, target + b * N, 1, N, (smoe_loss)kind, NULL).loss;
        smoe_threads_set(1);
        double whole = loss(l, target, B, N, (smoe_loss)kind, d1).loss;
        if (!pairs) assert_close(whole, alone, 0);
        smoe_threads_set(3);
        assert_close(loss(l, target, B, N, (smoe_loss)kind, d).loss, whole, 0);
        assert_memory_equal(d, d1, B * N * sizeof *d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_by_hand),
        cmocka_unit_test(sigmoid_by_hand),
        cmocka_unit_test(contrastive_by_hand),
        cmocka_unit_test(smoothing_by_hand),
        cmocka_unit_test(where_training_starts),
        cmocka_unit_test(rows_of_the_table),
        cmocka_unit_test(extremes),
        cmocka_unit_test(precision),
        cmocka_unit_test(same_bits_for_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
