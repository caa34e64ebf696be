/* Evaluation: loss and precision@1 of a whole split; see trainer.h. */
#include "train/task.h"
#include "train/trainer.h"
#include "base/bf16.h"

#include <math.h>
#include <stdlib.h>

static bool weight_is_finite(const smoe_params *params, size_t row, size_t i) {
    const smoe_bf16 *narrow = smoe_weight_bf16(params, row);
    return isfinite(narrow ? (double)smoe_bf16_widen(narrow[i])
                           : (double)smoe_weight(params, row)[i]);
}

/* The first parameter that holds what is no finite number, or NULL. */
static const char *bad_weight(const smoe_params *params) {
    for (size_t row = 0; row < params->count; row++)
        for (size_t i = 0; i < params->row[row].size; i++)
            if (!weight_is_finite(params, row, i)) return params->row[row].name;
    return NULL;
}

/* Printed without the sign that a NaN may have. */
static int nonfinite_loss(smoe_model *model, uint64_t image, double loss, smoe_err *err) {
    const char *name = bad_weight(smoe_model_params(model));
    return smoe_fail(err, SMOE_NONFINITE, "image %llu: the loss is %g: %s%s",
                     (unsigned long long)image, fabs(loss),
                     name ? "values that are not finite in tensor " : "",
                     name ? name : "every weight is finite, the activations are not");
}

/* What became of each image of a batch, at its place in the data set. */
static void keep_outcomes(float *outcomes, const smoe_batch *batch, const real *logits,
                          const double *loss, size_t N) {
    for (size_t b = 0; b < batch->images; b++) {
        float *outcome = outcomes + 2 * batch->index[b];
        outcome[0] = smoe_task_correct(logits + b * N, batch->target + b * N, N);
        outcome[1] = (float)loss[b];
    }
}

int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, smoe_eval_sink *sink, void *user, smoe_eval *result,
                  smoe_err *err) {
    return smoe_evaluate_each(model, spec, set, batch_size, NULL, sink, user, result, err);
}

int smoe_evaluate_each(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                       size_t batch_size, float *outcomes, smoe_eval_sink *sink, void *user,
                       smoe_eval *result, smoe_err *err) {
    size_t N = smoe_dataset_classes(set);
    const smoe_task *task = smoe_task_of(spec->train.loss);
    smoe_loader_options options = {
        .batch_size = batch_size, .multi = task->multi, .seed = spec->seed};
    smoe_loader *loader = NULL;
    smoe_batch batch;
    smoe_task_sums sums = {0};
    size_t images = 0;
    /* of a batch; of every image, in data-set order: the sum does not depend on that of the pass */
    double start = smoe_now(), sum = 0, *rows = calloc(batch_size, sizeof *rows);
    double *loss = calloc(smoe_dataset_images(set) + 1, sizeof *loss);
    int status = -1, more = -1;
    if (!rows || !loss) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for an evaluation");
        goto out;
    }
    if (smoe_loader_open(&loader, set, spec, &options, err)) goto out;
    while ((more = smoe_loader_next(loader, &batch, err)) > 0) {
        smoe_pass pass = {.seed = spec->seed, .images = batch.images, .first = images};
        smoe_model_forward(model, batch.pixels, &pass);
        const real *logits = smoe_model_logits(model);
        task->batch(&sums, NULL, rows, logits, batch.target, batch.images, N, batch.images, 0);
        for (size_t b = 0; b < batch.images; b++) {
            loss[batch.index[b]] = rows[b];
            if (isfinite(rows[b])) continue;
            nonfinite_loss(model, batch.index[b], rows[b], err);
            goto out;
        }
        if (outcomes) keep_outcomes(outcomes, &batch, logits, rows, N);
        images += batch.images;
        if (sink && sink(user, &batch, logits, N, err)) goto out;
    }
    if (more < 0) goto out;
    if (!images) {
        smoe_fail(err, SMOE_DATA, "no images to evaluate");
        goto out;
    }
    for (size_t i = 0; i < images; i++) sum += loss[i];
    *result = (smoe_eval){.images = images,
                          .loss = sum / (double)images,
                          .precision_at_1 = (double)sums.correct / (double)images,
                          .seconds = smoe_now() - start};
    status = 0;
out:
    smoe_loader_free(loader);
    free(rows);
    free(loss);
    return status;
}
