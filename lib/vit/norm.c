/* LayerNorm over rows, y = (x - mean) / sqrt(variance + epsilon) * w + b; see layer.h. */
#include "base/team.h"
#include "math/kernels.h"
#include "math/rows.h"
#include "vit/layer.h"

void smoe_norm_init(smoe_norm *l, const smoe_build *build, size_t n, const char *prefix) {
    l->params = build->params;
    l->n = n;
    l->eps = (real)build->model->norm_eps;
    l->weight = smoe_params_add(l->params, smoe_param_constant(1), 1, &n, "%s%s.weight",
                                build->prefix, prefix);
    l->bias = smoe_params_add(l->params, smoe_param_constant(0), 1, &n, "%s%s.bias", build->prefix,
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

void smoe_norm_cost(const smoe_norm *l, smoe_costs *costs, size_t R) {
    const char *weight = l->params->param[l->weight].name;
    smoe_cost_layer *layer = smoe_costs_add(costs, SMOE_PART_norm, 0, 0, "%.*s",
                                            (int)(strrchr(weight, '.') - weight), weight);
    double numbers = (double)R * (double)l->n;
    layer->elementwise = elementwise * numbers;
    layer->moved_infer = 2 * numbers * sizeof(real);
    layer->moved_train = 6 * numbers * sizeof(real);
}

static smoe_norm_weights norm_weights(const smoe_norm *l) {
    return (smoe_norm_weights){smoe_weight(l->params, l->weight), smoe_weight(l->params, l->bias),
                               l->n, l->eps};
}

void smoe_norm_forward(smoe_norm *l, smoe_outputs y, const real *x, size_t R) {
    const smoe_norm_weights norm = norm_weights(l);
    smoe_rows_norm(y, &(smoe_norm_rows){x, l->stats, R}, &norm);
}

void smoe_norm_backward(smoe_norm *l, real *dx, const real *dy, const real *x, size_t R) {
    const smoe_norm_weights norm = norm_weights(l);
    smoe_rows_norm_backward(dx, smoe_gradient(l->params, l->weight),
                            smoe_gradient(l->params, l->bias), dy,
                            &(smoe_norm_rows){x, l->stats, R}, &norm, l->parts);
}

/* ---- of queries or keys, head by head, whose weights all heads share ------------------------- */

void smoe_qk_norm_init(smoe_qk_norm *l, const smoe_build *build, const char *prefix) {
    const smoe_model_spec *spec = build->model;
    l->params = build->params;
    l->H = spec->heads;
    l->dh = spec->width / spec->heads;
    l->eps = (real)spec->norm_eps;
    l->has_bias = spec->qk_norm_form == SMOE_QK_TIMM;
    l->weight = smoe_params_add(l->params, smoe_param_constant(1), 1, &l->dh, "%s%s.weight",
                                build->prefix, prefix);
    if (l->has_bias)
        l->bias = smoe_params_add(l->params, smoe_param_constant(0), 1, &l->dh, "%s%s.bias",
                                  build->prefix, prefix);
}

void smoe_qk_norm_reserve(smoe_qk_norm *l, size_t R, const smoe_space *space) {
    l->stats = smoe_arena_take(space->keep, R * l->H * 2, sizeof(real));
    l->zeros = l->has_bias ? NULL : smoe_arena_take(space->keep, l->dh, sizeof(real));
    if (space->train)
        l->parts = smoe_arena_take(space->scratch, SMOE_ROW_PARTS * 2 * l->dh, sizeof(real));
}

static smoe_norm_weights qk_norm_weights(const smoe_qk_norm *l) {
    return (smoe_norm_weights){smoe_weight(l->params, l->weight),
                               l->has_bias ? smoe_weight(l->params, l->bias) : l->zeros, l->dh,
                               l->eps};
}

void smoe_qk_norm_forward(smoe_qk_norm *l, real *y, size_t ldy, const real *x, size_t ldx,
                          size_t R) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_norm_weights norm = qk_norm_weights(l);
    if (!l->has_bias) memset(l->zeros, 0, l->dh * sizeof(real));
    SMOE_SHARED(elementwise, R * l->H * l->dh)
    for (size_t row = 0; row < R; row++) {
        const smoe_norm_rows heads = {x + row * ldx, l->stats + row * 2 * l->H, l->H};
        kern->norm(smoe_reals_out(y + row * ldy), &heads, &norm);
    }
}

void smoe_qk_norm_backward(smoe_qk_norm *l, real *dx, const real *dy, size_t lddy, const real *x,
                           size_t ldx, size_t R) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t H = l->H, dh = l->dh;
    const smoe_norm_weights norm = qk_norm_weights(l);
    SMOE_SHARED(elementwise, R * H * dh)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        real *sums = l->parts + p * 2 * dh;
        memset(sums, 0, 2 * dh * sizeof *sums);
        for (size_t row = R * p / SMOE_ROW_PARTS; row < R * (p + 1) / SMOE_ROW_PARTS; row++) {
            const smoe_norm_rows heads = {x + row * ldx, l->stats + row * 2 * H, H};
            memset(dx + row * ldx, 0, H * dh * sizeof *dx);
            kern->norm_backward(dx + row * ldx, sums, sums + dh, dy + row * lddy, &heads, &norm);
        }
    }
    real *dw = smoe_gradient(l->params, l->weight);
    real *db = l->has_bias ? smoe_gradient(l->params, l->bias) : NULL;
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        if (dw) kern->add(dw, l->parts + p * 2 * dh, dh);
        if (db) kern->add(db, l->parts + (p * 2 + 1) * dh, dh);
    }
}
