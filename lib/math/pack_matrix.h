/*
 * Packing of the operands of products in BF16: panels of 32 rows or columns, in the layout of
 * math/kernels.h, rounded where the operand is not in BF16 yet. For kern_matrix.c alone, which is
 * compiled for each instruction set and matrix unit, as math/simd.h is.
 */
#pragma once

#include "math/kernels.h"
#include "math/round_bf16.h"

#ifdef SMOE_F64
#define WITH_AVX512 0
#elif defined __AVX512F__
#define WITH_AVX512 1
#else
#define WITH_AVX512 0
#endif
#if WITH_AVX512 && defined __AVX512BF16__
#define WITH_BF16 1
#else
#define WITH_BF16 0
#endif
#if WITH_BF16 && defined __AMX_BF16__
#define WITH_AMX 1
#else
#define WITH_AMX 0
#endif

enum {
    SIDE = SMOE_MATRIX_SIDE,
    DEEP = SMOE_MATRIX_DEEP,
    TILE = SMOE_MATRIX_TILE,
    ROWS = 16,       /* of a tile, */
    PAIRS = DEEP / 2 /* and its pairs of terms */
};

static size_t steps_of(size_t k) {
    return (k + DEEP - 1) / DEEP;
}

/* x - high, the remainder of a rounded number; 0 if one of them is not finite. */
static inline real remainder_of(real x, smoe_bf16 high) {
    real left = x - (real)smoe_bf16_widen(high);
    return left - left == 0 ? left : 0;
}

/* The place of element (i, p) in a tile. */
static inline size_t place(size_t i, size_t p, bool is_b) {
    return is_b ? (p / 2 * ROWS + i) * 2 + p % 2 : i * DEEP + p;
}

/* The general case: rows i0 .. i0+ROWS of a panel, terms p0 .. p0+DEEP, one by one. */
static void pack_tile(smoe_bf16 *dst, size_t to_remainder, const smoe_matrix *from, size_t i0,
                      size_t p0, bool is_b) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t p = 0; p < DEEP; p++) {
            size_t to = place(i, p, is_b), at = (i0 + i) * from->row + (p0 + p) * from->col;
            smoe_bf16 high = 0, low = 0;
            if (i0 + i < from->m && p0 + p < from->n) {
                high = from->of.bf16 ? from->of.bf16[at] : rounded(from->of.at[at]);
                if (!from->of.bf16 && to_remainder)
                    low = rounded(remainder_of(from->of.at[at], high));
            }
            dst[to] = high;
            if (to_remainder) dst[to + to_remainder] = low;
        }
}

#if WITH_AVX512
/* 16 numbers to BF16, in the lower halves of 32 bits each. */
static inline __m512i round16(__m512 x) {
#if WITH_BF16
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
#else
    __m512i bits = _mm512_castps_si512(x), upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i up = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    __mmask16 none = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    up = _mm512_mask_and_epi32(up, none, upper, _mm512_set1_epi32(0x8000));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(up, nan, upper, _mm512_set1_epi32(0x40));
#endif
}

/* The same for 32 numbers; those of `low` come first in memory. */
static inline __m512i round32(__m512 low, __m512 high) {
#if WITH_BF16
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
#else
    __m512i both = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(round16(low)));
    return _mm512_inserti64x4(both, _mm512_cvtepi32_epi16(round16(high)), 1);
#endif
}

/* Pairs: of two rows of 16 numbers, those of one column together. */
static inline __m512i round_pairs(__m512 first, __m512 second) {
    return _mm512_or_si512(round16(first), _mm512_slli_epi32(round16(second), 16));
}

/* x - high, where both are finite. */
static inline __m512 remainder16(__m512 x, __m512i high) {
    __m512 left = _mm512_sub_ps(x, _mm512_castsi512_ps(high));
    __mmask16 finite =
        _mm512_cmp_ps_mask(_mm512_sub_ps(left, left), _mm512_setzero_ps(), _CMP_EQ_OQ);
    return _mm512_maskz_mov_ps(finite, left);
}

