/*
 * Reading: from the events of libyaml, which carry line and column, to the members of a spec and
 * the origin of each. Works for a whole file and for the value of an override, and continues after
 * an error, so that one pass finds all errors. value.c interprets scalars; resolve.c handles
 * everything that follows from several values.
 */
#include "spec/events.h"
#include "base/alloc.h"
#include "spec/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static void bad_value(smoe_events *src, const smoe_provenance *where, int entry,
                      const char *problem) {
    src->reading->bad[entry] = true;
    smoe_reading_problem(src->reading, where, smoe_schema[entry].key, "%s", problem);
}

static void read_scalar(smoe_events *src, int entry, const yaml_event_t *event,
                        const smoe_provenance *where) {
    char problem[SMOE_PROBLEM];
    const char *text = smoe_events_scalar(event);
    if (!text) {
        bad_value(src, where, entry, "contains a NUL character");
        return;
    }
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (smoe_value_set(src->reading->spec, &smoe_schema[entry], text, plain, problem))
        bad_value(src, where, entry, problem);
}

static void read_list(smoe_events *src, int entry, const smoe_provenance *where) {
    double *items = NULL, item = 0;
    size_t count = 0;
    char problem[SMOE_PROBLEM];
    bool good = true, whole = smoe_schema[entry].kind != SMOE_KIND_REALS;
    const char *not_one = whole ? "an item must be a whole number" : "an item must be a number";
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) {
            free(items);
            return;
        }
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_provenance at = smoe_events_place(src, &event);
        const char *text = event.type == YAML_SCALAR_EVENT ? smoe_events_scalar(&event) : NULL;
        if (!end && !smoe_events_plain(src, &event, smoe_schema[entry].key)) {
            smoe_events_skip(src, &event);
            good = false;
        } else if (!end && (!text || smoe_value_item(&smoe_schema[entry], text, &item, problem))) {
            bad_value(src, &at, entry, text ? problem : not_one);
            smoe_events_skip(src, &event);
            good = false;
        } else if (!end) {
            items = smoe_alloc_next(items, count, sizeof *items);
            items[count++] = item;
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    src->reading->bad[entry] = !good;
    if (good && smoe_value_set_list(src->reading->spec, &smoe_schema[entry], items, count, problem))
        bad_value(src, where, entry, problem);
    free(items);
}

