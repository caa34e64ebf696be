/*
 * Matrix products against a plain loop in double: odd shapes on both sides of every block size,
 * transposes, gaps between rows, alpha, add, bias, k = 0; the bits of a row whatever the other rows
 * are; NaN and infinity where they belong. Runs again for every instruction set.
 */
#include "approx.h"
#include "base/rng.h"
#include "base/threads.h"
#include "isas.h"
#include "math/gemm.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const real HOLE = 1e30f; /* fills memory that a product must not touch */

static real *filled(size_t n, real value) {
    real *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i <= n; i++) x[i] = value;
    return x;
}

/* A matrix with `gap` unused elements after each row, NaN in the gaps; plain or transposed. */
typedef struct matrix {
    real *at;
    size_t row, col, ld;
} matrix;

static matrix matrix_of(size_t m, size_t n, size_t gap, bool transposed, smoe_rng *rng) {
    size_t rows = transposed ? n : m, width = transposed ? m : n;
    matrix x = {.ld = width + gap};
    x.at = filled(rows * x.ld, (real)NAN);
    x.row = transposed ? 1 : x.ld;
    x.col = transposed ? x.ld : 1;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            x.at[i * x.row + j * x.col] = (real)(2 * smoe_rng_uniform(rng) - 1);
    return x;
}

static smoe_matrix view(const matrix *x, size_t m, size_t n) {
    return (smoe_matrix){smoe_reals(x->at), m, n, x->row, x->col};
}

/* A product with all its operands; start: C before the product, for those that accumulate. */
typedef struct fixture {
    smoe_product p;
    matrix a, b, add;
    real *c, *start, *bias;
} fixture;

enum { NO_ADD, ADD_OTHER, ADD_ITSELF, ADDS };

static fixture fixture_of(size_t m, size_t n, size_t k, uint64_t seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    size_t kind = smoe_rng_below(&rng, ADDS), ldc = n + smoe_rng_below(&rng, 3);
    fixture f = {.a = matrix_of(m, k, smoe_rng_below(&rng, 4), smoe_rng_below(&rng, 2), &rng),
                 .b = matrix_of(k, n, smoe_rng_below(&rng, 4), smoe_rng_below(&rng, 2), &rng),
                 .add = matrix_of(m, n, smoe_rng_below(&rng, 3), false, &rng),
                 .c = filled(m * ldc, HOLE),
                 .bias = filled(n, (real)0.25)};
    for (size_t i = 0; kind == ADD_ITSELF && i < m; i++)
        for (size_t j = 0; j < n; j++) f.c[i * ldc + j] = (real)smoe_rng_uniform(&rng);
    f.start = filled(m * ldc, 0);
    memcpy(f.start, f.c, m * ldc * sizeof *f.c);
    f.p = smoe_product_to(smoe_reals_out(f.c), ldc, view(&f.a, m, k), view(&f.b, k, n));
    if (!smoe_rng_below(&rng, 2)) f.p.to.alpha = (real)-0.7;
    if (kind == ADD_OTHER) f.p.to.add = f.add.at, f.p.to.ldadd = f.add.ld;
    if (kind == ADD_ITSELF) f.p.to.add = f.c, f.p.to.ldadd = ldc;
    if (smoe_rng_below(&rng, 2)) f.p.to.bias = f.bias;
    return f;
}

static void fixture_free(fixture *f) {
    free(f->a.at);
    free(f->b.at);
    free(f->add.at);
    free(f->c);
    free(f->start);
    free(f->bias);
}

/*
 * Each of k roundings is half an ulp of a partial sum of at most sum |a b|; a few more at the end.
 * Nothing outside C changes.
 */
