/*
 * The cost of the layers of a model: one entry per layer, added by the layer itself. Sums, bytes of
 * weights and the counts of the papers are left to bench/cost.h.
 */
#pragma once

#include "base/param.h"
#include "route/router.h"
#include "spec/parts.h"

/* One layer. Its name is the prefix of its tensors in a checkpoint: "patch_embed", "blocks.3.attn",
 * "blocks.3.mlp.experts", "head". FLOPs and bytes are those of one image; a multiply-add is 2. */
typedef struct smoe_cost_layer {
    char name[48];
    smoe_part part;        /* its kind, and the clock that its time is added to */
    double params, frozen; /* all, and of these the frozen ones */
    double frozen_share;   /* of its products with weights, those of frozen ones */
    double copies, used;   /* experts, and the number that the average token uses; else 1 and 1 */
    double flops_infer, flops_train; /* of products */
    double flops_weights;            /* of products forward, those with weights */
    double elementwise;              /* FLOPs forward beside them, an estimate */
    bool forward_only;               /* a training step has no backward pass of it */
    /* Of these, what stands for places of buffers that no token can take: they are counted, as the
     * papers do, and not computed. */
    double idle_infer, idle_train, idle_elementwise;
    double moved_infer, moved_train; /* bytes of activations, where a layer does nothing else */
} smoe_cost_layer;

typedef struct smoe_costs {
    const smoe_params *params; /* the table that entries count their parameters in */
    smoe_cost_layer *layer;    /* owned */
    size_t count;
} smoe_costs;

/* Counts the parameters again for an entry that was renamed. */
void smoe_costs_count(const smoe_costs *costs, smoe_cost_layer *layer);

/* Adds an entry of that name: `macs` multiply-adds forward, each done `times` in a training step:
 * 3, or 2 where one of its factors has no gradient. They count as products with weights. Its
 * parameters are counted in the table; the entry can be added to until the next one. */
smoe_cost_layer *smoe_costs_add(smoe_costs *costs, smoe_part part, double macs, int times,
                                const char *fmt, ...) SMOE_PRINTF(5, 6);

/* The entries from `first` on are not trained, and no gradient passes through them. */
void smoe_costs_forward_only(smoe_costs *costs, size_t first);

/* Frozen weights have no gradient: subtracts these products from the entries that are trained. */
void smoe_costs_freeze(smoe_costs *costs);
