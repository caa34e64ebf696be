/*
 * Products of few rows with operands in BF16. To pack B for a matrix unit takes longer than to
 * multiply with it, if it is used for few rows only. So DEEP terms of SIDE columns at a time are
 * rounded in registers, into a piece that stays in the L1, and multiplied by the rows in F32. The
 * terms are added in the order of the unit whose blocks this replaces, so the bits are the same.
 */
#include "math/kernels.h"
#include "math/round_bf16.h"
#include "math/transpose.h"

enum {
    SIDE = SMOE_MATRIX_SIDE,
    DEEP = SMOE_MATRIX_DEEP,
    ROWS = SMOE_FEW_UNIT, /* rows of sums in registers, */
    NV = 2,               /* by vectors of columns */
    LINE = 64
};
_Static_assert(SIDE % (NV * VL) == 0, "a piece is a whole number of tiles");

/* A piece of B: [DEEP][SIDE], rounded and widened again. */
typedef real piece[DEEP * SIDE];

/* ---- A --------------------------------------------------------------------------------------- */

static void pack(real *dst, const smoe_matrix *from, size_t pitch) {
    size_t whole = (from->n + DEEP - 1) / DEEP * DEEP;
    memset(dst, 0, whole * pitch * sizeof *dst);
    for (size_t i = 0; i < from->m; i++)
        for (size_t p = 0; p < from->n; p++) {
            size_t at = i * from->row + p * from->col;
            smoe_bf16 term = from->of.bf16 ? from->of.bf16[at] : rounded(from->of.at[at]);
            dst[p * pitch + i] = smoe_bf16_widen(term);
        }
}

/* ---- B --------------------------------------------------------------------------------------- */

/* The general case, element by element. */
static void kern_few_fill(real *to, const smoe_matrix *b, size_t p0) {
    for (size_t p = 0; p < DEEP; p++)
        for (size_t j = 0; j < SIDE; j++) {
            size_t at = j * b->row + (p0 + p) * b->col;
            bool inside = j < b->m && p0 + p < b->n;
            smoe_bf16 term = !inside ? 0 : b->of.bf16 ? b->of.bf16[at] : rounded(b->of.at[at]);
            to[p * SIDE + j] = smoe_bf16_widen(term);
        }
}

/* Columns lie side by side. Prefetches `ahead` bytes farther. */
static inline __attribute__((always_inline)) void
fill_across(real *to, const smoe_matrix *b, bool narrow, size_t p0, size_t ahead) {
    size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real);
    for (size_t p = 0, at = p0 * b->col; p < DEEP; p++, at += b->col) {
        const char *next = (narrow ? (const char *)b->of.bf16 : (const char *)b->of.at) + at * size;
        for (size_t byte = 0; byte < SIDE * size; byte += LINE)
            __builtin_prefetch(next + ahead + byte);
        for (size_t j = 0; j < SIDE; j += VL)
            vstore(to + p * SIDE + j, narrow ? load_widened(b->of.bf16 + at + j)
                                             : as_operands(vload(b->of.at + at + j)));
    }
}

/* Terms lie side by side. The prefetches are spread over the parts of the transposition. */
static inline __attribute__((always_inline)) void fill_along(real *to, const smoe_matrix *b,
                                                             bool narrow, size_t p0, size_t ahead) {
    const size_t size = narrow ? sizeof(smoe_bf16) : sizeof(real), stride = b->row * size;
    const size_t depth = narrow ? TRANSPOSE_DEPTH_BF16 : TRANSPOSE_DEPTH;
    const size_t lines = VL * (DEEP * size / LINE), each = lines * depth / DEEP;
    const char *at = (narrow ? (const char *)b->of.bf16 : (const char *)b->of.at) + p0 * size;
    for (size_t j = 0; j < SIDE; j += VL, at += VL * stride)
        for (size_t p = 0, line = 0; p < DEEP; p += depth) {
            vreal r[TRANSPOSE_DEPTH_BF16];
            for (size_t end = line + each; line < end; line++)
                __builtin_prefetch(at + ahead + line % VL * stride + line / VL * LINE);
            transpose(r, at + p * size, stride, narrow);
#pragma GCC unroll 16
            for (size_t q = 0; q < depth; q++)
                vstore(to + (p + q) * SIDE + j, narrow ? r[q] : as_operands(r[q]));
        }
}

/* Terms p0 .. p0+DEEP of SIDE columns; 0 where there is none. */
static void fill_piece(real *to, const smoe_few_block *t, size_t p0) {
    const smoe_matrix *b = &t->b;
    bool whole = b->m == SIDE && p0 + DEEP <= b->n;
    if (whole && b->row == 1 && b->of.bf16)
        fill_across(to, b, true, p0, t->ahead);
    else if (whole && b->row == 1)
        fill_across(to, b, false, p0, t->ahead);
    else if (whole && b->col == 1 && b->of.bf16)
        fill_along(to, b, true, p0, t->ahead);
    else if (whole && b->col == 1)
        fill_along(to, b, false, p0, t->ahead);
    else
        kern_few_fill(to, b, p0);
}