static void assert_product(const fixture *f) {
    const smoe_product *p = &f->p;
    const double ulp = 0x1p-24;
    for (size_t i = 0; i < p->a.m; i++)
        for (size_t j = 0; j < p->to.ldc; j++) {
            double sum = 0, size = 0, c = (double)f->c[i * p->to.ldc + j];
            if (j >= p->b.n) {
                assert_true(f->c[i * p->to.ldc + j] == HOLE);
                continue;
            }
            for (size_t q = 0; q < p->a.n; q++) {
                double t = (double)p->a.of.at[i * p->a.row + q * p->a.col] *
                           (double)p->b.of.at[q * p->b.row + j * p->b.col];
                sum += t;
                size += fabs(t);
            }
            const real *from = p->to.add == f->c ? f->start : p->to.add;
            double add = from ? (double)from[i * p->to.ldadd + j] : 0;
            double bias = p->to.bias ? (double)p->to.bias[j] : 0;
            sum = sum * (double)p->to.alpha + add + bias;
            size += fabs(add) + fabs(bias);
            if (!(fabs(c - sum) <= ((double)p->a.n / 2 + 4) * ulp * size))
                fail_msg("%zu x %zu x %zu: C[%zu,%zu] = %.9g, not %.9g", p->a.m, p->b.n, p->a.n, i,
                         j, c, sum);
        }
    assert_true(f->c[p->a.m * p->to.ldc] == HOLE);
}

static void against_loops(void **state) {
    static const size_t sizes[] = {1, 2, 3, 5, 6, 7, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 48, 65};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
    for (uint64_t i = 0; i < 1500; i++) {
        size_t m = sizes[smoe_rng_below(&rng, SIZES)], n = sizes[smoe_rng_below(&rng, SIZES)];
        fixture f = fixture_of(m, n, sizes[smoe_rng_below(&rng, SIZES)], i);
        if (i % 2)
            smoe_gemm(f.p);
        else
            smoe_gemm_serial(f.p);
        assert_product(&f);
        fixture_free(&f);
    }
}

/* On both sides of the blocks of k (384), of n (512) and of rows (8 panels of 6 or 14); of
 * skinny products (128 rows) and small k (128); of skinny products whose terms fit a block; and
 * of the sizes that are shared between threads. */
static void across_blocks(void **state) {
    static const size_t sizes[][3] = {
        {3, 5, 383},    {5, 3, 384},    {14, 33, 385},  {2, 4, 769},   {8, 49, 127},
        {8, 47, 128},   {9, 25, 129},   {64, 97, 130},  {65, 24, 140}, {16, 23, 400},
        {17, 24, 800},  {1, 1, 128},    {3, 511, 9},    {7, 512, 3},   {4, 513, 20},
        {113, 520, 3},  {112, 16, 70},  {257, 140, 70}, {49, 17, 300}, {96, 300, 260},
        {128, 50, 140}, {129, 50, 140}, {100, 29, 2100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], 100 * i + seed);
            smoe_gemm(f.p);
            assert_product(&f);
            fixture_free(&f);
        }
}

static void empty_products(void **state) {
    static const size_t sizes[][3] = {{3, 5, 0}, {20, 40, 0}, {0, 4, 3}, {4, 0, 3}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], seed);
            if (seed % 2)
                smoe_gemm(f.p);
            else
                smoe_gemm_serial(f.p);
            assert_product(&f);
            fixture_free(&f);
        }
}

/* ---- bits ------------------------------------------------------------------------------------ */

static void with_threads(fixture *f, real *c, int threads) {
    smoe_product p = f->p;
    memcpy(c, f->start, p.a.m * p.to.ldc * sizeof *c);
    p.to.c.at = c;
    if (p.to.add == f->c) p.to.add = c;
    smoe_threads_set(threads);
    if (threads)
        smoe_gemm(p);
    else
        smoe_gemm_serial(p);
}

static void same_bits_for_any_threads(void **state) {
    static const size_t sizes[][3] = {
        {300, 200, 290}, {40, 700, 300}, {500, 20, 513}, {64, 64, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], seed);
            size_t bytes = f.p.a.m * f.p.to.ldc * sizeof(real);
            real *alone = filled(f.p.a.m * f.p.to.ldc, 0),
                 *shared = filled(f.p.a.m * f.p.to.ldc, 0);
            with_threads(&f, alone, 0);
            for (int threads = 1; threads <= 3; threads++) {
                with_threads(&f, shared, threads);
                assert_memory_equal(alone, shared, bytes);
            }
            free(alone);
            free(shared);
            fixture_free(&f);
        }
    smoe_threads_set(2);
}

