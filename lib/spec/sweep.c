/*
 * Reading the section `sweep`. Its keys are dotted keys of the table, its values lists of texts as
 * in overrides. A value is checked when it is set in a cell.
 */
#include "spec/node.h"

smoe_sweep_key *smoe_spec_keys_add(smoe_sweep_keys *keys, const char *name, bool zip) {
    smoe_sweep_key *key = &SMOE_APPEND(keys->key, keys->count);
    *key = (smoe_sweep_key){.key = smoe_alloc_text(name), .zip = zip};
    return key;
}

bool smoe_spec_keys_have(const smoe_sweep_key *key, const char *value) {
    size_t i = 0;
    while (i < key->count && strcmp(key->value[i], value)) i++;
    return i < key->count;
}

void smoe_spec_keys_clear(smoe_sweep_keys *keys) {
    for (size_t k = 0; k < keys->count; k++) {
        smoe_sweep_key *key = &keys->key[k];
        smoe_texts_free(key->value, key->count);
        free(key->key);
    }
    free(keys->key);
    *keys = (smoe_sweep_keys){0};
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
    for (size_t i = 0; i < plan->primaries; i++) {
        for (size_t part = 0; part < SMOE_PRIMARY_PARTS; part++)
            free(*smoe_spec_primary_text(&plan->primary[i], part));
        free(plan->primary[i].from);
    }
    free(plan->primary);
    free(plan->family_from);
    free(plan->equivalence_from);
    free(plan->family);
    free(plan->equivalence);
    free(plan->seen);
    *plan = (smoe_sweep_plan){0};
}

void smoe_schema_clear_sweep(smoe_sweep_spec *sweep) {
    smoe_spec_keys_clear(&sweep->train);
    smoe_spec_keys_clear(&sweep->evaluate);
    smoe_spec_figure_clear(&sweep->figure);
    free(sweep->reference);
    free(sweep->reference_from);
    smoe_spec_sweep_plan_clear(&sweep->plan);
    *sweep = (smoe_sweep_spec){0};
}

/* The value of a key that is the same number as a text, and another text: tables would take them
 * for two values. NULL: there is none. */
static const char *written_otherwise(const smoe_sweep_key *key, const char *text) {
    double number, other;
    if (smoe_spec_holds_text(key->key) || !smoe_value_number(text, false, &number)) return NULL;
    for (size_t i = 0; i < key->count; i++)
        if (smoe_value_number(key->value[i], false, &other) && other == number &&
            strcmp(key->value[i], text) != 0)
            return key->value[i];
    return NULL;
}

/* Reports a single value that its key has in no cell. Lists are read with the cells. */
static void sweep_check(smoe_reading *reading, const smoe_node *node, const char *key) {
    int entry = smoe_schema_find(key);
    char problem[SMOE_PROBLEM];
    if (entry < 0 || smoe_value_is_list(&smoe_schema[entry])) return;
    smoe_spec unused = {0};
    if (smoe_value_set(&unused, &smoe_schema[entry], node->text, true, problem))
        smoe_reading_problem(reading, &node->where, key, "%s", problem);
    smoe_value_clear(&unused, &smoe_schema[entry]);
}

/* Adds a value; takes over `text`. */
static void sweep_add(smoe_reading *reading, const smoe_node *node, smoe_sweep_key *key,
                      char *text) {
    if (!key->zip && smoe_spec_keys_have(key, text))
        smoe_reading_problem(reading, &node->where, key->key, "a value is given twice");
    const char *other = key->zip ? written_otherwise(key, text) : NULL;
    if (other)
        smoe_reading_problem(reading, &node->where, key->key,
                             "%.40s and %.40s are the same value; write both alike", other, text);
    if (node->text) sweep_check(reading, node, key->key);
    SMOE_APPEND(key->value, key->count) = text;
}

/* "[4, 5]" of an inner list. */
static char *sweep_list(smoe_reading *reading, const char *key, const smoe_node *list) {
    char *text = NULL;
    for (const smoe_node *item = list->first; item; item = item->next)
        if (item->text)
            smoe_text_add(&text, "%s%s", text ? ", " : "[", item->text);
        else
            smoe_reading_problem(reading, &item->where, key,
                                 "an item of an inner list must be a single value");
    smoe_text_add(&text, text ? "]" : "[]");
    return text;
}

