/* The table of data sources; see sources.h. */
#include "spec/sources.h"

enum from { FILES, GENERATED };

#define SOURCE(name, source, type, classes, from) [source] = {name, classes, (from) == GENERATED},
const smoe_source_row smoe_sources[SMOE_SOURCES] = {
#include "spec/sources.def"
};
#undef SOURCE
