/*
 * Blocked matrix product after Goto: blocks of B [KC, NC] and of A [MC, KC] are packed, tiles of
 * both meet in registers (kern_gemm.c). What need not be packed is read where it lies: rows of A in
 * one piece, weights that meet few rows, both sides of a product of few terms. Threads share a
 * product by pieces of C, each packed by the thread that takes it: a little packing is done twice,
 * but nobody waits for anybody inside a product. Why not BLIS for these: its kernels for small
 * shapes sum in another order than those for large ones, so an image's logits would depend on the
 * size of its batch. BLIS stays the measure of speed (math/blas.c); how the two compare is in
 * experiments/NOTES.md.
 */
#include "math/gemm.h"
#include "base/team.h"
#include "math/kernels.h"

enum {
    KC = 384, /* rows of a block of B at most: a panel of nr columns fills the first cache */
    BLOCK = KC * 512, /* elements of a block of B: it stays in the second cache */
    FEW = 128,        /* rows of A up to which packing B costs more than it gains */
    FEWEST = 32,      /* and up to which B is rather read in its order than by columns */
    DEEP = 128,       /* k from which that holds for columns of B, whose results are transposed */
    RUN = 64,         /* columns that are collected before they pass the caches by */
    NEAR = 4096,      /* elements of B that stay in the first cache with what passes it */
    PANELS = 8,       /* panels of A in a block */
    TASKS = 1,        /* pieces a thread, at least, where both A and B are packed for each, */
    TASKS_AS_IS = 8,  /* and where A need not be: then rather more columns than rows are cut, */
    COLUMNS = 4,      /* until a piece has so many times more rows */
    LINE = 64 / sizeof(real), /* elements of a cache line */
    TERMS = 16,     /* k up to which C is best written row by row, with neither side packed */
    HANDS = 16,     /* times a thread gets pieces: neighbours, since it asks for what lies behind */
    SMALL = 1 << 18 /* multiply-adds of a piece below which cutting costs more than it gains */
};
_Static_assert(BLOCK >= FEW * KC, "a step of few rows fits");
_Static_assert(FEWEST < SMOE_TILE_ROWS * PANELS, "few rows are less than a block of A");
#define ALIGNED __attribute__((aligned(64)))
static const size_t NEVER = SIZE_MAX / 2 + 1; /* a power of 2 that no k reaches */

static size_t min(size_t a, size_t b) {
    return a < b ? a : b;
}
static size_t max(size_t a, size_t b) {
    return a > b ? a : b;
}
static size_t blocks(size_t n, size_t size) {
    return (n + size - 1) / size;
}

/* The size of equal steps over n, `most` at most, in whole `unit`s. */
static size_t even(size_t n, size_t most, size_t unit) {
    size_t steps = blocks(n, most / unit * unit);
    return steps ? blocks(blocks(n, steps), unit) * unit : 0;
}

/* One step (p0, j0) of the loops over k and n. */
typedef struct step {
    size_t p0, k, j0, n;
    real *packed_b;
} step;

/* Packs columns j .. j+n of a step's part of B. */
static void pack_columns(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                         size_t j, size_t n) {
    size_t at = s->p0 * x->b_row + (s->j0 + j) * x->b_col;
    real *to = s->packed_b + j * s->k;
    if (x->b_bf16)
        kern->pack_b_bf16(to, x->b_bf16 + at, x->b_row, x->b_col, s->k, n);
    else
        kern->pack_b(to, x->b + at, x->b_row, x->b_col, s->k, n);
}

/* How often to ask, so that so many pairs of lines are asked for in so many steps of k. */
static size_t pace(size_t pairs, size_t steps) {
    size_t every = steps / max(pairs, 1);
    return every >= 4 ? 4 : every >= 2 ? 2 : 1;
}

/* `lines` runs of `length` elements, `stride` apart, to be asked for during so many steps of k:
 * what is computed with passes once and from memory, which would otherwise lie idle meanwhile. */
