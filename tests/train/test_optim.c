/* Schedules at some points, two steps of each optimiser by hand, decay groups, clipping, and the
 * norm of all gradients. */
#include "approx.h"
#include "base/rng.h"
#include "base/threads.h"
#include "gradcheck.h"
#include "train/optim.h"
#include "train/schedule.h"
#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double CLOSE = 2e-7; /* weights near 1 in single precision: an ulp or two */

static smoe_train_spec train(smoe_schedule name, size_t steps, size_t warmup, size_t cooldown) {
    smoe_train_spec t = {.steps = steps};
    t.optimizer.lr = 0.5;
    t.schedule.name = name;
    t.schedule.warmup.steps = warmup;
    t.schedule.cooldown.steps = cooldown;
    t.schedule.start = 1;
    t.schedule.timescale = 12;
    return t;
}

static void assert_rate(const smoe_train_spec *t, size_t step, double share) {
    assert_close(smoe_schedule_rate(t, step), 0.5 * share, 1e-15);
}

static void constant(void **state) {
    smoe_train_spec t = train(SMOE_SCHEDULE_CONSTANT, 100, 10, 20);
    assert_rate(&t, 0, 1);
    assert_rate(&t, 99, 1);
}

/* Warm-up to the peak at the fourth step, then down linearly from (steps - 4)/(steps - 4), 1/8
 * at the last. */
static void linear(void **state) {
    smoe_train_spec t = train(SMOE_SCHEDULE_LINEAR, 12, 4, 5);
    assert_rate(&t, 0, 0.25);
    assert_rate(&t, 2, 0.75);
    assert_rate(&t, 3, 1);
    assert_rate(&t, 4, 1);
    assert_rate(&t, 8, 0.5);
    assert_rate(&t, 11, 0.125);
    t = train(SMOE_SCHEDULE_LINEAR, 10, 0, 0);
    assert_rate(&t, 0, 1);
    assert_rate(&t, 9, 0.1);
}

/* t - W of steps - W + 1 = 6: cosines of 30, 90, 150 degrees at t - W = 1, 3, 5. */
static void cosine(void **state) {
    smoe_train_spec t = train(SMOE_SCHEDULE_COSINE, 7, 2, 0);
    assert_rate(&t, 0, 0.5);
    assert_rate(&t, 1, 1);
    assert_rate(&t, 2, (1 + sqrt(0.75)) / 2);
    assert_rate(&t, 4, 0.5);
    assert_rate(&t, 6, (1 - sqrt(0.75)) / 2);
}

/*
 * W = 4, timescale 12, 60 steps, cooldown 20: at t = 4 the peak; at t = 4 + 36 = 40, the last step
 * before the cooldown, 1/sqrt(1 + 3) = 1/2; then 1/2 times 20/20, 10/20, 1/20.
 */
static void rsqrt(void **state) {
    smoe_train_spec t = train(SMOE_SCHEDULE_RSQRT, 60, 4, 20);
    assert_rate(&t, 1, 0.5);
    assert_rate(&t, 3, 1);
    assert_rate(&t, 3 + 12, 1 / sqrt(2));
    assert_rate(&t, 39, 0.5);
    assert_rate(&t, 40, 0.5);
    assert_rate(&t, 50, 0.25);
    assert_rate(&t, 59, 0.025);
    t = train(SMOE_SCHEDULE_RSQRT, 60, 4, 0);
    assert_rate(&t, 51, 1 / sqrt(5));
}

