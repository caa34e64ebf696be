/*
 * Cost before training: parameters, FLOPs and bytes of a spec, without data and without memory for
 * the model. Convention: a multiply-add is 2 FLOPs; the formulas are those that reproduce the
 * papers' printed numbers (man smoe-cost).
 */
#pragma once

#include "data/scan.h"
#include "comm/comm.h"
#include "spec/spec.h"
#include "vit/model.h"

/* Bytes of a process that trains. */
typedef struct smoe_cost_bytes {
    double weights;     /* 4 per parameter */
    double gradients;   /* 4, or 0 where factored; of G pieces 1 + log2 G times that */
    double optimizer;   /* 8 (Adam) or 4 (SGD) */
    double activations; /* of a training step, piece by piece */
} smoe_cost_bytes;

typedef struct smoe_cost {
    double params;        /* all */
    double params_expert; /* in experts; the rest is shared by all tokens */
    /* Those of the former whose gradients are never in memory, because each expert has few rows in
     * a batch. */
    double params_outer;
    /* Parameters the average token of an image is computed with: all outside the experts, and in
     * each MoE layer one expert's times the expert rows a token gets: S/T with the soft family,
     * min(K, E Be / group) with tokens-choice, E Be / group (about C) with experts-choice, 1 with
     * identity; never more than E. Equals params where there are no experts. */
    double params_active;
    /* Per image, in the papers' convention: products and an estimate of everything element-wise. */
    double flops_infer_per_image, flops_train_per_image;
    /* The same without places of buffers that no token can take (at most K rows per token), and
     * with the forward passes of pieces that are computed again (smoe_step_again). */
    double flops_infer_computed_per_image, flops_train_computed_per_image;
    /* Per image, products alone. */
    double products_infer_per_image, products_train_per_image;
    /* The same without places that no token can take: what a bench divides by time. */
    double products_infer_computed_per_image, products_train_computed_per_image;
    /* Of the latter, outputs of experts and gradients of their inputs: several processes compute
     * these while slots travel. */
    double products_slots_per_image;
    double train_exaflop; /* flops_train_per_image * batch_size * steps / 1e18; the full count: the
                             Soft MoE paper prints half of it, the V-MoE paper all */
    smoe_cost_bytes bytes;
    smoe_cost_layer *layer; /* they add up to the totals: parameters and products */
    size_t layers;
} smoe_cost;

/* The memory of each of several processes, and what it sends in a step: the largest of all. */
typedef struct smoe_cost_share {
    int processes;
    smoe_cost_bytes bytes;
    smoe_sent sent[SMOE_TRAFFICS];
    double seconds;   /* that messages take one after the other */
    double slots;     /* of these, the seconds of the slots */
    int over;         /* processes that divide the experts of a layer; 1: each has all */
    double computing; /* seconds that its FLOPs take; filled by the caller, who knows a rate */
} smoe_cost_share;

/* For this number of processes, a power of two that divides train.pieces (else SMOE_USAGE), with
 * links that each move `rate` bytes per second in both directions at once, and take `latency`
 * seconds per message. classes as below. */
int smoe_cost_share_of(smoe_cost_share *share, const smoe_spec *spec, size_t classes, int processes,
                       double rate, double latency, smoe_err *err) SMOE_MUST_CHECK;

/* The seconds of a step in which slots travel while experts compute: it is shorter by that than
 * computing and communication one after the other. */
double smoe_cost_overlap(const smoe_cost_share *share, const smoe_cost *cost);

/* classes: N where the spec's data.classes is 0; both 0 is an error (SMOE_USAGE). *cost is filled;
 * free it with smoe_cost_free, also after a failure. */
int smoe_cost_estimate(smoe_cost *cost, const smoe_spec *spec, size_t classes,
                       smoe_err *err) SMOE_MUST_CHECK;
void smoe_cost_free(smoe_cost *cost);

/* The sum of all kinds. */
double smoe_cost_bytes_sum(const smoe_cost_bytes *bytes);

/* The number of classes: of the spec, the source, or the data, which is only listed. */
int smoe_cost_classes(const smoe_spec *spec, size_t *classes, smoe_scan *scan,
                      smoe_err *err) SMOE_MUST_CHECK;

/* As smoe_spec_parse. Where train.flops is given, train.steps becomes the number of whole
 * steps that it allows, and train.flops 0, so that the resolved spec has steps alone. SMOE_USAGE:
 * less than one step, or more than train.steps can be. */
int smoe_budget_parse(smoe_spec *spec, const smoe_spec_text *text, char *const *overrides,
                      size_t count, smoe_err *err) SMOE_MUST_CHECK;
