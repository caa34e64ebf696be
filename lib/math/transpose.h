/*
 * Rows to columns: a few elements of as many rows as a vector has lanes become vectors, in
 * registers; and panels, which are packed by that. For files named kern_*.c, as math/simd.h.
 */
#pragma once

#include "base/bf16.h"
#include "math/simd.h"

/* TRANSPOSE_DEPTH elements of each of VL rows, `stride` bytes apart, or TRANSPOSE_DEPTH_BF16 in
 * BF16, become vectors of the elements q of all rows. Wide vectors are loaded as halves of two
 * rows, which saves a round of shuffles; shuffles compete with multiply-adds for ports. BF16
 * elements are transposed in pairs. */
#if SMOE_VBYTES == 64 && !defined SMOE_F64
enum { WORDS = 8 };
#else
enum { WORDS = 4 };
#endif
enum {
    TRANSPOSE_DEPTH = WORDS,
    TRANSPOSE_DEPTH_BF16 = 2 * WORDS,
    PARTS = 4 /* the transposition can be done in parts, with other work between them */
};
#ifdef SMOE_F64
static inline void transpose_part(vreal to[TRANSPOSE_DEPTH_BF16], vreal halfway[2 * WORDS],
                                  const char *at, size_t stride, bool narrow, size_t part) {
    (void)halfway;
    for (size_t q = 0; part == 0 && q < (narrow ? TRANSPOSE_DEPTH_BF16 : TRANSPOSE_DEPTH); q++) {
        vreal v = {0};
        for (size_t j = 0; j < VL; j++) {
            const void *row = at + j * stride;
            v[j] = narrow ? smoe_bf16_widen(((const smoe_bf16 *)row)[q]) : ((const real *)row)[q];
        }
        to[q] = v;
    }
}
static inline vreal transposed_element(const vreal from[TRANSPOSE_DEPTH_BF16], size_t q,
                                       bool narrow) {
    (void)narrow;
    return from[q];
}
#else
/* Of every four elements of a and b: the lower halves, element by element; and the upper ones. */
#define BY_FOUR(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if SMOE_VBYTES == 64
#define LOW(a, b) BY_FOUR(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b) BY_FOUR(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#elif SMOE_VBYTES == 32
#define LOW(a, b) BY_FOUR(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) BY_FOUR(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#else
#define LOW(a, b) BY_FOUR(a, b, 0, 4, 1, 5)
#define HIGH(a, b) BY_FOUR(a, b, 2, 6, 3, 7)
#endif

/* Within every four elements: to[q] gets element q of a, b, c and d. */
static inline void transpose_within(vreal to[4], vreal a, vreal b, vreal c, vreal d) {
    vreal ac = LOW(a, c), bd = LOW(b, d);
    to[0] = LOW(ac, bd);
    to[1] = HIGH(ac, bd);
    ac = HIGH(a, c);
    bd = HIGH(b, d);
    to[2] = LOW(ac, bd);
    to[3] = HIGH(ac, bd);
}

#if SMOE_VBYTES == 64
/* 32 bytes of a row, and of the fourth after it. */
static inline vreal halves(const char *at, size_t stride) {
    __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps((const float *)at));
    return (vreal)_mm512_insertf32x8(low, _mm256_loadu_ps((const float *)(at + 4 * stride)), 1);
}
/* Words 0 and 4, 1 and 5 ... of rows 0 to 3, of these and of rows 4 to 7, each four together. */
static inline void transpose_fours(vreal to[4], const char *at, size_t stride) {
    vreal a = halves(at, stride), b = halves(at + stride, stride);
    vreal c = halves(at + 2 * stride, stride), d = halves(at + 3 * stride, stride);
    transpose_within(to, a, b, c, d);
}
static inline void transpose_part(vreal to[TRANSPOSE_DEPTH_BF16], vreal halfway[2 * WORDS],
                                  const char *at, size_t stride, bool narrow, size_t part) {
    (void)narrow;
    vreal *low = halfway, *high = halfway + 4;
    if (part < 2) transpose_fours(part ? high : low, at + 8 * part * stride, stride);
#pragma GCC unroll 4
    for (size_t q = 0; part == 2 && q < 4; q++)
        to[q] = (vreal)_mm512_shuffle_f32x4((__m512)low[q], (__m512)high[q], 0x88);
#pragma GCC unroll 4
    for (size_t q = 0; part == 3 && q < 4; q++)
        to[4 + q] = (vreal)_mm512_shuffle_f32x4((__m512)low[q], (__m512)high[q], 0xdd);
}
#else
/* Sixteen bytes of each fourth row, `stride` bytes apart. */
static inline vreal sixteens(const char *at, size_t stride) {
#if SMOE_VBYTES == 32
    __m256 all = _mm256_castps128_ps256(_mm_loadu_ps((const float *)at));
    return (vreal)_mm256_insertf128_ps(all, _mm_loadu_ps((const float *)(at + 4 * stride)), 1);
#else
    (void)stride;
    vreal all;
    memcpy(&all, at, sizeof all);
    return all;
#endif
}
static inline void transpose_part(vreal to[TRANSPOSE_DEPTH_BF16], vreal halfway[2 * WORDS],
                                  const char *at, size_t stride, bool narrow, size_t part) {
    (void)halfway;
    (void)narrow;
    if (part) return;
    vreal a = sixteens(at, stride), b = sixteens(at + stride, stride);
    vreal c = sixteens(at + 2 * stride, stride), d = sixteens(at + 3 * stride, stride);
    transpose_within(to, a, b, c, d);
}
#endif
/* Of pairs. All processors for which this file is compiled are little-endian. */
static inline vreal transposed_element(const vreal from[TRANSPOSE_DEPTH_BF16], size_t q,
                                       bool narrow) {
    if (!narrow) return from[q];
    vint pair = (vint)from[q / 2];
    return (vreal)(q % 2 ? pair & ((vint){0} - 0x10000) : pair << 16);
}
#endif

