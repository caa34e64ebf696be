/* The provenance of a page; see cmd.h. */
#include "cmd.h"
#include "store/env.h"

void smoe_origin_add(smoe_origin *origin, const char *term, char *text, bool folded) {
    SMOE_APPEND(origin->fact, origin->count) =
        (smoe_report_fact){smoe_alloc_text(term), text, folded};
}

/* The arguments beside one another, as env.json has them. */
static char *command_of(const json_t *env) {
    char *line = smoe_alloc_text("");
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(env, "argv"), i, word) {
        const char *text = json_string_value(word);
        smoe_text_add(&line, "%s%s", i ? " " : "", text ? text : "");
    }
    return line;
}

static const char *origin_text_of(const json_t *env, const char *name) {
    const char *text = json_string_value(json_object_get(env, name));
    return text ? text : "unknown";
}

void smoe_origin_open(smoe_origin *origin, const smoe_options *options) {
    json_auto_t *env = smoe_env_here(options->argc, options->argv);
    *origin = (smoe_origin){0};
    smoe_origin_add(origin, "Command", command_of(env), false);
    smoe_origin_add(origin, "Date", smoe_alloc_text(origin_text_of(env, "date")), false);
    smoe_origin_add(origin, "Program",
                    smoe_text_format("smoe %s, %s, %s", origin_text_of(env, "version"),
                                     origin_text_of(env, "compiler"), origin_text_of(env, "blas")),
                    false);
    smoe_origin_add(origin, "Machine",
                    smoe_text_format("%s, kernels %s, %s", origin_text_of(env, "cpu"),
                                     origin_text_of(env, "kernel"), origin_text_of(env, "system")),
                    false);
}

void smoe_origin_model(smoe_origin *origin, const char *run, const smoe_spec *spec,
                       const json_t *env) {
    SMOE_FREED char *trained =
        env ? smoe_text_format(", started %s by smoe %s on %s", origin_text_of(env, "date"),
                               origin_text_of(env, "version"), origin_text_of(env, "cpu"))
            : smoe_alloc_text("");
    smoe_origin_add(
        origin, run,
        smoe_text_format("%s, seed %llu%s", spec->name, (unsigned long long)spec->seed, trained),
        false);
    if (env) smoe_origin_add(origin, "its command", command_of(env), false);
    char *yaml = NULL;
    size_t size = 0;
    FILE *out = smoe_alloc_stream(&yaml, &size);
    (void)smoe_spec_write_yaml(spec, out, false);
    smoe_origin_add(origin, "its spec", smoe_alloc_stream_close(out, &yaml), true);
}

void smoe_origin_free(smoe_origin *origin) {
    for (size_t i = 0; i < origin->count; i++) {
        free((char *)origin->fact[i].term);
        free((char *)origin->fact[i].text);
    }
    free(origin->fact);
    *origin = (smoe_origin){0};
}
