/*
 * Rows as vectors, the last of which may be short, and softmax over them. For files named kern_*.c,
 * like math/simd.h.
 */
#pragma once

#include "math/simd.h"
#include "math/tuning_kernels.h"

/* The vector at p, of which w <= VL elements exist. */
static inline vreal take(const real *p, size_t w, real fill) {
    return w == VL ? vload(p) : vload_part(p, w, fill);
}
static inline void give(real *p, vreal v, size_t w) {
    if (w == VL)
        vstore(p, v);
    else
        vstore_part(p, v, w);
}
static inline size_t width(size_t i, size_t n) {
    return n - i < VL ? n - i : VL;
}

/* `rows` <= ABREAST rows, a constant, side by side, so that their chains of sums overlap. */
static inline __attribute__((always_inline)) void softmax_rows(size_t rows, real *x, size_t n,
                                                               size_t ld) {
    vreal most[ABREAST], sum[ABREAST] = {{0}};
    real top[ABREAST], scale[ABREAST];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) most[r] = vset(-(real)INFINITY);
    for (size_t i = 0; i < n; i += VL) {
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            most[r] = vmax(take(x + r * ld + i, width(i, n), -(real)INFINITY), most[r]);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) top[r] = vmaximum(most[r]);
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            vreal e = vexp_falling(take(x + r * ld + i, w, -(real)INFINITY) - top[r]);
            sum[r] += e;
            give(x + r * ld + i, e, w);
        }
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) scale[r] = 1 / vsum(sum[r]);
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            give(x + r * ld + i, take(x + r * ld + i, w, 0) * scale[r], w);
    }
}

static inline void softmax(real *x, size_t R, size_t n, size_t ld) {
    size_t r = 0;
    for (; r + ABREAST <= R; r += ABREAST) softmax_rows(ABREAST, x + r * ld, n, ld);
    for (; r < R; r++) softmax_rows(1, x + r * ld, n, ld);
}

static inline __attribute__((always_inline)) void
softmax_rows_backward(size_t rows, real *dp, const real *p, size_t n, size_t ld) {
    vreal sum[ABREAST] = {{0}};
    real s[ABREAST];
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            sum[r] += take(p + r * ld + i, w, 0) * take(dp + r * ld + i, w, 0);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) s[r] = vsum(sum[r]);
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            give(dp + r * ld + i, take(p + r * ld + i, w, 0) * (take(dp + r * ld + i, w, 0) - s[r]),
                 w);
    }
}

static inline void softmax_backward(real *dp, const real *p, size_t R, size_t n, size_t ld) {
    size_t r = 0;
    for (; r + ABREAST <= R; r += ABREAST)
        softmax_rows_backward(ABREAST, dp + r * ld, p + r * ld, n, ld);
    for (; r < R; r++) softmax_rows_backward(1, dp + r * ld, p + r * ld, n, ld);
}
