/*
 * Products of BF16 operands with sums in F32: blocks of SIDE x SIDE sums by the matrix unit of this
 * translation unit's processor, AMX tiles or dot products of pairs; else by multiply-adds of the
 * rounded numbers. Tiles and vectors see the same panels (math/kernels.h), which pack_matrix.h
 * packs.
 */
#include "math/gelu_table.h"
#include "math/kernels.h"
#include "math/pack_matrix.h"
#include "math/prefetch.h"
#include "math/simd.h"

enum { SUMS = SIDE * SIDE };

/* ---- the end of a block ---------------------------------------------------------------------- */

static inline void store_bf16(smoe_bf16 *to, vreal x, size_t n) {
#if WITH_AVX512
#if WITH_BF16
    __m256i narrow = (__m256i)_mm512_cvtneps_pbh((__m512)x);
#else
    __m256i narrow = _mm512_cvtepi32_epi16(round16((__m512)x));
#endif
    if (n == VL)
        _mm256_storeu_si256((__m256i *)to, narrow);
    else
        _mm256_mask_storeu_epi16(to, (__mmask16)((1u << n) - 1), narrow);
#else
    for (size_t i = 0; i < n; i++) to[i] = rounded(x[i]);
#endif
}

static inline vreal load_bf16(const smoe_bf16 *from, size_t n) {
#if WITH_AVX512
    __m256i narrow = n == VL ? _mm256_loadu_si256((const __m256i *)from)
                             : _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from);
    return (vreal)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
#else
    vreal x = {0};
    for (size_t i = 0; i < n; i++) x[i] = smoe_bf16_widen(from[i]);
    return x;
#endif
}

/*
 * x, as if it had been stored and loaded again: the compiler does not fuse it with other
 * operations.
 */
static inline vreal through_bf16(vreal x) {
#if WITH_AVX512
    return (vreal)_mm512_slli_epi32(round16((__m512)x), 16);
#else
    for (size_t i = 0; i < VL; i++) x[i] = smoe_bf16_widen(rounded(x[i]));
    return x;
#endif
}

/* GELU and its derivative, from the polynomials of Phi, with Phi(-u) = 1 - Phi(u); quick: as in
 * F32. */
static inline __attribute__((always_inline)) vreal gelu_of(vreal x, smoe_gelu kind, vreal *slope) {
    if (kind == SMOE_GELU_QUICK) return vgelu_quick(x, slope);
    const float(*table)[SMOE_GELU_PIECES] = smoe_gelu_table[kind];
    const real step = (real)SMOE_GELU_STEP, most = 6;
    vreal c[SMOE_GELU_TERMS], u, k;
#if WITH_AVX512
    /* Adding 2^23 leaves the nearest integer in the low bits, of which a permutation takes five. */
    u = (vreal)_mm512_min_ps(_mm512_abs_ps((__m512)x), _mm512_set1_ps(most));
    vreal shifted = vrounded(u * (1 / step) + 0x1p23f);
    k = shifted - 0x1p23f;
#pragma GCC unroll 4
    for (size_t q = 0; q < SMOE_GELU_TERMS; q++)
        c[q] = (vreal)_mm512_permutex2var_ps(_mm512_load_ps(table[q]), (__m512i)shifted,
                                             _mm512_load_ps(table[q] + ROWS));
#else
    real lane[VL], nearest[VL], term[SMOE_GELU_TERMS][VL];
    vstore(lane, vselect(x < 0, -x, x));
    for (size_t i = 0; i < VL; i++) {
        if (!(lane[i] < most)) lane[i] = most;
        size_t piece = (size_t)(lane[i] * (1 / step) + (real)0.5);
        nearest[i] = (real)piece;
        for (size_t q = 0; q < SMOE_GELU_TERMS; q++) term[q][i] = table[q][piece];
    }
    u = vload(lane);
    k = vload(nearest);
    for (size_t q = 0; q < SMOE_GELU_TERMS; q++) c[q] = vload(term[q]);
#endif
    vreal r = u - k * step;
    vreal phi = ((c[3] * r + c[2]) * r + c[1]) * r + c[0];
    vreal density = (3 * c[3] * r + 2 * c[2]) * r + c[1];
#if WITH_AVX512
    phi = (vreal)_mm512_mask_sub_ps((__m512)phi, _mm512_movepi32_mask((__m512i)x),
                                    _mm512_set1_ps(1), (__m512)phi);
#else
    phi = vselect(x < 0, 1 - phi, phi);
#endif
    *slope = phi + x * density;
    return x * phi;
}

