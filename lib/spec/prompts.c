/* eval.zeroshot: a list of templates, each with a place {} for the name of a class. */
#include "spec/events.h"
#include "base/alloc.h"

#include <string.h>

int smoe_prompts_add(smoe_prompts *prompts, const char *text, char *problem) {
    char shown[64];
    smoe_text_shown(text, shown, sizeof shown);
    if (prompts->count == SMOE_MAX_PROMPTS)
        snprintf(problem, SMOE_PROBLEM, "at most %d templates are possible", SMOE_MAX_PROMPTS);
    else if (!strstr(text, "{}"))
        snprintf(problem, SMOE_PROBLEM,
                 "'%s' has no place {} for the name of a class, as \"a photo of a {}\" has", shown);
    else if (strlen(text) >= SMOE_PROMPT)
        snprintf(problem, SMOE_PROBLEM, "a template has at most %d bytes", SMOE_PROMPT - 1);
    else {
        strcpy(prompts->text[prompts->count++], text);
        return 0;
    }
    return -1;
}

void smoe_prompts_read(smoe_events *src, int entry) {
    smoe_reading *reading = src->reading;
    smoe_prompts prompts = {.count = 0};
    bool bad = false;
    for (;;) {
        yaml_event_t event;
        char problem[SMOE_PROBLEM] = "an item must be a text";
        if (!smoe_events_next(src, &event)) return;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        smoe_provenance where = smoe_events_place(src, &event);
        const char *text = event.type == YAML_SCALAR_EVENT ? smoe_events_scalar(&event) : NULL;
        if (!end && !smoe_events_plain(src, &event, smoe_schema[entry].key)) {
            bad = true;
        } else if (!end && (!text || smoe_prompts_add(&prompts, text, problem))) {
            smoe_reading_problem(reading, &where, smoe_schema[entry].key, "%s", problem);
            bad = true;
        }
        if (!end) smoe_events_skip(src, &event);
        yaml_event_delete(&event);
        if (end) break;
    }
    reading->bad[entry] = bad;
    if (!bad) reading->spec->eval.zeroshot = prompts;
}

char *smoe_prompts_yaml(const smoe_prompts *prompts) {
    char *text = NULL;
    size_t size;
    FILE *out = smoe_alloc_stream(&text, &size);
    for (size_t i = 0; i < prompts->count; i++) {
        fputs(i ? ", " : "[", out);
        smoe_value_put_quoted(out, prompts->text[i]);
    }
    fputs(prompts->count ? "]" : "[]", out);
    return smoe_alloc_stream_close(out, &text);
}

json_t *smoe_prompts_json(const smoe_prompts *prompts) {
    json_t *list = json_array();
    for (size_t i = 0; i < prompts->count; i++)
        json_array_append_new(list, json_string(prompts->text[i]));
    return list;
}