/* Warm-up and cooldown may take the whole run, each alone or together. */
static void nothing_between(void **state) {
    smoe_train_spec t = train(SMOE_SCHEDULE_RSQRT, 10, 5, 5);
    assert_rate(&t, 4, 1);
    assert_rate(&t, 5, 1);
    assert_rate(&t, 9, 0.2);
    t = train(SMOE_SCHEDULE_RSQRT, 10, 0, 10);
    assert_rate(&t, 0, 1);
    assert_rate(&t, 9, 0.1);
    static const smoe_schedule all[] = {SMOE_SCHEDULE_LINEAR, SMOE_SCHEDULE_COSINE,
                                        SMOE_SCHEDULE_RSQRT};
    for (size_t i = 0; i < 3; i++) {
        t = train(all[i], 10, 10, 0);
        assert_rate(&t, 0, 0.1);
        assert_rate(&t, 9, 1);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A table of one tensor per decay group, two numbers each: (plain, kernel, head). */
static void table(smoe_params *params, const smoe_train_spec *t) {
    const size_t two = 2;
    smoe_err err;
    *params = (smoe_params){0};
    for (int group = SMOE_PARAM_PLAIN; group <= SMOE_PARAM_HEAD; group++)
        smoe_params_add(params, (smoe_param_kind){(smoe_param_group)group, 1, 0}, 1, &two, "t%d",
                        group);
    assert_int_equal(smoe_optim_allocate(params, t, &err), 0);
    smoe_params_init(params, 0);
}

static void gradients(smoe_params *params, real first, real second) {
    for (size_t i = 0; i < params->count; i++) {
        params->g[params->param[i].offset] = first;
        params->g[params->param[i].offset + 1] = second;
    }
}

static void assert_weights(const smoe_params *params, size_t row, double first, double second) {
    assert_close(params->w[params->param[row].offset], first, CLOSE);
    assert_close(params->w[params->param[row].offset + 1], second, CLOSE);
}

static void assert_cleared(const smoe_params *params) {
    for (size_t i = 0; i < params->size; i++) assert_true(params->g[i] == 0);
}

static smoe_train_spec constant_rate(smoe_optimizer name) {
    smoe_train_spec t = train(SMOE_SCHEDULE_CONSTANT, 10, 0, 0);
    t.optimizer.name = name;
    t.optimizer.lr = 0.1;
    t.optimizer.beta1 = 0.5;
    t.optimizer.beta2 = 0.75;
    t.optimizer.eps = 1;
    t.optimizer.momentum = 0.5;
    return t;
}

/*
 * Adam, rate 0.1, betas 1/2 and 3/4, eps 1, w = 1.
 *   g = 4:  m = 2, m^ = 2/(1/2) = 4;  v = 4, v^ = 4/(1/4) = 16;  step 4/(4 + 1): w = 0.92
 *   g = -2: m = 0, so w stays;  v = 3 + 1 = 4
 *   g = 0 then 2: m = 0; then m = 1, m^ = 1/(3/4) = 4/3; v = 1, v^ = 1/(7/16) = 16/7;
 *           w = 1 - 0.1 (4/3)/(4/sqrt 7 + 1)
 */
static void adam_by_hand(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAM);
    smoe_params params;
    table(&params, &t);
    assert_int_equal(smoe_optim_bytes(&params, &t), 6 * 2 * sizeof(real));
    gradients(&params, 4, 0);
    smoe_optim_step(&params, &t, 0, 0);
    assert_cleared(&params);
    for (size_t row = 0; row < 3; row++) assert_weights(&params, row, 0.92, 1);
    gradients(&params, -2, 2);
    smoe_optim_step(&params, &t, 1, 0);
    for (size_t row = 0; row < 3; row++)
        assert_weights(&params, row, 0.92, 1 - 0.1 * (4. / 3) / (4 / sqrt(7) + 1));
    assert_close(params.m[0], 0, CLOSE);
    assert_close(params.v[0], 4, CLOSE);
    smoe_params_free(&params);
}

/*
 * If the gradient is g at every step, m^ = g and v^ = g^2, whatever the betas: each step is the
 * rate itself. The usual betas are rounded in binary, and the bias corrections must match what the
 * moments hold: computed from 0.999 itself they are off by 1.3e-5 in single precision, the step by
 * 6e-6. Storing w, between 1 and 2, rounds a step of 0.1 by 6e-8, which is 6e-7 of it.
 */
static void constant_gradient(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAM);
    t.optimizer.beta1 = 0.9;
    t.optimizer.beta2 = 0.999;
    t.optimizer.eps = 1e-12;
    smoe_params params;
    table(&params, &t);
    for (size_t step = 0; step < 5; step++) {
        real before = params.w[0];
        gradients(&params, -3, 0);
        smoe_optim_step(&params, &t, step, 0);
        assert_close((params.w[0] - before) / 0.1, 1, 3e-6);
    }
    smoe_params_free(&params);
}

/* Momentum 1/2: moves by 4, then by 4/2 - 1 = 1: w = 1 - 0.4 - 0.1. Without momentum: -4, +1. */
static void sgd_by_hand(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
    smoe_params params;
    table(&params, &t);
    assert_int_equal(smoe_optim_bytes(&params, &t), 6 * sizeof(real));
    gradients(&params, 4, 1);
    smoe_optim_step(&params, &t, 0, 0);
    assert_cleared(&params);
    assert_weights(&params, 0, 0.6, 0.9);
    gradients(&params, -1, 0);
    smoe_optim_step(&params, &t, 1, 0);
    for (size_t row = 0; row < 3; row++) assert_weights(&params, row, 0.5, 0.85);
    smoe_params_free(&params);
    t.optimizer.momentum = 0;
    table(&params, &t);
    assert_int_equal(smoe_optim_bytes(&params, &t), 0);
    gradients(&params, 4, 1);
    smoe_optim_step(&params, &t, 0, 0);
    gradients(&params, -1, 0);
    smoe_optim_step(&params, &t, 1, 0);
    assert_weights(&params, 0, 0.7, 0.9);
    smoe_params_free(&params);
}

