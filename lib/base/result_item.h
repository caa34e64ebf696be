/* What a result consists of; for its writers alone. */
#ifndef SMOE_RESULT_ITEM_H
#define SMOE_RESULT_ITEM_H

#include "base/result.h"

typedef enum smoe_item_kind {
    SMOE_ITEM_FACT,
    SMOE_ITEM_VALUE,
    SMOE_ITEM_LINE,
    SMOE_ITEM_TABLE,
    SMOE_ITEM_FRAME,
    SMOE_ITEM_PART
} smoe_item_kind;

typedef struct smoe_item {
    smoe_item_kind kind;
    char *key; /* in JSON; of a LINE its label */
    smoe_column fact;
    smoe_datum datum;
    char *heading; /* of a FACT, or NULL */
    char *text;    /* of a FACT, of a LINE */
    json_t *value; /* VALUE */
    smoe_frame *table;
    const smoe_frame *frame;
    bool printed; /* FRAME */
    smoe_result *part;
} smoe_item;

#endif
