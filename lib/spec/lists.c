/* Keys whose value is a list of mappings, train.optimizer.groups, or of texts, eval.zeroshot: read,
 * written and looked up; see schema.h. */
#include "spec/node.h"

#include <fnmatch.h>

/* ---- groups ---------------------------------------------------------------------------------- */

typedef enum field { MATCH, LR, DECAY, UNTIL, FROZEN, FIELDS } field;
static const char *const fields[FIELDS + 1] = {"match", "lr", "decay", "until", "frozen"};

static int set_pattern(smoe_group *group, const char *text, char *problem) {
    char shown[64];
    size_t length = strlen(text);
    if (length && length < SMOE_PATTERN && smoe_text_printable(text)) {
        memcpy(group->match, text, length + 1);
        return 0;
    }
    return smoe_value_wrong(problem, "expected a pattern of 1 to %d bytes, found '%s'",
                            SMOE_PATTERN - 1, smoe_text_shown(text, shown, sizeof shown));
}

static int set_field(smoe_group *group, field which, const char *text, char *problem) {
    static const smoe_schema_entry factor = {.range = "[0, 1000000]"},
                                   step = {.range = "[1, 1000000000]"};
    double number;
    switch (which) {
    case MATCH: return set_pattern(group, text, problem);
    case LR: return smoe_value_real(&factor, text, &group->lr, problem);
    case DECAY: return smoe_value_real(&factor, text, &group->decay, problem);
    case UNTIL:
        if (smoe_value_whole(&step, text, &number, problem)) return -1;
        group->until = (size_t)number;
        return 0;
    case FROZEN: return smoe_value_bool(text, &group->frozen, problem);
    case FIELDS: break;
    }
    return -1;
}

/* A field of a group, and its value. */
static void read_field(smoe_reading *reading, const char *key, smoe_group *group,
                       bool seen[FIELDS + 1], const smoe_node *name) {
    char problem[SMOE_PROBLEM] = "expected a single value", shown[64];
    const smoe_node *value = name->value;
    size_t which = smoe_node_among(name, fields);
    if (which == FIELDS)
        smoe_reading_problem(reading, &name->where, key,
                             "unknown field '%s'; known here: match, lr, decay, until, frozen",
                             name->text ? smoe_text_shown(name->text, shown, sizeof shown) : "");
    else if (seen[which])
        smoe_reading_problem(reading, &name->where, key, "duplicate field %s", fields[which]);
    bool wanted = which < FIELDS && !seen[which];
    seen[which] = true;
    if (!smoe_node_allowed(reading, value, key) || !wanted) return;
    if (!value->text || set_field(group, (field)which, value->text, problem))
        smoe_reading_problem(reading, &value->where, key, "%s: %s", fields[which], problem);
    if (which == MATCH) group->line = value->where.line, group->column = value->where.column;
}

static void read_group(smoe_reading *reading, const char *key, smoe_group *group,
                       const smoe_node *node) {
    bool seen[FIELDS + 1] = {false};
    *group = (smoe_group){.lr = 1, .decay = -1};
    if (!smoe_node_allowed(reading, node, key)) return;
    if (node->kind != SMOE_NODE_MAP) {
        smoe_reading_problem(reading, &node->where, key, "an item must be {match: PATTERN, ...}");
        return;
    }
    for (const smoe_node *name = node->first; name; name = name->next)
        read_field(reading, key, group, seen, name);
    if (node->cut) return;
    if (!seen[MATCH])
        smoe_reading_problem(reading, &node->where, key, "match is missing: which tensors?");
    if (group->frozen && (seen[LR] || seen[DECAY] || seen[UNTIL]))
        smoe_reading_problem(reading, &node->where, key,
                             "lr, decay and until cannot be set for frozen tensors");
}

