/*
 * Two-layer fused MLPs, E of them side by side, each on its own rows: y = gelu(x W1^T + b1) W2^T +
 * b2. The dense MLP of a block is the case E = 1. Of a small layer, GELU's output and its slope are
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
#include <math.h>
#include <stdio.h>
#include <string.h>

smoe_mlp_form smoe_mlp_dense(const smoe_model_spec *model, const char *path, uint32_t site) {
    return (smoe_mlp_form){
        .path = path, .hidden = model->mlp, .dropout = model->dropout, .site = site};
}

void smoe_mlp_init(smoe_mlp *l, const smoe_build *build, const smoe_mlp_form *form) {
    const smoe_model_spec *spec = build->model;
    size_t experts = form->experts, abreast = form->abreast ? form->abreast : 1;
    l->params = build->params;
    l->precision = &build->precision;
    l->E = l->all = experts ? experts : 1;
    l->d = spec->width;
    l->h = form->hidden;
    l->gelu = spec->gelu;
    l->dropout = form->dropout;
    l->site = form->site;
    l->origins = 1;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s", build->prefix, form->path);
    size_t dim1[] = {l->E, l->h, l->d}, dim2[] = {l->E, l->d, l->h};
    size_t *d1 = experts ? dim1 : dim1 + 1, *d2 = experts ? dim2 : dim2 + 1;
    int axes = experts ? 3 : 2;
    double std = sqrt(2.0 / (double)(l->d + l->h / abreast));
    l->fc1 =
        smoe_params_add(l->params, SMOE_PARAM_KERNEL, 0, std, axes, d1, "%s.fc1.weight", prefix);
    l->fc1_bias =
        smoe_params_add(l->params, SMOE_PARAM_PLAIN, 0, 0, axes - 1, d1, "%s.fc1.bias", prefix);
    l->fc2 =
        smoe_params_add(l->params, SMOE_PARAM_KERNEL, 0, std, axes, d2, "%s.fc2.weight", prefix);
    l->fc2_bias =
        smoe_params_add(l->params, SMOE_PARAM_PLAIN, 0, 0, axes - 1, d2, "%s.fc2.bias", prefix);
    const size_t added[] = {l->fc1, l->fc1_bias, l->fc2, l->fc2_bias};
    for (size_t i = 0; experts && i < 4; i++) {
        smoe_param *p = &l->params->param[added[i]];
        p->stacked = true;
        p->alike = spec->moe.experts_init == SMOE_EXPERTS_SHARED;
    }
}

/* Elements from one row of n to the next in BF16: an odd number of cache lines, so that a block of
 * 32 rows, of three buffers at a time, uses all sets of the L1. */
static size_t pitch_of(size_t n) {
    enum { LINE = 64 / sizeof(smoe_bf16) };
    return ((n + LINE - 1) / LINE | 1) * LINE;
}

/* `factors` is for those of outer-product gradients. */
static void reserve_narrow(smoe_mlp *l, size_t rows, const smoe_space *space, smoe_arena *factors) {
    size_t widest = l->h > l->d ? l->h : l->d;
    l->hidden_bf16 = NULL;
    l->pitch = pitch_of(l->h);
    l->active_bf16 = smoe_arena_take(factors, rows * l->pitch, sizeof(smoe_bf16));
    if (!space->train) return;
    l->hidden_bf16 = smoe_arena_take(space->keep, rows * l->pitch, sizeof(smoe_bf16));
    l->dhidden_bf16 = smoe_arena_take(factors, rows * l->pitch, sizeof(smoe_bf16));
    l->parts = smoe_arena_take(space->scratch, smoe_rows_parts(widest), sizeof(real));
}

/* Whether the gradients of both kernels are left as outer products. With several passes per update
 * only where the bits are those of gradients in memory, for these do not depend on the number of
 * processes: not where factors in BF16 would be rounded otherwise. */
