/*
 * Vectors of `real`, as wide as the instruction set of this translation unit, written with the
 * compiler's vector extension: one source for AVX-512, AVX2, SSE2, NEON and, with real = double,
 * for the gradient-check flavour. Files named kern_*.c are compiled once for every instruction set
 * (SMOE_ISA says for which) and reached through math/kernels.h alone.
 */
#pragma once

#include "base/base.h"
#include "math/gelu.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifndef SMOE_ISA
#define SMOE_ISA base
#endif
#define SMOE_KERN_JOIN(name, isa) name##_##isa
#define SMOE_KERN_NAME(name, isa) SMOE_KERN_JOIN(name, isa)
#define SMOE_KERN(name) SMOE_KERN_NAME(name, SMOE_ISA) /* smoe_gemm_kern -> smoe_gemm_kern_v4 */

#if defined __AVX512F__
#define SMOE_VBYTES 64
#elif defined __AVX2__
#define SMOE_VBYTES 32
#else
#define SMOE_VBYTES 16
#endif

/* What inline assembly calls a register for a vector; undefined where a vector needs several. */
#if defined SMOE_MODELLED
#elif defined __x86_64__
#define SMOE_VREGISTER "v"
#elif defined __aarch64__
#define SMOE_VREGISTER "w"
#endif

#ifdef SMOE_F64
typedef int64_t smoe_vint_lane;
#else
typedef int32_t smoe_vint_lane;
#endif

typedef real vreal __attribute__((vector_size(SMOE_VBYTES)));
typedef real vreal_loose
    __attribute__((vector_size(SMOE_VBYTES), aligned(sizeof(real)), may_alias));
typedef smoe_vint_lane vint __attribute__((vector_size(SMOE_VBYTES)));
enum { VL = SMOE_VBYTES / sizeof(real) };

static inline vreal vload(const real *p) {
    return *(const vreal_loose *)p;
}
static inline void vstore(real *p, vreal v) {
    *(vreal_loose *)p = v;
}
/* The same past the caches, to an aligned address, if the processor can; a fence must follow before
 * other threads read it. */
static inline void vstream(real *p, vreal v) {
#if defined __AVX512F__ && defined SMOE_F64
    _mm512_stream_pd(p, (__m512d)v);
#elif defined __AVX512F__
    _mm512_stream_ps(p, (__m512)v);
#elif defined __AVX2__ && defined SMOE_F64
    _mm256_stream_pd(p, (__m256d)v);
#elif defined __AVX2__
    _mm256_stream_ps(p, (__m256)v);
#else
    vstore(p, v);
#endif
}
static inline void vfence(void) {
#ifdef __AVX2__
    _mm_sfence();
#endif
}
static inline vreal vset(real x) {
    return x - (vreal){0};
}
static inline vreal vselect(vint mask, vreal yes, vreal no) {
    return (vreal)(((vint)yes & mask) | ((vint)no & ~mask));
}
/* a > b ? a : b, also if one of them is NaN. */
static inline vreal vmax(vreal a, vreal b) {
#if defined __AVX512F__ && !defined SMOE_F64
    return (vreal)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX2__ && !defined SMOE_F64
    return (vreal)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vselect(a > b, a, b);
#endif
}

static inline vreal vsqrt(vreal x) {
#if defined __AVX512F__ && !defined SMOE_F64
    return (vreal)_mm512_sqrt_ps((__m512)x);
#elif defined __AVX2__ && !defined SMOE_F64
    return (vreal)_mm256_sqrt_ps((__m256)x);
#else
    real t[VL];
    memcpy(t, &x, sizeof t);
#ifdef SMOE_F64
    for (size_t i = 0; i < VL; i++) t[i] = sqrt(t[i]);
#else
    for (size_t i = 0; i < VL; i++) t[i] = sqrtf(t[i]);
#endif
    memcpy(&x, t, sizeof t);
    return x;
#endif
}

/* x, rounded: the compiler does not fuse the operation that computed x with one that uses it. */
static inline vreal vrounded(vreal x) {
#ifdef SMOE_VREGISTER
    __asm__("" : "+" SMOE_VREGISTER(x));
#else
    __asm__("" : "+m"(x));
#endif
    return x;
}

/* p, as an address unknown to the compiler, so that the memory it points to is read again. */
static inline const real *vagain(const real *p) {
    __asm__("" : "+r"(p));
    return p;
}

/* Keeps x alive up to here: the compiler does not reuse its register before. */
static inline void vkeep(vreal x) {
#ifdef SMOE_VREGISTER
    __asm__ volatile("" : : SMOE_VREGISTER(x));
#else
    (void)x;
#endif
}

/* Returns p. All n vectors are computed before this point, and p is used only after it, so that the
 * compiler does not mix the code before with the code after. */
static inline const char *vorder(const char *p, vreal *v, size_t n) {
#if defined __x86_64__ && defined SMOE_VREGISTER
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) __asm__ volatile("" : "+" SMOE_VREGISTER(v[i]));
    __asm__ volatile("" : "+r"(p));
#else
    (void)v;
    (void)n;
#endif
    return p;
}

