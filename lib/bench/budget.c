/* Steps from a budget; see budget.h. */
#include "bench/budget.h"
#include "bench/cost.h"
#include "data/dataset.h"
#include "spec/sources.h"

/* The number of classes, as the data has it. */
static int classes_of(const smoe_spec *spec, size_t *classes, smoe_err *err) {
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *set = NULL;
    *classes = spec->data.classes ? spec->data.classes : smoe_sources[spec->data.source].classes;
    if (*classes) return 0;
    if (smoe_dataset_open(&set, spec, "train", err)) return -1;
    *classes = smoe_dataset_classes(set);
    return 0;
}

/* The number of steps that spec->train.flops allows; at most as many as train.steps can be. */
static int steps_of(const smoe_spec *spec, size_t *steps, smoe_err *err) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    size_t classes = 0;
    int status = classes_of(spec, &classes, err);
    if (!status) status = smoe_cost_estimate(&cost, spec, classes, NULL, err);
    double step = cost.flops_train_per_image * (double)spec->train.batch_size;
    if (status) return -1;
    if (spec->train.flops < step)
        return smoe_fail(err, SMOE_USAGE, "%s: train.flops: %g is less than one step, %.4g FLOP",
                         spec->file, spec->train.flops, step);
    double most = spec->train.flops / step;
    *steps = most < 1e9 ? (size_t)most : 1000000000;
    return 0;
}

int smoe_budget_parse(smoe_spec *spec, const smoe_spec_text *text, char *const *overrides,
                      size_t count, smoe_err *err) {
    smoe_spec_text counted = *text;
    if (smoe_spec_parse_text(spec, text, overrides, count, err)) return -1;
    if (!(spec->train.flops > 0)) return 0;
    int status = steps_of(spec, &counted.steps, err);
    smoe_spec_free(spec);
    return status ? -1 : smoe_spec_parse_text(spec, &counted, overrides, count, err);
}