/* What is done with the sums of a block: a constant where possible, so that what is 0 in it needs
 * no code. */
typedef struct ending {
    smoe_gelu_work work;
    const real *add, *bias;
    smoe_bf16 *bf16;
    bool stream;
    size_t parts, n; /* 0: one part; whole rows */
} ending;

/* n <= VL numbers of row i, from column j on. */
static inline __attribute__((always_inline)) void
finish_part(const smoe_epilogue *to, const real *sums, ending e, size_t i, size_t j, size_t n) {
    size_t at = i * to->ldc + j, added = i * to->ldadd + j;
    vreal x = {0}, sum = vload(sums + i * SIDE + j), slope;
    if (e.parts > 1) {
        vreal whole = sum + vload(sums + SUMS + i * SIDE + j);
        vreal rest = 0 * sum; /* NaN where sum is not finite */
        sum = vselect((vint)(rest == 0), whole, sum);
    }
    if (e.add) x = n == VL ? vload(e.add + added) : vload_part(e.add + added, n, 0);
    if (e.bias) x += n == VL ? vload(e.bias + j) : vload_part(e.bias + j, n, 0);
    x += vrounded(to->alpha * sum);
    if (e.work == SMOE_GELU_FORWARD) {
        if (to->hidden) store_bf16(to->hidden + at, x, n);
        store_bf16(to->active + at, gelu_of(through_bf16(x), to->gelu, &slope), n);
    } else if (e.work == SMOE_GELU_BACKWARD) {
        vreal active = gelu_of(load_bf16(to->hidden + at, n), to->gelu, &slope);
        store_bf16(to->active + at, active, n);
        store_bf16(e.bf16 + at, x * slope, n);
    } else if (e.bf16) {
        store_bf16(e.bf16 + at, x, n);
    } else if (e.stream) {
        vstream(to->c.at + at, x);
    } else if (n == VL) {
        vstore(to->c.at + at, x);
    } else {
        vstore_part(to->c.at + at, x, n);
    }
}

/* Rows i .. end. */
static inline __attribute__((always_inline)) void
finish_rows(const smoe_epilogue *to, const real *sums, ending e, size_t i, size_t end) {
    size_t n = e.n ? e.n : SIDE;
    for (; i < end; i++)
#pragma GCC unroll 2
        for (size_t j = 0; j < n; j += VL) finish_part(to, sums, e, i, j, n - j < VL ? n - j : VL);
}

static void finish_some(const smoe_block_end *block, const real *sums, size_t parts, size_t i,
                        size_t end) {
    const smoe_epilogue *to = &block->to;
    const real *add = to->add, *bias = to->bias;
    smoe_bf16 *bf16 = to->c.bf16;
    if (block->n < SIDE || parts > 1)
        finish_rows(to, sums, (ending){to->work, add, bias, bf16, false, parts, block->n}, i, end);
    else if (to->work == SMOE_GELU_FORWARD)
        finish_rows(to, sums, (ending){.work = SMOE_GELU_FORWARD, .bias = bias}, i, end);
    else if (to->work == SMOE_GELU_BACKWARD)
        finish_rows(to, sums, (ending){.work = SMOE_GELU_BACKWARD, .bias = bias, .bf16 = bf16}, i,
                    end);
    else if (bf16)
        finish_rows(to, sums, (ending){.add = add, .bias = bias, .bf16 = bf16}, i, end);
    else if (add || bias)
        finish_rows(to, sums, (ending){.add = add, .bias = bias}, i, end);
    else if (to->stream && (uintptr_t)to->c.at % SMOE_VBYTES == 0 && to->ldc % VL == 0)
        finish_rows(to, sums, (ending){.stream = true}, i, end);
    else
        finish_rows(to, sums, (ending){0}, i, end);
}

