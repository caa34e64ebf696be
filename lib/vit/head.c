/*
 * From the tower's tokens to logits: pooling, classifier.
 * Registers are left out.
 *   gap    mean of the normed tokens (Soft MoE);  token  the class token's row (V-MoE)
 *   gap-norm  norm of the mean of the tokens, as timm's fc_norm
 *   map    one learnt query attends to the normed tokens, then p + mlp(norm(p)), as timm's
 * attention pool
 */
#include "base/team.h"
#include "math/kernels.h"
#include "spec/tasks.h"
#include "vit/layer.h"

static bool is_map(const smoe_head_layer *l) {
    return l->build->model->head == SMOE_HEAD_MAP;
}

static bool norms_mean(const smoe_head_layer *l) {
    return l->build->model->head == SMOE_HEAD_GAP_NORM;
}

void smoe_head_init(smoe_head_layer *l, const smoe_build *build, size_t N) {
    const smoe_model_spec *spec = build->model;
    smoe_params *params = build->params;
    l->build = build;
    l->exact = *build;
    l->exact.precision = SMOE_PRECISION_F32;
    l->d = spec->width;
    l->H = spec->heads;
    l->T = build->T;
    l->first = spec->registers;
    l->N = N;
    if (spec->head == SMOE_HEAD_MAP) {
        size_t latent[] = {1, 1, l->d};
        l->map.latent =
            smoe_params_add(params, smoe_param_normal(SMOE_PARAM_PLAIN, 1 / sqrt((double)l->d)), 3,
                            latent, "%sattn_pool.latent", build->prefix);
        smoe_linear_init(&l->map.query, &l->exact, l->d, l->d, 1, "attn_pool.q");
        smoe_linear_init(&l->map.keys, &l->exact, l->d, 2 * l->d, 2, "attn_pool.kv");
        l->map.qk_norm = spec->qk_norm && spec->qk_norm_form == SMOE_QK_VMOE;
        if (l->map.qk_norm) smoe_norm_heads_init(&l->map.q_norm, build, "attn_pool.q_norm");
        if (l->map.qk_norm) smoe_norm_heads_init(&l->map.k_norm, build, "attn_pool.k_norm");
        smoe_linear_init(&l->map.proj, &l->exact, l->d, l->d, 1, "attn_pool.proj");
        smoe_norm_init(&l->norm, build, l->d, "attn_pool.norm");
        const smoe_mlp_form form =
            smoe_mlp_dense(spec, "attn_pool.mlp", smoe_build_site(build, spec->depth) + 1);
        smoe_mlp_init(&l->map.mlp, &l->exact, &form);
    }
    if (norms_mean(l)) smoe_norm_init(&l->norm, build, l->d, "fc_norm");
    l->classifies = N > 0;
    if (!l->classifies) l->N = l->d;
    if (smoe_task_pairs(build->spec->train.loss)) {
        if (l->classifies) smoe_linear_init(&l->classifier, &l->exact, l->d, N, 1, "head.proj");
        return;
    }
    smoe_linear_init(&l->classifier, &l->exact, l->d, N, 1, "head");
    params->param[l->classifier.weight].group = SMOE_PARAM_HEAD;
    params->param[l->classifier.weight].std = 0;
    params->param[l->classifier.bias].mean = smoe_task_bias(build->spec->train.loss, N);
}