/* The values behind a key: a list, or one alone. */
static void sweep_values(smoe_reading *reading, smoe_sweep_key *key, const smoe_node *node) {
    if (node->text) {
        sweep_add(reading, node, key, smoe_alloc_text(node->text));
        return;
    }
    if (node->kind != SMOE_NODE_LIST) {
        smoe_reading_problem(reading, &node->where, key->key, "expected a list of values");
        return;
    }
    for (const smoe_node *item = node->first; item; item = item->next)
        if (item->text)
            sweep_add(reading, item, key, smoe_alloc_text(item->text));
        else if (item->kind == SMOE_NODE_LIST)
            sweep_add(reading, item, key, sweep_list(reading, key->key, item));
        else
            smoe_reading_problem(reading, &item->where, key->key,
                                 "a value must be a single one or a list");
    if (!key->count && !node->cut)
        smoe_reading_problem(reading, &node->where, key->key, "has no values");
}

/* One more key. */
static smoe_sweep_key *sweep_key(smoe_reading *reading, const smoe_node *node,
                                 smoe_sweep_keys *keys, const char *name, bool zip) {
    for (size_t i = 0; i < keys->count; i++)
        if (!strcmp(keys->key[i].key, name))
            smoe_reading_problem(reading, &node->where, name, "is swept twice");
    return smoe_spec_keys_add(keys, name, zip);
}

const char *smoe_spec_started(const char *key) {
    size_t prefix = strlen(SMOE_STARTED);
    return strncmp(key, SMOE_STARTED, prefix) ? NULL : key + prefix;
}

bool smoe_spec_holds_text(const char *column) {
    const char *started = smoe_spec_started(column);
    size_t prefix = strlen(SMOE_EVALUATED);
    if (!strncmp(column, SMOE_EVALUATED, prefix)) column += prefix;
    int entry = smoe_schema_find(started ? started : column);
    return entry >= 0 &&
           (smoe_schema[entry].kind == SMOE_KIND_TEXT || smoe_schema[entry].kind == SMOE_KIND_PATH);
}

/* Whether it is a key that can be swept. */
static bool is_key(const char *text) {
    const char *started = smoe_spec_started(text);
    return smoe_schema_find(started ? started : text) >= 0;
}

