/*
 * Cost before training: the costs of the layers of a model (vit/costs.h), their sums, and the
 * bytes.
 *
 * The count is of multiply-adds, 2 FLOPs each. A training step does a product three times: forward,
 * gradient of the one factor, gradient of the other; twice where a factor has no gradient (the
 * pixels, constant dispatch or combine weights, frozen weights). Layers before the first trained
 * parameter have only a forward pass. Element-wise work is a small estimate on top:
 *
 *   forward   33 L m d + 9 h (dense m + MoE r) + 4 L a m^2
 *             + MoE (8 m S a softmaxed side | 4 m E Be)
 *   training  4 times that, or once without a backward pass, and 1 FLOP per image for each
 *             trained parameter outside the experts
 *
 * with m tokens, r expert rows per image, a heads. The constants are rough counts of norms, biases,
 * GELU and softmaxes; the last two are what fits the training totals of Soft MoE Tables 2 and 9.
 */
#include "bench/cost.h"
#include "data/dataset.h"
#include "spec/sources.h"
#include "math/rows.h"
#include "train/optim.h"
#include "train/step.h"

/* `again`: forward passes of a step beside its own. */
static void sum_layers(smoe_cost *cost, const smoe_spec *spec, int again) {
    double rest = 0, idle = 0;             /* elementwise */
    double rest_train = 0, idle_train = 0; /* the same of a training step */
    double used = 0;                       /* parameters of the experts that a token uses */
    double updated = 0;                    /* trained parameters outside the experts */
    for (size_t i = 0; i < cost->layers; i++) {
        const smoe_cost_layer *layer = &cost->layer[i];
        double passes = layer->forward_only ? 1 : 4;
        cost->params += layer->params;
        if (layer->part == SMOE_PART_experts) {
            cost->params_expert += layer->params;
            used += layer->used * (layer->params / layer->copies);
            cost->products_slots_per_image +=
                (layer->forward_only ? 1 : 2) * (layer->flops_infer - layer->idle_infer);
        } else {
            updated += layer->params - layer->frozen;
        }
        cost->products_infer_per_image += layer->flops_infer;
        cost->products_train_per_image += layer->flops_train;
        rest += layer->elementwise;
        rest_train += passes * layer->elementwise;
        cost->products_infer_computed_per_image += layer->flops_infer - layer->idle_infer;
        cost->products_train_computed_per_image += layer->flops_train - layer->idle_train;
        idle += layer->idle_elementwise;
        idle_train += passes * layer->idle_elementwise;
    }
    cost->params_active = cost->params - cost->params_expert + used;
    cost->flops_infer_per_image = cost->products_infer_per_image + rest;
    cost->flops_train_per_image = cost->products_train_per_image + rest_train + updated;
    cost->flops_infer_computed_per_image = cost->products_infer_computed_per_image + rest - idle;
    cost->flops_train_computed_per_image = cost->products_train_computed_per_image + rest_train -
                                           idle_train + updated +
                                           again * cost->flops_infer_computed_per_image;
    cost->train_exaflop = cost->flops_train_per_image * (double)spec->train.batch_size *
                          (double)spec->train.steps / 1e18;
}