/*
 * Adafactor on tensors that are too small for factors, rate 0.1, betas 1/2 and at most 3/4, w = 1.
 *   t = 1: b = 0.  g = 4: V = 16, u = 1, m = 1/2, w = 1 - 0.05 = 0.95;  g = 0: nothing
 *   t = 2: b = 1 - 2^-0.8 = 0.4257 < 3/4.  g = -2: V = 16 b + 4 (1 - b), u = -2/sqrt(V),
 *                                          m = 1/4 + u/2
 *                                          g = 2: V = 4 (1 - b), u = 1/sqrt(1 - b), m = u/2
 *   t = 9: 1 - 9^-0.8 = 0.83 is above 3/4.
 *          From V = 16 and m = 0 with g = 4 sqrt(5): V = 12 + 20 = 32
 */
static void adafactor_by_hand(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAFACTOR);
    smoe_params params;
    table(&params, &t);
    assert_int_equal(smoe_optim_bytes(&params, &t), 6 * 2 * sizeof(real));
    gradients(&params, 4, 0);
    smoe_optim_step(&params, &t, 0, 0);
    assert_cleared(&params);
    for (size_t row = 0; row < 3; row++) assert_weights(&params, row, 0.95, 1);
    gradients(&params, -2, 2);
    smoe_optim_step(&params, &t, 1, 0);
    double b = 1 - pow(2, -0.8), u = -2 / sqrt(16 * b + 4 * (1 - b));
    for (size_t row = 0; row < 3; row++)
        assert_weights(&params, row, 0.95 - 0.1 * (0.25 + u / 2), 1 - 0.1 / sqrt(1 - b) / 2);
    for (size_t i = 0; i < 3; i++) {
        params.second->w[params.second->param[i].offset] = 16;
        params.m[params.param[i].offset] = 0;
        params.w[params.param[i].offset] = 1;
    }
    gradients(&params, (real)(4 * sqrt(5)), 0);
    smoe_optim_step(&params, &t, 8, 0);
    for (size_t row = 0; row < 3; row++)
        assert_close(params.w[params.param[row].offset], 1 - 0.1 * sqrt(80. / 32) / 2, CLOSE);
    smoe_params_free(&params);
}

/* Two matrices of 40 x 300 with gradients a_i c_j. The square of such a gradient has exactly
 * these factors, so the first step is the sign of g, halved by the first moment. The second
 * step, with another gradient, is compared with the definition, element by element in double.
 * For any number of threads. */
static void adafactor_factors(void **state) {
    enum { E = 2, A = 40, C = 300, ALL = E * A * C };
    const size_t dim[] = {E, A, C};
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAFACTOR);
    static double g[2][ALL];
    for (size_t i = 0; i < ALL; i++) {
        double a = 1 + (double)(i / C % A), c = 2 + (double)(i % C % 7), e = i < A * C ? 1 : 1e-4;
        g[0][i] = e * a * c * (i % 3 ? 1 : -1);
        g[1][i] = (double)(real)(e * (1 + sin((double)i)));
    }
    for (int threads = 1; threads <= 3; threads++) {
        smoe_params p = {0};
        smoe_err err;
        smoe_params_add(&p, smoe_param_constant(1), 3, dim, "experts");
        p.param[0].stacked = true;
        assert_int_equal(smoe_optim_allocate(&p, &t, &err), 0);
        assert_int_equal(smoe_optim_bytes(&p, &t), (ALL + E * (A + C)) * sizeof(real));
        assert_int_equal(p.second->count, 2);
        assert_string_equal(p.second->param[1].name, "experts.columns");
        assert_int_equal(p.passes, 0); /* the gradient is read twice */
        smoe_params_init(&p, 0);
        smoe_threads_set(threads);
        for (size_t i = 0; i < ALL; i++) p.g[i] = (real)(g[0][i] = (double)(real)g[0][i]);
        smoe_optim_step(&p, &t, 0, 0);
        for (size_t i = 0; i < ALL; i++) assert_close(p.w[i], g[0][i] > 0 ? 0.95 : 1.05, CLOSE);
        for (size_t i = 0; i < ALL; i++) p.g[i] = (real)g[1][i];
        smoe_optim_step(&p, &t, 1, 0);
        double b = 1 - pow(2, -0.8);
        for (size_t e = 0; e < E; e++) {
            double rows[A] = {0}, columns[C] = {0}, mean = 0;
            for (size_t i = 0; i < A * C; i++) {
                double x = g[0][e * A * C + i], y = g[1][e * A * C + i];
                double square = b * x * x + (1 - b) * y * y;
                rows[i / C] += square / C;
                columns[i % C] += square / A;
                mean += square / (A * C);
            }
            for (size_t i = 0; i < A * C; i++) {
                double x = g[0][e * A * C + i], y = g[1][e * A * C + i];
                double u = y / sqrt(rows[i / C] * columns[i % C] / mean), m = x > 0 ? 0.5 : -0.5;
                /* m and V are stored in `real`: a few ulps of a step of about 0.05 */
                assert_close(p.w[e * A * C + i], 1 - 0.1 * m - 0.1 * (m / 2 + u / 2), 2 * CLOSE);
            }
        }
        smoe_params_free(&p);
    }
    smoe_threads_set(2);
}

