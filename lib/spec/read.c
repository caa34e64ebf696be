/*
 * Reading: from the events of libyaml, which carry line and column, to the members of a spec and
 * the origin of each. Works for a whole file and for the value of an override alike, and goes on
 * after a mistake, so that one pass finds them all. Leaves to value.c what a scalar means, and to
 * resolve.c what follows from the values together.
 */
#include "spec/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
    DEEPEST = 16,      /* nesting; no key of the table is deeper than SMOE_ROW_LEVELS */
    MOST_PROBLEMS = 40 /* then the rest stays unread: it is some other kind of file */
};

/* One run of the parser, over a file or over an override's value. */
typedef struct source {
    smoe_reading *reading;
    const char *text;
    size_t length;
    smoe_origin where; /* kind and index; line and column are filled in for each event */
    yaml_parser_t parser;
    bool stop;
    size_t line[SMOE_ROW_COUNT]
               [SMOE_ROW_LEVELS]; /* of a row [0] or a section's first row [level] */
} source;

void smoe_reading_problem(smoe_reading *reading, const smoe_origin *where, const char *key,
                          const char *fmt, ...) {
    char problem[SMOE_PROBLEM], shown[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(problem, sizeof problem, fmt, args);
    va_end(args);
    reading->problems++;
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

static smoe_origin place(const source *src, const yaml_event_t *event) {
    smoe_origin where = src->where;
    where.line = event->start_mark.line + 1;
    where.column = event->start_mark.column + 1;
    return where;
}

/* ---- events ---------------------------------------------------------------- */

/* What libyaml has to say; a byte that is no character comes with an offset instead of a line. */
static void syntax_problem(source *src) {
    const yaml_parser_t *parser = &src->parser;
    smoe_origin where = src->where;
    where.line = parser->problem_mark.line + 1;
    where.column = parser->problem_mark.column + 1;
    src->stop = true;
    if (parser->error == YAML_MEMORY_ERROR) {
        src->reading->problems++;
        smoe_fail_more(src->reading->err, SMOE_RUNTIME, "%s: out of memory", src->reading->label);
        return;
    }
    if (parser->error == YAML_READER_ERROR) {
        where.line = where.column = 1;
        for (size_t i = 0; i < parser->problem_offset && i < src->length; i++) {
            where.column = src->text[i] == '\n' ? 1 : where.column + 1;
            where.line += src->text[i] == '\n';
        }
    }
    smoe_reading_problem(src->reading, &where, NULL, "not YAML: %s%s%s",
                         parser->context ? parser->context : "", parser->context ? ", " : "",
                         parser->problem ? parser->problem : "unknown error");
}

/* The next event; false when there is none because of a syntax error (reported) or an earlier stop.
 */
static bool next(source *src, yaml_event_t *event) {
    if (src->reading->problems >= MOST_PROBLEMS && !src->stop) {
        src->stop = true;
        smoe_fail_more(src->reading->err, SMOE_USAGE, "%s: too many mistakes, the rest is not read",
                       src->reading->label);
    }
    if (src->stop) return false;
    if (yaml_parser_parse(&src->parser, event)) return true;
    syntax_problem(src);
    return false;
}

/* Reads past the node that starts with this event. */
static void skip(source *src, const yaml_event_t *first) {
    size_t depth =
        first->type == YAML_MAPPING_START_EVENT || first->type == YAML_SEQUENCE_START_EVENT;
    while (depth) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        smoe_origin where = place(src, &event);
        if (event.type == YAML_MAPPING_START_EVENT || event.type == YAML_SEQUENCE_START_EVENT)
            depth++;
        if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) depth--;
        yaml_event_delete(&event);
        if (depth > DEEPEST) {
            smoe_reading_problem(src->reading, &where, NULL, "nested more than %d deep", DEEPEST);
            src->stop = true;
        }
    }
}

/* YAML beyond plain values has no meaning in a spec: is this node free of it? Reports it otherwise.
 */