static smoe_ahead look_ahead(const void *at, size_t size, size_t lines, size_t length,
                             size_t stride, size_t steps) {
    size_t run = max(blocks(length * size, 128), 1);
    return (smoe_ahead){.at = at,
                        .left = run,
                        .run = run,
                        .every = pace(lines * run, steps),
                        .step = 128,
                        .skip = (ptrdiff_t)(stride * size) - (ptrdiff_t)run * 128};
}

/* `bytes` in one piece, in streams. */
static smoe_ahead look_along(const void *at, size_t bytes, size_t steps) {
    size_t streams = smoe_streams(), part = bytes / streams / 128 * 128;
    return (smoe_ahead){.at = at,
                        .left = streams,
                        .run = streams,
                        .every = pace(bytes / 128, steps),
                        .step = (ptrdiff_t)part,
                        .skip = 128 - (ptrdiff_t)(streams * part)};
}

/* B is there in `real` or in BF16: the bytes of an element, and where the i-th is. */
static size_t b_size(const smoe_product *x) {
    return x->b_bf16 ? sizeof(smoe_bf16) : sizeof(real);
}
static const void *b_at(const smoe_product *x, size_t i) {
    return x->b_bf16 ? (const void *)(x->b_bf16 + i) : x->b + i;
}

/* The panel of B right of column j, while so many tiles are computed. */
static smoe_ahead next_columns(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                               size_t j, size_t tiles) {
    const void *at = b_at(x, s->p0 * x->b_row + (s->j0 + j + kern->nr) * x->b_col);
    size_t size = b_size(x), steps = tiles * s->k;
    return x->b_row == 1 ? look_ahead(at, size, kern->nr, s->k, x->b_col, steps)
                         : look_ahead(at, size, s->k, kern->nr, x->b_row, steps);
}

/* The m rows of A from i on, while up to *tiles tiles are computed, of which so many will do. */
static smoe_ahead next_block(const smoe_product *x, const step *s, size_t i, size_t m,
                             size_t *tiles) {
    const real *a = x->a + i * x->a_row + s->p0 * x->a_col;
    smoe_ahead next = x->a_col == 1 ? look_ahead(a, sizeof(real), m, s->k, x->a_row, *tiles * s->k)
                                    : look_ahead(a, sizeof(real), s->k, m, x->a_col, *tiles * s->k);
    *tiles = blocks((x->a_col == 1 ? m : s->k) * next.run * next.every, s->k);
    return next;
}

