/*
 * Cost before training: one row per layer with its parameters and products, their sums, and the
 * bytes. Not here: the memory of activations (vit/model.c measures it), slots and buffers
 * (spec/), and the reading of a spec.
 *
 * The count is of multiply-adds, 2 FLOPs each. A training step does a product three times: forward,
 * gradient of the one factor, gradient of the other; twice where a factor has no gradient (the
 * pixels, constant dispatch or combine weights). Element-wise work is a small estimate on top:
 *
 *   forward   33 L m d + 9 h (dense m + MoE r) + 4 L a m^2
 *             + MoE (8 m S a softmaxed side | 4 m E Be)
 *   training  4 times that, and 1 FLOP an image for each parameter outside the experts
 *
 * with m tokens, r expert rows an image, a heads. The constants are rough counts of norms, biases,
 * GELU and softmaxes; the last two are what fits the training totals of Soft MoE Tables 2 and 9.
 */
#include "bench/cost.h"

#include "spec/routers.h"
#include "train/optim.h"
#include "vit/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS_OF_BLOCK = 7, /* norm1 attn norm2, router dispatch experts combine */
    LAYERS_OUTSIDE =
        8 /* patch_embed pos_embed cls_token norm attn_pool pre_logits head, one spare */
};

/* A spec as numbers, in the letters of base.h; m, r and places are those of one image. */
typedef struct sizes {
    double L, d, h, heads, N;
    double patches, patch_values; /* products of the embedding: [patches, patch_values] x d */
    double m;                     /* tokens, class token included */
    double E;
    double dense;                  /* blocks without experts */
    const smoe_router_row *router; /* NULL: no MoE block */
} sizes;

/* What passes through the experts of one MoE layer, or of all of them together; r and slots are
 * those of one image. */
typedef struct load {
    double slots;  /* S, 0 but for the dense plans */
    double rows;   /* r, rows the experts process */
    double places; /* einsum: E Be, buffer places of the whole group */
    double share;  /* experts that compute a token: rows that can hold a choice of it, E at most */
} load;

static const char *const kind_names[SMOE_COST_KINDS] = {
    [SMOE_COST_EMBEDDING] = "embedding", [SMOE_COST_NORM] = "norm",
    [SMOE_COST_ATTENTION] = "attention", [SMOE_COST_MLP] = "mlp",
    [SMOE_COST_ROUTER] = "router",       [SMOE_COST_DISPATCH] = "dispatch",
    [SMOE_COST_EXPERTS] = "experts",     [SMOE_COST_COMBINE] = "combine",
    [SMOE_COST_HEAD] = "head",
};

const char *smoe_cost_kind_name(smoe_cost_kind kind) {
    return kind_names[kind];
}

/* ---- the spec as numbers --------------------------------------------------------------------- */

static double capacity_of_group(const smoe_moe_spec *moe, size_t block, double tokens,
                                bool unrounded) {
    if (!unrounded) return (double)smoe_moe_buffer(moe, block, (size_t)tokens);
    return (double)smoe_moe_choices(moe, block) * smoe_moe_ratio(moe, block) * tokens /
           (double)moe->experts;
}

static load load_of(const sizes *s, const smoe_moe_spec *moe, const smoe_cost_options *options,
                    size_t block) {
    double images = (double)moe->group_images, most = s->E;
    load x = {0};
    switch (s->router->family) {
    case SMOE_FAMILY_SOFT:
        x.rows = x.slots = s->E * (double)smoe_moe_slots_per_expert(moe, block, (size_t)s->m);
        break;
    case SMOE_FAMILY_FIXED: x.rows = s->m; break;
    case SMOE_FAMILY_TOKENS_CHOICE: most = (double)smoe_moe_k(moe, block); /* fall through */
    case SMOE_FAMILY_EXPERTS_CHOICE:
        x.places = s->E * capacity_of_group(moe, block, images * s->m, options->unrounded);
        x.rows = x.places / images;
        break;
    }
    x.share = x.rows / s->m < most ? x.rows / s->m : most;
    return x;
}

