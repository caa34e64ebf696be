/* Logits before and after; see likeness.h. */
#include "train/likeness.h"
#include "base/alloc.h"

#include <math.h>

int smoe_likeness_logits(float *logits, smoe_model *model, const smoe_spec *spec,
                         const smoe_dataset *set, size_t images, size_t batch, smoe_err *err) {
    const smoe_data_spec *data = &spec->data;
    size_t each = data->channels * data->image_size * data->image_size;
    size_t width = smoe_model_width(model), of = smoe_dataset_images(set);
    SMOE_FREED real *pixels = smoe_alloc(batch * each, sizeof *pixels);
    real *target = smoe_alloc(smoe_dataset_classes(set), sizeof *target);
    int status = 0;
    for (size_t done = 0, n; done < images && !status; done += n) {
        n = images - done < batch ? images - done : batch;
        for (size_t i = 0; i < n && !status; i++) {
            int64_t label;
            size_t image = (size_t)((double)(done + i) * (double)of / (double)images);
            status = smoe_dataset_image(set, image, false, pixels + i * each, target, &label, err);
        }
        if (status) break;
        smoe_pass pass = {.seed = spec->seed, .images = n};
        smoe_model_forward(model, pixels, &pass);
        const real *values = smoe_model_logits(model);
        for (size_t i = 0; i < n * width; i++) logits[done * width + i] = (float)values[i];
    }
    free(target);
    return status;
}

static size_t likeness_top(const float *logits, size_t N) {
    size_t best = 0;
    for (size_t k = 1; k < N; k++)
        if (logits[k] > logits[best]) best = k;
    return best;
}

smoe_likeness smoe_likeness_of(const float *before, const float *after, size_t images,
                               size_t width) {
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
        x.same += likeness_top(before + b * width, width) == likeness_top(after + b * width, width);
    x.rms = sqrt(square);
    x.spread = sqrt(spread);
    x.preserved = square <= 1e-10 * spread;
    return x;
}

void smoe_likeness_text(char *buf, size_t size, const smoe_likeness *x) {
    snprintf(buf, size,
             "logits of %zu images before and after: largest difference %.3g, root mean square "
             "%.3g where the logits have a standard deviation of %.3g, the same top class for %zu",
             x->images, x->largest, x->rms, x->spread, x->same);
}
