/* Running a trial and measuring it; see trial_run.h. Its numbers come from metrics.jsonl, which a
 * resumed run continues, and not from memory: so a trial that was killed gives the same numbers. */
#include "sweep/trial_run.h"
#include "spec/routers.h"
#include "bench/cost.h"
#include "math/stats.h"
#include "sweep/trial.h"
#include "train/data_mark.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

/* ---- measuring ------------------------------------------------------------------------------- */

typedef struct reader {
    json_t *result;
    double *rates; /* images per second */
    size_t count;
    double best;
    uint64_t step; /* of the last record */
} reader;

static void trial_run_set(json_t *result, smoe_metric metric, json_t *value) {
    json_object_set_new(result, smoe_metrics[metric].column, value);
}

static json_t *get(const json_t *result, smoe_metric metric) {
    return json_object_get(result, smoe_metrics[metric].column);
}

/* The latest number of each metric that has a column; over layers the largest of a record, most
 * [SMOE_METRICS]. */
static void read_metric(reader *r, const smoe_metric_place *at, json_t *value, double *most) {
    const smoe_metric_entry *entry = &smoe_metrics[at->metric];
    char column[SMOE_METRIC_KEY];
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    if (at->metric == SMOE_METRIC_IMAGES_PER_S && isfinite(number)) {
        SMOE_APPEND(r->rates, r->count) = number;
    }
    if (at->metric == SMOE_METRIC_PRECISION && number > r->best) {
        r->best = number;
        trial_run_set(r->result, SMOE_METRIC_BEST_PRECISION, json_real(number));
        trial_run_set(r->result, SMOE_METRIC_BEST_STEP, json_integer((json_int_t)r->step));
    }
    if (!entry->column) return;
    if (entry->layers == SMOE_LAYERS_MAX)
        most[at->metric] = fmax(most[at->metric], number);
    else
        json_object_set(r->result, smoe_metric_column(column, at->metric, at->number), value);
}

static void read_record(reader *r, const smoe_records *from) {
    double most[SMOE_METRICS];
    const char *key;
    json_t *value;
    r->step = from->step;
    for (size_t m = 0; m < SMOE_METRICS; m++) most[m] = NAN;
    json_object_foreach(from->json, key, value) {
        smoe_metric_place at;
        if (smoe_metric_read(&at, key)) read_metric(r, &at, value, most);
    }
    for (size_t m = 0; m < SMOE_METRICS; m++)
        if (isfinite(most[m])) trial_run_set(r->result, (smoe_metric)m, json_real(most[m]));
}

json_t *smoe_trial_measure(const char *run_dir, size_t steps, size_t batch_size, smoe_err *err) {
    reader r = {.result = json_object(), .best = -1};
    SMOE_FREED char *path = smoe_text_format("%s/metrics.jsonl", run_dir);
    SMOE_FREED_BY(smoe_records_free) smoe_records records = {.path = path};
    int status;
    while ((status = smoe_records_next(&records, err)) > 0) read_record(&r, &records);
    if (!status && steps && (!json_object_size(r.result) || r.step < steps))
        status = smoe_fail(err, SMOE_DATA,
                           "%s: the records end at step %" PRIu64 " of %zu: records are missing",
                           path, r.step, steps);
    if (r.count)
        trial_run_set(r.result, SMOE_METRIC_STEP_S,
                      smoe_run_number((double)batch_size / smoe_stats_median(r.rates, r.count)));
    if (status) {
        json_decref(r.result);
        r.result = NULL;
    }
    free(r.rates);
    return r.result;
}

