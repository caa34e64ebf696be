/*
 * Products of few rows: the weights are read once, unpacked and in the order of memory, because
 * packing them, or reading them in another order, would take longer than multiplying with them.
 */
#include "math/gemm_view.h"

_Static_assert(THIN < SMOE_TILE_ROWS * PANELS, "few rows are less than a block of A");

/* The prefetches of what comes after columns j .. j+across of B, in the step of k that starts at
 * p0, spread over the steps of the tiles: the same range of k or, if `whole` (all of k is one
 * step), as much as is consecutive. After the last columns come those of the next product, which
 * this thread usually gets next. */
static smoe_prefetch next_rows(const smoe_product *x, size_t across, size_t p0, size_t k, size_t j,
                               bool whole, size_t steps) {
    bool along = whole && x->b.col == x->a.n;
    smoe_values b = smoe_values_from(x->b.of, (j + across) * x->b.col + (along ? across * p0 : p0));
    size_t size = values_size(b);
    return along ? prefetch_along(values_at(b), across * k * size, steps)
                 : prefetch_block(values_at(b), size, across, k, x->b.col, steps);
}

/* Steps from .. to of k of a product of few rows with weights whose columns are consecutive in
 * memory: all rows are packed, and the weights are read once, unpacked. If `thin`, the rows are so
 * few that a vector holds columns, transposed in registers. Otherwise it holds rows, and BF16
 * weights are widened one block of columns at a time. */
static void skinny_rows(const smoe_product *x, const smoe_skinny_kernels *skinny, bool thin,
                        size_t kc, size_t from, size_t to, smoe_packed *sides) {
    const smoe_kernels *kern = smoe_kernels_get();
    bool widens = x->b.of.bf16 && !thin;
    real *wide = sides->wide, *packed = sides->b;
    /* What was widened should still be in the L1. */
    size_t across = widens && x->a.m <= skinny->lanes ? SMOE_TILE_ACROSS : skinny->across;
    size_t m = x->a.m, span = to - from, half = kern->gemm->half;
    if (thin) across = skinny->lanes;
    for (size_t p0 = from; p0 < to; p0 += kc)
        for (size_t i = 0, width; i < m; i += width) {
            width = thin ? half : width_for(skinny, m - i);
            (thin ? kern->gemm->pack_a : skinny->pack_across)(
                packed + i * span + (p0 - from) * width, x->a.of.at + i * x->a.row + p0 * x->a.col,
                x->a.row, x->a.col, min(m - i, width), min(to - p0, kc), width);
        }
    for (size_t j = 0; j < x->b.n; j += across) {
        size_t n = min(x->b.n - j, across);
        for (size_t i = 0; i < m; i++) /* for C, which is written when the sums are there */
            for (size_t q = 0; q < n; q += SMOE_LINE)
                __builtin_prefetch(x->to.c.at + i * x->to.ldc + j + q, 1, 2);
        for (size_t p0 = from; p0 < to; p0 += kc) {
            size_t k = min(to - p0, kc);
            size_t steps = thin ? k : across / SMOE_TILE_ACROSS * k * panels_of(skinny, m);
            smoe_prefetch prefetch = next_rows(x, across, p0, k, j, span == x->a.n, steps);
            smoe_values b = smoe_values_from(x->b.of, j * x->b.col + p0);
            for (size_t c = 0; widens && c < n; c++)
                kern->row->widen(wide + c * k, b.bf16 + c * x->b.col, k);
            for (size_t i = 0, width; i < m; i += width) {
                width = thin ? half : width_for(skinny, m - i);
                smoe_tile t = tile_at(x, p0, k, i, j);
                t.m = min(m - i, width);
                t.n = n;
                t.a = packed + i * span + (p0 - from) * width;
                t.a_col = width;
                t.b = widens ? wide : b.at;
                t.b_bf16 = b.bf16;
                t.ldb = widens ? k : x->b.col;
                t.prefetch = prefetch;
                (thin ? skinny->tile_transposed : skinny->tile_across)(&t);
                prefetch = t.prefetch;
            }
        }
        if (to == x->a.n) finished(x, 0, m, j, n);
    }
}

/* A product of few rows with weights whose rows are consecutive in memory. Only a few of these rows
 * are used at a time, so that memory is read in order; partial sums are kept in `sums`. */
static void skinny_rows_down(const smoe_product *x, const smoe_skinny_kernels *skinny, size_t kc,
                             real *packed_a, real *sums) {
    for (size_t p0 = 0; p0 < x->a.n; p0 += kc) {
        size_t k = min(x->a.n - p0, kc);
        skinny->pack_deep(packed_a, x->a.of.at + p0 * x->a.col, x->a.row, x->a.col, x->a.m, k);
        for (size_t p = 0; p < k; p += skinny->deep) {
            smoe_tile t = tile_at(x, p0, min(k - p, skinny->deep), 0, 0);
            t.m = x->a.m;
            t.n = x->b.n;
            t.a = packed_a + p * x->a.m;
            t.b = x->b.of.at + (p0 + p) * x->b.row;
            t.ldb = x->b.row;
            t.prefetch = prefetch_along(t.b + t.k * t.ldb, t.k * x->b.n * sizeof(real), 1);
            t.sums = sums;
            t.begun = p > 0;
            t.later = p + t.k < k;
            skinny->tile_down(&t);
        }
    }
    finished(x, 0, x->a.m, 0, x->b.n);
}

bool smoe_gemm_skinny(const smoe_product *x, smoe_packed *packed) {
    const smoe_skinny_kernels *skinny = smoe_kernels_get()->skinny;
    if (x->a.m > SKINNY || x->a.n < DEEP_K) return false;
    if (x->a.n * x->b.n <= (x->b.row == 1 ? SCANT_COLUMNS : SCANT_ROWS)) return false;
    size_t kc = even(x->a.n, KC, 1);
    if (x->b.row == 1) {
        size_t span =
            blocks(x->a.m, 2 * skinny->lanes) * 2 * skinny->lanes * x->a.n <= BLOCK ? x->a.n : kc;
        bool thin = x->a.m <= skinny->transposed && span == x->a.n;
        for (size_t p = 0; p < x->a.n; p += span)
            skinny_rows(x, skinny, thin, kc, p, min(x->a.n, p + span), packed);
        return true;
    }
    if (x->a.m <= THIN && x->b.col == 1 && x->b.row == x->b.n && !x->b.of.bf16 && !x->to.stream &&
        x->b.n % skinny->lanes == 0 && x->a.m * x->b.n <= BLOCK) {
        skinny_rows_down(x, skinny, kc, packed->a, packed->b);
        return true;
    }
    return false;
}