static int size_spec(sizes *s, const smoe_spec *spec, size_t classes, smoe_err *err) {
    const smoe_model_spec *model = &spec->model;
    size_t N = spec->data.classes ? spec->data.classes : classes;
    if (!N)
        return smoe_fail(err, SMOE_USAGE,
                         "data.classes: the number of classes is needed when the data is not read");
    double side = (double)(spec->data.image_size / model->patch_size);
    double patch = (double)model->patch_size;
    *s = (sizes){.L = (double)model->depth,
                 .d = (double)model->width,
                 .h = (double)model->mlp,
                 .heads = (double)model->heads,
                 .N = (double)N,
                 .patches = side * side,
                 .patch_values = (double)spec->data.channels * patch * patch,
                 .m = (double)smoe_spec_tokens(spec),
                 .E = (double)model->moe.experts,
                 .dense = (double)(model->depth - model->moe.layer_count),
                 .router = model->moe.layer_count ? smoe_router_find(model->moe.router) : NULL};
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adds a row: macs multiply-adds an image forward, each done `times` in a training step. */
static void add_row(smoe_cost *cost, smoe_cost_kind kind, double params, double macs, int times,
                    const char *fmt, ...) SMOE_PRINTF(6, 7);

static void add_row(smoe_cost *cost, smoe_cost_kind kind, double params, double macs, int times,
                    const char *fmt, ...) {
    smoe_cost_layer *layer = &cost->layer[cost->layers++];
    layer->kind = kind;
    layer->params = params;
    layer->flops_infer = 2 * macs;
    layer->flops_train = 2 * macs * times;
    va_list args;
    va_start(args, fmt);
    vsnprintf(layer->name, sizeof layer->name, fmt, args);
    va_end(args);
    cost->params += params;
    cost->products_infer_per_image += layer->flops_infer;
    cost->products_train_per_image += layer->flops_train;
}

static double mlp_params(const sizes *s) {
    return 2 * s->d * s->h + s->h + s->d;
}

static void add_embedding(smoe_cost *cost, const smoe_spec *spec, const sizes *s) {
    add_row(cost, SMOE_COST_EMBEDDING, s->patch_values * s->d + s->d,
            s->patches * s->patch_values * s->d, 2, "patch_embed");
    if (spec->model.head == SMOE_HEAD_TOKEN)
        add_row(cost, SMOE_COST_EMBEDDING, s->d, 0, 0, "cls_token");
    if (spec->model.position == SMOE_POSITION_LEARNED)
        add_row(cost, SMOE_COST_EMBEDDING, s->m * s->d, 0, 0, "pos_embed");
}

static void add_attention(smoe_cost *cost, const smoe_spec *spec, const sizes *s, size_t block) {
    double params = 4 * s->d * s->d + 4 * s->d;
    bool bias = spec->model.qk_norm_form == SMOE_QK_TIMM;
    if (spec->model.qk_norm) params += (bias ? 4 : 2) * s->d / s->heads;
    add_row(cost, SMOE_COST_ATTENTION, params, 4 * s->m * s->d * s->d + 2 * s->m * s->m * s->d, 3,
            "blocks.%zu.attn", block);
}

static void add_moe(smoe_cost *cost, const smoe_spec *spec, const sizes *s, const load *x,
                    const smoe_cost_options *options, size_t block) {
    const smoe_router_row *router = s->router;
    double phi = 0, mixed = 0; /* router parameters with a gradient; products of one mixing side */
    double scale = 0;
    int dispatch = 2, combine = 3;
    if (router->family == SMOE_FAMILY_SOFT) {
        bool learnt = router->learns_dispatch || router->learns_combine;
        phi = learnt ? s->d * x->slots : 0;
        scale = learnt && spec->model.moe.normalize ? 1 : 0;
        mixed = s->m * x->slots * s->d;
        dispatch = router->learns_dispatch ? 3 : 2;
        combine = router->learns_combine ? 3 : 2;
    } else if (router->family != SMOE_FAMILY_FIXED) {
        phi = s->d * s->E;
        mixed = options->einsum ? s->m * x->places * s->d : 0;
    }
    add_row(cost, SMOE_COST_ROUTER, phi + scale, s->m * phi, 3, "blocks.%zu.mlp.router", block);
    add_row(cost, SMOE_COST_DISPATCH, 0, mixed, dispatch, "blocks.%zu.mlp.dispatch", block);
    add_row(cost, SMOE_COST_EXPERTS, s->E * mlp_params(s), 2 * x->rows * s->d * s->h, 3,
            "blocks.%zu.mlp.experts", block);
    add_row(cost, SMOE_COST_COMBINE, 0, mixed, combine, "blocks.%zu.mlp.combine", block);
    cost->params_expert += s->E * mlp_params(s);
}

static void add_head(smoe_cost *cost, const smoe_spec *spec, const sizes *s,
                     const smoe_cost_options *options) {
    double square = s->d * s->d;
    add_row(cost, SMOE_COST_NORM, 2 * s->d, 0, 0, "norm");
    /* One learnt query, projected once a batch, attends to m keys; then an MLP. */
    bool normed = spec->model.qk_norm && spec->model.qk_norm_form == SMOE_QK_VMOE;
    if (spec->model.head == SMOE_HEAD_MAP)
        add_row(cost, SMOE_COST_HEAD,
                s->d + 4 * square + 4 * s->d + 2 * s->d + mlp_params(s) +
                    (normed ? 2 * s->d / s->heads : 0),
                square + 2 * s->m * square + 2 * s->m * s->d + 2 * s->d * s->h, 3, "attn_pool");
    if (options->pre_logits) add_row(cost, SMOE_COST_HEAD, square + s->d, square, 3, "pre_logits");
    add_row(cost, SMOE_COST_HEAD, (s->d + 1) * s->N, s->d * s->N, 3, "head");
}

/* Fills *all with the sums over MoE layers. */
static void add_rows(smoe_cost *cost, const smoe_spec *spec, const sizes *s, load *all,
                     const smoe_cost_options *options) {
    add_embedding(cost, spec, s);
    for (size_t i = 0; i < spec->model.depth; i++) {
        add_row(cost, SMOE_COST_NORM, 2 * s->d, 0, 0, "blocks.%zu.norm1", i);
        add_attention(cost, spec, s, i);
        add_row(cost, SMOE_COST_NORM, 2 * s->d, 0, 0, "blocks.%zu.norm2", i);
        if (!s->router || !spec->model.moe.is_moe[i]) {
            add_row(cost, SMOE_COST_MLP, mlp_params(s), 2 * s->m * s->d * s->h, 3, "blocks.%zu.mlp",
                    i);
            continue;
        }
        const load x = load_of(s, &spec->model.moe, options, i);
        add_moe(cost, spec, s, &x, options, i);
        all->slots += x.slots;
        all->rows += x.rows;
        all->places += x.places;
        all->share += x.share;
    }
    add_head(cost, spec, s, options);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* FLOPs of an image forward outside the products. */
static double elementwise(const sizes *s, const load *all, const smoe_spec *spec,
                          const smoe_cost_options *options) {
    double flops = 33 * s->L * s->m * s->d + 9 * s->h * (s->dense * s->m + all->rows) +
                   4 * s->L * s->heads * s->m * s->m;
    if (s->router)
        flops += 8 * s->m * all->slots *
                 ((int)s->router->learns_dispatch + (int)s->router->learns_combine);
    if (options->einsum) flops += 4 * s->m * all->places;
    if (spec->model.head == SMOE_HEAD_MAP) flops += 4 * s->heads * s->m + 9 * s->h;
    return flops;
}

static int count_bytes(smoe_cost *cost, const smoe_spec *spec, size_t classes, smoe_err *err) {
    cost->bytes.weights = 4 * cost->params;
    smoe_model *model = NULL;
    size_t N = spec->data.classes ? spec->data.classes : classes;
    if (smoe_model_create(&model, spec, N, err)) return -1;
    smoe_params *params = smoe_model_params(model);
    params->factor = true; /* as smoe_optim_allocate has it */
    cost->bytes.activations = (double)smoe_model_measure(model, spec->train.batch_size, true);
    double trained = (double)smoe_params_trained(params);
    cost->bytes.optimizer = (double)smoe_optim_bytes(&spec->train) * trained;
    cost->bytes.gradients = 4 * (double)smoe_params_gradients(params);
    cost->params_outer = trained - cost->bytes.gradients / 4;
    smoe_model_free(model);
    return 0;
}

int smoe_cost_estimate(smoe_cost *cost, const smoe_spec *spec, size_t classes,
                       const smoe_cost_options *options, smoe_err *err) {
    static const smoe_cost_options none = {0};
    sizes s = {0};
    load all = {0};
    *cost = (smoe_cost){0};
    if (!options) options = &none;
    if (size_spec(&s, spec, classes, err)) return -1;
    cost->layer = calloc(LAYERS_OF_BLOCK * spec->model.depth + LAYERS_OUTSIDE, sizeof *cost->layer);
    if (!cost->layer) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the cost of layers");
    add_rows(cost, spec, &s, &all, options);

    double shared = cost->params - cost->params_expert;
    cost->params_active = shared + all.share * mlp_params(&s);

    double rest = elementwise(&s, &all, spec, options);
    cost->flops_infer_per_image = cost->products_infer_per_image + rest;
    cost->flops_train_per_image = cost->products_train_per_image + 4 * rest + shared;
    cost->train_exaflop = cost->flops_train_per_image * (double)spec->train.batch_size *
                          (double)spec->train.steps / 1e18;
    return count_bytes(cost, spec, (size_t)s.N, err);
}

void smoe_cost_free(smoe_cost *cost) {
    free(cost->layer);
    *cost = (smoe_cost){0};
}