static void read_value(smoe_events *src, int entry, const yaml_event_t *event) {
    smoe_reading *reading = src->reading;
    smoe_provenance where = smoe_events_place(src, event);
    char problem[SMOE_PROBLEM], type[256];
    reading->spec->origin[entry] = where;
    reading->bad[entry] =
        false; /* a later override repairs the consequences of an error, not the error */
    if (!smoe_events_plain(src, event, smoe_schema[entry].key)) {
        reading->bad[entry] = true;
        smoe_events_skip(src, event);
    } else if (event->type == YAML_SCALAR_EVENT) {
        read_scalar(src, entry, event, &where);
    } else if (event->type == YAML_SEQUENCE_START_EVENT &&
               smoe_schema[entry].kind == SMOE_KIND_GROUPS) {
        smoe_groups_read(src, entry, &where);
    } else if (event->type == YAML_SEQUENCE_START_EVENT &&
               smoe_schema[entry].kind == SMOE_KIND_PROMPTS) {
        smoe_prompts_read(src, entry);
    } else if (event->type == YAML_SEQUENCE_START_EVENT &&
               smoe_value_is_list(&smoe_schema[entry])) {
        read_list(src, entry, &where);
    } else {
        snprintf(problem, sizeof problem, "expected %s, found a %s",
                 smoe_schema_type(&smoe_schema[entry], type, sizeof type),
                 event->type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping");
        bad_value(src, &where, entry, problem);
        smoe_events_skip(src, event);
    }
}

/* Whether an entry (level 0) or section (level 1...) is named for the first time; reports a second
 * time. */
static bool first_time(smoe_events *src, const smoe_provenance *where, const char *key, int entry,
                       int level) {
    size_t *line = &src->line[entry][level];
    if (!*line) {
        *line = where->line;
        return true;
    }
    if (where->kind == SMOE_FROM_FILE)
        smoe_reading_problem(src->reading, where, key, "duplicate key, first given in line %zu",
                             *line);
    else
        smoe_reading_problem(src->reading, where, key, "duplicate key");
    return false;
}

static void read_mapping(smoe_events *src, const char *section);

static void read_section(smoe_events *src, const char *section, const yaml_event_t *value) {
    if (!smoe_events_plain(src, value, section)) {
        smoe_events_skip(src, value);
        return;
    }
    if (value->type == YAML_MAPPING_START_EVENT) {
        read_mapping(src, section);
        return;
    }
    bool nothing = value->type == YAML_SCALAR_EVENT && !value->data.scalar.length &&
                   value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (nothing) return; /* "augment:" with nothing below it: all defaults */
    smoe_provenance where = smoe_events_place(src, value);
    smoe_reading_problem(src->reading, &where, section, "expected a section of keys, found a %s",
                         value->type == YAML_SEQUENCE_START_EVENT ? "list" : "single value");
    smoe_reading_exclude(src->reading, section);
    smoe_events_skip(src, value);
}

/* A key of a section and the value behind it. */
static void read_entry(smoe_events *src, const char *section, const yaml_event_t *key_event) {
    smoe_provenance where = smoe_events_place(src, key_event);
    bool good = smoe_events_plain(src, key_event, *section ? section : NULL);
    const char *leaf = key_event->type == YAML_SCALAR_EVENT ? smoe_events_scalar(key_event) : NULL;
    if (leaf && !*leaf) leaf = NULL;
    if (good && !leaf)
        smoe_reading_problem(src->reading, &where, *section ? section : NULL,
                             "a key must be a word");
    char key[SMOE_KEY_SIZE], whole[SMOE_KEY_SIZE];
    if (leaf) snprintf(key, sizeof key, "%s%s%s", section, *section ? "." : "", leaf);
    snprintf(whole, sizeof whole, "%s", leaf ? leaf : "");
    smoe_events_skip(src, key_event);
    yaml_event_t value;
    if (!smoe_events_next(src, &value)) return;
    bool nested = strchr(whole, '.') != NULL;
    int entry = good && leaf && !nested ? smoe_schema_find(key) : -1;
    int first = good && leaf && !nested && entry < 0 ? smoe_schema_section(key) : -1;
    int level = 1;
    for (const char *c = key; first >= 0 && *c; c++) level += *c == '.';
    if (good && leaf && !*section && !strcmp(whole, "sweep"))
        smoe_events_sweep(src, &value);
    else if (entry >= 0 && first_time(src, &where, key, entry, 0))
        read_value(src, entry, &value);
    else if (first >= 0 && first_time(src, &where, key, first, level))
        read_section(src, key, &value);
    else {
        if (good && leaf && entry < 0 && first < 0)
            smoe_reading_unknown(src->reading, &where, section, whole, key);
        smoe_events_skip(src, &value);
    }
    yaml_event_delete(&value);
}

static void read_mapping(smoe_events *src, const char *section) {
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) read_entry(src, section, &event);
        yaml_event_delete(&event);
        if (end) return;
    }
}

/* ---- documents ------------------------------------------------------------------------------- */

