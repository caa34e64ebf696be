/* The training loop; see trainer.h. Order: batch, step, then what is due at this step: metrics,
 * evaluation, checkpoint. All of it follows from (spec, step) alone. */
#include "train/trainer.h"
#include "spec/metrics.h"
#include "spec/routers.h"
#include "train/optim.h"
#include "train/routing.h"
#include "train/step.h"
#include "train/task.h"
#include "store/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { DURATIONS = 4096 };

typedef struct trainer {
    const smoe_spec *spec;
    const smoe_train_options *options;
    smoe_dataset *train, *test;
    smoe_safetensors *init; /* of --init, or NULL */
    smoe_model *model;
    smoe_params *params;
    smoe_run *run;
    smoe_loader *loader;
    smoe_checkpoint state;
    smoe_train_result *result;
    size_t N;
    smoe_step step;
    double *durations; /* seconds of the latest DURATIONS steps of this process */
    size_t done;       /* steps of this process */
    double start;      /* clock when the first step began */
    double before;     /* wall_s of the run when this process began */
    double epoch, rate;
} trainer;

static void note(const trainer *t, const char *fmt, ...) SMOE_PRINTF(2, 3);
static void note(const trainer *t, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (t->run) smoe_run_log(t->run, "%s", text);
    const smoe_observer *o = t->options->observer;
    if (o && o->note) o->note(o->user, text);
}

/* ---- start ----------------------------------------------------------------------------------- */

static int open_data(trainer *t, smoe_err *err) {
    const smoe_spec *spec = t->spec;
    if (smoe_dataset_open(&t->train, spec, "train", err)) return -1;
    t->N = t->result->classes = smoe_dataset_classes(t->train);
    if (!spec->train.eval_every) return 0;
    if (smoe_dataset_open(&t->test, spec, spec->eval.split, err)) return -1;
    if (smoe_dataset_classes(t->test) != t->N)
        return smoe_fail(err, SMOE_DATA, "split '%s' has %zu classes, split 'train' has %zu",
                         spec->eval.split, smoe_dataset_classes(t->test), t->N);
    return 0;
}

/* What a checkpoint says of the data. */
static void data_mark(trainer *t) {
    uLong crc = 0;
    for (size_t i = 0; i < t->N; i++) {
        const char *name = smoe_dataset_class_name(t->train, i);
        crc = crc32(crc, (const Bytef *)name, (uInt)strlen(name) + 1);
    }
    t->state.images = smoe_dataset_images(t->train);
    t->state.classes = crc;
}

/* What comes from the file and what does not is said unasked: a name that is spelled differently
 * would not be seen otherwise. */
static int load_init(trainer *t, smoe_err *err) {
    const smoe_observer *o = t->options->observer;
    if (smoe_params_load(t->params, t->init, t->options->fit, NULL, err)) return -1;
    char *text = smoe_params_partial_text(t->params, t->init, t->options->fit);
    if (!text) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", t->options->init);
    smoe_run_log(t->run, "%s", text);
    if (o && o->say) o->say(o->user, text);
    free(text);
    return 0;
}

static int open_loader(trainer *t, smoe_err *err) {
    smoe_loader_options options = {.batch_size = t->spec->train.batch_size,
                                   .train = true,
                                   .multi = smoe_task_of(t->spec->train.loss)->multi,
                                   .seed = t->spec->seed,
                                   .first_step = t->state.step};
    return smoe_loader_open(&t->loader, t->train, t->spec, &options, err);
}

/* What can go wrong before there is a run directory does: data, model, files to start from, memory.
 */
static int prepare(trainer *t, smoe_err *err) {
    const smoe_spec *spec = t->spec;
    if (open_data(t, err) || smoe_model_create(&t->model, spec, t->N, err)) return -1;
    data_mark(t);
    t->params = smoe_model_params(t->model);
    const char *init = t->options->init;
    if (init && smoe_params_open(&t->init, t->params, init, t->options->fit, err)) return -1;
    t->durations = calloc(DURATIONS, sizeof *t->durations);
    if (!t->durations) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the times of steps");
    if (smoe_step_open(&t->step, t->model, spec, t->N, NULL, err)) return -1;
    return t->options->mode == SMOE_RUN_RESUME ? 0 : open_loader(t, err);
}

