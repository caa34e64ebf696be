/*
 * One head of attention on few tokens: products, softmax and their gradients in one call, with
 * everything in the L1. The chains of multiply-adds are those of kern_gemm.c and the softmax is
 * that of kern_row.c, and so are the bits.
 */
#include "math/kernels.h"
#include "math/softmax.h"
#include "math/tile.h"
#include "math/transpose.h"

/* Rows that are addressed from one base: with an address per row there would be too few
 * registers. */
enum { FAR = 3, BASES = (HEAD_ROWS + FAR - 1) / FAR };

/* C [m,n] = alpha A B, n a number of whole vectors where B is in place: [k][ldb]. Otherwise B is in
 * panels of NR columns, ldb = 0, the last one narrower if VL columns are enough. */
typedef struct product {
    size_t m, n, k;
    real *c;
    size_t ldc;
    const real *a;
    size_t ra, ca; /* distances of rows and of columns */
    const real *b;
    size_t ldb;
    real alpha;
} product;

/* `rows` rows of C from row i on, nv vectors of columns from j on; `beside`, ra is 1. */
static inline __attribute__((always_inline)) void tile(size_t rows, size_t nv, bool beside,
                                                       const product *x, size_t i, size_t j) {
    vreal sum[HEAD_ROWS][NV] = {{{0}}};
    size_t ra = x->ra, ca = x->ca, ldb = x->ldb ? x->ldb : nv * VL;
    const real *b = x->b + (x->ldb ? j : j * x->k), *base[BASES] = {x->a + i * ra};
#pragma GCC unroll 6
    for (size_t q = 1; q < BASES; q++)
        if (!beside && q * FAR < rows) base[q] = vagain(base[0] + q * FAR * ra);
    for (size_t p = x->k; p; p--, b += ldb) {
        vreal row[NV];
#pragma GCC unroll 2
        for (size_t v = 0; v < nv; v++) row[v] = vload(b + v * VL);
#pragma GCC unroll 16
        for (size_t r = 0; r < rows; r++) {
            vreal ar = vset(base[beside ? 0 : r / FAR][beside ? r : r % FAR * ra]);
#pragma GCC unroll 2
            for (size_t v = 0; v < nv; v++) sum[r][v] += ar * row[v];
        }
#pragma GCC unroll 6
        for (size_t q = 0; q < BASES; q++)
            if (!q || (!beside && q * FAR < rows)) base[q] += ca;
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < nv; v++) {
            size_t left = x->n - j - v * VL;
            tile_finish(x->c + (i + r) * x->ldc + j + v * VL, vrounded(x->alpha * sum[r][v]), NULL,
                        NULL, left < VL ? left : VL, false);
        }
}

static inline __attribute__((always_inline)) void columns(size_t nv, bool beside, const product *x,
                                                          size_t j) {
    size_t i = 0;
    for (; i + HEAD_ROWS <= x->m; i += HEAD_ROWS) tile(HEAD_ROWS, nv, beside, x, i, j);
    for (; i + HEAD_ROWS / 2 <= x->m; i += HEAD_ROWS / 2) tile(HEAD_ROWS / 2, nv, beside, x, i, j);
    for (; i < x->m; i++) tile(1, nv, beside, x, i, j);
}

static inline __attribute__((always_inline)) void multiply_all(bool beside, const product *x) {
    for (size_t j = 0; j < x->n; j += NR)
        if (x->n - j > VL)
            columns(NV, beside, x, j);
        else
            columns(1, beside, x, j);
}

/* A by rows, and A by columns. */
static void attention_multiply(const product *x) {
    multiply_all(false, x);
}
static void multiply_transposed(const product *x) {
    multiply_all(true, x);
}

