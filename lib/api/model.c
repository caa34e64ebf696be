/*
 * The public functions of specs and models; see smoe/smoe.h. lib/api is the top room of the
 * library: it may include every other room, and none includes it. It implements the public header,
 * and only calls the other rooms, which do the work; api/model.h is for the program alone.
 */
#include "api/model.h"
#include "data/dataset.h"
#include "bench/cost.h"
#include "data/decode.h"
#include "base/file.h"
#include "spec/routers.h"
#include "spec/spec.h"
#include "spec/tasks.h"
#include "store/model_file.h"
#include "store/run.h"
#include "tensors/safetensors.h"
#include "vit/model.h"
#include "tensors/params_io.h"
#include "train/evaluate.h"
#include "train/task.h"

const char *smoe_version(void) {
    return SMOE_VERSION;
}

/* ---- specs ----------------------------------------------------------------------------------- */

int smoe_spec_open(smoe_spec **spec, const char *file, const char *const *overrides, size_t count,
                   smoe_err *err) {
    SMOE_NUMBERS_IN_C;
    smoe_err own; /* messages of several lines are built up in it */
    if (!err) err = &own;
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    *spec = NULL;
    if (!file) return smoe_fail(err, SMOE_USAGE, "the name of the spec's file is NULL");
    *spec = smoe_alloc(1, sizeof **spec);
    if (!smoe_spec_text_read(&text, file, err) &&
        !smoe_budget_parse(*spec, &text, (char *const *)overrides, count, err))
        return 0;
    smoe_spec_close(*spec);
    *spec = NULL;
    return -1;
}

