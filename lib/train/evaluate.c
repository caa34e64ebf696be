/* Evaluation: loss and top-1 accuracy of a whole split; see evaluate.h. */
#include "train/evaluate.h"
#include "spec/tasks.h"
#include "store/run.h"
#include "math/stats.h"
#include "train/task.h"

void smoe_eval_record(const smoe_eval *eval, const char *split, json_t *record) {
    smoe_run_metric(record, SMOE_METRIC_LOSS, split, 0, eval->loss);
    smoe_run_metric(record, SMOE_METRIC_PRECISION, split, 0, eval->precision_at_1);
    if (isfinite(eval->infer_s))
        smoe_run_metric(record, SMOE_METRIC_INFER_S, split, 0, eval->infer_s);
    for (size_t k = 0; eval->retrieval && k < SMOE_RECALLS; k++) {
        size_t at = smoe_recall_at[k];
        smoe_run_metric(record, SMOE_METRIC_TEXT_RECALL, split, at, eval->text_recall[k]);
        smoe_run_metric(record, SMOE_METRIC_IMAGE_RECALL, split, at, eval->image_recall[k]);
    }
}

/* Evaluates the batches of this process: outcomes [images of the set, 2] correct and loss, 0 where
 * not here; *infer_s is the median of the seconds of the forward passes, per image. */
static int evaluate_batches(smoe_model *model, const smoe_spec *spec, smoe_loader *loader,
                            const smoe_eval_options *how, double *outcomes, double *infer_s,
                            smoe_err *err) {
    const size_t N = smoe_model_width(model);
    smoe_batch batch;
    SMOE_FREED double *forward = NULL;
    SMOE_FREED double *losses = NULL;
    size_t done = 0;
    int more;
    for (; (more = smoe_loader_next(loader, &batch, err)) > 0; done++) {
        smoe_task_sums sums = {0};
        smoe_pass pass = {.seed = spec->seed, .images = batch.images, .first = batch.first};
        double start = smoe_now();
        smoe_model_forward(model, batch.pixels, &pass);
        forward = smoe_alloc_next(forward, done, sizeof *forward);
        forward[done] = smoe_since(start) / (double)batch.images;
        if (!losses) losses = smoe_alloc(batch.images, sizeof *losses); /* of the largest */
        const real *logits = smoe_model_logits(model);
        smoe_task_measure(smoe_task_of(spec->train.loss), &sums, NULL, losses,
                          &(const smoe_task_batch){.logits = logits,
                                                   .target = batch.target,
                                                   .B = batch.images,
                                                   .N = N,
                                                   .whole = batch.images});
        for (size_t b = 0; b < batch.images; b++) {
            double *outcome = outcomes + 2 * batch.index[b];
            outcome[0] = smoe_task_correct(logits + b * N, batch.target + b * N, N);
            outcome[1] = losses[b];
            if (!isfinite(losses[b]))
                return smoe_evaluate_nonfinite(model, batch.index[b], "the loss", losses[b], err);
        }
        if (how->sink && how->sink(how->user, &batch, logits, N, err)) return -1;
    }
    *infer_s = smoe_stats_median(forward, done);
    return more;
}

int smoe_evaluate_check_classes(const smoe_dataset *set, const char *split,
                                const smoe_dataset *train, smoe_err *err) {
    size_t N = smoe_dataset_classes(train), have = smoe_dataset_classes(set);
    if (have == N) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "split '%s' has %zu class%s, split 'train' has %zu; if a split lacks the last "
                     "ones, data.classes=%zu says how many there are",
                     split, have, SMOE_ES(have), N, have > N ? have : N);
}

int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, const smoe_eval_options *options, smoe_eval *result,
                  smoe_err *err) {
    smoe_comm alone = smoe_comm_alone;
    smoe_eval_options how = options ? *options : (smoe_eval_options){0};
    if (!how.comm) how.comm = &alone;
    if (smoe_task_pairs(spec->train.loss))
        return smoe_evaluate_pairs(model, spec, set, batch_size, &how, result, err);
    smoe_loader_options loading = {.batch_size = batch_size,
                                   .multi = smoe_task_of(spec->train.loss)->multi,
                                   .seed = spec->seed,
                                   .part = (size_t)how.comm->rank,
                                   .parts = (size_t)how.comm->size};
    SMOE_FREED_BY(smoe_loader_freed) smoe_loader *loader = NULL;
    size_t images = smoe_dataset_images(set);
    SMOE_FREED double *outcomes = smoe_alloc(2 * images, sizeof *outcomes);
    double sum = 0, correct = 0, infer_s = NAN;
    int status = smoe_loader_open(&loader, set, spec, &loading, err);
    if (smoe_comm_agree(how.comm, status, NULL, err)) return -1;
    double start = smoe_now();
    status = evaluate_batches(model, spec, loader, &how, outcomes, &infer_s, err);
    smoe_model_serve(model);
    if (smoe_comm_agree(how.comm, status, NULL, err)) return -1;
    smoe_comm_join(how.comm, outcomes, 2 * images * sizeof *outcomes);
    if (!images) return smoe_fail(err, SMOE_DATA, "no images to evaluate");
    for (size_t i = 0; i < images; i++) {
        correct += outcomes[2 * i];
        sum += outcomes[2 * i + 1];
    }
    for (size_t i = 0; how.outcomes && i < 2 * images; i++) how.outcomes[i] = (float)outcomes[i];
    *result = (smoe_eval){.images = images,
                          .loss = sum / (double)images,
                          .precision_at_1 = correct / (double)images,
                          .seconds = smoe_since(start),
                          .infer_s = infer_s};
    return 0;
}
