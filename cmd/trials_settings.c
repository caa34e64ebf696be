/* The settings of trials, as JSON and as headings of tables; see trials.h. */
#include "trials.h"

#include <string.h>

json_t *smoe_trials_value(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(value) || json_is_boolean(value)) return value;
    json_decref(value);
    return json_string(text);
}

static void add_column(smoe_table *table, const char *column) {
    const char *dot = strrchr(column, '.');
    bool evaluated = !strncmp(column, SMOE_EVALUATED, strlen(SMOE_EVALUATED));
    const char *of = evaluated ? "at " : smoe_spec_started(column) ? "start " : "";
    smoe_table_add(table, "%s%s", of, dot ? dot + 1 : column);
    table->columns++;
}

void smoe_trials_columns(smoe_table *table, const smoe_sweep *sweep) {
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) add_column(table, sweep->column[c]);
    table->keys = table->columns;
}
