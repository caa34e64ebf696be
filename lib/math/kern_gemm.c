/*
 * Kernels of the matrix product: packing, and the register tile. The tile keeps MR x 2 vectors of
 * sums in registers, reads one row of B and broadcasts MR elements of A for each k; every element
 * of C is one chain of multiply-adds in the order of k, whatever the shape around it, which is why
 * results depend neither on threads nor on what else is in a batch.
 */
#include "math/kernels.h"
#include "math/tile.h"
#include "math/transpose.h"

enum { SHALLOW = 128 }; /* steps up to which a row of C is prefetched in each */

_Static_assert((int)MR <= (int)SMOE_TILE_ROWS && (int)PITCH <= (int)SMOE_PANEL_PITCH &&
                   (int)VL <= (int)SMOE_PANEL_SPILL,
               "gemm_blocked.c lays out memory by these");

/* Packs whole panels of consecutive columns, all panels of a row at once: a cache line of the row
 * has elements of several panels, and the hardware prefetcher does not detect rows this short. */
static void pack_rows(real *dst, const real *a, size_t cs, size_t panels, size_t k) {
    enum { PREFETCH_DISTANCE = 8 };
    for (size_t p = 0; p < k; p++, a += cs) {
        for (size_t i = 0; i < panels * MR; i += SMOE_LINE)
            __builtin_prefetch(a + PREFETCH_DISTANCE * cs + i);
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

static void pack_b_bf16(real *dst, const smoe_bf16 *b, size_t rs, size_t cs, size_t k, size_t n) {
    pack_panel(dst, b, true, cs, rs, n, k, NR);
}

/* Rows of A in place that are addressed from one base: with an address per row there would be too
 * few registers. */
enum { FAR = 3, BASES = (TALLEST + FAR - 1) / FAR };

/* Rows of A times a row of B: rows side by side (of a panel, or the columns of a matrix) from
 * base[0] on, or `ra` apart. The row of B keeps its registers to the end: sums need no moves, and
 * the compiler is kept from reading it again for each row of A. */
static inline __attribute__((always_inline)) void step(size_t rows, size_t nv, vreal sum[][NV],
                                                       bool beside, const real *const base[BASES],
                                                       size_t ra, const real *b) {
    vreal row[NV] = {vrounded(vload(b))};
    if (nv > 1) row[1] = vrounded(vload(b + VL));
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
        const real *from = base[beside ? 0 : i / FAR];
        size_t at = beside ? i : i % FAR * ra;
        sum[i][0] += vset(from[at]) * row[0];
        if (nv == 1) continue;
        /* In panels, two of three elements of A are memory operands of both multiply-adds instead
         * of being loaded into a register: a separate broadcast is another load of a whole vector,
         * and such loads become slow when the other hyperthread of the core is busy. Rows in place
         * have few steps: there, loading once leaves room for the other loads of a tile. */
        const real *again = OPERANDS && beside && i % 3 ? vagain(from) : from;
        sum[i][1] += vset(again[at]) * row[1];
    }
    vkeep(row[0]);
    if (nv > 1) vkeep(row[1]);
}

/* Prefetches row i of C and what is added to it, for when the sums are ready. */
static inline void prefetch_row(const smoe_tile *t, size_t nv, size_t i) {
    for (size_t j = 0; j < nv * VL; j += SMOE_LINE) {
        __builtin_prefetch(t->c + i * t->ldc + j, 1, PREFETCH_ROWS ? 2 : 3);
        if (t->add && t->add != t->c) __builtin_prefetch(t->add + i * t->ldadd + j, 0, 2);
    }
}

/* The sums of a tile with `rows` rows and nv vectors of columns, both constants. Meanwhile, what is
 * due is prefetched, and a row of C in each step. The loop is as plain as can be: with a loop
 * inside, or another one for steps that are left, the compiler keeps sums in memory. */
static inline __attribute__((always_inline)) void multiply(size_t rows, size_t nv, vreal sum[][NV],
                                                           const smoe_tile *t, bool beside,
                                                           smoe_prefetch *next, size_t *due) {
    size_t ra = t->a_row, ca = beside ? t->a_col : 1, ldb = t->ldb;
    size_t prefetched = t->stream ? rows : 0;
    size_t pause = PREFETCH_ROWS && t->k > SHALLOW ? 3 : 0; /* steps between two rows of C */
    const real *b = t->b, *base[BASES] = {t->a};
#pragma GCC unroll 6
    for (size_t q = 1; q < BASES; q++)
        if (!beside && q * FAR < rows) base[q] = vagain(t->a + q * FAR * ra);
    for (size_t k = t->k; k; k--, b += ldb) {
        if (!--*due) {
            prefetch(next);
            *due = next->every;
        }
        if (prefetched < rows && !(k & pause)) prefetch_row(t, nv, prefetched++);
        step(rows, nv, sum, beside, base, ra, b);
#pragma GCC unroll 6
        for (size_t q = 0; q < BASES; q++)
            if (!q || (!beside && q * FAR < rows)) base[q] += ca;
    }
}

/* Writes sums, of the last vector `last` numbers. Callers pass constants where they can: rows then
 * need no branches. */
static inline __attribute__((always_inline)) void tile_write(size_t rows, size_t nv,
                                                             const smoe_tile *t, vreal sum[][NV],
                                                             size_t last, const real *add,
                                                             const real *bias, bool stream) {
    real *c = t->c;
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++) {
        for (size_t v = 0, j = 0; v < nv; v++, j += VL)
            tile_finish(c + j, sum[i][v], add ? add + j : NULL, bias ? bias + j : NULL,
                        v + 1 < nv ? VL : last, stream);
        c = (real *)vagain(c + t->ldc);
        if (add) add = vagain(add + t->ldadd);
    }
}

