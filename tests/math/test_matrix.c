/*
 * Products with operands in BF16. Panels element by element. Blocks of this processor's matrix unit
 * bit by bit against a model in C. All models, which run anywhere, against sums in double. Products
 * of every class of shape against double, with bounds from the unit roundoff. The bits of a row
 * whatever the other rows are. Runs again for every instruction set.
 */
#include "base/rng.h"
#include "base/threads.h"
#include "isas.h"
#include "math/gemm.h"
#include "tiles.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = SMOE_MATRIX_SIDE, DEEP = SMOE_MATRIX_DEEP, TILE = SMOE_MATRIX_TILE };

static const double F32 = 0x1p-24, BF16 = 0x1p-8; /* unit roundoffs */
static const double TINY = 0x1p-126;              /* below this, matrix units see 0 */

static smoe_rng stream(uint64_t seed) {
    return smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
}
static real number(smoe_rng *rng) {
    return (real)(2 * smoe_rng_uniform(rng) - 1);
}
static smoe_bf16 operand_of(real x) {
    return smoe_bf16_round(tiles_flushed((float)x));
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Cases that rounding must handle: ties, carries, overflow, denormals, infinities, NaN. */
static real special(smoe_rng *rng) {
    static const uint32_t bits[] = {0x3f808000, 0x3f818000, 0x3f7fffff, 0x7f7fffff, 0x7f7f7fff,
                                    0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345,
                                    0,          0x80000000, 1,          0x807fffff, 0x00800000,
                                    0x00808000, 0x0080ffff, 0x007fffff};
    return (real)smoe_float_of_bits(bits[smoe_rng_below(rng, sizeof bits / sizeof *bits)]);
}

static void panels(void **state) {
    enum { MOST = 100, ROOM = 4 * SIDE * 4 * 32 };
    const smoe_matrix_kernels *kern = smoe_kernels_get()->matrix;
    static real values[SIDE * MOST * 3];
    static smoe_bf16 narrow[SIDE * MOST * 3], panel[ROOM];
    smoe_rng rng = stream(1);
    for (size_t round = 0; round < 3000; round++) {
        bool is_b = round % 2, wide = smoe_rng_below(&rng, 2), rows = smoe_rng_below(&rng, 2);
        size_t n = round % 3 ? 1 + smoe_rng_below(&rng, SIDE) : SIDE, parts = 1 + round / 2 % 2;
        size_t k = round % 5 ? smoe_rng_below(&rng, MOST) + 1 : 64;
        size_t unit = smoe_rng_below(&rng, 8) ? 1 : 2, gap = smoe_rng_below(&rng, 3);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            values[i] = smoe_rng_below(&rng, 9) ? number(&rng) : special(&rng);
            narrow[i] = smoe_bf16_round((float)values[i]);
        }
        smoe_matrix from = {.m = n, .n = k, .row = unit, .col = unit};
        if (rows)
            from.row = unit * k + gap;
        else
            from.col = unit * n + gap;
        if (from.row * (n - 1) + from.col * (k - 1) >= sizeof values / sizeof *values) continue;
        if (wide)
            from.of.at = values;
        else
            from.of.bf16 = narrow;
        for (size_t i = 0; i < ROOM; i++) panel[i] = 0xdead;
        (is_b ? kern->pack_b : kern->pack_a)(panel, &from, parts);
        size_t steps = (k + DEEP - 1) / DEEP, size = steps * parts * 2 * TILE;
        for (size_t i = 0; i < SIDE; i++)
            for (size_t p = 0; p < steps * DEEP; p++) {
                size_t at = p / DEEP * parts * 2 * TILE + i / 16 * TILE, q = p % DEEP;
                at += is_b ? (q / 2 * 16 + i % 16) * 2 + q % 2 : i % 16 * DEEP + q;
                smoe_bf16 high = 0, low = 0;
                if (i < n && p < k) {
                    size_t source = i * from.row + p * from.col;
                    high = wide ? operand_of(values[source]) : narrow[source];
                    float left = (float)values[source] - smoe_bf16_widen(high);
                    low = wide && isfinite(left) ? operand_of(left) : 0;
                }
                assert_int_equal(panel[at], high);
                if (parts > 1) assert_int_equal(panel[at + 2 * TILE], low);
            }
        assert_int_equal(panel[size], 0xdead);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { STEPS = 4, PANEL = STEPS * SMOE_MATRIX_PARTS * 2 * TILE, SUMS = SIDE * SIDE };

/* Numbers of many magnitudes, every tenth of them special, or so small that sums are denormal. */
static void fill_panels(smoe_bf16 *a, smoe_bf16 *b, uint64_t seed) {
    smoe_rng rng = stream(seed);
    float scale = seed % 3 == 1 ? 0x1p-63f : 1;
    for (size_t i = 0; i < PANEL; i++) {
        bool odd = seed % 3 == 2 && !smoe_rng_below(&rng, 500);
        a[i] = smoe_bf16_round(odd ? (float)special(&rng) : scale * (float)number(&rng));
        b[i] = smoe_bf16_round(scale * (float)number(&rng));
    }
}

/* GCC forms fused multiply-adds from -O2 on; the flavour with sanitizers is built with -O1. */
#ifdef __SANITIZE_ADDRESS__
static const bool fuses = false;
#else
static const bool fuses = true;
#endif

static tiles_block *model_of(const smoe_kernels *kernels) {
    if (!strcmp(kernels->matrix->unit, "AMX")) return tiles_amx;
    if (!strcmp(kernels->matrix->unit, "AVX512-BF16")) return tiles_pairs;
    return fuses && strcmp(kernels->isa, "base") ? tiles_fused : tiles_unfused;
}

static bool same_number(real x, real y) {
    return isnan(x) ? isnan(y) : !memcmp(&x, &y, sizeof x);
}

/* The unit in use does what its model says: to the bit, except for the payload of a NaN. */
static void blocks_like_the_model(void **state) {
    const smoe_kernels *kernels = smoe_kernels_get();
    static smoe_bf16 a[PANEL] __attribute__((aligned(64))), b[PANEL] __attribute__((aligned(64)));
    static real sums[2 * SUMS] __attribute__((aligned(64))), right[2 * SUMS];
    smoe_rng rng = stream(2);
    for (uint64_t seed = 0; seed < 60; seed++) {
        size_t parts = 1 + seed / 3 % 2, steps = smoe_rng_below(&rng, STEPS + 1);
        size_t m = 1 + smoe_rng_below(&rng, SIDE), n = 1 + smoe_rng_below(&rng, SIDE);
        fill_panels(a, b, seed);
        kernels->matrix->begin();
        kernels->matrix->block(&(smoe_matrix_block){
            .sums = sums, .a = a, .b = b, .m = m, .n = n, .steps = steps, .parts = parts});
        kernels->matrix->end();
        model_of(kernels)(right, a, b, steps, parts);
        for (size_t part = 0; part < parts; part++)
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++) {
                    size_t at = part * SUMS + i * SIDE + j;
                    if (!same_number(sums[at], right[at]))
                        fail_msg("%s, seed %d: sum %zu, %zu of part %zu is %a, not %a",
                                 kernels->matrix->unit, (int)seed, i, j, part, (double)sums[at],
                                 (double)right[at]);
                }
    }
}

/* ---- few rows -------------------------------------------------------------------------------- */

enum { MOST_ROWS = SMOE_FEW_MOST, MOST_TERMS = 100, NUMBERS = (MOST_ROWS + 3) * (MOST_TERMS + 3) };

/* Numbers as those of fill_panels, of which a row is n rows or columns of k terms. */
static smoe_matrix few_operand(real *at, smoe_bf16 *bf16, size_t n, size_t k, uint64_t seed,
                               smoe_rng *rng) {
    float scale = seed % 3 == 1 ? 0x1p-63f : 1;
    bool along = smoe_rng_below(rng, 2);
    size_t ld = (along ? k : n) + smoe_rng_below(rng, 3);
    for (size_t i = 0; i < NUMBERS; i++) {
        bool odd = seed % 3 == 2 && !smoe_rng_below(rng, 500);
        at[i] = odd ? special(rng) : (real)(scale * (float)number(rng));
        bf16[i] = smoe_bf16_round((float)at[i]);
    }
    smoe_matrix x = {.row = along ? ld : 1, .col = along ? 1 : ld, .m = n, .n = k};
    if (smoe_rng_below(rng, 2))
        x.of.bf16 = bf16;
    else
        x.of.at = at;
    return x;
}

/* Sums of few rows, in one call or in two, are those of the model of the unit whose order they
 * have. All orders are tested on any processor that has fused multiply-adds. */
static void few_rows_like_the_models(void **state) {
    const smoe_kernels *kernels = smoe_kernels_get();
    static real x[NUMBERS], y[NUMBERS], a[MOST_ROWS * STEPS * DEEP], sums[MOST_ROWS * SIDE];
    static real right[2 * SUMS];
    static smoe_bf16 narrow_x[NUMBERS], narrow_y[NUMBERS], panel_a[PANEL], panel_b[PANEL];
    tiles_block *const models[] = {tiles_amx, tiles_pairs,
                                   fuses && strcmp(kernels->isa, "base") ? tiles_fused
                                                                         : tiles_unfused};
    smoe_rng rng = stream(6);
    for (uint64_t seed = 0; seed < 180; seed++) {
        smoe_sum_order order = (smoe_sum_order)(seed / 3 % 3);
        if (order != SMOE_ORDER_TERMS && !kernels->few->orders) continue;
        size_t m = 1 + smoe_rng_below(&rng, MOST_ROWS), k = 1 + smoe_rng_below(&rng, MOST_TERMS);
        size_t n = smoe_rng_below(&rng, 2) ? SIDE : 1 + smoe_rng_below(&rng, SIDE);
        size_t pitch = (m + SMOE_FEW_UNIT - 1) / SMOE_FEW_UNIT * SMOE_FEW_UNIT;
        size_t first = smoe_rng_below(&rng, k / DEEP + 1) * DEEP;
        smoe_matrix rows = few_operand(x, narrow_x, m, k, seed, &rng);
        smoe_matrix columns = few_operand(y, narrow_y, n, k, seed % 3 == 2 ? 0 : seed, &rng);
        kernels->few->pack(a, &rows, pitch);
        smoe_few_block t = {.sums = sums, .pitch = pitch, .m = pitch, .order = order};
        for (size_t p = 0; p<k; p = first> p ? first : k) {
            t.begun = p > 0;
            t.a = a + p * pitch;
            t.b = smoe_matrix_part(columns, 0, n, p, (first > p ? first : k) - p);
            kernels->few->block(&t);
        }
        kernels->matrix->pack_b(panel_b, &columns, 1);
        for (size_t i0 = 0; i0 < m; i0 += SIDE) {
            smoe_matrix some = smoe_matrix_part(rows, i0, SIDE, 0, k);
            kernels->matrix->pack_a(panel_a, &some, 1);
            models[order](right, panel_a, panel_b, (k + DEEP - 1) / DEEP, 1);
            for (size_t i = 0; i < some.m; i++)
                for (size_t j = 0; j < n; j++)
                    if (!same_number(sums[(i0 + i) * SIDE + j], right[i * SIDE + j]))
                        fail_msg("order %d, %zu x %zu x %zu: sum %zu, %zu is %a, not %a",
                                 (int)order, m, n, k, i0 + i, j, (double)sums[(i0 + i) * SIDE + j],
                                 (double)right[i * SIDE + j]);
        }
    }
}

/* All models, on any processor: panels as the kernels pack them, sums against double. A rounding
 * is half a unit in the last place of a partial sum, which is at most the sum of all absolute
 * values; there are as many roundings as multiply-adds and additions of sums. */
static void models_against_double(void **state) {
    static tiles_block *const models[] = {tiles_amx, tiles_pairs, tiles_fused, tiles_unfused};
    enum { K = 75 };
    const smoe_matrix_kernels *kern = smoe_kernels_get()->matrix;
    static real x[SIDE * K], y[K * SIDE], sums[2 * SUMS];
    static smoe_bf16 a[PANEL], b[PANEL];
    smoe_rng rng = stream(3);
    for (size_t i = 0; i < SIDE * K; i++) {
        x[i] = number(&rng);
        y[i] = number(&rng);
    }
    kern->pack_a(a, &(smoe_matrix){smoe_reals(x), SIDE, K, K, 1}, 2);
    kern->pack_b(b, &(smoe_matrix){smoe_reals(y), SIDE, K, 1, SIDE}, 2);
    for (size_t model = 0; model < sizeof models / sizeof *models; model++) {
        double worst = 0;
        models[model](sums, a, b, (K + DEEP - 1) / DEEP, 2);
        for (size_t i = 0; i < SIDE; i++)
            for (size_t j = 0; j < SIDE; j++) {
                double rounded = 0, exact = 0, size = 0;
                for (size_t p = 0; p < K; p++) {
                    double u = (double)x[i * K + p], v = (double)y[p * SIDE + j];
                    exact += u * v;
                    rounded += (double)smoe_bf16_widen(operand_of((real)u)) *
                               (double)smoe_bf16_widen(operand_of((real)v));
                    size += fabs(u * v);
                }
                double sum = (double)sums[i * SIDE + j];
                double both = sum + (double)sums[SUMS + i * SIDE + j];
                size *= (1 + BF16) * (1 + BF16);
                assert_true(fabs(sum - rounded) <= 2 * K * F32 * size);
                assert_true(fabs(both - exact) <= (2 * K * F32 + 3 * BF16 * BF16) * size);
                worst = fmax(worst, fabs(sum - exact) / size);
            }
        assert_true(worst > 2 * K * F32); /* the remainders were needed */
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* A matrix [m,n] in `real` and in BF16; by rows or by columns, with a gap; NaN in the gaps. */
typedef struct matrix {
    real *at;
    smoe_bf16 *bf16;
    size_t row, col;
} matrix;

static matrix matrix_of(size_t m, size_t n, smoe_rng *rng) {
    bool turned = smoe_rng_below(rng, 2);
    size_t rows = turned ? n : m, ld = (turned ? m : n) + smoe_rng_below(rng, 3);
    matrix x = {.at = malloc((rows * ld + 1) * sizeof *x.at),
                .bf16 = malloc((rows * ld + 1) * sizeof *x.bf16),
                .row = turned ? 1 : ld,
                .col = turned ? ld : 1};
    assert_true(x.at && x.bf16);
    for (size_t i = 0; i < rows * ld; i++) x.at[i] = (real)NAN;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) x.at[i * x.row + j * x.col] = number(rng);
    for (size_t i = 0; i < rows * ld; i++) x.bf16[i] = smoe_bf16_round((float)x.at[i]);
    return x;
}

typedef struct fixture {
    smoe_product p;
    matrix a, b, add;
    real *c, *start, *bias;
    smoe_bf16 *narrow;
    size_t room;
} fixture;

static const real HOLE = 1e30f;

static fixture fixture_of(size_t m, size_t n, size_t k, uint64_t seed) {
    smoe_rng rng = stream(seed);
    size_t ldc = n + smoe_rng_below(&rng, 3), kind = smoe_rng_below(&rng, 3);
    fixture f = {.a = matrix_of(m, k, &rng),
                 .b = matrix_of(k, n, &rng),
                 .room = m * ldc + 1,
                 .c = malloc((m * ldc + 1) * sizeof(real)),
                 .start = malloc((m * ldc + 1) * sizeof(real)),
                 .narrow = malloc((m * ldc + 1) * sizeof(smoe_bf16)),
                 .bias = malloc((n + 1) * sizeof(real))};
    assert_true(f.c && f.start && f.narrow && f.bias);
    for (size_t i = 0; i < f.room; i++) {
        f.start[i] = i % ldc < n && i + 1 < f.room && kind == 1 ? number(&rng) : HOLE;
        f.narrow[i] = 0xdead;
    }
    memcpy(f.c, f.start, f.room * sizeof *f.c);
    for (size_t j = 0; j < n; j++) f.bias[j] = number(&rng);
    smoe_matrix a = {smoe_reals(f.a.at), m, k, f.a.row, f.a.col};
    smoe_matrix b = {smoe_reals(f.b.at), k, n, f.b.row, f.b.col};
    f.p = smoe_product_to(smoe_reals_out(f.c), ldc, a, b);
    f.p.precision = seed % 2 ? SMOE_PRECISION_BF16X3 : SMOE_PRECISION_BF16;
    if (!smoe_rng_below(&rng, 2)) f.p.to.alpha = (real)-0.7;
    if (kind == 1) {
        f.p.to.add = f.c;
        f.p.to.ldadd = ldc;
    }
    if (smoe_rng_below(&rng, 2)) f.p.to.bias = f.bias;
    if (seed % 2) return f;
    if (smoe_rng_below(&rng, 2)) f.p.a.of = (smoe_values){.bf16 = f.a.bf16};
    if (smoe_rng_below(&rng, 2)) f.p.b.of = (smoe_values){.bf16 = f.b.bf16};
    if (kind == 2) {
        f.p.to.c.at = NULL;
        f.p.to.c.bf16 = f.narrow;
    }
    return f;
}

static void fixture_free(fixture *f) {
    free(f->a.at);
    free(f->a.bf16);
    free(f->b.at);
    free(f->b.bf16);
    free(f->c);
    free(f->start);
    free(f->narrow);
    free(f->bias);
}

/* Against the original operands. Each product of rounded operands has an error of two roundings
 * to BF16. Each product of split operands has three times the square of one: from each operand
 * the part that two BF16 numbers cannot hold, and the product left out. Sums in F32: one
 * rounding for each term and four at the end, twice that if there are two sums. Denormal results
 * may be 0 (TINY). C in BF16: one more rounding. */
static void assert_product(const fixture *f) {
    const smoe_product *p = &f->p;
    bool split = p->precision == SMOE_PRECISION_BF16X3;
    double each = split ? 3 * BF16 * BF16 : 2 * BF16 + BF16 * BF16;
    double sums = ((double)p->a.n + 4) * F32 * (split ? 2 : 1);
    for (size_t i = 0; i < p->a.m; i++)
        for (size_t j = 0; j < p->to.ldc && i * p->to.ldc + j + 1 < f->room; j++) {
            size_t at = i * p->to.ldc + j;
            if (j >= p->b.n) {
                assert_true(f->c[at] == HOLE && f->narrow[at] == 0xdead);
                continue;
            }
            double c = (double)(p->to.c.bf16 ? smoe_bf16_widen(p->to.c.bf16[at]) : f->c[at]);
            double sum = 0, size = 0, most = 0;
            for (size_t q = 0; q < p->a.n; q++) {
                double t = (double)f->a.at[i * p->a.row + q * p->a.col] *
                           (double)f->b.at[q * p->b.row + j * p->b.col];
                sum += t;
                size += fabs(t);
            }
            double add = p->to.add ? (double)f->start[at] : 0;
            double bias = p->to.bias ? (double)p->to.bias[j] : 0, alpha = (double)p->to.alpha;
            sum = alpha * sum + add + bias;
            most = fabs(alpha) * size * (1 + each) + fabs(add) + fabs(bias);
            double error = each * fabs(alpha) * size + sums * most + 4 * (double)p->a.n * TINY;
            if (p->to.c.bf16) error += BF16 * (fabs(sum) + error);
            if (!(fabs(c - sum) <= error))
                fail_msg("%zu x %zu x %zu, %s: C[%zu,%zu] = %.9g, not %.9g (%.3g, at most %.3g)",
                         p->a.m, p->b.n, p->a.n, split ? "bf16x3" : "bf16", i, j, c, sum,
                         fabs(c - sum), error);
        }
    assert_true(f->c[f->room - 1] == HOLE && f->narrow[f->room - 1] == 0xdead);
}

static void check(size_t m, size_t n, size_t k, uint64_t seed) {
    fixture f = fixture_of(m, n, k, seed);
    if (seed / 2 % 2)
        smoe_gemm(f.p);
    else
        smoe_gemm_serial(f.p);
    assert_product(&f);
    fixture_free(&f);
}

/* All remainders: both sides of a tile, a block and a step, in every dimension. */
static void tails(void **state) {
    static const size_t sizes[] = {1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 97};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    smoe_rng rng = stream(4);
    for (uint64_t i = 0; i < 1200; i++) {
        size_t m = sizes[smoe_rng_below(&rng, SIZES)], n = sizes[smoe_rng_below(&rng, SIZES)];
        check(m, n, sizes[smoe_rng_below(&rng, SIZES)], i);
    }
}

/* On both sides of the blocks of k (512), of the columns of a block of B (1152 for 384 terms,
 * 576 if split), of the panels of A packed together (4), and of the number of terms from which a
 * result in BF16 is computed block by block (4096); and an empty sum. */
static void across_blocks(void **state) {
    static const size_t sizes[][3] = {
        {33, 40, 511},  {40, 33, 512},   {31, 64, 513},   {129, 65, 1100}, {40, 1153, 384},
        {34, 577, 384}, {200, 1200, 33}, {20, 1160, 384}, {64, 150, 1500}, {33, 70, 4096},
        {65, 34, 1024}, {40, 70, 1025},  {33, 33, 2049},  {35, 34, 4097},  {3, 5, 4200},
        {1, 1, 5000},   {8, 300, 1030},  {70, 40, 0},     {1, 1200, 1},    {260, 31, 530}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 12; seed++)
            check(sizes[i][0], sizes[i][1], sizes[i][2], 100 * i + seed);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Runs a fixture again, on a copy of C in *c or *narrow; threads 0: serially. */
static void again(const fixture *f, real *c, smoe_bf16 *narrow, int threads) {
    smoe_product p = f->p;
    memcpy(c, f->start, f->room * sizeof *c);
    memcpy(narrow, f->narrow, f->room * sizeof *narrow);
    if (p.to.c.bf16) p.to.c.bf16 = narrow;
    if (p.to.c.at) p.to.c.at = c;
    if (p.to.add) p.to.add = c;
    smoe_threads_set(threads);
    if (threads)
        smoe_gemm(p);
    else
        smoe_gemm_serial(p);
}

static void same_bits_for_any_threads(void **state) {
    static const size_t sizes[][3] = {
        {300, 200, 290}, {40, 700, 300}, {500, 20, 513}, {130, 1300, 400}, {64, 64, 4200}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], seed);
            size_t bytes = f.room * sizeof(real), narrow_bytes = f.room * sizeof(smoe_bf16);
            real *alone = malloc(bytes), *shared = malloc(bytes);
            smoe_bf16 *alone_bf16 = malloc(narrow_bytes), *shared_bf16 = malloc(narrow_bytes);
            assert_true(alone && shared && alone_bf16 && shared_bf16);
            again(&f, alone, alone_bf16, 0);
            for (int threads = 1; threads <= 3; threads++) {
                again(&f, shared, shared_bf16, threads);
                assert_memory_equal(alone, shared, bytes);
                assert_memory_equal(alone_bf16, shared_bf16, narrow_bytes);
            }
            free(alone);
            free(shared);
            free(alone_bf16);
            free(shared_bf16);
            fixture_free(&f);
        }
    smoe_threads_set(2);
}

/* A result that passes the caches by has the bits of one that does not: complete blocks and others,
 * rows that begin cache lines and others, one block of terms and two. */
static void results_written_past_the_caches(void **state) {
    enum { M = 70, LD = 112 };
    static real near[M * LD] __attribute__((aligned(64))), far[M * LD] __attribute__((aligned(64)));
    static const size_t sizes[][4] = {
        {64, 96, 64, 112}, {M, 100, 40, 112}, {64, 96, 64, 99}, {33, 64, 1100, 80}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            fixture f = fixture_of(sizes[i][0], sizes[i][1], sizes[i][2], seed);
            f.p.to.c.at = near;
            f.p.to.ldc = sizes[i][3];
            f.p.to.c.bf16 = NULL;
            f.p.to.add = NULL;
            memset(near, 0, sizeof near);
            memset(far, 0, sizeof far);
            smoe_gemm(f.p);
            f.p.to.c.at = far;
            f.p.to.stream = true;
            smoe_gemm(f.p);
            assert_memory_equal(near, far, sizeof near);
            fixture_free(&f);
        }
}

/* Any rectangle of C, computed alone, has the same bits as in the whole product. */
static void same_bits_in_any_company(void **state) {
    smoe_rng rng = stream(5);
    enum { ROWS = 150, COLUMNS = 90 };
    for (uint64_t seed = 0; seed < 12; seed++) {
        fixture f = fixture_of(ROWS, COLUMNS, seed < 8 ? 300 : 1200, seed);
        real *whole = malloc(f.room * sizeof *whole);
        smoe_bf16 *narrow = malloc(f.room * sizeof *narrow);
        assert_true(whole && narrow);
        again(&f, whole, narrow, 0);
        for (size_t round = 0; round < 20; round++) {
            size_t i0 = smoe_rng_below(&rng, ROWS), j0 = smoe_rng_below(&rng, COLUMNS);
            smoe_product p = f.p;
            p.a.m = 1 + smoe_rng_below(&rng, round % 2 ? 3 : ROWS);
            p.b.n = 1 + smoe_rng_below(&rng, COLUMNS);
            if (i0 + p.a.m > ROWS) p.a.m = ROWS - i0;
            if (j0 + p.b.n > COLUMNS) p.b.n = COLUMNS - j0;
            size_t at = i0 * p.to.ldc + j0;
            memcpy(f.c, f.start, f.room * sizeof *f.c);
            if (p.to.c.bf16)
                p.to.c.bf16 = f.narrow + at;
            else
                p.to.c.at = f.c + at;
            if (p.to.add) p.to.add = f.c + at;
            if (p.to.bias) p.to.bias += j0;
            p.a.of = smoe_values_from(p.a.of, i0 * p.a.row);
            p.b.of = smoe_values_from(p.b.of, j0 * p.b.col);
            smoe_gemm_serial(p);
            for (size_t i = i0 * p.to.ldc; i < (i0 + p.a.m) * p.to.ldc; i += p.to.ldc)
                if (p.to.c.bf16)
                    assert_memory_equal(f.narrow + i + j0, narrow + i + j0, p.b.n * sizeof *narrow);
                else
                    assert_memory_equal(f.c + i + j0, whole + i + j0, p.b.n * sizeof *whole);
        }
        free(whole);
        free(narrow);
        fixture_free(&f);
    }
}

/* Operands rounded before packing and while packing give the same bits. */
static void rounded_before(void **state) {
    for (uint64_t seed = 0; seed < 40; seed += 2) {
        fixture f = fixture_of(100, 70, 600, seed);
        real *c = malloc(f.room * sizeof *c), *d = malloc(f.room * sizeof *d);
        smoe_bf16 *narrow = malloc(f.room * sizeof *narrow);
        smoe_bf16 *other = malloc(f.room * sizeof *other);
        assert_true(c && d && narrow && other);
        f.p.a.of = smoe_reals(f.a.at);
        f.p.b.of = smoe_reals(f.b.at);
        again(&f, c, narrow, 1);
        f.p.a.of = (smoe_values){.bf16 = f.a.bf16};
        f.p.b.of = (smoe_values){.bf16 = f.b.bf16};
        again(&f, d, other, 1);
        assert_memory_equal(c, d, f.room * sizeof *c);
        assert_memory_equal(narrow, other, f.room * sizeof *narrow);
        free(c);
        free(d);
        free(narrow);
        free(other);
        fixture_free(&f);
    }
    smoe_threads_set(2);
}

/* ---- GELU at the end of a block ------------------------------------------------------------- */

static double gelu_of(double x, smoe_gelu kind, double *slope) {
    if (kind == SMOE_GELU_ERF) {
        double phi = 0.5 * erfc(-x * sqrt(0.5));
        *slope = phi + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
        return x * phi;
    }
    if (kind == SMOE_GELU_QUICK) {
        double s = 1 / (1 + exp(-1.702 * x));
        *slope = s + 1.702 * x * s / (1 + exp(1.702 * x));
        return x * s;
    }
    double c = sqrt(2 / acos(-1)), t = tanh(c * (x + 0.044715 * x * x * x));
    *slope = (1 + t) / 2 + x * (1 - t * t) / 2 * c * (1 + 3 * 0.044715 * x * x);
    return x * (1 + t) / 2;
}

/* Every number in BF16 from 2^-10 to 2^7, of both signs, through products of one term: the
 * result is rounded to BF16, and has the error of the piecewise polynomials (math/gelu_table.h):
 * 4e-7 for Phi, and for its derivative one step of the cubic's last term, 4e-5. */
static void gelus(void **state) {
    enum { FROM = (127 - 10) << 7, COUNT = 17 << 7, N = 7 };
    static smoe_bf16 x[2 * COUNT], hidden[2 * COUNT * N], active[2 * COUNT * N];
    static smoe_bf16 gradient[2 * COUNT * N], again[2 * COUNT * N];
    smoe_bf16 one[N], two[2 * COUNT];
    for (size_t i = 0; i < 2 * COUNT; i++) {
        x[i] = (smoe_bf16)((FROM + i / 2) | (i % 2) << 15);
        two[i] = 0x4000;
    }
    for (size_t j = 0; j < N; j++) one[j] = 0x3f80;
    for (int kind = SMOE_GELU_ERF; kind <= SMOE_GELU_QUICK; kind++) {
        smoe_matrix column = {{.bf16 = x}, 2 * COUNT, 1, 1, 1}, row = {{.bf16 = one}, 1, N, N, 1};
        smoe_product p = smoe_product_to((smoe_outputs){0}, N, column, row);
        p.precision = SMOE_PRECISION_BF16;
        p.to.work = SMOE_GELU_FORWARD;
        p.to.gelu = (smoe_gelu)kind;
        p.to.hidden = hidden;
        p.to.active = active;
        smoe_gemm(p);
        p.to.work = SMOE_GELU_BACKWARD;
        p.a.of.bf16 = two;
        p.to.c.bf16 = gradient;
        p.to.active = again;
        smoe_gemm(p);
        assert_memory_equal(active, again, sizeof active);
        for (size_t i = 0; i < 2 * COUNT * N; i++) {
            double slope, at = (double)smoe_bf16_widen(x[i / N]);
            double y = gelu_of(at, (smoe_gelu)kind, &slope);
            assert_int_equal(hidden[i], x[i / N]);
            double error = fabs((double)smoe_bf16_widen(active[i]) - y);
            assert_true(error <= BF16 * fabs(y) + 8e-7 * fabs(at));
            error = fabs((double)smoe_bf16_widen(gradient[i]) - 2 * slope);
            assert_true(error <= BF16 * fabs(2 * slope) + 1e-6 + 8e-5 * fabs(fmin(at, 6)));
            if (at < -6 && kind != SMOE_GELU_QUICK)
                assert_true(active[i] == 0x8000 && !(gradient[i] & 0x7fff));
        }
    }
}

/* ---- NaN, infinity, overflow and underflow --------------------------------------------------- */

static void not_finite(void **state) {
    enum { M = 20, N = 40, K = 50, ROW = 3, TERM = 7 };
    static const real values[] = {(real)NAN, (real)INFINITY, -(real)INFINITY};
    for (size_t v = 0; v < 3; v++)
        for (int split = 0; split < 2; split++) {
            real a[M * K], b[K * N], c[M * N];
            smoe_rng rng = stream(v);
            for (size_t i = 0; i < M * K; i++) a[i] = number(&rng);
            for (size_t i = 0; i < K * N; i++) b[i] = number(&rng);
            a[ROW * K + TERM] = values[v];
            smoe_product p = smoe_product_of(c, smoe_matrix_of(a, M, K), smoe_matrix_of(b, K, N));
            p.precision = split ? SMOE_PRECISION_BF16X3 : SMOE_PRECISION_BF16;
            smoe_gemm_serial(p);
            for (size_t i = 0; i < M * N; i++) {
                real right = values[v] * b[TERM * N + i % N];
                if (i / N != ROW)
                    assert_true(isfinite(c[i]));
                else if (isnan(right))
                    assert_true(isnan(c[i]));
                else
                    assert_true(c[i] == right);
            }
        }
}

/* A number just below the largest becomes infinite when it is rounded, in one part or in two.
 * One below the smallest is 0 for all units, since packing makes it so. A denormal in BF16 is 0
 * for matrix units and kept by multiply-adds. */
static void large_and_small(void **state) {
    const bool unit = strcmp(smoe_kernels_get()->matrix->unit, "multiply-adds") != 0;
    real c, one = 1, large = 0x1.fffffep127f, small = 0x1p-127f, many = 0x1p20f;
    smoe_bf16 denormal = 0x0040; /* 2^-127 */
    for (int split = 0; split < 2; split++) {
        smoe_product p =
            smoe_product_of(&c, smoe_matrix_of(&large, 1, 1), smoe_matrix_of(&one, 1, 1));
        p.precision = split ? SMOE_PRECISION_BF16X3 : SMOE_PRECISION_BF16;
        smoe_gemm_serial(p);
        assert_true(c == (real)INFINITY);
        p.a.of.at = &small;
        p.b.of.at = &many;
        smoe_gemm_serial(p);
        assert_true(c == 0);
        p.a.of.bf16 = &denormal;
        smoe_gemm_serial(p);
        assert_true(c == (unit ? 0 : 0x1p-107f));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels),
        cmocka_unit_test(blocks_like_the_model),
        cmocka_unit_test(few_rows_like_the_models),
        cmocka_unit_test(models_against_double),
        cmocka_unit_test(tails),
        cmocka_unit_test(across_blocks),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(results_written_past_the_caches),
        cmocka_unit_test(same_bits_in_any_company),
        cmocka_unit_test(rounded_before),
        cmocka_unit_test(gelus),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(large_and_small),
        cmocka_unit_test(isas_run_again),
    };
    smoe_threads_set(2);
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