/* 16 x 16 words of 32 bits, rows to columns. */
static inline void transpose(__m512i r[ROWS]) {
    __m512i t[ROWS];
#pragma GCC unroll 4
    for (size_t i = 0; i < ROWS; i += 4) { /* within four words: columns of four rows */
        __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]),
                b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]);
        __m512i d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) { /* t[4q+i]: columns i, 4+i, 8+i, 12+i of rows 4q .. 4q+3 */
        __m512i a = _mm512_shuffle_i32x4(t[i], t[4 + i], 0x88);
        __m512i b = _mm512_shuffle_i32x4(t[8 + i], t[12 + i], 0x88);
        __m512i c = _mm512_shuffle_i32x4(t[i], t[4 + i], 0xdd);
        __m512i d = _mm512_shuffle_i32x4(t[8 + i], t[12 + i], 0xdd);
        r[i] = _mm512_shuffle_i32x4(a, b, 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(a, b, 0xdd);
        r[4 + i] = _mm512_shuffle_i32x4(c, d, 0x88);
        r[12 + i] = _mm512_shuffle_i32x4(c, d, 0xdd);
    }
}

static inline void store_tile(smoe_bf16 *dst, __m512i r[ROWS], bool transposed) {
    if (transposed) transpose(r);
#pragma GCC unroll 16
    for (size_t i = 0; i < ROWS; i++) _mm512_storeu_si512(dst + i * TILE / ROWS, r[i]);
}

/* Rows whose terms lie side by side, ld apart; transposed if it is for a tile of B. */
static inline __attribute__((always_inline)) void pack_along(smoe_bf16 *dst, size_t to_remainder,
                                                             const float *at, const smoe_bf16 *bf16,
                                                             size_t ld, bool transposed) {
    __m512i r[ROWS], left[ROWS];
    if (bf16) {
#pragma GCC unroll 16
        for (size_t i = 0; i < ROWS; i++) r[i] = _mm512_loadu_si512(bf16 + i * ld);
    } else {
#pragma GCC unroll 16
        for (size_t i = 0; i < ROWS; i++) {
            __m512 low = _mm512_loadu_ps(at + i * ld), high = _mm512_loadu_ps(at + i * ld + ROWS);
            r[i] = round32(low, high);
            if (!to_remainder) continue;
            low = remainder16(
                low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(r[i])), 16));
            high = remainder16(
                high,
                _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(r[i], 1)), 16));
            left[i] = round32(low, high);
        }
    }
    store_tile(dst, r, transposed);
    if (to_remainder && !bf16) store_tile(dst + to_remainder, left, transposed);
    if (to_remainder && bf16) memset(dst + to_remainder, 0, TILE * sizeof *dst);
}

/* Rows of terms, ld apart, in which the operand's rows lie side by side; transposed if it is for a
 * tile of A. */
static inline __attribute__((always_inline)) void pack_across(smoe_bf16 *dst, size_t to_remainder,
                                                              const float *at,
                                                              const smoe_bf16 *bf16, size_t ld,
                                                              bool transposed) {
    __m512i r[PAIRS], left[PAIRS];
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
#pragma GCC unroll 16
    for (size_t p = 0; p < PAIRS; p++) {
        if (bf16) {
            const smoe_bf16 *two = bf16 + 2 * p * ld;
            __m512i first = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)two));
            __m512i second = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(two + ld)));
            r[p] = _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
            continue;
        }
        __m512 first = _mm512_loadu_ps(at + 2 * p * ld);
        __m512 second = _mm512_loadu_ps(at + (2 * p + 1) * ld);
        r[p] = round_pairs(first, second);
        if (!to_remainder) continue;
        first = remainder16(first, _mm512_slli_epi32(r[p], 16));
        second = remainder16(second, _mm512_and_si512(r[p], upper));
        left[p] = round_pairs(first, second);
    }
    store_tile(dst, r, transposed);
    if (to_remainder && !bf16) store_tile(dst + to_remainder, left, transposed);
    if (to_remainder && bf16) memset(dst + to_remainder, 0, TILE * sizeof *dst);
}
#endif

#if WITH_AVX512
/* The first n numbers, n <= 16, and zeros. */
static inline __m512 load_some(const float *at, size_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), at);
}

