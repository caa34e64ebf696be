/*
 * Kernels of the matrix product: packing, and the register tile. The tile keeps MR x 2 vectors of
 * sums in registers, reads one row of B and broadcasts MR elements of A for each k; every element
 * of C is one chain of multiply-adds in the order of k, whatever the shape around it, which is why
 * results depend neither on threads nor on what else is in a batch.
 */
#include "math/kernels.h"
#include "math/turn.h"

#if SMOE_VBYTES == 64
enum {
    MR = 14,
    HALF = 8,
    LEAST = 4,       /* 28 sums + 2 of B + broadcasts in 32 registers */
    ACROSS2 = 8,     /* columns across two vectors, */
    ACROSS3 = 8,     /* across three, and */
    ACROSS = 48,     /* of a block of them: whole vectors and whole tiles */
    TURNED = VL / 2, /* rows up to which turning columns in registers is faster */
    DEEP = 16,       /* rows of B in registers, */
    GROUP = 8,       /* with sums of so many rows of C */
    PITCH = 16,      /* so that each step of a panel begins a cache line */
    ALIASING = 0,
    AS_IS = false,   /* the addresses of 14 rows do not fit the other registers */
    OPERANDS = true, /* a multiply-add can broadcast what it reads */
    AGAIN = true,    /* ask once more near the use: asked too fast, memory drops questions */
};
#else
enum {
    MR = 6,
    HALF = 4,
    LEAST = 2, /* 12 sums + 2 of B + a broadcast in 16 registers */
    ACROSS2 = 6,
    ACROSS3 = 4,
    ACROSS = 24,
    TURNED = 2,
    DEEP = 8,
    GROUP = 4,
    PITCH = MR,
    ALIASING =
        1024, /* Zen 3: stores whose addresses agree in the lowest bits wait for each other */
    AS_IS = true,
    OPERANDS = false,
    AGAIN = false,
};
#endif
enum {
    NV = 2,
    NR = NV * VL,
    /* What is around the steps of a round is felt where two threads share a core. */
    STEPS = 4,
    ACROSS1 = SMOE_TILE_ACROSS,
    WIDEST = 3, /* vectors of a panel of tile_across */
    ROW = 12,   /* vectors of a row of C: sums, and one for a term of A */
    SHALLOW = 128
};

_Static_assert((int)MR <= (int)SMOE_TILE_ROWS && (int)PITCH <= (int)SMOE_PANEL_PITCH &&
                   (int)ACROSS <= (int)SMOE_BLOCK_ACROSS && (int)VL <= (int)SMOE_PANEL_SPILL,
               "gemm.c lays out memory by these");
_Static_assert((int)TURNED <= (int)HALF, "the rows of tile_turned are a low panel");

/* The part of a panel from the rows at `src`, VL of them and rs apart: k steps, of which up to VL
 * elements have room. */
static inline __attribute__((always_inline)) void pack_turned(real *dst, const void *src,
                                                              bool narrow, size_t rs, size_t k,
                                                              size_t width, size_t room) {
    size_t p = 0, step = narrow ? TURN_BF16 : TURN;
    for (; p + step <= k; p += step) {
        vreal r[TURN_BF16];
        source_turned(r, src, p, rs, narrow);
#pragma GCC unroll 16
        for (size_t q = 0; q < step; q++) {
            real *to = dst + (p + q) * width;
            if (width <= VL || room >= VL)
                vstore(to, r[q]);
            else
                vstore_part(to, r[q], room);
        }
    }
    for (; p < k; p++)
        for (size_t i = 0; i < room && i < VL; i++)
            dst[p * width + i] = source_element(src, i * rs + p, narrow);
}

/* The same where there are fewer rows: the others are zeros. */
static inline __attribute__((always_inline)) void pack_edge(real *dst, const void *src, bool narrow,
                                                            size_t rs, size_t rows, size_t k,
                                                            size_t width, size_t room) {
    enum { LENGTH = 16 };
    real edge[VL * LENGTH] = {0};
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real);
    for (size_t p = 0; p < k; p += LENGTH, dst += LENGTH * width) {
        const char *from = (const char *)src + p * size;
        char *to = (char *)edge;
        size_t n = k - p < LENGTH ? k - p : LENGTH;
        for (size_t i = 0; i < rows; i++, from += rs * size, to += LENGTH * size)
            if (n == LENGTH) /* of constant size: a move, not a call */
                memcpy(to, from, LENGTH * size);
            else
                memcpy(to, from, n * size);
        pack_turned(dst, edge, narrow, LENGTH, n, width, room);
    }
}

