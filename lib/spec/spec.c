/*
 * Entry points of lib/spec: reading a spec from a file or from text, freeing it, and the quantities
 * that follow from a resolved spec. The tables are in schema.c, values in value.c, YAML in read.c,
 * checks between keys in resolve.c, writing in write.c.
 */
#include "spec/routers.h"
#include "spec/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 }; /* largest size of a spec file in bytes */

/* The spec gets the folder of the text, if it has one. */
static int parse(smoe_spec *spec, const smoe_spec_text *from, bool trained, char *const *overrides,
                 size_t count, smoe_err *err) {
    const char *label = from->label;
    smoe_reading reading = {
        .spec = spec, .err = err, .label = label, .overrides = overrides, .trained = trained};
    *spec = (smoe_spec){.trained = trained};
    if (err) *err = (smoe_err){0};
    spec->origin = calloc(SMOE_SCHEMA_COUNT, sizeof *spec->origin);
    spec->file = strdup(label);
    if (from->folder) spec->folder = strdup(from->folder);
    if (!spec->origin || !spec->file || (from->folder && !spec->folder))
        return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", label);
    if (from->length > LARGEST)
        return smoe_fail(err, SMOE_USAGE, "%s: larger than 1 MiB, the limit of a spec", label);
    void *locale = smoe_locale_enter();
    int status = smoe_reading_presets(&reading);
    if (!status && from->profile) status = smoe_reading_profile(&reading, from->profile);
    if (!status) {
        smoe_reading_file(&reading, from->text, from->length);
        for (size_t i = 0; i < count; i++) smoe_reading_override(&reading, i);
        smoe_reading_resolve(&reading);
        if (!reading.problems && !from->of_cells) smoe_reading_idle(&reading);
    }
    smoe_locale_leave(locale);
    return status || reading.problems ? -1 : 0;
}

int smoe_spec_parse(smoe_spec *spec, const char *text, size_t length, const char *label,
                    const char *folder, char *const *overrides, size_t count, smoe_err *err) {
    const smoe_spec_text from = {.text = (char *)text,
                                 .length = length,
                                 .label = (char *)(label ? label : "spec"),
                                 .folder = (char *)folder};
    return parse(spec, &from, false, overrides, count, err);
}

/* A named pipe is refused, because it may never have a writer. An unnamed one, such as /dev/stdin
 * or <(command) of a shell, has one. NULL with err. */
static FILE *open_spec(const char *file, smoe_err *err) {
    struct stat there;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *whole =
        fd >= 0 && !fstat(fd, &there) && S_ISFIFO(there.st_mode) ? realpath(file, NULL) : NULL;
    FILE *in = NULL;
    if (whole)
        smoe_fail(err, SMOE_USAGE, "%s: a pipe, not a file; use - to read standard input", file);
    else if (fd < 0 || fcntl(fd, F_SETFL, 0) || !(in = fdopen(fd, "r")))
        smoe_fail_errno(err, SMOE_USAGE, "%s: cannot be opened", file);
    if (!in && fd >= 0) close(fd);
    free(whole);
    return in;
}

/* At most LARGEST + 1 bytes of the file, so that a larger one is seen to be larger. */
static char *slurp(const char *file, size_t *length, smoe_err *err) {
    bool standard = !strcmp(file, "-");
    FILE *in = standard ? stdin : open_spec(file, err);
    if (!in) return NULL;
    char *text = malloc(LARGEST + 1);
    if (!text) smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", file);
    if (text) *length = fread(text, 1, LARGEST + 1, in);
    if (text && ferror(in)) {
        smoe_fail_errno(err, errno == EISDIR ? SMOE_USAGE : SMOE_RUNTIME, "%s: cannot be read",
                        file);
        free(text);
        text = NULL;
    }
    if (!standard) fclose(in);
    return text;
}

int smoe_spec_text_read(smoe_spec_text *to, const char *file, smoe_err *err) {
    bool standard = !strcmp(file, "-");
    *to = (smoe_spec_text){0};
    to->text = slurp(file, &to->length, err);
    if (!to->text) return -1;
    char *whole = standard ? NULL : realpath(file, NULL);
    to->label = strdup(standard ? "<stdin>" : file);
    to->folder = standard ? NULL : strdup(whole ? dirname(whole) : ".");
    free(whole);
    return to->label && (standard || to->folder)
               ? 0
               : smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", file);
}

void smoe_spec_text_free(smoe_spec_text *text) {
    free(text->text);
    free(text->label);
    free(text->folder);
    *text = (smoe_spec_text){0};
}

int smoe_spec_parse_text(smoe_spec *spec, const smoe_spec_text *from, char *const *overrides,
                         size_t count, smoe_err *err) {
    return parse(spec, from, false, overrides, count, err);
}

int smoe_spec_parse_trained(smoe_spec *spec, const smoe_spec_text *from, char *const *overrides,
                            size_t count, smoe_err *err) {
    return parse(spec, from, true, overrides, count, err);
}