/* Any rectangle of C, computed alone from its rows of A and columns of B, has the same bits as
 * in the whole product: with other neighbours, at other places of a tile and a vector. */
static void same_bits_of_any_rectangle(void **state) {
    smoe_rng rng = smoe_rng_at(2, SMOE_RNG_TEST, 0, 0, 0);
    enum { ALL = 167 }; /* more than any limit for skinny products */
    for (uint64_t seed = 0; seed < 16; seed++) {
        fixture f = fixture_of(ALL, 75, seed < 12 ? 300 : 2100, seed);
        real *whole = filled(f.p.a.m * f.p.to.ldc, 0), *part = filled(f.p.a.m * f.p.to.ldc, 0);
        with_threads(&f, whole, 1);
        for (size_t round = 0; round < 40; round++) {
            size_t i0 = smoe_rng_below(&rng, ALL), j0 = smoe_rng_below(&rng, 75);
            smoe_product p = f.p;
            p.a.m = 1 + smoe_rng_below(&rng, ALL - i0);
            if (round % 2 && p.a.m > 8)
                p.a.m = 1 + p.a.m % 8; /* the smallest have their own code */
            p.b.n = 1 + smoe_rng_below(&rng, 75 - j0);
            memcpy(part, f.start, f.p.a.m * f.p.to.ldc * sizeof *part);
            if (p.to.add) p.to.add = (p.to.add == f.c ? part : p.to.add) + i0 * p.to.ldadd + j0;
            p.to.c.at = part + i0 * p.to.ldc + j0;
            p.a.of.at += i0 * p.a.row;
            p.b.of.at += j0 * p.b.col;
            if (p.to.bias) p.to.bias += j0;
            smoe_gemm_serial(p);
            for (size_t i = i0; i < i0 + p.a.m; i++)
                assert_memory_equal(part + i * p.to.ldc + j0, whole + i * p.to.ldc + j0,
                                    p.b.n * sizeof(real));
        }
        free(whole);
        free(part);
        fixture_free(&f);
    }
}

/* Skinny products with weights without gaps, which are read in their order in memory while the
 * sums are stored: the bits equal those of the same weights with gaps, which take the usual
 * path. */
static void skinny_weights_without_gaps(void **state) {
    static const size_t rows[] = {1, 2, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33},
                        columns[] = {32, 48, 160, 768, 40}, terms[] = {127, 128, 131, 300, 900};
    enum { ROWS = sizeof rows / sizeof *rows, COLUMNS = 5, TERMS = 5, GAP = 3 };
    for (size_t i = 0; i < ROWS * COLUMNS * TERMS; i++) {
        size_t n = columns[i % COLUMNS], k = terms[i / COLUMNS % TERMS];
        fixture f = fixture_of(rows[i / COLUMNS / TERMS], n, k, i);
        smoe_rng rng = smoe_rng_at(i, SMOE_RNG_TEST, 1, 0, 0);
        matrix tight = matrix_of(k, n, 0, false, &rng);
        real *wide = filled(k * (n + GAP), (real)NAN);
        for (size_t q = 0; q < k; q++)
            memcpy(wide + q * (n + GAP), tight.at + q * n, n * sizeof *wide);
        size_t bytes = f.p.a.m * f.p.to.ldc * sizeof(real);
        real *apart = filled(f.p.a.m * f.p.to.ldc, 0), *together = filled(f.p.a.m * f.p.to.ldc, 0);
        f.p.b.col = 1;
        f.p.b.row = n + GAP;
        f.p.b.of.at = wide;
        with_threads(&f, apart, 0);
        f.p.b.row = n;
        f.p.b.of.at = tight.at;
        for (int threads = 0; threads <= 2; threads++) {
            with_threads(&f, together, threads);
            assert_memory_equal(apart, together, bytes);
        }
        smoe_gemm_serial(f.p);
        assert_product(&f);
        free(tight.at);
        free(wide);
        free(apart);
        free(together);
        fixture_free(&f);
    }
    smoe_threads_set(2);
}

