/*
 * Sums whose bits do not depend on the order of their terms, for sums of which several processes
 * have parts: numbers of 128 bits, in units of 2^-64. A term is rounded to such a unit by itself,
 * and integers are added without rounding.
 */
#pragma once

#include <stdint.h>

/* (high * 2^64 + low) * 2^-64, high in two's complement; all zeros is 0. */
typedef struct smoe_exact {
    uint64_t low, high;
} smoe_exact;

/* The largest size of a term: 2^23 of them cannot overflow. */
#define SMOE_EXACT_MOST 0x1p40

static inline smoe_exact smoe_exact_minus(smoe_exact x) {
    return (smoe_exact){~x.low + 1, ~x.high + !x.low};
}

/* x; what is larger than SMOE_EXACT_MOST, or no number, counts as that. */
static inline smoe_exact smoe_exact_of(double x) {
    double size = x < 0 ? -x : x;
    size = size < SMOE_EXACT_MOST ? size : SMOE_EXACT_MOST;
    uint64_t whole = (uint64_t)size;
    smoe_exact term = {(uint64_t)((size - (double)whole) * 0x1p64), whole};
    return x < 0 ? smoe_exact_minus(term) : term;
}

static inline void smoe_exact_add(smoe_exact *sum, smoe_exact term) {
    sum->low += term.low;
    sum->high += term.high + (sum->low < term.low);
}

/* The sum as a double. */
static inline double smoe_exact_value(smoe_exact sum) {
    double sign = sum.high >> 63 ? -1 : 1;
    if (sign < 0) sum = smoe_exact_minus(sum);
    return sign * ((double)sum.high + (double)sum.low * 0x1p-64);
}
