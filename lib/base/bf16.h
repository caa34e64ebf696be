/*
 * BF16 (bfloat16): the upper 16 bits of a float: its sign, its exponent and 7 of its 23 bits of
 * fraction. It is used only for storage, to halve the bytes; computations are not done in it.
 * Widening is exact.
 */
#pragma once

#include "base/base.h"

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

/* Rows of numbers in `real` or in BF16: exactly one of the two is not NULL. The first type is for
 * reading, the second for writing. */
typedef struct smoe_values {
    const real *at;
    const smoe_bf16 *bf16;
} smoe_values;
typedef struct smoe_outputs {
    real *at;
    smoe_bf16 *bf16;
} smoe_outputs;

/* What was written, for reading; and the same from element n on. */
static inline smoe_values smoe_written(smoe_outputs x) {
    return (smoe_values){x.at, x.bf16};
}
static inline smoe_values smoe_values_from(smoe_values x, size_t n) {
    return (smoe_values){x.at ? x.at + n : NULL, x.bf16 ? x.bf16 + n : NULL};
}
static inline smoe_outputs smoe_outputs_from(smoe_outputs x, size_t n) {
    return (smoe_outputs){x.at ? x.at + n : NULL, x.bf16 ? x.bf16 + n : NULL};
}

/* Rows in `real`. */
static inline smoe_values smoe_reals(const real *x) {
    return (smoe_values){.at = x};
}
static inline smoe_outputs smoe_reals_out(real *y) {
    return (smoe_outputs){.at = y};
}
/* A buffer whose type is that of the current pass. */
static inline smoe_outputs smoe_outputs_of(void *buffer, bool narrow) {
    if (narrow) return (smoe_outputs){.bf16 = buffer};
    return (smoe_outputs){.at = buffer};
}

/* Rows that are ld elements apart. */
typedef struct smoe_rows {
    smoe_values of;
    size_t ld;
} smoe_rows;
