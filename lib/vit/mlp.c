/*
 * Two-layer MLPs, E of them side by side, each on its own rows: y = gelu(x W1^T + b1) W2^T + b2.
 * The dense MLP of a block is the case E = 1. Of a small layer, GELU's output and its slope are
 * kept, the slope in the place of its input; of a large one the input, from which backward computes
 * both again, which costs less than the memory would.
 */
#include "base/team.h"
#include "math/outer.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "math/fused_mlp.h"
#include "math/rows.h"
#include "vit/layer.h"

#include <assert.h>

smoe_mlp_form smoe_mlp_dense(const smoe_model_spec *model, const char *path, uint32_t site) {
    return (smoe_mlp_form){
        .path = path, .hidden = model->mlp, .dropout = model->dropout, .site = site};
}

void smoe_mlp_init(smoe_mlp *l, const smoe_build *build, const smoe_mlp_form *form) {
    const smoe_model_spec *spec = build->model;
    size_t experts = form->experts, abreast = form->abreast ? form->abreast : 1;
    l->params = build->params;
    l->precision = &build->precision;
    l->E = experts ? experts : 1;
    l->d = spec->width;
    l->h = form->hidden;
    l->gelu = spec->gelu;
    l->dropout = form->dropout;
    l->site = form->site;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s", build->prefix, form->path);
    int axes = experts ? 3 : 2;
    double std = sqrt(2.0 / (double)(l->d + l->h / abreast));
    for (int k = 0; k < 2; k++) {
        size_t dim[] = {l->E, k ? l->d : l->h, k ? l->h : l->d}, *own = experts ? dim : dim + 1;
        l->weight[k] = smoe_params_add(l->params, smoe_param_normal(SMOE_PARAM_KERNEL, std), axes,
                                       own, "%s.fc%d.weight", prefix, k + 1);
        l->bias[k] = smoe_params_add(l->params, smoe_param_constant(0), axes - 1, own,
                                     "%s.fc%d.bias", prefix, k + 1);
    }
    for (size_t i = l->weight[0]; experts && i <= l->bias[1]; i++) {
        l->params->param[i].stacked = true;
        l->params->param[i].alike = spec->moe.expert.init == SMOE_EXPERTS_SHARED;
    }
}

/* Elements from one row of n to the next in BF16: an odd number of cache lines, so that a block of
 * 32 rows, of three buffers at a time, uses all sets of the L1. */
static size_t pitch_of(size_t n) {
    enum { LINE = 64 / sizeof(smoe_bf16) };
    return ((n + LINE - 1) / LINE | 1) * LINE;
}

/* Whether the gradients of both kernels are left as outer products. With several passes per update
 * only where the bits are those of gradients in memory, for these do not depend on the number of
 * processes: not where factors in BF16 would be rounded otherwise. */
static bool leaves_outer(const smoe_mlp *l, size_t rows, const smoe_space *space) {
    const smoe_param *fc1 = &l->params->param[l->weight[0]];
    const smoe_param *fc2 = &l->params->param[l->weight[1]];
    size_t passes = l->params->passes, each = rows / l->E;
    if (!space->train || fc1->frozen || fc2->frozen || !smoe_param_streams(fc1)) return false;
    if (passes <= 1) return passes && smoe_outer_pays(each, l->h, l->d);
    return !space->bf16 && smoe_outer_sum_pays(each, passes, l->h, l->d);
}

/* Memory for the factors of all passes per update, those of other processes included. */
static void reserve_passes(const smoe_mlp *l, smoe_param *p, size_t rows, const smoe_space *space) {
    size_t n = l->params->passes;
    smoe_outer_passes *kept = &p->outer->kept;
    *kept = (smoe_outer_passes){.passes = n, .rows = rows};
    kept->dy = smoe_arena_take(space->keep, n * rows * p->dim[1], sizeof *kept->dy);
    kept->x = smoe_arena_take(space->keep, n * rows * p->dim[2], sizeof *kept->x);
    kept->first = smoe_arena_take(space->keep, n * (l->E + 1), sizeof *kept->first);
}

