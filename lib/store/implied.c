/* Keys that a file of weights, and what lies beside it, says; see implied.h. */
#include "store/implied.h"
#include "base/alloc.h"
#include "base/file.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

static const char GUESS[] = "";

static void put(smoe_implied *x, const char *from, const char *key, const char *fmt, ...)
    SMOE_PRINTF(4, 5);
static void put(smoe_implied *x, const char *from, const char *key, const char *fmt, ...) {
    va_list args;
    size_t i = 0;
    while (i < x->count && strcmp(x->key[i].key, key) != 0) i++;
    if (i == SMOE_IMPLIED || (i < x->count && from == GUESS)) return;
    smoe_implied_key *k = &x->key[i];
    if (i == x->count) x->count++;
    *k = (smoe_implied_key){.key = key, .from = from};
    va_start(args, fmt);
    vsnprintf(k->value, sizeof k->value, fmt, args);
    va_end(args);
}

static const smoe_implied_key *find(const smoe_implied *x, const char *key) {
    for (size_t i = 0; i < x->count; i++)
        if (!strcmp(x->key[i].key, key)) return &x->key[i];
    return NULL;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static size_t dim_of(const smoe_safetensors *file, const char *name, int axis) {
    const smoe_tensor *t = smoe_safetensors_find(file, name);
    return t && axis < t->ndim ? t->dim[axis] : 0;
}

static size_t depth_of(const smoe_safetensors *file) {
    size_t depth = 0;
    for (;; depth++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.norm1.weight", depth);
        if (!smoe_safetensors_find(file, name)) return depth;
    }
}

/* The side of the square of patches, by the positions before it; 0: none. */
static size_t side_of(const smoe_safetensors *file) {
    size_t n = dim_of(file, "pos_embed", 1), token = dim_of(file, "cls_token", 1);
    const size_t before[] = {token + dim_of(file, "reg_token", 1), token, 0};
    for (size_t i = 0; i < 3; i++) {
        size_t side = n > before[i] ? (size_t)llround(sqrt((double)(n - before[i]))) : 0;
        if (side && side * side == n - before[i]) return side;
    }
    return 0;
}

static void put_shapes(smoe_implied *x, const smoe_safetensors *file) {
    size_t d = dim_of(file, "patch_embed.proj.weight", 0), depth = depth_of(file);
    size_t patch = dim_of(file, "patch_embed.proj.weight", 2), side = side_of(file);
    size_t dh = dim_of(file, "blocks.0.attn.q_norm.weight", 0);
    size_t mlp = dim_of(file, "blocks.0.mlp.fc1.weight", 0);
    if (!d || !depth || !mlp || !patch) return;
    put(x, NULL, "data.image_size", "%zu", side * patch);
    if (!side) put(x, GUESS, "data.image_size", "224");
    put(x, NULL, "data.channels", "%zu", dim_of(file, "patch_embed.proj.weight", 1));
    put(x, NULL, "model.variant", "none");
    put(x, NULL, "model.width", "%zu", d);
    put(x, NULL, "model.depth", "%zu", depth);
    put(x, NULL, "model.mlp", "%zu", mlp);
    /* 64 numbers per head, except in the sizes that have 16 heads */
    bool wide = d == 1152 || d == 1280 || d == 1408;
    size_t heads = wide ? 16 : d % 64 ? 1 : d / 64;
    if (dh) put(x, NULL, "model.heads", "%zu", d / dh);
    if (!dh) put(x, GUESS, "model.heads", "%zu", heads);
    put(x, NULL, "model.patch_size", "%zu", patch);
    bool map = smoe_safetensors_find(file, "attn_pool.latent");
    bool normed = smoe_safetensors_find(file, "fc_norm.weight");
    bool token = dim_of(file, "cls_token", 1);
    put(x, NULL, "model.head", "%s", map ? "map" : normed ? "gap-norm" : token ? "token" : "gap");
    put(x, NULL, "model.registers", "%zu",
        dim_of(file, "reg_token", 1) + (token && (map || normed)));
    put(x, NULL, "model.position", "%s",
        smoe_safetensors_find(file, "pos_embed") ? "learned" : "none");
    if (smoe_safetensors_find(file, "norm_pre.weight")) put(x, NULL, "model.pre_norm", "true");
    if (dh) put(x, NULL, "model.qk_norm", "true");
    put(x, NULL, "model.moe", "{layers: none}");
}

/* ---- configurations -------------------------------------------------------------------------- */

/* A file in the folder of a model file; NULL: none, or not JSON. */
static json_t *beside(const char *model, const char *name) {
    const char *slash = strrchr(model, '/');
    char *path = smoe_text_format("%.*s%s", slash ? (int)(slash + 1 - model) : 0, model, name);
    json_t *json = path ? json_load_file(path, JSON_REJECT_DUPLICATES, NULL) : NULL;
    free(path);
    return json;
}

static void put_gelu(smoe_implied *x, const char *from, const char *name) {
    bool tanh = name && (!strcmp(name, "gelu_pytorch_tanh") || !strcmp(name, "gelu_new") ||
                         !strcmp(name, "gelu_fast") || !strcmp(name, "gelu_tanh"));
    if (tanh || (name && !strcmp(name, "gelu")) || (name && !strcmp(name, "quick_gelu")))
        put(x, from, "model.gelu", "%s", tanh ? "tanh" : *name == 'q' ? "quick" : "erf");
}

static void put_pixels(smoe_implied *x, const char *from, const char *key, const json_t *list) {
    if (json_array_size(list) == 3)
        put(x, from, key, "[%.8g, %.8g, %.8g]", json_number_value(json_array_get(list, 0)),
            json_number_value(json_array_get(list, 1)), json_number_value(json_array_get(list, 2)));
}

/* The names of filters that are read here. */
static void put_filter(smoe_implied *x, const char *from, const char *name) {
    if (name && (!strcmp(name, "bicubic") || !strcmp(name, "bilinear")))
        put(x, from, "data.resize", "%s", name);
}

static void put_share(smoe_implied *x, const char *from, double share) {
    if (share >= 0.1 && share < 1) put(x, from, "data.crop_pct", "%.9g", share);
}

static bool width_agrees(const smoe_implied *x, const json_t *config) {
    const smoe_implied_key *width = find(x, "model.width");
    json_int_t size = json_integer_value(json_object_get(config, "hidden_size"));
    return size > 0 && (size_t)size == strtoull(width->value, NULL, 10);
}

/* transformers: its classes leave out no key that matters here, except in old files. */
static void put_hugging_face(smoe_implied *x, const json_t *config, const char *from) {
    const json_t *vision = json_object_get(config, "vision_config");
    if (vision) config = vision;
    if (!width_agrees(x, config)) return;
    const json_t *eps = json_object_get(config, "layer_norm_eps");
    json_int_t heads = json_integer_value(json_object_get(config, "num_attention_heads"));
    if (json_is_number(eps)) put(x, from, "model.norm_eps", "%.9g", json_number_value(eps));
    if (heads > 0) put(x, from, "model.heads", "%" JSON_INTEGER_FORMAT, heads);
    put_gelu(x, from, json_string_value(json_object_get(config, "hidden_act")));
}

/* timm: models called clip have OpenAI's norms; others 1e-6, and so has this program. */
static void put_timm(smoe_implied *x, const json_t *config, const char *from) {
    const char *name = json_string_value(json_object_get(config, "architecture"));
    const char *pool = json_string_value(json_object_get(config, "global_pool"));
    const json_t *data = json_object_get(config, "pretrained_cfg");
    if (!name) return;
    if (!strncmp(name, "vit_", 4) || !strncmp(name, "deit", 4))
        put(x, from, "model.norm_eps", strstr(name, "_clip_") ? "1e-05" : "1e-06");
    if (strstr(name, "quickgelu")) put(x, from, "model.gelu", "quick");
    const smoe_implied_key *head = find(x, "model.head"), *more = find(x, "model.registers");
    if (pool && !strcmp(pool, "avg") && !strcmp(head->value, "token")) {
        size_t registers = strtoull(more->value, NULL, 10);
        put(x, from, "model.head", "gap");
        put(x, from, "model.registers", "%zu", registers + 1);
    }
    put_pixels(x, from, "data.mean", json_object_get(data, "mean"));
    put_pixels(x, from, "data.std", json_object_get(data, "std"));
    put_filter(x, from, json_string_value(json_object_get(data, "interpolation")));
    put_share(x, from, json_number_value(json_object_get(data, "crop_pct")));
}

static void put_open_clip(smoe_implied *x, const json_t *config, const char *from) {
    const json_t *model = json_object_get(config, "model_cfg");
    const json_t *vision = json_object_get(model, "vision_cfg");
    const json_t *data = json_object_get(config, "preprocess_cfg");
    if (!vision) return;
    if (!json_object_get(vision, "timm_model_name")) {
        json_int_t width = json_integer_value(json_object_get(vision, "width"));
        json_int_t each = json_integer_value(json_object_get(vision, "head_width"));
        if (!each) each = 64;
        if (width > 0) put(x, from, "model.heads", "%" JSON_INTEGER_FORMAT, width / each);
        put(x, from, "model.norm_eps", "1e-05");
        put(x, from, "model.gelu",
            json_is_true(json_object_get(model, "quick_gelu")) ? "quick" : "erf");
    }
    put_pixels(x, from, "data.mean", json_object_get(data, "mean"));
    put_pixels(x, from, "data.std", json_object_get(data, "std"));
    put_filter(x, from, json_string_value(json_object_get(data, "interpolation")));
}

static void put_processor(smoe_implied *x, const json_t *config, const char *from) {
    const json_t *edge = json_object_get(json_object_get(config, "size"), "shortest_edge");
    const json_t *side = json_object_get(json_object_get(config, "crop_size"), "height");
    json_int_t filter = json_integer_value(json_object_get(config, "resample"));
    put_filter(x, from, filter == 3 ? "bicubic" : filter == 2 ? "bilinear" : NULL);
    if (json_is_integer(edge) && json_integer_value(edge) > 0)
        put_share(x, from, json_number_value(side) / json_number_value(edge));
    put_pixels(x, from, "data.mean", json_object_get(config, "image_mean"));
    put_pixels(x, from, "data.std", json_object_get(config, "image_std"));
}

static const struct {
    const char *file;
    void (*put)(smoe_implied *x, const json_t *config, const char *from);
} configurations[] = {{"config.json", put_hugging_face},
                      {"config.json", put_timm},
                      {"preprocessor_config.json", put_processor},
                      {"open_clip_config.json", put_open_clip}};

void smoe_implied_of(smoe_implied *x, const smoe_safetensors *file) {
    const char *path = smoe_safetensors_path(file);
    size_t letters = strlen(path);
    *x = (smoe_implied){.count = 0};
    put_shapes(x, file);
    if (!x->count) return;
    if (letters > 4 && !strcmp(path + letters - 4, ".npz"))
        put(x, ".npz", "model.gelu", "tanh"); /* as flax has it */
    for (size_t i = 0; i < sizeof configurations / sizeof *configurations; i++) {
        json_t *json = beside(path, configurations[i].file);
        if (json) configurations[i].put(x, json, configurations[i].file);
        json_decref(json);
    }
    put(x, GUESS, "model.norm_eps", "1e-06");
    put(x, GUESS, "model.gelu", "erf");
    put(x, GUESS, "data.mean", "0.5");
    put(x, GUESS, "data.std", "0.5");
}

/* ---- as a spec ------------------------------------------------------------------------------- */

/* The keys of a section, each on a line. */
static void section_put(FILE *out, const smoe_implied *x, const char *section) {
    size_t letters = strlen(section);
    fprintf(out, "%.*s:\n", (int)letters - 1, section);
    if (*section == 'd') fprintf(out, "  source: image-folder\n  path: PATH  # of your images\n");
    for (size_t i = 0; i < x->count; i++) {
        const smoe_implied_key *k = &x->key[i];
        const char *from = k->from;
        if (strncmp(k->key, section, letters) != 0) continue;
        fprintf(out, "  %s: %s%s%s\n", k->key + letters, k->value,
                !from   ? ""
                : *from ? "  # "
                        : "  # a guess: not in the file",
                from ? from : "");
    }
}

char *smoe_implied_spec(const smoe_safetensors *file) {
    smoe_implied x;
    char *text = NULL;
    size_t size;
    smoe_implied_of(&x, file);
    FILE *out = x.count ? smoe_alloc_stream(&text, &size) : NULL;
    if (!out) return NULL;
    section_put(out, &x, "data.");
    section_put(out, &x, "model.");
    smoe_alloc_stream_close(out, &text);
    return text;
}

/* ---- against a spec -------------------------------------------------------------------------- */

/* Whether a configuration says it, and not what the spec has. */
static bool differs(const smoe_implied *x, const char *key, const char *value) {
    const smoe_implied_key *k = find(x, key);
    return k && k->from && *k->from && strcmp(k->value, value) != 0;
}

int smoe_implied_check(const smoe_spec *spec, const smoe_safetensors *file, smoe_err *err) {
    static const char *const gelu[] = {"erf", "tanh", "quick"};
    static const char *const keys[] = {"model.norm_eps", "model.heads", "model.gelu"};
    char value[3][32];
    smoe_implied x;
    smoe_err found = {0};
    if (smoe_safetensors_metadata(file, "smoe.version")) return 0;
    smoe_implied_of(&x, file);
    snprintf(value[0], sizeof value[0], "%.9g", spec->model.norm_eps);
    snprintf(value[1], sizeof value[1], "%zu", spec->model.heads);
    snprintf(value[2], sizeof value[2], "%s", gelu[spec->model.gelu]);
    for (size_t i = 0; i < 3; i++) {
        const smoe_implied_key *k = find(&x, keys[i]);
        if (differs(&x, keys[i], value[i]))
            smoe_fail_more(&found, SMOE_USAGE, "%s: %s beside it says %s=%s, and the spec has %s",
                           smoe_safetensors_path(file), k->from, k->key, k->value, value[i]);
    }
    if (!found.code) return 0;
    if (err) *err = found;
    return -1;
}

static double value_at(const smoe_series *series, size_t i) {
    return series->item[series->listed ? i % series->listed : 0];
}

static bool pixels_differ(const smoe_implied *x, const char *key, const smoe_series *series) {
    const smoe_implied_key *k = find(x, key);
    double v[3];
    if (!k || !k->from || !*k->from ||
        sscanf(k->value, "[%lf, %lf, %lf]", &v[0], &v[1], &v[2]) != 3)
        return false;
    for (size_t i = 0; i < 3; i++)
        if (fabs(v[i] - value_at(series, i)) > 1e-6) return true;
    return false;
}

char *smoe_implied_remark(const smoe_spec *spec, const smoe_safetensors *file) {
    smoe_implied x;
    const char *path = smoe_safetensors_path(file);
    if (smoe_safetensors_metadata(file, "smoe.version")) return NULL;
    smoe_implied_of(&x, file);
    if (!x.count) return NULL;
    const smoe_implied_key *mean = find(&x, "data.mean"), *std = find(&x, "data.std");
    const smoe_implied_key *eps = find(&x, "model.norm_eps");
    if (pixels_differ(&x, "data.mean", &spec->data.mean) ||
        pixels_differ(&x, "data.std", &spec->data.std))
        return smoe_text_format("%s: its pixels had other values: %s beside it says 'data.mean=%s' "
                                "'data.std=%s'",
                                path, mean->from, mean->value, std->value);
    if (*eps->from) return NULL;
    return smoe_text_format(
        "%s: model.norm_eps %g, model.gelu, model.heads %zu and the order of norms are the spec's; "
        "the file does not have them",
        path, spec->model.norm_eps, spec->model.heads);
}
