/*
 * Blocked matrix product after Goto: blocks of B [KC, NC] and of A [MC, KC] are packed, and tiles
 * of both are multiplied in registers (kern_gemm.c). Some operands are not packed: rows of A that
 * are consecutive in memory, and weights of products with few rows (gemm_skinny.c).
 * Threads share a product by pieces of C, and each thread packs what its pieces need: a little
 * packing is done twice, but no thread waits for another inside a product.
 * BLIS is not used for these products: its kernels for small shapes add in another order than those
 * for large ones, so the logits of an image would depend on the size of its batch. BLIS is the
 * reference for speed (math/blas.c); experiments/notes/ compares the two.
 */
#include "math/gemm_view.h"
#include "base/team.h"

/* One step (p0, j0) of the loops over k and n. */
typedef struct step {
    size_t p0, k, j0, n;
} step;

/* Packs columns j .. j+n of a step's part of B. */
static void pack_columns(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                         size_t j, size_t n, real *packed_b) {
    size_t at = s->p0 * x->b_row + (s->j0 + j) * x->b_col;
    real *to = packed_b + j * s->k;
    if (x->b_bf16)
        kern->pack_b_bf16(to, x->b_bf16 + at, x->b_row, x->b_col, s->k, n);
    else
        kern->pack_b(to, x->b + at, x->b_row, x->b_col, s->k, n);
}

/* Prefetches the panel of B to the right of column j, while this many tiles are computed. */
static smoe_prefetch next_columns(const smoe_product *x, const smoe_gemm_kernels *kern,
                                  const step *s, size_t j, size_t tiles) {
    const void *at = b_at(x, s->p0 * x->b_row + (s->j0 + j + kern->nr) * x->b_col);
    size_t size = b_size(x), steps = tiles * s->k;
    return x->b_row == 1 ? prefetch_block(at, size, kern->nr, s->k, x->b_col, steps)
                         : prefetch_block(at, size, s->k, kern->nr, x->b_row, steps);
}

/* Prefetches the m rows of A from i on, during at most *panels panels of `tiles` tiles; sets
 * *panels to the number used. */
static smoe_prefetch next_block(const smoe_product *x, const step *s, size_t i, size_t m,
                                size_t tiles, size_t *panels) {
    const real *a = x->a + i * x->a_row + s->p0 * x->a_col;
    size_t steps = *panels * tiles * s->k;
    smoe_prefetch next = x->a_col == 1 ? prefetch_block(a, sizeof(real), m, s->k, x->a_row, steps)
                                       : prefetch_block(a, sizeof(real), s->k, m, x->a_col, steps);
    *panels = blocks((x->a_col == 1 ? m : s->k) * next.run * next.every, tiles * s->k);
    return next;
}

/* Whether m rows of A are used where they lie: few columns of B do not repay packing them. */
static bool in_place(const smoe_product *x, const smoe_gemm_kernels *kern, size_t m) {
    if (x->a_row != 1 && x->a_col != 1) return false;
    if (m <= 2 * kern->half) return true;
    return x->a_col == 1 ? kern->as_is || x->n <= PLACED_COLUMNS : x->n <= PLACED_ROWS;
}

/* Rows i0 .. i0+m of C. B is packed panel by panel while the first rows are computed, or used
 * unpacked. */
