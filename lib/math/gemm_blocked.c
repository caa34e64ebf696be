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
static void blocked_pack_columns(const smoe_product *x, const smoe_gemm_kernels *kern,
                                 const step *s, size_t j, size_t n, real *packed_b) {
    size_t at = s->p0 * x->b.row + (s->j0 + j) * x->b.col;
    real *to = packed_b + j * s->k;
    if (x->b.of.bf16)
        kern->pack_b_bf16(to, x->b.of.bf16 + at, x->b.row, x->b.col, s->k, n);
    else
        kern->pack_b(to, x->b.of.at + at, x->b.row, x->b.col, s->k, n);
}

/* Prefetches the panel of B to the right of column j, while this many tiles are computed. */
static smoe_prefetch next_columns(const smoe_product *x, const smoe_gemm_kernels *kern,
                                  const step *s, size_t j, size_t tiles) {
    size_t next = s->j0 + j + kern->nr;
    return prefetch_matrix(columns_of(x, next, kern->nr, s->p0, s->k), tiles * s->k);
}

/* Prefetches the m rows of A from i on, during at most *panels panels of `tiles` tiles; sets
 * *panels to the number used. */
static smoe_prefetch next_block(const smoe_product *x, const step *s, size_t i, size_t m,
                                size_t tiles, size_t *panels) {
    smoe_matrix a = smoe_matrix_part(x->a, i, m, s->p0, s->k);
    smoe_prefetch next = prefetch_matrix(a, *panels * tiles * s->k);
    *panels = blocks((x->a.col == 1 ? m : s->k) * next.run * next.every, tiles * s->k);
    return next;
}

/* Whether m rows of A are used where they lie: few columns of B do not repay packing them. */
static bool in_place(const smoe_product *x, const smoe_gemm_kernels *kern, size_t m) {
    if (x->a.row != 1 && x->a.col != 1) return false;
    if (m <= 2 * kern->half) return true;
    return x->a.col == 1 ? kern->as_is || x->b.n <= PLACED_COLUMNS : x->b.n <= PLACED_ROWS;
}

/* Rows i0 .. i0+m of C. B is packed panel by panel while the first rows are computed, or used
 * unpacked. */
static void row_block(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                      size_t i0, size_t m, smoe_packed *packed) {
    real *rows = packed->rows;
    size_t mr = kern->mr, nr = kern->nr;
    bool beside = x->b.col == 1 && !x->b.of.bf16 && (x->a.m <= SKINNY || s->k <= PLACED_STEPS);
    bool stream = x->to.stream && s->k == x->a.n && !x->to.add && !x->to.bias;
    bool placed = in_place(x, kern, m);
    bool collect = stream && kern->aliasing && x->to.ldc * sizeof(real) % kern->aliasing == 0;
    const real *a = x->a.of.at + i0 * x->a.row + s->p0 * x->a.col;
    /* While B is packed, tiles prefetch more of B; later they prefetch the next rows of A, where
     * that helps. The description of a tile is not copied: copies in whole vectors wait for the
     * stores of the tile before. */
    size_t tiles = blocks(m, mr), below = min(x->a.m - i0 - m, m), prefetching = SIZE_MAX;
    smoe_tile t = tile_at(x, s->p0, s->k, i0, s->j0);
    const real *add = t.add, *bias = t.bias;
    real *c = t.c;
    t.m = m;
    t.a_row = placed ? x->a.row : 1;
    t.a_col = placed ? x->a.col : kern->pitch;
    t.a_next = placed ? mr * x->a.row : kern->pitch * s->k;
    t.stream = stream && !collect;
    if (collect) t.ldc = STREAMED_RUN + SMOE_PANEL_SPILL;
    if (kern->prefetch_rows && i0 && below && s->k) {
        prefetching = blocks(s->n, nr);
        t.prefetch = next_block(x, s, i0 + m, below, tiles, &prefetching);
    }
    if (!placed) kern->pack_a(packed->a, a, x->a.row, x->a.col, m, s->k, mr);
    for (size_t j = 0; j < s->n; j += nr) {
        size_t n = min(s->n - j, nr), column = j % STREAMED_RUN;
        bool direct = beside && (n == nr || 2 * n == nr);
        t.n = n;
        t.c = collect ? rows + column : c + j;
        t.add = add ? add + j : NULL;
        t.bias = bias ? bias + j : NULL;
        t.a = placed ? a : packed->a;
        t.b = direct ? x->b.of.at + s->p0 * x->b.row + s->j0 + j : packed->b + j * s->k;
        t.ldb = direct ? x->b.row : nr;
        if (i0 == 0) {
            if (!direct) blocked_pack_columns(x, kern, s, j, n, packed->b);
            if (j + n < s->n) t.prefetch = next_columns(x, kern, s, j, tiles);
        }
        if (!prefetching--) t.prefetch.every = 0;
        kern->tiles(&t);
        if (collect && (column + n >= STREAMED_RUN || j + n == s->n))
            for (size_t i = 0; i < m; i++)
                kern->stream(c + i * x->to.ldc + j - column,
                             rows + i * (STREAMED_RUN + SMOE_PANEL_SPILL), column + n);
    }
    if (s->p0 + s->k == x->a.n) finished(x, i0, m, s->j0, s->n);
}