/* Decay 1/2 and weights 2, 4, 8: the average is 2; then (2/4 + 4/2)/(3/4) = 10/3; then (2/8 +
 * 4/4 + 8/2)/(7/8) = 6. Frozen rows are averaged as well, and so do not change. */
static void average_by_hand(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
    const double weights[] = {2, 4, 8}, averages[] = {2, 10. / 3, 6};
    smoe_params params;
    t.ema = 0.5;
    table(&params, &t);
    for (size_t step = 0; step < 3; step++) {
        for (size_t i = 0; i < params.size; i++) params.w[i] = (real)weights[step];
        smoe_optim_average(&params, t.ema, step);
        for (size_t i = 0; i < params.size; i++)
            assert_close(params.average[i] / averages[step], 1, CLOSE);
    }
    smoe_params_exchange_average(&params);
    assert_close(params.w[0], 6, 6 * CLOSE);
    assert_close(params.average[0], 8, 0);
    smoe_params_free(&params);
}

/* V-MoE's decay of 0.999999: the second average is the mean of two numbers, up to 2.5e-7 of
 * their difference. With 1 - b^t in single precision it would be off by some percent. */
static void average_of_slow_decay(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
    smoe_params params;
    t.ema = 0.999999;
    table(&params, &t);
    for (size_t step = 0; step < 2; step++) {
        params.w[0] = step ? 3 : 1;
        smoe_optim_average(&params, t.ema, step);
    }
    assert_close(params.average[0], 2 + 2 * 2.5e-7, 2 * CLOSE);
    smoe_params_free(&params);
}

/* The limit that smoe-spec(5) states: the average is rounded like a weight, so it does not move
 * towards a weight that is nearer than half a unit in its last place, divided by 1 - b. */
static void average_stops_near_the_weight(void **state) {
    (void)state;
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
    const double unit = sizeof(real) == sizeof(float) ? FLT_EPSILON : DBL_EPSILON;
    const double nearest = unit / 2 / (1 - 0.999999);
    smoe_params params;
    t.ema = 0.999999;
    table(&params, &t);
    for (int i = 0; i < 2; i++) {
        params.average[i] = 1;
        params.w[i] = (real)(1 + (i ? 1.1 : 0.9) * nearest);
    }
    smoe_optim_average(&params, t.ema, 1000000000);
    assert_close(params.average[0], 1, 0);
    assert_close(params.average[1], 1 + unit, 0);
    smoe_params_free(&params);
}

/* Without gradients only decay acts: times the rate, kernels 0.2, head 3, others none. */
static void decay_groups(void **state) {
    for (int name = SMOE_OPTIMIZER_ADAM; name <= SMOE_OPTIMIZER_ADAFACTOR; name++) {
        smoe_train_spec t = constant_rate((smoe_optimizer)name);
        smoe_params params;
        t.optimizer.weight_decay = 0.2;
        t.optimizer.head_weight_decay = 3;
        table(&params, &t);
        smoe_optim_step(&params, &t, 0, 0);
        assert_weights(&params, 0, 1, 1);
        assert_weights(&params, 1, 0.98, 0.98);
        assert_weights(&params, 2, 0.7, 0.7);
        smoe_params_free(&params);
    }
}

