/*
 * Code that the kernels of matrix products in F32 share: the end of a tile.
 * For files named kern_*.c, like math/simd.h.
 */
#pragma once

#include "math/prefetch.h"
#include "math/simd.h"
#include "math/tuning_kernels.h"

enum {
    NV = 2, /* vectors of a tile's columns */
    NR = NV * VL
};

/* c = add + bias + sum for the first n <= VL columns: the same expression for whole and partial
 * vectors, so that a result does not depend on its position in a tile. A sum times alpha comes as
 * vrounded(alpha * sum): the product must not be fused with the addition. */
static inline void tile_finish(real *c, vreal sum, const real *add, const real *bias, size_t n,
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

/* The same for n numbers of row i of a tile's C, from column j on; the sum is not scaled yet. */
static inline void finish_at(const smoe_tile *t, size_t i, size_t j, vreal sum, size_t n) {
    tile_finish(t->c + i * t->ldc + j, vrounded(t->alpha * sum),
                t->add ? t->add + i * t->ldadd + j : NULL, t->bias ? t->bias + j : NULL, n, false);
}
