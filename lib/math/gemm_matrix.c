/*
 * Products with operands in BF16, by the matrix unit: panels of 32 rows of A and of 32 columns of B
 * are packed, which rounds them where they are not in BF16 yet, and meet in blocks of 32 x 32 sums.
 * Both panels of a block should fit in L1: from L2 the unit is limited by that cache's bandwidth.
 */
#include "math/gemm_view.h"

enum {
    SIDE = SMOE_MATRIX_SIDE,
    STEP = SMOE_MATRIX_DEEP,
    TERMS = 1024,           /* of a block of k at most; of split operands, half as many */
    ROUNDED_B = 384 * 1152, /* elements of a block of B: it stays in the L2 */
    ROUNDED_A = 2 * SIDE * TERMS * SMOE_MATRIX_PARTS,
    TOGETHER = 4, /* panels of A packed at a time, if its columns are consecutive in memory */
    SUMS = SMOE_MATRIX_PARTS * SIDE * SIDE
};

/* The data that the steps of a product share, and the places of its panels. */
typedef struct work {
    const smoe_product *x;
    const smoe_matrix_kernels *kern;
    size_t parts;
    smoe_bf16 *a, *b;
    real *sums; /* [2][SUMS] */
} work;

/* Consecutive columns or terms of a product. */
typedef struct span {
    size_t first, count;
} span;

/* Whether C is rounded once, when all terms are summed. */
static bool is_narrow(const smoe_product *x) {
    return x->to.c.bf16 || x->to.work != SMOE_GELU_NONE;
}

/* Elements of a panel of k terms. */
static size_t panel_of(const work *w, size_t k) {
    return blocks(k, STEP) * STEP * SIDE * w->parts;
}

static void gemm_pack_rows(const work *w, smoe_bf16 *to, size_t i, size_t p0, size_t k) {
    smoe_matrix rows = smoe_matrix_part(w->x->a, i, SIDE, p0, k);
    w->kern->pack_a(to, &rows, w->parts);
}

static void pack_columns(const work *w, smoe_bf16 *to, size_t j, size_t p0, size_t k) {
    smoe_matrix columns = columns_of(w->x, j, SIDE, p0, k);
    w->kern->pack_b(to, &columns, w->parts);
}

/* Block (i, j) of C after k terms from p0 on. */
static smoe_block_end end_of(const smoe_product *x, size_t p0, size_t k, size_t i, size_t j) {
    smoe_block_end end = {min(x->a.m - i, SIDE), min(x->b.n - j, SIDE), ending_at(x, p0, i, j)};
    end.to.stream = x->to.stream && k == x->a.n;
    return end;
}

static void gemm_prefetch_rows(const void *at, size_t size, size_t m, size_t n, size_t ld,
                               bool to_write) {
    const char *row = at;
    for (size_t i = 0; i < m; i++, row += ld * size)
        for (size_t j = 0; j < n * size; j += 64)
            if (to_write)
                __builtin_prefetch(row + j, 1);
            else
                __builtin_prefetch(row + j);
}

/* While the sums of a block are computed and the block before is finished, prefetches the data that
 * is read when the sums are ready, and what is written beside it. Where nothing is read, a block is
 * written sooner than its lines could be prefetched. m and n are those of the block, which has just
 * been written: loading both at once would wait until all earlier stores are done. */
static void prefetch_end(const smoe_epilogue *to, size_t m, size_t n) {
    size_t narrow = sizeof(smoe_bf16);
    bool reads = to->work != SMOE_GELU_NONE || (to->add && to->add != to->c.at);
    if (!reads) return;
    if (to->c.at) gemm_prefetch_rows(to->c.at, sizeof(real), m, n, to->ldc, true);
    if (to->c.bf16) gemm_prefetch_rows(to->c.bf16, narrow, m, n, to->ldc, true);
    if (to->add) gemm_prefetch_rows(to->add, sizeof *to->add, m, n, to->ldadd, false);
    if (to->hidden)
        gemm_prefetch_rows(to->hidden, narrow, m, n, to->ldc, to->work == SMOE_GELU_FORWARD);
    if (to->active) gemm_prefetch_rows(to->active, narrow, m, n, to->ldc, true);
}

/* Prefetches rows or columns during a block: they are packed next, and memory would otherwise be
 * idle until then. */
static void prefetch_operand(smoe_matrix_block *block, smoe_matrix x) {
    if (x.row != 1 && x.col != 1) return;
    block->prefetch = prefetch_matrix(x, 1);
    block->prefetches = (x.col == 1 ? x.m : x.n) * block->prefetch.run;
}

/* Rows i .. i+SIDE of these columns, with these terms. The panels of B are packed while
 * the first rows are computed; if there are no other rows, each panel overwrites the one before.
 * `next` > 0: this many rows are packed afterwards. */
