/* smoe eval: loss and precision of a trained model over a split, its confusion of classes, and its
 * logits as a file. */
#include "cmd.h"
#include "progress.h"
#include "draw/figures.h"
#include "train/fewshot.h"
#include "tensors/npy.h"
#include "train/routing.h"
#include "train/scores.h"
#include "train/superclasses.h"

/*
 * The predictions of the model for each image, in data-set order; logits and labels may be left
 * out.
 */
typedef struct collector {
    smoe_alloc_pool memory;
    float *logits;               /* [images, N] or NULL */
    int64_t *labels;             /* [images] or NULL */
    smoe_prediction *prediction; /* [images] */
    uint32_t *superclass;        /* [N] or NULL */
    const smoe_task *task;
    size_t images, done, classes;
    smoe_progress *progress;
} collector;

static int eval_collect(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                        smoe_err *err) {
    collector *c = user;
    if (batch->images > c->images - c->done)
        return smoe_fail(err, SMOE_RUNTIME, "more images than the split has (%zu)", c->images);
    for (size_t b = 0; b < batch->images; b++) {
        size_t image = (size_t)batch->index[b];
        for (size_t k = 0; c->logits && logits && k < classes; k++)
            c->logits[image * classes + k] = (float)logits[b * classes + k];
        if (c->labels) c->labels[image] = batch->label[b];
        if (c->prediction)
            c->prediction[image] =
                smoe_prediction_of(c->task, logits + b * classes, batch->target + b * classes,
                                   classes, batch->label[b]);
    }
    c->done += batch->images;
    smoe_progress_count(c->progress, c->done, c->images);
    return 0;
}

static int collector_open(collector *c, const smoe_loaded *l, const smoe_options *options,
                          smoe_err *err) {
    bool pairs = smoe_model_pairs(l->model);
    bool classified = !pairs || (l->spec.eval.zeroshot.count && smoe_dataset_classes(l->set) > 1);
    const char *needs = options->logits         ? "logits"
                        : options->predictions  ? "predictions"
                        : options->out          ? "out"
                        : options->superclasses ? "superclasses"
                                                : NULL;
    if (needs && !classified)
        return smoe_fail(err, SMOE_USAGE,
                         "--%s: %s compares images with captions: give texts for its classes, "
                         "as with 'eval.zeroshot=a photo of a {}'",
                         needs, l->path);
    c->images = smoe_dataset_images(l->set);
    c->classes = smoe_dataset_classes(l->set);
    c->task = smoe_task_of(pairs ? SMOE_LOSS_SOFTMAX : l->spec.train.loss);
    if (classified) c->prediction = smoe_alloc_in(&c->memory, c->images, sizeof *c->prediction);
    if (options->logits) c->logits = calloc(c->images * c->classes, sizeof *c->logits);
    if (options->superclasses > (long)c->classes)
        return smoe_fail(err, SMOE_USAGE, "--superclasses %ld: the data has %zu class%s",
                         options->superclasses, c->classes, SMOE_ES(c->classes));
    if (options->superclasses)
        c->superclass = smoe_alloc_in(&c->memory, c->classes, sizeof *c->superclass);
    if (options->labels) c->labels = smoe_alloc_in(&c->memory, c->images, sizeof *c->labels);
    if (options->logits && !c->logits)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the logits of %zu images",
                         c->images);
    return 0;
}

