/*
 * Both layers of MLPs in one pass, for inference: the hidden layer stays in the caches.
 */
#pragma once

#include "base/bf16.h"
#include "math/gelu.h"

/* y [m,d] = residual + gelu(x W1^T + b1) W2^T + b2, rows without gaps; W1 [h,d], W2 [d,h], the
 * biases [h] and [d]. The bits are those of two products of math/gemm.h with gelu between them. */
typedef struct smoe_fused_mlp {
    size_t m, d, h;
    real *y;
    const real *x, *residual; /* residual [m,d] may be NULL, or y */
    smoe_values w1, w2;
    const real *b1, *b2;
    smoe_gelu gelu;
} smoe_fused_mlp;

/* Whether `count` fused MLPs of m rows are faster in one pass on this number of threads. They are
 * not if some threads would have no work, or if memory is the limit. If true for m rows, it is true
 * for more. */
bool smoe_fused_mlp_pays(size_t count, size_t m, int threads);

/* Elements of scratch that a thread needs for fused MLPs of up to m rows. */
size_t smoe_fused_mlp_scratch(size_t m, size_t d, size_t h);

/* Runs `count` fused MLPs on `threads` threads, each thread with its own part of `scratch`; make(i,
 * context) describes the i-th, of at most `most` rows. Not to be called from inside a parallel
 * region. */
typedef smoe_fused_mlp smoe_fused_mlp_maker(size_t i, const void *context);
void smoe_fused_mlp_each(size_t count, size_t most, smoe_fused_mlp_maker *make, const void *context,
                         real *scratch, int threads);
