/*
 * A block of rows passes through both layers, one part of the hidden units at a time: the part is
 * computed, activated, and multiplied with its part of the second layer's weights while it is in
 * the cache. Everything but the weights is kept in panels (a vector's worth of rows side by side),
 * the layout that one product writes and the next reads, so nothing is packed or transposed in
 * between. gemm_blocked.c sums up long rows in the same parts, so the bits are the same.
 */
#include "math/fused_mlp.h"
#include "base/team.h"
#include "math/gemm_view.h"

enum {
    ROWS = SKINNY, /* rows of a block, whose panels should stay in the L2 */
    ALIGNMENT = 16 /* columns of a panel that is read by whole vectors, elements of a cache line */
};

static size_t fused_mlp_whole(size_t n, size_t unit) {
    return blocks(n, unit) * unit;
}

/* Panels of rows of `columns`: that of rows i .. i+width begins at i*columns. */
typedef struct panels {
    real *at;
    size_t columns;
} panels;

/* n columns of weights from the first on, as rows of k numbers. */
static smoe_matrix mlp_weights(smoe_values w, size_t first, size_t ld, size_t n, size_t k) {
    return smoe_matrix_rows((smoe_rows){smoe_values_from(w, first), ld}, n, k);
}

/* A layer of m rows: c = c (if `begun`) + bias (may be NULL) + a W^T, then GELU, if there is one.
 * Meanwhile these weights and the first ones of the next layer are prefetched. */
typedef struct layer {
    size_t m;
    panels c, a;
    smoe_matrix w, next;
    bool begun;
    const real *bias;
    const smoe_gelu *gelu;
} layer;

/* Columns j .. j+n of a layer, for k in steps of kc. */
static void layer_columns(const layer *l, size_t j, size_t n, size_t kc) {
    real *wide = packed_sides()->wide;
    const smoe_skinny_kernels *skinny = smoe_kernels_get()->skinny;
    const smoe_row_kernels *row = smoe_kernels_get()->row;
    const smoe_matrix *w = &l->w;
    for (size_t p0 = 0; p0 < w->n; p0 += kc) {
        size_t k = min(w->n - p0, kc);
        size_t steps = skinny->across / SMOE_TILE_ACROSS * k * panels_of(skinny, l->m);
        smoe_prefetch prefetch = {0};
        if (j + n < w->m)
            prefetch = prefetch_matrix(smoe_matrix_part(*w, j + n, skinny->across, p0, k), steps);
        else if (p0 == 0)
            prefetch =
                prefetch_matrix(smoe_matrix_part(l->next, 0, skinny->across, 0, l->next.n), steps);
        for (size_t c = 0; w->of.bf16 && c < n; c++)
            row->widen(wide + c * k, w->of.bf16 + (j + c) * w->row + p0, k);
        for (size_t i = 0, width; i < l->m; i += width) {
            width = width_for(skinny, l->m - i);
            smoe_tile t = {.n = n,
                           .k = k,
                           .c = l->c.at + i * l->c.columns + j * width,
                           .a = l->a.at + i * l->a.columns + p0 * width,
                           .a_col = width,
                           .b = w->of.bf16 ? wide : w->of.at + j * w->row + p0,
                           .ldb = w->of.bf16 ? k : w->row,
                           .bias = l->bias && !p0 ? l->bias + j : NULL,
                           .prefetch = prefetch};
            if (l->begun || p0) t.add = t.c;
            skinny->tile_panel(&t);
            prefetch = t.prefetch;
        }
    }
    for (size_t i = 0, width; l->gelu && i < l->m; i += width) {
        width = width_for(skinny, l->m - i);
        real *c = l->c.at + i * l->c.columns + j * width;
        row->gelu(c, c, n * width, *l->gelu);
    }
}

static void layer_forward(const layer *l) {
    size_t across = smoe_kernels_get()->skinny->across, kc = even(l->w.n, KC, 1);
    for (size_t j = 0; j < l->w.m; j += across) layer_columns(l, j, min(l->w.m - j, across), kc);
}

static void fused_mlp_pack(panels to, const real *x, size_t m, size_t d) {
    const smoe_skinny_kernels *skinny = smoe_kernels_get()->skinny;
    for (size_t i = 0, width; i < m; i += width) {
        width = width_for(skinny, m - i);
        skinny->pack_across(to.at + i * to.columns, x + i * d, d, 1, min(m - i, width), d, width);
    }
}

