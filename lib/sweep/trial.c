/* Running a trial and measuring it; see trial.h. Its numbers come from metrics.jsonl, which a
 * resumed run continues, and not from memory: so a trial that was killed comes to the same. */
#include "sweep/trial.h"
#include "base/clock.h"
#include "base/frame.h"
#include "spec/routers.h"
#include "bench/cost.h"
#include "train/fewshot.h"
#include "store/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- measuring ------------------------------------------------------------------------------- */

typedef struct reader {
    json_t *result;
    double *rates; /* train/images_per_s */
    size_t count, room;
    double best;
    uint64_t step; /* of the last record */
} reader;

static void take(json_t *result, const char *name, const json_t *record, const char *key) {
    json_t *value = json_object_get(record, key);
    if (value) json_object_set(result, name, value);
}

static int keep_rate(reader *r, double rate) {
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        double *rates = realloc(r->rates, room * sizeof *rates);
        if (!rates) return -1;
        r->rates = rates;
        r->room = room;
    }
    r->rates[r->count++] = rate;
    return 0;
}

/* The largest over the layers of a router's statistic, "blocks.I/router/NAME". */
static void take_largest(json_t *result, const char *name, const json_t *record) {
    double largest = -1;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)record, key, value) {
        const char *tail = strstr(key, "/router/");
        if (tail && !strcmp(tail + strlen("/router/"), name) && json_is_number(value) &&
            json_number_value(value) > largest)
            largest = json_number_value(value);
    }
    if (largest >= 0) json_object_set_new(result, name, json_real(largest));
}

static int read_record(void *user, const smoe_run_record *from, smoe_err *err) {
    reader *r = user;
    const json_t *record = from->json;
    const json_t *rate = json_object_get(record, "train/images_per_s");
    const json_t *precision = json_object_get(record, "test/precision_at_1");
    r->step = from->step;
    if (json_is_number(rate) && keep_rate(r, json_number_value(rate)))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for the records");
    take(r->result, "train_loss", record, "train/loss");
    take(r->result, "test_loss", record, "test/loss");
    take(r->result, "precision_at_1", record, "test/precision_at_1");
    take(r->result, "dropped", record, "test/dropped");
    take_largest(r->result, "dispatch_max", record);
    take_largest(r->result, "combine_max", record);
    if (json_is_number(precision) && json_number_value(precision) > r->best) {
        r->best = json_number_value(precision);
        json_object_set_new(r->result, "best_precision_at_1", json_real(r->best));
        take(r->result, "best_step", record, "step");
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)record, key, value) {
        static const char prefix[] = "test/fewshot_";
        size_t length = sizeof prefix - 1;
        if (!strncmp(key, prefix, length) && !key[length + strspn(key + length, "0123456789")])
            json_object_set(r->result, key + strlen("test/"), value);
    }
    return 0;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

json_t *smoe_trial_measure(const char *run_dir, size_t steps, size_t batch_size, smoe_err *err) {
    reader r = {.result = json_object(), .best = -1};
    char *path = smoe_text_format("%s/metrics.jsonl", run_dir);
    int status = r.result && path ? smoe_run_each_record(path, 0, read_record, &r, err)
                                  : smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", run_dir);
    if (!status && (!json_object_size(r.result) || r.step < steps))
        status = smoe_fail(err, SMOE_DATA,
                           "%s: nothing is measured after step %" PRIu64 ", of %zu: records are "
                           "missing",
                           path, r.step, steps);
    if (r.count) {
        qsort(r.rates, r.count, sizeof *r.rates, ascending);
        json_object_set_new(r.result, "step_s",
                            smoe_run_number((double)batch_size / r.rates[r.count / 2]));
    }
    if (status) {
        json_decref(r.result);
        r.result = NULL;
    }
    free(path);
    free(r.rates);
    return r.result;
}

