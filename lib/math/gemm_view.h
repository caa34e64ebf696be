/*
 * Internal to the matrix products: what their files share.
 */
#pragma once

#include "base/threads.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "math/tuning_kernels.h"

enum {
    PACKED_A =
        SMOE_PANEL_PITCH * PANELS * KC + SMOE_PANEL_SPILL /* elements of a packed block of A */
};
_Static_assert(BLOCK >= SKINNY * KC, "a step of few rows fits");
#define ALIGNED __attribute__((aligned(64)))

/* What a thread packs of a product in `real`. */
typedef struct smoe_packed {
    ALIGNED real a[PACKED_A], b[BLOCK];
    ALIGNED real rows[SMOE_TILE_ROWS * PANELS * (STREAMED_RUN + SMOE_PANEL_SPILL)]; /* of C */
    ALIGNED real wide[SMOE_BLOCK_ACROSS * KC]; /* columns of B that were in BF16 */
} smoe_packed;
static inline smoe_packed *packed_sides(void) {
    return smoe_thread_room(SMOE_ROOM_PRODUCTS, sizeof(smoe_packed));
}

static inline size_t min(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline size_t max(size_t a, size_t b) {
    return a > b ? a : b;
}
static inline size_t blocks(size_t n, size_t size) {
    return (n + size - 1) / size;
}

/* The size of equal steps over n: at most `most`, a multiple of `unit`. */
static inline size_t even(size_t n, size_t most, size_t unit) {
    size_t steps = blocks(n, most / unit * unit);
    return steps ? blocks(blocks(n, steps), unit) * unit : 0;
}

/* The number of pieces that a thread gets at a time. */
static inline size_t hand_of(size_t pieces, int threads) {
    return max(pieces / (HANDS * (size_t)threads), 1);
}

/* The number of steps of k between prefetches, so that `pairs` pairs of cache lines are spread
 * evenly over `steps` steps: prefetches issued faster than memory answers are dropped. */
static inline size_t pace(size_t pairs, size_t steps) {
    size_t every = 1;
    while (every < PREFETCH_PACE && 2 * every * pairs <= steps) every *= 2;
    return every;
}

/* The bytes of a number, and the address of the first. */
static inline size_t values_size(smoe_values x) {
    return x.bf16 ? sizeof *x.bf16 : sizeof *x.at;
}
static inline const void *values_at(smoe_values x) {
    return x.bf16 ? (const void *)x.bf16 : x.at;
}

/* Prefetches `lines` runs of `length` elements, `stride` apart, during `steps` steps of k: the
 * product at hand is computed from the cache, and memory would otherwise be idle. */
static inline smoe_prefetch prefetch_block(const void *at, size_t size, size_t lines, size_t length,
                                           size_t stride, size_t steps) {
    size_t run = max(blocks(length * size, 128), 1);
    return (smoe_prefetch){.at = at,
                           .left = run,
                           .run = run,
                           .every = pace(lines * run, steps),
                           .step = 128,
                           .skip = (ptrdiff_t)(stride * size) - (ptrdiff_t)run * 128};
}

/* The width of a panel of rows for unpacked weights, if m rows are left: two vectors, or three if
 * one would be left over, whose multiply-adds would wait for each other. */
static inline size_t width_for(const smoe_skinny_kernels *skinny, size_t m) {
    size_t lanes = skinny->lanes;
    return m <= lanes ? lanes : m > 2 * lanes && m <= 3 * lanes ? 3 * lanes : 2 * lanes;
}

/* The smallest number of such panels for m rows. */
static inline size_t panels_of(const smoe_skinny_kernels *skinny, size_t m) {
    return blocks(m, 3 * skinny->lanes);
}

/* Prefetches consecutive `bytes`, in several streams. */
static inline smoe_prefetch prefetch_along(const void *at, size_t bytes, size_t steps) {
    size_t streams = smoe_tuning_streams(), part = bytes / streams / 128 * 128;
    return (smoe_prefetch){.at = at,
                           .left = streams,
                           .run = streams,
                           .every = pace(bytes / 128, steps),
                           .step = (ptrdiff_t)part,
                           .skip = 128 - (ptrdiff_t)(streams * part)};
}

/* The same for a matrix, along its lines in memory. */
static inline smoe_prefetch prefetch_matrix(smoe_matrix x, size_t steps) {
    bool along = x.col == 1;
    return prefetch_block(values_at(x.of), values_size(x.of), along ? x.m : x.n, along ? x.n : x.m,
                          along ? x.row : x.col, steps);
}

/* Columns j .. j+n of B, n at most, with k terms from p0 on, as rows. */
static inline smoe_matrix columns_of(const smoe_product *x, size_t j, size_t n, size_t p0,
                                     size_t k) {
    return smoe_matrix_part(smoe_transposed(x->b), j, n, p0, k);
}

/* The epilogue from element (i, j) on in the step of k from p0 on: the sums of the steps before are
 * in C. */
static inline smoe_epilogue ending_at(const smoe_product *x, size_t p0, size_t i, size_t j) {
    smoe_epilogue to = smoe_epilogue_from(&x->to, i, j);
    if (!p0) return to;
    to.add = to.c.at;
    to.ldadd = to.ldc;
    to.bias = NULL;
    return to;
}

/* Tile (i, j) of a product in the step of k from p0 on, with its place and what is added to it. */
static inline smoe_tile tile_at(const smoe_product *x, size_t p0, size_t k, size_t i, size_t j) {
    smoe_epilogue to = ending_at(x, p0, i, j);
    return (smoe_tile){.k = k,
                       .c = to.c.at,
                       .ldc = to.ldc,
                       .add = to.add,
                       .ldadd = to.ldadd,
                       .bias = to.bias,
                       .alpha = to.alpha};
}

/* Rows i .. i+m of columns j .. j+n are final. */
static inline void finished(const smoe_product *x, size_t i, size_t m, size_t j, size_t n) {
    if (x->after) x->after(x->to.c.at + i * x->to.ldc + j, m, n, x->context);
}

/* A product of few rows; false if the general product is faster than those of gemm_skinny.c. */
bool smoe_gemm_skinny(const smoe_product *x, smoe_packed *packed);

/* A product whose precision is not F32. */
void smoe_gemm_matrix(const smoe_product *x);
