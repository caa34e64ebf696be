/* smoe version: what this program was built from and with, and what it found on this machine. */
#include "cmd.h"
#include "store/env.h"
#include "math/blas.h"

#include <archive.h>
#include <png.h>
#include <yaml.h>
#include <zlib.h>

static json_t *libraries(void) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "yaml", yaml_get_version_string(), "jansson",
                     jansson_version_str(), "png", png_get_libpng_ver(NULL), "zlib", zlibVersion(),
                     "archive", archive_version_string(), "blis", smoe_blas_version());
}

static void print_members(const json_t *object, const char *before) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        printf("%s%-10s  ", before, key);
        if (json_is_object(value)) {
            putchar('\n');
            print_members(value, "  ");
        } else if (json_is_string(value)) {
            puts(json_string_value(value));
        } else {
            printf("%lld\n", (long long)json_integer_value(value));
        }
    }
}

int cmd_version(const smoe_options *options, smoe_err *err) {
    json_t *env = smoe_env_here(options->argc, options->argv);
    /* of a run, not of the program */
    json_object_del(env, "argv");
    json_object_del(env, "cwd");
    json_object_del(env, "date");
    json_object_set_new(env, "libraries", libraries());
    if (!env || options->json) return smoe_cmd_json(env, err);
    print_members(env, "");
    json_decref(env);
    return 0;
}