/* Bytes of a hidden layer of which both GELU's output and its slope are kept. */
enum { SLOPES_MOST = 8 << 20 };

void smoe_mlp_reserve(smoe_mlp *l, size_t each, size_t calls, const smoe_space *space) {
    bool outer = leaves_outer(l, each, space);
    size_t rows = calls * each, widest = l->h > l->d ? l->h : l->d;
    for (int k = 0; k < 2; k++) {
        l->outer[k] = (smoe_outer_gradient){0};
        smoe_param *kernel = &l->params->param[l->weight[k]];
        kernel->outer = outer ? &l->outer[k] : NULL;
        if (outer && l->params->passes > 1) reserve_passes(l, kernel, each, space);
    }
    smoe_arena *factors = smoe_mlp_outer_arena(l, space);
    l->threads = space->threads;
    l->narrow = space->bf16 && l->dropout == 0;
    l->pitch = l->narrow ? pitch_of(l->h) : l->h;
    l->slopes =
        space->train && (!l->narrow || space->wide) && rows * l->h * sizeof(real) <= SLOPES_MOST;
    size_t size = rows * l->pitch;
    l->active = smoe_space_take(space, l->slopes ? space->keep : factors, size, l->narrow);
    l->hidden = l->active;
    l->panels = NULL;
    /* needed by inference on fewer images */
    if (!space->train && (!l->narrow || space->wide) &&
        smoe_fused_mlp_pays(l->E, rows / l->E, l->threads))
        l->panels = smoe_arena_take(
            space->scratch, (size_t)l->threads * smoe_fused_mlp_scratch(rows / l->E, l->d, l->h),
            sizeof(real));
    if (!space->train) return;
    l->hidden = smoe_space_take(space, space->keep, size, l->narrow);
    l->dactive = smoe_space_take(space, factors, size, l->narrow);
    l->dropped = NULL;
    if (l->dropout > 0) l->dropped = smoe_arena_take(space->keep, rows * l->h, sizeof *l->dropped);
    l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(widest), sizeof(real));
}

double smoe_mlp_macs(const smoe_mlp *l, double rows) {
    return 2 * rows * (double)l->d * (double)l->h;
}

double smoe_mlp_elementwise(const smoe_mlp *l, double rows) {
    return 9 * (double)l->h * rows;
}

/* A gradient of up to this many bytes may still be in the caches when the optimiser reads it: the
 * size of a large L3. */
enum { CACHED = 32 << 20 };

/* A buffer of the hidden layer, in the type that this pass keeps, and its rows of a call. */
static size_t hidden_ld(const smoe_mlp *l) {
    return smoe_mlp_narrow(l) ? l->pitch : l->h;
}
static smoe_outputs hidden_of(const smoe_mlp *l, void *buffer, const smoe_mlp_rows *rows) {
    return smoe_outputs_from(smoe_outputs_of(buffer, smoe_mlp_narrow(l)),
                             rows->kept * hidden_ld(l));
}
static smoe_rows hidden_rows(const smoe_mlp *l, void *buffer, const smoe_mlp_rows *rows) {
    return (smoe_rows){smoe_written(hidden_of(l, buffer, rows)), hidden_ld(l)};
}

/* The number of experts that work in a call. */
static size_t experts_working(const smoe_mlp *l, const smoe_mlp_rows *rows) {
    return rows->count ? rows->count : l->E;
}

/* One layer of all experts. */
typedef struct layer {
    const smoe_mlp *mlp;
    const smoe_mlp_rows *rows;
    size_t weight, bias, out, in; /* parameters and sizes */
    smoe_outputs y;
    size_t ldy;
    smoe_rows x;
    const real *residual;
    smoe_gelu_work work; /* other than NONE: on the buffers in BF16 */
    smoe_after *after;   /* of y: gets `mlp` */
} layer;

