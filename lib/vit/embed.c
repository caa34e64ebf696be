/*
 * Pixels to tokens: the image is cut into patches, each a row of channels*patch*patch numbers
 * (channel, then row, then column, as the convolution of that stride would read them), projected to
 * width d, plus a position. With head `token` a learnt class token stands before the patches, and
 * after it registers, which are tokens without a position.
 */
#include "base/team.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "vit/layer.h"

void smoe_embed_sincos2d(real *out, size_t side, size_t d) {
    size_t quarter = d / 4;
    for (size_t p = 0; p < side * side; p++, out += d) {
        for (size_t i = 0; i < quarter; i++) {
            double w = pow(10000, quarter > 1 ? -(double)i / (double)(quarter - 1) : 0);
            double across = (double)(p % side) * w, down = (double)(p / side) * w;
            out[i] = (real)sin(across);
            out[quarter + i] = (real)cos(across);
            out[2 * quarter + i] = (real)sin(down);
            out[3 * quarter + i] = (real)cos(down);
        }
    }
}

void smoe_embed_init(smoe_embed *l, const smoe_build *build) {
    const smoe_spec *spec = build->spec;
    l->build = build;
    l->d = spec->model.width;
    l->T = build->T;
    l->patch = spec->model.patch_size;
    l->channels = spec->data.channels;
    l->side = spec->data.image_size / l->patch;
    l->has_token = spec->model.head == SMOE_HEAD_TOKEN;
    l->before = l->has_token + spec->model.registers;
    l->learned = spec->model.position == SMOE_POSITION_LEARNED;
    size_t kernel[] = {l->d, l->channels, l->patch, l->patch}, token[] = {1, 1, l->d};
    size_t registers[] = {1, spec->model.registers, l->d};
    size_t position[] = {1, l->T - spec->model.registers, l->d};
    /* The variance is 1/fan-in, as for a convolution, which this layer is equal to. */
    double std = 1 / sqrt((double)(l->channels * l->patch * l->patch));
    if (l->has_token)
        l->token = smoe_params_add(build->params, smoe_param_constant(0), 3, token, "%scls_token",
                                   build->prefix);
    if (spec->model.registers) /* without positions, registers of the same values would stay so */
        l->registers = smoe_params_add(build->params, smoe_param_normal(SMOE_PARAM_PLAIN, 0.02), 3,
                                       registers, "%sreg_token", build->prefix);
    if (l->learned)
        l->position = smoe_params_add(build->params, smoe_param_normal(SMOE_PARAM_PLAIN, 0.02), 3,
                                      position, "%spos_embed", build->prefix);
    l->weight = smoe_params_add(build->params, smoe_param_normal(SMOE_PARAM_KERNEL, std), 4, kernel,
                                "%spatch_embed.proj.weight", build->prefix);
    l->bias = smoe_params_add(build->params, smoe_param_constant(0), 1, kernel,
                              "%spatch_embed.proj.bias", build->prefix);
    if (!l->learned) l->fixed = smoe_alloc(position[1] * l->d, sizeof *l->fixed);
    if (spec->model.position == SMOE_POSITION_SINCOS2D) /* zero for the class token */
        smoe_embed_sincos2d(l->fixed + l->has_token * l->d, l->side, l->d);
}

static size_t patch_elements(const smoe_embed *l) {
    return l->channels * l->patch * l->patch;
}

void smoe_embed_reserve(smoe_embed *l, const smoe_space *space) {
    l->patches = smoe_arena_take(space->keep, space->B * l->T * patch_elements(l), sizeof(real));
    if (space->train) l->sums = smoe_arena_take(space->scratch, l->T * l->d, sizeof(real));
}

/* The pixels have no gradient. */
void smoe_embed_cost(const smoe_embed *l, smoe_costs *costs) {
    const char *prefix = l->build->prefix;
    double patches = (double)(l->side * l->side);
    smoe_costs_add(costs, SMOE_PART_embed, patches * (double)patch_elements(l) * (double)l->d, 2,
                   "%spatch_embed", prefix);
    if (l->has_token) smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "%scls_token", prefix);
    if (l->before > l->has_token)
        smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "%sreg_token", prefix);
    if (l->learned) smoe_costs_add(costs, SMOE_PART_embed, 0, 0, "%spos_embed", prefix);
}