/*
 * dst[p*width + i] = src(i, p), i < width; src(i,p) = src[i*rs + p*cs] for i < rows, else 0: the
 * heart of all packings. Whole vectors are stored even where less than one is left of a row: what
 * spills over is the start of the next row, written after it. The buffers have room for the last.
 */
static inline __attribute__((always_inline)) void pack_panel(real *dst, const void *src,
                                                             bool narrow, size_t rs, size_t cs,
                                                             size_t rows, size_t k, size_t width) {
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real);
    if (cs == 1) { /* long rows become columns */
        for (size_t i = 0; i < width; i += VL) {
            const char *from = (const char *)src + i * rs * size;
            if (rows >= i + VL)
                pack_turned(dst + i, from, narrow, rs, k, width, width - i);
            else
                pack_edge(dst + i, from, narrow, rs, rows > i ? rows - i : 0, k, width, width - i);
        }
        return;
    }
    for (size_t p = 0; p < k; p++, dst += width)
        if (rs == 1 && rows >= width && !narrow)
            memcpy(dst, (const real *)src + p * cs, width * sizeof *dst);
        else
            for (size_t i = 0; i < width; i++)
                dst[i] = i < rows ? source_element(src, i * rs + p * cs, narrow) : 0;
}

/* Whole panels out of columns that lie in one piece: all panels of a row at once, since a line of
 * it has elements of more than one; and such short rows are not foreseen by the processor. */
static void pack_rows(real *dst, const real *a, size_t cs, size_t panels, size_t k) {
    enum { AHEAD = 8, LINE = 64 / sizeof(real) };
    for (size_t p = 0; p < k; p++, a += cs) {
        for (size_t i = 0; i < panels * MR; i += LINE) __builtin_prefetch(a + AHEAD * cs + i);
        for (size_t i = 0; i < panels; i++)
            memcpy(dst + (i * k + p) * PITCH, a + i * MR, MR * sizeof *dst);
    }
}

static void pack_a(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k,
                   size_t height) {
    if (rs == 1 && height == MR) {
        size_t whole = m / MR * MR;
        pack_rows(dst, a, cs, m / MR, k);
        dst += whole / MR * PITCH * k;
        a += whole;
        m -= whole;
    }
    for (size_t i = 0; i < m; i += height, dst += (height == MR ? PITCH : height) * k)
        if (height == MR)
            pack_panel(dst, a + i * rs, false, rs, cs, m - i, k, PITCH);
        else
            pack_panel(dst, a + i * rs, false, rs, cs, m - i, k, HALF);
}

static void pack_b(real *dst, const real *b, size_t rs, size_t cs, size_t k, size_t n) {
    pack_panel(dst, b, false, cs, rs, n, k, NR);
}

static void pack_across(real *dst, const real *a, size_t rs, size_t cs, size_t m, size_t k,
                        size_t width) {
    if (width == VL)
        pack_panel(dst, a, false, rs, cs, m, k, VL);
    else if (width == 2 * VL)
        pack_panel(dst, a, false, rs, cs, m, k, 2 * VL);
    else
        pack_panel(dst, a, false, rs, cs, m, k, 3 * VL);
}

static void pack_b_bf16(real *dst, const smoe_bf16 *b, size_t rs, size_t cs, size_t k, size_t n) {
    pack_panel(dst, b, true, cs, rs, n, k, NR);
}

/* c = add + bias + alpha * sum for the first n <= VL columns: one expression for whole and part
 * vectors, and never fused, so that a result does not depend on where in a tile it lies. */
static inline void finish(real *c, vreal sum, real alpha, const real *add, const real *bias,
                          size_t n, bool stream) {
    vreal start = {0};
    if (add) start = n == VL ? vload(add) : vload_part(add, n, 0);
    if (bias) start += n == VL ? vload(bias) : vload_part(bias, n, 0);
    start += vrounded(alpha * sum);
    if (n != VL)
        vstore_part(c, start, n);
    else if (stream)
        vstream(c, start);
    else
        vstore(c, start);
}

/* Two cache lines of what comes next, into the second cache. */
static inline void ask(smoe_ahead *next) {
    __builtin_prefetch(next->at, 0, 2);
    __builtin_prefetch(next->at + 64, 0, 2);
    next->at += next->step;
    if (--next->left) return;
    next->at += next->skip;
    next->left = next->run;
}

