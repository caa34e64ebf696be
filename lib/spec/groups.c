/* train.optimizer.groups: a list of mappings, read, written and looked up; see schema.h. */
#include "spec/events.h"
#include "base/alloc.h"

#include <fnmatch.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

typedef enum field { MATCH, LR, DECAY, UNTIL, FROZEN, FIELDS } field;
static const smoe_schema_entry fields[FIELDS] = {
    [MATCH] = {.key = "match"},
    [LR] = {.key = "lr", .range = "[0, 1000000]"},
    [DECAY] = {.key = "decay", .range = "[0, 1000000]"},
    [UNTIL] = {.key = "until", .range = "[1, 1000000000]"},
    [FROZEN] = {.key = "frozen"},
};

/* One reading of the list. */
typedef struct groups_reading {
    smoe_events *src;
    int entry;
    smoe_groups groups;
    bool bad;
} groups_reading;

static void problem_at(groups_reading *r, const smoe_provenance *where, const char *text) {
    r->bad = true;
    smoe_reading_problem(r->src->reading, where, smoe_schema[r->entry].key, "%s", text);
}

static int set_pattern(smoe_group *group, const char *text, char *problem) {
    char shown[64];
    size_t length = strlen(text);
    if (length && length < SMOE_PATTERN && smoe_text_printable(text)) {
        memcpy(group->match, text, length + 1);
        return 0;
    }
    snprintf(problem, SMOE_PROBLEM, "expected a pattern of 1 to %d bytes, found '%s'",
             SMOE_PATTERN - 1, smoe_text_shown(text, shown, sizeof shown));
    return -1;
}

static int set_field(smoe_group *group, field which, const char *text, char *problem) {
    double step;
    switch (which) {
    case MATCH: return set_pattern(group, text, problem);
    case LR: return smoe_value_real(&fields[LR], text, &group->lr, problem);
    case DECAY: return smoe_value_real(&fields[DECAY], text, &group->decay, problem);
    case UNTIL:
        if (smoe_value_item(&fields[UNTIL], text, &step, problem)) return -1;
        group->until = (size_t)step;
        return 0;
    case FROZEN: return smoe_value_bool(text, &group->frozen, problem);
    case FIELDS: break;
    }
    return -1;
}

static field field_of(const char *name) {
    size_t i = 0;
    while (name && i < FIELDS && strcmp(fields[i].key, name)) i++;
    return name ? (field)i : FIELDS;
}

/* A field of a group, whose name was read, and its value. */
static void read_field(groups_reading *r, smoe_group *group, bool seen[FIELDS],
                       const yaml_event_t *name) {
    char problem[SMOE_PROBLEM], full[SMOE_PROBLEM + 16], shown[64];
    smoe_provenance where = smoe_events_place(r->src, name);
    const char *word = name->type == YAML_SCALAR_EVENT ? smoe_events_scalar(name) : NULL;
    field which = field_of(word);
    if (which == FIELDS) {
        snprintf(problem, sizeof problem,
                 "unknown field '%s'; known here: match, lr, decay, until, frozen",
                 word ? smoe_text_shown(word, shown, sizeof shown) : "");
        problem_at(r, &where, problem);
    } else if (seen[which]) {
        snprintf(problem, sizeof problem, "duplicate field %s", word);
        problem_at(r, &where, problem);
    }
    smoe_events_skip(r->src, name);
    yaml_event_t value;
    if (!smoe_events_next(r->src, &value)) return;
    smoe_provenance at = smoe_events_place(r->src, &value);
    const char *text = value.type == YAML_SCALAR_EVENT ? smoe_events_scalar(&value) : NULL;
    if (!smoe_events_plain(r->src, &value, smoe_schema[r->entry].key)) {
        r->bad = true;
    } else if (which < FIELDS && !seen[which]) {
        snprintf(problem, sizeof problem, "expected a single value");
        if (!text || set_field(group, which, text, problem)) {
            snprintf(full, sizeof full, "%s: %s", fields[which].key, problem);
            problem_at(r, &at, full);
        }
        if (which == MATCH) group->line = at.line, group->column = at.column;
    }
    if (which < FIELDS) seen[which] = true;
    smoe_events_skip(r->src, &value);
    yaml_event_delete(&value);
}

static void read_group(groups_reading *r, const yaml_event_t *start) {
    smoe_provenance where = smoe_events_place(r->src, start);
    bool seen[FIELDS] = {false};
    smoe_group group = {.lr = 1, .decay = -1};
    if (start->type != YAML_MAPPING_START_EVENT) {
        problem_at(r, &where, "an item must be {match: PATTERN, ...}");
        smoe_events_skip(r->src, start);
        return;
    }
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(r->src, &event)) return;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) read_field(r, &group, seen, &event);
        yaml_event_delete(&event);
        if (end) break;
    }
    if (!seen[MATCH]) problem_at(r, &where, "match is missing: which tensors?");
    if (seen[FROZEN] && group.frozen && (seen[LR] || seen[DECAY] || seen[UNTIL]))
        problem_at(r, &where, "lr, decay and until cannot be set for frozen tensors");
    if (r->groups.count < SMOE_MAX_GROUPS) r->groups.group[r->groups.count] = group;
    r->groups.count++;
}

void smoe_groups_read(smoe_events *src, int entry, const smoe_provenance *where) {
    groups_reading r = {.src = src, .entry = entry};
    for (;;) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end && smoe_events_plain(src, &event, smoe_schema[entry].key))
            read_group(&r, &event);
        else if (!end) {
            r.bad = true;
            smoe_events_skip(src, &event);
        }
        yaml_event_delete(&event);
        if (end) break;
    }
    if (r.groups.count > SMOE_MAX_GROUPS) {
        char problem[SMOE_PROBLEM];
        snprintf(problem, sizeof problem, "has %zu items, at most %d are possible", r.groups.count,
                 SMOE_MAX_GROUPS);
        problem_at(&r, where, problem);
    }
    src->reading->bad[entry] = r.bad;
    if (!r.bad) src->reading->spec->train.optimizer.groups = r.groups;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void groups_put_number(FILE *out, const char *name, double number) {
    fprintf(out, ", %s: %.*g", name, smoe_value_digits(number), number);
}

char *smoe_groups_yaml(const smoe_groups *groups) {
    char *text = NULL;
    size_t size;
    FILE *out = smoe_alloc_stream(&text, &size);
    putc('[', out);
    for (size_t i = 0; i < groups->count; i++) {
        const smoe_group *g = &groups->group[i];
        fputs(i ? ", {match: " : "{match: ", out);
        smoe_value_put_quoted(out, g->match);
        if (!g->frozen && g->lr != 1) groups_put_number(out, "lr", g->lr);
        if (!g->frozen && g->decay >= 0) groups_put_number(out, "decay", g->decay);
        if (!g->frozen && g->until) fprintf(out, ", until: %zu", g->until);
        fputs(g->frozen ? ", frozen: true}" : "}", out);
    }
    putc(']', out);
    return smoe_alloc_stream_close(out, &text);
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

/* ---- use ------------------------------------------------------------------------------------- */

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
