/* What is taken from another model's file, and what is not, in words; see init_map.h. */
#include "tensors/init_map.h"
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* A name with a number in it, "blocks.3.norm1.bias": the letters before and behind the number,
 * which is `length` digits at `at`. */
static bool init_text_numbered(const char *name, size_t *at, size_t *length) {
    const char *dot = strchr(name, '.');
    *at = dot ? (size_t)(dot + 1 - name) : 0;
    *length = dot ? strspn(dot + 1, "0123456789") : 0;
    return *length && name[*at + *length] == '.';
}

/* Whether two names differ only in their numbers. */
static bool alike(const char *a, const char *b) {
    size_t at, length, other, digits;
    return init_text_numbered(a, &at, &length) && init_text_numbered(b, &other, &digits) &&
           at == other && !strncmp(a, b, at) && !strcmp(a + at + length, b + other + digits);
}

/* "WHATnorm.bias, blocks.{2,3}.mlp.fc1.weight and 4 more": the names, with similar ones combined;
 * nothing if there are none. The list is consumed. */
static void names_put(FILE *out, const char *what, const char **name, size_t count) {
    enum { SHOWN = 8 };
    size_t left = count, at = 0, length = 0;
    for (size_t i = 0, groups = 0; i < count && groups < SHOWN; i++) {
        const char *first = name[i];
        if (!first) continue;
        fprintf(out, "%s", groups++ ? ", " : what);
        left--;
        size_t members = 0;
        for (size_t j = i + 1; j < count; j++) {
            if (!name[j] || !alike(first, name[j])) continue;
            if (!members++ && init_text_numbered(first, &at, &length))
                fprintf(out, "%.*s{%.*s", (int)at, first, (int)length, first + at);
            init_text_numbered(name[j], &at, &length);
            fprintf(out, ",%.*s", (int)length, name[j] + at);
            name[j] = NULL;
            left--;
        }
        if (members && init_text_numbered(first, &at, &length))
            fprintf(out, "}%s", first + at + length);
        else
            fputs(first, out);
    }
    if (left) fprintf(out, " and %zu more", left);
}

/* Parameters that are taken from the file in the same way. */
static void params_put(FILE *out, const char *what, const smoe_params *params,
                       const smoe_init_source *source, smoe_way way, const char **name) {
    size_t count = 0;
    for (size_t i = 0; i < params->count; i++)
        if (source[i].way == way) name[count++] = params->param[i].name;
    names_put(out, what, name, count);
}

/* The tensors of the file that are not used for any parameter, and that `which` chooses. */
typedef bool unused_which(const smoe_init_map *from, const char *name);

static bool any(const smoe_init_map *from, const char *name) {
    (void)from;
    (void)name;
    return true;
}

static void unused_put(FILE *out, const char *what, const smoe_init_map *from,
                       const smoe_init_source *source, const char **name, unused_which *which) {
    size_t count = 0;
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(from->file, i);
        size_t param = 0;
        while (param < from->params->count && source[param].tensor != t) param++;
        if (param == from->params->count && which(from, t->name) &&
            !smoe_init_map_composed(from, t->name))
            name[count++] = t->name;
    }
    names_put(out, what, name, count);
}

/* ---- sources --------------------------------------------------------------------------------- */

/* The sources of all parameters, and room for names. */
typedef struct sources {
    smoe_init_source *source;
    const char **name;
} sources;

static void sources_free(sources *s) {
    free(s->source);
    free(s->name);
}

static sources sources_of(const smoe_init_map *from) {
    size_t n = from->params->count, names = n + smoe_safetensors_count(from->file);
    sources s = {smoe_alloc(n, sizeof *s.source), smoe_alloc(names, sizeof *s.name)};
    for (size_t i = 0; i < n; i++)
        s.source[i] =
            smoe_init_map_source(from, &from->params->param[i], from->params->param[i].name);
    return s;
}

