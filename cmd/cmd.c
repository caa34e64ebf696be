/* What the commands share; see cmd.h. */
#include "cmd.h"
#include "base/threads.h"
#include "data/data.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "spec/sources.h"
#include "train/env.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int smoe_cmd_json(json_t *value, smoe_err *err) {
    int status = 0;
    if (!value || json_dumpf(value, stdout, JSON_INDENT(2)) || putchar('\n') == EOF)
        status = smoe_fail(err, SMOE_RUNTIME, "could not write the result as JSON");
    json_decref(value);
    return status;
}

json_t *smoe_cmd_env(const smoe_options *options) {
    char blas[64];
    snprintf(blas, sizeof blas, "BLIS %s, %s kernels", smoe_blas_version(), smoe_blas_kernel());
    return smoe_env_json(options->argc, options->argv, blas, smoe_kernels_get()->isa,
                         smoe_threads());
}

int smoe_cmd_print_config(const smoe_spec *spec, smoe_err *err) {
    if (smoe_spec_write_yaml(spec, stdout, true))
        return smoe_fail_errno(err, SMOE_RUNTIME, "standard output");
    return 0;
}

bool smoe_cmd_color(const smoe_options *options, FILE *out) {
    if (strcmp(options->color, "auto")) return !strcmp(options->color, "always");
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM"), *force = getenv("CLICOLOR_FORCE");
    if ((no && *no) || (term && !strcmp(term, "dumb"))) return false;
    if (force && *force && strcmp(force, "0")) return true;
    return isatty(fileno(out));
}

int smoe_cmd_classes(const smoe_spec *spec, size_t given, bool read, size_t *classes,
                     smoe_err *err) {
    const smoe_source_row *source = &smoe_sources[spec->data.source];
    *classes = given ? given : spec->data.classes ? spec->data.classes : source->classes;
    if (*classes) return 0;
    if (!read && !source->generated)
        return smoe_fail(
            err, SMOE_USAGE,
            "only the data knows the number of classes: give --classes N or data.classes=N");
    smoe_dataset *set = NULL;
    int status = smoe_dataset_open(&set, spec, "train", err);
    if (!status) *classes = smoe_dataset_classes(set);
    smoe_dataset_free(set);
    return status;
}

int smoe_cmd_target(const char *path, const smoe_options *options, smoe_err *err) {
    if (!path || options->force || access(path, F_OK)) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s is there already; --force replaces it", path);
}

double smoe_cmd_bytes(const smoe_cost *cost) {
    return cost->bytes.weights + cost->bytes.gradients + cost->bytes.optimizer +
           cost->bytes.activations;
}

json_t *smoe_cmd_bytes_json(const smoe_cost *cost) {
    return json_pack("{s:I, s:I, s:I, s:I}", "weights", (json_int_t)cost->bytes.weights,
                     "gradients", (json_int_t)cost->bytes.gradients, "optimizer",
                     (json_int_t)cost->bytes.optimizer, "activations",
                     (json_int_t)cost->bytes.activations);
}
