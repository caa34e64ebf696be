/*
 * Fuzzing of the spec reader: any bytes as a file, and the lines before a "---" as overrides for
 * the rest. An accepted spec must be written in both forms and read back the same; a refusal must
 * have a message.
 */
#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_OVERRIDES = 8 };

/* Reads the text that was written: it must give the same text again, otherwise the fuzzer stops. */
static void must_read_back(const char *text, const char *json) {
    smoe_err err;
    smoe_spec again;
    if (smoe_spec_parse(&again, &(smoe_spec_text){.text = text, .label = "again"}, NULL, 0, &err))
        abort();
    char *second = smoe_spec_json(&again);
    if (!second || strcmp(second, json)) abort();
    free(second);
    smoe_spec_free(&again);
}

static void check_accepted(const smoe_spec *spec) {
    char *yaml = NULL, *json = smoe_spec_json(spec);
    size_t length = 0;
    FILE *out = open_memstream(&yaml, &length);
    if (!json || !out || smoe_spec_write_yaml(spec, out, true)) abort();
    fclose(out);
    must_read_back(yaml, json);
    must_read_back(json, json);
    free(yaml);
    free(json);
}

static void parse(const char *text, size_t size, char *const *overrides, size_t count) {
    smoe_err err;
    smoe_spec spec;
    if (!smoe_spec_parse(&spec,
                         &(smoe_spec_text){size ? text : "", .length = size, .label = "fuzz"},
                         overrides, count, &err))
        check_accepted(&spec);
    else if (!err.lines || !err.text[0] || err.code == SMOE_OK)
        abort();
    smoe_spec_free(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse((const char *)data, size, NULL, 0);
    char *copy = malloc(size + 1), *overrides[MOST_OVERRIDES];
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    copy[size] = '\0';
    char *rest = strstr(copy, "\n---\n");
    if (rest) {
        *rest = '\0';
        rest += 5;
        size_t count = 0;
        char *lines = copy;
        for (char *line; count < MOST_OVERRIDES && (line = strsep(&lines, "\n"));)
            overrides[count++] = line;
        parse(rest, strlen(rest), overrides, count);
    }
    free(copy);
    return 0;
}
