/*
 * Numbers in the types in which files store weights: F16, BF16, F32 and F64 are read, and F32, BF16
 * and F16 are written.
 */
#include "base/bf16.h"
#include "tensors/safetensors.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* IEEE half to single: sign 1, exponent 5 (bias 15), fraction 10; every half is a single. */
static float float_of_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3ff;
    if (exponent == 31) return smoe_float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return smoe_float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* subnormal or zero: exact, and not one in single */
    return sign ? -tiny : tiny;
}

/* The loop is written once; memcpy reads unaligned bytes and costs a plain load. */
#define CONVERT(type, expression)                  \
    for (size_t i = 0; i < count; i++) {           \
        type x;                                    \
        memcpy(&x, from + i * sizeof x, sizeof x); \
        out[i] = expression;                       \
    }

bool smoe_tensor_convert(real *out, const smoe_tensor *tensor, size_t first, size_t count) {
    if (tensor->dtype > SMOE_DTYPE_F64) return false;
    const char *from = (const char *)tensor->data + first * smoe_dtype_bytes(tensor->dtype);
    switch (tensor->dtype) {
    case SMOE_DTYPE_F32: CONVERT(float, (real)x); break;
    case SMOE_DTYPE_F16: CONVERT(uint16_t, (real)float_of_half(x)); break;
    case SMOE_DTYPE_BF16: CONVERT(uint16_t, (real)smoe_bf16_widen(x)); break;
    default: CONVERT(double, (real)x); break;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Single to half, to nearest, ties to even; from 65520 on infinity. A NaN keeps its sign and the
 * upper bits of its payload, and becomes quiet. */
static uint16_t half_of_float(float x) {
    uint32_t bits = smoe_float_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* from 2^16 */
    if (size >= 0x38800000) { /* from 2^-14: normal, bias 127 - 15 */
        size -= 0x38000000;
        return (uint16_t)(sign | (size + 0xfff + (size >> 13 & 1)) >> 13);
    }
    /* Subnormal halves are multiples of 2^-24; adding 2^23 leaves their count in the low bits. */
    uint32_t count = smoe_float_bits(fabsf(x) * 0x1p24f + 0x1p23f) & 0xfff;
    return (uint16_t)(sign | count);
}

/* Double to single, inexact results to the neighbour whose last bit is 1: rounding that once more
 * to fewer bits gives what one rounding from double would have given. */
static float odd_float(double x) {
    float near = (float)x;
    if (isnan(x) || (double)near == x) return near;
    uint32_t bits = smoe_float_bits(near);
    if (fabs((double)near) > fabs(x)) bits--; /* towards zero */
    return smoe_float_of_bits(bits | 1);
}

enum { RUN = 1024 }; /* elements on the stack */

/* Elements of a tensor as floats: exact, except F64, which is rounded so that rounding it to `type`
 * again is correct. */
static void read_floats(float *out, const smoe_tensor *t, size_t first, size_t count,
                        smoe_dtype type) {
    const char *from = (const char *)t->data + first * smoe_dtype_bytes(t->dtype);
    switch (t->dtype) {
    case SMOE_DTYPE_F32: memcpy(out, from, count * sizeof *out); break;
    case SMOE_DTYPE_F16: CONVERT(uint16_t, float_of_half(x)); break;
    case SMOE_DTYPE_BF16: CONVERT(uint16_t, smoe_bf16_widen(x)); break;
    default: CONVERT(double, type == SMOE_DTYPE_F32 ? (float)x : odd_float(x)); break;
    }
}

/* Floats to `type`; true when an infinity is among the results. */
static bool write_floats(void *out, smoe_dtype type, const float *x, size_t count) {
    bool infinite = false;
    if (type == SMOE_DTYPE_F32) {
        memcpy(out, x, count * sizeof *x);
        for (size_t i = 0; i < count; i++) infinite |= isinf(x[i]);
    } else if (type == SMOE_DTYPE_BF16) {
        smoe_bf16 *to = out;
        for (size_t i = 0; i < count; i++)
            infinite |= ((to[i] = smoe_bf16_round(x[i])) & 0x7fff) == 0x7f80;
    } else {
        uint16_t *to = out;
        for (size_t i = 0; i < count; i++)
            infinite |= ((to[i] = half_of_float(x[i])) & 0x7fff) == 0x7c00;
    }
    return infinite;
}

static double element(const smoe_tensor *t, size_t i) {
    double wide;
    float x;
    if (t->dtype == SMOE_DTYPE_F64) {
        memcpy(&wide, (const char *)t->data + i * sizeof wide, sizeof wide);
        return wide;
    }
    read_floats(&x, t, i, 1, SMOE_DTYPE_F32);
    return (double)x;
}

/* The first finite element that is infinite in `type`; `end` when there is none. */
static size_t find_overflow(const smoe_tensor *t, smoe_dtype type, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        float x;
        char one[4];
        read_floats(&x, t, i, 1, type);
        if (write_floats(one, type, &x, 1) && isfinite(element(t, i))) return i;
    }
    return end;
}

size_t smoe_tensor_store(void *out, smoe_dtype type, const smoe_tensor *t, size_t first,
                         size_t count) {
    size_t bytes = smoe_dtype_bytes(type), end = first + count;
    if (t->dtype == type) {
        memcpy(out, (const char *)t->data + first * bytes, count * bytes);
        return end;
    }
    for (size_t i = first; i < end; i += RUN) {
        float x[RUN];
        size_t n = end - i < RUN ? end - i : RUN, bad = i + n;
        read_floats(x, t, i, n, type);
        if (write_floats((char *)out + (i - first) * bytes, type, x, n))
            bad = find_overflow(t, type, i, i + n);
        if (bad < i + n) return bad;
    }
    return end;
}
