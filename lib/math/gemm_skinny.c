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
    size_t at = (j + across) * x->b_col, size = b_size(x);
    return whole && x->b_col == x->k
               ? prefetch_along(b_at(x, at + across * p0), across * k * size, steps)
               : prefetch_block(b_at(x, at + p0), size, across, k, x->b_col, steps);
}

/* Steps from .. to of k of a product of few rows with weights whose columns are consecutive in
 * memory: all rows are packed, and the weights are read once, unpacked; BF16 weights are widened
 * one block of columns at a time. */
static void skinny_rows(const smoe_product *x, const smoe_skinny_kernels *skinny, size_t kc,
                        size_t from, size_t to, smoe_packed *sides) {
    real *wide = sides->wide, *packed = sides->b;
    const smoe_row_kernels *row = smoe_kernels_get()->row;
    /* What was widened should still be in the L1. */
    size_t across = x->b_bf16 && x->m <= skinny->lanes ? SMOE_TILE_ACROSS : skinny->across;
    size_t span = to - from;
    for (size_t p0 = from; p0 < to; p0 += kc)
        for (size_t i = 0, width; i < x->m; i += width) {
            width = width_for(skinny, x->m - i);
            skinny->pack_across(packed + i * span + (p0 - from) * width,
                                x->a + i * x->a_row + p0 * x->a_col, x->a_row, x->a_col,
                                min(x->m - i, width), min(to - p0, kc), width);
        }
    for (size_t j = 0; j < x->n; j += across) {
        size_t n = min(x->n - j, across);
        for (size_t i = 0; i < x->m; i++) /* for C, which is written when the sums are there */
            for (size_t q = 0; q < n; q += SMOE_LINE)
                __builtin_prefetch(x->c + i * x->ldc + j + q, 1, 2);
        for (size_t p0 = from; p0 < to; p0 += kc) {
            size_t k = min(to - p0, kc), at = j * x->b_col + p0;
            smoe_prefetch prefetch =
                next_rows(x, across, p0, k, j, span == x->k,
                          across / SMOE_TILE_ACROSS * k * panels_of(skinny, x->m));
            for (size_t c = 0; x->b_bf16 && c < n; c++)
                row->widen(wide + c * k, x->b_bf16 + at + c * x->b_col, k);
            for (size_t i = 0, width; i < x->m; i += width) {
                width = width_for(skinny, x->m - i);
                smoe_tile t = tile_at(x, p0, k, i, j);
                t.m = min(x->m - i, width);
                t.n = n;
                t.a = packed + i * span + (p0 - from) * width;
                t.a_col = width;
                t.b = x->b_bf16 ? wide : x->b + at;
                t.ldb = x->b_bf16 ? k : x->b_col;
                t.prefetch = prefetch;
                skinny->tile_across(&t);
                prefetch = t.prefetch;
            }
        }
        if (to == x->k) finished(x, 0, x->m, j, n);
    }
}

/* A product of even fewer rows, with such weights. */
static void thin_rows(const smoe_product *x, const smoe_skinny_kernels *skinny, size_t kc,
                      real *packed) {
    size_t across = skinny->lanes;
    const smoe_gemm_kernels *gemm = smoe_kernels_get()->gemm;
    gemm->pack_a(packed, x->a, x->a_row, x->a_col, x->m, x->k, gemm->half);
    for (size_t j = 0; j < x->n; j += across) {
        size_t n = min(x->n - j, across);
        for (size_t p0 = 0; p0 < x->k; p0 += kc) {
            smoe_tile t = tile_at(x, p0, min(x->k - p0, kc), 0, j);
            t.m = x->m;
            t.n = n;
            t.a = packed + p0 * gemm->half;
            if (x->b_bf16)
                t.b_bf16 = x->b_bf16 + j * x->b_col + p0;
            else
                t.b = x->b + j * x->b_col + p0;
            t.ldb = x->b_col;
            t.prefetch = next_rows(x, across, p0, t.k, j, true, t.k);
            skinny->tile_transposed(&t);
        }
        finished(x, 0, x->m, j, n);
    }
}

/* A product of few rows with weights whose rows are consecutive in memory. Only a few of these rows
 * are used at a time, so that memory is read in order; partial sums are kept in `sums`. */
static void skinny_rows_down(const smoe_product *x, const smoe_skinny_kernels *skinny, size_t kc,
                             real *packed_a, real *sums) {
    for (size_t p0 = 0; p0 < x->k; p0 += kc) {
        size_t k = min(x->k - p0, kc);
        skinny->pack_deep(packed_a, x->a + p0 * x->a_col, x->a_row, x->a_col, x->m, k);
        for (size_t p = 0; p < k; p += skinny->deep) {
            smoe_tile t = tile_at(x, p0, min(k - p, skinny->deep), 0, 0);
            t.m = x->m;
            t.n = x->n;
            t.a = packed_a + p * x->m;
            t.b = x->b + (p0 + p) * x->b_row;
            t.ldb = x->b_row;
            t.prefetch = prefetch_along(t.b + t.k * t.ldb, t.k * x->n * sizeof(real), 1);
            t.sums = sums;
            t.begun = p > 0;
            t.later = p + t.k < k;
            skinny->tile_down(&t);
        }
    }
    finished(x, 0, x->m, 0, x->n);
}

bool smoe_gemm_skinny(const smoe_product *x, smoe_packed *packed) {
    const smoe_skinny_kernels *skinny = smoe_kernels_get()->skinny;
    if (x->m > SKINNY || x->k < DEEP_K) return false;
    if (x->k * x->n <= (x->b_row == 1 ? SCANT_COLUMNS : SCANT_ROWS)) return false;
    size_t kc = even(x->k, KC, 1);
    if (x->b_row == 1) {
        size_t span =
            blocks(x->m, 2 * skinny->lanes) * 2 * skinny->lanes * x->k <= BLOCK ? x->k : kc;
        if (x->m <= skinny->transposed && span == x->k)
            thin_rows(x, skinny, kc, packed->b);
        else
            for (size_t p = 0; p < x->k; p += span)
                skinny_rows(x, skinny, kc, p, min(x->k, p + span), packed);
        return true;
    }
    if (x->m <= THIN && x->b_col == 1 && x->b_row == x->n && !x->b_bf16 && !x->stream &&
        x->n % skinny->lanes == 0 && x->m * x->n <= BLOCK) {
        skinny_rows_down(x, skinny, kc, packed->a, packed->b);
        return true;
    }
    return false;
}
