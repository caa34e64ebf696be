/* See overrides.h. */
#include "overrides.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

void overrides_set(overrides *list, const char *fmt, ...) {
    assert_true(list->count < OVERRIDES);
    va_list args;
    va_start(args, fmt);
    vsnprintf(list->text[list->count++], sizeof list->text[0], fmt, args);
    va_end(args);
}

void overrides_parse(smoe_spec *spec, const char *text, const overrides *list) {
    char copy[OVERRIDES][sizeof list->text[0]], *pointers[OVERRIDES];
    smoe_err err = {0};
    for (size_t i = 0; i < list->count; i++)
        pointers[i] = memcpy(copy[i], list->text[i], sizeof copy[i]);
    smoe_spec_text from = {
        .text = text, .label = "row", .of_cells = true}; /* lists are used with several routers */
    if (smoe_spec_parse(spec, &from, pointers, list->count, &err)) fail_msg("%s", err.text);
}

void overrides_cost(smoe_cost *cost, const char *text, const overrides *list) {
    smoe_spec spec;
    smoe_err err = {0};
    overrides_parse(&spec, text, list);
    if (smoe_cost_estimate(cost, &spec, 0, &err)) fail_msg("%s", err.text);
    smoe_spec_free(&spec);
}
