/* LayerNorm over rows, y = (x - mean) / sqrt(variance + epsilon) * w + b; see layer.h. */
#include "math/rows.h"
#include "vit/layer.h"

void smoe_norm_init(smoe_norm *l, const smoe_build *build, size_t n, const char *prefix) {
    l->params = build->params;
    l->n = n;
    l->eps = (real)build->model->norm_eps;
    l->weight = smoe_params_add(l->params, SMOE_PARAM_PLAIN, 1, 0, 1, &n, "%s%s.weight",
                                build->prefix, prefix);
    l->bias = smoe_params_add(l->params, SMOE_PARAM_PLAIN, 0, 0, 1, &n, "%s%s.bias", build->prefix,
                              prefix);
}

void smoe_norm_reserve(smoe_norm *l, size_t R, const smoe_space *space) {
    l->stats = smoe_arena_take(space->keep, 2 * R, sizeof(real));
    if (space->train)
        l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(l->n), sizeof(real));
}

/* FLOPs per number: of the norm, and of biases and residual of the branch that begins with it. A
 * rough count. */
static const double elementwise = 16.5;

void smoe_norm_cost(const smoe_norm *l, smoe_costs *costs, size_t R, const char *name) {
    smoe_cost_layer *layer = smoe_costs_add(costs, SMOE_PART_norm, 0, 0, "%s", name);
    double numbers = (double)R * (double)l->n;
    layer->elementwise = elementwise * numbers;
    layer->moved_infer = 2 * numbers * sizeof(real);
    layer->moved_train = 6 * numbers * sizeof(real);
}

void smoe_norm_forward(smoe_norm *l, smoe_outputs y, const real *x, size_t R) {
    const real *weight = smoe_weight(l->params, l->weight), *bias = smoe_weight(l->params, l->bias);
    if (y.bf16)
        smoe_rows_norm_bf16(y.bf16, l->stats, x, weight, bias, R, l->n, l->eps);
    else
        smoe_rows_norm(y.at, l->stats, x, weight, bias, R, l->n, l->eps);
}

void smoe_norm_backward(smoe_norm *l, real *dx, const real *dy, const real *x, size_t R) {
    smoe_rows_norm_backward(dx, smoe_gradient(l->params, l->weight),
                            smoe_gradient(l->params, l->bias), dy, x, l->stats,
                            smoe_weight(l->params, l->weight), R, l->n, l->parts);
}
