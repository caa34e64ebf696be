/*
 * Exact counts of dropped tokens and of choices over a whole evaluation, for every layer whose
 * router places tokens (Soft MoE paper, appendix B: token dropping; V-MoE: load of experts). Layers
 * of the soft family have nothing to count.
 */
#pragma once

#include "store/run.h"
#include "vit/model.h"

typedef struct smoe_routing {
    smoe_alloc_pool memory;
    smoe_model *model;
    size_t layers, E;
    size_t *tokens, *dropped; /* [layers] tokens 0: this layer places none */
    size_t *chosen, *lost;    /* [layers,E] choices made; choices that found the buffer full */
} smoe_routing;

/* Counts the routing of the passes of `model` from now on, until `stop`, as the model's
 * smoe_tower_watch. The struct must not be moved meanwhile. Free in any case. */
void smoe_routing_open(smoe_routing *routing, smoe_model *model);
void smoe_routing_stop(smoe_routing *routing);
void smoe_routing_free(smoe_routing *routing);

/* Gives every process the sums of the counts of all processes. */
void smoe_routing_sum(smoe_routing *routing, smoe_comm *comm);

/* The largest share of dropped tokens of a layer; NAN where none places tokens. */
double smoe_routing_dropped(const smoe_routing *routing);

/* Adds what was counted over `split` to a record: the metrics TEST_DROPPED and, for each layer,
 * DROPPED and (where choices were made) the lists CHOSEN, PLACED and LOST. */
void smoe_routing_record(const smoe_routing *routing, const char *split, json_t *record);