static bool leaves_outer(const smoe_mlp *l, size_t rows, const smoe_space *space) {
    const smoe_param *fc1 = &l->params->param[l->fc1], *fc2 = &l->params->param[l->fc2];
    size_t passes = l->params->passes, each = rows / l->origins / l->E;
    if (!space->train || fc1->frozen || fc2->frozen || !smoe_param_streams(fc1)) return false;
    if (passes <= 1) return passes && smoe_outer_pays(each, l->h, l->d);
    return !space->bf16 && smoe_outer_sum_pays(each, passes, l->h, l->d);
}

/* Memory for the factors of all passes per update, those of other processes included. */
static void reserve_passes(const smoe_mlp *l, smoe_param *p, size_t rows, const smoe_space *space) {
    size_t n = l->params->passes;
    smoe_outer_passes *kept = &p->kept;
    *kept = (smoe_outer_passes){.passes = n, .rows = rows};
    kept->dy = smoe_arena_take(space->keep, n * rows * p->dim[1], sizeof *kept->dy);
    kept->x = smoe_arena_take(space->keep, n * rows * p->dim[2], sizeof *kept->x);
    kept->first = smoe_arena_take(space->keep, n * (l->E + 1), sizeof *kept->first);
}

/* Bytes of a hidden layer of which both GELU's output and its slope are kept. */
enum { SLOPES_MOST = 8 << 20 };