static int add_cost(json_t *result, const smoe_spec *spec, size_t classes, smoe_err *err) {
    smoe_cost cost = {0};
    int status = smoe_cost_estimate(&cost, spec, classes, NULL, err);
    if (!status) {
        json_object_set_new(result, "params", smoe_number_json(cost.params));
        json_object_set_new(result, "flops_train_per_image", json_real(cost.flops_train_per_image));
        json_object_set_new(result, "flops_infer_per_image", json_real(cost.flops_infer_per_image));
        json_object_set_new(result, "train_exaflop", json_real(cost.train_exaflop));
    }
    smoe_cost_free(&cost);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

/* A process that dies lets go of its claim a moment before it lets go of its run (files are closed
 * in the order they were opened): that moment, ten seconds at most, is waited for. */
static void wait_for_run(const char *dir) {
    char *path = smoe_text_format("%s/metrics.jsonl", dir);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    const struct timespec nap = {.tv_nsec = 20000000};
    for (int i = 0; fd >= 0 && i < 500 && flock(fd, LOCK_EX | LOCK_NB); i++) nanosleep(&nap, NULL);
    if (fd >= 0) close(fd);
    free(path);
}

static int train(const smoe_spec *spec, const char *dir, const smoe_trial_options *options,
                 size_t *classes, smoe_err *err) {
    smoe_fewshot *fewshot;
    struct stat st;
    json_t *env = options->env;
    if (smoe_fewshot_open(&fewshot, spec, err)) {
        json_decref(env);
        return -1;
    }
    smoe_train_options how = {.dir = dir,
                              .mode = stat(dir, &st) ? SMOE_RUN_NEW : SMOE_RUN_RESUME,
                              .env = env,
                              .stop = options->stop,
                              .observer = options->observer,
                              .measure = fewshot ? smoe_fewshot_record : NULL,
                              .measure_user = fewshot};
    smoe_train_result result = {0};
    wait_for_run(dir);
    int status = smoe_train(spec, &how, &result, err);
    *classes = result.classes;
    smoe_fewshot_free(fewshot);
    return status;
}

/* The points of the sweep, of the last checkpoint. */
static int evaluate(const smoe_sweep *sweep, size_t i, const char *dir,
                    const smoe_trial_options *options, smoe_err *err) {
    const smoe_evaluations_options how = {
        .stop = options->stop, .done = options->evaluated, .user = options->evaluated_user};
    char *model = NULL, *text = NULL;
    if (!sweep->evaluate.points) return 0;
    int status = sweep->checkpoint ? 0 : smoe_run_locate(dir, "latest", &model, &text, err);
    if (!status)
        status = smoe_evaluations_run(sweep, i, model ? model : sweep->checkpoint, &how, err);
    free(model);
    free(text);
    return status;
}

/* What there is to say about a trial that is trained; NULL with err. */
static json_t *measure(const smoe_sweep *sweep, const smoe_spec *spec, const char *dir,
                       size_t classes, smoe_err *err) {
    /* A run that is there may have been stopped earlier. */
    size_t steps = sweep->run ? 0 : spec->train.steps;
    json_t *result = smoe_trial_measure(dir, steps, spec->train.batch_size, err);
    const json_t *step = json_object_get(result, "step_s");
    if (json_object_get(result, "test_loss") && !json_object_get(result, "dropped") &&
        smoe_moe_drops_nothing(&spec->model.moe))
        json_object_set_new(result, "dropped", json_real(0));
    if (json_is_number(step))
        json_object_set_new(result, "train_s",
                            json_real(json_number_value(step) * (double)spec->train.steps));
    if (!result || sweep->run || !add_cost(result, spec, classes, err)) return result;
    json_decref(result);
    return NULL;
}

int smoe_trial_run(const smoe_sweep *sweep, size_t i, const smoe_trial_options *options,
                   smoe_err *err) {
    const smoe_trial *trial = &sweep->trial[i];
    smoe_spec spec = {0};
    size_t classes = 0;
    double start = smoe_now();
    json_t *result = NULL, *env = options->env;
    char *dir = smoe_trial_dir(sweep, i);
    int status = dir ? smoe_spec_parse(&spec, trial->spec, strlen(trial->spec), trial->name, NULL,
                                       NULL, 0, err)
                     : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (!status) smoe_spec_continue(&spec);
    if (status || !dir || sweep->run)
        json_decref(env);
    else
        status = train(&spec, dir, options, &classes, err);
    if (!status) status = evaluate(sweep, i, dir, options, err);
    if (!status && !(result = measure(sweep, &spec, dir, classes, err))) status = -1;
    if (!status) {
        json_object_set_new(result, "seconds", json_real(smoe_now() - start));
        status = smoe_trial_finish(
            sweep, i, json_pack("{s:s, s:O}", "status", "done", "result", result), err);
    } else if (err->code != SMOE_STOPPED) {
        smoe_err ignored;
        (void)!smoe_trial_finish(sweep, i, smoe_trial_failure((int)err->code, err->text), &ignored);
    }
    json_decref(result);
    smoe_spec_free(&spec);
    free(dir);
    return status;
}
