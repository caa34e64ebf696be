/*
 * Code that the kernels of matrix products in F32 share: the end of a tile, and when they prefetch.
 * For files named kern_*.c, like math/simd.h.
 */
#ifndef SMOE_TILE_H
#define SMOE_TILE_H

#include "math/prefetch.h"
#include "math/simd.h"
#include "math/tuning_kernels.h"

enum {
    NV = 2, /* vectors of a tile's columns */
    NR = NV * VL
};

/* c = add + bias + sum for the first n <= VL columns: the same expression for whole and partial
 * vectors, so that a result does not depend on its position in a tile. */
static inline void finish(real *c, vreal sum, const real *add, const real *bias, size_t n,
                          bool stream) {
    vreal start = {0};
    if (add) start = n == VL ? vload(add) : vload_part(add, n, 0);
    if (bias) start += n == VL ? vload(bias) : vload_part(bias, n, 0);
    start += sum;
    if (n != VL)
        vstore_part(c, start, n);
    else if (stream)
        vstream(c, start);
    else
        vstore(c, start);
}

/* The number of prefetches in a round of steps of k; and the prefetches that are due at step p. */
static inline size_t prefetches_in(const smoe_prefetch *next, size_t steps) {
    return !next->every ? 0 : next->every < steps ? steps / next->every : 1;
}
static inline void prefetch_due(smoe_prefetch *next, size_t p, size_t prefetches) {
    if (!(p & (next->every - 1)))
        for (; prefetches; prefetches--) prefetch(next);
}
/* The number of rounds of STEPS between two prefetches, which need not check for them. */
static inline size_t pause_of(const smoe_prefetch *next) {
    return !next->every ? SIZE_MAX : next->every > STEPS ? next->every / STEPS : 1;
}

#endif