void smoe_spec_close(smoe_spec *spec) {
    if (spec) smoe_spec_free(spec);
    free(spec);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The files and memory that a loaded model uses. */
typedef struct source {
    const char *path; /* of the file */
    smoe_spec spec;
    smoe_safetensors *file; /* whose pages are the weights */
    size_t classes, reserved;
    json_t *names; /* of the classes, or NULL */
    real *pixels;  /* [reserved, channels, size, size] */
} source;

static void source_free(void *held) {
    SMOE_FREED source *s = held;
    smoe_safetensors_free(s->file);
    smoe_spec_free(&s->spec);
    json_decref(s->names);
    free(s->pixels);
}

static source *source_of(const smoe_model *model) {
    return smoe_model_held(model);
}

static size_t model_image_elements(const source *s) {
    return s->spec.data.channels * s->spec.data.image_size * s->spec.data.image_size;
}

/* There are no overrides, so an error in the spec is an error of the file. */
static int model_read_spec(source *s, smoe_err *err) {
    const char *text = smoe_safetensors_metadata(s->file, "smoe.spec");
    s->path = smoe_safetensors_path(s->file);
    if (!text)
        return smoe_fail(err, SMOE_DATA,
                         "%s: has no spec; smoe convert --spec writes a file that has one",
                         s->path);
    smoe_spec_text carried = {.text = text, .label = s->path, .trained = true};
    if (!smoe_spec_parse(&s->spec, &carried, NULL, 0, err)) return 0;
    if (err->code == SMOE_USAGE) err->code = SMOE_DATA;
    return -1;
}

static int source_find_classes(source *s, smoe_err *err) {
    if (smoe_task_pairs(s->spec.train.loss)) {
        s->classes = smoe_spec_embed(&s->spec);
        return 0;
    }
    const smoe_tensor *head = smoe_safetensors_find(s->file, "head.weight");
    if (!head || head->ndim != 2)
        return smoe_fail(
            err, SMOE_DATA,
            "%s: no tensor head.weight with two axes, so the classes are unknown; smoe "
            "train --init starts from it with a new head",
            s->path);
    s->classes = head->dim[0];
    bool own = smoe_safetensors_metadata(s->file, SMOE_CLASS_NAMES);
    SMOE_FREED char *names = smoe_model_file_names(s->file, NULL);
    s->names = names ? json_loads(names, 0, NULL) : NULL;
    if ((own || names) && json_array_size(s->names) != s->classes)
        return smoe_fail(err, SMOE_DATA, "%s: %s is not a list of %zu names", s->path,
                         own ? SMOE_CLASS_NAMES : "id2label", s->classes);
    return 0;
}

/* The model of a source, which is the model's, or freed. */
static int model_make(smoe_model **model, source *s, smoe_err *err) {
    if (source_find_classes(s, err) || smoe_model_create(model, &s->spec, s->classes, err)) {
        source_free(s);
        return -1;
    }
    smoe_model_hold(*model, s, source_free);
    if (!smoe_params_map(smoe_model_params(*model), s->file, err)) return 0;
    smoe_model_free(*model);
    *model = NULL;
    return -1;
}

int smoe_model_load(smoe_model **model, const char *path, smoe_err *err) {
    SMOE_NUMBERS_IN_C;
    smoe_err own;
    if (!err) err = &own;
    *model = NULL;
    source *s = smoe_alloc(1, sizeof *s);
    if (!smoe_run_model(&s->file, path, NULL, NULL, err) && !model_read_spec(s, err))
        return model_make(model, s, err);
    source_free(s);
    return -1;
}

int smoe_model_of(smoe_model **model, smoe_spec *spec, smoe_safetensors **file, smoe_err *err) {
    source *s = smoe_alloc(1, sizeof *s);
    *s = (source){.path = smoe_safetensors_path(*file), .spec = *spec, .file = *file};
    *model = NULL;
    *spec = (smoe_spec){0};
    *file = NULL;
    return model_make(model, s, err);
}

size_t smoe_model_channels(const smoe_model *model) {
    return source_of(model)->spec.data.channels;
}

size_t smoe_model_image_size(const smoe_model *model) {
    return source_of(model)->spec.data.image_size;
}

size_t smoe_model_classes(const smoe_model *model) {
    return smoe_model_pairs(model) ? 0 : source_of(model)->classes;
}

const char *smoe_model_class_name(const smoe_model *model, size_t label) {
    return json_string_value(json_array_get(source_of(model)->names, label));
}

/* ---- images ---------------------------------------------------------------------------------- */

int smoe_pixels_decode(float *pixels, const smoe_model *model, const void *bytes, size_t size,
                       smoe_err *err) {
    const source *s = source_of(model);
    size_t n = model_image_elements(s);
    SMOE_FREED_BY(smoe_image_free) smoe_image image = {0};
    SMOE_FREED_BY(smoe_image_free) smoe_image work = {0};
    SMOE_FREED real *values = smoe_alloc(n, sizeof *values);
    if (smoe_decode_fit(&image, &s->spec.data, bytes, size, NULL, &work, NULL, err)) return -1;
    smoe_image_scale scale;
    smoe_image_scale_make(&scale, &s->spec.data);
    smoe_image_pixels(values, &image, &scale);
    for (size_t i = 0; i < n; i++) pixels[i] = (float)values[i];
    return 0;
}

/* A line for a shell. */
static void say_how_to_convert(const char *path, smoe_err *err) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    int stem = (int)(dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path));
    SMOE_FREED char *first = smoe_text_format("%s[0]", path);
    /* not over the file itself */
    const char *more = strcasecmp(path + stem, ".png") ? "" : "-converted";
    SMOE_FREED char *png = smoe_text_format("%.*s%s.png", stem, path, more);
    SMOE_FREED char *from = smoe_shell_word(first), *to = smoe_shell_word(png);
    smoe_fail_more(err, SMOE_DATA, "ImageMagick converts it to PNG: convert %s %s", from, to);
}

int smoe_pixels_read(float *pixels, const smoe_model *model, const char *path, smoe_err *err) {
    SMOE_FREED char *bytes = NULL;
    size_t size;
    if (smoe_file_read(path, SMOE_MOST_IMAGE_BYTES, &bytes, &size, err)) return -1;
    if (!smoe_pixels_decode(pixels, model, bytes, size, err)) return 0;
    smoe_fail_prefix(err, "%s", path);
    if (smoe_decode_foreign((const uint8_t *)bytes, size)) say_how_to_convert(path, err);
    return -1;
}