/* Stores that bypass the caches give the same bits, at addresses that allow them and at others. */
static void streamed(void **state) {
    static const size_t sizes[][3] = {{70, 96, 8},  {33, 64, 200}, {29, 50, 31},  {20, 64, 900},
                                      {5, 32, 0},   {50, 512, 9},  {19, 250, 20}, {11, 280, 16},
                                      {9, 64, 100}, {30, 768, 24}};
    enum { MOST = 1 << 15, ALIGN = 64 / sizeof(real) };
    real *plain = aligned_alloc(64, MOST * sizeof(real)),
         *past = aligned_alloc(64, MOST * sizeof(real));
    assert_true(plain && past);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 16; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], seed);
            smoe_product p = f.p;
            size_t shift = seed % 2;
            p.to.add = NULL;
            if (seed % 4 < 2) p.to.bias = NULL;
            p.to.ldc = (p.b.n + ALIGN - 1) / ALIGN * ALIGN;
            for (size_t j = 0; j < MOST; j++) plain[j] = past[j] = HOLE;
            p.to.c.at = plain + shift;
            smoe_gemm(p);
            p.to.c.at = past + shift;
            p.to.stream = true;
            smoe_gemm(p);
            assert_memory_equal(plain, past, MOST * sizeof(real));
            fixture_free(&f);
        }
    free(plain);
    free(past);
}

/* The same bits, except which NaN it is: that depends on the order of the factors. */
static void assert_same_numbers(const real *a, const real *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isnan(a[i]) || !isnan(b[i])) assert_memory_equal(a + i, b + i, sizeof *a);
}

/* B in BF16: the bits of the product with the same values in `real`, at any place in the blocks.
 * The copy ends with the last element used, so that a sanitizer detects reads beyond it. */
static void narrow_b(void **state) {
    static const size_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},      {2, 33, 17},   {13, 65, 31},
                                      {14, 32, 64}, {40, 140, 300}, {9, 530, 260}, {3, 4, 0},
                                      {1, 31, 400}, {8, 40, 385},   {20, 50, 800}};
    smoe_rng rng = smoe_rng_at(3, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], seed);
            size_t k = f.p.a.n, n = f.p.b.n;
            size_t used = k ? (k - 1) * f.p.b.row + (n - 1) * f.p.b.col + 1 : 0;
            smoe_bf16 *b = malloc((used + !used) * sizeof *b);
            real *wide = filled(f.p.a.m * f.p.to.ldc, 0), *narrow = filled(f.p.a.m * f.p.to.ldc, 0);
            for (size_t j = 0; j < used; j++) {
                b[j] = (smoe_bf16)smoe_rng_below(&rng, 1 << 16); /* any pattern, NaN too */
                f.b.at[j] = smoe_bf16_widen(b[j]);
            }
            with_threads(&f, wide, 2);
            f.p.b.of.bf16 = b;
            f.p.b.of.at = NULL;
            for (int threads = 0; threads <= 3; threads++) {
                with_threads(&f, narrow, threads);
                assert_same_numbers(wide, narrow, f.p.a.m * f.p.to.ldc);
            }
            free(b);
            free(wide);
            free(narrow);
            fixture_free(&f);
        }
    smoe_threads_set(2);
}

/* ---- several products at once, simple examples ----------------------------------------------- */

static smoe_product ith(size_t i, const void *context) {
    return ((const fixture *)context)[i].p;
}

/* Products of different shapes, empty ones too: more and fewer than there are threads. */
static void many_products_at_a_time(void **state) {
    for (size_t count = 0; count <= 24; count += 3)
        for (int threads = 1; threads <= 3; threads++) {
            fixture f[24];
            for (size_t i = 0; i < count; i++) f[i] = fixture_of(i * 7 % 20, 9 + i, 40, i);
            smoe_threads_set(threads);
            smoe_gemm_chain(count, &(smoe_gemm_stage){ith, f}, 1);
            for (size_t i = 0; i < count; i++) {
                assert_product(&f[i]);
                fixture_free(&f[i]);
            }
        }
    fixture two[2] = {fixture_of(300, 200, 100, 1), fixture_of(20, 200, 100, 2)};
    smoe_threads_set(2);
    smoe_gemm_chain(2, &(smoe_gemm_stage){ith, two}, 1);
    for (size_t i = 0; i < 2; i++) {
        assert_product(&two[i]);
        fixture_free(&two[i]);
    }
}

