/* Two runs side by side; see run_compare.h. */
#include "store/run_compare.h"
#include "store/model_file.h"
#include "store/run.h"
#include "base/json.h"

/* ---- records --------------------------------------------------------------------------------- */

typedef struct records {
    json_t **json;
    uint64_t *step;
    char (*prefix)[SMOE_RECORD_PREFIX]; /* "test/" of an evaluation, "" of training */
    size_t count;
} records;

static int records_read(records *to, const char *path, smoe_err *err) {
    SMOE_FREED_BY(smoe_records_free) smoe_records r = {.path = path};
    int more;
    for (; (more = smoe_records_next(&r, err)) > 0; to->count++) {
        to->step = smoe_alloc_next(to->step, to->count, sizeof *to->step);
        to->json = smoe_alloc_next(to->json, to->count, sizeof(json_t *));
        to->prefix = smoe_alloc_next(to->prefix, to->count, sizeof *to->prefix);
        to->step[to->count] = r.step;
        smoe_record_prefix(r.json, to->prefix[to->count]);
        to->json[to->count] = json_incref(r.json);
    }
    return more;
}

static void records_free(records *r) {
    for (size_t i = 0; i < r->count; i++) json_decref(r->json[i]);
    free(r->json);
    free(r->step);
    free(r->prefix);
}

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

static double run_compare_number_of(const json_t *value) {
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

static void find_first(smoe_run_difference *first, const records *a, const records *b) {
    size_t both = a->count < b->count ? a->count : b->count, i = 0;
    const char *key = NULL;
    while (i < both && a->step[i] == b->step[i] && !(key = member_apart(a->json[i], b->json[i])) &&
           !(key = member_apart(b->json[i], a->json[i])))
        i++;
    *first = (smoe_run_difference){.any = i < a->count || i < b->count, .records = i};
    if (!first->any) return;
    const json_t *x = i < a->count ? a->json[i] : NULL, *y = i < b->count ? b->json[i] : NULL;
    if (!key) {
        first->step = x && (!y || a->step[i] < b->step[i]) ? a->step[i] : y ? b->step[i] : 0;
        first->a = first->b = first->ulps = NAN;
        return;
    }
    first->step = a->step[i];
    snprintf(first->metric, sizeof first->metric, "%s", key);
    first->a = run_compare_number_of(json_object_get(x, key));
    first->b = run_compare_number_of(json_object_get(y, key));
    first->ulps = fabs(run_compare_place_of(first->a) - run_compare_place_of(first->b));
    if (isnan(first->a) || isnan(first->b)) first->ulps = NAN;
}

static bool is_of_layer(const char *key) {
    return !strncmp(key, "blocks.", 7);
}

/* The number of that name in record i; NAN: it has none. A batch of training and an evaluation have
 * the same names for metrics of a layer; those of an evaluation have its prefix here. */
static double number_at(const records *r, size_t i, const char *name) {
    size_t n = strlen(r->prefix[i]);
    bool own = !strncmp(name, r->prefix[i], n) && is_of_layer(name + n);
    if (!own && is_of_layer(name)) return NAN;
    return run_compare_number_of(json_object_get(r->json[i], own ? name + n : name));
}

/* The next step from record *i on that has a number of that name. If several of its records have
 * one, as the time, it is that of the last. */
static bool next_number(const records *r, const char *name, size_t *i, double *number) {
    size_t found = r->count;
    for (; *i < r->count && (found == r->count || r->step[*i] == r->step[found]); ++*i)
        if (isfinite(number_at(r, *i, name))) found = *i;
    *i = found;
    if (found == r->count) return false;
    *number = number_at(r, found, name);
    return true;
}

/* A number of both runs, paired by step. */
static void add_metric(smoe_frame *frame, const records *a, const records *b, const char *key) {
    size_t i = 0, k = 0, steps = 0;
    double x = NAN, y = NAN, last_x = NAN, last_y = NAN, sum = 0;
    bool more_a = next_number(a, key, &i, &x), more_b = next_number(b, key, &k, &y);
    while (more_a || more_b) {
        bool take_a = more_a && (!more_b || a->step[i] <= b->step[k]);
        bool take_b = more_b && (!more_a || b->step[k] <= a->step[i]);
        if (take_a) last_x = x;
        if (take_b) last_y = y;
        if (take_a && take_b) {
            sum += y - x;
            steps++;
        }
        if (take_a) i++, more_a = next_number(a, key, &i, &x);
        if (take_b) k++, more_b = next_number(b, key, &k, &y);
    }
    if (isnan(last_x) || isnan(last_y)) return;
    smoe_frame_put(frame, {"metric", .text = key}, {"a", .number = last_x}, {"b", .number = last_y},
                   {"difference", .number = last_y - last_x},
                   {"mean_difference", .number = steps ? sum / (double)steps : NAN},
                   {"steps", .number = (double)steps});
}

static void fill_metrics(smoe_frame *frame, const records *a, const records *b) {
    const char *key;
    json_auto_t *seen = json_object();
    json_t *value;
    smoe_frame_init(frame, "metrics", "Metrics",
                    "last values, and the mean difference over the steps in common",
                    "metric* a b difference mean_difference steps");
    for (size_t i = 0; i < a->count; i++) json_object_foreach(a->json[i], key, value) {
            if (!json_is_number(value) || !strcmp(key, "step")) continue;
            SMOE_FREED char *name =
                smoe_text_format("%s%s", is_of_layer(key) ? a->prefix[i] : "", key);
            if (json_object_get(seen, name)) continue;
            json_object_set_new(seen, name, json_true());
            add_metric(frame, a, b, name);
        }
}

int smoe_runs_compare_records(smoe_run_difference *first, smoe_frame *metrics, const char *a,
                              const char *b, smoe_err *err) {
    SMOE_FREED_BY(records_free) records x = {0};
    SMOE_FREED_BY(records_free) records y = {0};
    if (records_read(&x, a, err) || records_read(&y, b, err)) return -1;
    find_first(first, &x, &y);
    if (metrics) fill_metrics(metrics, &x, &y);
    return 0;
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
    if (a->ndim != b->ndim || a->dtype > SMOE_DTYPE_F64 || b->dtype > SMOE_DTYPE_F64) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
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