/* A key of grid or zip and its values; of zip, as many as the one before it. */
static void sweep_entry(smoe_reading *reading, smoe_sweep_keys *keys, const smoe_node *name,
                        bool zip) {
    if (!name->text) {
        smoe_reading_problem(reading, &name->where, "sweep", "a key must be a word");
    } else if (!is_key(name->text)) {
        smoe_reading_unknown(reading, &name->where, "", name->text, name->text);
    } else {
        smoe_sweep_key *key = sweep_key(reading, name, keys, name->text, zip);
        sweep_values(reading, key, name->value);
        if (zip && keys->count > 1 && key[-1].zip && key[-1].count != key->count &&
            !name->value->cut)
            smoe_reading_problem(reading, &name->where, key->key,
                                 "the lists of zip must have the same length");
    }
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

static void sweep_group(smoe_reading *reading, smoe_sweep_keys *keys, const smoe_node *group,
                        const char *name, bool zip) {
    if (group->kind != SMOE_NODE_MAP) {
        smoe_reading_problem(reading, &group->where, name, "expected KEY: [VALUE, ...]");
        return;
    }
    for (const smoe_node *key = group->first; key; key = key->next)
        sweep_entry(reading, keys, key, zip);
    if (zip && !group->cut && !points_differ(keys))
        smoe_reading_problem(reading, &group->where, name,
                             "a combination of values is given twice");
}

/* ---- its parts ------------------------------------------------------------------------------- */

enum { MOST_PARTS = 10 };

/* A section that has parts. */
typedef struct parts {
    const char *section, *expected;
    const char *name[MOST_PARTS + 1]; /* NULL behind the last */
    bool seen[MOST_PARTS];
    const smoe_node *next;
} parts;

/* Whether the section is a mapping, as it must be; reports it otherwise. */
static bool parts_begin(smoe_reading *reading, parts *p, const smoe_node *node) {
    bool section = node->kind == SMOE_NODE_MAP;
    if (!section) smoe_reading_problem(reading, &node->where, p->section, "%s", p->expected);
    p->next = section ? node->first : NULL;
    return section;
}

static void unknown_part(smoe_reading *reading, const parts *p, const smoe_node *name) {
    SMOE_FREED char *known = NULL;
    for (size_t i = 0; p->name[i]; i++) smoe_text_add(&known, "%s%s", i ? ", " : "", p->name[i]);
    char shown[64];
    smoe_text_shown(name->text ? name->text : "", shown, sizeof shown);
    bool swept = name->text && smoe_schema_find(name->text) >= 0;
    smoe_reading_problem(
        reading, &name->where, p->section, "unknown key '%s'; %s%s", shown,
        swept ? "keys of the spec are swept under grid; known here: " : "known here: ", known);
}

/* The name of the next part; NULL at the end. Others are reported. */
static const smoe_node *sweep_next_part(smoe_reading *reading, parts *p, size_t *part) {
    for (const smoe_node *name; (name = p->next);) {
        p->next = name->next;
        *part = smoe_node_among(name, p->name);
        bool known = p->name[*part], repeated = known && p->seen[*part];
        if (!known) unknown_part(reading, p, name);
        if (repeated) smoe_reading_problem(reading, &name->where, p->section, "duplicate key");
        if (known) p->seen[*part] = true;
        if (known && !repeated) return name;
    }
    return NULL;
}

static void read_evaluate(smoe_reading *reading, const smoe_node *node) {
    parts p = {.section = "sweep.evaluate",
               .expected = "expected {grid: {KEY: [..]}, zip: {KEY: [..]}}",
               .name = {"grid", "zip"}};
    smoe_sweep_keys *keys = &reading->spec->sweep.evaluate;
    size_t part;
    parts_begin(reading, &p, node);
    for (const smoe_node *name; (name = sweep_next_part(reading, &p, &part));)
        sweep_group(reading, keys, name->value, part ? "sweep.evaluate.zip" : "sweep.evaluate.grid",
                    part);
}

/* A word as the value of a part, fresh; NULL where there is none, which is reported. */
static char *read_word(smoe_reading *reading, const char *section, const smoe_node *node,
                       const char *expected) {
    if (node->text && *node->text) return smoe_alloc_text(node->text);
    smoe_reading_problem(reading, &node->where, section, "%s", expected);
    return NULL;
}

/* The columns are checked when the figure is drawn. */
static void read_figure(smoe_reading *reading, const smoe_node *node) {
    parts p = {.section = "sweep.figure",
               .expected = "expected {x: COLUMN, y: COLUMN, line: COLUMN, title: TEXT}",
               .name = {"x", "y", "line", "title"}};
    smoe_sweep_figure *figure = &reading->spec->sweep.figure;
    char **const text[] = {&figure->x, &figure->y, &figure->line, &figure->title};
    size_t part;
    parts_begin(reading, &p, node);
    for (const smoe_node *name; (name = sweep_next_part(reading, &p, &part));)
        *text[part] = read_word(reading, p.section, name->value,
                                part < 3 ? "expected the name of a column of results.csv"
                                         : "expected a text");
}

/* "FILE:LINE:COLUMN: SECTION", for messages of what is checked later. */
static char *place_of(const smoe_reading *reading, const smoe_node *node, const char *section) {
    return smoe_text_format("%s:%zu:%zu: %s", reading->label, node->where.line, node->where.column,
                            section);
}

/* A contrast of sweep.primary, its parts as words. */
static void read_primary(smoe_reading *reading, const smoe_node *node) {
    parts p = {.section = "sweep.primary",
               .expected = "expected {row: SETTINGS, reference: SETTINGS, ...}"};
    smoe_sweep_plan *plan = &reading->spec->sweep.plan;
    size_t part;
    if (!parts_begin(reading, &p, node)) return;
    memcpy(p.name, smoe_primary_part, sizeof smoe_primary_part);
    smoe_primary *primary = &SMOE_APPEND(plan->primary, plan->primaries);
    char contrast[64];
    snprintf(contrast, sizeof contrast, "sweep.primary, contrast %zu", plan->primaries);
    primary->from = place_of(reading, node, contrast);
    for (const smoe_node *name; (name = sweep_next_part(reading, &p, &part));)
        *smoe_spec_primary_text(primary, part) =
            read_word(reading, p.section, name->value, "expected a single value");
}

static void read_primaries(smoe_reading *reading, const smoe_node *list) {
    if (list->kind != SMOE_NODE_LIST)
        smoe_reading_problem(reading, &list->where, "sweep.primary",
                             "expected a list of contrasts");
    else
        for (const smoe_node *node = list->first; node; node = node->next)
            read_primary(reading, node);
}

/* A margin, or {METRIC: MARGIN, ...}, as "METRIC=MARGIN,..."; numbers and names of metrics are
 * checked where they are used. */
static char *read_equivalence(smoe_reading *reading, const smoe_node *node) {
    static const char section[] = "sweep.equivalence",
                      wanted[] = "expected a number, or {METRIC: NUMBER, ...}";
    char *text = NULL;
    if (node->kind != SMOE_NODE_MAP) return read_word(reading, section, node, wanted);
    for (const smoe_node *name = node->first; name; name = name->next) {
        SMOE_FREED char *metric = read_word(reading, section, name, wanted);
        SMOE_FREED char *number = read_word(reading, section, name->value, wanted);
        if (metric && number) smoe_text_add(&text, "%s%s=%s", text ? "," : "", metric, number);
    }
    return text;
}

/* Seeds, "0,1". */
static char *read_seen(smoe_reading *reading, const smoe_node *node) {
    smoe_sweep_key key = {.key = (char[]){"sweep.seen"}};
    char *text = NULL;
    sweep_values(reading, &key, node);
    for (size_t i = 0; i < key.count; i++)
        if (!*key.value[i] || key.value[i][strspn(key.value[i], "0123456789")])
            smoe_reading_problem(reading, &node->where, key.key, "'%.40s' is not a seed",
                                 key.value[i]);
    for (size_t i = 0; i < key.count; i++) smoe_text_add(&text, "%s%s", i ? "," : "", key.value[i]);
    smoe_texts_free(key.value, key.count);
    return text;
}

static void read_part(smoe_reading *reading, const smoe_node *name) {
    smoe_sweep_spec *sweep = &reading->spec->sweep;
    smoe_sweep_plan *plan = &sweep->plan;
    const smoe_node *value = name->value;
    const char *part = name->text;
    if (!strcmp(part, "grid") || !strcmp(part, "zip"))
        sweep_group(reading, &sweep->train, value, *part == 'g' ? "sweep.grid" : "sweep.zip",
                    *part == 'z');
    else if (!strcmp(part, "seeds"))
        sweep_values(reading, sweep_key(reading, name, &sweep->train, "seed", false), value);
    else if (!strcmp(part, "evaluate"))
        read_evaluate(reading, value);
    else if (!strcmp(part, "figure"))
        read_figure(reading, value);
    else if (!strcmp(part, "primary"))
        read_primaries(reading, value);
    else if (!strcmp(part, "family")) {
        plan->family = read_word(reading, "sweep.family", value, "expected a number of contrasts");
        plan->family_from = place_of(reading, value, "sweep.family");
    } else if (!strcmp(part, "equivalence")) {
        plan->equivalence = read_equivalence(reading, value);
        plan->equivalence_from = place_of(reading, value, "sweep.equivalence");
    } else if (!strcmp(part, "seen"))
        plan->seen = read_seen(reading, value);
    else {
        sweep->reference = read_word(reading, "sweep.reference", value,
                                     "expected KEY=VALUE, or several separated by commas");
        sweep->reference_from = place_of(reading, value, "sweep.reference");
    }
}

/* Whether nothing in the section has an anchor, alias or tag; reports them all. */
static bool sweep_allowed(smoe_reading *reading, const smoe_node *node) {
    bool allowed = smoe_node_allowed(reading, node, "sweep");
    for (const smoe_node *inner = node->first; inner; inner = inner->next) {
        allowed &= sweep_allowed(reading, inner);
        if (inner->value) allowed &= sweep_allowed(reading, inner->value);
    }
    return allowed;
}

void smoe_node_sweep(smoe_reading *reading, const smoe_node *section) {
    parts p = {.section = "sweep",
               .expected = "expected {grid: {KEY: [..]}, zip: {KEY: [..]}, seeds: [..]}",
               .name = {"grid", "zip", "seeds", "evaluate", "figure", "reference", "primary",
                        "family", "equivalence", "seen"}};
    smoe_sweep_spec *sweep = &reading->spec->sweep;
    size_t part, problems = reading->problems;
    if (sweep->seen)
        smoe_reading_problem(reading, &section->where, "sweep", "duplicate key");
    else if (sweep_allowed(reading, section) && (sweep->seen = parts_begin(reading, &p, section)))
        for (const smoe_node *name; (name = sweep_next_part(reading, &p, &part));)
            read_part(reading, name);
    sweep->bad |= reading->problems > problems;
}
