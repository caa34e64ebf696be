/* Logits before and after; see likeness.h. */
#include "train/likeness.h"
#include "data/loader.h"
#include "train/evaluate.h"
#include "train/task.h"

int smoe_likeness_logits(real *logits, smoe_model *model, const smoe_spec *spec,
                         const smoe_likeness_images *by, smoe_err *err) {
    const size_t images = by->images;
    size_t width = smoe_model_width(model), of = smoe_dataset_images(by->set);
    SMOE_FREED uint32_t *only = smoe_alloc(images, sizeof *only);
    smoe_dataset_order(only, images, spec);
    for (size_t i = 0; i < images; i++)
        only[i] = (uint32_t)((double)only[i] * (double)of / (double)images);
    const smoe_loader_options options = {
        .batch_size = by->batch, .seed = spec->seed, .only = only, .images = images};
    SMOE_FREED_BY(smoe_loader_freed) smoe_loader *loader = NULL;
    smoe_batch b;
    int more;
    if (smoe_loader_open(&loader, by->set, spec, &options, err)) return -1;
    while ((more = smoe_loader_next(loader, &b, err)) > 0) {
        smoe_pass pass = {.seed = spec->seed, .images = b.images, .first = b.first};
        smoe_model_forward(model, b.pixels, &pass);
        real *own = logits + b.first * width;
        memcpy(own, smoe_model_logits(model), b.images * width * sizeof *own);
        for (size_t i = 0; i < b.images * width; i++)
            if (!isfinite(own[i]))
                return smoe_evaluate_nonfinite(model, b.index[i / width], "a logit", (double)own[i],
                                               err);
    }
    return more;
}

smoe_likeness smoe_likeness_of(const real *before, const real *after, size_t images, size_t width) {
    smoe_likeness x = {.images = images};
    size_t count = images * width;
    double square = 0, mean = 0, spread = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)after[i] - (double)before[i];
        x.largest = fmax(x.largest, fabs(d));
        square += d * d / (double)count;
        mean += (double)before[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        double d = (double)before[i] - mean;
        spread += d * d / (double)count;
    }
    for (size_t b = 0; b < images; b++)
        x.same +=
            smoe_task_top(before + b * width, width) == smoe_task_top(after + b * width, width);
    x.rms = sqrt(square);
    x.spread = sqrt(spread);
    x.preserved = square <= 1e-10 * spread;
    return x;
}

void smoe_likeness_text(char *buf, size_t size, const smoe_likeness *x) {
    if (x->spread > 0)
        snprintf(
            buf, size,
            "logits of %zu image%s before and after: largest difference %.3g, root mean square "
            "%.3g where the logits have a standard deviation of %.3g, the same top class for %zu",
            x->images, SMOE_S(x->images), x->largest, x->rms, x->spread, x->same);
    else
        snprintf(buf, size,
                 "the logits of %zu image%s are all the same before, as with a new head, so they "
                 "do not show a change",
                 x->images, SMOE_S(x->images));
}
