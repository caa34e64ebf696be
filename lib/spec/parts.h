/*
 * The parts of a model and the work of its threads, each named once: for the clocks of a pass
 * (base/clock.h, base/team.h), which know them by number, for costs and for benchmarks.
 */
#pragma once

#include "base/clock.h"
#include "base/team.h"

typedef enum smoe_part {
#define PART(name, kind, help) SMOE_PART_##name,
#define WORK(name, help)
#include "spec/parts.def"
    SMOE_PART_COUNT
} smoe_part;
_Static_assert((int)SMOE_PART_COUNT <= (int)SMOE_CLOCK_PARTS, "a clock has a place for every part");

/* Their words in tables and JSON of `smoe bench`, and of `smoe cost` ("embed" and "embedding"). */
typedef struct smoe_part_entry {
    const char *name, *kind;
} smoe_part_entry;
extern const smoe_part_entry smoe_parts[SMOE_PART_COUNT];

/* Beside those of base/team.h. */
enum {
    SMOE_WORK_attention = SMOE_WORK_ABOVE,
    SMOE_WORK_routing,
    SMOE_WORK_optimizer,
    SMOE_WORK_COUNT
};
_Static_assert((int)SMOE_WORK_COUNT <= (int)SMOE_TEAM_WORKS, "the team has a place for all work");

/* All of it, in the order in which it is shown. */
typedef struct smoe_work_entry {
    const char *name;
    int work;
} smoe_work_entry;
extern const smoe_work_entry smoe_works[SMOE_WORK_COUNT];