/* Products of one shape that lie one after another: the bits of each alone. */
static void batch_of_products(void **state) {
    enum { COUNT = 5, M = 9, N = 20, K = 17 };
    real a[COUNT * M * K], b[COUNT * K * N], c[COUNT * M * N], add[COUNT * M * N], right[M * N];
    smoe_rng rng = smoe_rng_at(4, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < COUNT * M * K; i++) a[i] = (real)smoe_rng_uniform(&rng);
    for (size_t i = 0; i < COUNT * K * N; i++) b[i] = (real)smoe_rng_uniform(&rng);
    for (size_t i = 0; i < COUNT * M * N; i++) add[i] = (real)smoe_rng_uniform(&rng);
    smoe_product p = smoe_product_of(c, smoe_matrix_of(a, M, K), smoe_matrix_of(b, K, N));
    p.to.add = add;
    smoe_gemm_batch(COUNT, p, M * K, K * N, M * N);
    for (size_t i = 0; i < COUNT; i++) {
        p = smoe_product_of(right, smoe_matrix_of(a + i * M * K, M, K),
                            smoe_matrix_of(b + i * K * N, K, N));
        p.to.add = add + i * M * N;
        smoe_gemm_serial(p);
        assert_memory_equal(c + i * M * N, right, sizeof right);
    }
}

enum { CHAINED = 24, WIDEST = 200 };
static real squares[CHAINED][WIDEST * WIDEST];

/* C^T C of the i-th product. */
static smoe_product square(size_t i, const void *context) {
    const smoe_product *p = &((const fixture *)context)[i].p;
    smoe_matrix c = smoe_matrix_rows((smoe_rows){smoe_written(p->to.c), p->to.ldc}, p->a.m, p->b.n);
    return smoe_product_of(squares[i], smoe_transposed(c), c);
}

/* A stage finds the results of the stage before, whether products are cut or not. */
static void stages_of_products(void **state) {
    static const struct {
        size_t count, m, n;
    } shape[] = {{0, 9, 9}, {1, 33, 17}, {5, 33, 17}, {CHAINED, 33, 17}, {2, 300, WIDEST}};
    static real right[WIDEST * WIDEST];
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
        for (int threads = 1; threads <= 3; threads++) {
            fixture f[CHAINED];
            size_t count = shape[s].count, n = shape[s].n;
            for (size_t i = 0; i < count; i++) f[i] = fixture_of(shape[s].m, n, 100, i);
            const smoe_gemm_stage stage[] = {{ith, f}, {square, f}};
            smoe_threads_set(threads);
            smoe_gemm_chain(count, stage, 2);
            for (size_t i = 0; i < count; i++) {
                assert_product(&f[i]);
                smoe_product p = square(i, f);
                p.to.c.at = right;
                smoe_gemm_serial(p);
                assert_memory_equal(squares[i], right, n * n * sizeof *right);
                fixture_free(&f[i]);
            }
        }
}

/* X = (1 2; 3 4), W = (1 0; 0 1; 1 1), b = (10 20 30): Y = (11 22 33; 13 24 37). With dY = Y:
 * dX = dY W = (44 55; 50 61), dW = 1 + dY^T X = (51 75; 95 141; 145 215). */
