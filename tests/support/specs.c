/* See specs.h. */
#include "specs.h"
#include "unit.h"

#include <string.h>

smoe_spec specs_good(const char *text, const char *a, const char *b, const char *c) {
    smoe_err err;
    smoe_spec spec;
    char *overrides[] = {(char *)a, (char *)b, (char *)c};
    size_t count = a ? b ? c ? 3 : 2 : 1 : 0;
    if (smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .label = "t"}, overrides, count,
                        &err))
        fail_msg("'%s' was refused: %s", text, err.text);
    return spec;
}

void specs_wrong(const char *text, const char *assign, const char *message) {
    smoe_err err;
    smoe_spec spec;
    char *overrides[] = {(char *)assign};
    size_t count = assign != NULL;
    assert_int_equal(smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .label = "t"},
                                     overrides, count, &err),
                     -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, message);
    smoe_spec_free(&spec);
}

smoe_spec_text specs_text(const char *text) {
    return (smoe_spec_text){.text = text, .label = "t"};
}

char *specs_yaml(const smoe_spec *spec, bool origins) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(smoe_spec_write_yaml(spec, out, origins), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}
