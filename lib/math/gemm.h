/*
 * Matrix products: C [m,n] = add + bias + alpha * A B, over the tile kernels of this processor.
 * Every element of C is one chain of multiply-adds in the order of k (in blocks of a fixed length),
 * so its bits depend only on its row of A, its column of B and k: not on threads, not on m or n.
 * Products with operands in BF16 use the matrix unit, which determines the order of their sums.
 */
#pragma once

#include "math/matrix.h"
#include "math/precision.h"

/* Work on n columns of rows of C, from c on, while they are in the cache of the thread that
 * computed them. */
typedef void smoe_after(real *c, size_t m, size_t n, const void *context);

typedef struct smoe_product {
    smoe_matrix a, b; /* [m,k], [k,n] */
    smoe_epilogue to; /* C */
    /* F32: A is in `real`; B in BF16 is widened when it is used, so the bits are those of the same
     * values in `real`. Otherwise the matrix unit computes (math/kernels.h), with sums over fixed
     * blocks of k. */
    smoe_precision precision;
    /* What is done with each part of C in `real` once it is final; may be NULL. */
    smoe_after *after;
    const void *context;
} smoe_product;

/* C = A B, rows ldc apart; C = A B and C += A B, without gaps. The rest is the caller's to set. */
smoe_product smoe_product_to(smoe_outputs c, size_t ldc, smoe_matrix a, smoe_matrix b);
smoe_product smoe_product_of(real *c, smoe_matrix a, smoe_matrix b);
smoe_product smoe_product_added(real *c, smoe_matrix a, smoe_matrix b);

/* Shared by all threads; not to be called from inside a parallel region. */
void smoe_gemm(smoe_product product);
/* By the calling thread only: for use inside parallel regions. The packed sides are in memory of
 * the thread (base/threads.h), 1 MB, or 2 MB where `real` is double. */
void smoe_gemm_serial(smoe_product product);
/* `count` products of one shape, shared by all threads: the operands of the next lie so many
 * numbers further on; what is added, as C. Results must not overlap. */
void smoe_gemm_batch(size_t count, smoe_product first, size_t a, size_t b, size_t c);
/* `count` products in each of several stages, shared by all threads; make(i, context) describes the
 * i-th. Product i of a stage may need the products i of those before. One thread computes them one
 * after the other, with what they share in its caches, unless there are so few that they are
 * cut. */
typedef smoe_product smoe_product_maker(size_t i, const void *context);
typedef struct smoe_gemm_stage {
    smoe_product_maker *make;
    const void *context;
} smoe_gemm_stage;
void smoe_gemm_chain(size_t count, const smoe_gemm_stage *stage, size_t stages);
