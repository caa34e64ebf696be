/*
 * Kernels of the matrix product: packing, and the register tile. The tile keeps MR x 2 vectors of
 * sums in registers, reads one row of B and broadcasts MR elements of A for each k; every element
 * of C is one chain of multiply-adds in the order of k, whatever the shape around it, which is why
 * results depend neither on threads nor on what else is in a batch.
 */
#include "math/kernels.h"
#include "math/tile.h"
#include "math/transpose.h"

enum { SHALLOW = 128 };

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

/* The next row of B, in registers: the compiler is kept from reading it again for each row of A. */
static inline void load_row(size_t nv, const real *b, vreal row[NV]) {
    row[0] = vrounded(vload(b));
    if (nv > 1) row[1] = vrounded(vload(b + VL));
}

/* Rows of A in place that are addressed from one base: with an address per row there would be too
 * few registers. */
enum { FAR = 3, BASES = (MR + FAR - 1) / FAR };

/* Rows of A times a row of B: rows side by side (of a panel, or the columns of a matrix) from
 * base[0] on, or `ra` apart. The row of B keeps its registers to the end: sums need no moves. */
static inline __attribute__((always_inline)) void step(size_t rows, size_t nv, vreal sum[MR][NV],
                                                       bool beside, const real *const base[BASES],
                                                       size_t ra, const vreal row[NV]) {
#pragma GCC unroll 14
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
static inline void prefetch_row(const smoe_tile *t, size_t i) {
    for (size_t j = 0; j < NR; j += SMOE_LINE) {
        __builtin_prefetch(t->c + i * t->ldc + j, 1, PREFETCH_ROWS ? 2 : 3);
        if (t->add && t->add != t->c) __builtin_prefetch(t->add + i * t->ldadd + j, 0, 2);
    }
}

/* All bases, one step of k farther. */
static inline __attribute__((always_inline)) void advance(size_t rows, bool beside,
                                                          const real *base[BASES], size_t ca) {
#pragma GCC unroll 5
    for (size_t q = 0; q < BASES; q++)
        if (!q || (!beside && q * FAR < rows)) base[q] += ca;
}

/* The sums of a tile with `rows` rows and nv vectors of columns, both constants. ca and ldb are
 * constants too if possible: when the other hyperthread of the core is busy, every instruction of
 * the loop counts. A row of B is loaded one step ahead, but not after the last row, where the array
 * may end. */
static inline __attribute__((always_inline)) void multiply(size_t rows, size_t nv,
                                                           vreal sum[MR][NV], smoe_tile *t,
                                                           bool beside, size_t ca, size_t ldb) {
    if (!t->k) return;
    size_t ra = t->a_row, before = t->k - 1, prefetched = t->stream ? rows : 0;
    bool at_once = !PREFETCH_ROWS || t->k <= SHALLOW;
    smoe_prefetch next = t->prefetch;
    size_t prefetches = prefetches_in(&next, STEPS), pause = pause_of(&next), due = 0;
    const real *b = t->b, *base[BASES] = {t->a};
#pragma GCC unroll 5
    for (size_t q = 1; q < BASES; q++)
        if (!beside && q * FAR < rows) base[q] = vagain(t->a + q * FAR * ra);
    vreal row[NV];
    for (; at_once && prefetched < rows; prefetched++) prefetch_row(t, prefetched);
    load_row(nv, b, row);
    for (size_t rounds = before / STEPS; rounds;) {
        if (!due) {
            for (size_t i = prefetches; i; i--) prefetch(&next);
            due = pause;
        }
        size_t now = due < rounds ? due : rounds;
        if (prefetched < rows) {
            prefetch_row(t, prefetched++);
            now = 1;
        }
        const real *stop = base[0] + now * STEPS * ca;
        due -= now;
        rounds -= now;
        do {
#pragma GCC unroll 4
            for (size_t s = 0; s < STEPS; s++) {
                step(rows, nv, sum, beside, base, ra, row);
                advance(rows, beside, base, ca);
                load_row(nv, b += ldb, row);
            }
        } while (base[0] != stop);
    }
    for (size_t left = before % STEPS; left; left--) {
        step(rows, nv, sum, beside, base, ra, row);
        advance(rows, beside, base, ca);
        load_row(nv, b += ldb, row);
    }
    step(rows, nv, sum, beside, base, ra, row);
    if (prefetches) t->prefetch = next;
}

/* Writes sums of n columns. Callers pass constants where they can: rows then need no branches. */
static inline __attribute__((always_inline)) void put(size_t rows, const smoe_tile *t,
                                                      vreal sum[MR][NV], size_t n, const real *add,
                                                      const real *bias, bool stream) {
    size_t n0 = n < VL ? n : VL, n1 = n - n0, ldc = t->ldc, ldadd = t->ldadd;
    real *c = t->c, alpha = t->alpha;
#pragma GCC unroll 14
    for (size_t i = 0; i < rows; i++) {
        finish(c + i * ldc, sum[i][0], alpha, add ? add + i * ldadd : NULL, bias, n0, stream);
        if (n1)
            finish(c + i * ldc + VL, sum[i][1], alpha, add ? add + i * ldadd + VL : NULL,
                   bias ? bias + VL : NULL, n1, stream);
    }
}

/* A tile with the most rows. */
static inline __attribute__((always_inline)) void high_tile(size_t nv, smoe_tile *t, bool stream) {
    vreal sum[MR][NV] = {{{0}}};
    if (nv == NV && t->a_col == 1 && t->ldb == NR)
        multiply(MR, nv, sum, t, false, 1, NR);
    else if (t->a_col == 1)
        multiply(MR, nv, sum, t, false, 1, t->ldb);
    else if (nv == NV && t->a_col == PITCH && t->ldb == NR)
        multiply(MR, nv, sum, t, true, PITCH, NR);
    else
        multiply(MR, nv, sum, t, true, t->a_col, t->ldb);
    if (t->n != nv * VL)
        put(MR, t, sum, t->n, t->add, t->bias, false);
    else if (t->add && t->bias)
        put(MR, t, sum, nv * VL, t->add, t->bias, false);
    else if (t->add)
        put(MR, t, sum, nv * VL, t->add, NULL, false);
    else if (t->bias)
        put(MR, t, sum, nv * VL, NULL, t->bias, false);
    else if (stream)
        put(MR, t, sum, nv * VL, NULL, NULL, true);
    else
        put(MR, t, sum, nv * VL, NULL, NULL, false);
}

/* A tile with fewer rows: the last ones of a matrix. */
static inline __attribute__((always_inline)) void low_tile(size_t rows, size_t nv, smoe_tile *t,
                                                           bool stream) {
    vreal sum[MR][NV] = {{{0}}};
    if (t->a_col == 1)
        multiply(rows, nv, sum, t, false, 1, t->ldb);
    else
        multiply(rows, nv, sum, t, true, t->a_col, t->ldb);
    put(rows, t, sum, t->n, t->add, t->bias, stream && !t->add && !t->bias && t->n == nv * VL);
}

/* The next rows of C, as many as a tile has; returns how many. Two low tiles are better than a high
 * one and one with very few rows. */
static inline __attribute__((always_inline)) size_t next_rows(size_t nv, smoe_tile *t, size_t left,
                                                              bool stream) {
    if (left >= MR && !(left == 2 * HALF && t->a_next == MR * t->a_row)) {
        high_tile(nv, t, stream);
        return MR;
    }
    if (left >= HALF) {
        low_tile(HALF, nv, t, stream);
        return HALF;
    }
    if (HALF > 4 && left >= 4) {
        low_tile(4, nv, t, stream);
        return 4;
    }
    if (left >= 2) {
        low_tile(2, nv, t, stream);
        return 2;
    }
    low_tile(1, nv, t, stream);
    return 1;
}

static void tiles(smoe_tile *t) {
    bool stream = t->stream && (uintptr_t)t->c % SMOE_VBYTES == 0 && t->ldc % VL == 0;
    for (size_t left = t->m, rows; left; left -= rows) {
        rows = t->n <= VL ? next_rows(1, t, left, stream) : next_rows(NV, t, left, stream);
        t->a += rows == MR ? t->a_next : rows * t->a_row;
        t->c += rows * t->ldc;
        if (t->add) t->add += rows * t->ldadd;
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
static double kern_gemm_peak(size_t n) {
    enum { CHAINS = 12 };
    vreal x[CHAINS], a = vset((real)0.999), b = vset((real)1e-3);
    for (int i = 0; i < CHAINS; i++) x[i] = vset((real)i);
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