static void row_panel(const work *w, const smoe_bf16 *a, size_t i, span of, span terms,
                      size_t next) {
    const smoe_product *x = w->x;
    const size_t j0 = of.first, n = of.count, p0 = terms.first, k = terms.count;
    size_t size = panel_of(w, k), apart = x->a.m > SIDE ? size : 0;
    smoe_bf16 *b = w->b;
    smoe_block_end before;
    real *sums = w->sums, *their_sums = w->sums + SUMS;
    for (size_t j = j0; j < j0 + n; j += SIDE, b += apart) {
        size_t rows = min(x->a.m - i, SIDE), columns = min(x->b.n - j, SIDE);
        smoe_block_end end = end_of(x, p0, k, i, j);
        if (i == 0) pack_columns(w, b, j, p0, k);
        prefetch_end(&end.to, rows, columns);
        smoe_matrix_block block = {.sums = sums,
                                   .a = a,
                                   .b = b,
                                   .m = rows,
                                   .n = columns,
                                   .steps = blocks(k, STEP),
                                   .parts = w->parts,
                                   .before = j > j0 ? &before : NULL,
                                   .their_sums = their_sums};
        bool more = j + SIDE < j0 + n;
        smoe_matrix then = more ? columns_of(x, j + SIDE, SIDE, p0, k)
                                : smoe_matrix_part(x->a, i + SIDE, next, p0, k);
        if (more ? i == 0 : next > 0) prefetch_operand(&block, then);
        w->kern->block(&block);
        before = end;
        real *free = their_sums;
        their_sums = sums;
        sums = free;
    }
    w->kern->finish(&before, their_sums, w->parts);
    if (p0 + k == x->a.n) finished(x, i, min(x->a.m - i, SIDE), j0, n);
}

static void by_panels(const work *w, size_t kc) {
    const smoe_product *x = w->x;
    size_t columns = max(ROUNDED_B / max(panel_of(w, kc), 1), 1) * SIDE;
    size_t room = ROUNDED_A / max(panel_of(w, kc), 1);
    size_t abreast = x->a.col == 1 ? 1 : min(max(room, 1), TOGETHER);
    for (size_t j0 = 0; j0 < x->b.n; j0 += columns) {
        size_t p0 = 0, n = min(x->b.n - j0, columns);
        do { /* k = 0 is one step, which writes add + bias */
            size_t k = min(x->a.n - p0, kc), size = panel_of(w, k);
            for (size_t i = 0; i < x->a.m; i += SIDE) {
                size_t among = i / SIDE % abreast;
                bool last = among + 1 == abreast && i + SIDE < x->a.m;
                for (size_t q = 0; !among && q < abreast && i + q * SIDE < x->a.m; q++)
                    gemm_pack_rows(w, w->a + q * size, i + q * SIDE, p0, k);
                row_panel(w, w->a + among * size, i, (span){j0, n}, (span){p0, k},
                          last ? abreast * SIDE : 0);
            }
            p0 += kc;
        } while (p0 < x->a.n);
    }
}

/* A result in BF16 with more terms than panels have room for: block by block, and each block is
 * summed completely before it is rounded. */
static void by_blocks(const work *w) {
    const smoe_product *x = w->x;
    real sum[SIDE * SIDE];
    for (size_t i = 0; i < x->a.m; i += SIDE)
        for (size_t j = 0; j < x->b.n; j += SIDE)
            for (size_t p0 = 0; p0 < x->a.n; p0 += TERMS) {
                size_t k = min(x->a.n - p0, TERMS);
                smoe_block_end end = end_of(x, 0, k, i, j);
                smoe_epilogue *to = &end.to;
                gemm_pack_rows(w, w->a, i, p0, k);
                pack_columns(w, w->b, j, p0, k);
                w->kern->block(&(smoe_matrix_block){.sums = w->sums,
                                                    .a = w->a,
                                                    .b = w->b,
                                                    .m = end.m,
                                                    .n = end.n,
                                                    .steps = blocks(k, STEP),
                                                    .parts = w->parts});
                if (p0) {
                    to->add = sum;
                    to->ldadd = SIDE;
                    to->bias = NULL;
                }
                if (p0 + k < x->a.n) {
                    to->c = smoe_reals_out(sum);
                    to->ldc = SIDE;
                    to->work = SMOE_GELU_NONE;
                }
                w->kern->finish(&end, w->sums, w->parts);
            }
}

/* What a thread packs. */
typedef struct panels {
    ALIGNED smoe_bf16 a[ROUNDED_A], b[ROUNDED_B];
    ALIGNED real sums[2 * SUMS];
} panels;