/* Tile (i, j) of a product, where it lies and what is added to it, in the step of k from p0 on. */
static smoe_tile tile_at(const smoe_product *x, size_t p0, size_t k, size_t i, size_t j) {
    smoe_tile t = {.k = k, .c = x->c + i * x->ldc + j, .ldc = x->ldc, .alpha = x->alpha};
    t.ahead.every = NEVER;
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

/* The height of panels of m rows: two low ones rather than one and a little. */
static size_t height_for(const smoe_gemm_kernels *kern, size_t m) {
    return m > kern->mr && m <= 2 * kern->half ? kern->half : kern->mr;
}

/* Elements from one step of k to the next in panels of such a height. */
static size_t pitch_of(const smoe_gemm_kernels *kern, size_t height) {
    return height == kern->mr ? kern->pitch : height;
}

/* Rows i .. i+m of columns j .. j+n are final. */
static void finished(const smoe_product *x, size_t i, size_t m, size_t j, size_t n) {
    if (x->after) x->after(x->c + i * x->ldc + j, m, n, x->context);
}

/* Rows i0 .. i0+m of C. B is packed panel by panel while the first rows pass, or used where it
 * lies. */
static void row_block(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                      size_t i0, size_t m, real *packed_a) {
    ALIGNED real rows[SMOE_TILE_ROWS * PANELS * (RUN + SMOE_PANEL_SPILL)];
    size_t mr = height_for(kern, m), pitch = pitch_of(kern, mr);
    bool once = x->m <= FEW && x->b_col == 1 && !x->b_bf16;
    bool stream = x->stream && s->k == x->k && !x->add && !x->bias;
    bool collect = stream && kern->aliasing && x->ldc * sizeof(real) % kern->aliasing == 0;
    const real *a = x->a + i0 * x->a_row + s->p0 * x->a_col;
    size_t whole = kern->as_is && x->a_col == 1 && mr == kern->mr ? m / mr * mr : 0;
    /* While B is packed, tiles ask for more of B; with the other rows, for the next ones. */
    size_t tiles = blocks(m, mr), below = min(x->m - i0 - m, m), asking = SIZE_MAX;
    smoe_ahead ahead = {.every = NEVER};
    if (i0 && below && s->k) {
        asking = tiles * blocks(s->n, kern->nr);
        ahead = next_block(x, s, i0 + m, below, &asking);
    }
    if (whole < m)
        kern->pack_a(packed_a, a + whole * x->a_row, x->a_row, x->a_col, m - whole, s->k, mr);
    for (size_t j = 0; j < s->n; j += kern->nr) {
        size_t n = min(s->n - j, kern->nr);
        bool direct = once && n == kern->nr;
        smoe_tile t = tile_at(x, s->p0, s->k, i0, s->j0 + j);
        t.b = direct ? x->b + s->p0 * x->b_row + s->j0 + j : s->packed_b + j * s->k;
        t.ldb = direct ? x->b_row : kern->nr;
        t.n = n;
        t.stream = stream && !collect;
        if (i0 == 0) {
            if (!direct) pack_columns(x, kern, s, j, n);
            if (j + n < s->n) ahead = next_columns(x, kern, s, j, tiles);
        }
        t.ahead = ahead;
        size_t column = j % RUN;
        if (collect) {
            t.c = rows + column;
            t.ldc = RUN + SMOE_PANEL_SPILL;
        }
        for (size_t i = 0; i < m; i += mr, t.c += mr * t.ldc) {
            t.a = i < whole ? a + i * x->a_row : packed_a + (i - whole) / mr * pitch * s->k;
            t.a_row = i < whole ? x->a_row : 1;
            t.a_col = i < whole ? 1 : pitch;
            t.m = min(m - i, mr);
            if (!asking--) t.ahead.every = NEVER;
            kern->tile(&t);
            if (t.add) t.add += mr * t.ldadd;
        }
        if (collect && (column + n >= RUN || j + n == s->n))
            for (size_t i = 0; i < m; i++)
                kern->stream(x->c + (i0 + i) * x->ldc + s->j0 + j - column,
                             rows + i * (RUN + SMOE_PANEL_SPILL), column + n);
        ahead = t.ahead;
    }
    if (s->p0 + s->k == x->k) finished(x, i0, m, s->j0, s->n);
}

/* What comes after columns j .. j+across of B, asked for in the step of k from p0 on, during so
 * many steps of tiles: the same part of k, or, where all of k is `whole`, as much of what lies in
 * one piece. */
static smoe_ahead next_rows(const smoe_product *x, size_t across, size_t p0, size_t k, size_t j,
                            bool whole, size_t steps) {
    size_t at = (j + across) * x->b_col, size = b_size(x);
    return whole && x->b_col == x->k
               ? look_along(b_at(x, at + across * p0), across * k * size, steps)
               : look_ahead(b_at(x, at + p0), size, across, k, x->b_col, steps);
}

/* The width of a panel of rows, where m are left: what is left of those of two vectors is not
 * multiplied by one vector alone, which waits for the rows' elements. */
static size_t width_for(const smoe_gemm_kernels *kern, size_t m) {
    size_t half = kern->nr / 2;
    return m <= half ? half : m > kern->nr && m <= kern->nr + half ? kern->nr + half : kern->nr;
}

/* Steps from .. to of k of a product of few rows with weights whose columns lie in one piece: the
 * rows are packed, all of them, and the weights pass once, as they lie or, in BF16, widened a block
 * of columns at a time. */
static void few_rows(const smoe_product *x, const smoe_gemm_kernels *kern, size_t kc, size_t from,
                     size_t to, real *packed) {
    ALIGNED real wide[SMOE_BLOCK_ACROSS * KC];
    const smoe_row_kernels *row = smoe_kernels_get()->row;
    /* What was widened should still be in the first cache. */
    size_t across = x->b_bf16 && x->m <= kern->nr / 2 ? SMOE_TILE_ACROSS : kern->across;
    size_t span = to - from;
    for (size_t p0 = from; p0 < to; p0 += kc)
        for (size_t i = 0, width; i < x->m; i += width) {
            width = width_for(kern, x->m - i);
            kern->pack_across(packed + i * span + (p0 - from) * width,
                              x->a + i * x->a_row + p0 * x->a_col, x->a_row, x->a_col,
                              min(x->m - i, width), min(to - p0, kc), width);
        }
    for (size_t j = 0; j < x->n; j += across) {
        size_t n = min(x->n - j, across);
        for (size_t i = 0; i < x->m; i++) /* for C, which is written when the sums are there */
            for (size_t q = 0; q < n; q += LINE)
                __builtin_prefetch(x->c + i * x->ldc + j + q, 1, 2);
        for (size_t p0 = from; p0 < to; p0 += kc) {
            size_t k = min(to - p0, kc), at = j * x->b_col + p0;
            for (size_t c = 0; x->b_bf16 && c < n; c++)
                row->widen(wide + c * k, x->b_bf16 + at + c * x->b_col, k);
            for (size_t i = 0, width; i < x->m; i += width) {
                width = width_for(kern, x->m - i);
                smoe_tile t = tile_at(x, p0, k, i, j);
                t.m = min(x->m - i, width);
                t.n = n;
                t.a = packed + i * span + (p0 - from) * width;
                t.a_col = width;
                t.b = x->b_bf16 ? wide : x->b + at;
                t.ldb = x->b_bf16 ? k : x->b_col;
                if (i == 0 && j + n < x->n)
                    t.ahead =
                        next_rows(x, across, p0, k, j, span == x->k, across / SMOE_TILE_ACROSS * k);
                kern->tile_across(&t);
            }
        }
        if (to == x->k) finished(x, 0, x->m, j, n);
    }
}

/* A product of fewer rows still, with such weights. */
static void fewest_rows(const smoe_product *x, const smoe_gemm_kernels *kern, size_t kc,
                        real *packed) {
    size_t across = kern->nr / 2;
    kern->pack_a(packed, x->a, x->a_row, x->a_col, x->m, x->k, kern->half);
    for (size_t j = 0; j < x->n; j += across) {
        size_t n = min(x->n - j, across);
        for (size_t p0 = 0; p0 < x->k; p0 += kc) {
            smoe_tile t = tile_at(x, p0, min(x->k - p0, kc), 0, j);
            t.m = x->m;
            t.n = n;
            t.a = packed + p0 * kern->half;
            if (x->b_bf16)
                t.b_bf16 = x->b_bf16 + j * x->b_col + p0;
            else
                t.b = x->b + j * x->b_col + p0;
            t.ldb = x->b_col;
            if (j + n < x->n) t.ahead = next_rows(x, across, p0, t.k, j, true, t.k);
            kern->tile_turned(&t);
        }
        finished(x, 0, x->m, j, n);
    }
}

/* A product of few rows with weights whose rows lie in one piece: few of them at a time, so that
 * memory is read in its order, and sums wait in `sums` meanwhile. */
static void few_rows_down(const smoe_product *x, const smoe_gemm_kernels *kern, size_t kc,
                          real *packed_a, real *sums) {
    for (size_t p0 = 0; p0 < x->k; p0 += kc) {
        size_t k = min(x->k - p0, kc);
        kern->pack_deep(packed_a, x->a + p0 * x->a_col, x->a_row, x->a_col, x->m, k);
        for (size_t p = 0; p < k; p += kern->deep) {
            smoe_tile t = tile_at(x, p0, min(k - p, kern->deep), 0, 0);
            t.m = x->m;
            t.n = x->n;
            t.a = packed_a + p * x->m;
            t.b = x->b + (p0 + p) * x->b_row;
            t.ldb = x->b_row;
            t.ahead = look_along(t.b + t.k * t.ldb, t.k * x->n * sizeof(real), 1);
            t.sums = sums;
            t.begun = p > 0;
            t.later = p + t.k < k;
            kern->tile_down(&t);
        }
    }
    finished(x, 0, x->m, 0, x->n);
}

/* Whether a product is written past the caches and has so few terms that packing is most of the
 * work. */
static bool has_few_terms(const smoe_product *x, const smoe_gemm_kernels *kern) {
    bool plain = !x->b_bf16 && !x->add && !x->bias && !x->after;
    bool few = x->k && (x->k <= TERMS || x->k * x->n <= 2 * NEAR);
    return x->stream && plain && few && x->b_col == 1 && x->n % (kern->nr / 2) == 0;
}

/* Such a product, row by row of C, with neither side packed. */
static void few_terms(const smoe_product *x, const smoe_gemm_kernels *kern) {
    size_t columns = even(x->n, max(NEAR / x->k, kern->row), kern->row);
    for (size_t j = 0; j < x->n; j += columns) {
        smoe_tile t = tile_at(x, 0, x->k, 0, j);
        t.m = x->m;
        t.n = min(x->n - j, columns);
        t.a = x->a;
        t.a_row = x->a_row;
        t.a_col = x->a_col;
        t.b = x->b + j;
        t.ldb = x->b_row;
        t.stream = true;
        kern->tile_rows(&t);
    }
    kern->settle();
}

void smoe_gemm_serial(const smoe_product *x) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    ALIGNED real packed_a[SMOE_PANEL_PITCH * PANELS * KC + SMOE_PANEL_SPILL], packed_b[BLOCK];
    if (!x->m || !x->n) return;
    size_t mc = PANELS * kern->mr, kc = even(x->k, KC, 1),
           nc = even(x->n, BLOCK / max(kc, 1), kern->nr);
    if (x->m <= FEW && x->k >= DEEP && x->b_row == 1) {
        size_t span = blocks(x->m, kern->nr) * kern->nr * x->k <= BLOCK ? x->k : kc;
        if (x->m <= kern->turned && span == x->k)
            fewest_rows(x, kern, kc, packed_b);
        else
            for (size_t p = 0; p < x->k; p += span)
                few_rows(x, kern, kc, p, min(x->k, p + span), packed_b);
        return;
    }
    if (has_few_terms(x, kern)) {
        few_terms(x, kern);
        return;
    }
    if (x->m <= FEWEST && x->k >= DEEP && x->b_col == 1 && x->b_row == x->n && !x->b_bf16 &&
        !x->stream && x->n % (kern->nr / 2) == 0 && x->m * x->n <= BLOCK) {
        few_rows_down(x, kern, kc, packed_a, packed_b);
        return;
    }
    for (size_t j0 = 0; j0 < x->n; j0 += nc) {
        size_t p0 = 0;
        do { /* k = 0 is one step, which writes add + bias */
            step s = {p0, min(x->k - p0, kc), j0, min(x->n - j0, nc), packed_b};
            for (size_t i = 0; i < x->m; i += mc)
                row_block(x, kern, &s, i, min(x->m - i, mc), packed_a);
            p0 += kc;
        } while (p0 < x->k);
    }
    if (x->stream) kern->settle();
}