static layer layer_of(const smoe_mlp *l, const smoe_mlp_rows *rows, bool second, smoe_outputs y,
                      size_t ldy, smoe_rows x) {
    return (layer){.mlp = l,
                   .rows = rows,
                   .weight = l->weight[second],
                   .bias = l->bias[second],
                   .out = second ? l->d : l->h,
                   .in = second ? l->h : l->d,
                   .y = y,
                   .ldy = ldy,
                   .x = x};
}

/* Expert e's rows of n numbers, and its weights [out,in] in one of the two layers. */
static smoe_matrix expert_rows(smoe_rows x, const size_t *first, size_t e, size_t n) {
    smoe_rows from = {smoe_values_from(x.of, first[e] * x.ld), x.ld};
    return smoe_matrix_rows(from, first[e + 1] - first[e], n);
}
static smoe_values expert_weights(const smoe_mlp *l, size_t weight, size_t e) {
    smoe_values w = {smoe_weight(l->params, weight), smoe_weight_bf16(l->params, weight)};
    return smoe_values_from(w, e * l->h * l->d);
}
static smoe_matrix expert_kernel(const layer *x, size_t e) {
    return smoe_matrix_rows((smoe_rows){expert_weights(x->mlp, x->weight, e), x->in}, x->out,
                            x->in);
}

/* y = x B, for expert e. */
static smoe_product expert_product(const layer *x, size_t e, smoe_matrix b) {
    const smoe_mlp *l = x->mlp;
    size_t row = x->rows->first[e];
    smoe_product p = smoe_product_to(smoe_outputs_from(x->y, row * x->ldy), x->ldy,
                                     expert_rows(x->x, x->rows->first, e, b.m), b);
    p.after = x->after;
    p.context = l;
    p.precision = *l->precision;
    p.to.work = x->work;
    p.to.gelu = l->gelu;
    if (x->work == SMOE_GELU_NONE) return p;
    p.to.active = hidden_of(l, l->active, x->rows).bf16 + row * l->pitch;
    if (l->hidden != l->active)
        p.to.hidden = hidden_of(l, l->hidden, x->rows).bf16 + row * l->pitch;
    return p;
}

/* y = x W^T + b + residual */
static smoe_product expert_forward(size_t i, const void *context) {
    const layer *x = context;
    size_t e = x->rows->from + i;
    smoe_product p = expert_product(x, e, smoe_transposed(expert_kernel(x, e)));
    p.to.bias = smoe_weight(x->mlp->params, x->bias) + e * x->out;
    if (x->residual) p.to.add = x->residual + x->rows->first[e] * x->out;
    return p;
}

/* dx = dy W */
static smoe_product expert_dx(size_t i, const void *context) {
    const layer *x = context;
    size_t e = x->rows->from + i;
    return expert_product(x, e, expert_kernel(x, e));
}

/* The gradient of the weights of all experts in one of the two layers. */
typedef struct weights_gradient {
    const size_t *first;
    smoe_precision precision;
    real *dw;        /* [E,out,in] */
    smoe_rows dy, x; /* [rows,out], [rows,in] */
    size_t out, in;
    bool fresh, stream; /* overwritten; too large for the caches to keep */
} weights_gradient;

/* dW = dy^T x + dW, unless it is overwritten */
static smoe_product expert_dw(size_t e, const void *context) {
    const weights_gradient *g = context;
    smoe_product p = smoe_product_added(g->dw + e * g->out * g->in,
                                        smoe_transposed(expert_rows(g->dy, g->first, e, g->out)),
                                        expert_rows(g->x, g->first, e, g->in));
    if (g->fresh) p.to.add = NULL;
    p.to.stream = g->fresh && g->stream;
    p.precision = g->precision;
    return p;
}

/* Copies the factors of this pass to its place among all passes per update. */
static void keep_factors(const smoe_mlp *l, const smoe_param *p, const real *dy, const real *x,
                         const size_t *first, const smoe_pass *pass) {
    const smoe_outer_passes *to = &p->outer->kept;
    size_t out = p->dim[1], in = p->dim[2], begin = first[0], n = first[l->E] - begin;
    size_t i = pass->first / pass->images, row = i * to->rows;
    size_t *first_to = to->first + i * (l->E + 1);
    assert(dy && x); /* in F32, see leaves_outer */
    memcpy(to->dy + row * out, dy + begin * out, n * out * sizeof(real));
    memcpy(to->x + row * in, x + begin * in, n * in * sizeof(real));
    for (size_t e = 0; e <= l->E; e++) first_to[e] = first[e] - begin;
}