void smoe_mlp_reserve(smoe_mlp *l, size_t rows, const smoe_space *space) {
    smoe_param *param = l->params->param, *kernel[] = {&param[l->fc1], &param[l->fc2]};
    bool outer = leaves_outer(l, rows, space);
    for (int k = 0; k < 2; k++) {
        kernel[k]->outer = outer;
        kernel[k]->factors = (smoe_outer){0};
        kernel[k]->kept = (smoe_outer_passes){0};
        if (outer && l->params->passes > 1) reserve_passes(l, kernel[k], rows / l->origins, space);
    }
    smoe_arena *factors = smoe_mlp_outer_arena(l, space);
    l->panels = NULL;
    l->narrow = space->bf16 && l->dropout == 0;
    if (l->narrow) reserve_narrow(l, rows, space, factors);
    if (l->narrow && !space->wide) return;
    l->slopes = space->train && rows * l->h * sizeof(real) <= SLOPES_MOST;
    l->active = smoe_arena_take(l->slopes ? space->keep : factors, rows * l->h, sizeof(real));
    l->hidden = l->active;
    l->threads = space->threads;
    /* inference on fewer images still uses `active` */
    if (!space->train && smoe_fused_mlp_pays(l->E, rows / l->E, l->threads))
        l->panels = smoe_arena_take(
            space->scratch, (size_t)l->threads * smoe_fused_mlp_scratch(rows / l->E, l->d, l->h),
            sizeof(real));
    if (!space->train) return;
    l->hidden = smoe_arena_take(space->keep, rows * l->h, sizeof(real));
    l->dactive = smoe_arena_take(factors, rows * l->h, sizeof(real));
    l->parts =
        smoe_arena_take(space->scratch, smoe_rows_parts(l->h > l->d ? l->h : l->d), sizeof(real));
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

/* Rows that are ld elements apart. */
typedef struct rows {
    smoe_values of;
    size_t ld;
} rows;

/* One layer of all experts. Pointers are those of expert 0; expert_product advances them. */
typedef struct layer {
    const size_t *first;
    smoe_outputs y;
    rows x;
    const real *w, *bias, *residual;
    const smoe_bf16 *w_bf16; /* if not NULL, used instead of w */
    smoe_gelu_work work;     /* other than NONE: with the mlp's arrays in BF16, in place of y */
    size_t out, in;
    smoe_after *after; /* of y: gets `mlp` */
    const smoe_mlp *mlp;
} layer;

static size_t rows_of(const layer *x, size_t e) {
    return x->first[e + 1] - x->first[e];
}

/* The parts of expert e's product that both layers share; y has `to` columns. */
static smoe_product expert_product(const layer *x, size_t e, smoe_product p, size_t to) {
    const smoe_mlp *l = x->mlp;
    size_t row = x->first[e], hidden = row * l->pitch;
    if (x->y.at) p.c = x->y.at + row * to;
    if (x->y.bf16) p.c_bf16 = x->y.bf16 + row * to;
    p.a_row = x->x.ld;
    if (x->x.of.at) p.a = x->x.of.at + row * x->x.ld;
    if (x->x.of.bf16) p.a_bf16 = x->x.of.bf16 + row * x->x.ld;
    p.after = x->after;
    p.context = l;
    p.precision = *l->precision;
    p.work = x->work;
    p.gelu = l->gelu;
    if (x->work == SMOE_GELU_NONE) return p;
    p.ldc = l->pitch;
    if (l->hidden_bf16) p.hidden = l->hidden_bf16 + hidden;
    p.active = l->active_bf16 + hidden;
    if (x->work == SMOE_GELU_BACKWARD) p.c_bf16 = l->dhidden_bf16 + hidden;
    return p;
}

static smoe_product expert_forward(size_t i, const void *context) {
    const layer *x = context;
    size_t e = x->mlp->from + i;
    smoe_product p = smoe_linear_product(NULL, NULL, x->w ? x->w + e * x->out * x->in : NULL,
                                         x->bias + e * x->out, rows_of(x, e), x->out, x->in);
    if (x->w_bf16) p.b_bf16 = x->w_bf16 + e * x->out * x->in;
    p.add = x->residual ? x->residual + x->first[e] * x->out : NULL;
    p.ldadd = x->out;
    return expert_product(x, e, p, x->out);
}

static smoe_product expert_dx(size_t i, const void *context) {
    const layer *x = context;
    size_t e = x->mlp->from + i;
    return expert_product(
        x, e,
        smoe_linear_dx_product(NULL, NULL, x->w + e * x->out * x->in, rows_of(x, e), x->out, x->in),
        x->in);
}

/* The gradient of the weights of all experts in one of the two layers. */
typedef struct weights_gradient {
    const size_t *first;
    smoe_precision precision;
    real *dw;   /* [E,out,in] */
    rows dy, x; /* [rows,out], [rows,in] */
    size_t out, in;
    bool fresh, stream; /* overwritten; too large for the caches to keep */
} weights_gradient;

static smoe_product expert_dw(size_t e, const void *context) {
    const weights_gradient *g = context;
    size_t row = g->first[e];
    smoe_product p = smoe_linear_dw_product(g->dw + e * g->out * g->in, NULL, NULL,
                                            g->first[e + 1] - row, g->out, g->in);
    size_t to = row * g->dy.ld, from = row * g->x.ld;
    p.a_col = g->dy.ld;
    p.b_row = g->x.ld;
    if (g->dy.of.at) p.a = g->dy.of.at + to;
    if (g->dy.of.bf16) p.a_bf16 = g->dy.of.bf16 + to;
    if (g->x.of.at) p.b = g->x.of.at + from;
    if (g->x.of.bf16) p.b_bf16 = g->x.of.bf16 + from;
    if (g->fresh) p.add = NULL;
    p.stream = g->fresh && g->stream;
    p.precision = g->precision;
    return p;
}

/* Copies the factors of this pass to its place among all passes per update. */
static void keep_factors(const smoe_mlp *l, const smoe_param *p, const real *dy, const real *x,
                         const size_t *first, const smoe_pass *pass) {
    const smoe_outer_passes *to = &p->kept;
    size_t out = p->dim[1], in = p->dim[2], begin = first[0], n = first[l->E] - begin;
    size_t i = (size_t)((ptrdiff_t)(pass->first / pass->images) + l->ahead), row = i * to->rows;
    size_t *first_to = to->first + i * (l->E + 1);
    assert(dy && x); /* in F32, see leaves_outer */
    memcpy(to->dy + row * out, dy + begin * out, n * out * sizeof(real));
    memcpy(to->x + row * in, x + begin * in, n * in * sizeof(real));
    for (size_t e = 0; e <= l->E; e++) first_to[e] = first[e] - begin;
}

/* Adds to the gradient of `weights`, a parameter of the layer, or leaves it as outer products. */
static void weights_backward(const smoe_mlp *l, size_t weights, rows dy, rows x,
                             const size_t *first, const smoe_pass *pass) {
    smoe_param *p = &l->params->param[weights];
    if (p->frozen) return;
    if (p->kept.passes) {
        keep_factors(l, p, dy.of.at, x.of.at, first, pass);
        return;
    }
    if (p->outer) {
        p->factors = (smoe_outer){{dy.of, dy.ld}, {x.of, x.ld}, first};
        return;
    }
    weights_gradient g = {.first = first,
                          .precision = *l->precision,
                          .dw = smoe_gradient(l->params, weights),
                          .dy = dy,
                          .x = x,
                          .out = weights == l->fc1 ? l->h : l->d,
                          .in = weights == l->fc1 ? l->d : l->h,
                          .fresh = p->fresh,
                          .stream = p->size * sizeof(real) > CACHED};
    smoe_gemm_each(l->E, expert_dw, &g);
    p->fresh = false;
}

/* db [E,n] += the sums of each expert's rows. Few experts in the layer, here or elsewhere: threads
 * share the rows of each. */
static void bias_backward(const smoe_mlp *l, real *db, rows dy, const size_t *first, size_t n) {
    if (!db) return;
    if (l->all < SMOE_ROW_PARTS) {
        for (size_t e = 0; e < l->E; e++) {
            size_t at = first[e] * dy.ld, R = first[e + 1] - first[e];
            if (dy.of.bf16)
                smoe_rows_sum_bf16(db + e * n, dy.of.bf16 + at, R, n, dy.ld, l->parts);
            else
                smoe_rows_sum(db + e * n, dy.of.at + at, R, n, l->parts);
        }
        return;
    }
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    SMOE_SHARED(elementwise, first[l->E] * n)
    for (size_t e = 0; e < l->E; e++) {
        size_t at = first[e] * dy.ld, R = first[e + 1] - first[e];
        if (dy.of.bf16)
            smoe_rows_add_bf16(db + e * n, dy.of.bf16 + at, R, n, dy.ld);
        else
            kern->column_sum(db + e * n, dy.of.at + at, R, n);
    }
}

/* gelu of a part of `hidden`, which its slopes replace if they are kept. */
static void activate(real *hidden, size_t m, size_t n, const void *context) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_mlp *l = context;
    real *active = l->active + (hidden - l->hidden);
    for (size_t i = 0; i < m * l->h; i += l->h)
        if (l->slopes)
            kern->gelu_slopes(active + i, hidden + i, hidden + i, n, l->gelu);
        else
            kern->gelu(active + i, hidden + i, n, l->gelu);
}

