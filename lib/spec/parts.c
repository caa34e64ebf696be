/* Names of the parts of a model and of the work of threads; see parts.h. */
#include "spec/parts.h"

const smoe_part_entry smoe_parts[SMOE_PART_COUNT] = {
#define PART(name, kind, help) {#name, kind},
#define WORK(name, help)
#include "spec/parts.def"
};

const smoe_work_entry smoe_works[SMOE_WORK_COUNT] = {
#define PART(name, kind, help)
#define WORK(name, help) {#name, SMOE_WORK_##name},
#include "spec/parts.def"
};
