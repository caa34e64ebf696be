/*
 * Reading the section `sweep`. Its keys are dotted keys of the table, its values lists of texts as
 * in overrides. A value is checked when it is set in a cell.
 */
#include "spec/events.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void keys_clear(smoe_sweep_keys *keys) {
    for (size_t k = 0; k < keys->count; k++) {
        smoe_sweep_key *key = &keys->key[k];
        for (size_t i = 0; i < key->count; i++) free(key->value[i]);
        free(key->value);
        free(key->key);
    }
    free(keys->key);
}

const char *const smoe_primary_part[SMOE_PRIMARY_PARTS + 1] = {
    "row", "reference", "trend", "where", "measure", "expect", "margin"};

char **smoe_spec_primary_text(smoe_primary *p, size_t part) {
    char **const text[SMOE_PRIMARY_PARTS] = {&p->row,     &p->reference, &p->trend, &p->where,
                                             &p->measure, &p->expect,    &p->margin};
    return text[part];
}

void smoe_spec_figure_clear(smoe_sweep_figure *figure) {
    free(figure->x);
    free(figure->y);
    free(figure->line);
    free(figure->title);
    *figure = (smoe_sweep_figure){0};
}

void smoe_spec_sweep_plan_clear(smoe_sweep_plan *plan) {
    for (size_t i = 0; i < plan->primaries; i++)
        for (size_t part = 0; part < SMOE_PRIMARY_PARTS; part++)
            free(*smoe_spec_primary_text(&plan->primary[i], part));
    free(plan->primary);
    free(plan->family);
    free(plan->equivalence);
    free(plan->seen);
    *plan = (smoe_sweep_plan){0};
}

void smoe_schema_clear_sweep(smoe_sweep_spec *sweep) {
    keys_clear(&sweep->train);
    keys_clear(&sweep->evaluate);
    smoe_spec_figure_clear(&sweep->figure);
    free(sweep->reference);
    smoe_spec_sweep_plan_clear(&sweep->plan);
    *sweep = (smoe_sweep_spec){0};
}

static void sweep_problem(smoe_events *src, const smoe_provenance *where, const char *key,
                          const char *text) {
    src->reading->spec->sweep.bad = true;
    smoe_reading_problem(src->reading, where, key, "%s", text);
}

/* Adds a value; takes over `text`. */
static void sweep_add(smoe_events *src, const smoe_provenance *where, smoe_sweep_key *key,
                      char *text) {
    for (size_t i = 0; !key->zip && i < key->count; i++) {
        if (strcmp(key->value[i], text)) continue;
        sweep_problem(src, where, key->key, "a value is given twice");
        free(text);
        return;
    }
    key->value = smoe_alloc_next(key->value, key->count, sizeof *key->value);
    key->value[key->count++] = text;
}

/* "[4, 5]" of an inner list, whose start was read. */
static char *sweep_list(smoe_events *src, const char *key) {
    char *text = smoe_alloc_text("[");
    for (bool some = false;; some = true) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) break;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_provenance where = smoe_events_place(src, &event);
        const char *item = event.type == YAML_SCALAR_EVENT ? smoe_events_scalar(&event) : NULL;
        if (!end && !item) {
            sweep_problem(src, &where, key, "an item of an inner list must be a single value");
            smoe_events_skip(src, &event);
        }
        if (end || item) {
            char *longer =
                smoe_text_format("%s%s%s", text, some && !end ? ", " : "", end ? "]" : item);
            free(text);
            text = longer;
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    return text;
}

