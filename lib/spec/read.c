/*
 * Reading: from the tree of a YAML text, whose nodes have line and column, to the members of a spec
 * and the origin of each. Works for a whole file and for the value of an override, and continues
 * after an error, so that one pass finds all errors. value.c interprets scalars; resolve.c handles
 * everything that follows from several values.
 */
#include "spec/node.h"
#include "spec/resolve.h"

/* ---- values ---------------------------------------------------------------------------------- */

static void bad_value(smoe_reading *reading, int entry, const smoe_node *node,
                      const char *problem) {
    reading->bad[entry] = true;
    smoe_reading_problem(reading, &node->where, smoe_schema[entry].key, "%s", problem);
}

static void read_list(smoe_reading *reading, int entry, const smoe_node *list) {
    const smoe_schema_entry *e = &smoe_schema[entry];
    SMOE_FREED double *items = NULL;
    size_t count = 0;
    char problem[SMOE_PROBLEM];
    const char *not_one =
        e->kind == SMOE_KIND_REALS ? "an item must be a number" : "an item must be a whole number";
    for (const smoe_node *item = list->first; item; item = item->next) {
        items = smoe_alloc_next(items, count, sizeof *items);
        if (!smoe_node_allowed(reading, item, e->key))
            reading->bad[entry] = true;
        else if (!item->text || smoe_value_item(e, item->text, &items[count], problem))
            bad_value(reading, entry, item, item->text ? problem : not_one);
        else
            count++;
    }
    if (!list->cut && !reading->bad[entry] &&
        smoe_value_set_list(reading->spec, e, items, count, problem))
        bad_value(reading, entry, list, problem);
}

static void read_value(smoe_reading *reading, int entry, const smoe_node *node) {
    const smoe_schema_entry *e = &smoe_schema[entry];
    char problem[SMOE_PROBLEM] = "contains a NUL character", type[256];
    reading->spec->origin[entry] = node->where;
    /* a later override repairs the consequences of an error, not the error */
    reading->bad[entry] = !smoe_node_allowed(reading, node, e->key);
    if (reading->bad[entry]) return;
    if (node->kind == SMOE_NODE_TEXT) {
        if (!node->text || smoe_value_set(reading->spec, e, node->text, node->plain, problem))
            bad_value(reading, entry, node, problem);
    } else if (node->kind == SMOE_NODE_LIST && e->kind == SMOE_KIND_GROUPS) {
        smoe_node_groups(reading, entry, node);
    } else if (node->kind == SMOE_NODE_LIST && e->kind == SMOE_KIND_PROMPTS) {
        smoe_node_prompts(reading, entry, node);
    } else if (node->kind == SMOE_NODE_LIST && smoe_value_is_list(e)) {
        read_list(reading, entry, node);
    } else {
        snprintf(problem, sizeof problem, "expected %s, found a %s",
                 smoe_schema_type(e, type, sizeof type),
                 node->kind == SMOE_NODE_LIST ? "list" : "mapping");
        bad_value(reading, entry, node, problem);
    }
}

/* ---- sections -------------------------------------------------------------------------------- */

static void read_mapping(smoe_reading *reading, const char *section, const smoe_node *map);

/* "; write train.optimizer.name=sgd": the key that a single value in place of a section is for. */
static void say_main_key(char *hint, size_t size, const char *section, const char *value) {
    static const char *const main_key[] = {"name", "source", "router", "variant"};
    *hint = '\0';
    for (size_t i = 0; i < SMOE_COUNT(main_key) && !*hint && *value; i++) {
        char key[SMOE_KEY_SIZE];
        snprintf(key, sizeof key, "%s.%s", section, main_key[i]);
        if (smoe_schema_find(key) >= 0) snprintf(hint, size, "; write %s=%s", key, value);
    }
}

static void read_section(smoe_reading *reading, const char *section, const smoe_node *node) {
    char hint[256];
    /* "augment:" with nothing below it: all defaults */
    bool nothing = node->plain && node->text && !*node->text;
    if (!smoe_node_allowed(reading, node, section) || nothing) return;
    if (node->kind == SMOE_NODE_MAP) {
        read_mapping(reading, section, node);
        return;
    }
    bool list = node->kind == SMOE_NODE_LIST;
    say_main_key(hint, sizeof hint, section, list || !node->text ? "" : node->text);
    smoe_reading_problem(reading, &node->where, section, "expected a section of keys, found a %s%s",
                         list ? "list" : "single value", hint);
    smoe_reading_exclude(reading, section);
}