/* Leaves the gradient of the weights of one of the two layers as outer products, or describes the
 * products of all experts that are added to it: then the result is true. */
static bool weights_stage(const smoe_mlp *l, bool second, smoe_rows dy, smoe_rows x,
                          const size_t *first, const smoe_pass *pass, weights_gradient *g) {
    smoe_param *p = &l->params->param[l->weight[second]];
    if (p->frozen) return false;
    if (p->outer && p->outer->kept.passes) {
        keep_factors(l, p, dy.of.at, x.of.at, first, pass);
        return false;
    }
    if (p->outer) {
        p->outer->factors = (smoe_outer){dy, x, first};
        return false;
    }
    *g = (weights_gradient){.first = first,
                            .precision = *l->precision,
                            .dw = smoe_gradient(l->params, l->weight[second]),
                            .dy = dy,
                            .x = x,
                            .out = second ? l->d : l->h,
                            .in = second ? l->h : l->d,
                            .fresh = p->fresh,
                            .stream = p->size * sizeof(real) > CACHED};
    p->fresh = false;
    return true;
}

/* db [E,n] += the sums of each expert's rows. Of few experts, counted in all processes, threads
 * share the rows of each. */
static void bias_backward(const smoe_mlp *l, size_t bias, smoe_rows dy, const size_t *first,
                          size_t n) {
    const smoe_param *p = &l->params->param[bias];
    real *db = smoe_gradient(l->params, bias);
    if (!db) return;
    bool each = p->stacked && p->dim[0] >= SMOE_ROW_PARTS;
    for (size_t e = 0; !each && e < l->E; e++)
        smoe_rows_sum(db + e * n, expert_rows(dy, first, e, n), l->parts);
    if (!each) return;
    SMOE_SHARED(elementwise, first[l->E] * n)
    for (size_t e = 0; e < l->E; e++)
        smoe_rows_sum_serial(db + e * n, expert_rows(dy, first, e, n));
}

/* gelu of a part of `hidden`, which its slopes replace if they are kept. */
static void gelu_forward(real *hidden, size_t m, size_t n, const void *context) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_mlp *l = context;
    real *active = (real *)l->active + (hidden - (real *)l->hidden);
    for (size_t i = 0; i < m * l->h; i += l->h)
        if (l->slopes)
            kern->gelu_slopes(active + i, hidden + i, hidden + i, n, l->gelu);
        else
            kern->gelu(active + i, hidden + i, n, l->gelu);
}

/* The same backward, for a part of `dactive`, which becomes the gradient of `hidden`; where slopes
 * are not kept, `active` is computed again. */
static void mlp_gelu_backward(real *dactive, size_t m, size_t n, const void *context) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_mlp *l = context;
    ptrdiff_t at = dactive - (real *)l->dactive;
    real *hidden = (real *)l->hidden + at, *active = (real *)l->active + at;
    for (size_t i = 0; i < m * l->h; i += l->h) {
        real *d = dactive + i;
        if (l->slopes)
            kern->multiply(d, hidden + i, n);
        else
            kern->gelu_backward(d, active + i, d, hidden + i, n, l->gelu);
    }
}

/* Both layers of all experts; `layer` describes the first. */
typedef struct both_layers {
    const smoe_mlp *mlp;
    const smoe_mlp_rows *rows;
    real *y;
    const real *x, *residual;
} both_layers;

