/* Two runs side by side; see run_compare.h. */
#include "store/run_compare.h"
#include "spec/metrics.h"
#include "store/model_file.h"
#include "store/records.h"
#include "base/json.h"

/* ---- records --------------------------------------------------------------------------------- */

bool smoe_record_of_clock(const char *metric) {
    smoe_metric_place at;
    return smoe_metric_read(&at, metric) && smoe_metric_is_time(at.metric);
}

/* The position of a double among all doubles, so that neighbours differ by 1. */
static double run_compare_place_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -(double)(bits & INT64_MAX) : (double)bits;
}

static double run_compare_number_of(const json_t *record, const char *key) {
    const json_t *value = json_object_get(record, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The first member in which a differs from b, times and rates aside; NULL: none. */
static const char *member_apart(const json_t *a, const json_t *b) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key,
                        value) if (!smoe_record_of_clock(key) &&
                                   !json_equal(value, json_object_get(b, key))) return key;
    return NULL;
}

int smoe_runs_compare_records(smoe_run_difference *first, const char *a, const char *b,
                              smoe_err *err) {
    SMOE_FREED_BY(smoe_records_free) smoe_records x = {.path = a};
    SMOE_FREED_BY(smoe_records_free) smoe_records y = {.path = b};
    const char *key;
    *first = (smoe_run_difference){.a = NAN, .b = NAN, .ulps = NAN};
    for (;; first->records++) {
        int has_x = smoe_records_next(&x, err), has_y = smoe_records_next(&y, err);
        if (has_x < 0 || has_y < 0) return -1;
        first->any = has_x || has_y;
        if (!first->any) return 0;
        first->step = has_x && (!has_y || x.step < y.step) ? x.step : y.step;
        if (!has_x || !has_y || x.step != y.step) return 0;
        if ((key = member_apart(x.json, y.json)) || (key = member_apart(y.json, x.json))) break;
    }
    snprintf(first->metric, sizeof first->metric, "%s", key);
    first->a = run_compare_number_of(x.json, key);
    first->b = run_compare_number_of(y.json, key);
    if (!isnan(first->a) && !isnan(first->b))
        first->ulps = fabs(run_compare_place_of(first->a) - run_compare_place_of(first->b));
    return 0;
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* The next step from point *i on that has a number. If several points of a step have one, as those
 * of the time, it is that of the last. */
static bool next_number(const smoe_curve *c, size_t *i) {
    size_t found = c->points;
    for (; *i < c->points && (found == c->points || c->step[*i] == c->step[found]); ++*i)
        if (isfinite(c->value[*i])) found = *i;
    *i = found;
    return found < c->points;
}

/* A number of both runs, paired by step. */
static void add_metric(smoe_frame *frame, const smoe_curve *a, const smoe_curve *b) {
    size_t i = 0, k = 0, steps = 0;
    double last_a = NAN, last_b = NAN, sum = 0;
    bool more_a = next_number(a, &i), more_b = next_number(b, &k);
    while (more_a || more_b) {
        bool take_a = more_a && (!more_b || a->step[i] <= b->step[k]);
        bool take_b = more_b && (!more_a || b->step[k] <= a->step[i]);
        if (take_a) last_a = a->value[i++];
        if (take_b) last_b = b->value[k++];
        if (take_a && take_b) {
            sum += last_b - last_a;
            steps++;
        }
        if (take_a) more_a = next_number(a, &i);
        if (take_b) more_b = next_number(b, &k);
    }
    if (isnan(last_a) || isnan(last_b)) return;
    smoe_frame_put(frame, {"metric", .text = a->name}, {"a", .number = last_a},
                   {"b", .number = last_b}, {"difference", .number = last_b - last_a},
                   {"mean_difference", .number = steps ? sum / (double)steps : NAN},
                   {"steps", .number = (double)steps});
}

void smoe_runs_compare_metrics(smoe_frame *frame, const smoe_curves *a, const smoe_curves *b) {
    smoe_frame_init(frame, "metrics", "Metrics",
                    "last values, and the mean difference over the steps in common",
                    "metric* a b difference mean_difference steps");
    for (size_t i = 0; i < a->count; i++) {
        const smoe_curve *other = smoe_curves_find(b, a->curve[i].name);
        if (other) add_metric(frame, &a->curve[i], other);
    }
}

/* ---- settings -------------------------------------------------------------------------------- */

/* A value as in a spec: text without quotes. */
static char *shown(const json_t *value) {
    if (!value) return smoe_alloc_text("");
    return json_is_string(value) ? smoe_alloc_text(json_string_value(value))
                                 : smoe_json_dump(value, 0);
}

static void add_setting(void *frame, const char *key, const json_t *a, const json_t *b) {
    SMOE_FREED char *x = shown(a), *y = shown(b);
    smoe_frame_put(frame, {"key", .text = key}, {"a", .text = x}, {"b", .text = y});
}

void smoe_runs_compare_json(smoe_frame *frame, const char *name, const char *title, const json_t *a,
                            const json_t *b) {
    smoe_frame_init(frame, name, title, "what differs", "key* a* b*");
    smoe_json_compare(a, b, add_setting, frame);
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool same_shape(const smoe_tensor *a, const smoe_tensor *b) {
    return a->ndim == b->ndim && a->dtype <= SMOE_DTYPE_F64 && b->dtype <= SMOE_DTYPE_F64 &&
           !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim);
}

/* The largest difference of an element; NAN counts as the largest of all. */
static double distance_of(const smoe_tensor *a, const smoe_tensor *b) {
    enum { PIECE = 1024 };
    double most = 0;
    for (size_t first = 0; first < a->size; first += PIECE) {
        real x[PIECE], y[PIECE];
        size_t n = a->size - first < PIECE ? a->size - first : PIECE;
        (void)smoe_tensor_convert(x, a, first, n);
        (void)smoe_tensor_convert(y, b, first, n);
        for (size_t i = 0; i < n; i++) {
            double d = fabs((double)x[i] - (double)y[i]);
            bool both_nan = isnan(x[i]) && isnan(y[i]);
            if (isnan(d)) d = both_nan ? 0 : INFINITY;
            most = fmax(most, d);
        }
    }
    return most;
}

void smoe_runs_compare_weights(smoe_weights_difference *difference, const smoe_safetensors *x,
                               const smoe_safetensors *y) {
    SMOE_FREED char *a = smoe_model_file_names(x, NULL), *b = smoe_model_file_names(y, NULL);
    *difference = (smoe_weights_difference){.other_classes = a && b && strcmp(a, b) != 0};
    for (size_t i = 0; i < smoe_safetensors_count(x); i++) {
        const smoe_tensor *t = smoe_safetensors_at(x, i), *u = smoe_safetensors_find(y, t->name);
        bool rows = difference->other_classes && !strncmp(t->name, "head.", 5);
        if (!u || rows || !same_shape(t, u)) {
            difference->alone += 1 + (u && rows);
            continue;
        }
        double distance = distance_of(t, u);
        difference->tensors++;
        difference->equal += distance == 0;
        if (!(distance > difference->distance)) continue;
        difference->distance = distance;
        smoe_text_shown(t->name, difference->most, sizeof difference->most);
    }
    for (size_t i = 0; i < smoe_safetensors_count(y); i++)
        difference->alone += !smoe_safetensors_find(x, smoe_safetensors_at(y, i)->name);
}
