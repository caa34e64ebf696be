/* Where the time of a pass goes: seconds by part of the model, for `smoe bench`. */
#ifndef SMOE_CLOCK_H
#define SMOE_CLOCK_H

#include "base/base.h"

/* PART(name, what it holds) */
#define SMOE_PARTS(PART)                                              \
    PART(embed, "patches, projection, positions")                     \
    PART(norm, "LayerNorms of the blocks")                            \
    PART(attention, "queries, keys, values, heads, projection")       \
    PART(mlp, "dense MLPs")                                           \
    PART(router, "logits, softmaxes or choices, and their gradients") \
    PART(dispatch, "tokens to slots")                                 \
    PART(experts, "the experts' MLPs")                                \
    PART(combine, "slots to tokens")                                  \
    PART(head, "final norm, pooling, classifier")                     \
    PART(loss, "loss and its gradient")                               \
    PART(optimizer, "gradient norm and update")

typedef enum smoe_part {
#define PART(name, help) SMOE_PART_##name,
    SMOE_PARTS(PART)
#undef PART
        SMOE_PART_COUNT
} smoe_part;

/* Its name in tables and JSON. */
const char *smoe_part_name(smoe_part part);

typedef struct smoe_clock {
    double last, seconds[SMOE_PART_COUNT];
} smoe_clock;

/* Seconds of a monotonic clock. */
double smoe_now(void);

/* Adds the time since the last lap (or start) to `part`. With a NULL clock nothing is measured. */
void smoe_clock_start(smoe_clock *clock);
void smoe_clock_lap(smoe_clock *clock, smoe_part part);

#endif