static bool plain_node(source *src, const yaml_event_t *event, const char *key) {
    const char *what = NULL;
    if (event->type == YAML_ALIAS_EVENT) what = "an alias (*)";
    if (event->type == YAML_SCALAR_EVENT)
        what = event->data.scalar.anchor ? "an anchor (&)"
               : event->data.scalar.tag  ? "a tag (!)"
                                         : NULL;
    if (event->type == YAML_MAPPING_START_EVENT)
        what = event->data.mapping_start.anchor ? "an anchor (&)"
               : event->data.mapping_start.tag  ? "a tag (!)"
                                                : NULL;
    if (event->type == YAML_SEQUENCE_START_EVENT)
        what = event->data.sequence_start.anchor ? "an anchor (&)"
               : event->data.sequence_start.tag  ? "a tag (!)"
                                                 : NULL;
    if (!what) return true;
    smoe_origin where = place(src, event);
    smoe_reading_problem(src->reading, &where, key,
                         "%s is not possible here: write the value itself", what);
    return false;
}

/* The scalar's text, or NULL when a NUL hides in it. */
static const char *scalar(const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    return strlen(text) == event->data.scalar.length ? text : NULL;
}

/* ---- values ---------------------------------------------------------------- */

static void bad_value(source *src, const smoe_origin *where, int row, const char *problem) {
    src->reading->bad[row] = true;
    smoe_reading_problem(src->reading, where, smoe_rows[row].key, "%s", problem);
}

static void read_scalar(source *src, int row, const yaml_event_t *event, const smoe_origin *where) {
    char problem[SMOE_PROBLEM];
    const char *text = scalar(event);
    if (!text) {
        bad_value(src, where, row, "holds a NUL character");
        return;
    }
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (smoe_value_set(src->reading->spec, &smoe_rows[row], text, plain, problem))
        bad_value(src, where, row, problem);
}