/* The one document of the source: the section's mapping, or the entry's value where entry >= 0. */
static void read_document(smoe_events *src, const char *section, int entry) {
    smoe_provenance start = src->where;
    start.line = start.column = 1;
    for (size_t documents = 0;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        yaml_event_type_t type = event.type;
        smoe_provenance where = smoe_events_place(src, &event);
        bool boundary = type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_END_EVENT ||
                        type == YAML_STREAM_END_EVENT || type == YAML_DOCUMENT_START_EVENT;
        if (type == YAML_STREAM_END_EVENT && !documents)
            smoe_reading_problem(src->reading, &start, *section ? section : NULL,
                                 *section
                                     ? "has no value"
                                     : "empty: a spec is a mapping of keys, {} has all defaults");
        if (type == YAML_DOCUMENT_START_EVENT && documents++)
            smoe_reading_problem(src->reading, &where, NULL,
                                 "a second document begins; a spec has only one");
        if (!boundary && entry >= 0)
            read_value(src, entry, &event);
        else if (!boundary && *section)
            read_section(src, section, &event);
        else if (!boundary && smoe_events_plain(src, &event, NULL) &&
                 type == YAML_MAPPING_START_EVENT)
            read_mapping(src, "");
        else if (!boundary) {
            if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT)
                smoe_reading_problem(src->reading, &where, NULL,
                                     "a spec is a mapping of keys, not a %s",
                                     type == YAML_SCALAR_EVENT ? "single value" : "list");
            src->stop = true;
        }
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT || documents > 1) return;
    }
}

static void read_source(smoe_reading *reading, smoe_provenance where, const char *text,
                        size_t length, const char *section, int entry) {
    smoe_events *src = smoe_alloc(1, sizeof *src);
    if (!yaml_parser_initialize(&src->parser)) smoe_alloc_end();
    src->reading = reading;
    src->where = where;
    src->text = text;
    src->length = length;
    yaml_parser_set_input_string(&src->parser, (const unsigned char *)text, length);
    read_document(src, section, entry);
    yaml_parser_delete(&src->parser);
    free(src);
}

void smoe_reading_file(smoe_reading *reading, const char *text, size_t length) {
    read_source(reading, (smoe_provenance){.kind = SMOE_FROM_FILE}, text, length, "", -1);
}

int smoe_reading_profile(smoe_reading *reading, const char *name) {
    bool found = false;
    for (size_t i = 0; i < SMOE_PROFILES; i++) {
        const smoe_profile_entry *p = &smoe_profiles[i];
        if (strcmp(p->profile, name)) continue;
        found = true;
        reading->spec->profile = p->profile;
        read_source(reading, (smoe_provenance){.kind = SMOE_FROM_PROFILE}, p->value,
                    strlen(p->value), p->key, smoe_schema_find(p->key));
    }
    return found ? 0 : smoe_fail(reading->err, SMOE_USAGE, "no profile %s", name);
}

/* KEY=VALUE. A scalar is taken literally, so that a path may have any character; lists and sections
 * are YAML. */
void smoe_reading_override(smoe_reading *reading, size_t index) {
    const char *text = reading->overrides[index], *equals = strchr(text, '=');
    smoe_provenance where = {.kind = SMOE_FROM_OVERRIDE, .line = 1, .column = 1, .index = index};
    char key[SMOE_KEY_SIZE];
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof key) {
        smoe_reading_problem(reading, &where, NULL, "expected KEY=VALUE, as in train.steps=100");
        return;
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    int entry = smoe_schema_find(key);
    if (entry < 0 && smoe_schema_section(key) < 0) {
        const char *dot = strrchr(key, '.');
        char section[SMOE_KEY_SIZE];
        snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key) : 0, key);
        bool known = smoe_schema_section(section) >= 0;
        smoe_reading_unknown(reading, &where, known ? section : "", dot ? dot + 1 : key, key);
        return;
    }
    if (entry >= 0 && !smoe_value_is_list(&smoe_schema[entry])) {
        char problem[SMOE_PROBLEM];
        reading->spec->origin[entry] = where;
        reading->bad[entry] =
            smoe_value_set(reading->spec, &smoe_schema[entry], equals + 1, true, problem);
        const char *list = strchr(equals + 1, ',') ? "; a list is for smoe sweep" : "";
        if (reading->bad[entry]) smoe_reading_problem(reading, &where, key, "%s%s", problem, list);
        return;
    }
    read_source(reading, where, equals + 1, strlen(equals + 1), key, entry);
}