void smoe_node_groups(smoe_reading *reading, int entry, const smoe_node *list) {
    const char *key = smoe_schema[entry].key;
    size_t problems = reading->problems, count = 0;
    smoe_groups groups = {.count = 0};
    for (const smoe_node *node = list->first; node; node = node->next, count++)
        read_group(reading, key, &groups.group[count % SMOE_MAX_GROUPS], node);
    if (count > SMOE_MAX_GROUPS)
        smoe_reading_problem(reading, &list->where, key, "has %zu items, at most %d are possible",
                             count, SMOE_MAX_GROUPS);
    groups.count = count;
    reading->bad[entry] = list->cut || reading->problems > problems;
    if (!reading->bad[entry]) reading->spec->train.optimizer.groups = groups;
}

json_t *smoe_groups_json(const smoe_groups *groups) {
    json_t *list = json_array();
    for (size_t i = 0; i < groups->count; i++) {
        const smoe_group *g = &groups->group[i];
        json_t *object = json_pack("{s:s}", "match", g->match);
        if (!g->frozen && g->lr != 1) json_object_set_new(object, "lr", json_real(g->lr));
        if (!g->frozen && g->decay >= 0) json_object_set_new(object, "decay", json_real(g->decay));
        if (!g->frozen && g->until)
            json_object_set_new(object, "until", json_integer((json_int_t)g->until));
        if (g->frozen) json_object_set_new(object, "frozen", json_true());
        json_array_append_new(list, object);
    }
    return list;
}

const char *smoe_group_place(const smoe_spec *spec, const smoe_group *group, char *buf,
                             size_t size) {
    const smoe_provenance *origin =
        spec->origin ? &spec->origin[smoe_schema_find("train.optimizer.groups")] : NULL;
    char shown[200];
    const char *file = spec->file ? smoe_text_shown(spec->file, shown, sizeof shown) : "spec";
    if (origin && origin->kind == SMOE_FROM_FILE)
        snprintf(buf, size, "%s:%zu:%zu", file, group->line, group->column);
    else
        snprintf(buf, size, "%s", origin && origin->kind == SMOE_FROM_OVERRIDE ? "override" : file);
    return buf;
}

bool smoe_group_matches(const smoe_group *group, const char *name) {
    return !fnmatch(group->match, name, 0);
}

/* ---- templates of texts ---------------------------------------------------------------------- */

int smoe_prompts_add(smoe_prompts *prompts, const char *text, char *problem) {
    char shown[64];
    smoe_text_shown(text, shown, sizeof shown);
    if (prompts->count == SMOE_MAX_PROMPTS)
        return smoe_value_wrong(problem, "at most %d templates are possible", SMOE_MAX_PROMPTS);
    if (!strstr(text, "{}"))
        return smoe_value_wrong(
            problem, "'%s' has no place {} for the name of a class, as \"a photo of a {}\" has",
            shown);
    if (strlen(text) >= SMOE_PROMPT)
        return smoe_value_wrong(problem, "a template has at most %d bytes", SMOE_PROMPT - 1);
    strcpy(prompts->text[prompts->count++], text);
    return 0;
}

void smoe_node_prompts(smoe_reading *reading, int entry, const smoe_node *list) {
    const char *key = smoe_schema[entry].key;
    size_t problems = reading->problems;
    smoe_prompts prompts = {.count = 0};
    for (const smoe_node *item = list->first; item; item = item->next) {
        char problem[SMOE_PROBLEM] = "an item must be a text";
        if (smoe_node_allowed(reading, item, key) &&
            (!item->text || smoe_prompts_add(&prompts, item->text, problem)))
            smoe_reading_problem(reading, &item->where, key, "%s", problem);
    }
    reading->bad[entry] = list->cut || reading->problems > problems;
    if (!reading->bad[entry]) reading->spec->eval.zeroshot = prompts;
}

json_t *smoe_prompts_json(const smoe_prompts *prompts) {
    json_t *list = json_array();
    for (size_t i = 0; i < prompts->count; i++)
        json_array_append_new(list, json_string(prompts->text[i]));
    return list;
}