static void row_block(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                      size_t i0, size_t m, smoe_packed *packed) {
    real *rows = packed->rows;
    size_t mr = kern->mr, nr = kern->nr;
    bool beside = x->b_col == 1 && !x->b_bf16 && (x->m <= SKINNY || s->k <= PLACED_STEPS);
    bool stream = x->stream && s->k == x->k && !x->add && !x->bias, placed = in_place(x, kern, m);
    bool collect = stream && kern->aliasing && x->ldc * sizeof(real) % kern->aliasing == 0;
    const real *a = x->a + i0 * x->a_row + s->p0 * x->a_col;
    /* While B is packed, tiles prefetch more of B; later they prefetch the next rows of A, where
     * that helps. The description of a tile is not copied: copies in whole vectors wait for the
     * stores of the tile before. */
    size_t tiles = blocks(m, mr), below = min(x->m - i0 - m, m), prefetching = SIZE_MAX;
    smoe_tile t = tile_at(x, s->p0, s->k, i0, s->j0);
    const real *add = t.add, *bias = t.bias;
    real *c = t.c;
    t.m = m;
    t.a_row = placed ? x->a_row : 1;
    t.a_col = placed ? x->a_col : kern->pitch;
    t.a_next = placed ? mr * x->a_row : kern->pitch * s->k;
    t.stream = stream && !collect;
    if (collect) t.ldc = STREAMED_RUN + SMOE_PANEL_SPILL;
    if (kern->prefetch_rows && i0 && below && s->k) {
        prefetching = blocks(s->n, nr);
        t.prefetch = next_block(x, s, i0 + m, below, tiles, &prefetching);
    }
    if (!placed) kern->pack_a(packed->a, a, x->a_row, x->a_col, m, s->k, mr);
    for (size_t j = 0; j < s->n; j += nr) {
        size_t n = min(s->n - j, nr), column = j % STREAMED_RUN;
        bool direct = beside && (n == nr || 2 * n == nr);
        t.n = n;
        t.c = collect ? rows + column : c + j;
        t.add = add ? add + j : NULL;
        t.bias = bias ? bias + j : NULL;
        t.a = placed ? a : packed->a;
        t.b = direct ? x->b + s->p0 * x->b_row + s->j0 + j : packed->b + j * s->k;
        t.ldb = direct ? x->b_row : nr;
        if (i0 == 0) {
            if (!direct) pack_columns(x, kern, s, j, n, packed->b);
            if (j + n < s->n) t.prefetch = next_columns(x, kern, s, j, tiles);
        }
        if (!prefetching--) t.prefetch.every = 0;
        kern->tiles(&t);
        if (collect && (column + n >= STREAMED_RUN || j + n == s->n))
            for (size_t i = 0; i < m; i++)
                kern->stream(c + i * x->ldc + j - column,
                             rows + i * (STREAMED_RUN + SMOE_PANEL_SPILL), column + n);
    }
    if (s->p0 + s->k == x->k) finished(x, i0, m, s->j0, s->n);
}

/* With operands in `real`. */
static void by_multiply_adds(const smoe_product *x) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    smoe_packed *packed = packed_sides();
    size_t mc = PANELS * kern->mr, kc = x->k <= KC ? x->k : even(x->k, KC, 1);
    size_t nc = kc * (x->n + kern->nr) <= BLOCK ? x->n : even(x->n, BLOCK / kc, kern->nr);
    if (smoe_gemm_skinny(x, packed)) return;
    for (size_t j0 = 0; j0 < x->n; j0 += nc) {
        size_t p0 = 0;
        do { /* k = 0 is one step, which writes add + bias */
            step s = {p0, min(x->k - p0, kc), j0, min(x->n - j0, nc)};
            for (size_t i = 0; i < x->m; i += mc)
                row_block(x, kern, &s, i, min(x->m - i, mc), packed);
            p0 += kc;
        } while (p0 < x->k);
    }
    if (x->stream) kern->settle();
}

void smoe_gemm_serial(const smoe_product *x) {
    if (!x->m || !x->n) return;
    if (x->precision == SMOE_PRECISION_F32)
        by_multiply_adds(x);
    else
        smoe_gemm_matrix(x);
}

/* The number of pieces of rows and of columns into which each product is cut. */
typedef struct cuts {
    size_t rows, columns;
} cuts;

/* Halves rows or columns until there are enough pieces of `count` products like x, or they become
 * small. */
static cuts blocked_cut(const smoe_product *x, const smoe_gemm_kernels *kern, size_t count,
                        size_t threads) {
    bool as_is = kern->as_is && x->a_col == 1 && x->precision == SMOE_PRECISION_F32;
    size_t wanted = (as_is ? TASKS_AS_IS : TASKS) * threads, ratio = as_is ? COLUMNS : 1;
    cuts c = {1, 1};
    while (count * c.rows * c.columns < wanted) {
        size_t rows = x->m / c.rows, columns = x->n / c.columns;
        if (rows * columns * x->k < 2 * SMALL) break;
        if (rows >= ratio * columns)
            c.rows *= 2;
        else
            c.columns *= 2;
    }
    return c;
}

