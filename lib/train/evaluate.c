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
static int nonfinite_loss(smoe_model *model, size_t first, size_t images, double loss,
                          smoe_err *err) {
    const char *name = bad_weight(smoe_model_params(model));
    return smoe_fail(err, SMOE_NONFINITE, "images %zu to %zu: the loss is %g: %s%s", first,
                     first + images - 1, fabs(loss),
                     name ? "values that are not finite in tensor " : "",
                     name ? name : "every weight is finite, the activations are not");
}

int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, smoe_eval_sink *sink, void *user, smoe_eval *result,
                  smoe_err *err) {
    size_t N = smoe_dataset_classes(set);
    const smoe_task *task = smoe_task_of(spec->train.loss);
    smoe_loader_options options = {
        .batch_size = batch_size, .multi = task->multi, .seed = spec->seed};
    smoe_loader *loader = NULL;
    smoe_batch batch;
    smoe_task_sums sums = {0};
    size_t images = 0;
    double start = smoe_now(), *rows = calloc(batch_size, sizeof *rows);
    int status = -1, more = -1;
    if (!rows) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for an evaluation batch");
        goto out;
    }
    if (smoe_loader_open(&loader, set, spec, &options, err)) goto out;
    while ((more = smoe_loader_next(loader, &batch, err)) > 0) {
        smoe_pass pass = {.seed = spec->seed, .images = batch.images, .first = images};
        smoe_model_forward(model, batch.pixels, &pass);
        const real *logits = smoe_model_logits(model);
        task->batch(&sums, NULL, rows, logits, batch.target, batch.images, N, batch.images);
        if (!isfinite(sums.loss)) {
            nonfinite_loss(model, images, batch.images, sums.loss, err);
            goto out;
        }
        images += batch.images;
        if (sink && sink(user, logits, batch.label, batch.images, N, err)) goto out;
    }
    if (more < 0) goto out;
    if (!images) {
        smoe_fail(err, SMOE_DATA, "no images to evaluate");
        goto out;
    }
    *result = (smoe_eval){.images = images,
                          .loss = sums.loss / (double)images,
                          .precision_at_1 = (double)sums.correct / (double)images,
                          .seconds = smoe_now() - start};
    status = 0;
out:
    smoe_loader_free(loader);
    free(rows);
    return status;
}
