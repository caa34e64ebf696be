/*
 * Kernels of the matrix product for few rows of A, where packing B would cost more than it gains.
 * In one, a vector holds elements of several rows of A, which are multiplied with columns of B; in
 * another, columns of B are transposed in registers; in the third, rows of B are read in the order
 * of memory. All compute the chains of multiply-adds of kern_gemm.c, and so the same bits.
 */
#include "math/kernels.h"
#include "math/tile.h"
#include "math/transpose.h"

enum {
    ACROSS1 = SMOE_TILE_ACROSS,
    WIDEST = 3 /* vectors of a panel of tile_across */
};

_Static_assert((int)ACROSS <= (int)SMOE_BLOCK_ACROSS, "gemm_skinny.c lays out memory by this");
_Static_assert((int)TRANSPOSED_ROWS <= (int)HALF, "the rows of tile_transposed are a low panel");

static void pack_across(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k,
                        size_t width) {
    if (width == VL)
        pack_panel(dst, a, false, rs, cs, m, k, VL);
    else if (width == 2 * VL)
        pack_panel(dst, a, false, rs, cs, m, k, 2 * VL);
    else
        pack_panel(dst, a, false, rs, cs, m, k, 3 * VL);
}

/* Element p of columns of B times nv vectors of A. */
static inline __attribute__((always_inline)) void
step_across(size_t columns, size_t nv, vreal sum[ACROSS1][WIDEST], const real *a,
            const real *const column[ACROSS1], size_t p) {
    vreal row[WIDEST];
#pragma GCC unroll 3
    for (size_t v = 0; v < nv; v++) row[v] = vload(a + v * VL);
#pragma GCC unroll 8
    for (size_t j = 0; j < columns; j++) {
        vreal bj = vset(column[j][p]);
#pragma GCC unroll 3
        for (size_t v = 0; v < nv; v++) sum[j][v] += bj * row[v];
    }
}

/* `columns` columns of B from j on, of which t->n - j exist, times nv vectors of rows of A: the
 * chains of `tile`, by columns of C. All sums are stored in `sums` or, if that is NULL, in C, which
 * is a panel. */
static inline __attribute__((always_inline)) void
multiply_across(size_t columns, size_t nv, smoe_tile *t, size_t j0, real *sums) {
    const real *column[ACROSS1], *a = t->a;
    vreal sum[ACROSS1][WIDEST] = {{{0}}};
    smoe_prefetch next = t->prefetch;
    size_t due = next.every != 0, n = t->n - j0;
    for (size_t j = 0; j < columns; j++) column[j] = t->b + (j0 + (j < n ? j : n - 1)) * t->ldb;
    for (size_t p = 0; p < t->k; p++, a += nv * VL) {
        if (!--due) {
            prefetch(&next);
            due = next.every;
        }
        step_across(columns, nv, sum, a, column, p);
    }
    t->prefetch = next;
#pragma GCC unroll 8
    for (size_t j = 0; j < columns; j++) {
        size_t at = (j0 + j) * nv * VL;
        if (!sums && j == n) break;
        vreal bias = vset(!sums && t->bias ? t->bias[j0 + j] : 0);
#pragma GCC unroll 3
        for (size_t v = 0; v < nv; v++, at += VL)
            if (sums)
                vstore(sums + at, sum[j][v]);
            else
                vstore(t->c + at, (t->add ? vload(t->add + at) + bias : bias) + sum[j][v]);
    }
}

/* All columns of a tile. */
static inline __attribute__((always_inline)) void panel_across(smoe_tile *t, real *sums) {
    if (t->a_col == VL)
        for (size_t j = 0; j < t->n; j += ACROSS1) multiply_across(ACROSS1, 1, t, j, sums);
    else if (t->a_col == 2 * VL)
        for (size_t j = 0; j < t->n; j += ACROSS2) multiply_across(ACROSS2, 2, t, j, sums);
    else
        for (size_t j = 0; j < t->n; j += ACROSS3) multiply_across(ACROSS3, 3, t, j, sums);
}