/* The same in all other cases, once for all heights. */
static __attribute__((noinline)) void put_any(size_t rows, const smoe_tile *t, vreal sum[][NV]) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < t->n; j += VL)
            tile_finish(t->c + i * t->ldc + j, sum[i][j / VL],
                        t->add ? t->add + i * t->ldadd + j : NULL, t->bias ? t->bias + j : NULL,
                        t->n - j < VL ? t->n - j : VL, false);
}

/* `count` tiles, one below the other; a is `next_a` farther for each. */
static inline __attribute__((always_inline)) void run(size_t rows, size_t nv, bool beside,
                                                      smoe_tile *t, size_t count, size_t next_a) {
    bool whole = t->n == nv * VL;
    bool stream =
        rows == MR && whole && t->stream && (uintptr_t)t->c % SMOE_VBYTES == 0 && t->ldc % VL == 0;
    smoe_prefetch next = t->prefetch;
    size_t due = next.every != 0;
    for (; count; count--) {
        vreal sum[TALLEST][NV] = {{{0}}};
        multiply(rows, nv, sum, t, beside, &next, &due);
        if (t->alpha != 1)
#pragma GCC unroll 16
            for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
                for (size_t v = 0; v < nv; v++) sum[i][v] = vrounded(t->alpha * sum[i][v]);
        if (t->add ? !whole || t->bias : t->bias && !whole) {
            vreal all[TALLEST][NV];
#pragma GCC unroll 16
            for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
                for (size_t v = 0; v < nv; v++) all[i][v] = sum[i][v];
            put_any(rows, t, all);
        } else if (t->add)
            tile_write(rows, nv, t, sum, VL, t->add, NULL, false);
        else if (t->bias)
            tile_write(rows, nv, t, sum, VL, NULL, t->bias, false);
        else if (!whole)
            tile_write(rows, nv, t, sum, t->n - (nv - 1) * VL, NULL, NULL, false);
        else if (stream)
            tile_write(rows, nv, t, sum, VL, NULL, NULL, true);
        else
            tile_write(rows, nv, t, sum, VL, NULL, NULL, false);
        t->a += next_a;
        t->c += rows * t->ldc;
        if (t->add) t->add += rows * t->ldadd;
    }
    t->prefetch = next;
}

