/* A YAML text as a tree of nodes, for its readers: read.c reads the keys of the table, lists.c
 * those whose value is a list of mappings or texts, sweep.c the section `sweep`. */
#pragma once

#include "spec/schema.h"

typedef enum smoe_node_kind {
    SMOE_NODE_TEXT,
    SMOE_NODE_LIST,
    SMOE_NODE_MAP,
    SMOE_NODE_ALIAS
} smoe_node_kind;

typedef struct smoe_node {
    smoe_node_kind kind;
    bool plain;              /* TEXT: without quotes */
    bool cut;                /* LIST and MAP: what follows in it could not be read */
    const char *text;        /* of a TEXT without NUL characters, else NULL */
    const char *refused;     /* what a spec does not allow here, "a tag (!)", or NULL */
    smoe_provenance where;   /* it starts */
    struct smoe_node *first; /* of a LIST its first item, of a MAP its first key */
    struct smoe_node *next;  /* the next item, or key */
    struct smoe_node *value; /* of a key */
} smoe_node;

typedef struct smoe_tree {
    smoe_node *root;       /* NULL: there is no document */
    char *trouble;         /* what ended the reading early, or NULL */
    smoe_provenance where; /* of the trouble */
    smoe_alloc_pool pool;
} smoe_tree;

/* Reads the one document of a text. `where` has kind and index of all places. */
void smoe_tree_read(smoe_tree *tree, const char *text, size_t length, const smoe_provenance *where);
void smoe_tree_free(smoe_tree *tree);

/* Whether a node has no anchor, alias or tag; reports them. */
bool smoe_node_allowed(smoe_reading *reading, const smoe_node *node, const char *key);
/* The index of a key in `names`, which ends with NULL; their number for other keys. */
size_t smoe_node_among(const smoe_node *key, const char *const *names);

/* Reads the list of entry `entry`: train.optimizer.groups, and eval.zeroshot (lists.c). */
void smoe_node_groups(smoe_reading *reading, int entry, const smoe_node *list);
void smoe_node_prompts(smoe_reading *reading, int entry, const smoe_node *list);
/* Reads the section `sweep` (sweep.c). */
void smoe_node_sweep(smoe_reading *reading, const smoe_node *section);