/* Piece (i, j) of a product: whole tiles, the last one what is left (possibly nothing). */
static smoe_product piece(const smoe_product *x, const smoe_gemm_kernels *kern, cuts c, size_t i,
                          size_t j) {
    bool units = x->precision != SMOE_PRECISION_F32;
    size_t mr = units ? SMOE_MATRIX_SIDE : kern->mr, nr = units ? SMOE_MATRIX_SIDE : kern->nr;
    size_t rows = blocks(blocks(x->m, c.rows), mr) * mr;
    size_t columns = blocks(blocks(x->n, c.columns), nr) * nr;
    size_t i0 = min(i * rows, x->m), j0 = min(j * columns, x->n);
    smoe_product p = *x;
    p.m = min(x->m - i0, rows);
    p.n = min(x->n - j0, columns);
    size_t at = i0 * x->ldc + j0;
    if (p.c) p.c += at;
    if (p.c_bf16) p.c_bf16 += at;
    if (p.hidden) p.hidden += at;
    if (p.active) p.active += at;
    if (p.a_bf16)
        p.a_bf16 += i0 * x->a_row;
    else
        p.a += i0 * x->a_row;
    if (p.b_bf16)
        p.b_bf16 += j0 * x->b_col;
    else
        p.b += j0 * x->b_col;
    if (p.add) p.add += i0 * x->ldadd + j0;
    if (p.bias) p.bias += j0;
    return p;
}

/* The number of threads that the products are worth. */
static int team_for(size_t count, smoe_product_maker *make, const void *context) {
    size_t multiply_adds = 0;
    int threads = smoe_threads();
    for (size_t i = 0; i < count && threads > 1; i++) {
        smoe_product x = make(i, context);
        multiply_adds += x.m * x.n * x.k;
        /* most often all are alike */
        if (multiply_adds >= 2 * SMALL || (!i && count * multiply_adds >= 2 * SMALL))
            return threads;
    }
    return 1;
}

/* How `count` products are shared: by how many threads, and in which pieces. */
typedef struct shares {
    int threads;
    cuts cuts;
} shares;

static shares blocked_share(size_t count, smoe_product_maker *make, const void *context) {
    shares s = {team_for(count, make, context), {1, 1}};
    if (s.threads == 1) return s;
    smoe_product first = make(0, context);
    s.cuts = blocked_cut(&first, smoe_kernels_get()->gemm, count, (size_t)s.threads);
    return s;
}

void smoe_gemm_each(size_t count, smoe_product_maker *make, const void *context) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    shares s = blocked_share(count, make, context);
    cuts c = s.cuts;
    int threads = s.threads;
    size_t pieces = c.rows * c.columns;
    size_t all = count * pieces, hand = hand_of(all, threads);
    SMOE_SHARED_BY(products, threads, schedule(dynamic, 1))
    for (size_t first = 0; first < all; first += hand)
        for (size_t i = first; i < min(first + hand, all); i++) {
            smoe_product x = make(i / pieces, context);
            if (pieces > 1) x = piece(&x, kern, c, i % pieces / c.columns, i % c.columns);
            smoe_gemm_serial(&x);
        }
}

void smoe_gemm_chain(size_t count, const smoe_gemm_stage *stage, size_t stages) {
    int threads = 1;
    bool whole = true;
    for (size_t s = 0; s < stages; s++) {
        shares each = blocked_share(count, stage[s].make, stage[s].context);
        if (each.threads > threads) threads = each.threads;
        if (each.cuts.rows * each.cuts.columns > 1) whole = false;
    }
    for (size_t s = 0; !whole && s < stages; s++)
        smoe_gemm_each(count, stage[s].make, stage[s].context);
    if (!whole) return;
    size_t hand = hand_of(count, threads);
    SMOE_SHARED_BY(products, threads, schedule(dynamic, 1))
    for (size_t first = 0; first < count; first += hand)
        for (size_t i = first; i < min(first + hand, count); i++)
            for (size_t s = 0; s < stages; s++) {
                smoe_product x = stage[s].make(i, stage[s].context);
                smoe_gemm_serial(&x);
            }
}

static smoe_product itself(size_t i, const void *context) {
    (void)i;
    return *(const smoe_product *)context;
}

void smoe_gemm(const smoe_product *product) {
    smoe_gemm_each(1, itself, product);
}