/* ---- using a model --------------------------------------------------------------------------- */

/* Room for batches of up to `images` images; more than smoe_moe_eval_batch never go at once. */
static int reserve_pixels(smoe_model *model, size_t images, smoe_err *err) {
    source *s = source_of(model);
    size_t batch = smoe_moe_eval_batch(&s->spec, images);
    if (batch <= s->reserved) return 0;
    s->reserved = 0;
    free(s->pixels);
    s->pixels = calloc(batch * model_image_elements(s), sizeof *s->pixels);
    if (!s->pixels) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu images", batch);
    if (smoe_model_reserve(model, batch, false, err)) return -1;
    s->reserved = batch;
    return 0;
}

int smoe_model_predict(smoe_model *model, float *logits, const float *pixels, size_t images,
                       smoe_err *err) {
    const source *s = source_of(model);
    if (smoe_model_pairs(model))
        return smoe_fail(err, SMOE_USAGE,
                         "%s compares images with captions and has no classes; "
                         "smoe_model_evaluate uses it",
                         s->path);
    if (reserve_pixels(model, images, err)) return -1;
    size_t n = model_image_elements(s), N = s->classes;
    for (size_t first = 0, B; first < images; first += B) {
        B = images - first < s->reserved ? images - first : s->reserved;
        for (size_t i = 0; i < B * n; i++) s->pixels[i] = pixels[first * n + i];
        smoe_pass pass = {.seed = s->spec.seed, .images = B, .first = first};
        smoe_model_forward(model, s->pixels, &pass);
        const real *values = smoe_model_logits(model);
        for (size_t i = 0; i < B * N; i++) logits[first * N + i] = (float)values[i];
    }
    return 0;
}

static void model_softmax(float *p, const float *logits, size_t N) {
    double most = -INFINITY, sum = 0;
    for (size_t c = 0; c < N; c++) most = logits[c] > most ? logits[c] : most;
    for (size_t c = 0; c < N; c++) sum += exp(logits[c] - most);
    for (size_t c = 0; c < N; c++) p[c] = (float)(exp(logits[c] - most) / sum);
}

void smoe_model_probabilities(const smoe_model *model, float *p, const float *logits,
                              size_t images) {
    const source *s = source_of(model);
    size_t N = smoe_model_classes(model);
    bool multi = N && smoe_task_of(s->spec.train.loss)->multi;
    for (size_t i = 0; multi && i < images * N; i++)
        p[i] = (float)(1 / (1 + exp(-(double)logits[i])));
    for (size_t b = 0; !multi && b < images; b++) model_softmax(p + b * N, logits + b * N, N);
}

int smoe_model_evaluate(smoe_model *model, smoe_score *score, const char *split, smoe_err *err) {
    SMOE_NUMBERS_IN_C;
    source *s = source_of(model);
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *set = NULL;
    smoe_eval eval;
    *score = (smoe_score){0};
    if (!split) return smoe_fail(err, SMOE_USAGE, "the split is NULL");
    if (smoe_dataset_open(&set, &s->spec, split, NULL, err) ||
        smoe_model_file_align(set, s->file, &s->spec, err))
        return -1;
    if (!smoe_model_pairs(model) && smoe_dataset_classes(set) != s->classes)
        return smoe_fail(err, SMOE_DATA, "%s: %zu class%s, but its data has %zu", s->path,
                         s->classes, SMOE_ES(s->classes), smoe_dataset_classes(set));
    size_t images = smoe_dataset_images(set);
    if (reserve_pixels(model, images, err) ||
        smoe_evaluate(model, &s->spec, set, smoe_moe_eval_batch(&s->spec, images), NULL, &eval,
                      err))
        return -1;
    *score = (smoe_score){eval.images, eval.loss, eval.precision_at_1};
    return 0;
}