/* As panels, for the matrix unit: in blocks of kc terms. */
static void by_unit(const smoe_product *x, size_t kc, size_t parts) {
    panels *room = smoe_thread_room(SMOE_ROOM_PRODUCTS, sizeof *room);
    work w = {.x = x,
              .kern = smoe_kernels_get()->matrix,
              .parts = parts,
              .a = room->a,
              .b = room->b,
              .sums = room->sums};
    w.kern->begin();
    if (kc < x->a.n && is_narrow(x))
        by_blocks(&w);
    else
        by_panels(&w, kc);
    w.kern->end();
}

/* ---- few rows, without panels ---------------------------------------------------------------- */

enum { FEW_TERMS = 1 << 16, FEW_SUMS = 1 << 17 }; /* numbers of A, and of sums */

typedef struct few {
    const smoe_product *x;
    const smoe_kernels *kern;
    size_t rows; /* of A, padded */
    real *a, *sums;
} few;

static bool is_few(const smoe_product *x, size_t kc) {
    return x->precision == SMOE_PRECISION_BF16 && x->a.m <= smoe_kernels_get()->matrix->few &&
           (x->b.row == 1 || x->b.col == 1) && (kc == x->a.n || !is_narrow(x)) &&
           blocks(x->a.m, SMOE_FEW_UNIT) * SMOE_FEW_UNIT * blocks(kc, STEP) * STEP <= FEW_TERMS;
}

/* Terms p .. p+k, of those from p0 on, for columns j to j+SIDE; their sums go to `sums`. */
static void few_block(const few *f, real *sums, size_t j, size_t p0, size_t p, size_t k) {
    const smoe_product *x = f->x;
    smoe_few_block t = {.sums = sums,
                        .begun = p > p0,
                        .a = f->a + (p - p0) * f->rows,
                        .pitch = f->rows,
                        .m = f->rows,
                        .b = columns_of(x, j, SIDE, p, k),
                        .order = f->kern->matrix->order,
                        .ahead = (x->b.row == 1 ? SIDE * x->b.col : STEP * x->b.row) *
                                 values_size(x->b.of)};
    f->kern->few->block(&t);
}

/* After k terms from p0 on: columns j .. j+n of all rows, of which each SIDE have their sums
 * together. */
static void finish_few(const few *f, size_t p0, size_t k, size_t j, size_t n) {
    const smoe_product *x = f->x;
    const real *sums = f->sums;
    for (size_t q = j; q < j + n; q += SIDE, sums += f->rows * SIDE)
        for (size_t i = 0; i < x->a.m; i += SIDE) {
            smoe_block_end end = end_of(x, p0, k, i, q);
            f->kern->matrix->finish(&end, sums + i * SIDE, 1);
        }
    if (p0 + k == x->a.n) finished(x, 0, x->a.m, j, n);
}

/* Weights are read in the order of memory: where the terms of a column are consecutive, SIDE
 * columns at a time; else STEP rows at a time, with sums of all columns. */
static void by_few(const smoe_product *x, size_t kc) {
    real *a = smoe_thread_room(SMOE_ROOM_PRODUCTS, (FEW_TERMS + FEW_SUMS) * sizeof *a);
    real *sums = a + FEW_TERMS;
    few f = {.x = x,
             .kern = smoe_kernels_get(),
             .rows = blocks(x->a.m, SMOE_FEW_UNIT) * SMOE_FEW_UNIT,
             .a = a,
             .sums = sums};
    bool along = x->b.row == 1;
    size_t size = f.rows * SIDE, columns = along ? SIDE : FEW_SUMS / size * SIDE, p0 = 0;
    do { /* k = 0 is one step, which writes add + bias */
        size_t k = min(x->a.n - p0, kc), deep = along ? max(k, 1) : STEP;
        smoe_matrix rows = smoe_matrix_part(x->a, 0, x->a.m, p0, k);
        f.kern->few->pack(a, &rows, f.rows);
        for (size_t j0 = 0; j0 < x->b.n; j0 += columns) {
            size_t n = min(x->b.n - j0, columns);
            if (!k) memset(sums, 0, blocks(n, SIDE) * size * sizeof *sums);
            for (size_t p = 0; p < k; p += deep)
                for (size_t j = 0; j < n; j += SIDE)
                    few_block(&f, sums + j / SIDE * size, j0 + j, p0, p0 + p, min(k - p, deep));
            finish_few(&f, p0, k, j0, n);
        }
        p0 += kc;
    } while (p0 < x->a.n);
}

void smoe_gemm_matrix(const smoe_product *x) {
    size_t parts = x->precision == SMOE_PRECISION_BF16X3 ? 2 : 1, most = ROUNDED_A / SIDE / parts;
    bool whole = is_narrow(x) && x->a.n <= most;
    size_t kc = whole ? x->a.n : even(x->a.n, TERMS / parts, STEP);
    if (is_few(x, kc))
        by_few(x, kc);
    else
        by_unit(x, kc, parts);
    if (x->to.stream) smoe_kernels_get()->gemm->settle();
}