/* With operands in `real`. */
static void by_multiply_adds(const smoe_product *x) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    smoe_packed *packed = packed_sides();
    size_t mc = PANELS * kern->mr, kc = x->a.n <= KC ? x->a.n : even(x->a.n, KC, 1);
    size_t nc = kc * (x->b.n + kern->nr) <= BLOCK ? x->b.n : even(x->b.n, BLOCK / kc, kern->nr);
    if (smoe_gemm_skinny(x, packed)) return;
    for (size_t j0 = 0; j0 < x->b.n; j0 += nc) {
        size_t p0 = 0;
        do { /* k = 0 is one step, which writes add + bias */
            step s = {p0, min(x->a.n - p0, kc), j0, min(x->b.n - j0, nc)};
            for (size_t i = 0; i < x->a.m; i += mc)
                row_block(x, kern, &s, i, min(x->a.m - i, mc), packed);
            p0 += kc;
        } while (p0 < x->a.n);
    }
    if (x->to.stream) kern->settle();
}

static void compute_product(const smoe_product *x) {
    if (!x->a.m || !x->b.n) return;
    if (x->precision == SMOE_PRECISION_F32)
        by_multiply_adds(x);
    else
        smoe_gemm_matrix(x);
}

void smoe_gemm_serial(smoe_product product) {
    compute_product(&product);
}

/* The number of pieces of rows and of columns into which each product is cut. */
typedef struct cuts {
    size_t rows, columns;
} cuts;

/* Halves rows or columns until there are enough pieces of `count` products like x, or they become
 * small. */