/* How often to ask in a round of so many steps of k, if at all; and what is due at step p. */
static inline size_t asks_in(const smoe_ahead *next, size_t steps) {
    return !next->every ? 0 : next->every < steps ? steps / next->every : 1;
}
static inline void ask_due(smoe_ahead *next, size_t p, size_t asks) {
    if (!(p & (next->every - 1)))
        for (; asks; asks--) ask(next);
}

/* The next row of B, in registers: the compiler is kept from reading it again for each row of A. */
static inline void load_row(size_t nv, const real *b, vreal row[NV]) {
    row[0] = vrounded(vload(b));
    if (nv > 1) row[1] = vrounded(vload(b + VL));
}

/* Rows of A, `ra` apart, times a row of B, which keeps its registers to the end: sums need no moves
 * then. */
static inline __attribute__((always_inline)) void
step(size_t rows, size_t nv, vreal sum[MR][NV], const real *a, size_t ra, const vreal row[NV]) {
#pragma GCC unroll 14
    for (size_t i = 0; i < rows; i++) {
        sum[i][0] += vset(a[i * ra]) * row[0];
        if (nv == 1) continue;
        /* Two of three are operands of both multiply-adds, not loaded into a register: loads of
         * whole vectors, such as broadcasts are, are what a busy neighbour slows down. */
        const real *again = OPERANDS && i % 3 ? vagain(a) : a;
        sum[i][1] += vset(again[i * ra]) * row[1];
    }
    vkeep(row[0]);
    if (nv > 1) vkeep(row[1]);
}

/* The sums of a tile with `rows` >= m rows and nv vectors of columns, constants: the fewer, the
 * fewer multiply-adds for nothing. A row of B is loaded a step ahead, but none behind the last,
 * which may be the end of an array. */
static inline __attribute__((always_inline)) void
multiply(size_t rows, size_t nv, vreal sum[MR][NV], smoe_tile *t, size_t ra, size_t ca) {
    if (!t->k) return;
    size_t ldb = t->ldb, before = t->k - 1, asked = t->stream || t->k <= SHALLOW ? t->m : 0;
    smoe_ahead next = t->ahead;
    size_t asks = asks_in(&next, STEPS);
    const real *a = t->a, *b = t->b, *added = t->add == t->c ? NULL : t->add;
    vreal row[NV];
    load_row(nv, b, row);
    for (size_t rounds = before / STEPS; rounds; rounds--) {
        if (asked < t->m) { /* for a row of C and what is added, needed when the sums are there */
            __builtin_prefetch(t->c + asked * t->ldc, 1, 2);
            __builtin_prefetch(t->c + asked * t->ldc + VL, 1, 2);
            if (added) {
                __builtin_prefetch(added + asked * t->ldadd, 0, 2);
                __builtin_prefetch(added + asked * t->ldadd + VL, 0, 2);
            }
            asked++;
        }
        ask_due(&next, rounds * STEPS, asks);
#pragma GCC unroll 4
        for (size_t s = 0; s < STEPS; s++, a += ca) {
            step(rows, nv, sum, a, ra, row);
            load_row(nv, b += ldb, row);
        }
    }
    for (size_t left = before % STEPS; left; left--, a += ca) {
        step(rows, nv, sum, a, ra, row);
        load_row(nv, b += ldb, row);
    }
    step(rows, nv, sum, a, ra, row);
    t->ahead = next;
}

/* Writes m x n sums. The callers say what is constant: nothing is asked about it for each row. */
static inline __attribute__((always_inline)) void put(size_t rows, const smoe_tile *t,
                                                      vreal sum[MR][NV], size_t m, size_t n,
                                                      const real *add, const real *bias,
                                                      bool stream) {
    size_t n0 = n < VL ? n : VL, n1 = n - n0, ldc = t->ldc, ldadd = t->ldadd;
    real *c = t->c, alpha = t->alpha;
#pragma GCC unroll 14
    for (size_t i = 0; i < rows; i++) {
        if (i == m) break;
        finish(c + i * ldc, sum[i][0], alpha, add ? add + i * ldadd : NULL, bias, n0, stream);
        if (n1)
            finish(c + i * ldc + VL, sum[i][1], alpha, add ? add + i * ldadd + VL : NULL,
                   bias ? bias + VL : NULL, n1, stream);
    }
}