static smoe_fused_mlp expert_both(size_t i, const void *context) {
    const both_layers *b = context;
    const smoe_mlp *l = b->mlp;
    const size_t *first = b->rows->first;
    size_t e = b->rows->from + i, at = first[e] * l->d;
    return (smoe_fused_mlp){.m = first[e + 1] - first[e],
                            .d = l->d,
                            .h = l->h,
                            .y = b->y + at,
                            .x = b->x + at,
                            .residual = b->residual ? b->residual + at : NULL,
                            .w1 = expert_weights(l, l->weight[0], e),
                            .w2 = expert_weights(l, l->weight[1], e),
                            .b1 = smoe_weight(l->params, l->bias[0]) + e * l->h,
                            .b2 = smoe_weight(l->params, l->bias[1]) + e * l->d,
                            .gelu = l->gelu};
}

static bool drops(const smoe_mlp *l, const smoe_pass *pass) {
    return pass->train && l->dropout > 0;
}

/* The rows of the experts that work, from *first on. */
static size_t hidden_range(const smoe_mlp *l, const smoe_mlp_rows *rows, size_t *first) {
    *first = rows->first[rows->from];
    return rows->first[rows->from + experts_working(l, rows)] - *first;
}

static void active_dropout(const smoe_mlp *l, const smoe_mlp_rows *rows, const smoe_pass *pass) {
    size_t first, n = hidden_range(l, rows, &first);
    smoe_dropout_forward(
        hidden_of(l, l->active, rows).at + first * l->h, l->dropped + (rows->kept + first) * l->h,
        rows->places ? rows->places + first : NULL, n, l->h, l->dropout, l->site, pass);
}

/* Of the gradient, or of `active` that was computed again. */
static void hidden_dropout(const smoe_mlp *l, void *hidden, const smoe_mlp_rows *rows) {
    size_t first, n = hidden_range(l, rows, &first);
    smoe_dropout_backward(hidden_of(l, hidden, rows).at + first * l->h,
                          l->dropped + (rows->kept + first) * l->h, n, l->h, l->dropout);
}

/* Inference on few rows: both layers of an expert while they are in the cache. */
static bool both_forward(const smoe_mlp *l, real *y, const real *x, const real *residual,
                         const smoe_mlp_rows *rows) {
    const size_t *first = rows->first + rows->from;
    size_t E = experts_working(l, rows), most = 0;
    if (!l->panels || *l->precision != SMOE_PRECISION_F32 ||
        !smoe_fused_mlp_pays(E, (first[E] - first[0]) / E, l->threads))
        return false;
    both_layers both = {l, rows, y, x, residual};
    for (size_t e = 0; e < E; e++)
        if (first[e + 1] - first[e] > most) most = first[e + 1] - first[e];
    smoe_fused_mlp_each(E, most, expert_both, &both, l->panels, l->threads);
    return true;
}

void smoe_mlp_forward(const smoe_mlp *l, smoe_outputs y, smoe_values x, const real *residual,
                      const smoe_mlp_rows *rows, const smoe_pass *pass) {
    bool narrow = smoe_mlp_narrow(l);
    if (both_forward(l, y.at, x.at, residual, rows)) return;
    smoe_outputs hidden = {0};
    if (!narrow) hidden = hidden_of(l, l->hidden, rows);
    layer fc1 = layer_of(l, rows, false, hidden, hidden_ld(l), (smoe_rows){x, l->d});
    layer fc2 = layer_of(l, rows, true, y, l->d, hidden_rows(l, l->active, rows));
    fc1.work = narrow ? SMOE_GELU_FORWARD : SMOE_GELU_NONE;
    fc1.after = narrow ? NULL : gelu_forward;
    fc2.residual = residual;
    smoe_gemm_stage stage[] = {{expert_forward, &fc1}, {expert_forward, &fc2}};
    bool apart = !narrow && drops(l, pass);
    if (apart) {
        smoe_gemm_chain(experts_working(l, rows), stage, 1);
        active_dropout(l, rows, pass);
    }
    smoe_gemm_chain(experts_working(l, rows), stage + apart, 2 - apart);
}

