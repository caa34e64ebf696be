/* What is wrong with a spec, and where, and what resolving shares; see schema.h and resolve.h. */
#include "spec/resolve.h"

#include <assert.h>

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

/* ---- keys against each other ----------------------------------------------------------------- */

int smoe_resolve_entry(const char *key) {
    int entry = smoe_schema_find(key);
    assert(entry >= 0);
    return entry;
}

smoe_provenance *smoe_resolve_origin(const smoe_reading *reading, const char *key) {
    return &reading->spec->origin[smoe_resolve_entry(key)];
}

bool smoe_resolve_given(const smoe_reading *reading, const char *key) {
    return smoe_resolve_origin(reading, key)->kind >= SMOE_FROM_FILE;
}

/* Whether a was set closer to the user than b: an override rather than the file, a later override
 * rather than an earlier one. */
static bool closer(const smoe_provenance *a, const smoe_provenance *b) {
    return a->kind > b->kind ||
           (a->kind == SMOE_FROM_OVERRIDE && a->kind == b->kind && a->index > b->index);
}

void smoe_resolve_clash(smoe_reading *reading, const char *const keys[4], char *fresh) {
    const char *blamed = keys[0];
    SMOE_FREED char *problem = fresh;
    for (size_t i = 0; i < 4 && keys[i]; i++) {
        if (reading->bad[smoe_resolve_entry(keys[i])]) return;
        if (closer(smoe_resolve_origin(reading, keys[i]), smoe_resolve_origin(reading, blamed)))
            blamed = keys[i];
    }
    smoe_reading_problem(reading, smoe_resolve_origin(reading, blamed), blamed, "%s", problem);
}

bool smoe_resolve_gives_way(smoe_reading *reading, const char *key, const char *to,
                            smoe_provenance_kind kind) {
    smoe_provenance *origin = smoe_resolve_origin(reading, key);
    if (origin->kind != SMOE_FROM_FILE ||
        smoe_resolve_origin(reading, to)->kind != SMOE_FROM_OVERRIDE)
        return false;
    origin->kind = kind;
    origin->replaced = to;
    return true;
}

void smoe_resolve_series(smoe_reading *reading, const char *key, const smoe_series *series,
                         const char *of, size_t count) {
    bool layers = strcmp(of, "data.channels") != 0;
    if (!series->listed || series->listed == count) return;
    clash(reading, KEYS(key, of, layers ? "model.depth" : NULL),
          "%zu number%s of %s for %zu %s%s: give one for each %s, or one for all", series->listed,
          SMOE_S(series->listed), key, count, layers ? "MoE layer" : "channel", SMOE_S(count),
          layers ? "layer" : "channel");
    reading->bad[smoe_resolve_entry(key)] = true;
}