/* All parts; from real or, where `narrow`, from BF16. */
static inline void transpose(vreal to[TRANSPOSE_DEPTH_BF16], const void *at, size_t stride,
                             bool narrow) {
    vreal halfway[2 * WORDS], transposed[TRANSPOSE_DEPTH_BF16];
    size_t n = narrow ? TRANSPOSE_DEPTH_BF16 : TRANSPOSE_DEPTH;
#pragma GCC unroll 4
    for (size_t part = 0; part < PARTS; part++)
        transpose_part(transposed, halfway, at, stride, narrow, part);
#pragma GCC unroll 16
    for (size_t q = 0; q < n; q++) to[q] = transposed_element(transposed, q, narrow);
}
static inline real source_element(const void *src, size_t at, bool narrow) {
    return narrow ? smoe_bf16_widen(((const smoe_bf16 *)src)[at]) : ((const real *)src)[at];
}

/* Part of a panel, from VL rows at `src`, rs apart: k steps, with room for up to VL elements
 * each. */
static inline __attribute__((always_inline)) void pack_transposed(real *dst, const void *src,
                                                                  bool narrow, size_t rs, size_t k,
                                                                  size_t width, size_t room) {
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real);
    size_t p = 0, step = narrow ? TRANSPOSE_DEPTH_BF16 : TRANSPOSE_DEPTH;
    for (; p + step <= k; p += step) {
        vreal r[TRANSPOSE_DEPTH_BF16];
        transpose(r, (const char *)src + p * size, rs * size, narrow);
#pragma GCC unroll 16
        for (size_t q = 0; q < step; q++) {
            real *to = dst + (p + q) * width;
            if (width <= VL || room >= VL)
                vstore(to, r[q]);
            else
                vstore_part(to, r[q], room);
        }
    }
    for (; p < k; p++)
        for (size_t i = 0; i < room && i < VL; i++)
            dst[p * width + i] = source_element(src, i * rs + p, narrow);
}

/* The same with fewer rows; the missing ones are zeros. */
static inline __attribute__((always_inline)) void pack_edge(real *dst, const void *src, bool narrow,
                                                            size_t rs, size_t rows, size_t k,
                                                            size_t width, size_t room) {
    enum { LENGTH = 16 };
    real edge[VL * LENGTH] = {0};
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real);
    for (size_t p = 0; p < k; p += LENGTH, dst += LENGTH * width) {
        const char *from = (const char *)src + p * size;
        char *to = (char *)edge;
        size_t n = k - p < LENGTH ? k - p : LENGTH;
        for (size_t i = 0; i < rows; i++, from += rs * size, to += LENGTH * size)
            if (n == LENGTH) /* of constant size: a move, not a call */
                memcpy(to, from, LENGTH * size);
            else
                memcpy(to, from, n * size);
        pack_transposed(dst, edge, narrow, LENGTH, n, width, room);
    }
}

/*
 * dst[p*width + i] = src(i, p), i < width; src(i,p) = src[i*rs + p*cs] for i < rows, else 0: the
 * core of all packings. Whole vectors are stored even if less than a vector is left of a row; the
 * excess elements are overwritten by the next row. The buffers have room for those of the last row.
 */
static inline __attribute__((always_inline)) void pack_panel(real *dst, const void *src,
                                                             bool narrow, size_t rs, size_t cs,
                                                             size_t rows, size_t k, size_t width) {
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real);
    if (cs == 1) { /* long rows become columns */
        for (size_t i = 0; i < width; i += VL) {
            const char *from = (const char *)src + i * rs * size;
            if (rows >= i + VL)
                pack_transposed(dst + i, from, narrow, rs, k, width, width - i);
            else
                pack_edge(dst + i, from, narrow, rs, rows > i ? rows - i : 0, k, width, width - i);
        }
        return;
    }
    for (size_t p = 0; p < k; p++, dst += width)
        if (rs == 1 && rows >= width && !narrow)
            memcpy(dst, (const real *)src + p * cs, width * sizeof *dst);
        else
            for (size_t i = 0; i < width; i++)
                dst[i] = i < rows ? source_element(src, i * rs + p * cs, narrow) : 0;
}
