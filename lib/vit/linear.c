/* LayerNorm and linear layers over rows, and dropout; see layer.h. */
#include "base/team.h"
#include "base/rng.h"
#include "math/gemm.h"
#include "math/rows.h"
#include "vit/layer.h"

#include <math.h>
#include <string.h>

static const real NORM_EPS = (real)1e-6;

void smoe_norm_init(smoe_norm *l, const smoe_build *build, size_t n, const char *prefix) {
    l->params = build->params;
    l->n = n;
    l->weight = smoe_params_add(l->params, SMOE_PARAM_PLAIN, 1, 0, 1, &n, "%s.weight", prefix);
    l->bias = smoe_params_add(l->params, SMOE_PARAM_PLAIN, 0, 0, 1, &n, "%s.bias", prefix);
}

void smoe_norm_reserve(smoe_norm *l, size_t R, const smoe_space *space) {
    l->stats = smoe_arena_take(space->keep, 2 * R, sizeof(real));
    if (space->train)
        l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(l->n), sizeof(real));
}

void smoe_norm_forward(smoe_norm *l, real *y, const real *x, size_t R) {
    smoe_rows_norm(y, l->stats, x, smoe_weight(l->params, l->weight),
                   smoe_weight(l->params, l->bias), R, l->n, NORM_EPS);
}

void smoe_norm_backward(smoe_norm *l, real *dx, const real *dy, const real *x, size_t R) {
    smoe_rows_norm_backward(dx, smoe_gradient(l->params, l->weight),
                            smoe_gradient(l->params, l->bias), dy, x, l->stats,
                            smoe_weight(l->params, l->weight), R, l->n, l->parts);
}

void smoe_linear_init(smoe_linear *l, const smoe_build *build, size_t in, size_t out,
                      const char *prefix) {
    l->params = build->params;
    l->in = in;
    l->out = out;
    size_t dim[] = {out, in};
    l->weight = smoe_params_add(l->params, SMOE_PARAM_KERNEL, 0, sqrt(2.0 / (double)(in + out)), 2,
                                dim, "%s.weight", prefix);
    l->bias = smoe_params_add(l->params, SMOE_PARAM_PLAIN, 0, 0, 1, dim, "%s.bias", prefix);
}

void smoe_linear_reserve(smoe_linear *l, const smoe_space *space) {
    if (space->train)
        l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(l->out), sizeof(real));
}

void smoe_linear_forward(const smoe_linear *l, real *y, const real *x, const real *residual,
                         size_t R) {
    smoe_product p = smoe_linear_product(y, x, smoe_weight(l->params, l->weight),
                                         smoe_weight(l->params, l->bias), R, l->out, l->in);
    p.add = residual;
    p.ldadd = l->out;
    smoe_gemm(&p);
}

void smoe_linear_backward(const smoe_linear *l, real *dx, const real *dy, const real *x, size_t R) {
    smoe_product dw =
        smoe_linear_dw_product(smoe_gradient(l->params, l->weight), dy, x, R, l->out, l->in);
    smoe_gemm(&dw);
    smoe_rows_sum(smoe_gradient(l->params, l->bias), dy, R, l->out, l->parts);
    if (!dx) return;
    smoe_product p =
        smoe_linear_dx_product(dx, dy, smoe_weight(l->params, l->weight), R, l->out, l->in);
    smoe_gemm(&p);
}

void smoe_dropout(real *x, size_t size, double rate, uint32_t site, const smoe_pass *pass) {
    enum { RUN = 4096 }; /* elements of one stream */
    if (!pass->train || rate <= 0) return;
    real scale = (real)(1 / (1 - rate));
    SMOE_SHARED(elementwise, size)
    for (size_t r = 0; r < size; r += RUN) {
        smoe_rng rng = smoe_rng_at(pass->seed, SMOE_RNG_DROPOUT, site, pass->step, r / RUN);
        for (size_t i = r; i < size && i < r + RUN; i++)
            x[i] = smoe_rng_uniform(&rng) < rate ? 0 : x[i] * scale;
    }
}