/* ---- sums ------------------------------------------------------------------------------------ */

typedef vreal tile[ROWS][NV];

/* sum += a b; fused also where the compiler would not fuse it, for the orders of matrix units. */
static inline vreal fused(vreal sum, vreal a, vreal b) {
#if defined __AVX512F__ && !defined SMOE_F64
    return (vreal)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif defined __FMA__ && !defined SMOE_F64
    return (vreal)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
    return sum + a * b;
#endif
}

static inline __attribute__((always_inline)) void add_term(tile sum, const real *a, const real *b,
                                                           bool as_unit) {
    vreal column[NV];
#pragma GCC unroll 2
    for (size_t v = 0; v < NV; v++) column[v] = vload(b + v * VL);
#pragma GCC unroll 4
    for (size_t r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < NV; v++)
            if (as_unit)
                sum[r][v] = fused(sum[r][v], vset(a[r]), column[v]);
            else
                sum[r][v] += vset(a[r]) * column[v];
}

/* DEEP terms of a tile of sums, which continue those in `sums` or, if not `begun`, start from 0. */
static inline __attribute__((always_inline)) void add_terms(real *sums, bool begun, const real *a,
                                                            size_t pitch, const real *b,
                                                            smoe_sum_order order) {
    tile sum = {{{0}}}, odd = {{{0}}};
    if (begun && order != SMOE_ORDER_TILES)
#pragma GCC unroll 4
        for (size_t r = 0; r < ROWS; r++)
#pragma GCC unroll 2
            for (size_t v = 0; v < NV; v++) sum[r][v] = vload(sums + r * SIDE + v * VL);
    for (size_t p = 0; p < DEEP; p += 2, a += 2 * pitch, b += 2 * SIDE)
        if (order == SMOE_ORDER_TERMS) {
            add_term(sum, a, b, false);
            add_term(sum, a + pitch, b + SIDE, false);
        } else if (order == SMOE_ORDER_PAIRS) {
            add_term(sum, a + pitch, b + SIDE, true);
            add_term(sum, a, b, true);
        } else {
            add_term(sum, a, b, true);
            add_term(odd, a + pitch, b + SIDE, true);
        }
#pragma GCC unroll 4
    for (size_t r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < NV; v++) {
            real *to = sums + r * SIDE + v * VL;
            vreal before = begun ? vload(to) : (vreal){0};
            vstore(to, order == SMOE_ORDER_TILES ? before + (sum[r][v] + odd[r][v]) : sum[r][v]);
        }
}

static inline __attribute__((always_inline)) void steps(const smoe_few_block *t,
                                                        smoe_sum_order order) {
    piece b;
    size_t pitch = t->pitch;
    for (size_t p = 0; p < t->b.n; p += DEEP) {
        fill_piece(b, t, p);
        for (size_t i = 0; i < t->m; i += ROWS)
            for (size_t j = 0; j < SIDE; j += NV * VL)
                add_terms(t->sums + i * SIDE + j, t->begun || p, t->a + p * pitch + i, pitch, b + j,
                          order);
    }
}

/* Not inlined: their arithmetic must stay between the two changes of the mode. */
static __attribute__((noinline)) void by_terms(const smoe_few_block *t) {
    steps(t, SMOE_ORDER_TERMS);
}
#if defined __FMA__ && !defined SMOE_F64
enum { ORDERS = true };
static __attribute__((noinline)) void by_pairs(const smoe_few_block *t) {
    steps(t, SMOE_ORDER_PAIRS);
}
static __attribute__((noinline)) void by_tiles(const smoe_few_block *t) {
    steps(t, SMOE_ORDER_TILES);
}

static void kern_few_block(const smoe_few_block *t) {
    enum { ZEROS = 0x8040 }; /* denormal operands and results are 0 */
    if (t->order == SMOE_ORDER_TERMS) {
        by_terms(t);
        return;
    }
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | ZEROS);
    if (t->order == SMOE_ORDER_PAIRS)
        by_pairs(t);
    else
        by_tiles(t);
    _mm_setcsr(mode);
}
#else
enum { ORDERS = false };
static void kern_few_block(const smoe_few_block *t) {
    by_terms(t);
}
#endif

const smoe_few_kernels SMOE_KERN(smoe_few_kern);
const smoe_few_kernels SMOE_KERN(smoe_few_kern) = {
    .orders = ORDERS,
    .pack = pack,
    .block = kern_few_block,
};