/* Part of a tile, filled up with zeros; its rows or, if `across`, its terms are ld apart. */
static void cut_out(float *edge, smoe_bf16 *narrow, const smoe_matrix *from, size_t i0, size_t p0,
                    bool across) {
    size_t rows = from->m > i0 ? from->m - i0 : 0, terms = from->n - p0;
    size_t lines = across ? terms : rows, width = across ? rows : terms;
    size_t at = i0 * from->row + p0 * from->col, apart = across ? from->col : from->row;
    size_t most = across ? ROWS : DEEP;
    if (width > most) width = most;
    for (size_t i = 0; i < TILE / most; i++, at += apart) {
        size_t here = i < lines ? width : 0, first = here < ROWS ? here : ROWS;
        if (from->of.bf16) {
            __mmask32 mask = (__mmask32)((1ull << here) - 1);
            __m512i line = _mm512_maskz_loadu_epi16(mask, from->of.bf16 + (here ? at : 0));
            if (across)
                _mm256_storeu_si256((__m256i *)(narrow + i * most), _mm512_castsi512_si256(line));
            else
                _mm512_storeu_si512(narrow + i * most, line);
            continue;
        }
        const float *line = from->of.at + (here ? at : 0);
        _mm512_storeu_ps(edge + i * most, load_some(line, first));
        if (!across) {
            const float *rest = here > ROWS ? line + ROWS : line;
            _mm512_storeu_ps(edge + i * most + ROWS, load_some(rest, here - first));
        }
    }
}
#endif

#if !WITH_AVX512 && !defined SMOE_F64
/* n numbers that lie side by side, rounded, and what is left of them unless `low` is NULL. */
static inline void round_line(smoe_bf16 *high, smoe_bf16 *low, const real *at, size_t n) {
    size_t i = 0;
    for (; i + VL <= n; i += VL) {
        vreal x = vload(at + i), upper = as_operands(x), left = x - upper;
        vhalves halves = __builtin_convertvector((vbits)upper >> 16, vhalves);
        memcpy(high + i, &halves, sizeof halves);
        if (!low) continue;
        left = vselect((vint)(0 * left == 0), left, (vreal){0});
        halves = __builtin_convertvector((vbits)as_operands(left) >> 16, vhalves);
        memcpy(low + i, &halves, sizeof halves);
    }
    for (; i < n; i++) {
        high[i] = rounded(at[i]);
        if (low) low[i] = rounded(remainder_of(at[i], high[i]));
    }
}

/* Lines in the order of memory, ROWS rows of DEEP terms each or (`across`) DEEP terms of ROWS rows
 * each, to a tile, by words of two terms. */
static void arrange(smoe_bf16 *dst, const smoe_bf16 *lines, bool across, bool is_b) {
    uint32_t words[ROWS][PAIRS], turned[PAIRS][ROWS];
    if (across)
        for (size_t p = 0; p < PAIRS; p++)
            for (size_t i = 0; i < ROWS; i++)
                words[p][i] = lines[2 * p * ROWS + i] | (uint32_t)lines[(2 * p + 1) * ROWS + i]
                                                            << 16;
    else
        memcpy(words, lines, sizeof words);
    if (across == is_b) {
        memcpy(dst, words, sizeof words);
        return;
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t p = 0; p < PAIRS; p++) turned[p][i] = words[i][p];
    memcpy(dst, turned, sizeof turned);
}

/* A tile of rows (or, if `across`, terms) whose numbers lie side by side; zeros past the end. */
static void pack_lines(smoe_bf16 *dst, size_t to_remainder, const smoe_matrix *from, size_t i0,
                       size_t p0, bool across, bool is_b) {
    smoe_bf16 high[TILE] = {0}, low[TILE] = {0};
    size_t rows = from->m > i0 ? from->m - i0 : 0, terms = from->n - p0;
    if (rows > ROWS) rows = ROWS;
    if (terms > DEEP) terms = DEEP;
    size_t lines = across ? terms : rows, width = across ? rows : terms;
    size_t at = i0 * from->row + p0 * from->col, apart = across ? from->col : from->row;
    size_t most = across ? ROWS : DEEP;
    for (size_t i = 0; width && i < lines; i++, at += apart)
        if (from->of.bf16)
            memcpy(high + i * most, from->of.bf16 + at, width * sizeof *high);
        else
            round_line(high + i * most, to_remainder ? low + i * most : NULL, from->of.at + at,
                       width);
    arrange(dst, high, across, is_b);
    if (to_remainder) arrange(dst + to_remainder, low, across, is_b);
}
#endif