static void collector_free(collector *c) {
    free(c->logits);
    smoe_alloc_pool_free(&c->memory);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int draw_confusion(const smoe_frame *frame, size_t classes, const smoe_options *options,
                          smoe_err *err) {
    static const smoe_figure_entry entry = {.name = "confusion",
                                            .kind = SMOE_FIGURE_HEAT,
                                            .panel = {"run"},
                                            .x = "predicted",
                                            .y = {"class"},
                                            .colour = "share",
                                            .x_name = "predicted_name",
                                            .y_name = "name",
                                            .x_title = "predicted class",
                                            .y_title = "class"};
    SMOE_FREED_BY(smoe_plot_free) smoe_plot plot = {0};
    bool drawn;
    if (classes > SMOE_CONFUSION_WHOLE) return 0;
    smoe_figure_plot(&plot, &entry, frame, 1);
    if (smoe_plot_draw(&plot, options->out, 0, &drawn, err)) return -1;
    if (!drawn) smoe_cmd_undrawn(options, options->out, "confusion.gp is the script of the figure");
    return 0;
}

/* -o: classes, confusion and calibration; --predictions: the images. */
static int write_scores(const collector *c, const smoe_loaded *l, const smoe_options *options,
                        smoe_err *err) {
    SMOE_FREED_BY(smoe_frame_free) smoe_frame images = {0};
    SMOE_FREED_BY(smoe_result_free) smoe_result tables = {0};
    if (options->out) {
        smoe_scores_classes(smoe_result_frame(&tables, NULL, false), c->prediction, l->set);
        smoe_frame *confusion = smoe_result_frame(&tables, NULL, false);
        smoe_scores_confusion(confusion, c->prediction, l->set, l->path);
        smoe_scores_bins(smoe_result_frame(&tables, NULL, false), c->prediction, c->images);
        if (smoe_result_csv(&tables, options->out, err) ||
            draw_confusion(confusion, c->classes, options, err))
            return -1;
    }
    if (!options->predictions) return 0;
    smoe_scores_predictions(&images, c->prediction, l->set);
    return smoe_frame_csv(&images, options->predictions, err);
}

/* Each class with its name, images and accuracy; the classes with the lowest one are printed:
 * "lowest  cross 0.61, ring 0.70, star 0.72 (of 10 classes)". */
static void eval_add_classes(smoe_result *result, const collector *c, const smoe_loaded *l) {
    enum { SHOWN = 3 };
    SMOE_FREED double *share = smoe_alloc(c->classes, sizeof *share);
    size_t *images = smoe_alloc(c->classes, sizeof *images), seen = 0;
    smoe_frame *table = smoe_result_records(result, "classes");
    smoe_scores_by_class(share, images, c->classes, c->prediction, c->images);
    for (size_t k = 0; k < c->classes; k++) {
        seen += images[k] > 0;
        smoe_frame_put(table, {"name", .text = smoe_dataset_class_name(l->set, k)},
                       {"images", .number = images[k]},
                       {smoe_metric_name(SMOE_METRIC_PRECISION), .number = share[k]});
    }
    for (size_t n = 0; n < SHOWN && n < seen && seen > 1; n++) {
        size_t worst = c->classes;
        char item[300];
        for (size_t k = 0; k < c->classes; k++)
            if (isfinite(share[k]) && (worst == c->classes || share[k] < share[worst])) worst = k;
        if (!n) smoe_result_line(result, "lowest", "%s", "");
        smoe_text_member(smoe_dataset_class_name(l->set, worst), item, sizeof item);
        smoe_result_more(result, "%s%s %.3f", n ? ", " : "", item, share[worst]);
        share[worst] = NAN;
    }
    if (seen > 1) smoe_result_more(result, "  (of %zu classes)", seen);
    free(images);
}

/* "superclasses  [0, 0, 1]", as the key model.moe.superclasses takes it. */
static void add_superclasses(smoe_result *result, const collector *c) {
    SMOE_FREED double *list = smoe_alloc(c->classes, sizeof *list);
    smoe_result_line(result, "superclasses", "[");
    for (size_t k = 0; k < c->classes; k++) {
        list[k] = c->superclass[k];
        smoe_result_more(result, "%s%u", k ? ", " : "", c->superclass[k]);
    }
    smoe_result_more(result, "]");
    smoe_result_numbers(result, "superclasses", list, c->classes);
}

/* ---- the result ------------------------------------------------------------------------------ */

static void add_fewshot(smoe_result *result, const smoe_fewshot_score *score, size_t count,
                        size_t draws) {
    char label[32];
    if (!count) {
        (void)smoe_result_object(result, "fewshot");
        (void)smoe_result_object(result, "fewshot_detail");
    }
    for (size_t k = 0; k < count; k++) {
        smoe_cmd_number(result, score[k].mean, "fewshot:%zu", score[k].shots);
        smoe_cmd_number(result, score[k].sd, "fewshot_detail:%zu:sd", score[k].shots);
        smoe_cmd_number(result, score[k].l2, "fewshot_detail:%zu:l2", score[k].shots);
        snprintf(label, sizeof label, "fewshot %zu", score[k].shots);
        smoe_result_line(result, label, "%.4f  (deviation %.4f over %zu draws, l2 %g)",
                         score[k].mean, score[k].sd, draws, score[k].l2);
    }
}

static void add_recall(smoe_result *result, const char *name, const char *label,
                       const double recall[SMOE_RECALLS]) {
    smoe_result_line(result, label, "%s", "");
    for (size_t k = 0; k < SMOE_RECALLS; k++) {
        smoe_result_more(result, "%s%zu: %.4f", k ? ", " : "", smoe_recall_at[k], recall[k]);
        smoe_cmd_number(result, recall[k], "%s:%zu", name, smoe_recall_at[k]);
    }
}

/* `score` NULL: few-shot accuracy was not measured. */
static int eval_report(const smoe_loaded *l, const smoe_eval *eval, const smoe_routing *routing,
                       const smoe_fewshot_score *score, const collector *c, int status,
                       const smoe_options *options, smoe_err *err) {
    const char *split = l->spec.eval.split, *precision = smoe_metric_name(SMOE_METRIC_PRECISION);
    double dropped = smoe_routing_dropped(routing);
    double calibration = c->prediction ? smoe_scores_calibration(c->prediction, c->images) : NAN;
    smoe_result result = {0};
    json_auto_t *counts = json_object();
    smoe_routing_record(routing, split, counts);
    smoe_result_facts(
        &result, {"checkpoint", .text = l->path, .heading = "checkpoint"},
        {"split", .text = split, .heading = "split"},
        {"images", .number = eval->images, .heading = "images", .format = "%.0f"},
        {"loss", .number = eval->loss, .heading = "loss", .format = "%.6f"},
        {precision, .number = eval->precision_at_1, .heading = "top-1 accuracy", .format = "%.4f"});
    if (eval->retrieval) {
        add_recall(&result, "text_recall", "text recall at", eval->text_recall);
        add_recall(&result, "image_recall", "image recall at", eval->image_recall);
    }
    smoe_fact_number(&result, "calibration_error", calibration, .heading = "calibration",
                     .format = "%.4f  (error of the top class's probability)");
    if (c->prediction)
        eval_add_classes(&result, c, l);
    else
        smoe_result_list(&result, "classes");
    if (c->superclass) add_superclasses(&result, c);
    if (isfinite(dropped))
        smoe_result_line(&result, "dropped", "%.4f  (in the layer that drops most)", dropped);
    add_fewshot(&result, score, score ? l->spec.eval.fewshot.count : 0, l->spec.eval.fewshot.seeds);
    smoe_result_members(smoe_result_object(&result, "routing"), counts);
    return smoe_cmd_emit_anyway(&result, status, options, err);
}

/* The files of -o. */
static const char tables[] = "classes.csv confusion.csv calibration.csv";

static void eval_say_files(const smoe_options *options) {
    const char *const files[] = {options->logits, options->labels, options->predictions};
    smoe_result lines = {0};
    for (size_t i = 0, named = 0; i < 3; i++)
        if (files[i] && !named++)
            smoe_result_line(&lines, "files", "%s", files[i]);
        else if (files[i])
            smoe_result_more(&lines, ", %s", files[i]);
    smoe_heading_print(&lines, options);
    if (options->out)
        smoe_heading_files(options, options->out,
                           "classes.csv confusion.csv calibration.csv confusion.svg", NULL);
}

/* The pass over the images, with the progress of all processes. */
static int eval_measure(collector *c, smoe_loaded *l, smoe_routing *routing, smoe_eval *eval,
                        const smoe_options *options, smoe_err *err) {
    smoe_progress progress;
    smoe_progress_open(&progress, options, "images", NULL);
    c->progress = &progress;
    smoe_routing_open(routing, l->model);
    int status = smoe_evaluate(
        l->model, &l->spec, l->set, l->batch,
        &(smoe_eval_options){.comm = options->comm, .sink = eval_collect, .user = c}, eval, err);
    if (!status) smoe_routing_sum(routing, options->comm);
    if (!status && c->logits) /* what each process has of its batches */
        smoe_comm_join(options->comm, c->logits, c->images * c->classes * sizeof *c->logits);
    if (!status && c->labels)
        smoe_comm_join(options->comm, c->labels, c->images * sizeof *c->labels);
    if (!status && c->prediction)
        smoe_comm_join(options->comm, c->prediction, c->images * sizeof *c->prediction);
    if (status && err->code == SMOE_NONFINITE) smoe_fail_prefix(err, "%s", l->path);
    smoe_routing_stop(routing);
    smoe_progress_close(&progress);
    return status;
}

/* Before the work, and again before they are written: another command may have been faster. */
static int eval_targets(const smoe_options *options, smoe_err *err) {
    return smoe_cmd_target(options->logits, options, err) ||
                   smoe_cmd_target(options->labels, options, err) ||
                   smoe_cmd_target(options->predictions, options, err)
               ? -1
               : 0;
}

static int eval_evaluate(smoe_loaded *l, const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(collector_free) collector c = {0};
    SMOE_FREED_BY(smoe_routing_free) smoe_routing routing = {0};
    SMOE_FREED_BY(smoe_fewshot_freed) smoe_fewshot *fewshot = NULL;
    smoe_eval eval = {0};
    smoe_fewshot_score score[SMOE_MAX_SHOTS] = {0};
    if (smoe_load_model(l, err)) return -1;
    smoe_heading_loaded(l, options);
    if (smoe_fewshot_open(&fewshot, &l->spec, options->scan, err)) return -1;
    SMOE_FREED char *remark = options->quiet ? NULL : smoe_fewshot_remark(fewshot);
    if (remark) smoe_cmd_print(stderr, "%s\n", remark);
    if (collector_open(&c, l, options, err) || eval_measure(&c, l, &routing, &eval, options, err))
        return -1; /* what c holds is freed by its scope: NOLINT(clang-analyzer-unix.Malloc) */
    const volatile sig_atomic_t *stop; /* a request to stop leaves what has been evaluated before */
    if (fewshot && smoe_cmd_catch(&stop, NULL, err)) return -1;
    int status =
        fewshot ? smoe_fewshot_measure(fewshot, l->model, l->batch, options->comm, stop, score, err)
                : 0;
    if (status && err->code != SMOE_STOPPED) return -1;
    if (options->comm->rank) return status; /* the others wait for what follows to succeed */
    const smoe_fewshot_score *measured = status ? NULL : score;
    if (c.superclass && smoe_superclasses(c.superclass, (size_t)options->superclasses, c.classes,
                                          c.prediction, c.images, err))
        return -1;
    const size_t dim[] = {c.images, c.classes};
    if (eval_targets(options, err) ||
        (c.logits && (smoe_file_make_parents(options->logits, err) ||
                      smoe_npy_write(options->logits, "<f4", c.logits, 2, dim, err))) ||
        (c.labels && (smoe_file_make_parents(options->labels, err) ||
                      smoe_npy_write(options->labels, "<i8", c.labels, 1, dim, err))) ||
        write_scores(&c, l, options, err))
        status = -1;
    if (eval_report(l, &eval, &routing, measured, &c, status, options, err)) return -1;
    eval_say_files(options);
    return 0;
}

static int eval_together(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(smoe_loaded_free) smoe_loaded loaded = {0};
    bool works = !options->print_config && !options->dry_run;
    if (smoe_load_spec(&loaded, options->arg[0], options, err) ||
        (works && smoe_cmd_hold(options, err)) || eval_targets(options, err) ||
        smoe_cmd_targets(tables, options, err))
        return -1;
    if (options->print_config) return smoe_cmd_print_config(&loaded.spec, err);
    if (!options->dry_run) return eval_evaluate(&loaded, options, err);
    smoe_result result = {0};
    const char *split = loaded.spec.eval.split;
    smoe_result_facts(&result, {"checkpoint", .text = loaded.path}, {"split", .text = split});
    smoe_result_line(&result, NULL, "would evaluate %s on the %s split", loaded.path, split);
    return smoe_cmd_emit(&result, options, err);
}

int cmd_eval(const smoe_options *options, smoe_err *err) {
    return smoe_together(options, eval_together, err);
}