/* Whether the key occurs for the first time in its mapping; a second time is reported. */
static bool first_time(smoe_reading *reading, const char *whole, const smoe_node *map,
                       const smoe_node *key) {
    const smoe_node *other = map->first;
    while (other != key && !(other->text && !strcmp(other->text, key->text))) other = other->next;
    if (other == key) return true;
    if (key->where.kind == SMOE_FROM_FILE)
        smoe_reading_problem(reading, &key->where, whole, "duplicate key, first given in line %zu",
                             other->where.line);
    else
        smoe_reading_problem(reading, &key->where, whole, "duplicate key");
    return false;
}

/* A key of a section and the value behind it. */
static void read_entry(smoe_reading *reading, const char *section, const smoe_node *map,
                       const smoe_node *key) {
    char whole[SMOE_KEY_SIZE];
    const char *above = *section ? section : NULL, *leaf = key->text;
    if (!smoe_node_allowed(reading, key, above)) return;
    if (!leaf || !*leaf) {
        smoe_reading_problem(reading, &key->where, above, "a key must be a word");
        return;
    }
    snprintf(whole, sizeof whole, "%s%s%s", section, above ? "." : "", leaf);
    bool dotted = strchr(leaf, '.') != NULL;
    int entry = dotted ? -1 : smoe_schema_find(whole);
    if (!above && !strcmp(leaf, "sweep"))
        smoe_node_sweep(reading, key->value);
    else if (entry < 0 && (dotted || smoe_schema_section(whole) < 0))
        smoe_reading_unknown(reading, &key->where, section, leaf, whole);
    else if (!first_time(reading, whole, map, key))
        return;
    else if (entry >= 0)
        read_value(reading, entry, key->value);
    else
        read_section(reading, whole, key->value);
}

static void read_mapping(smoe_reading *reading, const char *section, const smoe_node *map) {
    for (const smoe_node *key = map->first; key && reading->problems <= SMOE_MOST_PROBLEMS;
         key = key->next)
        read_entry(reading, section, map, key);
}

/* ---- documents ------------------------------------------------------------------------------- */

/* Returns whether it is a mapping, as a spec is. */
static bool read_root(smoe_reading *reading, const smoe_node *root) {
    if (!smoe_node_allowed(reading, root, NULL)) return false;
    if (root->kind == SMOE_NODE_MAP)
        read_mapping(reading, "", root);
    else
        smoe_reading_problem(reading, &root->where, NULL, "a spec is a mapping of keys, not a %s",
                             root->kind == SMOE_NODE_LIST ? "list" : "single value");
    return root->kind == SMOE_NODE_MAP;
}

/* A text: the value of the entry, where entry >= 0, the mapping of the section, or all of it. */
static void read_source(smoe_reading *reading, smoe_provenance where, const char *text,
                        size_t length, const char *section, int entry) {
    SMOE_FREED_BY(smoe_tree_free) smoe_tree tree;
    where.line = where.column = 1;
    smoe_tree_read(&tree, text, length, &where);
    if (!tree.root && !tree.trouble)
        smoe_reading_problem(reading, &where, *section ? section : NULL,
                             *section ? "has no value"
                                      : "empty: a spec is a mapping of keys, {} has all defaults");
    else if (tree.root && entry >= 0)
        read_value(reading, entry, tree.root);
    else if (tree.root && *section)
        read_section(reading, section, tree.root);
    else if (tree.root && !read_root(reading, tree.root))
        return; /* some other kind of file */
    if (tree.trouble) smoe_reading_problem(reading, &tree.where, NULL, "%s", tree.trouble);
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

/* What to write in place of a value that looks like several: "1,2", "0-4", "0..4", "0:4". */
static const char *in_place_of(const char *value) {
    const char *behind = value + strspn(value, SMOE_DIGITS);
    size_t dots = strspn(behind, "-.:");
    bool single = dots == 1 && *behind == '.', range = behind > value && dots && !single;
    if (strchr(value, ','))
        return "; several values are for smoe sweep: KEY=A,B, or KEY: [A, B] in sweep.grid of a "
               "spec";
    if (range && behind[dots] && !behind[dots + strspn(behind + dots, SMOE_DIGITS)])
        return "; ranges are not read: smoe sweep takes several values as KEY=0,1,2";
    return "";
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
        if (reading->bad[entry])
            smoe_reading_problem(reading, &where, key, "%s%s", problem, in_place_of(equals + 1));
        return;
    }
    read_source(reading, where, equals + 1, strlen(equals + 1), key, entry);
}

void smoe_resolve_set(smoe_reading *reading, const char *key, const char *text) {
    char problem[SMOE_PROBLEM];
    if (smoe_value_set(reading->spec, &smoe_schema[smoe_resolve_entry(key)], text, true, problem))
        smoe_reading_problem(reading, smoe_resolve_origin(reading, key), key, "%s", problem);
}
