/* smoe predict: the likeliest classes of image files. */
#include "cmd.h"
#include "api/model.h"
#include "data/scan.h"
#include "vit/model.h"

#include <sys/stat.h>

enum { TOP = 5 };

/* The model, with room for one image. */
typedef struct predictor {
    smoe_alloc_pool memory;
    char *path;
    smoe_model *model;
    float *pixels, *logits, *p;
    size_t *order; /* [classes]: the likeliest first */
    size_t top;
} predictor;

static int predictor_open(predictor *x, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded l = {0};
    if (smoe_load_spec(&l, options->arg[0], options, err)) return -1;
    x->path = smoe_alloc_text_in(&x->memory, l.path);
    if (smoe_model_of(&x->model, &l.spec, &l.file, err)) return -1;
    if (smoe_model_pairs(x->model))
        return smoe_fail(err, SMOE_USAGE,
                         "%s compares images with captions and has no classes; smoe eval with "
                         "'eval.zeroshot=a photo of a {}' classifies the images of a data set",
                         x->path);
    size_t size = smoe_model_image_size(x->model), N = smoe_model_classes(x->model);
    x->top = options->top ? (size_t)options->top : TOP;
    if (x->top > N) x->top = N;
    size *= size * smoe_model_channels(x->model);
    x->pixels = smoe_alloc_in(&x->memory, size, sizeof *x->pixels);
    x->logits = smoe_alloc_in(&x->memory, N, sizeof *x->logits);
    x->p = smoe_alloc_in(&x->memory, N, sizeof *x->p);
    x->order = smoe_alloc_in(&x->memory, N, sizeof *x->order);
    return 0;
}

static void predictor_free(predictor *x) {
    smoe_model_free(x->model);
    smoe_alloc_pool_free(&x->memory);
}

/* The likeliest first; among equal ones the lower class. */
static int by_logit(const void *a, const void *b, void *logits) {
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    float x = ((float *)logits)[i], y = ((float *)logits)[k];
    return x == y ? (i > k) - (i < k) : (x < y) - (x > y);
}

/* What is no file that can be read as an image, with what to do. */
static int check_readable(const char *path, smoe_err *err) {
    struct stat there;
    bool missing = stat(path, &there) != 0;
    if (!strcmp(path, "-"))
        return smoe_fail(err, SMOE_DATA,
                         "-: standard input is not read; write the image to a file and give its "
                         "name (./- is a file of this name)");
    if (missing && strstr(path, "://")) {
        SMOE_FREED char *word = smoe_shell_word(path);
        return smoe_fail(err, SMOE_DATA,
                         "%s: an address and not a file; download the image (curl -LO %s) and give "
                         "the name of the file",
                         path, word);
    }
    if (missing || S_ISREG(there.st_mode)) return 0;
    if (S_ISDIR(there.st_mode))
        return smoe_fail(err, SMOE_DATA, "%s is a folder; give its images, as %s/*", path, path);
    return smoe_fail(err, SMOE_DATA,
                     "%s is a pipe or a device and not a file; write the image to a file and give "
                     "its name",
                     path);
}

static int predict_one(predictor *x, const char *path, smoe_err *err) {
    size_t N = smoe_model_classes(x->model);
    if (check_readable(path, err)) return -1;
    if (smoe_pixels_read(x->pixels, x->model, path, err)) return -1;
    if (smoe_model_predict(x->model, x->logits, x->pixels, 1, err)) return -1;
    for (size_t c = 0; c < N; c++)
        if (!isfinite(x->logits[c]))
            return smoe_fail(err, SMOE_NONFINITE, "%s: the logits of %s are not finite", path,
                             x->path);
    smoe_model_probabilities(x->model, x->p, x->logits, 1);
    for (size_t c = 0; c < N; c++) x->order[c] = c;
    qsort_r(x->order, N, sizeof *x->order, by_logit, x->logits);
    return 0;
}

static void add_prediction(smoe_result *result, const predictor *x, const char *path) {
    smoe_result *part = smoe_result_part(result, "images");
    smoe_fact_text(part, "path", path);
    smoe_frame *top = smoe_result_records(part, "top");
    smoe_result_line(part, NULL, "%s", path);
    for (size_t k = 0; k < x->top; k++) {
        size_t c = x->order[k];
        const char *name = smoe_model_class_name(x->model, c);
        char number[32], percent[32];
        snprintf(number, sizeof number, "class %zu", c);
        snprintf(percent, sizeof percent, "  %6.2f%%", 100 * (double)x->p[c]);
        smoe_frame_put(top, {"class", .number = c}, {"name", .text = name},
                       {"probability", .number = x->p[c]});
        smoe_result_line(part, percent, "%s", name ? name : number);
    }
}

/* Images that cannot be read are passed over; a request to stop, or anything else that fails, ends
 * the work, and its code is that of the failure. */
static int predict_all(smoe_result *result, predictor *x, const smoe_options *options,
                       const volatile sig_atomic_t *stop, smoe_err *err) {
    size_t images = options->args - 1, i = 0;
    bool over = false;
    *err = (smoe_err){0};
    smoe_scan_begin(options->scan);
    for (; i < images && !over && !*stop; i++) {
        const char *path = options->arg[i + 1];
        smoe_err why = {0};
        over = smoe_scan_at(options->scan, i + 1, images, "images read", &why) ||
               (predict_one(x, path, &why) && why.code != SMOE_DATA);
        if (!why.code) add_prediction(result, x, path);
        for (char *rest = why.text, *line; why.code && (line = strsep(&rest, "\n"));)
            smoe_fail_more(err, why.code, "%s", line);
        if (over) err->code = why.code;
    }
    if (i < images && *stop) {
        smoe_fail_more(err, SMOE_STOPPED, "stopped on request after %zu of %zu images", i, images);
        err->code = SMOE_STOPPED;
    }
    return smoe_scan_end(options->scan, err->code ? -1 : 0);
}

int cmd_predict(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(predictor_free) predictor x = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    const volatile sig_atomic_t *stop;
    if (predictor_open(&x, options, err) || smoe_cmd_catch(&stop, NULL, err)) return -1;
    smoe_fact_text(&result, "checkpoint", x.path);
    smoe_result_list(&result, "images");
    int status = predict_all(&result, &x, options, stop, err);
    return smoe_cmd_emit_anyway(&result, status, options, err);
}
