/*
 * A model with fewer experts, made from a trained one: each MoE layer keeps those with the largest
 * combine weights on given images, or is replaced by a dense MLP, the mean of its experts.
 */
#pragma once

#include "train/likeness.h"

typedef struct smoe_pruned {
    size_t layers, before; /* MoE layers, and the experts of each before */
    size_t experts;        /* of each now; 0: the mean is a dense MLP */
    double *share;         /* [layers, before] of the combine weights of a layer; each sums to 1 */
    size_t *kept;          /* [layers, experts] ascending */
    smoe_likeness likeness;
} smoe_pruned;

/* The spec of that model: `to` from that of the trained model, resolved (`from`) and as the text in
 * its file. 0 experts: the mean. SMOE_USAGE if it cannot have fewer, or the spec would not be
 * valid. */
int smoe_prune_spec(smoe_spec *to, const smoe_spec *from, const char *text, size_t experts,
                    smoe_err *err) SMOE_MUST_CHECK;

/*
 * The weights of `to`, created from that spec and without slabs, from the file of `from`, which is
 * mapped. Experts are ranked, and logits compared, by the images. Among equals the one with the
 * lower index is kept. The mean weighs each expert by its share. Release with smoe_pruned_free in
 * any case.
 */
int smoe_prune(smoe_pruned *pruned, smoe_model *to, size_t experts, const smoe_model_source *from,
               const smoe_likeness_images *by, smoe_err *err) SMOE_MUST_CHECK;
void smoe_pruned_free(smoe_pruned *pruned);
