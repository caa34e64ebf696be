/*
 * The fused MLP against two products with GELU between them, to the last bit, and against plain
 * loops in double: any number of rows, hidden units on both sides of a part, widths that are not
 * multiples of a vector, weights in BF16, residuals, experts without rows. Runs again for every
 * instruction set.
 */
#include "base/rng.h"
#include "base/threads.h"
#include "isas.h"
#include "math/gemm.h"
#include "math/fused_mlp.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const real HOLE = 1e30f; /* fills memory that a fused MLP must not touch */

enum { MOST = 5, THREADS = 3 };
enum { NO_RESIDUAL, OTHER, ITSELF, RESIDUALS };

/* Fused MLPs, one per expert, with all their operands. */
typedef struct fixture {
    size_t count, d, h, first[MOST + 1], most, room;
    real *x, *y, *start, *residual, *w1, *w2, *b1, *b2, *scratch;
    smoe_bf16 *w1_bf16, *w2_bf16;
    int kind;
    bool narrow;
    smoe_gelu gelu;
} fixture;

static real *numbers(size_t n, real scale, smoe_rng *rng) {
    real *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = scale * (real)(2 * smoe_rng_uniform(rng) - 1);
    x[n] = HOLE;
    return x;
}

/* The same numbers in BF16; x is replaced by these values. */
static smoe_bf16 *narrowed(real *x, size_t n) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    smoe_bf16 *y = malloc((n ? n : 1) * sizeof *y);
    assert_non_null(y);
    kern->narrow(y, x, n);
    kern->widen(x, y, n);
    return y;
}

static fixture fixture_of(size_t count, const size_t *rows, size_t d, size_t h, uint64_t seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    fixture f = {.count = count, .d = d, .h = h};
    for (size_t e = 0; e < count; e++) f.first[e + 1] = f.first[e] + rows[e];
    size_t size = f.first[count] * d;
    f.kind = (int)smoe_rng_below(&rng, RESIDUALS);
    f.gelu = (smoe_gelu)smoe_rng_below(&rng, 3);
    f.x = numbers(size, 1, &rng);
    f.start = numbers(size, 1, &rng);
    f.y = numbers(size, 1, &rng);
    f.residual = numbers(size, 1, &rng);
    f.w1 = numbers(count * h * d, 2 / (real)sqrt((double)d), &rng);
    f.w2 = numbers(count * d * h, 2 / (real)sqrt((double)h), &rng);
    f.b1 = numbers(count * h, 1, &rng);
    f.b2 = numbers(count * d, 1, &rng);
    f.narrow = smoe_rng_below(&rng, 2);
    if (f.narrow) {
        f.w1_bf16 = narrowed(f.w1, count * h * d);
        f.w2_bf16 = narrowed(f.w2, count * d * h);
    }
    for (size_t e = 0; e < count; e++) f.most = rows[e] > f.most ? rows[e] : f.most;
    f.room = THREADS * smoe_fused_mlp_scratch(f.most, d, h);
    f.scratch = aligned_alloc(64, (f.room + 16) * sizeof(real));
    assert_non_null(f.scratch);
    for (size_t i = 0; i < f.room; i++) f.scratch[i] = (real)NAN; /* written before it is read */
    f.scratch[f.room] = HOLE;
    return f;
}