static void read_list(source *src, int row, const smoe_origin *where) {
    size_t items[SMOE_MAX_BLOCKS], count = 0;
    char problem[SMOE_PROBLEM];
    bool good = true;
    for (;;) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_origin at = place(src, &event);
        const char *text = event.type == YAML_SCALAR_EVENT ? scalar(&event) : NULL;
        size_t item = 0;
        if (!end && !plain_node(src, &event, smoe_rows[row].key)) {
            skip(src, &event);
            good = false;
        } else if (!end && (!text || smoe_value_item(&smoe_rows[row], text, &item, problem))) {
            bad_value(src, &at, row, text ? problem : "an item must be a whole number");
            skip(src, &event);
            good = false;
        } else if (!end && count++ < SMOE_MAX_BLOCKS) {
            items[count - 1] = item;
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    src->reading->bad[row] = !good;
    if (good && smoe_value_set_list(src->reading->spec, &smoe_rows[row], items, count, problem))
        bad_value(src, where, row, problem);
}

static void read_value(source *src, int row, const yaml_event_t *event) {
    smoe_reading *reading = src->reading;
    smoe_origin where = place(src, event);
    char problem[SMOE_PROBLEM], type[256];
    reading->spec->origin[row] = where;
    reading->bad[row] =
        false; /* a later override repairs a mistake's consequences, not the mistake */
    if (!plain_node(src, event, smoe_rows[row].key)) {
        reading->bad[row] = true;
        skip(src, event);
    } else if (event->type == YAML_SCALAR_EVENT) {
        read_scalar(src, row, event, &where);
    } else if (event->type == YAML_SEQUENCE_START_EVENT && smoe_value_is_list(&smoe_rows[row])) {
        read_list(src, row, &where);
    } else {
        snprintf(problem, sizeof problem, "expected %s, found a %s",
                 smoe_row_type(&smoe_rows[row], type, sizeof type),
                 event->type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping");
        bad_value(src, &where, row, problem);
        skip(src, event);
    }
}

/* ---- keys ------------------------------------------------------------------ */

/* Keeps the cross-checks from speaking of a row, or of the rows of a section, whose values did not
 * get through. */
static void mark_bad(smoe_reading *reading, const char *key) {
    for (int i = 0; i < SMOE_ROW_COUNT; i++)
        if (smoe_row_within(i, key) || !strcmp(smoe_rows[i].key, key)) reading->bad[i] = true;
}

/* An unknown key: say where such a key belongs, or which are known here. */
static void unknown_key(smoe_reading *reading, const smoe_origin *where, const char *section,
                        const char *leaf, const char *full) {
    char known[400] = "", shown[64];
    smoe_text_shown(full, shown, sizeof shown);
    char meant[SMOE_KEY_SIZE];
    if (smoe_row_meant(section, leaf, meant)) {
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
        mark_bad(reading, meant);
        return;
    }
    size_t used = 0;
    for (int i = 0; i < SMOE_ROW_COUNT && used < sizeof known; i++) {
        if (!smoe_row_within(i, section)) continue;
        const char *name = smoe_rows[i].key + (*section ? strlen(section) + 1 : 0);
        size_t length = strcspn(name, ".");
        const char *before = i ? smoe_rows[i - 1].key + (name - smoe_rows[i].key) : "";
        if (i && smoe_row_within(i - 1, section) && !strncmp(before, name, length) &&
            (before[length] == '.' || !before[length]))
            continue;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%.*s", used ? ", " : "",
                                 (int)length, name);
    }
    smoe_reading_problem(reading, where, shown, "unknown key; known here: %s%s", known,
                         *section ? "" : ", sweep"); /* sweep: no row, it is read by itself */
}

/* The first time that a row (level 0) or section (level 1...) is named? Reports a second time. */
static bool first_time(source *src, const smoe_origin *where, const char *key, int row, int level) {
    size_t *line = &src->line[row][level];
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

static void read_mapping(source *src, const char *section);
static void read_sweep(source *src, const yaml_event_t *value);

static void read_section(source *src, const char *section, const yaml_event_t *value) {
    if (!plain_node(src, value, section)) {
        skip(src, value);
        return;
    }
    if (value->type == YAML_MAPPING_START_EVENT) {
        read_mapping(src, section);
        return;
    }
    bool nothing = value->type == YAML_SCALAR_EVENT && !value->data.scalar.length &&
                   value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (nothing) return; /* "augment:" with nothing below it: all defaults */
    smoe_origin where = place(src, value);
    smoe_reading_problem(src->reading, &where, section, "expected a section of keys, found a %s",
                         value->type == YAML_SEQUENCE_START_EVENT ? "list" : "single value");
    mark_bad(src->reading, section);
    skip(src, value);
}

/* A key of a section and the value behind it. */
static void read_entry(source *src, const char *section, const yaml_event_t *key_event) {
    smoe_origin where = place(src, key_event);
    bool good = plain_node(src, key_event, *section ? section : NULL);
    const char *leaf = key_event->type == YAML_SCALAR_EVENT ? scalar(key_event) : NULL;
    if (good && !leaf)
        smoe_reading_problem(src->reading, &where, *section ? section : NULL,
                             "a key must be a word");
    char key[SMOE_KEY_SIZE], whole[SMOE_KEY_SIZE];
    if (leaf) snprintf(key, sizeof key, "%s%s%s", section, *section ? "." : "", leaf);
    snprintf(whole, sizeof whole, "%s", leaf ? leaf : "");
    skip(src, key_event);
    yaml_event_t value;
    if (!next(src, &value)) return;
    bool nested = strchr(whole, '.') != NULL;
    int row = good && leaf && !nested ? smoe_row_find(key) : -1;
    int first = good && leaf && !nested && row < 0 ? smoe_row_section(key) : -1;
    int level = 1;
    for (const char *c = key; first >= 0 && *c; c++) level += *c == '.';
    if (good && leaf && !*section && !strcmp(whole, "sweep"))
        read_sweep(src, &value);
    else if (row >= 0 && first_time(src, &where, key, row, 0))
        read_value(src, row, &value);
    else if (first >= 0 && first_time(src, &where, key, first, level))
        read_section(src, key, &value);
    else {
        if (good && leaf && row < 0 && first < 0)
            unknown_key(src->reading, &where, section, whole, key);
        skip(src, &value);
    }
    yaml_event_delete(&value);
}

static void read_mapping(source *src, const char *section) {
    for (;;) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) read_entry(src, section, &event);
        yaml_event_delete(&event);
        if (end) return;
    }
}