char *smoe_init_map_text(const smoe_params *params, const smoe_safetensors *file, smoe_fit fit) {
    smoe_init_map from = smoe_init_map_of(params, file, fit, "");
    SMOE_FREED_BY(sources_free) sources s = sources_of(&from);
    size_t taken = 0, size = 0;
    char *text = NULL;
    FILE *out = smoe_alloc_stream(&text, &size);
    for (size_t i = 0; i < params->count; i++) taken += s.source[i].tensor != NULL;
    fprintf(out, "%zu of %zu tensors start from %s", taken, params->count,
            smoe_safetensors_path(file));
    params_put(out, "; resized: ", params, s.source, SMOE_WAY_RESIZED, s.name);
    params_put(out, "; copied into each expert: ", params, s.source, SMOE_WAY_COPIED, s.name);
    params_put(out, "; initialised: ", params, s.source, SMOE_WAY_FRESH, s.name);
    unused_put(out, "; not used: ", &from, s.source, s.name, any);
    return smoe_alloc_stream_close(out, &text);
}

/* ---- whether it is the whole model ----------------------------------------------------------- */

/* Parts of a model by the beginnings of their names. */
static bool begins(const char *name, const char *const *part, size_t parts) {
    for (size_t i = 0; i < parts; i++)
        if (!strncmp(name, part[i], strlen(part[i]))) return true;
    return false;
}
#define BEGINS(name, ...)                            \
    begins(name, (const char *const[]){__VA_ARGS__}, \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* Routers are exchanged; new slots have new vectors. */
static bool is_router(const char *name) {
    return strstr(name, ".mlp.router.");
}

/* What follows the last block belongs to the head: with a new head it is new too, if it differs. */
static bool is_pooling(const char *name) {
    return BEGINS(name, "norm.", "fc_norm.", "attn_pool.", "head_dist.");
}

static bool has_text(const smoe_init_map *from) {
    for (size_t i = 0; i < smoe_safetensors_count(from->file); i++)
        if (!strncmp(smoe_safetensors_at(from->file, i)->name, "text.", 5)) return true;
    return false;
}

static bool may_miss(const smoe_init_map *from, const char *name) {
    if (is_router(name) || BEGINS(name, "head.", "logit_")) return true;
    if (is_pooling(name)) return from->headless;
    return !strncmp(name, "text.", 5) && !has_text(from); /* an image model gets a text tower */
}

static bool may_leave(const smoe_init_map *from, const char *name) {
    if (is_router(name)) return true;
    if (is_pooling(name)) return from->headless;
    if (!strncmp(name, "text.", 5)) return !smoe_params_find(from->params, "logit_scale");
    return !BEGINS(name, "blocks.", "patch_embed.", "cls_token", "reg_token", "pos_embed",
                   "norm_pre.");
}

static bool counts(const smoe_init_map *from, const char *name) {
    return !may_leave(from, name);
}

bool smoe_init_map_lacks(const smoe_init_map *from, smoe_err *err) {
    const smoe_params *params = from->params;
    SMOE_FREED_BY(sources_free) sources s = sources_of(from);
    size_t missing = 0, size = 0;
    SMOE_FREED char *text = NULL;
    FILE *out = smoe_alloc_stream(&text, &size);
    for (size_t i = 0; i < params->count; i++) {
        const char *name = params->param[i].name;
        if (!s.source[i].tensor && !may_miss(from, name)) s.name[missing++] = name;
    }
    names_put(out, "; missing: ", s.name, missing);
    unused_put(out, "; not used: ", from, s.source, s.name, counts);
    smoe_alloc_stream_close(out, &text);
    if (!*text) return false;
    smoe_fail_more(
        err, SMOE_DATA,
        "%s: is not the model of the spec up to its head: %s. --partial starts from what "
        "there is",
        smoe_safetensors_path(from->file), text + strspn(text, "; "));
    return true;
}