/* The same backward, for a part of `dactive`, which becomes the gradient of `hidden`; where slopes
 * are not kept, `active` is computed again. */
static void activate_backward(real *dactive, size_t m, size_t n, const void *context) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_mlp *l = context;
    ptrdiff_t at = dactive - l->dactive;
    for (size_t i = 0; i < m * l->h; i += l->h) {
        real *d = dactive + i;
        if (l->slopes)
            kern->multiply(d, l->hidden + at + i, n);
        else
            kern->gelu_backward(d, l->active + at + i, d, l->hidden + at + i, n, l->gelu);
    }
}

/* Both layers of all experts; `layer` describes the first. */
typedef struct both_layers {
    const smoe_mlp *mlp;
    const size_t *first;
    real *y;
    const real *x, *residual;
} both_layers;

static smoe_fused_mlp expert_both(size_t i, const void *context) {
    const both_layers *b = context;
    const smoe_mlp *l = b->mlp;
    size_t e = l->from + i, at = b->first[e] * l->d, size = l->h * l->d;
    const real *w1 = smoe_weight(l->params, l->fc1), *w2 = smoe_weight(l->params, l->fc2);
    const smoe_bf16 *w1_bf16 = smoe_weight_bf16(l->params, l->fc1);
    const smoe_bf16 *w2_bf16 = smoe_weight_bf16(l->params, l->fc2);
    return (smoe_fused_mlp){.m = b->first[e + 1] - b->first[e],
                            .d = l->d,
                            .h = l->h,
                            .y = b->y + at,
                            .x = b->x + at,
                            .residual = b->residual ? b->residual + at : NULL,
                            .w1 = w1 ? w1 + e * size : NULL,
                            .w2 = w2 ? w2 + e * size : NULL,
                            .w1_bf16 = w1_bf16 ? w1_bf16 + e * size : NULL,
                            .w2_bf16 = w2_bf16 ? w2_bf16 + e * size : NULL,
                            .b1 = smoe_weight(l->params, l->fc1_bias) + e * l->h,
                            .b2 = smoe_weight(l->params, l->fc2_bias) + e * l->d,
                            .gelu = l->gelu};
}

