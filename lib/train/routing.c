/* Counts of routing over an evaluation; see routing.h. */
#include "train/routing.h"

static void routing_count(void *routing, size_t i, const smoe_router *router) {
    smoe_routing *r = routing;
    const smoe_plan *plan = &router->plan;
    if (!plan->sparse) return;
    r->tokens[i] += plan->tokens;
    r->dropped[i] += plan->choices.dropped;
    for (size_t e = 0; e < r->E; e++) {
        r->chosen[i * r->E + e] += plan->choices.chosen[e];
        r->lost[i * r->E + e] += plan->choices.lost[e];
    }
}

void smoe_routing_open(smoe_routing *r, smoe_model *model) {
    size_t layers = smoe_model_moe_layers(model);
    *r = (smoe_routing){.layers = layers};
    r->E = layers ? smoe_model_router(model, 0)->E : 0;
    r->tokens = smoe_alloc_in(&r->memory, layers, sizeof *r->tokens);
    r->dropped = smoe_alloc_in(&r->memory, layers, sizeof *r->dropped);
    r->chosen = smoe_alloc_in(&r->memory, layers * r->E, sizeof *r->chosen);
    r->lost = smoe_alloc_in(&r->memory, layers * r->E, sizeof *r->lost);
    r->model = model;
    smoe_model_watch(model, routing_count, r);
}

void smoe_routing_stop(smoe_routing *r) {
    if (r->model) smoe_model_watch(r->model, NULL, NULL);
}

void smoe_routing_free(smoe_routing *r) {
    smoe_routing_stop(r);
    smoe_alloc_pool_free(&r->memory);
    *r = (smoe_routing){0};
}

void smoe_routing_sum(smoe_routing *r, smoe_comm *comm) {
    smoe_comm_sum_counts(comm, r->tokens, r->layers);
    smoe_comm_sum_counts(comm, r->dropped, r->layers);
    smoe_comm_sum_counts(comm, r->chosen, r->layers * r->E);
    smoe_comm_sum_counts(comm, r->lost, r->layers * r->E);
}

static double dropped_share(const smoe_routing *r, size_t layer) {
    return (double)r->dropped[layer] / (double)r->tokens[layer];
}

double smoe_routing_dropped(const smoe_routing *r) {
    double worst = NAN;
    for (size_t i = 0; i < r->layers; i++)
        if (r->tokens[i] && !(dropped_share(r, i) <= worst)) worst = dropped_share(r, i);
    return worst;
}

/* A list over the experts of a layer: choices made minus `minus`. */
static void routing_add_list(json_t *record, size_t block, smoe_metric metric, const size_t *made,
                             const size_t *minus, size_t E) {
    char key[SMOE_METRIC_KEY];
    json_t *list = json_array();
    for (size_t e = 0; e < E; e++)
        json_array_append_new(list, json_integer((json_int_t)(made[e] - (minus ? minus[e] : 0))));
    json_object_set_new(record, smoe_metric_key(key, metric, NULL, block), list);
}

void smoe_routing_record(const smoe_routing *r, const char *split, json_t *record) {
    double worst = smoe_routing_dropped(r);
    if (isfinite(worst)) smoe_run_metric(record, SMOE_METRIC_TEST_DROPPED, split, 0, worst);
    for (size_t i = 0; i < r->layers; i++) {
        const size_t *chosen = r->chosen + i * r->E, *lost = r->lost + i * r->E;
        size_t block = smoe_model_moe_block(r->model, i);
        if (!r->tokens[i]) continue;
        smoe_run_metric(record, SMOE_METRIC_DROPPED, NULL, block, dropped_share(r, i));
        if (!smoe_model_router(r->model, i)->plan.choices.gate) continue; /* identity */
        routing_add_list(record, block, SMOE_METRIC_CHOSEN, chosen, NULL, r->E);
        routing_add_list(record, block, SMOE_METRIC_PLACED, chosen, lost, r->E);
        routing_add_list(record, block, SMOE_METRIC_LOST, lost, NULL, r->E);
    }
}
