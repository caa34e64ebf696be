/* The table of data sources; see sources.h. */
#include "spec/sources.h"

enum from { FILES, GENERATED };
enum texts { NONE, CAPTIONS };

#define SOURCE(name, source, type, classes, from, texts) \
    [source] = {name, classes, (from) == GENERATED, (texts) == CAPTIONS},
const smoe_source_entry smoe_sources[SMOE_SOURCES] = {
#include "spec/sources.def"
};
#undef SOURCE