/* Into how many pieces of rows and of columns each product is cut. */
typedef struct cuts {
    size_t rows, columns;
} cuts;

/* Halves rows or columns until there are enough pieces of `count` products like x, or they become
 * small. */
static cuts cut(const smoe_product *x, const smoe_gemm_kernels *kern, size_t count,
                size_t threads) {
    bool as_is = kern->as_is && x->a_col == 1;
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
    size_t rows = blocks(blocks(x->m, c.rows), kern->mr) * kern->mr;
    size_t columns = blocks(blocks(x->n, c.columns), kern->nr) * kern->nr;
    size_t i0 = min(i * rows, x->m), j0 = min(j * columns, x->n);
    smoe_product p = *x;
    p.m = min(x->m - i0, rows);
    p.n = min(x->n - j0, columns);
    p.c += i0 * x->ldc + j0;
    p.a += i0 * x->a_row;
    if (p.b_bf16)
        p.b_bf16 += j0 * x->b_col;
    else
        p.b += j0 * x->b_col;
    if (p.add) p.add += i0 * x->ldadd + j0;
    if (p.bias) p.bias += j0;
    return p;
}

/* As many threads as the products are worth. */
static int team_for(size_t count, smoe_product_maker *make, const void *context) {
    size_t multiply_adds = 0;
    for (size_t i = 0; i < count && multiply_adds < 2 * SMALL; i++) {
        smoe_product x = make(i, context);
        multiply_adds += x.m * x.n * x.k;
    }
    return multiply_adds < 2 * SMALL ? 1 : smoe_threads();
}