static int trial_cost(json_t *result, const smoe_spec *spec, size_t classes, smoe_err *err) {
    SMOE_FREED_BY(smoe_cost_free) smoe_cost cost = {0};
    if (smoe_cost_estimate(&cost, spec, classes, err)) return -1;
    trial_run_set(result, SMOE_METRIC_PARAMS, smoe_json_of_number(cost.params));
    trial_run_set(result, SMOE_METRIC_FLOPS_TRAIN, json_real(cost.flops_train_per_image));
    trial_run_set(result, SMOE_METRIC_FLOPS_INFER, json_real(cost.flops_infer_per_image));
    trial_run_set(result, SMOE_METRIC_FLOPS_TRAIN_COMPUTED,
                  json_real(cost.flops_train_computed_per_image));
    trial_run_set(result, SMOE_METRIC_FLOPS_INFER_COMPUTED,
                  json_real(cost.flops_infer_computed_per_image));
    trial_run_set(result, SMOE_METRIC_TRAIN_EXAFLOP, json_real(cost.train_exaflop));
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

/* The other trials with a checkpoint whose images must be those of trial i, or what is compared is
 * not what differs: each was trained, evaluated, or measured with few shots on images that the keys
 * of data say are the same. One for each kind that is known is enough. Fresh [*count], with fresh
 * folders. */
static smoe_beside *trial_run_beside(const smoe_sweep *sweep, size_t i, size_t *count) {
    json_auto_t *own = json_loads(sweep->trial[i].spec, 0, NULL);
    const char *split = json_string_value(smoe_json_at(own, "eval.split"));
    json_auto_t *trained = smoe_data_keys(own, "train");
    json_auto_t *tested = smoe_data_keys(own, split);
    smoe_beside *list = NULL, found = {0};
    *count = 0;
    found.fewshot = !json_array_size(smoe_json_at(own, "eval.fewshot.shots"));
    for (size_t k = 0; k < sweep->trials; k++) {
        SMOE_FREED char *dir = smoe_trial_dir(sweep, k);
        smoe_checkpoint then;
        if (found.trained && found.tested && found.fewshot) break;
        if (k == i || smoe_checkpoint_state(dir, &then, NULL) <= 0) continue;
        json_auto_t *other = json_loads(sweep->trial[k].spec, 0, NULL);
        json_auto_t *its_trained = smoe_data_keys(other, "train");
        json_auto_t *its_tested = smoe_data_keys(other, split);
        smoe_beside same = {.trained = !found.trained && json_equal(trained, its_trained)};
        same.tested =
            (then.tested || !then.data) && json_equal(tested, its_tested) &&
            json_equal(smoe_json_at(own, "eval.split"), smoe_json_at(other, "eval.split"));
        same.fewshot = !found.fewshot && then.fewshot && same.tested &&
                       json_equal(smoe_json_at(own, "eval.fewshot.data"),
                                  smoe_json_at(other, "eval.fewshot.data"));
        same.tested &= !found.tested;
        if (!same.trained && !same.tested && !same.fewshot) continue;
        found.trained |= same.trained;
        found.tested |= same.tested;
        found.fewshot |= same.fewshot;
        same.dir = smoe_alloc_text(dir);
        SMOE_APPEND(list, *count) = same;
    }
    return list;
}

/* spec->train.steps becomes the number that was done: with train.patience it may be smaller. */
static int trial_run_train(const smoe_sweep *sweep, size_t i, smoe_spec *spec, const char *dir,
                           smoe_train_options how, size_t *classes, smoe_err *err) {
    struct stat st;
    SMOE_FREED char *init = NULL;
    /* A trial with a checkpoint no longer needs what it started from. */
    if (sweep->init && !smoe_file_holds(dir, "ckpt/latest") &&
        !(init = smoe_start_of(sweep, i, err))) {
        json_decref(how.env);
        return -1;
    }
    how.dir = dir;
    how.mode = stat(dir, &st) ? SMOE_RUN_NEW : SMOE_RUN_RESUME;
    how.init = init;
    how.fit = smoe_start_fit(sweep, spec);
    how.choice = sweep->start.choice;
    how.moments = init && sweep->start.moments;
    how.evaluates = true; /* what a sweep is for */
    SMOE_FREED smoe_beside *beside = trial_run_beside(sweep, i, &how.besides);
    how.beside = beside;
    smoe_train_result result = {0};
    /* When a process dies, its claim may be free shortly before the lock of its run. So the lock is
     * waited for, ten seconds at most. */
    const struct timespec nap = {.tv_nsec = 20000000};
    for (int n = 0; n < 500 && smoe_run_is_written(dir); n++) nanosleep(&nap, NULL);
    int status = smoe_train(spec, &how, &result, err);
    for (size_t k = 0; k < how.besides; k++) free(beside[k].dir);
    if (!status) spec->train.steps = result.step;
    *classes = result.classes;
    return status;
}

/* The outcome of a trained trial as JSON; NULL with err. */
static json_t *trial_run_measure(const smoe_sweep *sweep, const smoe_spec *spec, const char *dir,
                                 size_t classes, smoe_err *err) {
    /* An existing run may have been stopped before its last step, or its first record. */
    size_t steps = sweep->run ? 0 : spec->train.steps;
    json_t *result = smoe_trial_measure(dir, steps, spec->train.batch_size, err);
    const json_t *step = get(result, SMOE_METRIC_STEP_S);
    if (get(result, SMOE_METRIC_LOSS) && !get(result, SMOE_METRIC_TEST_DROPPED) &&
        smoe_moe_drops_nothing(&spec->model.moe))
        trial_run_set(result, SMOE_METRIC_TEST_DROPPED, json_real(0));
    if (json_is_number(step))
        trial_run_set(result, SMOE_METRIC_TRAIN_S,
                      json_real(json_number_value(step) * (double)spec->train.steps));
    if (!result || sweep->run || !trial_cost(result, spec, classes, err)) return result;
    json_decref(result);
    return NULL;
}

int smoe_trial_run(const smoe_sweep *sweep, size_t i, const smoe_trial_options *options,
                   smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    SMOE_FREED char *dir = smoe_trial_dir(sweep, i);
    size_t classes = 0;
    double start = smoe_now();
    json_auto_t *result = NULL;
    smoe_scan scan = smoe_scan_until(options->train.scan, options->train.stop);
    int status = smoe_trial_parse(&spec, &sweep->trial[i], err);
    if (!status) smoe_spec_continue(&spec);
    if (status || sweep->run)
        json_decref(options->train.env);
    else
        status = trial_run_train(sweep, i, &spec, dir, options->train, &classes, err);
    if (!status && sweep->evaluate.points) /* the last checkpoint */
        status =
            smoe_evaluations_run(sweep, i, &scan, options->evaluated, options->evaluated_user, err);
    if (!status && !(result = trial_run_measure(sweep, &spec, dir, classes, err))) status = -1;
    if (!status) {
        trial_run_set(result, SMOE_METRIC_SECONDS, json_real(smoe_since(start)));
        status = smoe_trial_finish(
            sweep, i, json_pack("{s:s, s:O}", "status", "done", "result", result), err);
    } else if (err->code != SMOE_STOPPED) {
        smoe_err ignored;
        (void)!smoe_trial_finish(sweep, i, smoe_trial_failure((int)err->code, err->text), &ignored);
    }
    return status;
}
