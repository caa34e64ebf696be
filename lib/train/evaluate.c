/* Evaluation: loss and top-1 accuracy of a whole split; see evaluate.h. */
#include "train/evaluate.h"
#include "base/alloc.h"
#include "spec/tasks.h"
#include "store/run.h"
#include "math/stats.h"
#include "train/task.h"

#include <math.h>

static bool weight_is_finite(const smoe_params *params, size_t param, size_t i) {
    const smoe_bf16 *narrow = smoe_weight_bf16(params, param);
    return isfinite(narrow ? (double)smoe_bf16_widen(narrow[i])
                           : (double)smoe_weight(params, param)[i]);
}

/* The first parameter that holds a number that is not finite, or NULL. */
static const char *bad_weight(const smoe_params *params) {
    for (size_t param = 0; param < params->count; param++)
        for (size_t i = 0; i < params->param[param].size; i++)
            if (!weight_is_finite(params, param, i)) return params->param[param].name;
    return NULL;
}

/* Prints a NaN without its sign. */
int smoe_evaluate_nonfinite(smoe_model *model, uint64_t image, double loss, smoe_err *err) {
    const char *name = bad_weight(smoe_model_params(model));
    return smoe_fail(err, SMOE_NONFINITE, "image %llu: the loss is %g: %s%s",
                     (unsigned long long)image, fabs(loss),
                     name ? "values that are not finite in tensor " : "",
                     name ? name : "every weight is finite, the activations are not");
}

void smoe_eval_record(const smoe_eval *eval, const char *split, json_t *record) {
    if (isfinite(eval->infer_s))
        smoe_run_metric(record, SMOE_METRIC_INFER_S, split, 0, eval->infer_s);
    for (size_t k = 0; eval->retrieval && k < SMOE_RECALLS; k++) {
        size_t at = smoe_recall_at[k];
        smoe_run_metric(record, SMOE_METRIC_TEXT_RECALL, split, at, eval->text_recall[k]);
        smoe_run_metric(record, SMOE_METRIC_IMAGE_RECALL, split, at, eval->image_recall[k]);
    }
}

typedef struct evaluation {
    smoe_model *model;
    const smoe_spec *spec;
    smoe_comm *comm;
    size_t N, batch_size;
    double *losses;   /* [batch_size] */
    double *outcomes; /* [images of the set, 2] correct and loss, 0 where not here */
    double *forward;  /* [batches] seconds of the forward pass, per image */
    double infer_s;   /* their median */
    size_t images;    /* of the set */
    smoe_eval_sink *sink;
    void *user;
} evaluation;

/* Evaluates the batches of this process, and stores loss and correctness at the places of their
 * images. */
static int evaluate_batches(evaluation *x, smoe_loader *loader, smoe_err *err) {
    const smoe_task *task = smoe_task_of(x->spec->train.loss);
    smoe_batch batch;
    size_t N = x->N, done = 0;
    int more;
    for (; (more = smoe_loader_next(loader, &batch, err)) > 0; done++) {
        smoe_task_sums sums = {0};
        smoe_pass pass = {.seed = x->spec->seed, .images = batch.images, .first = batch.first};
        double start = smoe_now();
        smoe_model_forward(x->model, batch.pixels, &pass);
        x->forward = smoe_alloc_next(x->forward, done, sizeof *x->forward);
        x->forward[done] = (smoe_now() - start) / (double)batch.images;
        const real *logits = smoe_model_logits(x->model);
        task->batch(&sums, NULL, x->losses, logits, batch.target, batch.images, N, batch.images, 0);
        for (size_t b = 0; b < batch.images; b++) {
            double *outcome = x->outcomes + 2 * batch.index[b];
            outcome[0] = smoe_task_correct(logits + b * N, batch.target + b * N, N);
            outcome[1] = x->losses[b];
            if (!isfinite(x->losses[b]))
                return smoe_evaluate_nonfinite(x->model, batch.index[b], x->losses[b], err);
        }
        if (x->sink && x->sink(x->user, &batch, logits, N, err)) return -1;
    }
    x->infer_s = smoe_stats_median(x->forward, done);
    return more;
}

/* Evaluates all images, each of them in one process, and combines the results. */
static int evaluate_all(evaluation *x, smoe_loader *loader, float *outcomes, smoe_eval *result,
                        smoe_err *err) {
    double start = smoe_now(), sum = 0, correct = 0;
    int evaluated = evaluate_batches(x, loader, err);
    smoe_model_serve(x->model);
    if (smoe_comm_agree(x->comm, evaluated, NULL, err)) return -1;
    smoe_comm_join(x->comm, x->outcomes, 2 * x->images * sizeof *x->outcomes);
    if (!x->images) return smoe_fail(err, SMOE_DATA, "no images to evaluate");
    for (size_t i = 0; i < x->images; i++) {
        correct += x->outcomes[2 * i];
        sum += x->outcomes[2 * i + 1];
    }
    for (size_t i = 0; outcomes && i < 2 * x->images; i++) outcomes[i] = (float)x->outcomes[i];
    *result = (smoe_eval){.images = x->images,
                          .loss = sum / (double)x->images,
                          .precision_at_1 = correct / (double)x->images,
                          .seconds = smoe_now() - start,
                          .infer_s = x->infer_s};
    return 0;
}

int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, const smoe_eval_options *options, smoe_eval *result,
                  smoe_err *err) {
    smoe_comm alone = smoe_comm_alone;
    smoe_eval_options how = options ? *options : (smoe_eval_options){0};
    if (!how.comm) how.comm = &alone;
    if (smoe_task_pairs(spec->train.loss))
        return smoe_evaluate_pairs(model, spec, set, batch_size, &how, result, err);
    evaluation x = {.model = model,
                    .spec = spec,
                    .comm = how.comm,
                    .N = smoe_dataset_classes(set),
                    .batch_size = batch_size,
                    .images = smoe_dataset_images(set),
                    .sink = how.sink,
                    .user = how.user};
    smoe_loader_options loading = {.batch_size = batch_size,
                                   .multi = smoe_task_of(spec->train.loss)->multi,
                                   .seed = spec->seed,
                                   .part = (size_t)x.comm->rank,
                                   .parts = (size_t)x.comm->size};
    smoe_loader *loader = NULL;
    x.losses = smoe_alloc(batch_size, sizeof *x.losses);
    x.outcomes = smoe_alloc(2 * x.images, sizeof *x.outcomes);
    int status = smoe_loader_open(&loader, set, spec, &loading, err);
    status = smoe_comm_agree(x.comm, status, NULL, err);
    if (!status) status = evaluate_all(&x, loader, how.outcomes, result, err);
    smoe_loader_free(loader);
    free(x.forward);
    free(x.losses);
    free(x.outcomes);
    return status;
}