/* Frozen from step 2 on: unchanged to the bit, without decay; the others are trained. */
static void until_a_step(void **state) {
    for (int name = SMOE_OPTIMIZER_ADAM; name <= SMOE_OPTIMIZER_ADAFACTOR; name++) {
        smoe_train_spec t = constant_rate((smoe_optimizer)name);
        smoe_params params;
        real before[2];
        t.optimizer.weight_decay = 0.2;
        table(&params, &t);
        params.param[SMOE_PARAM_KERNEL].rule.until = 2;
        real *kept = params.w + params.param[SMOE_PARAM_KERNEL].offset, *other = params.w;
        for (size_t step = 0; step < 4; step++) {
            real at = *other;
            memcpy(before, kept, sizeof before);
            gradients(&params, 3, 4);
            smoe_optim_step(&params, &t, step, 0);
            assert_true((memcmp(before, kept, sizeof before) == 0) == (step >= 2));
            assert_true(*other < at);
        }
        smoe_params_free(&params);
    }
}

/* The gradient of an expert's kernel is not cleared, since backward overwrites it: one pass over
 * memory less. Others are cleared. */
static void kernels_of_experts_keep_gradients(void **state) {
    for (int name = SMOE_OPTIMIZER_ADAM; name <= SMOE_OPTIMIZER_ADAFACTOR; name++) {
        smoe_train_spec t = constant_rate((smoe_optimizer)name);
        smoe_params params;
        table(&params, &t);
        params.param[SMOE_PARAM_KERNEL].stacked = true;
        gradients(&params, 3, 4);
        smoe_optim_step(&params, &t, 0, 0);
        for (size_t i = 0; i < params.count; i++) {
            const real *g = params.g + params.param[i].offset;
            assert_true(g[0] == (i == SMOE_PARAM_KERNEL ? 3 : 0));
            assert_true(g[1] == (i == SMOE_PARAM_KERNEL ? 4 : 0));
            assert_int_equal(params.param[i].fresh, i == SMOE_PARAM_KERNEL);
        }
        smoe_params_free(&params);
    }
}

/* Six gradients, three times (3, 4): norm sqrt(75). Clipped to sqrt(3): g = (0.6, 0.8),
 * multiplied by the rate of 0.1. If the norm is below the limit, or there is no limit, nothing
 * is clipped. */
static void clipping(void **state) {
    const double clip[] = {sqrt(3), 100, 0}, first[] = {0.94, 0.7, 0.7},
                 second[] = {0.92, 0.6, 0.6};
    for (size_t i = 0; i < 3; i++) {
        smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
        smoe_params params;
        t.optimizer.clip = clip[i];
        table(&params, &t);
        gradients(&params, 3, 4);
        double norm = smoe_optim_norm(&params);
        assert_close(norm, sqrt(75), 1e-12);
        smoe_optim_step(&params, &t, 0, norm);
        for (size_t row = 0; row < 3; row++) assert_weights(&params, row, first[i], second[i]);
        smoe_params_free(&params);
    }
}

/* The step uses the rate of the schedule. */
static void rate_of_the_step(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
    smoe_params params;
    t.optimizer.momentum = 0;
    t.schedule.name = SMOE_SCHEDULE_LINEAR;
    t.schedule.warmup.steps = 4;
    t.schedule.start = 1;
    table(&params, &t);
    gradients(&params, 1, 2);
    smoe_optim_step(&params, &t, 1, 0); /* 0.1 * 2/4 */
    assert_weights(&params, 0, 0.95, 0.9);
    smoe_params_free(&params);
}

/* If the first step has number 0, its rate is 0, and no share is above 1: the peak comes one
 * step later, and the last step of a linear decay has one part in steps - W left. */
static void steps_from_zero(void **state) {
    smoe_train_spec t = train(SMOE_SCHEDULE_LINEAR, 12, 4, 5);
    t.schedule.start = 0;
    const double linear_shares[] = {0, 0.25, 0.5, 0.75, 1, 7. / 8, 6. / 8};
    for (size_t i = 0; i < 7; i++) assert_rate(&t, i, linear_shares[i]);
    assert_rate(&t, 11, 1. / 8);
    t = train(SMOE_SCHEDULE_COSINE, 8, 2, 0); /* cosines of 0, 30, ... 150 degrees */
    t.schedule.start = 0;
    assert_rate(&t, 0, 0);
    assert_rate(&t, 2, 1);
    assert_rate(&t, 5, 0.5);
    assert_rate(&t, 7, (1 - sqrt(0.75)) / 2);
    t = train(SMOE_SCHEDULE_RSQRT, 60, 4, 20);
    t.schedule.start = 0;
    assert_rate(&t, 0, 0);
    assert_rate(&t, 4, 1);
    assert_rate(&t, 16, 1 / sqrt(2));
    assert_rate(&t, 40, 0.5); /* the usual cooldown: 20/20, 10/20, 1/20 of 1/2 */
    assert_rate(&t, 50, 0.25);
    assert_rate(&t, 59, 0.025);
    t = train(SMOE_SCHEDULE_CONSTANT, 60, 4, 0);
    t.schedule.start = 0;
    assert_rate(&t, 0, 1);
}