/* The checkpoint restored against the data of now. */
static int data_check(const trainer *t, const smoe_checkpoint *now, smoe_err *err) {
    const smoe_checkpoint *then = &t->state;
    if (then->images && then->images != now->images)
        return smoe_fail(err, SMOE_DATA,
                         "%s: cannot resume with other training data: it has %" PRIu64
                         " images, and had %" PRIu64,
                         t->options->dir, now->images, then->images);
    if (then->classes && then->classes != now->classes)
        return smoe_fail(
            err, SMOE_DATA,
            "%s: cannot resume with other training data: the names of its classes have changed",
            t->options->dir);
    return 0;
}

static int keep_wall(void *user, const smoe_run_record *record, smoe_err *err) {
    trainer *t = user;
    (void)err;
    const json_t *wall = json_object_get(record->json, smoe_metrics[SMOE_METRIC_WALL_S].name);
    if (json_is_number(wall)) t->before = json_number_value(wall);
    return 0;
}

/* The time of the parts before is that of the last record left: a checkpoint has no times, so that
 * the same run writes the same bytes. */
static int restore_wall(trainer *t, smoe_err *err) {
    char *path = smoe_text_format("%s/metrics.jsonl", t->options->dir);
    int status = path ? smoe_run_each_record(path, 0, keep_wall, t, err)
                      : smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", t->options->dir);
    free(path);
    return status;
}

static int restore(trainer *t, smoe_err *err) {
    smoe_checkpoint now = t->state;
    int restored = smoe_run_restore(t->run, t->params, &t->state, err);
    if (restored <= 0) return restored;
    if (data_check(t, &now, err)) return -1;
    if (smoe_run_truncate(t->run, t->state.step, t->state.recorded, err) || restore_wall(t, err))
        return -1;
    if (t->state.step < t->spec->train.steps && smoe_run_outcomes(t->run, NULL, 0, err)) return -1;
    t->state.images = now.images;
    t->state.classes = now.classes;
    note(t, "resumed after step %llu", (unsigned long long)t->state.step);
    return 1;
}