static void reserve_map(smoe_head_layer *l, const smoe_space *space) {
    size_t R = space->B * l->T, B = space->B, d = l->d;
    smoe_arena *keep = space->keep, *scratch = space->scratch;
    l->map.q = smoe_arena_take(keep, d, sizeof(real));
    l->map.kv = smoe_arena_take(keep, R * 2 * d, sizeof(real));
    l->map.weights = smoe_arena_take(keep, B * l->H * l->T, sizeof(real));
    l->map.heads = smoe_arena_take(keep, B * d, sizeof(real));
    l->map.normed = smoe_arena_take(keep, B * d, sizeof(real));
    l->map.q_normed = l->map.q;
    if (l->map.qk_norm) {
        l->map.q_normed = smoe_arena_take(keep, d, sizeof(real));
        l->map.k_normed = smoe_arena_take(keep, R * d, sizeof(real));
        smoe_norm_reserve(&l->map.q_norm, 1, space);
        smoe_norm_reserve(&l->map.k_norm, R, space);
    }
    smoe_linear_reserve(&l->map.query, space);
    smoe_linear_reserve(&l->map.keys, space);
    smoe_linear_reserve(&l->map.proj, space);
    smoe_space exact = *space;
    exact.bf16 = false;
    exact.wide = true;
    smoe_mlp_reserve(&l->map.mlp, B, 1, &exact);
    if (!space->train) return;
    l->map.dkv = smoe_arena_take(scratch, R * 2 * d, sizeof(real));
    if (l->map.qk_norm) l->map.dk_normed = smoe_arena_take(scratch, R * d, sizeof(real));
    l->map.dweights = smoe_arena_take(scratch, B * l->H * l->T, sizeof(real));
    l->map.dq = smoe_arena_take(scratch, B * d, sizeof(real));
    l->map.dq_sum = smoe_arena_take(scratch, d, sizeof(real));
    l->map.dlatent = smoe_arena_take(scratch, d, sizeof(real));
    l->map.dheads = smoe_arena_take(scratch, B * d, sizeof(real));
}

void smoe_head_reserve(smoe_head_layer *l, const smoe_space *space) {
    size_t R = space->B * l->T;
    l->features = smoe_arena_take(space->keep, space->B * l->d, sizeof(real));
    l->logits = l->features;
    if (l->classifies) {
        l->logits = smoe_arena_take(space->keep, space->B * l->N, sizeof(real));
        smoe_linear_reserve(&l->classifier, space);
    }
    if (space->train) {
        l->dx = smoe_arena_take(space->scratch, R * l->d, sizeof(real));
        l->dfeatures = smoe_arena_take(space->scratch, space->B * l->d, sizeof(real));
    }
    if (is_map(l)) reserve_map(l, space);
    if (!is_map(l) && !norms_mean(l)) return;
    l->pooled = smoe_arena_take(space->keep, space->B * l->d, sizeof(real));
    smoe_norm_reserve(&l->norm, space->B, space);
    if (space->train) l->dpooled = smoe_arena_take(space->scratch, space->B * l->d, sizeof(real));
}

/* The query is projected once per batch; this is not counted. The products with weights have
 * different numbers of rows: those of frozen weights are weighed by them. */
static void map_cost(const smoe_head_layer *l, smoe_costs *costs) {
    const smoe_mlp *mlp = &l->map.mlp;
    const struct {
        size_t weight;
        double macs;
    } product[] = {{l->map.keys.weight, smoe_linear_macs(&l->map.keys, l->T)},
                   {l->map.proj.weight, smoe_linear_macs(&l->map.proj, 1)},
                   {mlp->weight[0], smoe_mlp_macs(mlp, 1) / 2},
                   {mlp->weight[1], smoe_mlp_macs(mlp, 1) / 2}};
    double macs = 0, frozen = 0, scores = 2 * (double)l->T * (double)l->d; /* and weighted values */
    for (size_t i = 0; i < SMOE_COUNT(product); i++) {
        macs += product[i].macs;
        if (costs->params->param[product[i].weight].frozen) frozen += product[i].macs;
    }
    smoe_cost_layer *layer =
        smoe_costs_add(costs, SMOE_PART_head, macs + scores, 3, "%sattn_pool", l->build->prefix);
    layer->flops_weights = 2 * macs;
    layer->frozen_share = frozen / macs;
    layer->elementwise = 4 * (double)l->H * (double)l->T + smoe_mlp_elementwise(mlp, 1);
}

void smoe_head_cost(const smoe_head_layer *l, smoe_costs *costs) {
    if (is_map(l)) map_cost(l, costs);
    if (norms_mean(l)) smoe_norm_cost(&l->norm, costs, 0);
    if (l->classifies)
        smoe_costs_add(costs, SMOE_PART_head, smoe_linear_macs(&l->classifier, 1), 3, "%shead",
                       l->build->prefix);
}

/* ---- attention pooling -----------------------------------------------------------------------
 * For each head: a = softmax(K q / sqrt(d/H)), o = a V; with vmoe's qk_norm, K and q are normed
 * first. */

/* Keys as the heads take them, *ld numbers from row to row. */
static const real *keys_of(const smoe_head_layer *l, size_t *ld) {
    *ld = l->map.qk_norm ? l->d : 2 * l->d;
    return l->map.qk_norm ? l->map.k_normed : l->map.kv;
}

