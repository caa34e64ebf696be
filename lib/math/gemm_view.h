/*
 * Internal to the matrix products: what their files share.
 */
#ifndef SMOE_GEMM_VIEW_H
#define SMOE_GEMM_VIEW_H

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
    size_t streams = smoe_tuning_get()->streams, part = bytes / streams / 128 * 128;
    return (smoe_prefetch){.at = at,
                           .left = streams,
                           .run = streams,
                           .every = pace(bytes / 128, steps),
                           .step = (ptrdiff_t)part,
                           .skip = 128 - (ptrdiff_t)(streams * part)};
}

/* B is in `real` or in BF16: the bytes of an element, and the address of the i-th. */
static inline size_t b_size(const smoe_product *x) {
    return x->b_bf16 ? sizeof(smoe_bf16) : sizeof(real);
}
static inline const void *b_at(const smoe_product *x, size_t i) {
    return x->b_bf16 ? (const void *)(x->b_bf16 + i) : x->b + i;
}

/* Tile (i, j) of a product in the step of k from p0 on, with its place and what is added to it. */
static inline smoe_tile tile_at(const smoe_product *x, size_t p0, size_t k, size_t i, size_t j) {
    smoe_tile t = {.k = k, .c = x->c + i * x->ldc + j, .ldc = x->ldc, .alpha = x->alpha};
    if (p0) {
        t.add = t.c;
        t.ldadd = x->ldc;
    } else {
        if (x->add) t.add = x->add + i * x->ldadd + j;
        t.ldadd = x->ldadd;
        if (x->bias) t.bias = x->bias + j;
    }
    return t;
}

/* Rows i .. i+m of columns j .. j+n are final. */
static inline void finished(const smoe_product *x, size_t i, size_t m, size_t j, size_t n) {
    if (x->after) x->after(x->c + i * x->ldc + j, m, n, x->context);
}

/* A product of few rows; false if the general product is faster than those of gemm_skinny.c. */
bool smoe_gemm_skinny(const smoe_product *x, smoe_packed *packed);

/* A product whose precision is not F32. */
void smoe_gemm_matrix(const smoe_product *x);

#endif
