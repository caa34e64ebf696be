/*
 * Gradients that are kept as outer products: computed in steps they equal the numbers that backward
 * writes, their norm is that of the full gradients, and training with them equals training without,
 * to the bit.
 */
#include "approx.h"
#include "gradcheck.h"
#include "isas.h"
#include "models.h"
#include "base/rng.h"
#include "base/threads.h"
#include "math/outer.h"
#include "math/gemm.h"
#include "train/optim.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one gradient ---------------------------------------------------------------------------- */

enum { E = 4, OUT = 32, IN = 48, ROWS = 54, SIZE = E * OUT * IN };
static const size_t first[E + 1] = {0, 5, 5, 5 + SMOE_FACTORS_ROWS, ROWS}; /* 5, 0, 32 and 17 */

typedef struct single {
    smoe_param row;
    smoe_outer_gradient outer;
    real dy[ROWS * OUT], x[ROWS * IN], written[SIZE];
} single;

/* Normal factors, and their product by the tiles that all products use. */
static void make(single *s) {
    s->row = (smoe_param){.ndim = 3, .dim = {E, OUT, IN}, .size = SIZE, .outer = &s->outer};
    s->outer = (smoe_outer_gradient){{{{.at = s->dy}, OUT}, {{.at = s->x}, IN}, first}, {0}};
    gradcheck_normal(s->dy, ROWS * OUT, 1);
    gradcheck_normal(s->x, ROWS * IN, 2);
    for (size_t e = 0; e < E; e++) {
        size_t rows = first[e + 1] - first[e];
        smoe_matrix dy = smoe_matrix_of(s->dy + first[e] * OUT, rows, OUT);
        smoe_gemm_serial(smoe_product_of(s->written + e * OUT * IN, smoe_transposed(dy),
                                         smoe_matrix_of(s->x + first[e] * IN, rows, IN)));
    }
}

/* In steps, without writing beyond each; the memory prefetched meanwhile does not change the
 * result. */
static void steps(void **state) {
    static single s;
    static real out[SMOE_FACTORS_STEP + 1];
    make(&s);
    size_t size = smoe_outer_step(&s.row);
    assert_int_equal(OUT * IN % size, 0);
    smoe_prefetch_ranges next = {.at = {(const char *)out}, .bytes = {sizeof out}};
    for (size_t at = 0; at < SIZE; at += size) {
        out[size] = 7;
        smoe_outer_write(out, &s.row, at, &next);
        assert_memory_equal(out, s.written + at, size * sizeof *out);
        assert_true(out[size] == 7);
    }
}

static double square_of(const single *s, size_t e) {
    double sum = 0;
    for (size_t o = 0; o < OUT; o++)
        for (size_t i = 0; i < IN; i++) {
            double g = 0;
            for (size_t r = first[e]; r < first[e + 1]; r++)
                g += (double)s->dy[r * OUT + o] * (double)s->x[r * IN + i];
            sum += g * g;
        }
    return sum;
}

/* Both in double, one as a sum over elements, the other over pairs of rows. */
static void squares(void **state) {
    static single s;
    make(&s);
    for (size_t e = 0; e < E; e++) {
        double right = square_of(&s, e);
        assert_true((right > 0) == (first[e + 1] > first[e]));
        assert_close(smoe_outer_square(&s.row, e), right, 1e-12 * right);
    }
    /* factors whose squares overflow */
    for (size_t i = 0; i < IN; i++) s.x[37 * IN + i] *= (real)1e25;
    double right = square_of(&s, 3);
    assert_close(smoe_outer_square(&s.row, 3), right, 1e-12 * right);
    s.x[37 * IN] = (real)NAN;
    assert_true(isnan(smoe_outer_square(&s.row, 3)));
    s.x[37 * IN] = (real)INFINITY;
    assert_false(isfinite(smoe_outer_square(&s.row, 3)));
}

/* Factors in BF16, with gaps between their rows, give what the same numbers in `real` give; only
 * the order of the sums in the square is another. */