static void map_forward(smoe_head_layer *l, const real *x, size_t B, const smoe_pass *pass) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_params *params = l->build->params;
    size_t d = l->d, T = l->T, H = l->H, dh = d / H;
    real scale = (real)(1 / sqrt((double)dh));
    smoe_linear_forward(&l->map.query, smoe_reals_out(l->map.q),
                        smoe_reals(smoe_weight(params, l->map.latent)), NULL, 1);
    smoe_linear_forward(&l->map.keys, smoe_reals_out(l->map.kv), smoe_reals(x), NULL, B * T);
    if (l->map.qk_norm) {
        smoe_norm_heads_forward(&l->map.q_norm, smoe_reals_out(l->map.q_normed), d, l->map.q, d, 1);
        smoe_norm_heads_forward(&l->map.k_norm, smoe_reals_out(l->map.k_normed), d, l->map.kv,
                                2 * d, B * T);
    }
    size_t ld;
    const real *keys = keys_of(l, &ld);
    SMOE_SHARED(attention, B * T * d)
    for (size_t task = 0; task < B * H; task++) {
        size_t b = task / H, column = task % H * dh;
        const real *k = keys + b * T * ld + column, *v = l->map.kv + b * T * 2 * d + d + column;
        real *w = l->map.weights + task * T, *out = l->map.heads + b * d + column;
        size_t length = smoe_pass_length(pass, b, T), first = l->first;
        for (size_t t = first; t < length; t++)
            w[t] = scale * kern->dot(l->map.q_normed + column, k + t * ld, dh);
        kern->softmax(w + first, 1, length - first, T);
        memset(w, 0, first * sizeof *w);
        memset(w + length, 0, (T - length) * sizeof *w);
        memset(out, 0, dh * sizeof *out);
        for (size_t t = first; t < length; t++) kern->axpy(out, w[t], v + t * 2 * d, dh);
    }
    smoe_linear_forward(&l->map.proj, smoe_reals_out(l->pooled), smoe_reals(l->map.heads), NULL, B);
    smoe_norm_forward(&l->norm, smoe_reals_out(l->map.normed), l->pooled, B);
    const smoe_mlp_rows rows = {.first = (const size_t[]){0, B}};
    smoe_mlp_forward(&l->map.mlp, smoe_reals_out(l->features), smoe_reals(l->map.normed), l->pooled,
                     &rows, pass);
}

static void map_heads_backward(smoe_head_layer *l, size_t b) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t d = l->d, T = l->T, H = l->H, dh = d / H;
    real scale = (real)(1 / sqrt((double)dh)), *dq = l->map.dq + b * d;
    memset(dq, 0, d * sizeof *dq);
    size_t ld;
    const real *keys = keys_of(l, &ld);
    real *dkeys = l->map.qk_norm ? l->map.dk_normed : l->map.dkv;
    for (size_t h = 0; h < H; h++) {
        const real *k = keys + b * T * ld + h * dh, *v = l->map.kv + b * T * 2 * d + d + h * dh,
                   *w = l->map.weights + (b * H + h) * T;
        const real *dout = l->map.dheads + b * d + h * dh;
        real *dk = dkeys + b * T * ld + h * dh, *dv = l->map.dkv + b * T * 2 * d + d + h * dh,
             *ds = l->map.dweights + (b * H + h) * T;
        for (size_t t = 0; t < T; t++) {
            ds[t] = kern->dot(dout, v + t * 2 * d, dh);
            kern->scale(dv + t * 2 * d, w[t], dout, dh);
        }
        kern->softmax_backward(ds, w, 1, T, T);
        for (size_t t = 0; t < T; t++) {
            kern->axpy(dq + h * dh, scale * ds[t], k + t * ld, dh);
            kern->scale(dk + t * ld, scale * ds[t], l->map.q_normed + h * dh, dh);
        }
    }
}

