/*
 * Kernels of the matrix product: packing, and the register tile. The tile keeps MR x 2 vectors of
 * sums in registers, reads one row of B and broadcasts MR elements of A for each k; every element
 * of C is one chain of multiply-adds in the order of k, whatever the shape around it, which is why
 * results depend neither on threads nor on what else is in a batch.
 */
#include "math/kernels.h"
#include "math/simd.h"

#if SMOE_VBYTES == 64
enum { MR = 14, HALF = 8, FEW = 4 }; /* 28 sums + 2 of B + broadcasts in 32 registers */
#else
enum { MR = 6, HALF = 4, FEW = 2 }; /* 12 sums + 2 of B + a broadcast in 16 registers */
#endif
enum { NV = 2, NR = NV * VL, SHALLOW = 128 };

#if defined SMOE_F64 && SMOE_VBYTES == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#elif SMOE_VBYTES == 16 || (defined SMOE_F64 && SMOE_VBYTES == 32)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#elif SMOE_VBYTES == 32 || defined SMOE_F64
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* VL rows to VL columns: log2(VL) rounds of interleaving row i with row i + VL/2. */
static inline void transpose(vreal r[VL]) {
#pragma GCC unroll 4
    for (int round = 1; round < VL; round *= 2) {
        vreal t[VL];
#pragma GCC unroll 8
        for (int i = 0; i < VL / 2; i++) {
            t[2 * i] = LOW(r[i], r[i + VL / 2]);
            t[2 * i + 1] = HIGH(r[i], r[i + VL / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) r[i] = t[i];
    }
}

/* Elements of a packing's source, at a pointer to real or, where `narrow`, to BF16. */
static inline vreal source_vector(const void *src, size_t at, bool narrow) {
    return narrow ? vwiden((const smoe_bf16 *)src + at) : vload((const real *)src + at);
}
static inline real source_element(const void *src, size_t at, bool narrow) {
    return narrow ? smoe_bf16_widen(((const smoe_bf16 *)src)[at]) : ((const real *)src)[at];
}

/*
 * dst[p*width + i] = src(i, p), i < rows <= width, src(i,p) = src[i*rs + p*cs]; zeros for rows <= i <
 * width: the heart of all packings. Whole vectors are stored even where less than one is left of a row:
 * what spills over is the start of the next row, written after it. The buffers have room for the last.
 */
static inline __attribute__((always_inline)) void pack_panel(real *dst, const void *src,
                                                             bool narrow, size_t rs, size_t cs,
                                                             size_t rows, size_t k, size_t width) {
    size_t p = 0;
    if (cs == 1) { /* long rows become columns: blocks of VL x VL in registers */
        for (; p + VL <= k; p += VL)
            for (size_t i0 = 0; i0 < width; i0 += VL) {
                vreal r[VL];
                for (size_t i = 0; i < VL; i++)
                    r[i] =
                        i0 + i < rows ? source_vector(src, (i0 + i) * rs + p, narrow) : (vreal){0};
                transpose(r);
                real *to = dst + p * width + i0;
                for (size_t q = 0; q < VL; q++, to += width) {
                    if (width <= VL || width - i0 >= VL)
                        vstore(to, r[q]);
                    else
                        vstore_part(to, r[q], width - i0);
                }
            }
    } else if (rs == 1 && rows == width && !narrow) {
        for (; p < k; p++) memcpy(dst + p * width, (const real *)src + p * cs, width * sizeof *dst);
    }
    for (; p < k; p++)
        for (size_t i = 0; i < width; i++)
            dst[p * width + i] = i < rows ? source_element(src, i * rs + p * cs, narrow) : 0;
}

static void pack_a(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k) {
    for (size_t i = 0; i < m; i += MR, dst += MR * k)
        pack_panel(dst, a + i * rs, false, rs, cs, m - i < MR ? m - i : MR, k, MR);
}

static void pack_b(real *dst, const real *b, size_t rs, size_t cs, size_t k, size_t n) {
    pack_panel(dst, b, false, cs, rs, n, k, NR);
}

static void pack_b_bf16(real *dst, const smoe_bf16 *b, size_t rs, size_t cs, size_t k, size_t n) {
    pack_panel(dst, b, true, cs, rs, n, k, NR);
}

/* c = add + bias + alpha * sum for the first n <= VL columns: one expression for whole and part
 * vectors, so that a result does not depend on where in a tile it lies. */
static inline void finish(real *c, vreal sum, real alpha, const real *add, const real *bias,
                          size_t n, bool stream) {
    vreal start = {0};
    if (add) start = n == VL ? vload(add) : vload_part(add, n, 0);
    if (bias) start += n == VL ? vload(bias) : vload_part(bias, n, 0);
    start += alpha * sum;
    if (n != VL)
        vstore_part(c, start, n);
    else if (stream)
        vstream(c, start);
    else
        vstore(c, start);
}

/* Two cache lines of what comes next, into the second cache. */
static inline void ask(smoe_ahead *next) {
    __builtin_prefetch(next->at, 0, 2);
    __builtin_prefetch(next->at + 64, 0, 2);
    next->at += 128;
    if (--next->left) return;
    next->at += next->skip;
    next->left = next->run;
}

/* The tile with `rows` >= m rows of sums, a constant: the fewer, the fewer multiply-adds for nothing. */
static inline __attribute__((always_inline)) void
tile_of(size_t rows, real *c, size_t ldc, const real *a, const real *b, size_t m, size_t n,
        size_t k, real alpha, const real *add, size_t ldadd, const real *bias, bool stream,
        smoe_ahead *ahead) {
    smoe_ahead next = *ahead;
    vreal sum[MR][NV] = {{{0}}};
    for (size_t p = 0; p < k; p++, a += MR, b += NR) {
        vreal b0 = vload(b), b1 = vload(b + VL);
        if (!(p & next.mask)) ask(&next);
#pragma GCC unroll 14
        for (size_t i = 0; i < rows; i++) {
            vreal ai = vset(a[i]);
            sum[i][0] += ai * b0;
            sum[i][1] += ai * b1;
        }
    }
    *ahead = next;
    size_t n0 = n < VL ? n : VL, n1 = n - n0;
#pragma GCC unroll 14
    for (size_t i = 0; i < rows; i++) {
        if (i == m) break;
        finish(c + i * ldc, sum[i][0], alpha, add ? add + i * ldadd : NULL, bias, n0, stream);
        if (n1)
            finish(c + i * ldc + VL, sum[i][1], alpha, add ? add + i * ldadd + VL : NULL,
                   bias ? bias + VL : NULL, n1, stream);
    }
}

static void tile(real *c, size_t ldc, const real *a, const real *b, size_t m, size_t n, size_t k,
                 real alpha, const real *add, size_t ldadd, const real *bias, bool stream,
                 smoe_ahead *ahead) {
    stream = stream && (uintptr_t)c % SMOE_VBYTES == 0 && ldc % VL == 0;
    /* Few terms added to C: the time goes into C, whose next tile lies to the right. */
    if (k <= SHALLOW && add == c)
        for (size_t i = 0; i < m; i++)
            for (size_t j = NR; j < 2 * NR; j += VL) __builtin_prefetch(c + i * ldc + j, 1, 2);
    if (m <= FEW)
        tile_of(FEW, c, ldc, a, b, m, n, k, alpha, add, ldadd, bias, stream, ahead);
    else if (m <= HALF)
        tile_of(HALF, c, ldc, a, b, m, n, k, alpha, add, ldadd, bias, stream, ahead);
    else
        tile_of(MR, c, ldc, a, b, m, n, k, alpha, add, ldadd, bias, stream, ahead);
}

/* Twelve independent chains: more than the latency of a multiply-add times the units that do them. */
static double peak(size_t n) {
    enum { CHAINS = 12 };
    vreal x[CHAINS], a = vset((real)0.999), b = vset((real)1e-3);
    for (int i = 0; i < CHAINS; i++) x[i] = vset((real)i);
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = x[i] * a + b;
    real sum = 0;
    for (int i = 0; i < CHAINS; i++) sum += vsum(x[i]);
    /* All chains tend to b/(1 - a) = 1; using the sum keeps the compiler from dropping them. */
    return sum > 0 ? 2.0 * CHAINS * VL * (double)n : 0;
}

const smoe_gemm_kernels SMOE_KERN(smoe_gemm_kern);
const smoe_gemm_kernels SMOE_KERN(smoe_gemm_kern) = {MR,          NR,   pack_a, pack_b,
                                                     pack_b_bf16, tile, vfence, peak};
