/* What is wrong with a spec, and where; see schema.h. */
#include "spec/schema.h"

void smoe_reading_report(smoe_reading *reading, const smoe_provenance *where, const char *key,
                         char *fresh) {
    SMOE_FREED char *problem = fresh;
    char shown[200];
    if (++reading->problems > SMOE_MOST_PROBLEMS) {
        if (reading->problems == SMOE_MOST_PROBLEMS + 1)
            smoe_fail_more(reading->err, SMOE_USAGE, "%s: too many errors; the rest is not read",
                           reading->label);
        return;
    }
    const char *colon = key ? ": " : "";
    if (!key) key = "";
    if (where->kind == SMOE_FROM_OVERRIDE)
        smoe_fail_more(reading->err, SMOE_USAGE, "override %s: %s%s%s",
                       smoe_text_shown(reading->overrides[where->index], shown, sizeof shown), key,
                       colon, problem);
    else if (where->kind == SMOE_FROM_FILE)
        smoe_fail_more(reading->err, SMOE_USAGE, "%s:%zu:%zu: %s%s%s", reading->label, where->line,
                       where->column, key, colon, problem);
    else
        smoe_fail_more(reading->err, SMOE_USAGE, "%s: %s%s%s", reading->label, key, colon, problem);
}

void smoe_reading_exclude(smoe_reading *reading, const char *key) {
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++)
        if (smoe_schema_within(i, key) || !strcmp(smoe_schema[i].key, key)) reading->bad[i] = true;
}

void smoe_reading_unknown(smoe_reading *reading, const smoe_provenance *where, const char *section,
                          const char *leaf, const char *full) {
    char known[400] = "", shown[64];
    if (reading->problems > SMOE_MOST_PROBLEMS) return;
    smoe_text_shown(full, shown, sizeof shown);
    char meant[SMOE_KEY_SIZE];
    const char *here = smoe_spec_elsewhere(leaf);
    if (here) {
        smoe_reading_problem(reading, where, shown, "unknown key; %s", here);
        return;
    }
    if (smoe_schema_meant(section, leaf, meant)) {
        const char *dot = strrchr(meant, '.');
        bool exact = !strcmp(dot ? dot + 1 : meant, leaf), file = where->kind == SMOE_FROM_FILE;
        if (file && !strcmp(meant, full))
            smoe_reading_problem(reading, where, shown,
                                 "unknown key; in a file, sections are nested, not dotted");
        else if (file && exact && dot)
            smoe_reading_problem(reading, where, shown, "unknown key; it belongs to section %.*s",
                                 (int)(dot - meant), meant);
        else if (file && exact)
            smoe_reading_problem(reading, where, shown, "unknown key; it belongs to the top level");
        else
            smoe_reading_problem(reading, where, shown, "unknown key; did you mean %s?", meant);
        smoe_reading_exclude(reading, meant);
        return;
    }
    for (int i = 0; i < SMOE_SCHEMA_COUNT; i++) {
        if (!smoe_schema_within(i, section)) continue;
        const char *name = smoe_schema[i].key + (*section ? strlen(section) + 1 : 0);
        size_t length = strcspn(name, ".");
        const char *before = i ? smoe_schema[i - 1].key + (name - smoe_schema[i].key) : "";
        if (i && smoe_schema_within(i - 1, section) && !strncmp(before, name, length) &&
            (before[length] == '.' || !before[length]))
            continue;
        smoe_text_list(known, sizeof known, "%.*s", (int)length, name);
    }
    smoe_reading_problem(reading, where, shown, "unknown key%s; known here: %s%s",
                         smoe_value_ascii(leaf) ? "" : ", which is not all ASCII", known,
                         *section ? "" : ", sweep"); /* sweep: no entry, it is read by itself */
}