/* Panels of the transpose of x [T,d]. */
static void attention_pack(real *panels, const real *x, size_t ld, size_t T, size_t d) {
    for (size_t j = 0; j < T; j += NR)
        if (T - j > VL)
            pack_panel(panels + j * d, x + j * ld, false, ld, 1, T - j, d, NR);
        else
            pack_panel(panels + j * d, x + j * ld, false, ld, 1, T - j, d, VL);
}

enum { PANELS_SIZE = (SMOE_HEAD_TOKENS + NR) * SMOE_HEAD_WIDTH };

/* Rows i .. i+n of a matrix of a head. */
static inline void prefetch_rows(const real *rows, size_t width, size_t ld, size_t i, size_t n,
                                 bool written) {
    for (size_t row = i; row < i + n; row++)
        for (size_t j = 0; j < width; j += SMOE_LINE)
            if (written)
                __builtin_prefetch(rows + row * ld + j, 1, 2);
            else
                __builtin_prefetch(rows + row * ld + j, 0, 2);
}

static inline size_t abreast(const smoe_attention_head *x, size_t i) {
    return x->T - i < ABREAST ? x->T - i : ABREAST;
}

static void head_forward(const smoe_attention_head *x, const smoe_attention_head *next) {
    __attribute__((aligned(SMOE_VBYTES))) real keys[PANELS_SIZE];
    size_t T = x->T, d = x->d;
    attention_pack(keys, x->k, x->ldq, T, d);
    attention_multiply(&(product){T, T, d, x->weights, T, x->q, x->ldq, 1, keys, 0, x->scale});
    for (size_t i = 0, n; i < T; i += n) {
        n = abreast(x, i);
        softmax(x->weights + i * T, n, T, T);
        prefetch_rows(next->q, d, x->ldq, i, n, false);
        prefetch_rows(next->k, d, x->ldq, i, n, false);
        prefetch_rows(next->v, d, x->ldv, i, n, false);
        prefetch_rows(next->out, d, x->ldo, i, n, true);
        if (next->weights != x->weights) prefetch_rows(next->weights, T, T, i, n, true);
    }
    attention_multiply(&(product){T, d, T, x->out, x->ldo, x->weights, T, 1, x->v, x->ldv, 1});
}

static void head_backward(const smoe_attention_head *x, const smoe_attention_head *next, real *dz) {
    __attribute__((aligned(SMOE_VBYTES))) real values[PANELS_SIZE];
    size_t T = x->T, d = x->d;
    attention_pack(values, x->v, x->ldv, T, d);
    attention_multiply(&(product){T, T, d, dz, T, x->dout, x->ldo, 1, values, 0, 1});
    multiply_transposed(&(product){T, d, T, x->dv, x->ldv, x->weights, 1, T, x->dout, x->ldo, 1});
    for (size_t i = 0, n; i < T; i += n) {
        n = abreast(x, i);
        softmax_backward(dz + i * T, x->weights + i * T, n, T, T);
        prefetch_rows(next->weights, T, T, i, n, false);
        prefetch_rows(next->dout, d, x->ldo, i, n, false);
        prefetch_rows(next->v, d, x->ldv, i, n, false);
        prefetch_rows(next->dv, d, x->ldv, i, n, true);
        prefetch_rows(next->q, d, x->ldq, i, n, false);
        prefetch_rows(next->dq, d, x->ldq, i, n, true);
        prefetch_rows(next->k, d, x->ldq, i, n, false);
        prefetch_rows(next->dk, d, x->ldq, i, n, true);
    }
    attention_multiply(&(product){T, d, T, x->dq, x->ldq, dz, T, 1, x->k, x->ldq, x->scale});
    multiply_transposed(&(product){T, d, T, x->dk, x->ldq, dz, 1, T, x->q, x->ldq, x->scale});
}

const smoe_attention_kernels SMOE_KERN(smoe_attention_kern);
const smoe_attention_kernels SMOE_KERN(smoe_attention_kern) = {
    .lanes = VL,
    .forward = head_forward,
    .backward = head_backward,
};
