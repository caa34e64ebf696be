/* Data sources as specs and commands see them: the entries of spec/sources.def without the code,
 * which is in data/. */
#pragma once

#include "spec/spec.h"

typedef struct smoe_source_entry {
    const char *name;
    size_t classes; /* that it always has; 0: the data says */
    bool generated; /* needs no path */
    bool captions;  /* an image has one */
} smoe_source_entry;

enum {
    SMOE_SOURCES = 0
#define SOURCE(...) +1
#include "spec/sources.def"
};

extern const smoe_source_entry smoe_sources[SMOE_SOURCES]; /* by smoe_source */

/* The entry of a name; NULL: none. */
const smoe_source_entry *smoe_source_find(const char *name);