bool smoe_mlp_narrow(const smoe_mlp *l) {
    return l->narrow && *l->precision == SMOE_PRECISION_BF16;
}

/* One of the buffers of the hidden layer, in the type that this pass keeps. */
static rows hidden_rows(const smoe_mlp *l, const real *at, const smoe_bf16 *bf16) {
    bool narrow = smoe_mlp_narrow(l);
    return narrow ? (rows){{.bf16 = bf16}, l->pitch} : (rows){{.at = at}, l->h};
}

static void drop(const smoe_mlp *l, real *hidden, const size_t *first, const smoe_pass *pass) {
    size_t row = first[l->from], n = first[l->from + l->E] - row;
    real *x = hidden + row * l->h;
    if (l->places)
        smoe_dropout_places(x, l->places + row, n, l->h, l->dropout, l->site, pass);
    else if (l->plan)
        smoe_dropout_slots(x, l->plan, l->first_expert + l->from, l->E, l->h, l->dropout, l->site,
                           pass);
    else
        smoe_dropout(x, n, l->h, l->dropout, l->site, pass);
}

static void move(real **at, size_t elements) {
    if (*at) *at += elements;
}

static void move_bf16(smoe_bf16 **at, size_t elements) {
    if (*at) *at += elements;
}

smoe_mlp smoe_mlp_at(const smoe_mlp *l, size_t row) {
    smoe_mlp moved = *l;
    size_t elements = row * l->h, narrow = row * l->pitch;
    move(&moved.hidden, elements);
    move(&moved.active, elements);
    move(&moved.dactive, elements);
    move_bf16(&moved.hidden_bf16, narrow);
    move_bf16(&moved.active_bf16, narrow);
    move_bf16(&moved.dhidden_bf16, narrow);
    return moved;
}

