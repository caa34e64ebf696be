/* Events of a YAML text, for its readers: read.c reads the keys of the table, sweep.c the section
 * `sweep`. */
#ifndef SMOE_EVENTS_H
#define SMOE_EVENTS_H

#include "spec/schema.h"

#include <yaml.h>

/* One run of the parser, over a file or over an override's value. */
typedef struct smoe_events {
    smoe_reading *reading;
    const char *text;
    size_t length;
    smoe_provenance where; /* kind and index; line and column are filled in for each event */
    yaml_parser_t parser;
    bool stop;
    /* Where an entry [0] or a section (its first entry [level]) was named; 0: not yet.  */
    size_t line[SMOE_SCHEMA_COUNT][SMOE_SCHEMA_LEVELS];
} smoe_events;

/* Where an event starts. */
smoe_provenance smoe_events_place(const smoe_events *src, const yaml_event_t *event);
/* The next event, the caller's to delete; false when there is none because of a syntax error
 * (reported) or an earlier stop. */
bool smoe_events_next(smoe_events *src, yaml_event_t *event);
/* Skips the node that starts with this event. */
void smoe_events_skip(smoe_events *src, const yaml_event_t *first);
/* Whether this node has no anchor, alias or tag, which a spec does not allow; reports them. */
bool smoe_events_plain(smoe_events *src, const yaml_event_t *event, const char *key);
/* The text of the scalar, or NULL if it has a NUL character. */
const char *smoe_events_scalar(const yaml_event_t *event);

/* Reads the list of entry `entry`, train.optimizer.groups, whose start was read (groups.c). */
void smoe_groups_read(smoe_events *src, int entry, const smoe_provenance *where);
/* Likewise of entry `entry`, eval.zeroshot (prompts.c). */
void smoe_prompts_read(smoe_events *src, int entry);
/* Reads the section `sweep`, which starts with this event (sweep.c). */
void smoe_events_sweep(smoe_events *src, const yaml_event_t *value);

#endif