void smoe_gemm_each(size_t count, smoe_product_maker *make, const void *context) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    int threads = team_for(count, make, context);
    cuts c = {1, 1};
    if (threads > 1) {
        smoe_product first = make(0, context);
        c = cut(&first, kern, count, (size_t)threads);
    }
    size_t pieces = c.rows * c.columns;
    size_t all = count * pieces, hand = max(all / (HANDS * (size_t)threads), 1);
    SMOE_SHARED_BY(products, threads, schedule(dynamic, 1))
    for (size_t first = 0; first < all; first += hand)
        for (size_t i = first; i < min(first + hand, all); i++) {
            smoe_product whole = make(i / pieces, context);
            smoe_product part = piece(&whole, kern, c, i % pieces / c.columns, i % c.columns);
            if (part.n) smoe_gemm_serial(&part);
        }
}

static smoe_product itself(size_t i, const void *context) {
    (void)i;
    return *(const smoe_product *)context;
}

void smoe_gemm(const smoe_product *product) {
    smoe_gemm_each(1, itself, product);
}

smoe_matrix smoe_matrix_of(const real *at, size_t ld) {
    return (smoe_matrix){at, ld, 1};
}

smoe_matrix smoe_transposed(const real *at, size_t ld) {
    return (smoe_matrix){at, 1, ld};
}