static void finish(const smoe_block_end *to, const real *sums, size_t parts) {
    finish_some(to, sums, parts, 0, to->m);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Prefetches of a block: `each` of them in each step of each pass, until none are left. */
typedef struct prefetching {
    smoe_prefetch next;
    size_t left, each;
} prefetching;

/* A pass over the steps is made `times` times, and as often again for remainders. */
static inline prefetching prefetching_of(const smoe_matrix_block *t, size_t times) {
    size_t passes = times * t->steps * t->parts;
    return (prefetching){.next = t->prefetch,
                         .left = passes ? t->prefetches : 0,
                         .each = passes ? (t->prefetches + passes - 1) / passes : 0};
}

static inline __attribute__((always_inline)) void prefetch_some(prefetching *p) {
    if (!p->left) return;
    size_t n = p->left < p->each ? p->left : p->each;
    p->left -= n;
    for (; n; n--) prefetch(&p->next);
}

/* The sums of a block over all steps: of part pa of A and pb of B or, if `crossed`, in each step of
 * parts 0 and 1 and then of parts 1 and 0. */
#if WITH_AMX
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

/* All eight tiles are complete, because missing elements are 0. */
static const tile_config config __attribute__((aligned(64))) = {
    .palette = 1,
    .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

static void begin(void) {
    _tile_loadconfig(&config);
}
static void end(void) {
    _tile_release();
}

/* C in tiles 0 to 3, A in 4 and 5, B in 6 and 7. */
static inline __attribute__((always_inline)) void multiply(const smoe_bf16 *a, const smoe_bf16 *b,
                                                           bool low, bool right) {
    enum { LINE = 64 };
    _tile_loadd(6, b, LINE);
    _tile_loadd(4, a, LINE);
    _tile_dpbf16ps(0, 4, 6);
    if (right) {
        _tile_loadd(7, b + TILE, LINE);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (low) {
        _tile_loadd(5, a + TILE, LINE);
        _tile_dpbf16ps(2, 5, 6);
        if (right) _tile_dpbf16ps(3, 5, 7);
    }
}

/* Between the steps, rows of another block are finished, evenly spread over the steps. */
static inline __attribute__((always_inline)) void tile_pass(const smoe_matrix_block *t, bool low,
                                                            bool right, size_t parts, bool crossed,
                                                            const smoe_block_end *before,
                                                            prefetching *next) {
    enum { LD = SIDE * sizeof(real) };
    real *sums = t->sums + (crossed ? SUMS : 0);
    const smoe_bf16 *a = t->a, *b = t->b;
    size_t steps = t->steps, row = 0, rows = before ? before->m : 0;
    size_t some = steps ? (rows + steps - 1) / steps : 0;
    __asm__ volatile("" ::
                         : "memory"); /* the panels are written: the compiler does not know that
                                          tiles read them */
    _tile_zero(0);
    if (right) _tile_zero(1);
    if (low) _tile_zero(2);
    if (low && right) _tile_zero(3);
    for (size_t s = 0; s < steps; s++, a += parts * 2 * TILE, b += parts * 2 * TILE) {
        multiply(a, crossed ? b + 2 * TILE : b, low, right);
        if (crossed) multiply(a + 2 * TILE, b, low, right);
        prefetch_some(next);
        if (row == rows) continue;
        size_t end = rows - row < some ? rows : row + some;
        finish_some(before, t->their_sums, parts, row, end);
        row = end;
    }
    if (row < rows) finish_some(before, t->their_sums, parts, row, rows);
    _tile_stored(0, sums, LD);
    if (right) _tile_stored(1, sums + ROWS, LD);
    if (low) _tile_stored(2, sums + ROWS * SIDE, LD);
    if (low && right) _tile_stored(3, sums + ROWS * SIDE + ROWS, LD);
}

#else
static void begin(void) {}
static void end(void) {}

/* Rows and columns whose sums are in registers. */
enum { ABREAST = VL == 16 ? 8 : 4, ACROSS = 2 * VL < SIDE ? 2 * VL : SIDE, NV = ACROSS / VL };

#if WITH_BF16
/* One step: the terms of ABREAST rows. */
static inline __attribute__((always_inline)) void multiply(vreal sum[ABREAST][NV],
                                                           const smoe_bf16 *a, const smoe_bf16 *b) {
    for (size_t p = 0; p < PAIRS; p++) {
        __m512bh left = (__m512bh)_mm512_loadu_si512(b + p * 2 * ROWS);
        __m512bh right = (__m512bh)_mm512_loadu_si512(b + TILE + p * 2 * ROWS);
#pragma GCC unroll 8
        for (size_t i = 0; i < ABREAST; i++) {
            int two;
            memcpy(&two, a + i * DEEP + 2 * p, sizeof two);
            __m512bh both = (__m512bh)_mm512_set1_epi32(two);
            sum[i][0] = (vreal)_mm512_dpbf16_ps((__m512)sum[i][0], both, left);
            sum[i][1] = (vreal)_mm512_dpbf16_ps((__m512)sum[i][1], both, right);
        }
    }
}

#else
/* Of VL pairs the first and the second terms, in F32. */
static inline void widen_pairs(const smoe_bf16 *pairs, vreal *first, vreal *second) {
#ifdef SMOE_F64
    for (size_t i = 0; i < VL; i++) {
        (*first)[i] = smoe_bf16_widen(pairs[2 * i]);
        (*second)[i] = smoe_bf16_widen(pairs[2 * i + 1]);
    }
#else
    vint both;
    memcpy(&both, pairs, sizeof both);
    *first = (vreal)(both << 16);
    *second = (vreal)(both & (int32_t)0xffff0000);
#endif
}

/* One step of ABREAST rows and ACROSS columns: rows are widened first, columns in registers. */
static inline __attribute__((always_inline)) void multiply(vreal sum[ABREAST][NV],
                                                           const smoe_bf16 *a, const smoe_bf16 *b) {
    real left[ABREAST * DEEP];
    for (size_t i = 0; i < ABREAST * DEEP; i++) left[i] = smoe_bf16_widen(a[i]);
    for (size_t p = 0; p < PAIRS; p++, b += 2 * ROWS) {
        vreal term[2][NV];
#pragma GCC unroll 2
        for (size_t v = 0; v < NV; v++)
            widen_pairs(b + v * VL / ROWS * TILE + v * VL % ROWS * 2, &term[0][v], &term[1][v]);
#pragma GCC unroll 2
        for (size_t t = 0; t < 2; t++)
#pragma GCC unroll 8
            for (size_t r = 0; r < ABREAST; r++)
#pragma GCC unroll 2
                for (size_t v = 0; v < NV; v++)
                    sum[r][v] += vset(left[r * DEEP + 2 * p + t]) * term[t][v];
    }
}

#endif

static void tile_pass(const smoe_matrix_block *t, size_t parts, bool crossed, prefetching *next) {
    real *sums = t->sums + (crossed ? SUMS : 0);
    size_t step = parts * 2 * TILE;
    for (size_t i = 0; i < t->m; i += ABREAST)
        for (size_t j = 0; j < SIDE; j += ACROSS) {
            vreal sum[ABREAST][NV] = {{{0}}};
            const smoe_bf16 *rows = t->a + i * DEEP;
            const smoe_bf16 *columns = t->b + j / ROWS * TILE + j % ROWS * 2;
            for (size_t s = 0; s < t->steps; s++, rows += step, columns += step) {
                prefetch_some(next);
                multiply(sum, rows, crossed ? columns + 2 * TILE : columns);
                if (crossed) multiply(sum, rows + 2 * TILE, columns);
            }
#pragma GCC unroll 8
            for (size_t r = 0; r < ABREAST; r++)
#pragma GCC unroll 2
                for (size_t v = 0; v < NV; v++)
                    vstore(sums + (i + r) * SIDE + j + v * VL, sum[r][v]);
        }
}
#endif

static void tile_block(const smoe_matrix_block *t) {
    const smoe_block_end *before = t->before;
#if WITH_AMX
    bool low = t->m > ROWS, right = t->n > ROWS;
    prefetching next = prefetching_of(t, 1);
    if (t->parts > 1) {
        tile_pass(t, low, right, 2, false, NULL, &next);
        tile_pass(t, low, right, 2, true, before, &next);
    } else if (low && right) {
        tile_pass(t, true, true, 1, false, before, &next);
    } else {
        tile_pass(t, low, right, 1, false, before, &next);
    }
#else
    prefetching next = prefetching_of(t, (t->m + ABREAST - 1) / ABREAST * (SIDE / ACROSS));
    if (before) finish(before, t->their_sums, t->parts);
    if (t->parts > 1) {
        tile_pass(t, 2, false, &next);
        tile_pass(t, 2, true, &next);
    } else {
        tile_pass(t, 1, false, &next);
    }
#endif
}

/* ---- the unit's limit ------------------------------------------------------------------------ */

/* Numbers around 1, of both signs: with zeros, processors need less power and run a third faster
 * than with other numbers. */
static void tile_fill(smoe_bf16 *x, size_t n, uint32_t bits) {
    for (size_t i = 0; i < n; i++) {
        bits = bits * 1664525 + 1013904223;
        x[i] = (smoe_bf16)(0x3f80 | (bits >> 16 & 0x807f));
    }
}

enum { PEAK_STEPS = 4 }; /* of a block: fewer would measure how its sums are stored */

static double peak(size_t n) {
    enum { PANEL = PEAK_STEPS * 2 * TILE };
    smoe_bf16 a[PANEL] __attribute__((aligned(64))), b[PANEL] __attribute__((aligned(64)));
    real sums[SUMS] __attribute__((aligned(64))) = {0};
    tile_fill(a, PANEL, 1);
    tile_fill(b, PANEL, 2);
    smoe_matrix_block panels = {
        .sums = sums, .a = a, .b = b, .m = SIDE, .n = SIDE, .steps = PEAK_STEPS, .parts = 1};
    begin();
#if WITH_AMX
    tile_block(&panels); /* leaves the operands in tiles 4 to 7 */
    for (size_t i = 0; i < n; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, SIDE * sizeof *sums);
#else
    for (size_t i = 0; i < n; i += PEAK_STEPS) tile_block(&panels);
#endif
    end();
    /* Finite, but the compiler does not know. */
    return isfinite(sums[0]) ? 2.0 * SUMS * DEEP * (double)n : 0;
}

const smoe_matrix_kernels SMOE_KERN(smoe_matrix_kern);
const smoe_matrix_kernels SMOE_KERN(smoe_matrix_kern) = {
#if WITH_AMX
    .unit = "AMX",
    .order = SMOE_ORDER_TILES,
    .few = ROWS,
#elif WITH_BF16
    .unit = "AVX512-BF16",
    .order = SMOE_ORDER_PAIRS,
    .few = ROWS,
#else
    .unit = "multiply-adds",
    .order = SMOE_ORDER_TERMS,
    .few = SMOE_FEW_MOST,
#endif
    .begin = begin,
    .end = end,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .block = tile_block,
    .finish = finish,
    .peak = peak,
};
