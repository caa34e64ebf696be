/*
 * Blocked matrix product after Goto: blocks of B [KC, NC] are packed once and shared, blocks of A
 * [MC, KC] are packed by the thread that uses them, tiles of both meet in registers (kern_gemm.c).
 * Why not BLIS for these: its kernels for small shapes sum in another order than those for large
 * ones, so an image's logits would depend on the size of its batch. BLIS stays the measure of
 * speed (math/blas.c); how the two compare is in experiments/NOTES.md.
 */
#include "math/gemm.h"
#include "math/kernels.h"

#include <omp.h>

enum {
    KC = 256, /* a panel of B, KC x nr, stays in the first cache */
    NC = 512, /* a block of B, KC x NC, in the second */
    MR_MAX = 14,
    NR_MAX = 32,
    PANELS = 8,     /* panels of A in a block, at most */
    TASKS = 4,      /* row blocks a thread, at least where there are enough rows */
    SMALL = 1 << 20 /* multiply-adds below which one thread is faster than several */
};
#define A_ROOM (MR_MAX * PANELS * KC)
#define B_ROOM (KC * NC)
#define ALIGNED __attribute__((aligned(64)))

static size_t min(size_t a, size_t b) {
    return a < b ? a : b;
}
static size_t blocks(size_t n, size_t size) {
    return (n + size - 1) / size;
}

/* One step (p0, j0) of the loops over k and n. */
typedef struct step {
    size_t p0, k, j0, n;
    const real *packed_b;
} step;

static void row_block(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                      size_t i0, size_t m, real *packed_a) {
    kern->pack_a(packed_a, x->a + i0 * x->a_row + s->p0 * x->a_col, x->a_row, x->a_col, m, s->k);
    bool first = s->p0 == 0;
    const real *add = first ? x->add : x->c;
    size_t ldadd = first ? x->ldadd : x->ldc;
    for (size_t j = 0; j < s->n; j += kern->nr)
        for (size_t i = 0; i < m; i += kern->mr) {
            size_t at = i0 + i, col = s->j0 + j;
            kern->tile(x->c + at * x->ldc + col, x->ldc, packed_a + i * s->k,
                       s->packed_b + j * s->k, min(m - i, kern->mr), min(s->n - j, kern->nr), s->k,
                       x->alpha, add ? add + at * ldadd + col : NULL, ldadd,
                       first && x->bias ? x->bias + col : NULL);
        }
}

static void pack_b_panel(const smoe_product *x, const smoe_gemm_kernels *kern, const step *s,
                         size_t j, real *packed_b) {
    kern->pack_b(packed_b + j * s->k, x->b + s->p0 * x->b_row + (s->j0 + j) * x->b_col, x->b_row,
                 x->b_col, s->k, min(s->n - j, kern->nr));
}

/* Visits the steps in order; k = 0 is one step that writes add + bias. */
static bool next_step(const smoe_product *x, step *s, bool begin) {
    if (begin) {
        s->p0 = s->j0 = 0;
    } else {
        s->p0 += KC;
        if (s->p0 >= x->k) {
            s->p0 = 0;
            s->j0 += NC;
        }
    }
    if (s->j0 >= x->n) return false;
    s->k = min(x->k - s->p0, KC);
    s->n = min(x->n - s->j0, NC);
    return true;
}

void smoe_gemm_serial(const smoe_product *x) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    ALIGNED real packed_a[A_ROOM], packed_b[B_ROOM];
    size_t mc = PANELS * kern->mr;
    step s = {.packed_b = packed_b};
    if (!x->m) return;
    for (bool more = next_step(x, &s, true); more; more = next_step(x, &s, false)) {
        for (size_t j = 0; j < s.n; j += kern->nr) pack_b_panel(x, kern, &s, j, packed_b);
        for (size_t i = 0; i < x->m; i += mc)
            row_block(x, kern, &s, i, min(x->m - i, mc), packed_a);
    }
}

void smoe_gemm(const smoe_product *x) {
    const smoe_gemm_kernels *kern = smoe_kernels_get()->gemm;
    size_t threads = (size_t)omp_get_max_threads();
    if (threads == 1 || x->m * x->n * x->k < SMALL) {
        smoe_gemm_serial(x);
        return;
    }
    size_t panels = blocks(x->m, kern->mr), each = panels / (TASKS * threads);
    size_t mc = kern->mr * (each < 1 ? 1 : min(each, PANELS));
    ALIGNED real packed_b[B_ROOM];
#pragma omp parallel
    {
        ALIGNED real packed_a[A_ROOM];
        step s = {.packed_b = packed_b};
        for (bool more = next_step(x, &s, true); more; more = next_step(x, &s, false)) {
#pragma omp for schedule(static)
            for (size_t j = 0; j < s.n; j += kern->nr) pack_b_panel(x, kern, &s, j, packed_b);
#pragma omp for schedule(dynamic, 1)
            for (size_t i = 0; i < x->m; i += mc)
                row_block(x, kern, &s, i, min(x->m - i, mc), packed_a);
        }
    }
}

void smoe_gemm_each(size_t count, smoe_product_maker *make, const void *context) {
    size_t threads = (size_t)omp_get_max_threads();
    if (count < 2 * threads) {
        for (size_t i = 0; i < count; i++) {
            smoe_product product = make(i, context);
            smoe_gemm(&product);
        }
        return;
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < count; i++) {
        smoe_product product = make(i, context);
        smoe_gemm_serial(&product);
    }
}

smoe_product smoe_linear_product(real *y, const real *x, const real *w, const real *bias, size_t R,
                                 size_t out, size_t in) {
    return (smoe_product){.m = R,
                          .n = out,
                          .k = in,
                          .c = y,
                          .ldc = out,
                          .a = x,
                          .a_row = in,
                          .a_col = 1,
                          .b = w,
                          .b_row = 1,
                          .b_col = in,
                          .bias = bias,
                          .alpha = 1};
}

smoe_product smoe_linear_dx_product(real *dx, const real *dy, const real *w, size_t R, size_t out,
                                    size_t in) {
    return (smoe_product){.m = R,
                          .n = in,
                          .k = out,
                          .c = dx,
                          .ldc = in,
                          .a = dy,
                          .a_row = out,
                          .a_col = 1,
                          .b = w,
                          .b_row = in,
                          .b_col = 1,
                          .alpha = 1};
}

smoe_product smoe_linear_dw_product(real *dw, const real *dy, const real *x, size_t R, size_t out,
                                    size_t in) {
    return (smoe_product){.m = out,
                          .n = in,
                          .k = R,
                          .c = dw,
                          .ldc = in,
                          .a = dy,
                          .a_row = 1,
                          .a_col = out,
                          .b = x,
                          .b_row = in,
                          .b_col = 1,
                          .add = dw,
                          .ldadd = in,
                          .alpha = 1};
}
