/* smoe eval: loss and precision of a trained model over a split, and its logits for others to
 * judge. */
#include "cmd.h"
#include "load.h"
#include "progress.h"
#include "train/npy.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Logits and labels as they come; either may go unkept. */
typedef struct collector {
    float *logits;   /* [images, N] or NULL */
    int64_t *labels; /* [images] or NULL */
    size_t images, done, classes;
    smoe_progress *progress;
} collector;

static int collect(void *user, const real *logits, const int64_t *labels, size_t images,
                   size_t classes, smoe_err *err) {
    collector *c = user;
    if (images > c->images - c->done)
        return smoe_fail(err, SMOE_RUNTIME, "more images than the split has (%zu)", c->images);
    if (c->logits)
        for (size_t i = 0; i < images * classes; i++)
            c->logits[c->done * classes + i] = (float)logits[i];
    if (c->labels) memcpy(c->labels + c->done, labels, images * sizeof *labels);
    c->done += images;
    smoe_progress_images(c->progress, c->done, c->images);
    return 0;
}

/* Refused before the work, not after it. */
static int check_target(const char *path, const smoe_options *options, smoe_err *err) {
    if (!path || options->force || access(path, F_OK)) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s is there already; --force replaces it", path);
}

static int collector_open(collector *c, const smoe_loaded *l, const smoe_options *options,
                          smoe_err *err) {
    c->images = smoe_dataset_images(l->set);
    c->classes = smoe_dataset_classes(l->set);
    if (options->logits) c->logits = calloc(c->images * c->classes, sizeof *c->logits);
    if (options->labels) c->labels = calloc(c->images, sizeof *c->labels);
    if ((options->logits && !c->logits) || (options->labels && !c->labels))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the logits of %zu images",
                         c->images);
    return 0;
}

static int collector_write(const collector *c, const smoe_options *options, smoe_err *err) {
    size_t dim[] = {c->done, c->classes};
    if (c->logits && smoe_npy_write(options->logits, "<f4", c->logits, 2, dim, err)) return -1;
    return c->labels ? smoe_npy_write(options->labels, "<i8", c->labels, 1, dim, err) : 0;
}

static int report(const smoe_loaded *l, const smoe_eval *eval, const smoe_options *options,
                  smoe_err *err) {
    const char *split = l->spec.eval.split;
    if (options->json)
        return smoe_cmd_json(json_pack("{s:s, s:s, s:I, s:o, s:o, s:{}}", "checkpoint", l->path,
                                       "split", split, "images", (json_int_t)eval->images, "loss",
                                       smoe_run_number(eval->loss), "precision_at_1",
                                       smoe_run_number(eval->precision_at_1), "fewshot"),
                             err);
    printf("checkpoint      %s\nsplit           %s\nimages          %zu\nloss            %.6f\n"
           "precision_at_1  %.4f\n",
           l->path, split, eval->images, eval->loss, eval->precision_at_1);
    return 0;
}

static int evaluate(smoe_loaded *l, const smoe_options *options, smoe_err *err) {
    smoe_progress progress;
    smoe_progress_open(&progress, options, stderr, NULL);
    collector c = {.progress = &progress};
    smoe_eval eval;
    int status = smoe_load_model(l, err);
    if (!status) status = collector_open(&c, l, options, err);
    if (!status)
        status = smoe_evaluate(l->model, &l->spec, l->set, l->batch, collect, &c, &eval, err);
    smoe_progress_close(&progress);
    if (!status) status = collector_write(&c, options, err);
    if (!status) status = report(l, &eval, options, err);
    free(c.logits);
    free(c.labels);
    return status;
}

int cmd_eval(const smoe_options *options, smoe_err *err) {
    smoe_loaded loaded = {0};
    int status = smoe_load_spec(&loaded, options, err);
    if (!status) status = check_target(options->logits, options, err);
    if (!status) status = check_target(options->labels, options, err);
    if (status)
        ;
    else if (options->print_config)
        status = smoe_cmd_print_config(&loaded.spec, err);
    else if (options->dry_run)
        printf("would evaluate %s on the %s split\n", loaded.path, loaded.spec.eval.split);
    else
        status = evaluate(&loaded, options, err);
    smoe_loaded_free(&loaded);
    return status;
}