/* w - r f (g + x w) with the rate r = 0.1, the factor f of a row, its decay x: from w = 1 with g
 * of 1 and 2. A frozen row is not part of the norm and does not change. */
static void rows_by_themselves(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_SGD);
    smoe_params params;
    t.optimizer.momentum = 0;
    t.optimizer.weight_decay = 0.5;
    t.optimizer.head_weight_decay = 3;
    table(&params, &t);
    params.param[SMOE_PARAM_PLAIN].rule.decay = 2;
    params.param[SMOE_PARAM_KERNEL].rule.lr = 3;
    params.param[SMOE_PARAM_HEAD].rule.lr = 0.5;
    params.param[SMOE_PARAM_HEAD].rule.decay = 0;
    gradients(&params, 1, 2);
    smoe_optim_step(&params, &t, 0, 0);
    assert_weights(&params, SMOE_PARAM_PLAIN, 1 - 0.1 * (1 + 2), 1 - 0.1 * (2 + 2));
    assert_weights(&params, SMOE_PARAM_KERNEL, 1 - 0.3 * (1 + 0.5), 1 - 0.3 * (2 + 0.5));
    assert_weights(&params, SMOE_PARAM_HEAD, 1 - 0.05 * 1, 1 - 0.05 * 2);
    smoe_params_free(&params);
}

static void frozen_rows(void **state) {
    const size_t sizes[] = {20, 5, 3};
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAM);
    smoe_params p = {0};
    smoe_err err;
    for (size_t i = 0; i < 3; i++)
        smoe_params_add(&p, (smoe_param_kind){SMOE_PARAM_KERNEL, 1, 0}, 1, &sizes[i], "t%zu", i);
    p.param[1].frozen = true;
    smoe_params_place(&p);
    const size_t at[] = {0, 48, 32}; /* in lines of 16, the frozen one last */
    for (size_t i = 0; i < 3; i++) assert_int_equal(p.param[i].offset, at[i]);
    assert_int_equal(p.trained, 48);
    assert_int_equal(p.size, 64);
    assert_int_equal(smoe_params_trained(&p), 23);
    assert_int_equal(smoe_params_gradients(&p), 23);
    assert_int_equal(smoe_optim_allocate(&p, &t, &err), 0);
    smoe_params_init(&p, 0);
    p.g[at[0] + 19] = 3;
    p.g[at[2]] = 4;
    assert_close(smoe_optim_norm(&p), 5, 0);
    assert_close(smoe_optim_square(&p, 0, 1), 9, 0);
    assert_close(smoe_optim_square(&p, 1, 2), 0, 0);
    assert_close(smoe_optim_square(&p, 1, 3), 16, 0);
    assert_null(smoe_gradient(&p, 1));
    for (size_t step = 0; step < 3; step++) smoe_optim_step(&p, &t, step, 5);
    for (size_t i = 0; i < 5; i++) assert_true(p.w[at[1] + i] == 1);
    assert_true(p.w[at[0] + 19] < 1 && p.w[at[2]] < 1);
    smoe_params_free(&p);
}

/* Large tensors, several tasks each: the same bits for any number of threads, in the norm too. */
static void same_bits_for_any_threads(void **state) {
    static const size_t sizes[] = {100000, 3, 70000};
    enum { ALL = 3 };
    for (int name = SMOE_OPTIMIZER_ADAM; name <= SMOE_OPTIMIZER_ADAFACTOR; name++) {
        smoe_params params[ALL];
        double norm[ALL], squares = 0;
        for (int threads = 1; threads <= ALL; threads++) {
            smoe_params *p = &params[threads - 1];
            smoe_err err;
            smoe_train_spec t = constant_rate((smoe_optimizer)name);
            *p = (smoe_params){0};
            for (size_t i = 0; i < 3; i++)
                smoe_params_add(p, smoe_param_normal(SMOE_PARAM_KERNEL, 1), 1, &sizes[i], "t%zu",
                                i);
            assert_int_equal(smoe_optim_allocate(p, &t, &err), 0);
            smoe_threads_set(threads);
            smoe_params_init(p, 5);
            for (size_t i = 0; i < 3; i++) gradcheck_normal(p->g + p->param[i].offset, sizes[i], i);
            squares = 0;
            for (size_t i = 0; i < p->size; i++) squares += (double)p->g[i] * (double)p->g[i];
            norm[threads - 1] = smoe_optim_norm(p);
            t.optimizer.clip = 1;
            smoe_optim_step(p, &t, 3, norm[threads - 1]);
        }
        assert_close(norm[0] / sqrt(squares), 1, 1e-12);
        for (int i = 1; i < ALL; i++) {
            assert_true(norm[i] == norm[0]);
            assert_memory_equal(params[i].w, params[0].w, params[0].size * sizeof(real));
            assert_memory_equal(params[i].m, params[0].m, params[0].size * sizeof(real));
        }
        for (int i = 0; i < ALL; i++) smoe_params_free(&params[i]);
    }
    smoe_threads_set(2);
}

