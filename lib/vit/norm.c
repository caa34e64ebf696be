/* LayerNorm over rows, or over the heads of each row, y = (x - mean) / sqrt(variance + epsilon) * w
 * + b; see layer.h. */
#include "base/team.h"
#include "math/kernels.h"
#include "math/rows.h"
#include "vit/layer.h"

static void norm_init(smoe_norm *l, const smoe_build *build, size_t n, size_t H, bool biased,
                      const char *prefix) {
    l->params = build->params;
    l->n = n;
    l->H = H;
    l->biased = biased;
    l->eps = (real)build->model->norm_eps;
    l->weight = smoe_params_add(l->params, smoe_param_constant(1), 1, &n, "%s%s.weight",
                                build->prefix, prefix);
    if (biased)
        l->bias = smoe_params_add(l->params, smoe_param_constant(0), 1, &n, "%s%s.bias",
                                  build->prefix, prefix);
}

void smoe_norm_init(smoe_norm *l, const smoe_build *build, size_t n, const char *prefix) {
    norm_init(l, build, n, 1, true, prefix);
}

void smoe_norm_heads_init(smoe_norm *l, const smoe_build *build, const char *prefix) {
    const smoe_model_spec *spec = build->model;
    norm_init(l, build, spec->width / spec->heads, spec->heads, spec->qk_norm_form == SMOE_QK_TIMM,
              prefix);
}

void smoe_norm_reserve(smoe_norm *l, size_t R, const smoe_space *space) {
    l->stats = smoe_arena_take(space->keep, R * l->H * 2, sizeof(real));
    l->zeros = l->biased ? NULL : smoe_arena_take(space->keep, l->n, sizeof(real));
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
    return (smoe_norm_weights){smoe_weight(l->params, l->weight),
                               l->biased ? smoe_weight(l->params, l->bias) : l->zeros, l->n,
                               l->eps};
}

/* `count` rows of x from row i on, each of them H rows of the kernel. */
static smoe_norm_rows rows_from(const smoe_norm *l, const real *x, size_t ldx, size_t i,
                                size_t count) {
    return (smoe_norm_rows){x + i * ldx, l->stats + i * 2 * l->H, count * l->H};
}

void smoe_norm_heads_forward(const smoe_norm *l, smoe_outputs y, size_t ldy, const real *x,
                             size_t ldx, size_t R) {
    enum { CHUNK = 1 << 14 }; /* numbers of one task: within the L2 with its neighbours */
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_norm_weights norm = norm_weights(l);
    const size_t whole = l->H * l->n, some = whole < CHUNK ? CHUNK / whole : 1;
    const size_t step = ldx == whole && ldy == whole ? some : 1; /* rows without gaps together */
    if (!l->biased) memset(l->zeros, 0, l->n * sizeof(real));
    SMOE_SHARED(elementwise, R * whole)
    for (size_t i = 0; i < R; i += step) {
        const smoe_norm_rows rows = rows_from(l, x, ldx, i, R - i < step ? R - i : step);
        kern->norm(smoe_outputs_from(y, i * ldy), &rows, &norm);
    }
}

/* The gradients of the weights are summed in fixed parts of the rows. */
static void norm_backward(const smoe_norm *l, real *dx, const real *dy, size_t lddy, const real *x,
                          size_t ldx, size_t R, bool overwrites) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_norm_weights norm = norm_weights(l);
    const size_t n = l->n, whole = l->H * n;
    const bool gaps = ldx != whole || lddy != whole;
    SMOE_SHARED(elementwise, R * whole)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        real *sums = l->parts + p * 2 * n;
        size_t end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(sums, 0, 2 * n * sizeof *sums);
        for (size_t i = R * p / SMOE_ROW_PARTS, count; i < end; i += count) {
            count = gaps ? 1 : end - i;
            const smoe_norm_rows rows = rows_from(l, x, ldx, i, count);
            if (overwrites) memset(dx + i * ldx, 0, count * whole * sizeof *dx);
            kern->norm_backward(dx + i * ldx, sums, sums + n, dy + i * lddy, &rows, &norm);
        }
    }
    real *dw = smoe_gradient(l->params, l->weight);
    real *db = l->biased ? smoe_gradient(l->params, l->bias) : NULL;
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        if (dw) kern->add(dw, l->parts + p * 2 * n, n);
        if (db) kern->add(db, l->parts + (p * 2 + 1) * n, n);
    }
}

void smoe_norm_forward(const smoe_norm *l, smoe_outputs y, const real *x, size_t R) {
    smoe_norm_heads_forward(l, y, l->n, x, l->n, R);
}

void smoe_norm_backward(const smoe_norm *l, real *dx, const real *dy, const real *x, size_t R) {
    norm_backward(l, dx, dy, l->n, x, l->n, R, false);
}

void smoe_norm_heads_backward(const smoe_norm *l, real *dx, const real *dy, size_t lddy,
                              const real *x, size_t ldx, size_t R) {
    norm_backward(l, dx, dy, lddy, x, ldx, R, true);
}
