/*
 * Cost before training: parameters, FLOPs and bytes of a spec, without data and without memory for
 * the model. Convention: a multiply-add is 2 FLOPs; the formulas are those that reproduce the
 * papers' printed numbers (man smoe-cost).
 */
#ifndef SMOE_COST_H
#define SMOE_COST_H

#include "base/base.h"
#include "spec/spec.h"

/* What a row of the cost table is; the order is that of a block. */
typedef enum smoe_cost_kind {
    SMOE_COST_EMBEDDING, /* patch embedding, position, class token */
    SMOE_COST_NORM,
    SMOE_COST_ATTENTION,
    SMOE_COST_MLP, /* dense blocks */
    SMOE_COST_ROUTER,
    SMOE_COST_DISPATCH,
    SMOE_COST_EXPERTS,
    SMOE_COST_COMBINE,
    SMOE_COST_HEAD, /* attention pooling, pre-logits, classifier */
    SMOE_COST_KINDS
} smoe_cost_kind;

/* "embedding", "norm", ... */
const char *smoe_cost_kind_name(smoe_cost_kind kind);

/* One layer. Its name is the prefix of its tensors in a checkpoint: "patch_embed", "blocks.3.attn",
 * "blocks.3.mlp.experts", "head". The rows add up to the totals: parameters and products. */
typedef struct smoe_cost_layer {
    char name[48];
    smoe_cost_kind kind;
    double params;
    double flops_infer, flops_train; /* per image; products only */
} smoe_cost_layer;

typedef struct smoe_cost {
    double params;        /* all */
    double params_expert; /* in experts; the rest is shared by all tokens */
    /* Of these, whose gradients are never in memory: of experts with few rows in a batch. */
    double params_outer;
    /* Parameters the average token of an image is computed with: all outside the experts, and in
     * each MoE layer one expert's times the expert rows a token gets: S/T with the soft family,
     * min(K, E Be / group) with tokens-choice, E Be / group (about C) with experts-choice, 1 with
     * identity; never more than E. Equals params where there are no experts. */
    double params_active;
    /* Per image, in the papers' convention: products and an estimate of everything element-wise. */
    double flops_infer_per_image, flops_train_per_image;
    /* Per image, products alone: what a bench divides by time. */
    double products_infer_per_image, products_train_per_image;
    double train_exaflop; /* flops_train_per_image * batch_size * steps / 1e18; the full count: the
                             Soft MoE paper prints half of it, the V-MoE paper all */
    struct {
        double weights;     /* 4 a parameter */
        double gradients;   /* 4, or 0 where factored */
        double optimizer;   /* 8 (Adam) or 4 (SGD) */
        double activations; /* of a training step of batch_size images */
    } bytes;
    smoe_cost_layer *layer;
    size_t layers;
} smoe_cost;

/* Departures from how this program computes, towards how the papers' did. NULL: none. */
typedef struct smoe_cost_options {
    bool einsum; /* the choice routers dispatch and combine by one-hot products; else by gather and
                    scatter, which have no products (Soft MoE Table 9: true, V-MoE: false) */
    bool unrounded;  /* their buffers are K C tokens / E, not rounded (V-MoE Table 7) */
    bool pre_logits; /* a d x d layer before the head (V-MoE's models; ours have none) */
} smoe_cost_options;

/* classes: N where the spec's data.classes is 0; both 0 is an error (SMOE_USAGE). *cost is filled;
 * free it with smoe_cost_free, also after a failure. */
int smoe_cost_estimate(smoe_cost *cost, const smoe_spec *spec, size_t classes,
                       const smoe_cost_options *options, smoe_err *err) SMOE_MUST_CHECK;
void smoe_cost_free(smoe_cost *cost);

#endif
