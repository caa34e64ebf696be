/*
 * Matrix products: C [m,n] = add + bias + alpha * A B, over the tile kernels of this processor.
 * Every element of C is one chain of multiply-adds in the order of k (in blocks of a fixed length),
 * so its bits depend only on its row of A, its column of B and k: not on threads, not on m or n.
 * Products with operands in BF16 use the matrix unit, which determines the order of their sums.
 */
#ifndef SMOE_GEMM_H
#define SMOE_GEMM_H

#include "base/base.h"
#include "base/bf16.h"
#include "math/gelu.h"
#include "math/precision.h"

/* Work on n columns of rows of C, from c on, while they are in the cache of the thread that
 * computed them. */
typedef void smoe_after(real *c, size_t m, size_t n, const void *context);

/* One product. A is [m,k] with element (i,p) at a[i*a_row + p*a_col], B likewise [k,n]; a transpose
 * is a swap of strides. `add` [m,n] (may be C itself: accumulate) and `bias` [n] may be NULL. */
typedef struct smoe_product {
    size_t m, n, k;
    real *c;
    size_t ldc;
    const real *a;
    size_t a_row, a_col;
    const real *b;
    const smoe_bf16 *b_bf16; /* not NULL: replaces b, and is widened when it is used: the bits of
                                the product are those of the same values in `real` */
    size_t b_row, b_col;
    const real *add;
    size_t ldadd;
    const real *bias;
    real alpha;
    bool stream; /* C is not read soon: it may bypass the caches, if there is no `add` and k is one
                    block */
    /* If not F32: computed by the matrix unit (math/kernels.h), with sums over fixed blocks of k. A
     * and C may then be in BF16 too, if these pointers are not NULL; C in BF16 is rounded once, at
     * the end, and has no `after`. */
    smoe_precision precision;
    const smoe_bf16 *a_bf16;
    smoe_bf16 *c_bf16;
    smoe_gelu_work work; /* with results in BF16; hidden and active [m,n], ldc apart */
    smoe_gelu gelu;
    smoe_bf16 *hidden, *active;
    smoe_after *after; /* may be NULL: what is done with each part of C once it is final */
    const void *context;
} smoe_product;

/* The layout of a factor in memory: element (i,j) of a matrix is at[i*row + j*col]. */
typedef struct smoe_matrix {
    const real *at;
    size_t row, col;
} smoe_matrix;
/* A matrix with consecutive rows, ld elements apart; and the transpose of such a matrix. */
smoe_matrix smoe_matrix_of(const real *at, size_t ld);
smoe_matrix smoe_transposed(const real *at, size_t ld);
/* C [m,n] = A [m,k] B [k,n]; alpha, add, bias and the others are the caller's to set. */
smoe_product smoe_product_of(real *c, size_t ldc, size_t m, size_t n, size_t k, smoe_matrix a,
                             smoe_matrix b);

/* Shared by all threads; not to be called from inside a parallel region. */
void smoe_gemm(const smoe_product *product);
/* By the calling thread only: for use inside parallel regions. The packed sides are in memory of
 * the thread (base/threads.h), 1 MB, or 2 MB where `real` is double. */
void smoe_gemm_serial(const smoe_product *product);
/* `count` products, shared by all threads; make(i, context) describes the i-th. Results must not
 * overlap. */
typedef smoe_product smoe_product_maker(size_t i, const void *context);
void smoe_gemm_each(size_t count, smoe_product_maker *make, const void *context);
/* The same for several stages, where product i of a stage needs only the products i of those
 * before. One thread computes them one after the other, with what they share in its caches, unless
 * there are so few that they are cut. */
typedef struct smoe_gemm_stage {
    smoe_product_maker *make;
    const void *context;
} smoe_gemm_stage;
void smoe_gemm_chain(size_t count, const smoe_gemm_stage *stage, size_t stages);

/* Y [R,out] = X [R,in] W^T + bias, W [out,in]; the common case, as a product. */
smoe_product smoe_linear_product(real *y, const real *x, const real *w, const real *bias, size_t R,
                                 size_t out, size_t in);
/* dX [R,in] = dY [R,out] W (overwrites). */
smoe_product smoe_linear_dx_product(real *dx, const real *dy, const real *w, size_t R, size_t out,
                                    size_t in);
/* dW [out,in] += dY^T X; without its `add`, dW = dY^T X. */
smoe_product smoe_linear_dw_product(real *dw, const real *dy, const real *x, size_t R, size_t out,
                                    size_t in);

#endif
