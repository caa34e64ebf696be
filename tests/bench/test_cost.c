/*
 * bench/cost against small models counted by hand in the comments, against the parameter table that
 * the model itself builds, and at its limits. The papers' tables are in test_cost_papers.c.
 */
#include "approx.h"
#include "overrides.h"
#include "spec/routers.h"
#include "bench/cost.h"
#include "vit/model.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- by hand --------------------------------------------------------------------------------- */

/* m = 4 tokens of 2x2 grey pixels, d = 4, h = 8, 2 heads, N = 3, one MoE block, E = 2. */
static const char tiny[] =
    "data: {source: image-folder, path: none, image_size: 4, channels: 1, classes: 3}\n"
    "model:\n"
    "  {width: 4, depth: 1, mlp: 8, heads: 2, patch_size: 2, moe: {layers: last-1, experts: 2}}\n"
    "train: {steps: 100, batch_size: 8, schedule: {name: constant}}\n";

static const smoe_cost_layer *row_of(const smoe_cost *cost, const char *name) {
    for (size_t i = 0; i < cost->layers; i++)
        if (!strcmp(cost->layer[i].name, name)) return &cost->layer[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* The cost of the tiny model with the overrides and one more, in place of the cost before. */
#define count(cost, list, ...) (overrides_set(list, __VA_ARGS__), count_again(cost, list))
static void count_again(smoe_cost *cost, const overrides *list) {
    smoe_cost_free(cost);
    overrides_cost(cost, tiny, list);
}

static void assert_row(const smoe_cost *cost, const char *name, double params, double infer,
                       double train) {
    const smoe_cost_layer *row = row_of(cost, name);
    assert_close(row->params, params, 0);
    assert_close(row->flops_infer, infer, 0);
    assert_close(row->flops_train, train, 0);
}

/*
 * Soft router, S = 2. Multiply-adds forward and how often in training:
 *   patch_embed 4 tokens x 4 pixels x 4 = 64 (2)    params 4*4 + 4 = 20, pos_embed 4*4 = 16
 *   attn        qkv and output 4*4*4*4 = 256, scores and mixing 2*4*4*4 = 128 (3)   4*16 + 4*4 = 80
 *   router      4*4*2 = 32 (3)      4*2 + 1 = 9      dispatch, combine  4*2*4 = 32 each (3)
 *   experts     2 rows x 2*4*8 = 128 (3)             2 x (2*4*8 + 8 + 4) = 152
 *   head        4*3 = 12 (3)        5*3 = 15         three norms of 8
 * Sum 684 = 1368 FLOPs; training 2*(2*64 + 3*620) = 3976; params 316, of which 164 shared.
 * Element-wise 33*4*4 + 9*8*2 + 4*2*16 + 16*4*2 = 528 + 144 + 128 + 128 = 928.
 */
static void counted_by_hand_soft(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    overrides list = {0};
    count(&cost, &list, "model.moe.router=soft");
    assert_row(&cost, "patch_embed", 20, 128, 256);
    assert_row(&cost, "pos_embed", 16, 0, 0);
    assert_row(&cost, "blocks.0.norm1", 8, 0, 0);
    assert_row(&cost, "blocks.0.attn", 80, 768, 2304);
    assert_row(&cost, "blocks.0.norm2", 8, 0, 0);
    assert_row(&cost, "blocks.0.mlp.router", 9, 64, 192);
    assert_row(&cost, "blocks.0.mlp.dispatch", 0, 64, 192);
    assert_row(&cost, "blocks.0.mlp.experts", 152, 256, 768);
    assert_row(&cost, "blocks.0.mlp.combine", 0, 64, 192);
    assert_row(&cost, "norm", 8, 0, 0);
    assert_row(&cost, "head", 15, 24, 72);
    assert_int_equal(cost.layers, 11);
    assert_close(cost.params, 316, 0);
    assert_close(cost.params_expert, 152, 0);
    assert_close(cost.params_active, 164 + 2 / 4.0 * 76, 0);
    assert_close(cost.products_infer_per_image, 1368, 0);
    assert_close(cost.products_train_per_image, 3976, 0);
    assert_close(cost.flops_infer_per_image, 1368 + 928, 0);
    assert_close(cost.flops_train_per_image, 3976 + 4 * 928 + 164, 0);
    assert_close(cost.train_exaflop, 7852e2 * 8 / 1e18, 1e-27);
    assert_close(cost.bytes.weights, 1264, 0);
    assert_close(cost.bytes.gradients, 1264, 0);
    assert_close(cost.bytes.optimizer, 2528, 0);

    count(&cost, &list, "train.optimizer={name: sgd, momentum: 0.9}");
    assert_close(cost.bytes.optimizer, 1264, 0);

    count(&cost, &list, "train.optimizer={name: adam, moments: bf16-first}");
    assert_close(cost.bytes.optimizer, 1896, 0); /* 6 bytes for each of 316 parameters */
}

/*
 * The same model with frozen tensors. A frozen matrix has no gradient, so its product is done once
 * less, whether or not its bias is frozen; what lies before the first trained tensor is done once;
 * and 1 FLOP for each trained parameter outside the experts. The matrices have 64 + 256 + 32 + 128
 * + 12 = 492 multiply-adds, those of q, k and v 192; there are 4 + 16 + 12 + 3 = 35 biases.
 */
static void counted_by_hand_frozen(void **state) {
    static const struct {
        const char *groups;
        double products, elementwise, updated; /* of a training step */
    } model[] = {
        {"[{match: '*.experts.*', frozen: true}]", 3976 - 256, 4 * 928, 164},
        {"[{match: '*.attn.*', frozen: true}]", 3976 - 2 * 256, 4 * 928, 164 - 80},
        {"[{match: '*.router.*', frozen: true}]", 3976 - 64, 4 * 928, 164 - 9},
        {"[{match: 'p*_embed*', frozen: true}]", 3976 - 128, 4 * 928, 164 - 36},
        {"[{match: '*.qkv.weight', frozen: true}]", 3976 - 2 * 192, 4 * 928, 164 - 48},
        {"[{match: '*.bias'}, {match: '*', frozen: true}]", 3976 - 2 * 492, 4 * 928, 35},
        {"[{match: 'head.*'}, {match: '*', frozen: true}]", 1368 + 2 * 24, 928, 15},
    };
    for (size_t k = 0; k < sizeof model / sizeof *model; k++) {
        SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
        overrides list = {0};
        count(&cost, &list, "train.optimizer.groups=%s", model[k].groups);
        assert_close(cost.flops_infer_per_image, 1368 + 928, 0);
        assert_close(cost.products_train_per_image, model[k].products, 1e-9);
        assert_close(cost.flops_train_per_image,
                     model[k].products + model[k].elementwise + model[k].updated, 1e-9);
    }
}

/*
 * Attention pooling of the same model. Keys and values have 4 rows, 4*4*8 = 128 multiply-adds; the
 * projection 16 and the MLP 2 x 32 have one; scores and weighted values 2*4*4 = 32. The query is
 * not counted. Frozen weights save their own products, each of its number of rows.
 */
static void counted_by_hand_frozen_pooling(void **state) {
    static const struct {
        const char *match;
        double saved; /* FLOPs of a training step */
    } frozen[] = {
        {"nothing", 0},
        {"attn_pool.q.*", 0},
        {"attn_pool.kv.*", 2 * 128},
        {"attn_pool.proj.weight", 2 * 16},
        {"attn_pool.mlp.*", 2 * 64},
        {"attn_pool.mlp.fc2.weight", 2 * 32},
        {"attn_pool.*", 2 * 208},
    };
    (void)state;
    for (size_t k = 0; k < sizeof frozen / sizeof *frozen; k++) {
        smoe_cost cost;
        overrides list = {0};
        overrides_set(&list, "model.head=map");
        if (k)
            overrides_set(&list, "train.optimizer.groups=[{match: '%s', frozen: true}]",
                          frozen[k].match);
        overrides_cost(&cost, tiny, &list);
        assert_row(&cost, "attn_pool", 4 + 20 + 40 + 20 + 8 + 76, 480, 1440 - frozen[k].saved);
        smoe_cost_free(&cost);
    }
}

/*
 * Tokens choose 2 of 2 experts, C = 0.75, groups of 2 images: buffers of 2*8*0.75/2 = 6, hence 12
 * places per group and 6 expert rows per image. Router 4*4*2 = 32 (3), experts 6 x 64 = 384 (3).
 * Tokens are gathered and scattered, without products. Element-wise 528 + 9*8*6 + 128 = 1088. On
 * average 6/4 experts process a token.
 */
static void counted_by_hand_choice(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    overrides list = {0};
    overrides_set(&list, "model.moe.router=tokens-choice");
    overrides_set(&list, "model.moe.k=2");
    overrides_set(&list, "model.moe.capacity=0.75");
    count(&cost, &list, "model.moe.group_images=2");
    assert_row(&cost, "blocks.0.mlp.router", 8, 64, 192);
    assert_row(&cost, "blocks.0.mlp.dispatch", 0, 0, 0);
    assert_row(&cost, "blocks.0.mlp.experts", 152, 768, 2304);
    assert_row(&cost, "blocks.0.mlp.combine", 0, 0, 0);
    assert_close(cost.params_active, 163 + 1.5 * 76, 0);
    assert_close(cost.flops_infer_per_image - cost.products_infer_per_image, 1088, 0);

    overrides_set(&list, "model.moe.k=1");
    count(&cost, &list, "model.moe.capacity=2"); /* 8 places per image, but only 4 choices */
    assert_row(&cost, "blocks.0.mlp.experts", 152, 8 * 128, 8 * 384);
    /* what is computed lacks 4 rows: 9 * 8 element-wise FLOPs each, four times in training */
    assert_close(cost.flops_infer_per_image - cost.flops_infer_computed_per_image, 4 * 200, 0);
    assert_close(cost.flops_train_per_image - cost.flops_train_computed_per_image, 4 * 672, 0);
    assert_close(cost.products_infer_per_image - cost.products_infer_computed_per_image, 4 * 128,
                 0);
    assert_close(cost.products_train_per_image - cost.products_train_computed_per_image, 4 * 384,
                 0);
    assert_close(cost.products_slots_per_image, 2 * 4 * 128, 0);
    assert_close(cost.params_active, 163 + 76, 0);
    double once = cost.flops_train_computed_per_image;

    /* an image tower that is not trained has products forward only, those of empty places too */
    overrides frozen = list;
    overrides_set(&frozen, "data.source=shapes");
    overrides_set(&frozen, "train.loss=contrastive");
    count(&cost, &frozen,
          "train.optimizer.groups=[{match: 'text.*'}, {match: 'logit_*'}, "
          "{match: '*', frozen: true}]");
    assert_row(&cost, "blocks.0.mlp.experts", 152, 8 * 128, 8 * 128);
    assert_close(cost.products_train_per_image - cost.products_train_computed_per_image, 4 * 128,
                 0);
    assert_close(cost.flops_train_per_image - cost.flops_train_computed_per_image, 4 * 200, 0);
    assert_close(cost.products_slots_per_image, 4 * 128, 0);

    count(&cost, &list, "model.moe.skip_patch=0.5"); /* only 2 tokens take part */
    assert_close(cost.flops_infer_per_image - cost.flops_infer_computed_per_image, 6 * 200, 0);
    assert_close(cost.flops_train_per_image - cost.flops_train_computed_per_image, 6 * 672, 0);
    assert_close(cost.params_active, 163 + 0.5 * 76, 0);
    overrides_set(&list, "model.moe.skip_patch=1");

    /* sums over a batch of several pieces take another forward pass, and over one piece none */
    count(&cost, &list, "model.moe.aux_over=batch");
    assert_close(cost.flops_train_computed_per_image, once, 0);
    count(&cost, &list, "train.pieces=2");
    assert_close(cost.flops_train_computed_per_image, once + cost.flops_infer_computed_per_image,
                 0);
    count(&cost, &list, "model.moe.aux_over=group");
    assert_close(cost.flops_train_computed_per_image, once, 0);

    overrides_set(&list, "model.moe.router=experts-choice"); /* K is ignored */
    count(&cost, &list, "model.moe.k=2");
    assert_row(&cost, "blocks.0.mlp.experts", 152, 8 * 128, 8 * 384);
    assert_close(cost.params_active, 163 + 2 * 76, 0);

    count(&cost, &list, "model.moe.capacity=5"); /* an expert takes each token at most once */
    assert_row(&cost, "blocks.0.mlp.experts", 152, 8 * 128, 8 * 384);
    assert_close(cost.params_active, cost.params, 0);
}

/* The FLOPs of a training step that are neither products nor element-wise work. */
static double updated(const smoe_cost *cost) {
    return cost->flops_train_per_image - cost->products_train_per_image -
           4 * (cost->flops_infer_per_image - cost->products_infer_per_image);
}

/* The state of a router has no gradient: neither lambda of ReMoE nor the biases of two experts are
 * updated by the optimiser. */
static void counted_by_hand_states(void **state) {
    static const struct {
        const char *set;
        double states;
    } model[] = {{"model.moe.router=remoe", 1}, {"model.moe.balance=bias", 2}};
    for (size_t k = 0; k < sizeof model / sizeof *model; k++) {
        SMOE_FREED_BY(smoe_cost_free) smoe_cost without = {0};
        SMOE_FREED_BY(smoe_cost_free) smoe_cost with = {0};
        overrides list = {0};
        count(&without, &list, "model.moe.router=tokens-choice");
        count(&with, &list, "%s", model[k].set);
        assert_close(with.params, without.params + model[k].states, 0);
        assert_close(updated(&with), updated(&without), 0);
    }
}

/* Identity moves each of the 4 tokens to one expert and back: no products in the router, only in
 * the experts. */
static void counted_by_hand_identity(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    overrides list = {0};
    overrides_set(&list, "model.moe.router=identity");
    count(&cost, &list, "model.moe.slots_per_expert=3"); /* two stay empty */
    assert_row(&cost, "blocks.0.mlp.router", 0, 0, 0);
    assert_row(&cost, "blocks.0.mlp.dispatch", 0, 0, 0);
    assert_row(&cost, "blocks.0.mlp.experts", 152, 4 * 128, 4 * 384);
    assert_row(&cost, "blocks.0.mlp.combine", 0, 0, 0);
    assert_close(cost.params_active, 155 + 76, 0);
}

/* 12 slots for 4 tokens are three per token, but only two experts can be active. */
static void never_more_active_than_there_are(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    overrides list = {0};
    count(&cost, &list, "model.moe.slots_per_expert=6");
    assert_close(cost.params_active, cost.params, 0);
}

/* Constant weights have no gradient: training computes their product twice, not three times. */
static void fixed_routing_is_cheaper(void **state) {
    static const struct {
        const char *router;
        double router_params, dispatch, combine, element;
    } rows[] = {
        {"soft", 9, 192, 192, 128},
        {"soft-uniform", 9, 192, 128, 64},
        {"uniform-soft", 9, 128, 192, 64},
        {"uniform", 0, 128, 128, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
        overrides list = {0};
        count(&cost, &list, "model.moe.router=%s", rows[i].router);
        assert_close(row_of(&cost, "blocks.0.mlp.router")->params, rows[i].router_params, 0);
        assert_row(&cost, "blocks.0.mlp.dispatch", 0, 64, rows[i].dispatch);
        assert_row(&cost, "blocks.0.mlp.combine", 0, 64, rows[i].combine);
        assert_close(cost.flops_infer_per_image - cost.products_infer_per_image,
                     800 + rows[i].element, 0);
    }
}

/* Attention pooling: keys and values 4 tokens x 2*4*4 = 128, scores and mixing 2*4*4 = 32, output
 * 4*4 = 16, MLP 2*4*8 = 64, together 240; params 4 + 4*(16 + 4) + 8 + 76 = 168. A class token makes
 * 5 tokens, of which 4 are embedded. */
static void other_heads(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    overrides list = {0};
    count(&cost, &list, "model.head=map");
    assert_row(&cost, "attn_pool", 168, 480, 1440);
    /* element-wise as above, plus 4*2*4 for the weights and 9*8 for the MLP of the pool */
    assert_close(cost.flops_infer_per_image - cost.products_infer_per_image, 928 + 104, 0);

    count(&cost, &list, "model.head=token");
    assert_row(&cost, "patch_embed", 20, 128, 256);
    assert_row(&cost, "cls_token", 4, 0, 0);
    assert_row(&cost, "pos_embed", 20, 0, 0);
    assert_row(&cost, "blocks.0.attn", 80, 2 * (320 + 200), 6 * (320 + 200));
}

/* ---- against the model's own parameter table ------------------------------------------------- */

static bool has_prefix(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    return !strncmp(name, prefix, length) && (name[length] == '.' || !name[length]);
}

/* The parameters of each row are those of the tensors under its name; each tensor belongs to one
 * row. */
static void assert_table(const char *text, overrides *list) {
    smoe_spec spec;
    smoe_cost cost;
    smoe_model *model;
    smoe_err err = {0};
    double expert = 0;
    overrides_parse(&spec, text, list);
    if (smoe_cost_estimate(&cost, &spec, 0, &err)) fail_msg("%s", err.text);
    if (smoe_model_create(&model, &spec, spec.data.classes, &err)) fail_msg("%s", err.text);
    const smoe_params *params = smoe_model_params(model);
    assert_close(cost.params, (double)params->total, 0);
    for (size_t i = 0; i < cost.layers; i++) {
        double sum = 0;
        for (size_t j = 0; j < params->count; j++)
            if (has_prefix(params->param[j].name, cost.layer[i].name))
                sum += (double)params->param[j].size;
        if (sum != cost.layer[i].params)
            fail_msg("%s: %.0f parameters, not %.0f", cost.layer[i].name, sum,
                     cost.layer[i].params);
    }
    for (size_t j = 0; j < params->count; j++)
        if (params->param[j].stacked) expert += (double)params->param[j].size;
    assert_close(cost.params_expert, expert, 0);
    assert_true(cost.params_active <= cost.params);
    smoe_model_free(model);
    smoe_cost_free(&cost);
    smoe_spec_free(&spec);
}

static const char spread[] =
    "data: {source: image-folder, path: none, image_size: 32, classes: 7}\n"
    "model:\n"
    "  {width: 32, depth: 4, mlp: 48, heads: 4, patch_size: 8,\n"
    "   moe: {layers: last-2, experts: 16, slots_per_expert: 2}}\n"
    "train: {steps: 10, batch_size: 16, schedule: {name: constant}}\n";

static void matches_the_parameter_table(void **state) {
    static const char *const changes[] = {"model.head=token",        "model.head=map",
                                          "model.qk_norm=true",      "model.position=sincos2d",
                                          "model.moe.layers=none",   "model.moe.normalize=false",
                                          "model.moe.layers=[0, 3]", "model.moe.layers=every-2"};
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        overrides list = {0};
        overrides_set(&list, "model.moe.router=%s", smoe_routers[i].name);
        assert_table(spread, &list);
        overrides_set(&list, "model.moe.normalize=false");
        assert_table(spread, &list);
        overrides_set(&list, "model.moe.shared_experts=2");
        overrides_set(&list, "model.moe.universal_experts=5");
        overrides_set(&list, "model.moe.universal_mlp=7");
        assert_table(spread, &list);
    }
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        overrides list = {0};
        overrides_set(&list, "%s", changes[i]);
        assert_table(spread, &list);
        overrides_set(&list, "model.head=map");
        overrides_set(&list, "model.qk_norm=true");
        assert_table(spread, &list);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static long peak_kilobytes(void) {
    char line[256];
    long peak = -1;
    FILE *in = fopen("/proc/self/status", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) sscanf(line, "VmPeak: %ld", &peak);
    fclose(in);
    assert_true(peak > 0);
    return peak;
}

static const char largest[] =
    "data: {source: image-folder, path: none, image_size: 224, classes: 29593}\n"
    "model: {variant: H, patch_size: 14, moe: {layers: last-16, router: soft, experts: 256}}\n"
    "train: {steps: 300000, batch_size: 4096}\n";

/* One slot per expert. With 32 images an expert has 32 rows, and the gradients of 2 experts of 2
 * x 16 x 32 are not stored; with 33 images they are. */
static void gradients_of_few_rows(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    for (int images = 32; images <= 33; images++) {
        overrides list = {0};
        overrides_set(&list, "model={width: 16, mlp: 32}");
        count(&cost, &list, "train.batch_size=%d", images);
        assert_close(cost.params_outer, images == 32 ? 2 * 2 * 16 * 32 : 0, 0);
        assert_close(cost.bytes.gradients, 4 * (cost.params - cost.params_outer), 0);
    }
}

/* Nor where a width is not a multiple of 16, or above 8192. */
static void gradients_of_odd_widths(void **state) {
    const size_t mlp[] = {8192, 8208, 8200};
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    for (size_t i = 0; i < 3; i++) {
        overrides list = {0};
        overrides_set(&list, "model={width: 16, mlp: %zu}", mlp[i]);
        count(&cost, &list, "train.batch_size=32");
        assert_close(cost.params_outer, i ? 0 : 2 * 2 * 16 * 8192, 0);
    }
}

/* Soft MoE H/14 with 256 experts: 54 billion parameters, 217 GB for the weights alone. */
static void largest_model_costs_nothing(void **state) {
    smoe_cost cost;
    overrides list = {0};
    struct timespec start, end;
    long before = peak_kilobytes();
    clock_gettime(CLOCK_MONOTONIC, &start);
    overrides_cost(&cost, largest, &list);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(peak_kilobytes() - before < 64 * 1024);
    assert_true(end.tv_sec - start.tv_sec < 2); /* normally a millisecond; busy machines stall */
    assert_close(cost.bytes.weights, 4 * cost.params, 0);
    assert_true(cost.bytes.weights > 216e9);
    assert_true(cost.bytes.activations > 1e12); /* 4096 images of 256 tokens through 32 blocks */
    smoe_cost_free(&cost);
}

/* The benchmarks: activations in BF16 take at most 60% of those in F32. */
static void memory_in_bf16(void **state) {
    static const char *const names[] = {"tiny-dense",  "tiny-soft64",    "s16-dense",
                                        "s16-soft128", "routers-tokens", "routers-experts"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        double bytes[2];
        for (int narrow = 0; narrow < 2; narrow++) {
            smoe_spec spec;
            smoe_cost cost;
            smoe_err err = {0};
            char path[64], f32[] = "train.precision=f32", bf16[] = "train.precision=bf16";
            snprintf(path, sizeof path, "experiments/bench/%s.yaml", names[i]);
            if (smoe_spec_read(&spec, path, (char *[]){narrow ? bf16 : f32}, 1, &err) ||
                smoe_cost_estimate(&cost, &spec, 10, &err))
                fail_msg("%s", err.text);
            bytes[narrow] = cost.bytes.activations;
            smoe_cost_free(&cost);
            smoe_spec_free(&spec);
        }
        if (!(bytes[1] <= 0.6 * bytes[0])) fail_msg("%s: %.3f", names[i], bytes[1] / bytes[0]);
    }
}

/* Of all computing half is that of experts, as much forward as backward. Two processes: experts
 * compute 8 s, 2 for the rows of one process in one pass, which take 1 or 2 s to travel. The first
 * half of the own rows ends at 1, the other rows are there at 1 (2) and done at 3 (4), their
 * results are back at 4 (6), the second half is done at 4 (5): instead of 2 * 2 + 2 * 1 = 6 s
 * (2 * 2 + 2 * 2 = 8) a pass takes 4 (6). Four processes whose rows take 2 s to compute and 3 to
 * travel: the link never rests, so that a pass takes 6 * 3 s, instead of 4 * 2 + 6 * 3. */
static void slots_travel_while_experts_compute(void **state) {
    const smoe_cost cost = {.products_slots_per_image = 50, .flops_train_computed_per_image = 100};
    smoe_cost_share share = {.over = 2, .computing = 16, .slots = 4};
    assert_close(smoe_cost_overlap(&share, &cost), 4, 1e-12);
    share.slots = 8;
    assert_close(smoe_cost_overlap(&share, &cost), 4, 1e-12);
    share = (smoe_cost_share){.over = 4, .computing = 32, .slots = 36};
    assert_close(smoe_cost_overlap(&share, &cost), 16, 1e-12);
    share.over = 1;
    assert_close(smoe_cost_overlap(&share, &cost), 0, 0);
}

/* The seconds of slots are those of the link, and experts that are not divided send none. */
static void seconds_of_slots(void **state) {
    const double rate = 1e6, latency = 1e-3;
    smoe_spec spec;
    smoe_cost_share share;
    smoe_err err;
    overrides list = {0};
    overrides_set(&list, "train.pieces=4");
    overrides_set(&list, "train.experts_over=2");
    overrides_parse(&spec, tiny, &list);
    assert_int_equal(smoe_cost_share_of(&share, &spec, 3, 4, rate, latency, &err), 0);
    assert_int_equal(share.over, 2);
    const smoe_sent *sent = &share.sent[SMOE_TRAFFIC_SLOTS];
    assert_true(sent->bytes > 0);
    assert_close(share.slots, (double)sent->bytes / rate + (double)sent->messages * latency, 1e-9);
    assert_true(share.slots < share.seconds);
    smoe_spec_free(&spec);
}

static void classes_must_be_known(void **state) {
    smoe_spec spec;
    smoe_cost cost;
    smoe_err err = {0};
    overrides list = {0};
    overrides_set(&list, "data.classes=0");
    overrides_parse(&spec, tiny, &list);
    assert_int_equal(smoe_cost_estimate(&cost, &spec, 0, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, "data.classes"));
    smoe_cost_free(&cost);
    if (smoe_cost_estimate(&cost, &spec, 3, &err)) fail_msg("%s", err.text);
    assert_close(row_of(&cost, "head")->params, 15, 0);
    smoe_cost_free(&cost);
    smoe_spec_free(&spec);
}

/* Two such layers, each with its own K and C. K 1, C 1: 2*4*1/2 = 4 places per expert, 4 rows
 * per image, one expert per token. K 2, C 0.75 is the layer above. Element-wise 33*2*4*4 +
 * 9*8*(4 + 6) + 2 * 4*2*16 = 2032. */
static void counted_by_hand_lists(void **state) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    overrides list = {0};
    overrides_set(&list, "model.depth=2");
    overrides_set(&list, "model.moe.layers=all");
    overrides_set(&list, "model.moe.router=tokens-choice");
    overrides_set(&list, "model.moe.k=[1, 2]");
    overrides_set(&list, "model.moe.capacity=[1, 0.75]");
    count(&cost, &list, "model.moe.group_images=2");
    assert_row(&cost, "blocks.0.mlp.experts", 152, 512, 1536);
    assert_row(&cost, "blocks.1.mlp.experts", 152, 768, 2304);
    assert_close(cost.params_active - (cost.params - cost.params_expert), 2.5 * 76, 0);
    assert_close(cost.flops_infer_per_image - cost.products_infer_per_image, 2032, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_by_hand_soft),
        cmocka_unit_test(counted_by_hand_choice),
        cmocka_unit_test(counted_by_hand_frozen),
        cmocka_unit_test(counted_by_hand_frozen_pooling),
        cmocka_unit_test(counted_by_hand_lists),
        cmocka_unit_test(counted_by_hand_states),
        cmocka_unit_test(counted_by_hand_identity),
        cmocka_unit_test(never_more_active_than_there_are),
        cmocka_unit_test(fixed_routing_is_cheaper),
        cmocka_unit_test(other_heads),
        cmocka_unit_test(matches_the_parameter_table),
        cmocka_unit_test(gradients_of_few_rows),
        cmocka_unit_test(gradients_of_odd_widths),
        cmocka_unit_test(largest_model_costs_nothing),
        cmocka_unit_test(memory_in_bf16),
        cmocka_unit_test(slots_travel_while_experts_compute),
        cmocka_unit_test(seconds_of_slots),
        cmocka_unit_test(classes_must_be_known),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