static inline __attribute__((always_inline)) void tile_of(size_t rows, size_t nv, smoe_tile *t,
                                                          bool stream) {
    vreal sum[MR][NV] = {{{0}}};
    if (AS_IS && rows == MR && t->a_col == 1)
        multiply(rows, nv, sum, t, t->a_row, 1);
    else
        multiply(rows, nv, sum, t, 1, t->a_col);
    if (t->m < rows || t->n < NR)
        put(rows, t, sum, t->m, t->n, t->add, t->bias, stream);
    else if (t->add && t->bias)
        put(rows, t, sum, rows, NR, t->add, t->bias, stream);
    else if (t->add)
        put(rows, t, sum, rows, NR, t->add, NULL, stream);
    else if (t->bias)
        put(rows, t, sum, rows, NR, NULL, t->bias, stream);
    else if (stream)
        put(rows, t, sum, rows, NR, NULL, NULL, true);
    else
        put(rows, t, sum, rows, NR, NULL, NULL, false);
}

static void tile(smoe_tile *t) {
    bool stream = t->stream && (uintptr_t)t->c % SMOE_VBYTES == 0 && t->ldc % VL == 0;
    if (t->k <= SHALLOW && t->add == t->c) {
        /* Few terms added to C: the time goes into C, whose next tile lies to the right. */
        for (size_t i = 0; i < t->m; i++)
            for (size_t j = NR; j < 2 * NR; j += VL)
                __builtin_prefetch(t->c + i * t->ldc + j, 1, 2);
    }
    /* The smallest there is that has room for m rows and n columns. */
    if (t->m <= LEAST)
        tile_of(LEAST, NV, t, stream);
    else if (t->m <= HALF)
        tile_of(HALF, NV, t, stream);
    else if (t->n <= VL)
        tile_of(MR, 1, t, stream);
    else
        tile_of(MR, NV, t, stream);
}

/* Row p of B's columns times nv vectors of A. */
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

/* `columns` columns of B from j on, of which t->n - j are there, across nv vectors of A's rows: the
 * chains of `tile`, kept by columns of C. They go to `sums`, all of them, or, where that is NULL,
 * into C, which is a panel. */
static inline __attribute__((always_inline)) void
multiply_across(size_t columns, size_t nv, smoe_tile *t, size_t j0, real *sums) {
    const real *column[ACROSS1], *a = t->a;
    vreal sum[ACROSS1][WIDEST] = {{{0}}};
    smoe_ahead next = t->ahead;
    size_t asks = asks_in(&next, STEPS), p = 0, n = t->n - j0;
    for (size_t j = 0; j < columns; j++) column[j] = t->b + (j0 + (j < n ? j : n - 1)) * t->ldb;
    for (; p + STEPS <= t->k; p += STEPS) {
        ask_due(&next, p, asks);
#pragma GCC unroll 4
        for (size_t s = 0; s < STEPS; s++, a += nv * VL)
            step_across(columns, nv, sum, a, column, p + s);
    }
    for (; p < t->k; p++, a += nv * VL) step_across(columns, nv, sum, a, column, p);
    t->ahead = next;
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
        for (size_t i = 0; i < m; i += TURN) {
            vreal r[TURN];
            turn(r, sums + j * width + i, width);
            for (size_t q = 0; q < TURN && i + q < m; q++)
                finish(t->c + (i + q) * t->ldc + j, r[q], t->alpha,
                       t->add ? t->add + (i + q) * t->ldadd + j : NULL,
                       t->bias ? t->bias + j : NULL, n - j < VL ? n - j : VL, false);
        }
}

static void tile_panel(smoe_tile *t) {
    panel_across(t, NULL);
}

static void unpack_across(real *c, size_t ldc, const real *panel, size_t m, size_t n,
                          size_t width) {
    for (size_t j = 0; j < n; j += VL)
        for (size_t i = 0; i < m; i += TURN) {
            vreal r[TURN];
            turn(r, panel + j * width + i, width);
            for (size_t q = 0; q < TURN && i + q < m; q++)
                if (n - j < VL)
                    vstore_part(c + (i + q) * ldc + j, r[q], n - j);
                else
                    vstore(c + (i + q) * ldc + j, r[q]);
        }
}

/* As many of VL rows at each step as steps pass within a line, so that each has its turn: the line
 * after the next, once more. */