/* The values behind a key: a list, or one alone. */
static void sweep_values(smoe_events *src, smoe_sweep_key *key, const yaml_event_t *first) {
    smoe_provenance where = smoe_events_place(src, first);
    if (first->type == YAML_SCALAR_EVENT && smoe_events_scalar(first)) {
        sweep_add(src, &where, key, smoe_alloc_text(smoe_events_scalar(first)));
        return;
    }
    if (first->type != YAML_SEQUENCE_START_EVENT) {
        sweep_problem(src, &where, key->key, "expected a list of values");
        smoe_events_skip(src, first);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_provenance at = smoe_events_place(src, &event);
        if (event.type == YAML_SCALAR_EVENT && smoe_events_scalar(&event))
            sweep_add(src, &at, key, smoe_alloc_text(smoe_events_scalar(&event)));
        else if (event.type == YAML_SEQUENCE_START_EVENT)
            sweep_add(src, &at, key, sweep_list(src, key->key));
        else if (!end) {
            sweep_problem(src, &at, key->key, "a value must be a single one or a list");
            smoe_events_skip(src, &event);
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    if (!key->count) sweep_problem(src, &where, key->key, "has no values");
}

/* One more key. */
static smoe_sweep_key *sweep_key(smoe_events *src, const smoe_provenance *where,
                                 smoe_sweep_keys *keys, const char *name, bool zip) {
    for (size_t i = 0; i < keys->count; i++)
        if (!strcmp(keys->key[i].key, name)) sweep_problem(src, where, name, "is swept twice");
    keys->key = smoe_alloc_next(keys->key, keys->count, sizeof *keys->key);
    keys->key[keys->count] = (smoe_sweep_key){.key = smoe_alloc_text(name), .zip = zip};
    return &keys->key[keys->count++];
}

const char *smoe_spec_started(const char *key) {
    size_t prefix = strlen(SMOE_STARTED);
    return strncmp(key, SMOE_STARTED, prefix) ? NULL : key + prefix;
}

/* Whether it is a key that can be swept. */
static bool is_key(const char *text) {
    const char *started = smoe_spec_started(text);
    return smoe_schema_find(started ? started : text) >= 0;
}

/* A key of grid or zip and its values; of zip, as many as the one before it. */
static void sweep_entry(smoe_events *src, smoe_sweep_keys *keys, const yaml_event_t *name,
                        bool zip) {
    smoe_provenance where = smoe_events_place(src, name);
    const char *text = name->type == YAML_SCALAR_EVENT ? smoe_events_scalar(name) : NULL;
    smoe_sweep_key *key = NULL;
    if (!text || !is_key(text)) {
        if (text)
            smoe_reading_unknown(src->reading, &where, "", text, text);
        else
            sweep_problem(src, &where, "sweep", "a key must be a word");
        src->reading->spec->sweep.bad = true;
        smoe_events_skip(src, name);
    } else {
        key = sweep_key(src, &where, keys, text, zip);
    }
    yaml_event_t value;
    if (!smoe_events_next(src, &value)) return;
    if (key)
        sweep_values(src, key, &value);
    else
        smoe_events_skip(src, &value);
    yaml_event_delete(&value);
    if (key && zip && keys->count > 1 && key[-1].zip && key[-1].count != key->count)
        sweep_problem(src, &where, key->key, "the lists of zip must have the same length");
}

/* Values of single keys of zip may repeat; combinations of all keys may not. */
static bool points_differ(const smoe_sweep_keys *keys) {
    size_t points = 0;
    for (size_t k = 0; k < keys->count; k++)
        if (keys->key[k].zip) points = keys->key[k].count;
    for (size_t b = 1; b < points; b++)
        for (size_t a = 0; a < b; a++) {
            bool same = true;
            for (size_t k = 0; k < keys->count; k++) {
                const smoe_sweep_key *key = &keys->key[k];
                if (key->zip) same &= b < key->count && !strcmp(key->value[a], key->value[b]);
            }
            if (same) return false;
        }
    return true;
}

static void sweep_group(smoe_events *src, smoe_sweep_keys *keys, const yaml_event_t *group,
                        const char *name, bool zip) {
    smoe_provenance where = smoe_events_place(src, group);
    if (group->type != YAML_MAPPING_START_EVENT) {
        sweep_problem(src, &where, name, "expected KEY: [VALUE, ...]");
        smoe_events_skip(src, group);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) sweep_entry(src, keys, &event, zip);
        yaml_event_delete(&event);
        if (!end) continue;
        if (zip && !points_differ(keys))
            sweep_problem(src, &where, name, "a combination of values is given twice");
        return;
    }
}

/* ---- its parts ------------------------------------------------------------------------------- */

enum { MOST_PARTS = 10 };

/* Parts of a section that has begun, in the order of the text. */
typedef struct parts {
    const char *section;
    const char *name[MOST_PARTS + 1]; /* NULL behind the last */
    bool seen[MOST_PARTS];
    smoe_provenance where; /* of the name of the latest part */
} parts;

static void unknown_part(smoe_events *src, const parts *p) {
    char known[200] = "known here: ";
    size_t used = strlen(known);
    for (size_t i = 0; p->name[i]; i++)
        used +=
            (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", p->name[i]);
    sweep_problem(src, &p->where, p->section, known);
}

/* The next part, with the event its value starts with; false at the end. Others are reported. */
static bool next_part(smoe_events *src, parts *p, size_t *part, yaml_event_t *value) {
    for (;;) {
        yaml_event_t name;
        if (!smoe_events_next(src, &name)) return false;
        bool end = name.type == YAML_MAPPING_END_EVENT, known = false;
        const char *text = name.type == YAML_SCALAR_EVENT ? smoe_events_scalar(&name) : NULL;
        p->where = smoe_events_place(src, &name);
        for (*part = 0; text && p->name[*part] && !known; *part += !known)
            known = !strcmp(p->name[*part], text);
        if (!end && !known) unknown_part(src, p);
        if (known && p->seen[*part]) sweep_problem(src, &p->where, p->section, "duplicate key");
        if (!end && !text) smoe_events_skip(src, &name);
        yaml_event_delete(&name);
        if (end || !smoe_events_next(src, value)) return false;
        if (known && !p->seen[*part]) return p->seen[*part] = true;
        smoe_events_skip(src, value);
        yaml_event_delete(value);
    }
}

/* Whether the section is a mapping, as it must be; reports it otherwise. */
static bool is_section(smoe_events *src, const yaml_event_t *value, const char *name,
                       const char *expected) {
    if (value->type == YAML_MAPPING_START_EVENT) return true;
    smoe_provenance where = smoe_events_place(src, value);
    sweep_problem(src, &where, name, expected);
    smoe_events_skip(src, value);
    return false;
}

static void read_evaluate(smoe_events *src, const yaml_event_t *start) {
    parts p = {.section = "sweep.evaluate", .name = {"grid", "zip"}};
    smoe_sweep_keys *keys = &src->reading->spec->sweep.evaluate;
    yaml_event_t value;
    size_t part;
    if (!is_section(src, start, p.section, "expected {grid: {KEY: [..]}, zip: {KEY: [..]}}"))
        return;
    while (next_part(src, &p, &part, &value)) {
        sweep_group(src, keys, &value, part ? "sweep.evaluate.zip" : "sweep.evaluate.grid", part);
        yaml_event_delete(&value);
    }
}

/* A word as the value of a part, fresh; NULL where there is none, which is reported. */
static char *read_word(smoe_events *src, const char *section, const yaml_event_t *value,
                       const char *expected) {
    smoe_provenance where = smoe_events_place(src, value);
    const char *word = value->type == YAML_SCALAR_EVENT ? smoe_events_scalar(value) : NULL;
    char *copy = word && *word ? smoe_alloc_text(word) : NULL;
    if (!copy) sweep_problem(src, &where, section, expected);
    smoe_events_skip(src, value);
    return copy;
}

/* The columns are checked when the figure is drawn. */
static void read_figure(smoe_events *src, const yaml_event_t *start) {
    parts p = {.section = "sweep.figure", .name = {"x", "y", "line", "title"}};
    smoe_sweep_figure *figure = &src->reading->spec->sweep.figure;
    char **const text[] = {&figure->x, &figure->y, &figure->line, &figure->title};
    yaml_event_t value;
    size_t part;
    if (!is_section(src, start, p.section,
                    "expected {x: COLUMN, y: COLUMN, line: COLUMN, title: TEXT}"))
        return;
    while (next_part(src, &p, &part, &value)) {
        *text[part] = read_word(src, p.section, &value,
                                part < 3 ? "expected the name of a column of results.csv"
                                         : "expected a text");
        yaml_event_delete(&value);
    }
}

/* A contrast of sweep.primary, its parts as words. */
static void read_primary(smoe_events *src, const yaml_event_t *start) {
    parts p = {.section = "sweep.primary"};
    smoe_sweep_plan *plan = &src->reading->spec->sweep.plan;
    yaml_event_t value;
    size_t part;
    if (!is_section(src, start, p.section, "expected {row: SETTINGS, reference: SETTINGS, ...}"))
        return;
    memcpy(p.name, smoe_primary_part, sizeof smoe_primary_part);
    plan->primary = smoe_alloc_next(plan->primary, plan->primaries, sizeof *plan->primary);
    smoe_primary *primary = &plan->primary[plan->primaries++];
    *primary = (smoe_primary){0};
    while (next_part(src, &p, &part, &value)) {
        *smoe_spec_primary_text(primary, part) =
            read_word(src, p.section, &value, "expected a single value");
        yaml_event_delete(&value);
    }
}

static void read_primaries(smoe_events *src, const yaml_event_t *start) {
    smoe_provenance where = smoe_events_place(src, start);
    if (start->type != YAML_SEQUENCE_START_EVENT) {
        sweep_problem(src, &where, "sweep.primary", "expected a list of contrasts");
        smoe_events_skip(src, start);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end) read_primary(src, &event);
        yaml_event_delete(&event);
        if (end) return;
    }
}

/* A margin, or {METRIC: MARGIN, ...}, as "METRIC=MARGIN,..."; numbers and names of metrics are
 * checked where they are used. */
static char *read_equivalence(smoe_events *src, const yaml_event_t *start) {
    static const char section[] = "sweep.equivalence", wanted[] = "expected a number, or {METRIC: "
                                                                  "NUMBER, ...}";
    char *text = NULL;
    if (start->type != YAML_MAPPING_START_EVENT) return read_word(src, section, start, wanted);
    for (;;) {
        yaml_event_t name, value;
        if (!smoe_events_next(src, &name)) return text;
        bool end = name.type == YAML_MAPPING_END_EVENT;
        SMOE_FREED char *key = end ? NULL : read_word(src, section, &name, wanted);
        yaml_event_delete(&name);
        if (end || !smoe_events_next(src, &value)) return text;
        SMOE_FREED char *number = read_word(src, section, &value, wanted);
        char *longer = key && number ? smoe_text_format("%s%s%s=%s", text ? text : "",
                                                        text ? "," : "", key, number)
                                     : NULL;
        yaml_event_delete(&value);
        if (!longer) continue;
        free(text);
        text = longer;
    }
}

/* Seeds, "0,1"; they are checked where they are used. */
static char *read_seen(smoe_events *src, const yaml_event_t *start) {
    smoe_sweep_key key = {.key = (char[]){"sweep.seen"}};
    char *text = NULL;
    sweep_values(src, &key, start);
    for (size_t i = 0; i < key.count; i++) {
        smoe_text_add(&text, "%s%s", text ? "," : "", key.value[i]);
        free(key.value[i]);
    }
    free(key.value);
    return text;
}

void smoe_events_sweep(smoe_events *src, const yaml_event_t *start) {
    parts p = {.section = "sweep",
               .name = {"grid", "zip", "seeds", "evaluate", "figure", "reference", "primary",
                        "family", "equivalence", "seen"}};
    smoe_sweep_spec *sweep = &src->reading->spec->sweep;
    smoe_provenance where = smoe_events_place(src, start);
    yaml_event_t value;
    size_t part;
    if (!is_section(src, start, "sweep",
                    "expected {grid: {KEY: [..]}, zip: {KEY: [..]}, seeds: [..]}"))
        return;
    if (sweep->seen) {
        sweep_problem(src, &where, "sweep", "duplicate key");
        smoe_events_skip(src, start);
        return;
    }
    sweep->seen = true;
    while (next_part(src, &p, &part, &value)) {
        smoe_sweep_key *seeds =
            part == 2 ? sweep_key(src, &p.where, &sweep->train, "seed", false) : NULL;
        switch (part) {
        case 0: sweep_group(src, &sweep->train, &value, "sweep.grid", false); break;
        case 1: sweep_group(src, &sweep->train, &value, "sweep.zip", true); break;
        case 2:
            if (seeds) sweep_values(src, seeds, &value);
            break;
        case 3: read_evaluate(src, &value); break;
        case 4: read_figure(src, &value); break;
        case 6: read_primaries(src, &value); break;
        case 7:
            sweep->plan.family =
                read_word(src, "sweep.family", &value, "expected a number of contrasts");
            break;
        case 8: sweep->plan.equivalence = read_equivalence(src, &value); break;
        case 9: sweep->plan.seen = read_seen(src, &value); break;
        default:
            sweep->reference = read_word(src, "sweep.reference", &value,
                                         "expected KEY=VALUE, or several separated by commas");
        }
        yaml_event_delete(&value);
    }
}