static cuts blocked_cut(const smoe_product *x, const smoe_gemm_kernels *kern, size_t count,
                        size_t threads) {
    bool as_is = kern->as_is && x->a.col == 1 && x->precision == SMOE_PRECISION_F32;
    size_t wanted = (as_is ? TASKS_AS_IS : TASKS) * threads, ratio = as_is ? COLUMNS : 1;
    cuts c = {1, 1};
    while (count * c.rows * c.columns < wanted) {
        size_t rows = x->a.m / c.rows, columns = x->b.n / c.columns;
        if (rows * columns * x->a.n < 2 * SMALL) break;
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
    size_t rows = blocks(blocks(x->a.m, c.rows), mr) * mr;
    size_t columns = blocks(blocks(x->b.n, c.columns), nr) * nr;
    size_t i0 = min(i * rows, x->a.m), j0 = min(j * columns, x->b.n);
    smoe_product p = *x;
    p.a = smoe_matrix_part(x->a, i0, rows, 0, x->a.n);
    p.b = smoe_matrix_part(x->b, 0, x->a.n, j0, columns);
    p.to = smoe_epilogue_from(&x->to, i0, j0);
    return p;
}

/* The number of threads that the products of a stage are worth. */
static int team_for(size_t count, const smoe_gemm_stage *stage) {
    size_t multiply_adds = 0;
    int threads = smoe_threads();
    for (size_t i = 0; i < count && threads > 1; i++) {
        smoe_product x = stage->make(i, stage->context);
        multiply_adds += x.a.m * x.b.n * x.a.n;
        /* most often all are alike */
        if (multiply_adds >= 2 * SMALL || (!i && count * multiply_adds >= 2 * SMALL))
            return threads;
    }
    return 1;
}

/* How products are shared: by how many threads, and in which pieces. */
typedef struct shares {
    int threads;
    cuts cuts;
} shares;

static shares blocked_share(size_t count, const smoe_gemm_stage *stage) {
    shares s = {team_for(count, stage), {1, 1}};
    if (s.threads == 1) return s;
    smoe_product first = stage->make(0, stage->context);
    s.cuts = blocked_cut(&first, smoe_kernels_get()->gemm, count, (size_t)s.threads);
    return s;
}

/* Stages whose products are not cut, or one whose products may be. */
static void run_stages(size_t count, const smoe_gemm_stage *stage, size_t stages, shares s) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    cuts c = s.cuts;
    size_t pieces = c.rows * c.columns, all = count * pieces, hand = hand_of(all, s.threads);
    SMOE_SHARED_BY(products, s.threads, schedule(dynamic, 1))
    for (size_t first = 0; first < all; first += hand)
        for (size_t i = first; i < min(first + hand, all); i++)
            for (size_t q = 0; q < stages; q++) {
                smoe_product x = stage[q].make(i / pieces, stage[q].context);
                if (pieces > 1) x = piece(&x, kern, c, i % pieces / c.columns, i % c.columns);
                compute_product(&x);
            }
}

void smoe_gemm_chain(size_t count, const smoe_gemm_stage *stage, size_t stages) {
    shares all = {1, {1, 1}};
    bool whole = true;
    for (size_t q = 0; q < stages; q++) {
        shares each = blocked_share(count, &stage[q]);
        if (each.threads > all.threads) all.threads = each.threads;
        if (each.cuts.rows * each.cuts.columns > 1) whole = false;
    }
    if (whole) run_stages(count, stage, stages, all);
    for (size_t q = 0; !whole && q < stages; q++)
        run_stages(count, &stage[q], 1, blocked_share(count, &stage[q]));
}

typedef struct batch {
    smoe_product first;
    size_t a, b, c;
} batch;

static smoe_product product_of_batch(size_t i, const void *context) {
    const batch *x = context;
    smoe_product p = x->first;
    p.a.of = smoe_values_from(p.a.of, i * x->a);
    p.b.of = smoe_values_from(p.b.of, i * x->b);
    p.to.c = smoe_outputs_from(p.to.c, i * x->c);
    if (p.to.add) p.to.add += i * x->c;
    return p;
}

void smoe_gemm_batch(size_t count, smoe_product first, size_t a, size_t b, size_t c) {
    batch x = {first, a, b, c};
    smoe_gemm_chain(count, &(smoe_gemm_stage){product_of_batch, &x}, 1);
}

void smoe_gemm(smoe_product product) {
    smoe_gemm_batch(1, product, 0, 0, 0);
}

smoe_product smoe_product_to(smoe_outputs c, size_t ldc, smoe_matrix a, smoe_matrix b) {
    return (smoe_product){.a = a, .b = b, .to = {.c = c, .ldc = ldc, .ldadd = ldc, .alpha = 1}};
}

smoe_product smoe_product_of(real *c, smoe_matrix a, smoe_matrix b) {
    return smoe_product_to(smoe_reals_out(c), b.n, a, b);
}

smoe_product smoe_product_added(real *c, smoe_matrix a, smoe_matrix b) {
    smoe_product p = smoe_product_of(c, a, b);
    p.to.add = c;
    return p;
}