/* Of a process of `comm`, by which the model is sharded; `comm` NULL: the only one. */
static smoe_cost_bytes bytes_of(smoe_model *model, const smoe_spec *spec, const smoe_comm *comm) {
    smoe_params *params = smoe_model_params(model);
    const smoe_expert_parallel *sharded = comm ? smoe_model_expert_parallel(model) : NULL;
    size_t G = spec->train.pieces, R = comm ? (size_t)comm->size : 1;
    double experts = 0, stored = 0; /* of sharded experts: trained, and those with gradients */
    params->passes = smoe_optim_outer(&spec->train) ? G : 0;
    smoe_cost_bytes bytes = {
        .weights = 4 * (double)params->total,
        .optimizer = smoe_optim_bytes(params, &spec->train),
        .activations = (double)smoe_model_measure(model, spec->train.batch_size / G, true)};
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->param[i];
        if (!smoe_param_sharded(p) || p->frozen) continue;
        experts += (double)p->size;
        if (!p->outer) stored += (double)p->size;
    }
    double of_experts = bytes.optimizer * experts / (double)smoe_params_trained(params);
    if (R > 1 && smoe_optim_shards(&spec->train))
        bytes.optimizer = of_experts + (bytes.optimizer - of_experts) / (double)R;
    if (spec->train.ema > 0) bytes.optimizer += bytes.weights;
    bytes.gradients = 4 * ((double)smoe_params_gradients(params) - stored) *
                      (double)(1 + smoe_rows_levels(G / R));
    if (sharded) bytes.gradients += 4 * stored * (double)(1 + smoe_expert_parallel_sums(sharded));
    return bytes;
}

int smoe_cost_estimate(smoe_cost *cost, const smoe_spec *spec, size_t classes, smoe_err *err) {
    size_t N = spec->data.classes ? spec->data.classes : classes;
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    *cost = (smoe_cost){0};
    if (!N)
        return smoe_fail(err, SMOE_USAGE,
                         "data.classes: the number of classes is needed when the data is not read");
    if (smoe_model_create(&model, spec, N, err)) return -1;
    smoe_costs costs = {.params = smoe_model_params(model)};
    smoe_model_cost(model, &costs);
    cost->layer = costs.layer;
    cost->layers = costs.count;
    sum_layers(cost, spec, smoe_step_again(model, &spec->train));
    cost->bytes = bytes_of(model, spec, NULL);
    cost->params_outer =
        (double)(smoe_params_trained(costs.params) - smoe_params_gradients(costs.params));
    return 0;
}

/* Memory of the process of `comm`, and what it sends; the shares are the largest so far. */
static int add_process(smoe_cost_share *share, const smoe_spec *spec, size_t N, smoe_comm *comm,
                       double rate, double latency, smoe_err *err) {
    SMOE_FREED_BY(smoe_model_freed) smoe_model *model = NULL;
    size_t G = spec->train.pieces, R = (size_t)comm->size;
    if (smoe_model_create(&model, spec, N, err)) return -1;
    smoe_model_shard(model, comm, spec->train.experts_over, G / R);
    const smoe_expert_parallel *sharded = smoe_model_expert_parallel(model);
    const smoe_cost_bytes bytes = bytes_of(model, spec, comm);
    share->bytes.weights = fmax(share->bytes.weights, bytes.weights);
    share->bytes.gradients = fmax(share->bytes.gradients, bytes.gradients);
    share->bytes.optimizer = fmax(share->bytes.optimizer, bytes.optimizer);
    share->bytes.activations = fmax(share->bytes.activations, bytes.activations);
    smoe_step_expect(model, &spec->train, comm);
    double seconds = 0;
    for (int k = 0; k < SMOE_TRAFFICS; k++) {
        const smoe_sent *sent = &comm->sent[k];
        double each = (double)sent->bytes / rate + (double)sent->messages * latency;
        seconds += each;
        if (k == SMOE_TRAFFIC_SLOTS) share->slots = fmax(share->slots, each);
        smoe_sent *most = &share->sent[k];
        if (sent->bytes > most->bytes) most->bytes = sent->bytes;
        if (sent->messages > most->messages) most->messages = sent->messages;
    }
    share->seconds = fmax(share->seconds, seconds);
    share->over = sharded ? sharded->block.size : 1;
    return 0;
}