int smoe_spec_read(smoe_spec *spec, const char *file, char *const *overrides, size_t count,
                   smoe_err *err) {
    smoe_spec_text text;
    *spec = (smoe_spec){0};
    if (err) *err = (smoe_err){0};
    int status = smoe_spec_text_read(&text, file, err);
    if (!status) status = parse(spec, &text, false, overrides, count, err);
    smoe_spec_text_free(&text);
    return status;
}

void smoe_spec_free(smoe_spec *spec) {
    if (!spec) return;
    for (size_t i = 0; i < SMOE_SCHEMA_COUNT; i++) smoe_value_clear(spec, &smoe_schema[i]);
    smoe_schema_clear_sweep(&spec->sweep);
    free(spec->file);
    free(spec->folder);
    free(spec->origin);
    *spec = (smoe_spec){0};
}

/* ---- of older versions ----------------------------------------------------------------------- */

void smoe_spec_continue(smoe_spec *spec) {
    smoe_provenance *origin = &spec->origin[smoe_schema_find("train.optimizer.groups")];
    smoe_groups *groups = &spec->train.optimizer.groups;
    if (origin->kind != SMOE_FROM_DEFAULT || !(spec->train.optimizer.weight_decay > 0)) return;
    *groups = (smoe_groups){.count = 1};
    groups->group[0] =
        (smoe_group){.match = "*.router.phi", .lr = 1, .decay = spec->train.optimizer.weight_decay};
    origin->kind = SMOE_FROM_FITTED;
}

/* ---- derived quantities ---------------------------------------------------------------------- */

smoe_precision smoe_spec_precision(const smoe_spec *spec, bool train) {
    if (train || spec->eval.precision == SMOE_EVAL_PRECISION_TRAINED) return spec->train.precision;
    return (smoe_precision)(spec->eval.precision - SMOE_EVAL_PRECISION_F32);
}

size_t smoe_spec_tokens(const smoe_spec *spec) {
    size_t side = spec->data.image_size / spec->model.patch_size;
    return side * side + (spec->model.head == SMOE_HEAD_TOKEN);
}

smoe_model_spec smoe_spec_text_tower(const smoe_spec *spec) {
    const smoe_text_tower_spec *text = &spec->text;
    smoe_model_spec model = spec->model;
    if (text->width) model.width = text->width;
    if (text->depth) model.depth = text->depth;
    if (text->heads) model.heads = text->heads;
    model.mlp = 4 * model.width;
    model.qk_norm = false;
    model.head = SMOE_HEAD_GAP; /* text.pool says what is pooled */
    model.drop_path = 0;
    model.moe.layer_count = 0;
    memset(model.moe.is_moe, 0, sizeof model.moe.is_moe);
    return model;
}

size_t smoe_spec_embed(const smoe_spec *spec) {
    return spec->text.embed ? spec->text.embed : spec->model.width;
}

/* Half to even is the default rounding mode, which nearbyint follows. */
static size_t at_least_one(double number) {
    return number < 1 ? 1 : (size_t)number;
}

static double number_of(const smoe_moe_spec *moe, const smoe_series *series, size_t block) {
    size_t layer = 0;
    for (size_t i = 0; series->listed && i < block; i++) layer += moe->is_moe[i];
    return series->item[layer];
}

size_t smoe_moe_hidden(const smoe_model_spec *model) {
    return model->moe.expert_mlp ? model->moe.expert_mlp : model->mlp;
}

size_t smoe_moe_universal(const smoe_model_spec *model) {
    return model->moe.universal_mlp ? model->moe.universal_mlp : smoe_moe_hidden(model);
}

bool smoe_moe_renormalizes(const smoe_moe_spec *moe) {
    return moe->renormalize || moe->topk == SMOE_TOPK_BEFORE;
}

size_t smoe_moe_k(const smoe_moe_spec *moe, size_t block) {
    return (size_t)number_of(moe, &moe->k, block);
}

double smoe_moe_ratio(const smoe_moe_spec *moe, size_t block) {
    return number_of(moe, &moe->capacity, block);
}

size_t smoe_moe_slots_per_expert(const smoe_moe_spec *moe, size_t block, size_t tokens) {
    if (moe->slots_per_expert) return moe->slots_per_expert;
    if (moe->total_slots) return moe->total_slots / moe->experts;
    const smoe_router_entry *router = smoe_router_find(moe->router);
    if (router && router->family == SMOE_FAMILY_FIXED)
        return (tokens + moe->experts - 1) / moe->experts;
    double C = smoe_moe_ratio(moe, block);
    return at_least_one(nearbyint((double)tokens * C / (double)moe->experts));
}

size_t smoe_moe_capacity(const smoe_moe_spec *moe, size_t block, size_t tokens, size_t choices) {
    double C = smoe_moe_ratio(moe, block);
    double places = (double)choices * (double)tokens * C / (double)moe->experts;
    bool up = moe->capacity_rounding == SMOE_ROUNDING_CEIL;
    size_t buffer = at_least_one(up ? ceil(places) : nearbyint(places));
    size_t unit = moe->capacity_multiple_of;
    return (buffer + unit - 1) / unit * unit;
}
