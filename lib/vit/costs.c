/* Costs of layers; see costs.h. */
#include "vit/costs.h"

#include <stdarg.h>

/* The parameters called NAME or NAME.x. A state of a router counts as frozen: it is not trained. */
void smoe_costs_count(const smoe_costs *costs, smoe_cost_layer *layer) {
    size_t length = strlen(layer->name);
    double matrices = 0, frozen_matrices = 0;
    layer->params = layer->frozen = 0;
    for (size_t i = 0; i < costs->params->count; i++) {
        const smoe_param *p = &costs->params->param[i];
        if (strncmp(p->name, layer->name, length) || (p->name[length] && p->name[length] != '.'))
            continue;
        bool frozen = p->frozen, matrix = p->ndim - p->stacked > 1;
        layer->params += (double)p->size;
        if (frozen) layer->frozen += (double)p->size;
        if (matrix) matrices += (double)p->size;
        if (matrix && frozen) frozen_matrices += (double)p->size;
    }
    layer->frozen_share = matrices > 0 ? frozen_matrices / matrices : 0;
}

void smoe_costs_forward_only(smoe_costs *costs, size_t first) {
    for (size_t i = first; i < costs->count; i++) {
        smoe_cost_layer *layer = &costs->layer[i];
        layer->forward_only = true;
        layer->flops_train = layer->flops_infer;
        layer->idle_train = layer->idle_infer;
        layer->moved_train = layer->moved_infer;
    }
}

void smoe_costs_freeze(smoe_costs *costs) {
    for (size_t i = 0; i < costs->count; i++) {
        smoe_cost_layer *layer = &costs->layer[i];
        if (layer->forward_only) continue;
        layer->flops_train -= layer->frozen_share * layer->flops_weights;
        layer->idle_train -= layer->frozen_share * layer->idle_infer;
    }
}

smoe_cost_layer *smoe_costs_add(smoe_costs *costs, smoe_part part, double macs, int times,
                                const char *fmt, ...) {
    smoe_cost_layer *layer = &SMOE_APPEND(costs->layer, costs->count);
    *layer = (smoe_cost_layer){.part = part,
                               .copies = 1,
                               .used = 1,
                               .flops_infer = 2 * macs,
                               .flops_train = 2 * macs * times,
                               .flops_weights = 2 * macs};
    va_list args;
    va_start(args, fmt);
    vsnprintf(layer->name, sizeof layer->name, fmt, args);
    va_end(args);
    smoe_costs_count(costs, layer);
    return layer;
}
