/* Linear layers over rows: y = x W^T + b; see layer.h. */
#include "math/gemm.h"
#include "math/rows.h"
#include "vit/layer.h"

void smoe_linear_init(smoe_linear *l, const smoe_build *build, size_t in, size_t out,
                      size_t kernels, const char *prefix) {
    l->params = build->params;
    l->precision = &build->precision;
    l->in = in;
    l->out = out;
    size_t dim[] = {out, in};
    double std = sqrt(2.0 / (double)(in + out / kernels));
    l->weight = smoe_params_add(l->params, smoe_param_normal(SMOE_PARAM_KERNEL, std), 2, dim,
                                "%s%s.weight", build->prefix, prefix);
    l->bias = smoe_params_add(l->params, smoe_param_constant(0), 1, dim, "%s%s.bias", build->prefix,
                              prefix);
}

void smoe_linear_reserve(smoe_linear *l, const smoe_space *space) {
    if (space->train)
        l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(l->out), sizeof(real));
}

double smoe_linear_macs(const smoe_linear *l, size_t R) {
    return (double)R * (double)l->in * (double)l->out;
}

/* W [out,in]; and R rows of n numbers. */
static smoe_matrix linear_weight(const smoe_linear *l) {
    return smoe_matrix_of(smoe_weight(l->params, l->weight), l->out, l->in);
}
static smoe_matrix linear_rows(smoe_values x, size_t R, size_t n) {
    return smoe_matrix_rows((smoe_rows){x, n}, R, n);
}

/* y = x W^T + b + residual */
void smoe_linear_forward(const smoe_linear *l, smoe_outputs y, smoe_values x, const real *residual,
                         size_t R) {
    smoe_product p =
        smoe_product_to(y, l->out, linear_rows(x, R, l->in), smoe_transposed(linear_weight(l)));
    p.to.bias = smoe_weight(l->params, l->bias);
    p.to.add = residual;
    p.precision = *l->precision;
    smoe_gemm(p);
}

/* dW += dy^T x, db += the rows of dy, dx = dy W */
void smoe_linear_backward(const smoe_linear *l, smoe_outputs dx, smoe_values dy, smoe_values x,
                          size_t R) {
    real *dweight = smoe_gradient(l->params, l->weight);
    real *dbias = smoe_gradient(l->params, l->bias);
    smoe_matrix to = linear_rows(dy, R, l->out);
    smoe_product dw = smoe_product_added(dweight, smoe_transposed(to), linear_rows(x, R, l->in));
    dw.precision = *l->precision;
    if (dweight) smoe_gemm(dw);
    if (dbias) smoe_rows_sum(dbias, to, l->parts);
    if (!dx.at && !dx.bf16) return;
    smoe_product p = smoe_product_to(dx, l->in, to, linear_weight(l));
    p.precision = *l->precision;
    smoe_gemm(p);
}
