/*
 * BF16 (bfloat16): the upper 16 bits of a float: its sign, its exponent and 7 of its 23 bits of
 * fraction. It is used only for storage, to halve the bytes; computations are not done in it.
 * Widening is exact.
 */
#ifndef SMOE_BF16_H
#define SMOE_BF16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t smoe_bf16;

static inline float smoe_float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t smoe_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float smoe_bf16_widen(smoe_bf16 x) {
    return smoe_float_of_bits((uint32_t)x << 16);
}

/* To nearest, ties to even; values that round beyond the largest number become infinite. A NaN
 * keeps its sign and the upper bits of its payload, and becomes quiet, so that its payload is never
 * 0. */
static inline smoe_bf16 smoe_bf16_round(float x) {
    uint32_t bits = smoe_float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (smoe_bf16)(bits >> 16 | 0x40);
    return (smoe_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