/* A tile by vectors, where one of the strides is 1; false where none is. */
static inline __attribute__((always_inline)) bool pack_fast(smoe_bf16 *dst, size_t to_remainder,
                                                            const smoe_matrix *from, size_t i0,
                                                            size_t p0, bool is_b) {
#if WITH_AVX512
    if (from->row != 1 && from->col != 1) return false;
    float edge[TILE] __attribute__((aligned(64)));
    smoe_bf16 narrow[TILE] __attribute__((aligned(64)));
    bool across = from->col != 1;
    size_t at = i0 * from->row + p0 * from->col, ld = across ? from->col : from->row;
    const float *wide = from->of.bf16 ? NULL : from->of.at;
    const smoe_bf16 *bf16 = from->of.bf16;
    if (from->m < i0 + ROWS || from->n < p0 + DEEP) {
        cut_out(edge, narrow, from, i0, p0, across);
        wide = edge;
        bf16 = bf16 ? narrow : NULL;
        ld = across ? ROWS : DEEP;
        at = 0;
    }
    if (!across && bf16)
        pack_along(dst, to_remainder, NULL, bf16 + at, ld, is_b);
    else if (!across)
        pack_along(dst, to_remainder, wide + at, NULL, ld, is_b);
    else if (bf16)
        pack_across(dst, to_remainder, NULL, bf16 + at, ld, !is_b);
    else
        pack_across(dst, to_remainder, wide + at, NULL, ld, !is_b);
    return true;
#elif !defined SMOE_F64
    if (from->row != 1 && from->col != 1) return false;
    pack_lines(dst, to_remainder, from, i0, p0, from->col != 1, is_b);
    return true;
#else
    (void)dst, (void)to_remainder, (void)from, (void)i0, (void)p0, (void)is_b;
    return false;
#endif
}

/* Prefetches what is packed in the next steps: rows that are too far apart for the hardware
 * prefetcher. */
static inline void prefetch_operand(const smoe_matrix *from, size_t p0) {
    enum { AHEAD = 2 * DEEP };
    size_t size = from->of.bf16 ? sizeof(smoe_bf16) : sizeof(real);
    const char *at = from->of.bf16 ? (const char *)from->of.bf16 : (const char *)from->of.at;
    if (p0 + AHEAD >= from->n) return;
    bool along = from->col == 1;
    size_t lines = along ? from->m : DEEP, length = (along ? DEEP : from->m) * size;
    size_t apart = (along ? from->row : from->col) * size;
    at += (p0 + AHEAD) * from->col * size;
    for (size_t i = 0; i < lines; i++, at += apart)
        for (size_t j = 0; j < length; j += 64) __builtin_prefetch(at + j);
}

static inline __attribute__((always_inline)) void
pack_panel(smoe_bf16 *dst, const smoe_matrix *from, size_t parts, bool is_b) {
    size_t steps = steps_of(from->n), to_remainder = parts > 1 ? 2 * TILE : 0;
    for (size_t s = 0; s < steps; s++, dst += parts * 2 * TILE) {
        prefetch_operand(from, s * DEEP);
        for (size_t half = 0; half < 2; half++)
            if (!pack_fast(dst + half * TILE, to_remainder, from, half * ROWS, s * DEEP, is_b))
                pack_tile(dst + half * TILE, to_remainder, from, half * ROWS, s * DEEP, is_b);
    }
}

static void pack_a(smoe_bf16 *dst, const smoe_matrix *from, size_t parts) {
    if (parts == 1)
        pack_panel(dst, from, 1, false);
    else
        pack_panel(dst, from, parts, false);
}

static void pack_b(smoe_bf16 *dst, const smoe_matrix *from, size_t parts) {
    if (parts == 1)
        pack_panel(dst, from, 1, true);
    else
        pack_panel(dst, from, parts, true);
}
