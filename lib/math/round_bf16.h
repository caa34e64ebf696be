/*
 * BF16 in vectors: widening, and the two ways to round. For files named kern_*.c, as math/simd.h.
 */
#pragma once

#include "base/bf16.h"
#include "math/simd.h"

/* An operand of a product: rounds to nearest even, and denormals to 0 with their sign, as the
 * instructions of processors do. */
static inline smoe_bf16 rounded(real x) {
    uint32_t bits = smoe_float_bits((float)x);
    if (!(bits & 0x7f800000)) return (smoe_bf16)(bits >> 16 & 0x8000);
    return smoe_bf16_round((float)x);
}

#ifndef SMOE_F64
typedef uint32_t vbits __attribute__((vector_size(SMOE_VBYTES)));
typedef uint16_t vhalves __attribute__((vector_size(SMOE_VBYTES / 2)));

/* smoe_bf16_round. */
static inline void narrow_vector(smoe_bf16 *y, const real *x) {
    vbits bits;
    memcpy(&bits, x, sizeof bits);
    vbits nan = (vbits)((bits & 0x7fffffff) > 0x7f800000), upper = bits >> 16;
    vbits nearest = (bits + 0x7fff + (upper & 1)) >> 16;
    vhalves halves = __builtin_convertvector((nearest & ~nan) | ((upper | 0x40) & nan), vhalves);
    memcpy(y, &halves, sizeof halves);
}
#endif

static inline vreal load_widened(const smoe_bf16 *x) {
#ifdef SMOE_F64
    vreal y = {0};
    for (size_t i = 0; i < VL; i++) y[i] = smoe_bf16_widen(x[i]);
    return y;
#else
    vhalves halves;
    memcpy(&halves, x, sizeof halves);
    return (vreal)(__builtin_convertvector(halves, vbits) << 16);
#endif
}

/* VL operands, rounded and widened again. */
static inline vreal as_operands(vreal x) {
#ifdef SMOE_F64
    for (size_t i = 0; i < VL; i++) x[i] = smoe_bf16_widen(rounded(x[i]));
    return x;
#else
    const uint32_t upper = 0xffff0000, exponent = 0x7f800000;
    vbits bits = (vbits)x, y = (bits + 0x7fff + (bits >> 16 & 1)) & upper;
    vint nan = (vint)(bits & 0x7fffffff) > (int32_t)exponent; /* signed: one instruction */
    vint small = (vint)(bits & exponent) == 0;
    y = (vbits)vselect(nan, (vreal)((bits & upper) | 0x400000), (vreal)y);
    return (vreal)(y & ~((vbits)small & 0x7fffffff));
#endif
}