static void tile_across(smoe_tile *t) {
    real sums[ACROSS * WIDEST * VL];
    size_t m = t->m, n = t->n, width = t->a_col;
    panel_across(t, sums);
    for (size_t j = 0; j < n; j += VL)
        for (size_t i = 0; i < m; i += TRANSPOSE_DEPTH) {
            vreal r[TRANSPOSE_DEPTH_BF16];
            transpose(r, sums + j * width + i, width * sizeof *sums, false);
            for (size_t q = 0; q < TRANSPOSE_DEPTH && i + q < m; q++)
                finish_at(t, i + q, j, r[q], n - j < VL ? n - j : VL);
        }
}

static void tile_panel(smoe_tile *t) {
    panel_across(t, NULL);
}

static void unpack_across(real *c, size_t ldc, const real *panel, size_t m, size_t n,
                          size_t width) {
    for (size_t j = 0; j < n; j += VL)
        for (size_t i = 0; i < m; i += TRANSPOSE_DEPTH) {
            vreal r[TRANSPOSE_DEPTH_BF16];
            transpose(r, panel + j * width + i, width * sizeof *panel, false);
            for (size_t q = 0; q < TRANSPOSE_DEPTH && i + q < m; q++)
                if (n - j < VL)
                    vstore_part(c + (i + q) * ldc + j, r[q], n - j);
                else
                    vstore(c + (i + q) * ldc + j, r[q]);
        }
}

/* For `rows` >= m rows, a constant: VL columns of B, transposed in registers, a few steps of k at a
 * time. `tile_across` needs a broadcast and a multiply-add for each weight, which takes longer if
 * few rows leave most of a vector empty. The next steps are transposed between the multiply-adds of
 * the current ones, part by part, because shuffles and multiply-adds compete for the same ports.
 * Each part prefetches as many lines as it uses: lines that come after these columns, and again
 * those that are needed soon. */
static inline __attribute__((always_inline)) void transposed(size_t rows, smoe_tile *t,
                                                             bool narrow) {
    enum { LINE = 64, SOON = 6 * LINE };
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real), stride = t->ldb * size;
    size_t step = narrow ? TRANSPOSE_DEPTH_BF16 : TRANSPOSE_DEPTH, part = step / PARTS;
    size_t lines = PREFETCH_AGAIN ? VL * part * size / LINE : 0;
    size_t whole = t->n == VL ? t->k / step * step : 0;
    const void *b = narrow ? (const void *)t->b_bf16 : t->b;
    const char *at = b, *soon = at + SOON;
    const real *a = t->a;
    vreal sum[TRANSPOSED_ROWS] = {{0}}, now[TRANSPOSE_DEPTH_BF16], coming[TRANSPOSE_DEPTH_BF16],
          halfway[2 * WORDS];
    smoe_prefetch next = t->prefetch;
#pragma GCC unroll 4
    for (size_t i = 0; whole && i < PARTS; i++) transpose_part(now, halfway, at, stride, narrow, i);
    for (size_t p = 0; p < whole; a += step * HALF) {
        if (p + step < whole) at += step * size; /* nothing is read behind the last */
#pragma GCC unroll 4
        for (size_t i = 0; i < PARTS; i++, p += part) {
            transpose_part(coming, halfway, at, stride, narrow, i);
            if (next.every && !(p & (next.every - 1))) prefetch(&next);
            for (size_t j = 0; j < lines; j++, soon += stride) __builtin_prefetch(soon);
#pragma GCC unroll 4
            for (size_t q = i * part; q < (i + 1) * part; q++) {
                vreal r = transposed_element(now, q, narrow);
#pragma GCC unroll 8
                for (size_t j = 0; j < rows; j++) sum[j] += vset(a[q * HALF + j]) * r;
            }
            at = vorder(at, sum, rows);
        }
        /* All rows are done. */
        if (lines && p * size % LINE == 0) soon += LINE - (ptrdiff_t)(VL * stride);
#pragma GCC unroll 16
        for (size_t q = 0; q < TRANSPOSE_DEPTH_BF16; q++) now[q] = coming[q];
    }
    for (size_t p = whole; p < t->k; p++, a += HALF) {
        real w[VL] = {0};
        for (size_t j = 0; j < t->n; j++) w[j] = source_element(b, j * t->ldb + p, narrow);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) sum[i] += vset(a[i]) * vload(w);
    }
    t->prefetch = next;
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
        if (i < t->m) finish_at(t, i, 0, sum[i], t->n);
}