/* More parts than are summed at a time, with all values in the last part: chunks of a large
 * tensor, experts of a factored one. */
static void norms_of_many_parts(void **state) {
    enum { EXPERTS = 300 };
    const size_t large = 257 * 32768, three[] = {EXPERTS, 1, 1};
    static real dy[EXPERTS], x[EXPERTS];
    static size_t first[EXPERTS + 1];
    smoe_params params = {0};
    smoe_err err;
    smoe_params_add(&params, smoe_param_constant(0), 1, &large, "large");
    smoe_params_add(&params, smoe_param_normal(SMOE_PARAM_KERNEL, 0), 3, three, "experts");
    assert_int_equal(smoe_params_allocate(&params, 2, &err), 0);
    params.g[large - 1] = 3;
    dy[EXPERTS - 1] = 2;
    for (size_t e = 0; e < EXPERTS; e++) x[e] = 2, first[e + 1] = e + 1;
    smoe_outer_gradient outer = {.factors = {{{.at = dy}, 1}, {{.at = x}, 1}, first}};
    params.param[1].outer = &outer;
    assert_close(smoe_optim_norm(&params), 5, 0); /* 3, and 2 times 2 */
    smoe_params_free(&params);
}

/* ---- moments in BF16 ------------------------------------------------------------------------- */

enum { MANY = 40000 }; /* elements: more than a task of the optimiser, not a multiple of a piece */

static void many(smoe_params *params, const smoe_train_spec *t) {
    const size_t size = MANY;
    smoe_err err;
    *params = (smoe_params){0};
    smoe_params_add(params, smoe_param_constant(1), 1, &size, "t");
    assert_int_equal(smoe_optim_allocate(params, t, &err), 0);
    smoe_params_init(params, 0);
}

/* From equal moments one step gives equal weights, and moments that are the rounded wide ones:
 * the first to nearest, the second to one of its neighbours. */
static void narrow_moments(void **state) {
    static const struct {
        smoe_optimizer name;
        smoe_moments moments;
        size_t bytes;
    } rows[] = {{SMOE_OPTIMIZER_ADAM, SMOE_MOMENTS_BF16_FIRST, 2 + sizeof(real)},
                {SMOE_OPTIMIZER_ADAM, SMOE_MOMENTS_BF16, 4},
                {SMOE_OPTIMIZER_SGD, SMOE_MOMENTS_BF16_FIRST, 2},
                {SMOE_OPTIMIZER_SGD, SMOE_MOMENTS_BF16, 2}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        smoe_train_spec t = constant_rate(rows[k].name), wide = t;
        smoe_params a, b;
        t.optimizer.moments = rows[k].moments;
        many(&a, &t);
        assert_int_equal(smoe_optim_bytes(&a, &t), MANY * rows[k].bytes);
        many(&b, &wide);
        assert_true(!a.m && a.m_bf16 && !b.m_bf16 && !b.v_bf16);
        assert_true(!a.v_bf16 == (k != 1) && !a.v == (k != 0));
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
        for (size_t i = 0; i < MANY; i++) {
            a.m_bf16[i] = smoe_bf16_round((float)smoe_rng_normal(&rng));
            b.m[i] = smoe_bf16_widen(a.m_bf16[i]);
            smoe_bf16 v = smoe_bf16_round((float)smoe_rng_uniform(&rng));
            if (b.v) b.v[i] = smoe_bf16_widen(v);
            if (a.v) a.v[i] = b.v[i];
            if (a.v_bf16) a.v_bf16[i] = v;
            a.g[i] = b.g[i] = (real)smoe_rng_normal(&rng);
        }
        smoe_optim_step(&a, &t, 5, 0);
        smoe_optim_step(&b, &wide, 5, 0);
        assert_memory_equal(a.w, b.w, MANY * sizeof *a.w);
        assert_cleared(&a);
        for (size_t i = 0; i < MANY; i++) {
            assert_true(a.m_bf16[i] == smoe_bf16_round((float)b.m[i]));
            smoe_bf16 low = b.v ? (smoe_bf16)(smoe_float_bits((float)b.v[i]) >> 16) : 0;
            if (a.v_bf16) assert_true(a.v_bf16[i] == low || a.v_bf16[i] == low + 1);
            if (a.v) assert_true(a.v[i] == b.v[i]);
        }
        smoe_params_free(&a);
        smoe_params_free(&b);
    }
}