/* dactive from dy; `active` again, which the gradients of the second layer need. */
static layer hidden_layer(const smoe_mlp *l, smoe_values dy, const smoe_mlp_rows *rows,
                          const smoe_pass *pass) {
    bool narrow = smoe_mlp_narrow(l);
    layer fc2 = layer_of(l, rows, true, hidden_of(l, l->dactive, rows), hidden_ld(l),
                         (smoe_rows){dy, l->d});
    fc2.work = narrow ? SMOE_GELU_BACKWARD : SMOE_GELU_NONE;
    fc2.after = narrow || drops(l, pass) ? NULL : mlp_gelu_backward;
    return fc2;
}

static void hidden_backward(const smoe_mlp *l, smoe_values dy, const smoe_mlp_rows *rows,
                            const smoe_pass *pass) {
    layer fc2 = hidden_layer(l, dy, rows, pass);
    smoe_gemm_chain(experts_working(l, rows), &(smoe_gemm_stage){expert_dx, &fc2}, 1);
    if (!drops(l, pass)) return;
    size_t first, n = hidden_range(l, rows, &first);
    real *dactive = hidden_of(l, l->dactive, rows).at;
    hidden_dropout(l, l->dactive, rows);
    SMOE_SHARED(elementwise, n * l->h)
    for (size_t i = first; i < first + n; i++) mlp_gelu_backward(dactive + i * l->h, 1, l->h, l);
    if (!l->slopes) hidden_dropout(l, l->active, rows);
}

void smoe_mlp_backward_input(const smoe_mlp *l, smoe_outputs dx, smoe_values dy,
                             const smoe_mlp_rows *rows, const smoe_pass *pass) {
    layer input = layer_of(l, rows, false, dx, l->d, hidden_rows(l, l->dactive, rows));
    hidden_backward(l, dy, rows, pass);
    smoe_gemm_chain(experts_working(l, rows), &(smoe_gemm_stage){expert_dx, &input}, 1);
}

/* The gradients of all parameters, between the products `hidden` and `input` of each expert, which
 * may be NULL. */
static void parameters_backward(const smoe_mlp *l, smoe_values dy, smoe_values x,
                                const smoe_mlp_rows *rows, const smoe_pass *pass,
                                const layer *hidden, const layer *input) {
    smoe_rows active = hidden_rows(l, l->active, rows), to = {dy, l->d}, from = {x, l->d};
    smoe_rows dhidden = hidden_rows(l, l->dactive, rows);
    weights_gradient g[2];
    smoe_gemm_stage stage[4];
    size_t stages = 0;
    bias_backward(l, l->bias[1], to, rows->first, l->d);
    if (hidden) stage[stages++] = (smoe_gemm_stage){expert_dx, hidden};
    if (weights_stage(l, true, to, active, rows->first, pass, &g[0]))
        stage[stages++] = (smoe_gemm_stage){expert_dw, &g[0]};
    if (weights_stage(l, false, dhidden, from, rows->first, pass, &g[1]))
        stage[stages++] = (smoe_gemm_stage){expert_dw, &g[1]};
    if (input) stage[stages++] = (smoe_gemm_stage){expert_dx, input};
    smoe_gemm_chain(l->E, stage, stages);
    bias_backward(l, l->bias[0], dhidden, rows->first, l->h);
}

void smoe_mlp_backward_weights(const smoe_mlp *l, smoe_values dy, smoe_values x,
                               const smoe_mlp_rows *rows, const smoe_pass *pass) {
    parameters_backward(l, dy, x, rows, pass, NULL, NULL);
}

void smoe_mlp_backward(const smoe_mlp *l, smoe_outputs dx, smoe_values dy, smoe_values x,
                       const smoe_mlp_rows *rows, const smoe_pass *pass) {
    const smoe_outer_gradient *outer = l->params->param[l->weight[0]].outer;
    layer hidden = hidden_layer(l, dy, rows, pass);
    layer input = layer_of(l, rows, false, dx, l->d, hidden_rows(l, l->dactive, rows));
    /* Dropout and copies of factors wait for the hidden layers of all experts. */
    bool apart = drops(l, pass) || (outer && outer->kept.passes);
    if (apart) hidden_backward(l, dy, rows, pass);
    parameters_backward(l, dy, x, rows, pass, apart ? NULL : &hidden, &input);
}