static void factors_in_bf16(void **state) {
    enum { GAP = 16 };
    static single s;
    static smoe_bf16 dy[ROWS * (OUT + GAP)], x[ROWS * (IN + GAP)];
    static real out[SMOE_FACTORS_STEP], right[SMOE_FACTORS_STEP];
    static const smoe_prefetch_ranges none;
    make(&s);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t i = 0; i < OUT; i++) {
            real *number = s.dy + r * OUT + i;
            *number = smoe_bf16_widen(dy[r * (OUT + GAP) + i] = smoe_bf16_round((float)*number));
        }
        for (size_t i = 0; i < IN; i++) {
            real *number = s.x + r * IN + i;
            *number = smoe_bf16_widen(x[r * (IN + GAP) + i] = smoe_bf16_round((float)*number));
        }
    }
    smoe_param row = s.row;
    smoe_outer_gradient outer = {
        .factors = {{{.bf16 = dy}, OUT + GAP}, {{.bf16 = x}, IN + GAP}, first}};
    row.outer = &outer;
    size_t size = smoe_outer_step(&row);
    for (size_t at = 0; at < SIZE; at += size) {
        smoe_outer_write(right, &s.row, at, &none);
        smoe_outer_write(out, &row, at, &none);
        assert_memory_equal(out, right, size * sizeof *out);
    }
    for (size_t e = 0; e < E; e++) {
        double square = square_of(&s, e);
        assert_close(smoe_outer_square(&row, e), square, 1e-12 * square);
    }
}

/*
 * dy 3x - 3dy x = 0, exactly: numbers of 19 bits, so that three times them are exact too, of sizes
 * so different that sums are rounded. What remains is rounding of either sign; a negative sum must
 * not go into the square root.
 */
static void cancelling_rows(void **state) {
    static single s;
    for (int seed = 0; seed < 50; seed++) {
        make(&s);
        gradcheck_normal(s.dy, 5 * OUT, (uint64_t)seed);
        gradcheck_normal(s.x, 5 * IN, (uint64_t)seed + 50);
        memset(s.dy + 2 * OUT, 0, 3 * OUT * sizeof *s.dy);
        for (size_t o = 0; o < OUT; o++) {
            s.dy[o] = (real)ldexp(round(ldexp((double)s.dy[o], 16)), (int)o % 30);
            s.dy[OUT + o] = -3 * s.dy[o];
        }
        for (size_t i = 0; i < IN; i++) {
            s.x[IN + i] = (real)ldexp(round(ldexp((double)s.x[i], 16)), (int)i % 30);
            s.x[i] = 3 * s.x[IN + i];
        }
        assert_true(square_of(&s, 0) == 0);
        assert_true(smoe_outer_square(&s.row, 0) >= 0);
    }
}

static void used_where_faster(void **state) {
    assert_true(smoe_outer_pays(SMOE_FACTORS_ROWS, 16, 48));
    assert_false(smoe_outer_pays(SMOE_FACTORS_ROWS + 1, 16, 48));
    assert_false(smoe_outer_pays(1, 24, 48));
    assert_false(smoe_outer_pays(1, 48, 24));
    assert_true(smoe_outer_pays(1, SMOE_FACTORS_WIDEST, SMOE_FACTORS_WIDEST));
    assert_false(smoe_outer_pays(1, SMOE_FACTORS_WIDEST + 16, 48));
    assert_false(smoe_outer_pays(1, 48, SMOE_FACTORS_WIDEST + 16));
}

/* ---- training -------------------------------------------------------------------------------- */

enum { IMAGES = 6, STEPS = 3, CLASSES = 5 };
#define WIDE "model.width=32 model.heads=2 model.mlp=48 train.optimizer.clip=0 train.batch_size=6 "

typedef struct outcome {
    size_t outer; /* parameters of the table */
    double norm[STEPS];
    real *w; /* after the last step */
} outcome;

/* Steps of training; `factor`: with factors where they pay off. Gradients that are not written
 * are NaN in memory: no code may read them. */
