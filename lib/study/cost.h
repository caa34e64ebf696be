/*
 * Cost before training: parameters, FLOPs and bytes of a spec, without data and without memory for
 * the model. Convention: a multiply-add is 2 FLOPs; the formulas are those that reproduce the papers' printed numbers (man smoe-cost).
 */
#ifndef SMOE_COST_H
#define SMOE_COST_H

#include "base/base.h"
#include "spec/spec.h"

typedef struct smoe_cost_layer {
    char name[48];            /* "patch_embed", "blocks.3.attn", "blocks.3.mlp.experts", "head" ... */
    double params;
    double flops_infer, flops_train; /* per image; products only */
} smoe_cost_layer;

typedef struct smoe_cost {
    double params, params_active, params_expert;
    double flops_infer_per_image, flops_train_per_image; /* papers' convention, elementwise estimate included */
    double products_infer_per_image, products_train_per_image; /* products only: what a bench divides by time */
    double train_exaflop;     /* flops_train_per_image * batch_size * steps / 1e18, full count */
    struct { double weights, gradients, optimizer, activations; } bytes;
    smoe_cost_layer *layer;
    size_t layers;
} smoe_cost;

typedef struct smoe_cost_options {
    bool einsum;      /* sparse routers dispatch by one-hot products, as the papers' code does; false: gather and scatter, as here */
    bool pre_logits;  /* a d x d layer before the head (V-MoE's models; not in ours) */
    bool unrounded;   /* buffers of K*C*tokens/E without rounding (what V-MoE Table 7 fits) */
    size_t group_tokens; /* 0: group_images of the spec; else tokens of a group, as the papers' tables give them */
} smoe_cost_options;

/* classes: N, where the spec's data.classes is 0. Free with smoe_cost_free. */
int smoe_cost_estimate(smoe_cost *cost, const smoe_spec *spec, size_t classes,
                       const smoe_cost_options *options, smoe_err *err) SMOE_MUST_CHECK;
void smoe_cost_free(smoe_cost *cost);

#endif
