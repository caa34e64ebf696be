/* Linear layers over rows: y = x W^T + b; see layer.h. */
#include "math/gemm.h"
#include "math/rows.h"
#include "vit/layer.h"

#include <math.h>

void smoe_linear_init(smoe_linear *l, const smoe_build *build, size_t in, size_t out,
                      size_t kernels, const char *prefix) {
    l->params = build->params;
    l->precision = &build->precision;
    l->in = in;
    l->out = out;
    size_t dim[] = {out, in};
    double std = sqrt(2.0 / (double)(in + out / kernels));
    l->weight = smoe_params_add(l->params, SMOE_PARAM_KERNEL, 0, std, 2, dim, "%s%s.weight",
                                build->prefix, prefix);
    l->bias = smoe_params_add(l->params, SMOE_PARAM_PLAIN, 0, 0, 1, dim, "%s%s.bias", build->prefix,
                              prefix);
}

void smoe_linear_reserve(smoe_linear *l, const smoe_space *space) {
    if (space->train)
        l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(l->out), sizeof(real));
}

double smoe_linear_macs(const smoe_linear *l, size_t R) {
    return (double)R * (double)l->in * (double)l->out;
}

void smoe_linear_forward(const smoe_linear *l, smoe_outputs y, smoe_values x, const real *residual,
                         size_t R) {
    smoe_product p = smoe_linear_product(y.at, x.at, smoe_weight(l->params, l->weight),
                                         smoe_weight(l->params, l->bias), R, l->out, l->in);
    p.a_bf16 = x.bf16;
    p.c_bf16 = y.bf16;
    p.add = residual;
    p.ldadd = l->out;
    p.precision = *l->precision;
    smoe_gemm(&p);
}

void smoe_linear_backward(const smoe_linear *l, smoe_outputs dx, smoe_values dy, smoe_values x,
                          size_t R) {
    real *dweight = smoe_gradient(l->params, l->weight);
    real *dbias = smoe_gradient(l->params, l->bias);
    smoe_product dw = smoe_linear_dw_product(dweight, dy.at, x.at, R, l->out, l->in);
    dw.a_bf16 = dy.bf16;
    dw.b_bf16 = x.bf16;
    dw.precision = *l->precision;
    if (dweight) smoe_gemm(&dw);
    if (dbias && dy.bf16)
        smoe_rows_sum_bf16(dbias, dy.bf16, R, l->out, l->out, l->parts);
    else if (dbias)
        smoe_rows_sum(dbias, dy.at, R, l->out, l->parts);
    if (!dx.at && !dx.bf16) return;
    smoe_product p =
        smoe_linear_dx_product(dx.at, dy.at, smoe_weight(l->params, l->weight), R, l->out, l->in);
    p.a_bf16 = dy.bf16;
    p.c_bf16 = dx.bf16;
    p.precision = *l->precision;
    smoe_gemm(&p);
}