smoe_product smoe_product_of(real *c, size_t ldc, size_t m, size_t n, size_t k, smoe_matrix a,
                             smoe_matrix b) {
    return (smoe_product){.m = m,
                          .n = n,
                          .k = k,
                          .c = c,
                          .ldc = ldc,
                          .a = a.at,
                          .a_row = a.row,
                          .a_col = a.col,
                          .b = b.at,
                          .b_row = b.row,
                          .b_col = b.col,
                          .alpha = 1};
}

smoe_product smoe_linear_product(real *y, const real *x, const real *w, const real *bias, size_t R,
                                 size_t out, size_t in) {
    smoe_product p =
        smoe_product_of(y, out, R, out, in, smoe_matrix_of(x, in), smoe_transposed(w, in));
    p.bias = bias;
    return p;
}

smoe_product smoe_linear_dx_product(real *dx, const real *dy, const real *w, size_t R, size_t out,
                                    size_t in) {
    return smoe_product_of(dx, in, R, in, out, smoe_matrix_of(dy, out), smoe_matrix_of(w, in));
}

smoe_product smoe_linear_dw_product(real *dw, const real *dy, const real *x, size_t R, size_t out,
                                    size_t in) {
    smoe_product p =
        smoe_product_of(dw, in, out, in, R, smoe_transposed(dy, out), smoe_matrix_of(x, in));
    p.add = dw;
    p.ldadd = in;
    return p;
}