/* ---- the section sweep -------------------------------------------------------------------------
 * Its keys are dotted keys of the table, its values lists of what an override could give; whether a
 * value is a good one is seen when it is set in a cell. */

void smoe_sweep_key_clear(smoe_sweep_key *key) {
    for (size_t i = 0; i < key->count; i++) free(key->value[i]);
    free(key->value);
    free(key->key);
}

static void sweep_problem(source *src, const smoe_origin *where, const char *key,
                          const char *text) {
    src->reading->spec->sweep.bad = true;
    smoe_reading_problem(src->reading, where, key, "%s", text);
}

/* Adds a value; takes over `text`, NULL when out of memory. */
static void sweep_add(source *src, const smoe_origin *where, smoe_sweep_key *key, char *text) {
    char **value = text ? realloc(key->value, (key->count + 1) * sizeof *value) : NULL;
    bool twice = false;
    for (size_t i = 0; value && i < key->count; i++) twice |= !strcmp(value[i], text);
    if (!value) sweep_problem(src, where, key->key, "out of memory");
    if (twice) sweep_problem(src, where, key->key, "a value stands there twice");
    if (value) key->value = value;
    if (value && !twice)
        key->value[key->count++] = text;
    else
        free(text);
}

/* "[4, 5]" of an inner list, whose start was read. */
static char *sweep_list(source *src, const char *key) {
    char *text = strdup("[");
    for (bool some = false;; some = true) {
        yaml_event_t event;
        if (!next(src, &event)) break;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_origin where = place(src, &event);
        const char *item = event.type == YAML_SCALAR_EVENT ? scalar(&event) : NULL;
        if (!end && !item) {
            sweep_problem(src, &where, key, "an item of an inner list must be a single value");
            skip(src, &event);
        }
        char *longer =
            text && (end || item)
                ? smoe_text_format("%s%s%s", text, some && !end ? ", " : "", end ? "]" : item)
                : NULL;
        if (end || item) {
            free(text);
            text = longer;
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    return text;
}

/* The values behind a key: a list, or one alone. */
static void sweep_values(source *src, smoe_sweep_key *key, const yaml_event_t *first) {
    smoe_origin where = place(src, first);
    if (first->type == YAML_SCALAR_EVENT && scalar(first)) {
        sweep_add(src, &where, key, strdup(scalar(first)));
        return;
    }
    if (first->type != YAML_SEQUENCE_START_EVENT) {
        sweep_problem(src, &where, key->key, "expected a list of values");
        skip(src, first);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_origin at = place(src, &event);
        if (event.type == YAML_SCALAR_EVENT && scalar(&event))
            sweep_add(src, &at, key, strdup(scalar(&event)));
        else if (event.type == YAML_SEQUENCE_START_EVENT)
            sweep_add(src, &at, key, sweep_list(src, key->key));
        else if (!end) {
            sweep_problem(src, &at, key->key, "a value must be a single one or a list");
            skip(src, &event);
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    if (!key->count) sweep_problem(src, &where, key->key, "has no values");
}

/* Room for one more key, or NULL after a problem. */
static smoe_sweep_key *sweep_key(source *src, const smoe_origin *where, const char *name,
                                 bool zip) {
    smoe_sweep_spec *sweep = &src->reading->spec->sweep;
    smoe_sweep_key *key = realloc(sweep->key, (sweep->keys + 1) * sizeof *key);
    if (key) sweep->key = key;
    if (!key || !(key[sweep->keys].key = strdup(name))) {
        sweep_problem(src, where, "sweep", "out of memory");
        return NULL;
    }
    key[sweep->keys].value = NULL;
    key[sweep->keys].count = 0;
    key[sweep->keys].zip = zip;
    for (size_t i = 0; i < sweep->keys; i++)
        if (!strcmp(key[i].key, name)) sweep_problem(src, where, name, "is swept twice");
    return &key[sweep->keys++];
}

/* A key of grid or zip and its values; of zip, as many as the one before it. */
static void sweep_entry(source *src, const yaml_event_t *name, bool zip) {
    smoe_sweep_spec *sweep = &src->reading->spec->sweep;
    smoe_origin where = place(src, name);
    const char *text = name->type == YAML_SCALAR_EVENT ? scalar(name) : NULL;
    smoe_sweep_key *key = NULL;
    if (!text || smoe_row_find(text) < 0) {
        if (text)
            unknown_key(src->reading, &where, "", text, text);
        else
            sweep_problem(src, &where, "sweep", "a key must be a word");
        sweep->bad = true;
        skip(src, name);
    } else {
        key = sweep_key(src, &where, text, zip);
    }
    yaml_event_t value;
    if (!next(src, &value)) return;
    if (key)
        sweep_values(src, key, &value);
    else
        skip(src, &value);
    yaml_event_delete(&value);
    if (key && zip && sweep->keys > 1 && key[-1].zip && key[-1].count != key->count)
        sweep_problem(src, &where, key->key, "the lists of zip must be of one length");
}

static void sweep_group(source *src, const yaml_event_t *group, const char *name, bool zip) {
    if (group->type != YAML_MAPPING_START_EVENT) {
        smoe_origin where = place(src, group);
        sweep_problem(src, &where, name, "expected KEY: [VALUE, ...]");
        skip(src, group);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) sweep_entry(src, &event, zip);
        yaml_event_delete(&event);
        if (end) return;
    }
}

/* grid, zip or seeds, and what is behind it. */
static void sweep_part(source *src, const yaml_event_t *name, bool seen[3]) {
    static const char *const parts[] = {"grid", "zip", "seeds"};
    const char *text = name->type == YAML_SCALAR_EVENT ? scalar(name) : NULL;
    smoe_origin where = place(src, name);
    size_t part = 0;
    while (text && part < 3 && strcmp(parts[part], text)) part++;
    bool known = text && part < 3 && !seen[part];
    if (!known)
        sweep_problem(src, &where, "sweep",
                      text && part < 3 ? "duplicate key" : "known here: grid, zip, seeds");
    if (!text) skip(src, name);
    yaml_event_t value;
    if (!next(src, &value)) return;
    if (!known) {
        skip(src, &value);
    } else if (part == 2) {
        smoe_sweep_key *seeds = sweep_key(src, &where, "seed", false);
        if (seeds) sweep_values(src, seeds, &value);
    } else {
        sweep_group(src, &value, part ? "sweep.zip" : "sweep.grid", part == 1);
    }
    if (known) seen[part] = true;
    yaml_event_delete(&value);
}

static void read_sweep(source *src, const yaml_event_t *value) {
    bool seen[3] = {false};
    smoe_origin where = place(src, value);
    if (value->type != YAML_MAPPING_START_EVENT || src->reading->spec->sweep.keys) {
        sweep_problem(src, &where, "sweep",
                      value->type == YAML_MAPPING_START_EVENT
                          ? "duplicate key"
                          : "expected {grid: {KEY: [..]}, zip: {KEY: [..]}, seeds: [..]}");
        skip(src, value);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) sweep_part(src, &event, seen);
        yaml_event_delete(&event);
        if (end) return;
    }
}

/* ---- documents ------------------------------------------------------------- */

/* The one document of the source: the section's mapping, or the row's value where row >= 0. */
static void read_document(source *src, const char *section, int row) {
    smoe_origin start = src->where;
    start.line = start.column = 1;
    for (size_t documents = 0;;) {
        yaml_event_t event;
        if (!next(src, &event)) return;
        yaml_event_type_t type = event.type;
        smoe_origin where = place(src, &event);
        bool boundary = type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_END_EVENT ||
                        type == YAML_STREAM_END_EVENT || type == YAML_DOCUMENT_START_EVENT;
        if (type == YAML_STREAM_END_EVENT && !documents)
            smoe_reading_problem(
                src->reading, &start, *section ? section : NULL,
                *section ? "has no value"
                         : "empty: a spec is a mapping of keys, {} takes every default");
        if (type == YAML_DOCUMENT_START_EVENT && documents++)
            smoe_reading_problem(src->reading, &where, NULL,
                                 "a second document begins: a spec is a single one");
        if (!boundary && row >= 0)
            read_value(src, row, &event);
        else if (!boundary && *section)
            read_section(src, section, &event);
        else if (!boundary && plain_node(src, &event, NULL) && type == YAML_MAPPING_START_EVENT)
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

static void read_source(smoe_reading *reading, smoe_origin where, const char *text, size_t length,
                        const char *section, int row) {
    source *src = calloc(1, sizeof *src);
    if (src && !yaml_parser_initialize(&src->parser)) {
        free(src);
        src = NULL;
    }
    if (!src) {
        reading->problems++;
        smoe_fail_more(reading->err, SMOE_RUNTIME, "%s: out of memory", reading->label);
        return;
    }
    src->reading = reading;
    src->where = where;
    src->text = text;
    src->length = length;
    yaml_parser_set_input_string(&src->parser, (const unsigned char *)text, length);
    read_document(src, section, row);
    yaml_parser_delete(&src->parser);
    free(src);
}

void smoe_reading_file(smoe_reading *reading, const char *text, size_t length) {
    read_source(reading, (smoe_origin){.kind = SMOE_FROM_FILE}, text, length, "", -1);
    int variant = smoe_row_find("model.variant");
    if (reading->spec->origin[variant].kind == SMOE_FROM_FILE)
        reading->file_variant = smoe_variant_find(reading->spec->model.variant);
}

/* KEY=VALUE. What a row takes as a scalar is taken as typed, so that a path may hold any character;
 * lists and sections are YAML. */
void smoe_reading_override(smoe_reading *reading, size_t index) {
    const char *text = reading->overrides[index], *equals = strchr(text, '=');
    smoe_origin where = {.kind = SMOE_FROM_OVERRIDE, .line = 1, .column = 1, .index = index};
    char key[SMOE_KEY_SIZE];
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof key) {
        smoe_reading_problem(reading, &where, NULL, "expected KEY=VALUE, as in train.steps=100");
        return;
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    int row = smoe_row_find(key);
    if (row < 0 && smoe_row_section(key) < 0) {
        const char *dot = strrchr(key, '.');
        char section[SMOE_KEY_SIZE];
        snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key) : 0, key);
        bool known = smoe_row_section(section) >= 0;
        unknown_key(reading, &where, known ? section : "", dot ? dot + 1 : key, key);
        return;
    }
    if (row >= 0 && !smoe_value_is_list(&smoe_rows[row])) {
        char problem[SMOE_PROBLEM];
        reading->spec->origin[row] = where;
        reading->bad[row] =
            smoe_value_set(reading->spec, &smoe_rows[row], equals + 1, true, problem);
        if (reading->bad[row]) smoe_reading_problem(reading, &where, key, "%s", problem);
        return;
    }
    read_source(reading, where, equals + 1, strlen(equals + 1), key, row);
}
