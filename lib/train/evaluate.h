/* Evaluation of a model on a split. */
#pragma once

#include "data/loader.h"
#include "train/retrieval.h"
#include "vit/model.h"

#include <jansson.h>

typedef struct smoe_eval {
    size_t images;
    double loss, precision_at_1;
    double seconds;
    double infer_s; /* of the forward pass, per image: the median over batches; NAN: not known */
    bool retrieval; /* of images and captions: these two are there */
    double text_recall[SMOE_RECALLS], image_recall[SMOE_RECALLS]; /* of what is found, and at which
                                                                     of smoe_recall_at */
} smoe_eval;

/* Adds loss, top-1 accuracy, and the time of inference and the recalls, where there are any, to the
 * record of an evaluation of that split. */
void smoe_eval_record(const smoe_eval *eval, const char *split, json_t *record);

/* Receives the results of an evaluation, batch by batch: logits [images, N] of the images
 * batch->index; NULL if images are compared with captions and there are no texts for classes
 * (eval.zeroshot). */
typedef int smoe_eval_sink(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                           smoe_err *err);

/* Options of an evaluation; all may be left out. */
typedef struct smoe_eval_options {
    smoe_comm *comm; /* several processes: each evaluates its share of the batches, batch i of R
                             in process i mod R, whose sink receives it, and all get the result */
    float *outcomes; /* [images of the set, 2], in data-set order: 1 or 0, whether the top class
                             of an image is one of its labels, and its loss */
    smoe_eval_sink *sink;
    void *user;
} smoe_eval_options;

/* Loss and top-1 accuracy of a whole split, in batches of batch_size, for which `model` must be
 * reserved, including the last, short batch. If images are compared with captions, also recalls,
 * and top-1 accuracy is zero-shot (without texts for classes, it is the text recall at 1). Images
 * are taken in the order of smoe_dataset_order; if images do not influence one another, no bit of
 * the result depends on it. options may be NULL. The evaluation ends if the sink fails, or with a
 * loss that is not finite (SMOE_NONFINITE, naming image and tensor). */
int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, const smoe_eval_options *options, smoe_eval *result,
                  smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_DATA if the set of `split` has another number of classes than that of train. */
int smoe_evaluate_check_classes(const smoe_dataset *set, const char *split,
                                const smoe_dataset *train, smoe_err *err) SMOE_MUST_CHECK;

/* ---- for the kinds of evaluation ------------------------------------------------------------- */

/* smoe_evaluate of a task that compares images with captions; options->comm is not NULL. */
int smoe_evaluate_pairs(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                        size_t batch_size, const smoe_eval_options *options, smoe_eval *result,
                        smoe_err *err) SMOE_MUST_CHECK;

/* Reports "the loss" or "a logit" that is not finite: SMOE_NONFINITE, naming image and tensor. */
int smoe_evaluate_nonfinite(smoe_model *model, uint64_t image, const char *what, double value,
                            smoe_err *err);

/* The template with the name in each place {}, in which '-' and '_' are blanks. Cut to what fits;
 * returns buf. */
const char *smoe_zeroshot_prompt(char *buf, size_t size, const char *template, const char *name);
