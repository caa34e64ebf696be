/* Which weights of a model are not finite, for the kinds of evaluation; see evaluate.h. */
#include "train/evaluate.h"
#include "math/kernels.h"

/* The first parameter that holds a number that is not finite, or NULL. */
static const char *bad_weight(const smoe_params *params) {
    real wide;
    for (size_t param = 0; param < params->count; param++) {
        smoe_values w = {smoe_weight(params, param), smoe_weight_bf16(params, param)};
        for (size_t i = 0; i < params->param[param].size; i++)
            if (!isfinite(*smoe_values_read(w, i, 1, &wide))) return params->param[param].name;
    }
    return NULL;
}

/* Prints a NaN without its sign. */
int smoe_evaluate_nonfinite(smoe_model *model, uint64_t image, const char *what, double value,
                            smoe_err *err) {
    const char *name = bad_weight(smoe_model_params(model));
    return smoe_fail(err, SMOE_NONFINITE, "image %llu: %s is %g: %s%s", (unsigned long long)image,
                     what, fabs(value), name ? "values that are not finite in tensor " : "",
                     name ? name : "every weight is finite, the activations are not");
}