static void linear_by_hand(void **state) {
    const real x[] = {1, 2, 3, 4}, w[] = {1, 0, 0, 1, 1, 1}, b[] = {10, 20, 30};
    real y[6], dx[4], dw[6] = {1, 1, 1, 1, 1, 1};
    smoe_matrix rows = smoe_matrix_of(x, 2, 2), weights = smoe_matrix_of(w, 3, 2);
    smoe_matrix dy = smoe_transposed(smoe_matrix_of(y, 2, 3));
    smoe_product p = smoe_product_of(y, rows, smoe_transposed(weights));
    p.to.bias = b;
    smoe_gemm(p);
    const real right[] = {11, 22, 33, 13, 24, 37}, right_dx[] = {44, 55, 50, 61};
    assert_memory_equal(y, right, sizeof right);
    smoe_gemm(smoe_product_of(dx, smoe_transposed(dy), weights));
    assert_memory_equal(dx, right_dx, sizeof right_dx);
    smoe_gemm(smoe_product_added(dw, dy, rows));
    const real right_dw[] = {51, 75, 95, 141, 145, 215};
    for (size_t i = 0; i < 6; i++) assert_close(dw[i], right_dw[i], 0);
}

/* ---- NaN and infinity ------------------------------------------------------------------------ */

static void not_finite(void **state) {
    enum { M = 20, N = 40, K = 30 };
    const real bad[] = {(real)NAN, (real)INFINITY, -(real)INFINITY};
    for (size_t v = 0; v < 3; v++)
        for (int in_b = 0; in_b < 2; in_b++) {
            real a[M * K], b[K * N], c[M * N];
            for (size_t i = 0; i < M * K; i++) a[i] = 1;
            for (size_t i = 0; i < K * N; i++) b[i] = 1;
            if (in_b)
                b[7 * N + 33] = bad[v]; /* column 33 */
            else
                a[17 * K + 7] = bad[v]; /* row 17 */
            smoe_product p = smoe_product_of(c, smoe_matrix_of(a, M, K), smoe_matrix_of(b, K, N));
            smoe_gemm(p);
            for (size_t i = 0; i < M * N; i++) {
                bool hit = in_b ? i % N == 33 : i / N == 17;
                if (!hit) assert_close(c[i], K, 0);
                if (hit) assert_true(v ? c[i] == bad[v] : isnan(c[i]));
            }
            a[17 * K + 7] = 0; /* 0 times infinity is NaN */
            b[7 * N + 33] = bad[v];
            smoe_gemm(p);
            assert_true(isnan(c[17 * N + 33]));
        }
}

static void negate(real *c, size_t m, size_t n, const void *context) {
    size_t ldc = *(const size_t *)context;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = -c[i * ldc + j];
}

/* The callback after a product sees every element once, and only when it is final. */
static void callback_sees_final_elements_once(void **state) {
    static const size_t shape[][3] = {{7, 13, 3},    {64, 100, 200},  {8, 700, 384},
                                      {20, 50, 800}, {300, 700, 500}, {1, 1, 1},
                                      {5, 6, 0},     {600, 33, 40}};
    for (uint64_t i = 0; i < 4 * sizeof shape / sizeof *shape; i++) {
        const size_t *s = shape[i / 4];
        fixture f = fixture_of(s[0], s[1], s[2], i);
        size_t size = s[0] * f.p.to.ldc;
        smoe_gemm(f.p);
        real *plain = filled(size, 0);
        memcpy(plain, f.c, size * sizeof *plain);
        memcpy(f.c, f.start, size * sizeof *plain);
        f.p.after = negate;
        f.p.context = &f.p.to.ldc;
        if (i % 2)
            smoe_gemm(f.p);
        else
            smoe_gemm_serial(f.p);
        negate(plain, s[0], s[1], &f.p.to.ldc);
        assert_memory_equal(f.c, plain, size * sizeof *plain);
        free(plain);
        fixture_free(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isas_run_again), /* first: threads and fork do not mix */
        cmocka_unit_test(against_loops),
        cmocka_unit_test(across_blocks),
        cmocka_unit_test(empty_products),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(same_bits_of_any_rectangle),
        cmocka_unit_test(skinny_weights_without_gaps),
        cmocka_unit_test(streamed),
        cmocka_unit_test(narrow_b),
        cmocka_unit_test(many_products_at_a_time),
        cmocka_unit_test(batch_of_products),
        cmocka_unit_test(stages_of_products),
        cmocka_unit_test(linear_by_hand),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(callback_sees_final_elements_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
