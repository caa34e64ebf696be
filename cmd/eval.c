/* smoe eval: loss and precision of a trained model over a split, and its logits for others to
 * judge. */
#include "cmd.h"
#include "load.h"
#include "progress.h"
#include "spec/metrics.h"
#include "train/fewshot.h"
#include "store/npy.h"
#include "train/routing.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logits and labels, in data-set order; either may go unkept. */
typedef struct collector {
    float *logits;   /* [images, N] or NULL */
    int64_t *labels; /* [images] or NULL */
    size_t images, done, classes;
    smoe_progress *progress;
} collector;

static int collect(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                   smoe_err *err) {
    collector *c = user;
    if (batch->images > c->images - c->done)
        return smoe_fail(err, SMOE_RUNTIME, "more images than the split has (%zu)", c->images);
    for (size_t b = 0; b < batch->images; b++) {
        size_t image = (size_t)batch->index[b];
        for (size_t k = 0; c->logits && k < classes; k++)
            c->logits[image * classes + k] = (float)logits[b * classes + k];
        if (c->labels) c->labels[image] = batch->label[b];
    }
    c->done += batch->images;
    smoe_progress_count(c->progress, c->done, c->images, "images");
    return 0;
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

/* {"10": accuracy}, and how it was come by under fewshot_detail. */
static json_t *fewshot_json(const smoe_fewshot_score *score, size_t count, bool detail) {
    json_t *object = json_object();
    for (size_t k = 0; k < count; k++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", score[k].shots);
        json_object_set_new(object, key,
                            !detail ? smoe_run_number(score[k].mean)
                                    : json_pack("{s:o, s:f}", "sd", smoe_run_number(score[k].sd),
                                                "l2", score[k].l2));
    }
    return object;
}

static int report(const smoe_loaded *l, const smoe_eval *eval, const smoe_routing *routing,
                  const smoe_fewshot_score *score, const smoe_options *options, smoe_err *err) {
    const char *split = l->spec.eval.split;
    size_t count = l->spec.eval.fewshot.count;
    double dropped = smoe_routing_dropped(routing);
    if (options->json) {
        json_t *counts = json_object();
        smoe_routing_record(routing, split, counts);
        return smoe_cmd_json(json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "checkpoint",
                                       l->path, "split", split, "images", (json_int_t)eval->images,
                                       "loss", smoe_run_number(eval->loss),
                                       smoe_metric_name(SMOE_METRIC_PRECISION),
                                       smoe_run_number(eval->precision_at_1), "fewshot",
                                       fewshot_json(score, count, false), "fewshot_detail",
                                       fewshot_json(score, count, true), "routing", counts),
                             err);
    }
    printf("checkpoint      %s\nsplit           %s\nimages          %zu\nloss            %.6f\n"
           "%-15s %.4f\n",
           l->path, split, eval->images, eval->loss, smoe_metric_name(SMOE_METRIC_PRECISION),
           eval->precision_at_1);
    if (isfinite(dropped))
        printf("dropped         %.4f  (in the layer that drops most)\n", dropped);
    for (size_t k = 0; k < count; k++)
        printf("fewshot %-6zu  %.4f  (deviation %.4f over %zu draws, l2 %g)\n", score[k].shots,
               score[k].mean, score[k].sd, l->spec.eval.fewshot.seeds, score[k].l2);
    return 0;
}

static int evaluate(smoe_loaded *l, const smoe_options *options, smoe_err *err) {
    smoe_progress progress;
    smoe_progress_open(&progress, options, stderr, NULL);
    collector c = {.progress = &progress};
    smoe_routing routing = {0};
    smoe_eval eval = {0};
    smoe_fewshot *fewshot = NULL;
    smoe_fewshot_score score[SMOE_MAX_SHOTS] = {0};
    int status = smoe_load_model(l, err);
    if (!status) status = smoe_fewshot_open(&fewshot, &l->spec, err);
    if (!status) status = collector_open(&c, l, options, err);
    if (!status) status = smoe_routing_open(&routing, l->model, err);
    if (!status)
        status = smoe_evaluate(l->model, &l->spec, l->set, l->batch, collect, &c, &eval, err);
    if (status && err->code == SMOE_NONFINITE) smoe_fail_prefix(err, "%s", l->path);
    smoe_routing_stop(&routing);
    smoe_progress_close(&progress);
    if (!status && fewshot) status = smoe_fewshot_measure(fewshot, l->model, l->batch, score, err);
    if (!status) status = collector_write(&c, options, err);
    if (!status) status = report(l, &eval, &routing, score, options, err);
    smoe_fewshot_free(fewshot);
    smoe_routing_free(&routing);
    free(c.logits);
    free(c.labels);
    return status;
}

int cmd_eval(const smoe_options *options, smoe_err *err) {
    smoe_loaded loaded = {0};
    int status = smoe_load_spec(&loaded, options->arg[0], options, err);
    if (!status) status = smoe_cmd_target(options->logits, options, err);
    if (!status) status = smoe_cmd_target(options->labels, options, err);
    if (!status) status = smoe_cmd_apart(options->logits, options->labels, err);
    if (status)
        ;
    else if (options->print_config)
        status = smoe_cmd_print_config(&loaded.spec, err);
    else if (options->dry_run && options->json)
        status = smoe_cmd_json(
            json_pack("{s:s, s:s}", "checkpoint", loaded.path, "split", loaded.spec.eval.split),
            err);
    else if (options->dry_run)
        printf("would evaluate %s on the %s split\n", loaded.path, loaded.spec.eval.split);
    else
        status = evaluate(&loaded, options, err);
    smoe_loaded_free(&loaded);
    return status;
}