static void train(outcome *o, const char *keys, bool factor) {
    models_rig r;
    smoe_err err;
    real d[IMAGES * CLASSES];
    *o = (outcome){0};
    if (!models_make(&r, keys, IMAGES, true)) fail_msg("%s was refused", keys);
    assert_int_equal(smoe_optim_allocate(r.params, &r.spec.train, &err), 0);
    assert_int_equal(r.params->passes, 1);
    r.params->passes = factor;
    assert_int_equal(smoe_model_reserve(r.model, IMAGES, true, &err), 0);
    size_t gradients = r.params->total;
    for (size_t i = 0; i < r.params->count; i++) {
        const smoe_param *p = &r.params->param[i];
        o->outer += p->outer != NULL;
        if (p->outer) gradients -= p->size;
        for (size_t j = 0; p->outer && j < p->size; j++) r.params->g[p->offset + j] = (real)NAN;
    }
    assert_int_equal(smoe_params_gradients(r.params), gradients);
    for (size_t step = 0; step < STEPS; step++) {
        r.pass.step = step;
        gradcheck_normal(d, IMAGES * r.N, step);
        smoe_model_forward(r.model, r.image, &r.pass);
        smoe_model_backward(r.model, d, &r.pass);
        o->norm[step] = smoe_optim_norm(r.params);
        smoe_optim_step(r.params, &r.spec.train, step, o->norm[step]);
    }
    o->w = malloc(r.params->size * sizeof *o->w);
    assert_non_null(o->w);
    memcpy(o->w, r.params->w, r.params->size * sizeof *o->w);
    models_free(&r);
}

/* Each number of a written gradient was rounded after at most 32 additions, half an ulp each;
 * together they are about the root of their number. The relative error of the norm of thousands
 * of them is much smaller. */
#ifdef SMOE_F64
static const double NORM = 1e-14;
#else
static const double NORM = 3e-7;
#endif

static void same_training(const char *keys, size_t rows) {
    models_rig r;
    outcome plain, outer = {0};
    train(&plain, keys, false);
    assert_int_equal(plain.outer, 0);
    assert_true(models_make(&r, keys, IMAGES, true));
    size_t bytes = r.params->size * sizeof(real);
    models_free(&r);
    for (int threads = 1; threads <= 3; threads++) {
        double norm = outer.norm[0];
        smoe_threads_set(threads);
        train(&outer, keys, true);
        assert_int_equal(outer.outer, rows);
        if (memcmp(outer.w, plain.w, bytes)) fail_msg("%s: other weights", keys);
        assert_true(threads == 1 || outer.norm[0] == norm);
        for (size_t i = 0; i < STEPS; i++) {
            assert_true(plain.norm[i] > 1e-3);
            assert_close(outer.norm[i] / plain.norm[i], 1, NORM);
        }
        free(outer.w);
    }
    smoe_threads_set(2);
    free(plain.w);
}

static void training(void **state) {
    static const char *const keys[] = {
        WIDE "model.moe.router=soft model.moe.slots_per_expert=2 model.moe.layers=last-2",
        WIDE "model.moe.router=soft model.moe.slots_per_expert=1 model.moe.expert_dropout=0.3",
        WIDE
        "model.moe.router=tokens-choice model.moe.k=2 model.moe.group_images=2 model.moe.experts=5 "
        "model.moe.capacity=1",
        WIDE "model.moe.router=experts-choice model.moe.group_images=6 model.moe.experts=9",
        WIDE "model.moe.router=identity model.moe.experts=4 model.moe.slots_per_expert=1",
        WIDE "model.moe.router=soft model.moe.slots_per_expert=5",
        WIDE "train.optimizer.moments=bf16 model.moe.slots_per_expert=1",
        WIDE "train.optimizer.name=sgd model.moe.slots_per_expert=1",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) same_training(keys[i], i ? 2 : 4);
    /* Factors in BF16, which matrix units add up in another order. */
    if (!strcmp(smoe_kernels_get()->matrix->unit, "multiply-adds")) {
        same_training(WIDE "train.precision=bf16 model.moe.slots_per_expert=1", 2);
        same_training(WIDE "train.precision=bf16 model.moe.router=tokens-choice", 2);
    }
    /* with 33 rows or more the gradient is written */
    same_training(WIDE "model.moe.router=soft model.moe.slots_per_expert=6", 0);
    /* with odd widths too */
    same_training("model.moe.router=soft model.moe.slots_per_expert=1", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps),
        cmocka_unit_test(factors_in_bf16),
        cmocka_unit_test(squares),
        cmocka_unit_test(cancelling_rows),
        cmocka_unit_test(used_where_faster),
        cmocka_unit_test(training),
        cmocka_unit_test(isas_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