static int start(trainer *t, smoe_err *err) {
    t->state.best = -1;
    if (prepare(t, err)) {
        json_decref(t->options->env);
        return -1;
    }
    bool resume = t->options->mode == SMOE_RUN_RESUME;
    if (smoe_run_open(&t->run, t->options->dir, t->options->mode, t->spec, t->options->env, err))
        return -1;
    int restored = resume ? restore(t, err) : 0;
    if (restored < 0) return -1;
    if (!restored) {
        smoe_params_init(t->params, t->spec->seed);
        if (t->init && load_init(t, err)) return -1;
    }
    return resume ? open_loader(t, err) : 0;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static int step(trainer *t, smoe_err *err) {
    smoe_batch batch;
    if (smoe_loader_next(t->loader, &batch, err) < 0) return -1;
    t->epoch = batch.epoch;
    t->rate = smoe_schedule_rate(&t->spec->train, t->state.step);
    if (smoe_step_run(&t->step, &batch, t->state.step, t->state.optimizer_steps, NULL, err)) {
        smoe_err failed = *err;
        if (failed.code != SMOE_NONFINITE) return -1;
        return smoe_fail(err, failed.code, "%s; the last checkpoint is unchanged", failed.text);
    }
    t->state.step++;
    t->state.optimizer_steps++;
    return 0;
}

/* ---- what is due ----------------------------------------------------------------------------- */

static json_t *record(const trainer *t) {
    json_t *r = json_object();
    json_object_set_new(r, "step", json_integer((json_int_t)t->state.step));
    smoe_run_metric(r, SMOE_METRIC_EPOCH, NULL, 0, t->epoch);
    smoe_run_metric(r, SMOE_METRIC_WALL_S, NULL, 0, t->before + smoe_now() - t->start);
    return r;
}

static int put_record(trainer *t, json_t *r, smoe_err *err) {
    if (smoe_run_metrics(t->run, r, err)) return -1;
    t->state.recorded = t->state.step;
    return 0;
}

static void set(json_t *r, smoe_metric metric, double value) {
    smoe_run_metric(r, metric, NULL, 0, value);
}

static void add_router_metrics(const trainer *t, json_t *r) {
    for (size_t i = 0; i < smoe_model_moe_layers(t->model); i++) {
        const smoe_plan *plan = &smoe_model_router(t->model, i)->plan;
        smoe_plan_stats stats;
        smoe_plan_measure(plan, &stats);
        const struct {
            smoe_metric metric;
            double value;
            bool wanted;
        } rows[] = {
            {SMOE_METRIC_DISPATCH_MAX, stats.dispatch_max, !plan->sparse},
            {SMOE_METRIC_COMBINE_MAX, stats.combine_max, !plan->sparse},
            {SMOE_METRIC_TOKENS_PER_SLOT, stats.tokens_per_slot, !plan->sparse},
            {SMOE_METRIC_SLOTS_PER_TOKEN, stats.slots_per_token, !plan->sparse},
            {SMOE_METRIC_DROPPED, stats.dropped, plan->sparse},
        };
        size_t block = smoe_model_moe_block(t->model, i);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (rows[k].wanted) smoe_run_metric(r, rows[k].metric, NULL, block, rows[k].value);
    }
}

/* Is there an auxiliary loss, though it may be 0? */
static bool balances(const trainer *t) {
    const smoe_router_row *router = smoe_router_find(t->spec->model.moe.router);
    return smoe_model_moe_layers(t->model) && router && router->family == SMOE_FAMILY_TOKENS_CHOICE;
}

static int log_step(trainer *t, double images_per_s, smoe_err *err) {
    json_t *r = record(t);
    set(r, SMOE_METRIC_TRAIN_LOSS, t->step.loss);
    set(r, SMOE_METRIC_TRAIN_PRECISION, t->step.precision);
    set(r, SMOE_METRIC_LR, t->rate);
    set(r, SMOE_METRIC_GRADIENT_NORM, t->step.norm);
    set(r, SMOE_METRIC_IMAGES_PER_S, images_per_s);
    set(r, SMOE_METRIC_WAITED_S, smoe_loader_waited(t->loader));
    if (balances(t)) set(r, SMOE_METRIC_AUX_LOSS, t->step.aux);
    add_router_metrics(t, r);
    return put_record(t, r, err);
}

/* The test split in batches of B; its counts of routing go into the record. The last evaluation
 * leaves the outcomes of the images as well. */
static int evaluate_split(trainer *t, size_t B, json_t *r, smoe_err *err) {
    smoe_routing routing = {0};
    smoe_eval *eval = &t->result->test;
    size_t images = smoe_dataset_images(t->test);
    bool last = t->state.step == t->spec->train.steps;
    float *outcomes = last ? calloc(2 * images, sizeof *outcomes) : NULL;
    int status = last && !outcomes
                     ? smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu images", images)
                     : smoe_routing_open(&routing, t->model, err);
    if (!status)
        status = smoe_evaluate_each(t->model, t->spec, t->test, B, outcomes, NULL, NULL, eval, err);
    if (!status && last) status = smoe_run_outcomes(t->run, outcomes, images, err);
    if (!status) {
        const char *split = t->spec->eval.split;
        smoe_run_metric(r, SMOE_METRIC_LOSS, split, 0, eval->loss);
        smoe_run_metric(r, SMOE_METRIC_PRECISION, split, 0, eval->precision_at_1);
        smoe_routing_record(&routing, split, r);
    }
    smoe_routing_free(&routing);
    free(outcomes);
    return status;
}

static int evaluate(trainer *t, smoe_err *err) {
    size_t B = t->spec->eval.batch_size;
    if (B > t->spec->train.batch_size) B = t->spec->train.batch_size;
    const smoe_eval *eval = &t->result->test;
    const smoe_train_options *options = t->options;
    json_t *r = record(t);
    if (evaluate_split(t, B, r, err) ||
        (options->measure && options->measure(options->measure_user, t->model, B, r, err))) {
        json_decref(r);
        return -1;
    }
    if (smoe_metric_is_better(SMOE_METRIC_PRECISION, eval->precision_at_1, t->state.best)) {
        t->state.best = eval->precision_at_1;
        t->state.best_step = t->state.step;
    }
    const smoe_observer *o = t->options->observer;
    if (o && o->eval) o->eval(o->user, t->state.step, t->spec->eval.split, eval);
    return put_record(t, r, err);
}

static bool due(size_t every, uint64_t step) {
    return every && step % every == 0;
}

static int checkpoint(trainer *t, smoe_err *err) {
    return smoe_run_checkpoint(t->run, t->params, t->spec, &t->state, t->spec->train.keep, err);
}

static void tell(const trainer *t, double images_per_s) {
    const smoe_observer *o = t->options->observer;
    if (!o || !o->step) return;
    size_t steps = t->spec->train.steps;
    double left = (double)(steps - t->state.step) * (smoe_now() - t->start) / (double)t->done;
    smoe_train_status s = {.step = t->state.step,
                           .steps = steps,
                           .epoch = t->epoch,
                           .loss = t->step.loss,
                           .precision = t->step.precision,
                           .lr = t->rate,
                           .images_per_s = images_per_s,
                           .seconds_left = left};
    o->step(o->user, &s);
}

static int loop(trainer *t, smoe_err *err) {
    const smoe_train_spec *train = &t->spec->train;
    double mark = smoe_now();
    size_t since = 0;
    t->start = mark;
    while (t->state.step < train->steps) {
        double begin = smoe_now();
        if (step(t, err)) return -1;
        t->durations[t->done++ % DURATIONS] = smoe_now() - begin;
        bool last = t->state.step == train->steps;
        double images_per_s = (double)(++since * train->batch_size) / (smoe_now() - mark);
        tell(t, images_per_s);
        if (due(train->log_every, t->state.step) || last) {
            if (log_step(t, images_per_s, err)) return -1;
            mark = smoe_now();
            since = 0;
        }
        if (t->test && (due(train->eval_every, t->state.step) || last)) {
            double paused = smoe_now();
            if (evaluate(t, err)) return -1;
            mark += smoe_now() - paused;
        }
        /* Looked at last: a request that came during an evaluation need not wait for a step. */
        bool stop = !last && t->options->stop && *t->options->stop;
        bool best = train->checkpoint_every && t->state.best_step == t->state.step;
        if ((due(train->checkpoint_every, t->state.step) || best || last || stop) &&
            checkpoint(t, err))
            return -1;
        if (stop)
            return smoe_fail(err, SMOE_STOPPED, "stopped on request after step %llu of %zu",
                             (unsigned long long)t->state.step, train->steps);
    }
    return 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What came of it, also where it failed. A status that cannot be written fails the run, unless
 * something else has. */
static int finish(trainer *t, int status, smoe_err *err) {
    smoe_train_result *r = t->result;
    r->step = t->state.step;
    r->train_loss = t->done ? t->step.loss : NAN;
    r->step_seconds = NAN;
    r->best = t->state.best;
    r->best_step = t->state.best_step;
    if (t->done) {
        size_t n = t->done < DURATIONS ? t->done : DURATIONS;
        qsort(t->durations, n, sizeof *t->durations, ascending);
        r->step_seconds = t->durations[n / 2];
    }
    if (!t->run) return status;
    if (status) smoe_run_log(t->run, "%s", err->text);
    const char *word = !status ? "done" : err->code == SMOE_STOPPED ? "stopped" : "failed";
    smoe_err ignored;
    return smoe_run_close(t->run, word, status ? &ignored : err) ? -1 : status;
}

int smoe_train(const smoe_spec *spec, const smoe_train_options *options, smoe_train_result *result,
               smoe_err *err) {
    trainer t = {.spec = spec, .options = options, .result = result};
    *result = (smoe_train_result){0};
    int status = start(&t, err);
    if (!status) status = loop(&t, err);
    status = finish(&t, status, err);
    smoe_loader_free(t.loader);
    smoe_model_free(t.model);
    smoe_safetensors_free(t.init);
    smoe_dataset_free(t.train);
    smoe_dataset_free(t.test);
    smoe_step_free(&t.step);
    free(t.durations);
    return status;
}