/* Copies n elements, few at a time: by moves instead of a call. */
static inline void copy_few(real *to, const real *from, size_t n) {
    enum { FEW = 4 };
    size_t i = 0;
    for (; i + FEW <= n; i += FEW) memcpy(to + i, from + i, FEW * sizeof *to);
    for (; i < n; i++) to[i] = from[i];
}

/* Row by row of the image, as it lies in memory: the patches of an image are in the L1. */
static void patches_cut(const smoe_embed *l, real *rows, const real *pixels) {
    size_t n = patch_elements(l), patch = l->patch, lines = l->channels * l->side * patch;
    memset(rows, 0, l->before * n * sizeof *rows);
    rows += l->before * n;
    for (size_t line = 0; line < lines; line++) {
        size_t c = line / (l->side * patch), y = line / patch % l->side, i = line % patch;
        real *to = rows + y * l->side * n + (c * patch + i) * patch;
        for (size_t x = 0; x < l->side; x++, to += n, pixels += patch) copy_few(to, pixels, patch);
    }
}

/* The tokens before the patches of an image. */
static void tokens_put(const smoe_embed *l, real *x, const real *position) {
    const smoe_params *params = l->build->params;
    size_t count = l->before - l->has_token, d = l->d;
    if (l->has_token) {
        const real *token = smoe_weight(params, l->token);
        for (size_t i = 0; i < d; i++) *x++ = token[i] + position[i];
    }
    if (count) memcpy(x, smoe_weight(params, l->registers), count * d * sizeof *x);
}

void smoe_embed_forward(smoe_embed *l, real *x, const real *pixels, size_t B) {
    const smoe_params *params = l->build->params;
    size_t n = patch_elements(l), d = l->d, patches = l->side * l->side;
    const real *position = l->learned ? smoe_weight(params, l->position) : l->fixed;
    SMOE_SHARED(elementwise, B * patches * n)
    for (size_t b = 0; b < B; b++) {
        patches_cut(l, l->patches + b * l->T * n, pixels + b * patches * n);
        memcpy(x + (b * l->T + l->before) * d, position + l->has_token * d,
               patches * d * sizeof *x);
    }
    /* The rows before the patches are computed too, and replaced. */
    smoe_product p =
        smoe_product_added(x, smoe_matrix_of(l->patches, B * l->T, n),
                           smoe_transposed(smoe_matrix_of(smoe_weight(params, l->weight), d, n)));
    p.to.bias = smoe_weight(params, l->bias);
    p.precision = l->build->precision;
    smoe_gemm(p);
    for (size_t b = 0; l->before && b < B; b++) tokens_put(l, x + b * l->T * d, position);
}

void smoe_embed_backward(smoe_embed *l, const real *dx, size_t B) {
    enum { STRIP = 1024 }; /* elements of a sum over images: they stay in the L1 */
    const smoe_params *params = l->build->params;
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t d = l->d, T = l->T;
    /* The rows before the patches are zero, so that they add nothing here. */
    real *dweight = smoe_gradient(params, l->weight), *dbias = smoe_gradient(params, l->bias);
    real *dtoken = l->has_token ? smoe_gradient(params, l->token) : NULL;
    real *dregisters = l->before > l->has_token ? smoe_gradient(params, l->registers) : NULL;
    real *dposition = l->learned ? smoe_gradient(params, l->position) : NULL;
    smoe_product dw = smoe_product_added(dweight, smoe_transposed(smoe_matrix_of(dx, B * T, d)),
                                         smoe_matrix_of(l->patches, B * T, patch_elements(l)));
    dw.precision = l->build->precision;
    if (dweight) smoe_gemm(dw);
    memset(l->sums, 0, T * d * sizeof *dx);
    SMOE_SHARED(elementwise, B * T * d)
    for (size_t i = 0; i < T * d; i += STRIP)
        for (size_t b = 0; b < B; b++)
            kern->add(l->sums + i, dx + b * T * d + i, T * d - i < STRIP ? T * d - i : STRIP);
    const real *patches = l->sums + l->before * d;
    if (dbias) kern->column_sum(dbias, patches, T - l->before, d);
    if (dtoken) kern->add(dtoken, l->sums, d);
    if (dregisters)
        kern->add(dregisters, l->sums + l->has_token * d, (l->before - l->has_token) * d);
    if (dposition && l->has_token) kern->add(dposition, l->sums, d);
    if (dposition) kern->add(dposition + l->has_token * d, patches, (T - l->before) * d);
}

void smoe_embed_free(smoe_embed *l) {
    free(l->fixed);
    l->fixed = NULL;
}
