/* Descriptions of products; see gemm.h. How they are computed is in gemm_blocked.c, gemm_skinny.c
 * and gemm_matrix.c. */
#include "math/gemm.h"

smoe_matrix smoe_matrix_of(const real *at, size_t ld) {
    return (smoe_matrix){at, ld, 1};
}

smoe_matrix smoe_transposed(const real *at, size_t ld) {
    return (smoe_matrix){at, 1, ld};
}

smoe_product smoe_product_of(real *c, size_t ldc, size_t m, size_t n, size_t k, smoe_matrix a,
                             smoe_matrix b) {
    return (smoe_product){.m = m,
                          .n = n,
                          .k = k,
                          .c = c,
                          .ldc = ldc,
                          .a = a.at,
                          .a_row = a.row,
                          .a_col = a.col,
                          .b = b.at,
                          .b_row = b.row,
                          .b_col = b.col,
                          .alpha = 1};
}

smoe_product smoe_linear_product(real *y, const real *x, const real *w, const real *bias, size_t R,
                                 size_t out, size_t in) {
    smoe_product p =
        smoe_product_of(y, out, R, out, in, smoe_matrix_of(x, in), smoe_transposed(w, in));
    p.bias = bias;
    return p;
}

smoe_product smoe_linear_dx_product(real *dx, const real *dy, const real *w, size_t R, size_t out,
                                    size_t in) {
    return smoe_product_of(dx, in, R, in, out, smoe_matrix_of(dy, out), smoe_matrix_of(w, in));
}

smoe_product smoe_linear_dw_product(real *dw, const real *dy, const real *x, size_t R, size_t out,
                                    size_t in) {
    smoe_product p =
        smoe_product_of(dw, in, out, in, R, smoe_transposed(dy, out), smoe_matrix_of(x, in));
    p.add = dw;
    p.ldadd = in;
    return p;
}
