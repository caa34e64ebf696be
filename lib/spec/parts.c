/* Names of the parts of a model and of the work of threads; see parts.h. */
#include "spec/parts.h"

static const struct {
    const char *name, *kind;
} parts[SMOE_PART_COUNT] = {
#define PART(name, kind, help) {#name, kind},
#define WORK(name, help)
#include "spec/parts.def"
#undef PART
#undef WORK
};

const smoe_work_entry smoe_works[SMOE_WORK_COUNT] = {
#define PART(name, kind, help)
#define WORK(name, help) {#name, SMOE_WORK_##name},
#include "spec/parts.def"
#undef PART
#undef WORK
};

const char *smoe_part_name(smoe_part part) {
    return parts[part].name;
}

const char *smoe_part_kind(smoe_part part) {
    return parts[part].kind;
}
