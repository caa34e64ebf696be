/* Reading the outcomes of test images; see outcomes.h. */
#include "compare/outcomes.h"
#include "base/file.h"
#include "spec/metrics.h"
#include "tensors/npy.h"

int smoe_outcomes_column(const char *metric) {
    switch (smoe_metric_of_column(metric, NULL)) {
    case SMOE_METRIC_PRECISION: return 0;
    case SMOE_METRIC_LOSS:
    case SMOE_METRIC_EVALUATION_LOSS: return 1;
    default: return -1;
    }
}

/* Whether that is the mean. Losses are stored in single precision, with a relative error of
 * 6e-8. */
static bool has_mean(const float *outcome, size_t images, double value) {
    double sum = 0, size = 0;
    for (size_t k = 0; k < images; k++) {
        sum += (double)outcome[k];
        size += fabs((double)outcome[k]);
    }
    return fabs(sum - value * (double)images) <= 1e-6 * (size + 1);
}

int smoe_outcomes_read(float **outcome, size_t *images, const char *path, size_t column,
                       double value, smoe_err *err) {
    size_t dim[2];
    SMOE_FREED void *data = NULL;
    smoe_err ignored;
    *outcome = NULL;
    if (smoe_file_is_absent(path)) return 0;
    bool packed = !smoe_npy_read(path, "|b1", &data, 1, dim, &ignored);
    if (!packed && smoe_npy_read(path, "<f4", &data, 2, dim, err)) return -1;
    if (!packed && dim[1] != 2)
        return smoe_fail(err, SMOE_DATA, "%s: has %zu column%s, not 2", path, dim[1],
                         SMOE_S(dim[1]));
    if (packed && column) return 0;
    float *x = smoe_alloc(dim[0] + 1, sizeof *x);
    for (size_t k = 0; k < dim[0]; k++)
        x[k] = packed ? ((const uint8_t *)data)[k] : ((const float *)data)[2 * k + column];
    if (!dim[0] || (*images && dim[0] != *images) ||
        (!isnan(value) && !has_mean(x, dim[0], value))) {
        free(x);
        return smoe_fail(
            err, SMOE_DATA,
            "%s: does not belong to the results of the cell; intervals are over seeds alone", path);
    }
    *images = dim[0];
    *outcome = x;
    return 0;
}
