/*
 * The operands of matrix products, and what becomes of their sums.
 */
#pragma once

#include "base/bf16.h"
#include "math/gelu.h"

/* A matrix [m,n], in `real` or in BF16: element (i,j) is number i*row + j*col of `of`. */
typedef struct smoe_matrix {
    smoe_values of;
    size_t m, n, row, col;
} smoe_matrix;

/* m rows of n numbers; and the same without gaps between the rows. */
static inline smoe_matrix smoe_matrix_rows(smoe_rows x, size_t m, size_t n) {
    return (smoe_matrix){x.of, m, n, x.ld, 1};
}
static inline smoe_matrix smoe_matrix_of(const real *x, size_t m, size_t n) {
    return (smoe_matrix){smoe_reals(x), m, n, n, 1};
}
static inline smoe_matrix smoe_transposed(smoe_matrix x) {
    return (smoe_matrix){x.of, x.n, x.m, x.col, x.row};
}
/* At most m rows from row i on, and n columns from column j on. */
static inline smoe_matrix smoe_matrix_part(smoe_matrix x, size_t i, size_t m, size_t j, size_t n) {
    return (smoe_matrix){smoe_values_from(x.of, i * x.row + j * x.col), x.m - i < m ? x.m - i : m,
                         x.n - j < n ? x.n - j : n, x.row, x.col};
}

/* What becomes of the sums A B: C [m,n] = add + bias + alpha A B. C in BF16 is rounded once, at the
 * end; only products whose precision is not F32 have it. */
typedef struct smoe_epilogue {
    smoe_outputs c;
    size_t ldc;
    const real *add; /* [m,n], rows ldadd apart; NULL, or C itself: accumulate */
    size_t ldadd;
    const real *bias; /* [n], may be NULL */
    real alpha;
    bool stream; /* C is not read soon: it may bypass the caches, if nothing is added and k is one
                    block */
    smoe_gelu_work work; /* with results in BF16; hidden and active [m,n], ldc apart */
    smoe_gelu gelu;
    smoe_bf16 *hidden, *active;
} smoe_epilogue;

/* That of the elements from row i and column j on. */
static inline smoe_epilogue smoe_epilogue_from(const smoe_epilogue *x, size_t i, size_t j) {
    smoe_epilogue from = *x;
    size_t at = i * x->ldc + j;
    from.c = smoe_outputs_from(x->c, at);
    if (x->add) from.add += i * x->ldadd + j;
    if (x->bias) from.bias += j;
    if (x->hidden) from.hidden += at;
    if (x->active) from.active += at;
    return from;
}
