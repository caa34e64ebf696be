/* One training step; see step.h. */
#include "train/step.h"
#include "train/optim.h"
#include "train/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int smoe_step_open(smoe_step *s, smoe_model *model, const smoe_spec *spec, size_t classes,
                   const smoe_step_options *options, smoe_err *err) {
    size_t B = spec->train.batch_size;
    smoe_params *params = smoe_model_params(model);
    *s = (smoe_step){.model = model, .spec = spec, .N = classes};
    if (options) s->options = *options;
    s->dlogits = calloc(B * classes, sizeof *s->dlogits);
    s->rows = calloc(B, sizeof *s->rows);
    if (!s->dlogits || !s->rows)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for a batch of %zu images", B);
    if (smoe_optim_allocate(params, &spec->train, err)) return -1;
    if (s->options.reduce) params->factor = false; /* what is summed has to be in memory */
    return smoe_model_reserve(model, B, true, err);
}

void smoe_step_free(smoe_step *s) {
    free(s->dlogits);
    free(s->rows);
    s->dlogits = NULL;
    s->rows = NULL;
}

/* The first parameter that is no longer finite; else the one of `layer` with the largest weight. */
static const char *suspect(const smoe_params *params, const char *layer) {
    const char *name = "none";
    double largest = -1;
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *p = &params->row[i];
        bool here = !strncmp(p->name, layer, strlen(layer));
        for (size_t j = 0; j < p->size; j++) {
            double w = fabs((double)params->w[p->offset + j]);
            if (!isfinite(w)) return p->name;
            if (here && w > largest) {
                largest = w;
                name = p->name;
            }
        }
    }
    return name;
}

static const char *bad_gradient(const smoe_params *params) {
    for (size_t i = 0; i < params->count; i++)
        if (!isfinite(smoe_optim_square(params, i, i + 1))) return params->row[i].name;
    return "all";
}

/* Printed without the sign that a NaN may have. */
static int check(const smoe_step *s, const smoe_pass *pass, smoe_err *err) {
    const smoe_params *params = smoe_model_params(s->model);
    unsigned long long number = (unsigned long long)pass->step + 1;
    char layer[48];
    if (s->options.unchecked || (isfinite(s->loss + s->aux) && isfinite(s->norm))) return 0;
    if (isfinite(s->loss + s->aux))
        return smoe_fail(err, SMOE_NONFINITE, "step %llu: the gradient is not finite: parameter %s",
                         number, bad_gradient(params));
    smoe_model_nonfinite(s->model, pass, layer, sizeof layer);
    return smoe_fail(err, SMOE_NONFINITE,
                     "step %llu: the loss is %g: first non-finite values in layer %s, parameter %s",
                     number, fabs(s->loss + s->aux), layer, suspect(params, layer));
}

static int reduce(smoe_step *s, smoe_params *params, smoe_err *err) {
    double sums[] = {s->loss, s->precision, s->aux};
    enum { SUMS = sizeof sums / sizeof *sums };
    if (s->options.reduce(s->options.reduce_user, params, sums, SUMS, err)) return -1;
    s->loss = sums[0];
    s->precision = sums[1];
    s->aux = sums[2];
    return 0;
}

int smoe_step_run(smoe_step *s, const smoe_batch *batch, uint64_t done, uint64_t updates,
                  smoe_clock *clock, smoe_err *err) {
    smoe_params *params = smoe_model_params(s->model);
    smoe_pass pass = {.train = true,
                      .seed = s->spec->seed,
                      .step = done,
                      .images = batch->images,
                      .first = s->options.first,
                      .whole = s->options.whole,
                      .clock = clock};
    size_t whole = smoe_pass_whole(&pass);
    smoe_task_sums sums = {0};
    smoe_model_forward(s->model, batch->pixels, &pass);
    smoe_task_of(s->spec->train.loss)
        ->batch(&sums, s->dlogits, s->rows, smoe_model_logits(s->model), batch->target,
                batch->images, s->N, whole, s->spec->train.label_smoothing);
    s->loss = sums.loss / (double)whole;
    s->precision = (double)sums.correct / (double)whole;
    s->aux = smoe_model_aux(s->model);
    smoe_clock_lap(clock, SMOE_PART_loss);
    smoe_model_backward(s->model, s->dlogits, &pass);
    if (s->options.reduce && reduce(s, params, err)) return -1;
    s->norm = smoe_optim_norm(params);
    if (check(s, &pass, err)) return -1;
    smoe_optim_step(params, &s->spec->train, updates, s->norm);
    smoe_clock_lap(clock, SMOE_PART_optimizer);
    return 0;
}
