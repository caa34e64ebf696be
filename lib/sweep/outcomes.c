/* Reading what became of each test image; see outcomes.h. */
#include "sweep/outcomes.h"
#include "spec/metrics.h"
#include "sweep/evaluations.h"
#include "store/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int smoe_outcomes_column(const char *metric) {
    switch (smoe_metric_of_column(metric, NULL)) {
    case SMOE_METRIC_PRECISION: return 0;
    case SMOE_METRIC_LOSS:
    case SMOE_METRIC_EVALUATION_LOSS: return 1;
    default: return -1;
    }
}

/* What the images of a trial follow from: the data without what only training sees, and the split.
 */
static json_t *images_of(const smoe_sweep *sweep, size_t i) {
    static const char *const training[] = {"augment", "cache_mb"};
    json_t *spec = json_loads(sweep->trial[i].spec, 0, NULL);
    json_t *data = json_object_get(spec, "data");
    json_t *split = json_object_get(json_object_get(spec, "eval"), "split");
    for (size_t k = 0; k < sizeof training / sizeof *training; k++)
        json_object_del(data, training[k]);
    for (size_t c = 0; c < sweep->columns; c++)
        if (!strcmp(sweep->column[c], SMOE_EVALUATED "eval.split"))
            json_string_set(split, sweep->trial[i].value[c]);
    json_t *images = json_pack("[O?, O?]", data, split);
    json_decref(spec);
    return images;
}

bool smoe_outcomes_alike(const smoe_sweep *sweep, size_t a, size_t b) {
    json_t *x = images_of(sweep, a), *y = images_of(sweep, b);
    bool alike = x && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return alike;
}

/* Is that the mean of a column? Losses are stored in single precision, of which one has 6e-8 of the
 * value. */
static bool has_mean(const float *outcome, size_t images, int column, double value) {
    double sum = 0, size = 0;
    for (size_t k = 0; k < images; k++) {
        sum += (double)outcome[2 * k + (size_t)column];
        size += fabs((double)outcome[2 * k + (size_t)column]);
    }
    return fabs(sum - value * (double)images) <= 1e-6 * (size + 1);
}

int smoe_outcomes_read(float **outcome, size_t *images, const smoe_sweep *sweep, size_t i,
                       int column, double value, smoe_err *err) {
    char *path = smoe_trial_outcomes(sweep, i);
    size_t dim[2];
    void *data = NULL;
    int status = path ? 0 : -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory");
    *outcome = NULL;
    if (!status && !access(path, F_OK)) {
        status = smoe_npy_read(path, "<f4", &data, 2, dim, err);
        if (!status && (dim[1] != 2 || !dim[0] || (*images && dim[0] != *images) ||
                        !has_mean(data, dim[0], column, value)))
            status = smoe_fail(
                err, SMOE_DATA,
                "%s: does not belong to the results of the cell; intervals are over seeds alone",
                path);
    }
    if (status)
        free(data);
    else if (data)
        *images = dim[0];
    if (!status) *outcome = data;
    free(path);
    return status;
}