static void map_backward(smoe_head_layer *l, const real *x, size_t B, const smoe_pass *pass) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const smoe_params *params = l->build->params;
    size_t d = l->d, size = B * d;
    const smoe_mlp_rows rows = {.first = (const size_t[]){0, B}};
    real *dnormed = l->map.dheads; /* scratch of the pool's norm; the heads use it later */
    smoe_mlp_backward(&l->map.mlp, smoe_reals_out(dnormed), smoe_reals(l->dfeatures),
                      smoe_reals(l->map.normed), &rows, pass);
    memcpy(l->dpooled, l->dfeatures, size * sizeof(real));
    smoe_norm_backward(&l->norm, l->dpooled, dnormed, l->pooled, B);
    smoe_linear_backward(&l->map.proj, smoe_reals_out(l->map.dheads), smoe_reals(l->dpooled),
                         smoe_reals(l->map.heads), B);
    SMOE_SHARED(attention, B * l->T * d)
    for (size_t b = 0; b < B; b++) map_heads_backward(l, b);
    memset(l->map.dq_sum, 0, d * sizeof *l->map.dq_sum);
    kern->column_sum(l->map.dq_sum, l->map.dq, B, d);
    if (l->map.qk_norm) {
        memcpy(l->map.dlatent, l->map.dq_sum, d * sizeof *l->map.dq_sum);
        smoe_norm_heads_backward(&l->map.q_norm, l->map.dq_sum, l->map.dlatent, d, l->map.q, d, 1);
        smoe_norm_heads_backward(&l->map.k_norm, l->map.dkv, l->map.dk_normed, d, l->map.kv, 2 * d,
                                 B * l->T);
    }
    smoe_linear_backward(&l->map.keys, smoe_reals_out(l->dx), smoe_reals(l->map.dkv), smoe_reals(x),
                         B * l->T);
    smoe_linear_backward(&l->map.query, smoe_reals_out(l->map.dlatent), smoe_reals(l->map.dq_sum),
                         smoe_reals(smoe_weight(params, l->map.latent)), 1);
    real *dlatent = smoe_gradient(params, l->map.latent);
    if (dlatent) kern->add(dlatent, l->map.dlatent, d);
}

/* ---- the head -------------------------------------------------------------------------------- */

void smoe_head_forward(smoe_head_layer *l, const real *x, const smoe_pass *pass) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t B = pass->images, d = l->d, T = l->T;
    if (is_map(l)) {
        map_forward(l, x, B, pass);
    } else if (l->build->model->head == SMOE_HEAD_TOKEN) {
        for (size_t b = 0; b < B; b++) memcpy(l->features + b * d, x + b * T * d, d * sizeof *x);
    } else {
        real *means = norms_mean(l) ? l->pooled : l->features;
        SMOE_SHARED(elementwise, B * T * d)
        for (size_t b = 0; b < B; b++) {
            real *mean = means + b * d;
            memset(mean, 0, d * sizeof *mean);
            size_t length = smoe_pass_length(pass, b, T) - l->first;
            kern->column_sum(mean, x + (b * T + l->first) * d, length, d);
            kern->scale(mean, 1 / (real)length, mean, d);
        }
        if (norms_mean(l)) smoe_norm_forward(&l->norm, smoe_reals_out(l->features), l->pooled, B);
    }
    if (l->classifies)
        smoe_linear_forward(&l->classifier, smoe_reals_out(l->logits), smoe_reals(l->features),
                            NULL, B);
}

void smoe_head_backward(smoe_head_layer *l, const real *dlogits, const real *x,
                        const smoe_pass *pass) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t B = pass->images, d = l->d, T = l->T;
    if (l->classifies)
        smoe_linear_backward(&l->classifier, smoe_reals_out(l->dfeatures), smoe_reals(dlogits),
                             smoe_reals(l->features), B);
    else
        memcpy(l->dfeatures, dlogits, B * d * sizeof *dlogits);
    if (is_map(l)) {
        map_backward(l, x, B, pass);
    } else {
        bool token = l->build->model->head == SMOE_HEAD_TOKEN;
        const real *dmean = l->dfeatures;
        if (norms_mean(l)) {
            memset(l->dpooled, 0, B * d * sizeof *l->dpooled);
            smoe_norm_backward(&l->norm, l->dpooled, l->dfeatures, l->pooled, B);
            dmean = l->dpooled;
        }
        SMOE_SHARED(elementwise, B * T * d)
        for (size_t row = 0; row < B * T; row++) {
            size_t t = row % T, length = smoe_pass_length(pass, row / T, T);
            bool pooled = t >= l->first && t < length;
            real share = token ? t == 0 : pooled ? 1 / (real)(length - l->first) : 0;
            kern->scale(l->dx + row * d, share, dmean + row / T * d, d);
        }
    }
}
