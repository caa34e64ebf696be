/* Events of libyaml with their places and mistakes; see events.h. */
#include "spec/events.h"
#include "base/alloc.h"

#include <string.h>

enum {
    DEEPEST = 16,      /* nesting; no key of the table is deeper than SMOE_SCHEMA_LEVELS */
    MOST_PROBLEMS = 40 /* then the rest stays unread: it is some other kind of file */
};

smoe_provenance smoe_events_place(const smoe_events *src, const yaml_event_t *event) {
    smoe_provenance where = src->where;
    where.line = event->start_mark.line + 1;
    where.column = event->start_mark.column + 1;
    return where;
}

/* The error of libyaml; for a byte that is not a character it has an offset instead of a line. */
static void syntax_problem(smoe_events *src) {
    const yaml_parser_t *parser = &src->parser;
    smoe_provenance where = src->where;
    where.line = parser->problem_mark.line + 1;
    where.column = parser->problem_mark.column + 1;
    src->stop = true;
    if (parser->error == YAML_MEMORY_ERROR) smoe_alloc_end();
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

bool smoe_events_next(smoe_events *src, yaml_event_t *event) {
    if (src->reading->problems >= MOST_PROBLEMS && !src->stop) {
        src->stop = true;
        smoe_fail_more(src->reading->err, SMOE_USAGE, "%s: too many errors; the rest is not read",
                       src->reading->label);
    }
    if (src->stop) return false;
    if (yaml_parser_parse(&src->parser, event)) return true;
    syntax_problem(src);
    return false;
}

void smoe_events_skip(smoe_events *src, const yaml_event_t *first) {
    size_t depth =
        first->type == YAML_MAPPING_START_EVENT || first->type == YAML_SEQUENCE_START_EVENT;
    while (depth) {
        yaml_event_t event;
        if (!smoe_events_next(src, &event)) return;
        smoe_provenance where = smoe_events_place(src, &event);
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

bool smoe_events_plain(smoe_events *src, const yaml_event_t *event, const char *key) {
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
    smoe_provenance where = smoe_events_place(src, event);
    smoe_reading_problem(src->reading, &where, key,
                         "%s is not possible here: write the value itself", what);
    return false;
}

const char *smoe_events_scalar(const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    return strlen(text) == event->data.scalar.length ? text : NULL;
}
