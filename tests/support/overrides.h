/* Specs for tests as users write them: a YAML text and key=value overrides. Every failure fails
 * the calling test. */
#pragma once

#include "bench/cost.h"

enum { OVERRIDES = 32 };

typedef struct overrides {
    char text[OVERRIDES][96];
    size_t count;
} overrides;

/* Adds an override, formatted as by printf. */
void overrides_set(overrides *list, const char *fmt, ...) SMOE_PRINTF(2, 3);

/* The text with the overrides applied; free spec with smoe_spec_free. */
void overrides_parse(smoe_spec *spec, const char *text, const overrides *list);

/* The cost of that spec; free it with smoe_cost_free. */
void overrides_cost(smoe_cost *cost, const char *text, const overrides *list);