static void fixture_free(fixture *f) {
    real *all[] = {f->x, f->y, f->start, f->residual, f->w1, f->w2, f->b1, f->b2, f->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(f->w1_bf16);
    free(f->w2_bf16);
}

static const real *residual_of(const fixture *f) {
    return f->kind == NO_RESIDUAL ? NULL : f->kind == OTHER ? f->residual : f->start;
}

static smoe_values weights_of(const fixture *f, const real *w, const smoe_bf16 *narrow, size_t e) {
    smoe_values all = {f->narrow ? NULL : w, narrow};
    return smoe_values_from(all, e * f->h * f->d);
}

static smoe_fused_mlp fused_mlp_of(size_t e, const void *context) {
    const fixture *f = context;
    size_t at = f->first[e] * f->d;
    return (smoe_fused_mlp){.m = f->first[e + 1] - f->first[e],
                            .d = f->d,
                            .h = f->h,
                            .y = f->y + at,
                            .x = f->x + at,
                            .residual = f->kind == ITSELF  ? f->y + at
                                        : f->kind == OTHER ? f->residual + at
                                                           : NULL,
                            .w1 = weights_of(f, f->w1, f->w1_bf16, e),
                            .w2 = weights_of(f, f->w2, f->w2_bf16, e),
                            .b1 = f->b1 + e * f->h,
                            .b2 = f->b2 + e * f->d,
                            .gelu = f->gelu};
}

static void compute(fixture *f, int threads) {
    memcpy(f->y, f->start, f->first[f->count] * f->d * sizeof(real));
    smoe_threads_set(threads);
    smoe_fused_mlp_each(f->count, f->most, fused_mlp_of, f, f->scratch, threads);
    assert_true(f->y[f->first[f->count] * f->d] == HOLE);
    assert_true(f->scratch[f->room] == HOLE);
}

/* The reference: two products. */
static void assert_bits(const fixture *f) {
    for (size_t e = 0; e < f->count; e++) {
        size_t m = f->first[e + 1] - f->first[e], at = f->first[e] * f->d, size = f->h * f->d;
        const real *residual = residual_of(f);
        real *hidden = malloc((m * f->h + 1) * sizeof *hidden);
        real *y = malloc((m * f->d + 1) * sizeof *y);
        assert_non_null(hidden);
        assert_non_null(y);
        smoe_product fc1 =
            smoe_product_of(hidden, smoe_matrix_of(f->x + at, m, f->d),
                            smoe_transposed(smoe_matrix_of(f->w1 + e * size, f->h, f->d)));
        fc1.to.bias = f->b1 + e * f->h;
        smoe_gemm_serial(fc1);
        smoe_kernels_get()->row->gelu(hidden, hidden, m * f->h, f->gelu);
        smoe_product fc2 =
            smoe_product_of(y, smoe_matrix_of(hidden, m, f->h),
                            smoe_transposed(smoe_matrix_of(f->w2 + e * size, f->d, f->h)));
        fc2.to.bias = f->b2 + e * f->d;
        fc2.to.add = residual ? residual + at : NULL;
        smoe_gemm_serial(fc2);
        assert_memory_equal(y, f->y + at, m * f->d * sizeof *y);
        free(hidden);
        free(y);
    }
}

static double gelu_of(double x, smoe_gelu kind) {
    if (kind == SMOE_GELU_ERF) return x * 0.5 * erfc(-x * sqrt(0.5));
    if (kind == SMOE_GELU_QUICK) return x / (1 + exp(-1.702 * x));
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* Each of h + d roundings is half an ulp of a sum of at most `size`. GELU's own error, and its
 * slope of at most 1.13, are covered by a factor of two. */
static void assert_near(const fixture *f) {
    const double ulp = 0x1p-24;
    double *hidden = malloc(f->h * sizeof *hidden), *sizes = malloc(f->h * sizeof *sizes);
    assert_non_null(hidden);
    assert_non_null(sizes);
    for (size_t e = 0; e < f->count; e++)
        for (size_t i = f->first[e]; i < f->first[e + 1]; i++) {
            for (size_t j = 0; j < f->h; j++) {
                double z = (double)f->b1[e * f->h + j];
                sizes[j] = fabs(z);
                for (size_t q = 0; q < f->d; q++) {
                    double t =
                        (double)f->x[i * f->d + q] * (double)f->w1[(e * f->h + j) * f->d + q];
                    z += t;
                    sizes[j] += fabs(t);
                }
                hidden[j] = gelu_of(z, f->gelu);
            }
            for (size_t j = 0; j < f->d; j++) {
                const real *residual = residual_of(f);
                double add = residual ? (double)residual[i * f->d + j] : 0;
                double y = (double)f->b2[e * f->d + j] + add, size = fabs(y) + fabs(add);
                for (size_t q = 0; q < f->h; q++) {
                    double w = (double)f->w2[(e * f->d + j) * f->h + q];
                    y += w * hidden[q];
                    size += fabs(w) * sizes[q];
                }
                double error = fabs((double)f->y[i * f->d + j] - y);
                if (!(error <= 2 * (double)(f->h + f->d) / 2 * ulp * size))
                    fail_msg("row %zu, column %zu: off by %g", i, j, error);
            }
        }
    free(hidden);
    free(sizes);
}

static void each_number_of_rows(void **state) {
    for (size_t m = 1; m <= 150; m++) {
        fixture f = fixture_of(1, &m, 20, 24, m);
        compute(&f, 1 + (int)(m % THREADS));
        assert_bits(&f);
        assert_near(&f);
        fixture_free(&f);
    }
}

/* Widths on both sides of a vector, and of 384, where sums of the first layer are split; hidden
 * units on both sides of a block of 24 or 48 and of a part of 384. */
static void shapes(void **state) {
    static const size_t sizes[][2] = {{1, 1},    {3, 50},   {15, 384},  {16, 385}, {17, 47},
                                      {33, 769}, {384, 49}, {385, 100}, {400, 23}, {130, 1100}};
    static const size_t rows[][MOST] = {
        {1, 0, 7, 40, 17}, {0, 0, 0, 0, 0}, {129, 300, 16, 0, 3}, {48, 33, 112, 96, 5}};
    uint64_t seed = 1000;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++, seed++) {
            fixture f = fixture_of(1 + seed % MOST, rows[r], sizes[i][0], sizes[i][1], seed);
            compute(&f, 1 + (int)(seed % THREADS));
            assert_bits(&f);
            if (i < 5) assert_near(&f);
            fixture_free(&f);
        }
}

static void same_bits_for_any_threads(void **state) {
    static const size_t rows[] = {700};
    for (uint64_t seed = 0; seed < 6; seed++) {
        fixture f = fixture_of(1, rows, 40, 500, seed);
        size_t bytes = rows[0] * 40 * sizeof(real);
        real *alone = malloc(bytes);
        assert_non_null(alone);
        compute(&f, 1);
        memcpy(alone, f.y, bytes);
        for (int threads = 2; threads <= THREADS; threads++) {
            compute(&f, threads);
            assert_memory_equal(f.y, alone, bytes);
        }
        free(alone);
        fixture_free(&f);
    }
}

/* At least four blocks per thread, of 128 rows or fewer; the rows of one product are shared
 * evenly. */
static void used_where_faster(void **state) {
    assert_true(smoe_fused_mlp_pays(8, 100, 2));
    assert_false(smoe_fused_mlp_pays(7, 100, 2));
    assert_true(smoe_fused_mlp_pays(4, 129, 2));
    assert_true(smoe_fused_mlp_pays(1, 8 * 128 - 127, 2));
    assert_true(smoe_fused_mlp_pays(1, 6 * 128 + 1, 2)); /* seven blocks, rounded up to eight */
    assert_false(smoe_fused_mlp_pays(1, 6 * 128, 2));
    assert_false(smoe_fused_mlp_pays(1000, 1, 1)); /* memory is the limit */
    assert_false(smoe_fused_mlp_pays(1000, 0, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_of_rows),
        cmocka_unit_test(shapes),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(used_where_faster),
        cmocka_unit_test(isas_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