/* Without gradients v is 0.999^n of its initial value. The last bit of BF16 is at least 2^-8 of
 * a number, so with rounding to nearest v would never fall; with stochastic rounding its mean
 * does. After n steps each of 40000 elements has accumulated n roundings of at most 2^-7 of
 * itself, with half that as standard deviation: sqrt(500) 2^-8 = 9%, their mean 0.05%; six of
 * that are allowed. Each step has the same bits for any number of threads. */
static void second_moment_does_not_stand_still(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAM);
    t.optimizer.moments = SMOE_MOMENTS_BF16;
    t.optimizer.beta2 = 0.999;
    smoe_bf16 *first = NULL;
    for (int threads = 1; threads <= 3; threads += 2) {
        smoe_params p;
        many(&p, &t);
        smoe_threads_set(threads);
        for (size_t i = 0; i < MANY; i++) p.v_bf16[i] = smoe_bf16_round(1e-4f);
        for (size_t step = 0; step < 500; step++) smoe_optim_step(&p, &t, step, 0);
        double mean = 0;
        for (size_t i = 0; i < MANY; i++) mean += (double)smoe_bf16_widen(p.v_bf16[i]) / MANY;
        double right = pow(0.999, 500) * (double)smoe_bf16_widen(smoe_bf16_round(1e-4f));
        assert_close(mean / right, 1, 6 * 0.0005);
        if (!first) {
            first = malloc(MANY * sizeof *first);
            memcpy(first, p.v_bf16, MANY * sizeof *first);
        }
        assert_memory_equal(first, p.v_bf16, MANY * sizeof *first);
        smoe_params_free(&p);
    }
    smoe_threads_set(2);
    free(first);
}

/* From equal moments and gradients: places in a tensor, far apart or close, and tensors are each
 * rounded with their own random numbers. */
static void roundings_do_not_repeat(void **state) {
    smoe_train_spec t = constant_rate(SMOE_OPTIMIZER_ADAM);
    t.optimizer.moments = SMOE_MOMENTS_BF16;
    const size_t size = MANY;
    smoe_params p = {0};
    smoe_err err;
    smoe_params_add(&p, smoe_param_constant(1), 1, &size, "a");
    smoe_params_add(&p, smoe_param_constant(1), 1, &size, "b");
    assert_int_equal(smoe_optim_allocate(&p, &t, &err), 0);
    for (size_t i = 0; i < p.size; i++) {
        p.v_bf16[i] = smoe_bf16_round(1);
        p.g[i] = (real)1.01; /* v of 1.005 lies between two numbers of BF16 */
    }
    smoe_optim_step(&p, &t, 0, 0);
    enum { PIECE = 1024, TASK = 32768 };
    const smoe_bf16 *v = p.v_bf16;
    const size_t others[] = {PIECE, TASK, p.param[1].offset};
    for (size_t i = 0; i < 3; i++) assert_memory_not_equal(v, v + others[i], PIECE * sizeof *v);
    smoe_params_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant),
        cmocka_unit_test(linear),
        cmocka_unit_test(cosine),
        cmocka_unit_test(rsqrt),
        cmocka_unit_test(nothing_between),
        cmocka_unit_test(adam_by_hand),
        cmocka_unit_test(constant_gradient),
        cmocka_unit_test(sgd_by_hand),
        cmocka_unit_test(adafactor_by_hand),
        cmocka_unit_test(adafactor_factors),
        cmocka_unit_test(average_by_hand),
        cmocka_unit_test(average_of_slow_decay),
        cmocka_unit_test(average_stops_near_the_weight),
        cmocka_unit_test(decay_groups),
        cmocka_unit_test(until_a_step),
        cmocka_unit_test(kernels_of_experts_keep_gradients),
        cmocka_unit_test(clipping),
        cmocka_unit_test(rate_of_the_step),
        cmocka_unit_test(steps_from_zero),
        cmocka_unit_test(rows_by_themselves),
        cmocka_unit_test(frozen_rows),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(norms_of_many_parts),
        cmocka_unit_test(narrow_moments),
        cmocka_unit_test(second_moment_does_not_stand_still),
        cmocka_unit_test(roundings_do_not_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