int smoe_cost_share_of(smoe_cost_share *share, const smoe_spec *spec, size_t classes, int processes,
                       double rate, double latency, smoe_err *err) {
    enum { MOST = 64 }; /* processes that are looked at: blocks of experts repeat before */
    size_t N = spec->data.classes ? spec->data.classes : classes, G = spec->train.pieces;
    const smoe_comm all = {.size = processes};
    if (processes < 1 || processes & (processes - 1) || !smoe_comm_divides(&all, G))
        return smoe_fail(err, SMOE_USAGE,
                         "%d processes cannot share train.pieces=%zu: use a power of two up to it",
                         processes, G);
    *share = (smoe_cost_share){.processes = processes};
    for (int rank = 0; rank < processes && rank < MOST; rank++) {
        smoe_comm comm = {.size = processes, .rank = rank};
        if (add_process(share, spec, N, &comm, rate, latency, err)) return -1;
    }
    return 0;
}

/* The schedule of vit/expert_parallel.c, with the passes of all layers in one. In `rows` seconds
 * experts compute the rows of one process, and in `away` seconds these travel in one direction. */
static double seconds_of_pass(int over, double rows, double away) {
    double now = rows / 2, arrived = away, link = away; /* the link is free from then on */
    for (int turn = over - 1; turn; turn--) {
        now = fmax(now, arrived);
        if (turn > 1) arrived = link = fmax(link, now) + away;
        now += rows;
        link = fmax(link, now) + away;
    }
    return fmax(now + rows / 2, link);
}

double smoe_cost_overlap(const smoe_cost_share *share, const smoe_cost *cost) {
    enum { PASSES = 2 }; /* forward and backward */
    if (share->over < 2) return 0;
    double ways = 2 * (share->over - 1);
    double experts =
        share->computing * cost->products_slots_per_image / cost->flops_train_computed_per_image;
    double pass =
        seconds_of_pass(share->over, experts / PASSES / share->over, share->slots / PASSES / ways);
    return experts + share->slots - PASSES * pass;
}

void smoe_cost_free(smoe_cost *cost) {
    free(cost->layer);
    *cost = (smoe_cost){0};
}

double smoe_cost_bytes_sum(const smoe_cost_bytes *b) {
    return b->weights + b->gradients + b->optimizer + b->activations;
}

/* ---- steps from a budget --------------------------------------------------------------------- */

int smoe_cost_classes(const smoe_spec *spec, size_t *classes, smoe_scan *scan, smoe_err *err) {
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *set = NULL;
    *classes = spec->data.classes ? spec->data.classes : smoe_sources[spec->data.source].classes;
    if (*classes) return 0;
    if (smoe_dataset_list(&set, spec, "train", scan, err)) return -1;
    *classes = smoe_dataset_classes(set);
    return 0;
}

/* The number of steps that spec->train.flops allows. */
static int cost_steps_of(const smoe_spec *spec, size_t *steps, smoe_scan *scan, smoe_err *err) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    size_t classes = 0;
    if (smoe_cost_classes(spec, &classes, scan, err) ||
        smoe_cost_estimate(&cost, spec, classes, err))
        return -1;
    double step = cost.flops_train_computed_per_image * (double)spec->train.batch_size;
    if (spec->train.flops < step)
        return smoe_fail(err, SMOE_USAGE, "%s: train.flops: %g is less than one step, %.4g FLOP",
                         spec->file, spec->train.flops, step);
    double most = floor(spec->train.flops / step), limit = 1e9; /* that of train.steps */
    if (most > limit)
        return smoe_fail(
            err, SMOE_USAGE,
            "%s: train.flops: %g is enough for %.4g steps, but at most %.0f are possible",
            spec->file, spec->train.flops, most, limit);
    *steps = (size_t)most;
    return 0;
}

int smoe_budget_parse(smoe_spec *spec, const smoe_spec_text *text, char *const *overrides,
                      size_t count, smoe_err *err) {
    smoe_spec_text counted = *text;
    if (smoe_spec_parse(spec, text, overrides, count, err)) return -1;
    if (!(spec->train.flops > 0)) return 0;
    int status = cost_steps_of(spec, &counted.steps, text->scan, err);
    smoe_spec_free(spec);
    return status ? -1 : smoe_spec_parse(spec, &counted, overrides, count, err);
}