void smoe_mlp_forward(smoe_mlp *l, smoe_outputs y, smoe_values x, const real *residual,
                      const size_t *first, const smoe_pass *pass) {
    bool narrow = smoe_mlp_narrow(l);
    size_t end = l->from + l->E;
    if (l->panels && *l->precision == SMOE_PRECISION_F32 &&
        smoe_fused_mlp_pays(l->E, (first[end] - first[l->from]) / l->E, l->threads)) {
        both_layers both = {l, first, y.at, x.at, residual};
        size_t most = 0;
        for (size_t e = l->from; e < end; e++)
            if (first[e + 1] - first[e] > most) most = first[e + 1] - first[e];
        smoe_fused_mlp_each(l->E, most, expert_both, &both, l->panels, l->threads);
        return;
    }
    layer fc1 = {.first = first,
                 .y = {.at = narrow ? NULL : l->hidden},
                 .after = narrow ? NULL : activate,
                 .work = narrow ? SMOE_GELU_FORWARD : SMOE_GELU_NONE,
                 .mlp = l,
                 .x = {x, l->d},
                 .w = smoe_weight(l->params, l->fc1),
                 .w_bf16 = smoe_weight_bf16(l->params, l->fc1),
                 .bias = smoe_weight(l->params, l->fc1_bias),
                 .out = l->h,
                 .in = l->d};
    smoe_gemm_each(l->E, expert_forward, &fc1);
    if (!narrow) drop(l, l->active, first, pass);
    layer fc2 = {.first = first,
                 .y = y,
                 .mlp = l,
                 .x = hidden_rows(l, l->active, l->active_bf16),
                 .w = smoe_weight(l->params, l->fc2),
                 .w_bf16 = smoe_weight_bf16(l->params, l->fc2),
                 .bias = smoe_weight(l->params, l->fc2_bias),
                 .residual = residual,
                 .out = l->d,
                 .in = l->h};
    smoe_gemm_each(l->E, expert_forward, &fc2);
}

/* dactive from dy; `active` again, which the gradients of the second layer need. */
static void hidden_backward(const smoe_mlp *l, smoe_values dy, const size_t *first,
                            const smoe_pass *pass) {
    bool narrow = smoe_mlp_narrow(l), dropout = pass->train && l->dropout > 0;
    layer fc2 = {.first = first,
                 .y = {.at = narrow ? NULL : l->dactive},
                 .x = {dy, l->d},
                 .after = narrow || dropout ? NULL : activate_backward,
                 .work = narrow ? SMOE_GELU_BACKWARD : SMOE_GELU_NONE,
                 .mlp = l,
                 .w = smoe_weight(l->params, l->fc2),
                 .out = l->d,
                 .in = l->h};
    smoe_gemm_each(l->E, expert_dx, &fc2);
    if (!dropout) return;
    size_t row = first[l->from], n = first[l->from + l->E] - row;
    drop(l, l->dactive, first, pass);
    SMOE_SHARED(elementwise, n * l->h)
    for (size_t i = row; i < row + n; i++) activate_backward(l->dactive + i * l->h, 1, l->h, l);
    if (!l->slopes) drop(l, l->active, first, pass);
}

static void input_backward(const smoe_mlp *l, smoe_outputs dx, const size_t *first) {
    layer fc1 = {.first = first,
                 .y = dx,
                 .x = hidden_rows(l, l->dactive, l->dhidden_bf16),
                 .mlp = l,
                 .w = smoe_weight(l->params, l->fc1),
                 .out = l->h,
                 .in = l->d};
    smoe_gemm_each(l->E, expert_dx, &fc1);
}

void smoe_mlp_backward_input(smoe_mlp *l, smoe_outputs dx, smoe_values dy, const size_t *first,
                             const smoe_pass *pass) {
    hidden_backward(l, dy, first, pass);
    input_backward(l, dx, first);
}

void smoe_mlp_backward_weights(smoe_mlp *l, smoe_values dy, smoe_values x, const size_t *first,
                               const smoe_pass *pass) {
    rows active = hidden_rows(l, l->active, l->active_bf16), to = {dy, l->d}, from = {x, l->d};
    rows dhidden = hidden_rows(l, l->dactive, l->dhidden_bf16);
    weights_backward(l, l->fc2, to, active, first, pass);
    bias_backward(l, smoe_gradient(l->params, l->fc2_bias), to, first, l->d);

    weights_backward(l, l->fc1, dhidden, from, first, pass);
    bias_backward(l, smoe_gradient(l->params, l->fc1_bias), dhidden, first, l->h);
}

void smoe_mlp_backward(smoe_mlp *l, smoe_outputs dx, smoe_values dy, smoe_values x,
                       const size_t *first, const smoe_pass *pass) {
    hidden_backward(l, dy, first, pass);
    smoe_mlp_backward_weights(l, dy, x, first, pass);
    input_backward(l, dx, first);
}
