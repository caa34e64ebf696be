/* Costs of layers; see costs.h. */
#include "vit/costs.h"
#include "base/alloc.h"

#include <stdarg.h>

/* The parameters called NAME or NAME.x. */
static double params_under(const smoe_params *params, const char *name) {
    size_t length = strlen(name);
    double sum = 0;
    for (size_t i = 0; i < params->count; i++) {
        const char *tensor = params->param[i].name;
        if (!strncmp(tensor, name, length) && (!tensor[length] || tensor[length] == '.'))
            sum += (double)params->param[i].size;
    }
    return sum;
}

void smoe_costs_count(const smoe_costs *costs, smoe_cost_layer *layer) {
    layer->params = params_under(costs->params, layer->name);
}

smoe_cost_layer *smoe_costs_add(smoe_costs *costs, smoe_part part, double macs, int times,
                                const char *fmt, ...) {
    smoe_cost_layer *layer = &SMOE_APPEND(costs->layer, costs->count);
    *layer = (smoe_cost_layer){.part = part,
                               .copies = 1,
                               .used = 1,
                               .flops_infer = 2 * macs,
                               .flops_train = 2 * macs * times};
    va_list args;
    va_start(args, fmt);
    vsnprintf(layer->name, sizeof layer->name, fmt, args);
    va_end(args);
    smoe_costs_count(costs, layer);
    return layer;
}