static void tile_transposed(smoe_tile *t) {
    if (2 * t->m <= TRANSPOSED_ROWS && t->b_bf16)
        transposed(TRANSPOSED_ROWS / 2, t, true);
    else if (2 * t->m <= TRANSPOSED_ROWS)
        transposed(TRANSPOSED_ROWS / 2, t, false);
    else if (t->b_bf16)
        transposed(TRANSPOSED_ROWS, t, true);
    else
        transposed(TRANSPOSED_ROWS, t, false);
}

static void pack_deep(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k) {
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < k; p += DEEP) {
            const real *from = a + i * rs + p * cs;
            real *to = dst + p * m + i * DEEP;
            if (cs == 1 && p + DEEP <= k)
                memcpy(to, from, DEEP * sizeof *to);
            else
                for (size_t q = 0; q < DEEP && p + q < k; q++) to[q] = from[q * cs];
        }
}

/* VL columns of `rows` rows of C from row i on: adds `depth` steps of k to their sums. Between the
 * steps it prefetches, until *prefetches is 0. */
static inline __attribute__((always_inline)) void
down_rows(size_t rows, size_t depth, const smoe_tile *t, size_t i, size_t j, const real *a,
          const vreal b[DEEP], size_t *prefetches, smoe_prefetch *next) {
    real *sums = t->sums + j * t->m + i * VL;
    vreal sum[GROUP];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) sum[r] = t->begun ? vload(sums + r * VL) : (vreal){0};
#pragma GCC unroll 16
    for (size_t q = 0; q < depth; q++) {
        if (*prefetches && q % 2 == 0) {
            prefetch(next);
            --*prefetches;
        }
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) sum[r] += vset(a[(i + r) * DEEP + q]) * b[q];
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
        if (t->later)
            vstore(sums + r * VL, sum[r]);
        else
            finish_at(t, i + r, j, sum[r], VL);
}

/* Steps p .. p+depth of a tile. `depth` rows of B, a constant, are read side by side, once; A and
 * the sums are read many times, but stay in the caches. */
static inline __attribute__((always_inline)) void down(size_t depth, smoe_tile *t, size_t p) {
    const real *a = t->a + p, *from = t->b + p * t->ldb;
    smoe_prefetch next = t->prefetch;
    for (size_t j = 0; j < t->n; j += VL) {
        vreal b[DEEP];
#pragma GCC unroll 16
        for (size_t q = 0; q < depth; q++) b[q] = vrounded(vload(from + q * t->ldb + j));
        size_t prefetches = depth * VL * sizeof(real) / 128;
        if (PREFETCH_AGAIN && t->m <= 2 * GROUP) {
#pragma GCC unroll 16
            for (size_t q = 0; q < depth; q++) __builtin_prefetch(from + q * t->ldb + j + 2 * VL);
        }
        size_t i = 0;
        for (; i + GROUP <= t->m; i += GROUP)
            down_rows(GROUP, depth, t, i, j, a, b, &prefetches, &next);
        for (; i + GROUP / 2 <= t->m; i += GROUP / 2)
            down_rows(GROUP / 2, depth, t, i, j, a, b, &prefetches, &next);
        for (; i < t->m; i++) down_rows(1, depth, t, i, j, a, b, &prefetches, &next);
    }
    t->prefetch = next;
}

static void tile_down(smoe_tile *t) {
    if (t->k == DEEP) {
        down(DEEP, t, 0);
        return;
    }
    bool later = t->later;
    for (size_t p = 0; p < t->k; p++) {
        t->later = later || p + 1 < t->k;
        down(1, t, p);
    }
}

const smoe_skinny_kernels SMOE_KERN(smoe_skinny_kern);
const smoe_skinny_kernels SMOE_KERN(smoe_skinny_kern) = {
    .lanes = VL,
    .across = ACROSS,
    .pack_across = pack_across,
    .tile_across = tile_across,
    .tile_panel = tile_panel,
    .unpack_across = unpack_across,
    .transposed = TRANSPOSED_ROWS,
    .tile_transposed = tile_transposed,
    .deep = DEEP,
    .pack_deep = pack_deep,
    .tile_down = tile_down,
};