static inline void again(const void *b, size_t p, size_t step, size_t stride, bool narrow) {
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real), rows = VL * step * size / 64;
    for (size_t i = 0; i < rows; i++)
        __builtin_prefetch((const char *)b + ((p / step * rows + i) % VL * stride + p) * size +
                           128);
}

/* For `rows` >= m rows, a constant: VL columns of B, turned in registers, a few steps of k at a
 * time. What `tile_across` does for each weight, a broadcast and a multiply-add, takes longer where
 * the rows leave much of a vector empty. */
static inline __attribute__((always_inline)) void turned(size_t rows, smoe_tile *t, bool narrow) {
    const void *b = narrow ? (const void *)t->b_bf16 : t->b;
    const real *a = t->a;
    vreal sum[TURNED] = {{0}};
    smoe_ahead next = t->ahead;
    size_t step = narrow ? TURN_BF16 : TURN, part = step / 4;
    size_t asks = asks_in(&next, part), whole = t->n == VL ? t->k / step * step : 0;
    for (size_t p = 0; p < whole; p += step, a += step * HALF) {
        vreal r[TURN_BF16];
        source_turned(r, b, p, t->ldb, narrow);
#pragma GCC unroll 16
        for (size_t q = 0; q < step; q++) {
            if (q % part == 0) { /* not all at once */
                ask_due(&next, p + q, asks);
                if (AGAIN) again(b, p + q, part, t->ldb, narrow);
            }
#pragma GCC unroll 8
            for (size_t i = 0; i < rows; i++) sum[i] += vset(a[q * HALF + i]) * r[q];
        }
    }
    for (size_t p = whole; p < t->k; p++, a += HALF) {
        real w[VL] = {0};
        for (size_t j = 0; j < t->n; j++) w[j] = source_element(b, j * t->ldb + p, narrow);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) sum[i] += vset(a[i]) * vload(w);
    }
    t->ahead = next;
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
        if (i < t->m)
            finish(t->c + i * t->ldc, sum[i], t->alpha, t->add ? t->add + i * t->ldadd : NULL,
                   t->bias, t->n, false);
}

static void tile_turned(smoe_tile *t) {
    if (2 * t->m <= TURNED && t->b_bf16)
        turned(TURNED / 2, t, true);
    else if (2 * t->m <= TURNED)
        turned(TURNED / 2, t, false);
    else if (t->b_bf16)
        turned(TURNED, t, true);
    else
        turned(TURNED, t, false);
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

/* VL columns of `rows` rows of C from row i on: their sums go on by `depth` steps of k. Meanwhile
 * memory is asked as often, not all at once. */
static inline __attribute__((always_inline)) void down_rows(size_t rows, size_t depth,
                                                            const smoe_tile *t, size_t i, size_t j,
                                                            const real *a, const vreal b[DEEP],
                                                            size_t *asks, smoe_ahead *next) {
    real *sums = t->sums + j * t->m + i * VL;
    vreal sum[GROUP];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) sum[r] = t->begun ? vload(sums + r * VL) : (vreal){0};
#pragma GCC unroll 16
    for (size_t q = 0; q < depth; q++) {
        if (*asks && q % 2 == 0) {
            ask(next);
            --*asks;
        }
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) sum[r] += vset(a[(i + r) * DEEP + q]) * b[q];
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
        if (t->later)
            vstore(sums + r * VL, sum[r]);
        else
            finish(t->c + (i + r) * t->ldc + j, sum[r], t->alpha,
                   t->add ? t->add + (i + r) * t->ldadd + j : NULL, t->bias ? t->bias + j : NULL,
                   VL, false);
}

/* Steps p .. p+depth of a tile. `depth`, a constant, rows of B are read side by side and once; what
 * is read again and again are A and the sums, which stay in the caches. */