/* The first n <= VL elements, the others `fill`; and back. */
#if defined __AVX512F__ && !defined SMOE_F64
static inline vreal vload_part(const real *p, size_t n, real fill) {
    return (vreal)_mm512_mask_loadu_ps((__m512)vset(fill), (__mmask16)((1u << n) - 1), p);
}
static inline void vstore_part(real *p, vreal v, size_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
#elif defined __AVX2__ && !defined SMOE_F64
static inline vint vfirst(size_t n) {
    return (vint){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)n;
}
static inline vreal vload_part(const real *p, size_t n, real fill) {
    vint first = vfirst(n);
    return vselect(first, (vreal)_mm256_maskload_ps(p, (__m256i)first), vset(fill));
}
static inline void vstore_part(real *p, vreal v, size_t n) {
    _mm256_maskstore_ps(p, (__m256i)vfirst(n), (__m256)v);
}
#else
static inline vreal vload_part(const real *p, size_t n, real fill) {
    real t[VL];
    for (size_t i = 0; i < VL; i++) t[i] = fill;
    memcpy(t, p, n * sizeof *p);
    return vload(t);
}
static inline void vstore_part(real *p, vreal v, size_t n) {
    real t[VL];
    vstore(t, v);
    memcpy(p, t, n * sizeof *p);
}
#endif

/* Sum of the lanes, and the largest: the upper half is taken to the lower one, and so on. */
#if defined __AVX2__ && !defined SMOE_F64
static inline real vsum(vreal v) {
#ifdef __AVX512F__
    __m256 h = _mm512_castps512_ps256((__m512)v) + _mm512_extractf32x8_ps((__m512)v, 1);
#else
    __m256 h = (__m256)v;
#endif
    __m128 q = _mm256_castps256_ps128(h) + _mm256_extractf128_ps(h, 1);
    q += _mm_movehl_ps(q, q);
    return q[0] + q[1];
}
static inline real vmaximum(vreal v) {
#ifdef __AVX512F__
    __m256 h =
        _mm256_max_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
    __m256 h = (__m256)v;
#endif
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return q[0] > q[1] ? q[0] : q[1];
}
#else
static inline real vsum(vreal v) {
    real t[VL];
    vstore(t, v);
    for (int w = VL / 2; w; w /= 2)
        for (int i = 0; i < w; i++) t[i] += t[i + w];
    return t[0];
}
static inline real vmaximum(vreal v) {
    real t[VL];
    vstore(t, v);
    for (int w = VL / 2; w; w /= 2)
        for (int i = 0; i < w; i++) t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
    return t[0];
}
#endif

#ifdef SMOE_F64
/* The double flavour exists for its accuracy: the C library's functions, lane by lane. */
static inline vreal vexp(vreal x) {
    for (int i = 0; i < VL; i++) x[i] = exp(x[i]);
    return x;
}
static inline vreal vexp_falling(vreal x) {
    return vexp(x);
}
/* Phi(x), the normal distribution function; *density = its derivative. */
static inline vreal vnormal(vreal x, vreal *density) {
    vreal phi = {0};
    for (int i = 0; i < VL; i++) {
        phi[i] = 0.5 * erfc(-x[i] * 0.70710678118654752440);
        (*density)[i] = 0.39894228040143267794 * exp(-0.5 * x[i] * x[i]);
    }
    return phi;
}
#else
/*
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2, ln 2 in two parts (Cody and Waite),
 * exp(r) by its Taylor polynomial to r^7 (remainder below 6e-9). Below -87.3 the result is 0, above
 * 88.7 it is inf; NaN stays NaN. Largest relative error over all floats: see
 * tests/math/test_kernels.c.
 * `falling`, a constant, promises x <= 0 or NaN: the same numbers, with less to do.
 */
static inline vreal vexp_of(vreal x, bool falling) {
    const vreal round =
        vset(12582912.0f); /* 1.5 * 2^23: adding it leaves an integer in the low bits */
    vreal c = falling ? x : vselect(x > 89.0f, vset(89.0f), x);
    c = vmax(vset(-88.0f), c);
    vreal shifted = c * 1.44269504088896341f + round;
    vreal n = shifted - round;
    vreal r = c - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vreal p = vset(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* 2^n as two factors, so that n = 128 (x just below the overflow) is still representable. */
    vint k = (vint)shifted - (vint)round, half = falling ? (vint){0} : k >> 1;
    vreal y = p * (vreal)((k - half + 127) << 23);
    if (!falling) y *= (vreal)((half + 127) << 23);
    return (vreal)((vint)y & ~(x < -87.3f));
}
static inline vreal vexp(vreal x) {
    return vexp_of(x, false);
}
static inline vreal vexp_falling(vreal x) {
    return vexp_of(x, true);
}
/*
 * Phi(x), the normal distribution function; *density = its derivative.
 * The upper tail is Q(u) = exp(-u^2/2) t p(t), t = 1/(1 + 0.27 u), u = |x|, with p the polynomial
 * of degree 8 of least largest relative error on 0 <= u <= 14, our own fit: 2.4e-8.
 */
static inline vreal vnormal(vreal x, vreal *density) {
    vreal u = vselect(x < 0, -x, x);
    vreal t = 1.0f / (1.0f + 0.27f * u);
    vreal e = vexp_falling(-0.5f * x * x);
    vreal p = vset(2.8915579938e-02f);
    p = p * t + -1.2625674547e-01f;
    p = p * t + 1.6929443898e-01f;
    p = p * t + -6.8624400170e-02f;
    p = p * t + 1.0740175135e-01f;
    p = p * t + 7.2239324919e-02f;
    p = p * t + 1.0175940559e-01f;
    p = p * t + 1.0755047375e-01f;
    p = p * t + 1.0772018288e-01f;
    vreal tail = e * t * p;
    *density = 0.398942280401432678f * e;
    return vselect(x < 0, tail, 1.0f - tail);
}
#endif

/* x s(b x) and its slope s + x s (1 - s) b, s the logistic function, b = 1.702 (math/gelu.h). */
static inline vreal vgelu_quick(vreal x, vreal *slope) {
    const real b = (real)SMOE_GELU_QUICK_FACTOR;
    vreal s = 1 / (1 + vexp(-b * x));
    *slope = s + x * s * (1 - s) * b;
    return x * s;
}