/* Rows of one fused MLP, ROWS at most. */
static void rows_forward(const smoe_fused_mlp *p, real *scratch) {
    const smoe_skinny_kernels *skinny = smoe_kernels_get()->skinny;
    size_t d = p->d, part = even(p->h, KC, 1), columns = fused_mlp_whole(d, ALIGNMENT);
    size_t rows = fused_mlp_whole(p->m, skinny->lanes);
    panels x = {scratch, d}, y = {x.at + rows * d + SMOE_PANEL_SPILL, columns};
    panels hidden = {y.at + rows * columns + SMOE_PANEL_SPILL, part};
    fused_mlp_pack(x, p->x, p->m, d);
    if (p->residual) fused_mlp_pack(y, p->residual, p->m, d);
    for (size_t p0 = 0; p0 < p->h; p0 += part) {
        size_t n = min(p->h - p0, part);
        smoe_matrix w1 = mlp_weights(p->w1, p0 * d, d, n, d);
        smoe_matrix w2 = mlp_weights(p->w2, p0, p->h, d, n);
        /* After the last weights of the first layer, the weights of the next fused MLP are
         * prefetched. */
        smoe_matrix next = mlp_weights(p->w1, (p0 + n) * d, d, n, d);
        layer_forward(&(layer){.m = p->m,
                               .c = hidden,
                               .a = x,
                               .w = w1,
                               .next = w2,
                               .bias = p->b1 + p0,
                               .gelu = &p->gelu});
        layer_forward(&(layer){.m = p->m,
                               .c = y,
                               .a = hidden,
                               .w = w2,
                               .next = next,
                               .begun = p0 || p->residual,
                               .bias = p0 ? NULL : p->b2});
    }
    for (size_t i = 0, width; i < p->m; i += width) {
        width = width_for(skinny, p->m - i);
        skinny->unpack_across(p->y + i * d, d, y.at + i * columns, min(p->m - i, width), d, width);
    }
}

/* The number of blocks that the m rows of a single fused MLP are cut into, so that no thread has a
 * block more than the others. */
static size_t mlp_blocks(size_t count, size_t m, int threads) {
    size_t n = blocks(m, ROWS);
    return count == 1 ? fused_mlp_whole(n, (size_t)threads) : n;
}

bool smoe_fused_mlp_pays(size_t count, size_t m, int threads) {
    return m > smoe_kernels_get()->skinny->transposed &&
           count * mlp_blocks(count, m, threads) >= FUSED_PIECES * (size_t)threads;
}

size_t smoe_fused_mlp_scratch(size_t m, size_t d, size_t h) {
    size_t rows = min(fused_mlp_whole(m, smoe_kernels_get()->skinny->lanes), ROWS);
    size_t columns = d + fused_mlp_whole(d, ALIGNMENT) + even(h, KC, 1);
    return fused_mlp_whole(rows * columns + 2 * SMOE_PANEL_SPILL, ALIGNMENT);
}

void smoe_fused_mlp_each(size_t count, size_t most, smoe_fused_mlp_maker *make, const void *context,
                         real *scratch, int threads) {
    size_t lanes = smoe_kernels_get()->skinny->lanes, cuts = mlp_blocks(count, most, threads);
    size_t all = count * cuts, hand = hand_of(all, threads);
    SMOE_SHARED_BY(products, threads, schedule(dynamic, 1))
    for (size_t first = 0; first < all; first += hand)
        for (size_t i = first; i < min(first + hand, all); i++) {
            smoe_fused_mlp p = make(i / cuts, context);
            if (!p.m) continue;
            size_t rows = fused_mlp_whole(blocks(p.m, mlp_blocks(count, p.m, threads)), lanes);
            size_t row = min(i % cuts * rows, p.m);
            p.m = min(p.m - row, rows);
            p.x += row * p.d;
            p.y += row * p.d;
            if (p.residual) p.residual += row * p.d;
            if (p.m)
                rows_forward(&p, scratch + smoe_thread() * smoe_fused_mlp_scratch(most, p.d, p.h));
        }
}