static inline __attribute__((always_inline)) void down(size_t depth, smoe_tile *t, size_t p) {
    const real *a = t->a + p, *from = t->b + p * t->ldb;
    smoe_ahead next = t->ahead;
    for (size_t j = 0; j < t->n; j += VL) {
        vreal b[DEEP];
#pragma GCC unroll 16
        for (size_t q = 0; q < depth; q++) b[q] = vrounded(vload(from + q * t->ldb + j));
        size_t asks = depth * VL * sizeof(real) / 128;
        if (AGAIN && t->m <= 2 * GROUP) {
#pragma GCC unroll 16
            for (size_t q = 0; q < depth; q++) __builtin_prefetch(from + q * t->ldb + j + 2 * VL);
        }
        size_t i = 0;
        for (; i + GROUP <= t->m; i += GROUP) down_rows(GROUP, depth, t, i, j, a, b, &asks, &next);
        for (; i + GROUP / 2 <= t->m; i += GROUP / 2)
            down_rows(GROUP / 2, depth, t, i, j, a, b, &asks, &next);
        for (; i < t->m; i++) down_rows(1, depth, t, i, j, a, b, &asks, &next);
    }
    t->ahead = next;
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

/* nv vectors of a row of C, from A's terms and B as they lie. */
static inline __attribute__((always_inline)) void
row_part(size_t nv, const smoe_tile *t, const real *a, const real *b, real *c, bool stream) {
    vreal sum[ROW] = {{0}};
    for (size_t p = 0; p < t->k; p++, a += t->a_col, b += t->ldb) {
        vreal ap = vset(*a);
#pragma GCC unroll 12
        for (size_t v = 0; v < nv; v++) sum[v] += ap * vload(b + v * VL);
    }
#pragma GCC unroll 12
    for (size_t v = 0; v < nv; v++) finish(c + v * VL, sum[v], t->alpha, NULL, NULL, VL, stream);
}

static void tile_rows(smoe_tile *t) {
    bool stream = t->stream && (uintptr_t)t->c % SMOE_VBYTES == 0 && t->ldc % VL == 0;
    for (size_t i = 0; i < t->m; i++) {
        const real *a = t->a + i * t->a_row;
        real *c = t->c + i * t->ldc;
        size_t j = 0;
        for (; j + ROW * VL <= t->n; j += ROW * VL) row_part(ROW, t, a, t->b + j, c + j, stream);
        for (; j + 4 * VL <= t->n; j += 4 * VL) row_part(4, t, a, t->b + j, c + j, stream);
        for (; j < t->n; j += VL) row_part(1, t, a, t->b + j, c + j, stream);
    }
}

static void stream(real *to, const real *from, size_t n) {
    if ((uintptr_t)to % SMOE_VBYTES || n % VL)
        memcpy(to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i += VL) vstream(to + i, vload(from + i));
}

/* Twelve independent chains: more than the latency of a multiply-add times the units that do them.
 */
static double peak(size_t n) {
    enum { CHAINS = 12 };
    vreal x[CHAINS], a = vset((real)0.999), b = vset((real)1e-3);
    for (int i = 0; i < CHAINS; i++) x[i] = vset((real)i);
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = x[i] * a + b;
    real sum = 0;
    for (int i = 0; i < CHAINS; i++) sum += vsum(x[i]);
    /* All chains tend to b/(1 - a) = 1; using the sum keeps the compiler from dropping them. */
    return sum > 0 ? 2.0 * CHAINS * VL * (double)n : 0;
}

static uint32_t read_streams(const char *from, size_t stride, size_t bytes) {
    typedef vint loose __attribute__((aligned(1), may_alias));
    vint bits = {0};
    uint32_t all = 0;
    for (size_t at = 0; at < bytes; at += SMOE_VBYTES)
#pragma GCC unroll 4
        for (size_t s = 0; s < SMOE_STREAMS; s++) bits ^= *(const loose *)(from + s * stride + at);
    for (size_t i = 0; i < VL; i++) all ^= (uint32_t)bits[i];
    return all;
}

const smoe_gemm_kernels SMOE_KERN(smoe_gemm_kern);
const smoe_gemm_kernels SMOE_KERN(smoe_gemm_kern) = {
    .mr = MR,
    .half = HALF,
    .pitch = PITCH,
    .nr = NR,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .pack_b_bf16 = pack_b_bf16,
    .as_is = AS_IS,
    .tile = tile,
    .across = ACROSS,
    .pack_across = pack_across,
    .tile_across = tile_across,
    .tile_panel = tile_panel,
    .unpack_across = unpack_across,
    .turned = TURNED,
    .tile_turned = tile_turned,
    .deep = DEEP,
    .pack_deep = pack_deep,
    .tile_down = tile_down,
    .row = ROW * VL,
    .tile_rows = tile_rows,
    .stream = stream,
    .settle = vfence,
    .aliasing = ALIASING,
    .peak = peak,
    .read_streams = read_streams,
};
