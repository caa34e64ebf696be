/* Evaluation: loss and precision@1 of a whole split; see trainer.h. */
#include "train/loss.h"
#include "train/trainer.h"

#include <stdlib.h>

int smoe_evaluate(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                  size_t batch_size, smoe_eval_sink *sink, void *user, smoe_eval *result,
                  smoe_err *err) {
    size_t N = smoe_dataset_classes(set);
    smoe_loader_options options = {.batch_size = batch_size,
                                   .multi = spec->train.loss == SMOE_LOSS_SIGMOID,
                                   .seed = spec->seed};
    smoe_loader *loader = NULL;
    smoe_batch batch;
    smoe_loss_sums sums = {0};
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
        smoe_loss_batch(&sums, NULL, rows, logits, batch.target, batch.images, N, spec->train.loss);
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
