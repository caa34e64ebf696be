/* Reading the outcomes of test images; see outcomes.h. */
#include "compare/outcomes.h"
#include "base/alloc.h"
#include "spec/metrics.h"
#include "tensors/npy.h"

#include <math.h>
#include <unistd.h>

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

/* A column of the outcomes in a file, [images]; NULL where the file has the first column alone. */
static int read_column(float **outcome, size_t *images, const char *path, size_t column,
                       smoe_err *err) {
    size_t dim[2];
    void *data = NULL;
    smoe_err ignored;
    *outcome = NULL;
    bool packed = !smoe_npy_read(path, "|b1", &data, 1, dim, &ignored);
    if (!packed && smoe_npy_read(path, "<f4", &data, 2, dim, err)) return -1;
    *images = dim[0];
    int status = 0;
    if (!packed && dim[1] != 2)
        status = smoe_fail(err, SMOE_DATA, "%s: has %zu columns, not 2", path, dim[1]);
    if (!status && (!packed || !column)) {
        *outcome = smoe_alloc(dim[0] + 1, sizeof **outcome);
    }
    for (size_t k = 0; k < dim[0] && !status && *outcome; k++)
        (*outcome)[k] = packed ? ((const uint8_t *)data)[k] : ((const float *)data)[2 * k + column];
    free(data);
    return status;
}

int smoe_outcomes_read(float **outcome, size_t *images, const char *path, size_t column,
                       double value, smoe_err *err) {
    size_t found = 0;
    int status = 0;
    *outcome = NULL;
    if (!access(path, F_OK)) status = read_column(outcome, &found, path, column, err);
    if (!status && *outcome &&
        (!found || (*images && found != *images) || !has_mean(*outcome, found, value)))
        status = smoe_fail(
            err, SMOE_DATA,
            "%s: does not belong to the results of the cell; intervals are over seeds alone", path);
    if (status) {
        free(*outcome);
        *outcome = NULL;
    } else if (*outcome) {
        *images = found;
    }
    return status;
}

int smoe_outcomes_right(uint8_t **right, size_t *images, const char *path, smoe_err *err) {
    SMOE_FREED float *outcome = NULL;
    *right = NULL;
    if (access(path, F_OK)) return 0;
    int status = read_column(&outcome, images, path, 0, err);
    uint8_t *bits = status ? NULL : smoe_alloc(*images + 1, 1);
    for (size_t k = 0; bits && outcome && k < *images; k++) bits[k] = outcome[k] > 0;
    *right = bits;
    return status;
}