/* Tiles of one shape are a function of their own: the compiler then has registers for all of it. A
 * is by rows in place or, as in panels, by columns; slim tiles have one vector of columns. */
#define TILES(rows)                                                                               \
    static __attribute__((noinline)) void rows_##rows(smoe_tile *t, size_t n, size_t a) {         \
        run(rows, NV, false, t, n, a);                                                            \
    }                                                                                             \
    static __attribute__((noinline)) void columns_##rows(smoe_tile *t, size_t n, size_t a) {      \
        run(rows, NV, true, t, n, a);                                                             \
    }                                                                                             \
    static __attribute__((noinline)) void slim_rows_##rows(smoe_tile *t, size_t n, size_t a) {    \
        run(rows, 1, false, t, n, a);                                                             \
    }                                                                                             \
    static __attribute__((noinline)) void slim_columns_##rows(smoe_tile *t, size_t n, size_t a) { \
        run(rows, 1, true, t, n, a);                                                              \
    }
TILES(MR)
TILES(HALF)
TILES(4)
TILES(2)
TILES(1)
/* A panel of one vector has registers for more rows. */
static __attribute__((noinline)) void slim_rows_TALLEST(smoe_tile *t, size_t n, size_t a) {
    run(TALLEST, 1, false, t, n, a);
}
static __attribute__((noinline)) void slim_columns_TALLEST(smoe_tile *t, size_t n, size_t a) {
    run(TALLEST, 1, true, t, n, a);
}

typedef void tiles_down(smoe_tile *t, size_t count, size_t next_a);
#define HEIGHT(rows)                                  \
    {                                                 \
        rows, {                                       \
            {rows_##rows, columns_##rows}, {          \
                slim_rows_##rows, slim_columns_##rows \
            }                                         \
        }                                             \
    }
static const struct height {
    size_t rows;
    tiles_down *down[2][2]; /* for whole and for narrow panels of columns */
} heights[] = {HEIGHT(MR), HEIGHT(HALF), HEIGHT(4), HEIGHT(2), HEIGHT(1)};

/* Two low tiles are better than a high one and one with very few rows. */
static void tiles(smoe_tile *t) {
    bool narrow = t->n <= VL, beside = t->a_col != 1, placed = t->a_next == MR * t->a_row;
    size_t left = t->m;
    if (narrow && placed && left >= TALLEST) {
        (beside ? slim_columns_TALLEST : slim_rows_TALLEST)(t, left / TALLEST, TALLEST * t->a_row);
        left %= TALLEST;
    }
    for (const struct height *h = heights; left; h++) {
        size_t count = left / h->rows;
        if (h->rows == MR && placed && count && left % MR == 2 * HALF - MR) count--;
        if (count)
            h->down[narrow][beside](t, count, h->rows == MR ? t->a_next : h->rows * t->a_row);
        left -= count * h->rows;
    }
}

static void stream(real *to, const real *from, size_t n) {
    if ((uintptr_t)to % SMOE_VBYTES || n % VL)
        memcpy(to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i += VL) vstream(to + i, vload(from + i));
}

/* Twelve independent chains: more than the latency of a multiply-add times the units that do them.
 * The compiler must not know where they begin: one that begins at 1 stays there, and would be left
 * out of the loop. */
static double kern_gemm_peak(size_t n) {
    enum { CHAINS = 12 };
    volatile real first = 0;
    vreal x[CHAINS], a = vset((real)0.999), b = vset((real)1e-3);
    for (int i = 0; i < CHAINS; i++) x[i] = vset(first + (real)i);
    for (size_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) x[i] = x[i] * a + b;
    real sum = 0;
    for (int i = 0; i < CHAINS; i++) sum += vsum(x[i]);
    /* All chains converge to b/(1 - a) = 1; their sum is returned so that the compiler keeps
     * them. */
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
    .prefetch_rows = PREFETCH_ROWS,
    .tiles = tiles,
    .stream = stream,
    .settle = vfence,
    .aliasing = ALIASING,
    .peak = kern_gemm_peak,
    .read_streams = read_streams,
};
