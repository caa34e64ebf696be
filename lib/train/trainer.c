/* The training loop; see trainer.h. Order: batch, step, then what is due at this step: metrics,
 * evaluation, checkpoint. All of it follows from (spec, step) alone. */
#include "train/trainer.h"
#include "math/kernels.h"
#include "math/stats.h"
#include "spec/routers.h"
#include "spec/tasks.h"
#include "train/data_mark.h"
#include "train/moments_init.h"
#include "train/schedule.h"
#include "train/routing.h"
#include "train/step.h"
#include "train/task.h"
#include "train/upcycle.h"
#include "base/file.h"
#include "base/json.h"
#include "store/model_file.h"
#include "store/implied.h"
#include "store/run_files.h"
#include "train/fewshot.h"

#include <inttypes.h>

enum { DURATIONS = 4096 };

typedef struct trainer {
    const smoe_spec *spec;
    const smoe_train_options *options;
    smoe_comm alone, *comm;
    bool chief; /* the process that writes the run directory and calls the observer */
    const smoe_observer *observer; /* without functions in the other processes */
    smoe_scan *scan;               /* while the data is opened */
    smoe_dataset *train, *test;
    smoe_fewshot *fewshot;     /* of eval.fewshot; NULL: none */
    smoe_tokenizer *tokenizer; /* of captions, or NULL */
    smoe_safetensors *init;    /* of --init, or NULL */
    smoe_safetensors *moments; /* of --moments, or NULL */
    uint32_t *order;           /* of its classes, if it is another one; or NULL */
    smoe_model *model;
    smoe_params *params;
    smoe_run *run;
    smoe_loader *loader;
    smoe_checkpoint state;
    char *names;     /* of the classes, as JSON */
    uint64_t tested; /* the checksum of the images of `test`, */
    uint64_t shown;  /* and of those of eval.fewshot.data */
    smoe_train_result *result;
    size_t N;
    smoe_step step;
    smoe_watch watch;
    float *outcomes;   /* [images of `test`, 2] of the last evaluation so far, or NULL */
    bool alike;        /* the evaluations before a resume are of these images */
    double *durations; /* seconds of the latest DURATIONS steps of this process */
    size_t done;       /* steps of this process */
    double start;      /* clock when the first step began */
    double before;     /* wall_s of the run when this process began */
    double saved;      /* clock of the last checkpoint, at first of the start */
    double epoch, rate;
} trainer;

/* ---- start ----------------------------------------------------------------------------------- */

static int open_data(trainer *t, smoe_err *err) {
    const smoe_spec *spec = t->spec;
    if (smoe_dataset_open(&t->train, spec, "train", t->scan, err)) return -1;
    t->N = t->result->classes = smoe_dataset_classes(t->train);
    if (!spec->train.eval_every && !t->options->evaluates) return 0;
    if (smoe_dataset_open(&t->test, spec, spec->eval.split, t->scan, err)) return -1;
    return smoe_evaluate_check_classes(t->test, spec->eval.split, t->train, err);
}

/* Which tensors come from the file is always reported; otherwise nobody would notice a name that is
 * spelled differently. */
static void trainer_say(const void *user, const char *text) {
    const trainer *t = user;
    if (t->run) smoe_run_log(t->run, "%s", text);
    if (t->observer->say) t->observer->say(t->observer->user, text);
}

static void say_fresh(const trainer *t, char *text) {
    if (text) trainer_say(t, text);
    free(text);
}

/* Opened once and read from the open file: if the other run is still training, its path may be
 * removed later. */
static int open_init(trainer *t, smoe_err *err) {
    if (smoe_run_model(&t->init, t->options->init, NULL, &t->options->choice, err)) return -1;
    t->params->headless = !smoe_task_pairs(t->spec->train.loss) &&
                          smoe_model_file_other_classes(t->train, t->init, &t->order);
    t->params->head_order = t->order;
    if (smoe_params_check(t->params, t->init, t->options->fit, err)) return -1;
    if (t->options->fit != SMOE_FIT_PARTIAL && smoe_implied_check(t->spec, t->init, false, err))
        return -1;
    return t->options->moments
               ? smoe_moments_init_open(&t->moments, t->init, t->spec, t->options->fit, err)
               : 0;
}

static int load_moments(trainer *t, smoe_err *err) {
    char *text;
    if (smoe_moments_init_load(t->params, t->moments, t->options->fit, &text, err)) return -1;
    t->state.carried = t->params->carried;
    say_fresh(t, text);
    return 0;
}

static int load_init(trainer *t, smoe_err *err) {
    const smoe_train_options *options = t->options;
    if (smoe_params_load(t->params, t->init, options->fit, NULL, err)) return -1;
    if (!smoe_task_pairs(t->spec->train.loss))
        say_fresh(t, smoe_model_file_classes_text(t->train, t->init, t->params->headless));
    say_fresh(t, smoe_init_map_text(t->params, t->init, options->fit));
    say_fresh(t, smoe_model_file_remark(t->init));
    say_fresh(t, smoe_implied_remark(t->spec, t->init));
    if (t->moments && load_moments(t, err)) return -1;
    if (options->fit != SMOE_FIT_UPCYCLE) return 0;
    if (options->noise > 0) smoe_upcycle_noise(t->params, t->init, t->spec->seed, options->noise);
    if (smoe_task_pairs(t->spec->train.loss)) return 0; /* it has no logits of classes */
    int status =
        smoe_upcycle_compare(&(smoe_model_source){t->model, t->spec, t->init},
                             t->test ? t->test : t->train, t->step.images, trainer_say, t, err);
    if (status && err->code == SMOE_NONFINITE)
        smoe_fail_prefix(err, "%s", smoe_safetensors_path(t->init));
    return status;
}

static int open_loader(trainer *t, smoe_err *err) {
    const smoe_train_spec *train = &t->spec->train;
    smoe_loader_options options = {.batch_size = train->batch_size,
                                   .train = true,
                                   .tokenizer = t->tokenizer,
                                   .multi = smoe_task_of(train->loss)->multi,
                                   .seed = t->spec->seed,
                                   .first_step = t->state.step,
                                   .part = (size_t)t->comm->rank,
                                   .parts = (size_t)t->comm->size,
                                   .piece = train->batch_size / train->pieces};
    return smoe_loader_open(&t->loader, t->train, t->spec, &options, err);
}

/* Does everything that can fail before the run directory is made: data, model, files to start from,
 * memory. */
static int trainer_prepare(trainer *t, smoe_err *err) {
    const smoe_spec *spec = t->spec;
    if (open_data(t, err) || smoe_model_create(&t->model, spec, t->N, err)) return -1;
    if (smoe_task_pairs(spec->train.loss) && smoe_tokenizer_open(&t->tokenizer, spec, err))
        return -1;
    t->names = smoe_data_mark(&t->state, t->train);
    if (t->test) t->tested = smoe_dataset_checksum(t->test);
    if (t->fewshot && spec->eval.fewshot.data.source >= SMOE_FEWSHOT_SOURCE)
        t->shown = smoe_fewshot_checksum(t->fewshot); /* else those of training and evaluation */
    smoe_checkpoint now = t->state;
    now.tested = t->tested;
    now.fewshot = t->shown;
    for (size_t k = 0; k < t->options->besides; k++)
        if (smoe_data_check_beside(t->options->dir, &t->options->beside[k], &now, err)) return -1;
    t->params = smoe_model_params(t->model);
    if (t->options->init && open_init(t, err)) return -1;
    t->durations = smoe_alloc(DURATIONS, sizeof *t->durations);
    if (smoe_step_open(&t->step, t->model, spec, t->N, t->comm, err)) return -1;
    return t->options->mode == SMOE_RUN_RESUME ? 0 : open_loader(t, err);
}

/* Compares the restored checkpoint with the current data. */
static int data_check(const trainer *t, const smoe_checkpoint *now, smoe_err *err) {
    const char *dir = t->options->dir;
    char other[96];
    if (!smoe_data_differs(&t->state, now, other, sizeof other)) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: cannot resume with other training data: %s; --init %s starts another run "
                     "from its weights",
                     dir, other, dir);
}

static bool is_due(size_t every, uint64_t step) {
    return every && step % every == 0;
}

/* Whether train.patience evaluations have passed since the best one. It follows from the data of a
 * checkpoint, so a resumed run ends at the same step. */
static bool out_of_patience(const trainer *t) {
    const smoe_train_spec *train = &t->spec->train;
    return train->patience && is_due(train->eval_every, t->state.step) &&
           t->state.step - t->state.best_step >= train->patience * train->eval_every;
}

static bool run_over(const trainer *t) {
    return t->state.step >= t->spec->train.steps || out_of_patience(t);
}

/* The best evaluation is one of eval.split: with another split, or other images, there is none so
 * far. */
static int restore_best(trainer *t, smoe_err *err) {
    SMOE_FREED_BY(smoe_spec_free) smoe_spec then = {0};
    int latest = smoe_run_latest_spec(&then, t->options->dir, err);
    if (latest) return latest < 0 ? -1 : 0;
    bool same = !strcmp(then.eval.split, t->spec->eval.split),
         differs = smoe_data_tested_differs(&t->state, t->tested);
    t->alike = same && !differs;
    if (t->alike) return 0;
    if (same)
        say_fresh(t, smoe_text_format("the data of split '%s' is not that of the evaluations so "
                                      "far: %s; the best evaluation is chosen among those to come",
                                      then.eval.split, smoe_data_changed));
    t->state.best = -1;
    t->state.best_step = t->state.step;
    return 0;
}

static int trainer_restore(trainer *t, smoe_err *err) {
    smoe_checkpoint now = t->state;
    int restored = t->chief ? smoe_run_restore(t->run, t->params, &t->state, err)
                            : smoe_checkpoint_restore(t->options->dir, t->params, &t->state, err);
    if (restored <= 0) return restored;
    if (data_check(t, &now, err) || restore_best(t, err)) return -1;
    if (t->state.fewshot && t->shown && t->state.fewshot != t->shown)
        trainer_say(t, "the images of eval.fewshot.data are not those of the evaluations so far; "
                       "few-shot accuracies from here on cannot be compared with those before");
    /* Records after the checkpoint are dropped. */
    if (t->chief && smoe_run_truncate(t->run, &t->state, &t->before, err)) return -1;
    t->state.images = now.images;
    t->state.classes = now.classes;
    t->state.data = now.data;
    t->state.names = now.names;
    t->params->carried = t->state.carried;
    char text[64];
    snprintf(text, sizeof text, "resumed after step %llu", (unsigned long long)t->state.step);
    if (t->run) smoe_run_log(t->run, "%s", text);
    if (t->observer->note) t->observer->note(t->observer->user, text);
    return 1;
}

/* The spec with only the last name of data.path: on another machine the data may be elsewhere. */
static char *placeless_spec(const smoe_spec *spec) {
    json_auto_t *all = smoe_spec_object(spec);
    json_t *data = json_object_get(all, "data");
    const char *path = json_string_value(json_object_get(data, "path"));
    if (path) json_object_set_new(data, "path", json_string(basename(path)));
    return smoe_json_dump(all, 0);
}

/* Specs and data must be the same, or the processes would sum gradients of different runs. */
static int same_everywhere(const trainer *t, smoe_err *err) {
    SMOE_FREED char *spec = placeless_spec(t->spec);
    const uint64_t data[] = {t->state.images, t->state.classes, t->state.data,
                             t->tested,       t->shown,         t->N};
    if (smoe_comm_same(t->comm, "spec", spec, strlen(spec), err)) return -1;
    return smoe_comm_same(t->comm, "data", data, sizeof data, err);
}

/* The run directory is opened by one process; checkpoints are read by each. */
static int open_run(trainer *t, smoe_err *err) {
    const smoe_train_options *o = t->options;
    int status = 0;
    if (t->chief)
        status = smoe_run_open(&t->run, o->dir, o->mode, t->spec, json_incref(o->env), err);
    return smoe_comm_agree(t->comm, status, NULL, err);
}

/* data.on_error: reports the number of images that are left out; the log lists them. */
static void say_left_out(const trainer *t, const smoe_dataset *set, const char *split) {
    const smoe_dataset_report *found = smoe_dataset_found(set);
    size_t count = found->left_out;
    bool one = count == 1;
    if (!count || !t->chief) return;
    say_fresh(t, smoe_text_format("data.on_error: %zu image%s of %s %s left out; log.txt lists %s",
                                  count, SMOE_S(count), split, one ? "is" : "are",
                                  count > SMOE_LEFT ? "the first 1000"
                                  : one             ? "it"
                                                    : "them"));
    for (size_t i = 0; i < count && i < SMOE_LEFT; i++)
        smoe_run_log(t->run, "left out: %s", found->left[i]);
}

static void say_remarks(const trainer *t) {
    const smoe_dataset_report *train = smoe_dataset_found(t->train);
    const smoe_dataset_report *test = t->test ? smoe_dataset_found(t->test) : NULL;
    for (size_t i = 0; i < train->remarks; i++) trainer_say(t, train->remark[i]);
    for (size_t i = 0; test && i < test->remarks; i++)
        if (!smoe_dataset_remarked(t->train, test->remark[i])) trainer_say(t, test->remark[i]);
    if (t->test && t->chief && !smoe_task_pairs(t->spec->train.loss))
        say_fresh(t, smoe_dataset_untrained(t->test, t->train));
}

/* Photographs from telephones: most viewers turn them. */
static void say_turned(const trainer *t) {
    size_t count = smoe_dataset_found(t->train)->turned;
    if (!count || !t->chief || t->spec->data.orientation == SMOE_ORIENTATION_APPLY) return;
    say_fresh(t, smoe_text_format("%zu image%s of train %s not turned upright; "
                                  "data.orientation=apply turns %s EXIF data say",
                                  count, SMOE_S(count), count == 1 ? "is" : "are",
                                  count == 1 ? "it as its" : "them as their"));
}

/* Another instruction set, or in BF16 another matrix unit, adds in another order: the run
 * continues, with different bits. */
static void say_kernels(const trainer *t) {
    SMOE_FREED char *before = smoe_run_previous(t->run, "kernel");
    if (before && !smoe_kernels_sum_alike(before, t->spec->train.precision))
        say_fresh(t, smoe_text_format("kernels for %s until now, for %s from here on: they add in "
                                      "another order, so the last digits differ from those of a "
                                      "run without this change",
                                      before, smoe_kernels_get()->isa));
}

static int trainer_start(trainer *t, smoe_err *err) {
    t->state.best = -1;
    int status = smoe_comm_agree(t->comm, trainer_prepare(t, err), NULL, err);
    if (!status) status = same_everywhere(t, err);
    if (status || open_run(t, err)) return -1;
    bool resume = t->options->mode == SMOE_RUN_RESUME;
    smoe_watch_open(&t->watch, t->spec, t->train, t->step.N);
    say_remarks(t);
    say_turned(t);
    say_left_out(t, t->train, "train");
    if (t->test) say_left_out(t, t->test, t->spec->eval.split);
    int restored = resume ? trainer_restore(t, err) : 0;
    if (smoe_comm_agree(t->comm, restored < 0 ? -1 : 0, NULL, err)) return -1;
    if (smoe_comm_same(t->comm, "checkpoint", &t->state.step, sizeof t->state.step, err)) return -1;
    status = t->chief ? smoe_run_begin(t->run, t->spec, err) : 0;
    if (!status && restored > 0 && t->chief && !run_over(t)) /* they are of another step */
        status = smoe_run_outcomes(t->run, NULL, 0, err);
    if (smoe_comm_agree(t->comm, status, NULL, err)) return -1;
    if (restored > 0 && t->chief) say_kernels(t);
    if (!restored) {
        smoe_params_init(t->params, t->spec->seed);
        if (t->init && load_init(t, err)) status = -1;
        smoe_model_serve(t->model);
    }
    if (!status && resume) status = open_loader(t, err);
    return smoe_comm_agree(t->comm, status, NULL, err);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* With train.patience every evaluation may end the run. */
static bool is_logged(const trainer *t, uint64_t step) {
    const smoe_train_spec *train = &t->spec->train;
    return is_due(train->log_every, step) || step == train->steps ||
           (train->patience && is_due(train->eval_every, step));
}

static int trainer_step(trainer *t, smoe_err *err) {
    smoe_batch batch;
    int status = smoe_loader_next(t->loader, &batch, err) < 0 ? -1 : 0;
    if (smoe_comm_agree(t->comm, status, NULL, err)) return -1;
    t->epoch = batch.epoch;
    t->rate = smoe_schedule_rate(&t->spec->train, t->state.step);
    t->step.measure = is_logged(t, t->state.step + 1);
    if (smoe_step_run(&t->step, &batch, t->state.step, t->state.optimizer_steps, NULL, err)) {
        smoe_err failed = *err;
        if (failed.code != SMOE_NONFINITE) return -1;
        return smoe_fail(err, failed.code, "%s; %s", failed.text,
                         smoe_checkpoint_left(t->options->dir));
    }
    t->state.step++;
    t->state.optimizer_steps++;
    return 0;
}

/* ---- what is due ----------------------------------------------------------------------------- */

static json_t *record_begin(const trainer *t) {
    json_t *r = json_object();
    json_object_set_new(r, "step", json_integer((json_int_t)t->state.step));
    smoe_run_metric(r, SMOE_METRIC_EPOCH, NULL, 0, t->epoch);
    smoe_run_metric(r, SMOE_METRIC_WALL_S, NULL, 0, t->before + smoe_since(t->start));
    return r;
}

static int put_record(trainer *t, json_t *r, smoe_err *err) {
    if (t->chief ? smoe_run_metrics(t->run, r, err) : (json_decref(r), 0)) return -1;
    t->state.recorded = t->state.step;
    return 0;
}

/* The test split in batches of B; its counts of routing go into the record. The last evaluation
 * leaves the outcomes of the images as well; with train.patience, each may be the last. */
static int evaluate_split(trainer *t, size_t B, json_t *r, smoe_err *err) {
    SMOE_FREED_BY(smoe_routing_free) smoe_routing routing = {0};
    smoe_eval *eval = &t->result->test;
    size_t images = smoe_dataset_images(t->test);
    bool last = t->state.step == t->spec->train.steps || t->spec->train.patience;
    if (last && !t->outcomes) t->outcomes = smoe_alloc(2 * images, sizeof *t->outcomes);
    smoe_routing_open(&routing, t->model);
    int status =
        smoe_evaluate(t->model, t->spec, t->test, B,
                      &(smoe_eval_options){.comm = t->comm, .outcomes = t->outcomes}, eval, err);
    if (!status) smoe_routing_sum(&routing, t->comm);
    if (status) return -1;
    smoe_eval_record(eval, t->spec->eval.split, r);
    smoe_routing_record(&routing, t->spec->eval.split, r);
    return 0;
}

/* The moving average of the weights, in their place. */
static int evaluate_average(trainer *t, size_t B, json_t *r, smoe_err *err) {
    smoe_eval *eval = &t->result->average;
    const char *split = t->spec->eval.split;
    smoe_params_exchange_average(t->params);
    int status = smoe_evaluate(t->model, t->spec, t->test, B, &(smoe_eval_options){.comm = t->comm},
                               eval, err);
    smoe_params_exchange_average(t->params);
    if (status) return smoe_fail_prefix(err, "moving average");
    smoe_run_metric(r, SMOE_METRIC_EMA_LOSS, split, 0, eval->loss);
    smoe_run_metric(r, SMOE_METRIC_EMA_PRECISION, split, 0, eval->precision_at_1);
    return 0;
}

/* Says when an evaluation failed, and what may help. */
static int evaluation_failed(const trainer *t, smoe_err *err) {
    smoe_err failed = *err;
    if (failed.code != SMOE_NONFINITE) return -1;
    return smoe_fail(err, failed.code,
                     "step %" PRIu64 ": evaluation of split '%s': %s; a lower train.optimizer.lr "
                     "or train.optimizer.clip may help; %s",
                     t->state.step, t->spec->eval.split, failed.text,
                     smoe_checkpoint_left(t->options->dir));
}

static int trainer_evaluate(trainer *t, smoe_err *err) {
    size_t B = smoe_moe_eval_batch(t->spec, t->step.images);
    const smoe_eval *eval = &t->result->test;
    const smoe_train_options *options = t->options;
    SMOE_FREED char *shots = NULL;
    json_t *r = record_begin(t);
    int status = evaluate_split(t, B, r, err);
    if (!status && t->params->average) status = evaluate_average(t, B, r, err);
    if (smoe_comm_agree(t->comm, status, NULL, err)) status = -1;
    if (!status && t->fewshot)
        status = smoe_fewshot_record(t->fewshot, t->model, B, t->comm, r, &shots, err);
    if (!status && t->chief && options->draw && smoe_run_events(t->run))
        status = options->draw(t->run, t->model, t->spec, t->test, B, err);
    smoe_model_serve(t->model); /* other processes may have the experts of these images */
    if (status) {
        json_decref(r);
        return evaluation_failed(t, err);
    }
    t->state.tested = t->tested;
    t->state.fewshot = t->shown;
    if (eval->precision_at_1 > t->state.best) {
        t->state.best = eval->precision_at_1;
        t->state.best_step = t->state.step;
    }
    const char *text = strcmp(t->spec->eval.split, "train")
                           ? smoe_watch_eval(&t->watch, t->state.step, eval->loss)
                           : NULL;
    const smoe_observer *o = t->observer;
    if (o->eval) o->eval(o->user, t->state.step, t->spec->eval.split, eval);
    if (shots) trainer_say(t, shots);
    if (text) trainer_say(t, text);
    if (out_of_patience(t)) {
        snprintf(t->watch.text, sizeof t->watch.text,
                 "step %" PRIu64 ": the run ends, as train.patience %zu says; the best evaluation "
                 "is that of step %" PRIu64 ", ckpt/best",
                 t->state.step, t->spec->train.patience, t->state.best_step);
        trainer_say(t, t->watch.text);
    }
    return put_record(t, r, err);
}

static bool is_asked(const volatile sig_atomic_t *flag) {
    return flag && *flag;
}

/* Whether a checkpoint is due at this step, apart from those at the last step and after a request
 * to stop. */
static bool checkpoint_due(const trainer *t) {
    const smoe_train_spec *train = &t->spec->train;
    uint64_t step = t->state.step;
    bool best = (train->checkpoint_every || train->patience) && t->state.best_step == step;
    bool late =
        train->checkpoint_minutes > 0 && smoe_now() - t->saved >= 60 * train->checkpoint_minutes;
    return is_due(train->checkpoint_every, step) || is_due(train->keep_every, step) || best ||
           late || is_asked(t->options->save);
}

static int trainer_checkpoint(trainer *t, smoe_err *err) {
    const smoe_checkpoint_to to = {t->options->dir, t->spec->train.keep, t->comm};
    if (t->options->save) *t->options->save = 0;
    t->saved = smoe_now();
    smoe_err lost;
    if (t->run && smoe_run_log_lost(t->run, &lost) && t->observer->say)
        t->observer->say(t->observer->user, lost.text);
    return smoe_run_checkpoint(t->run, &to, t->params, t->spec, &t->state, err);
}

/* After the last checkpoint, so that a failure here loses none: a resume evaluates again. */
static int trainer_outcomes(trainer *t, smoe_err *err) {
    SMOE_FREED char *path = smoe_text_format("%s/" SMOE_RUN_OUTCOMES, t->options->dir);
    bool there = !smoe_file_is_absent(path) && !smoe_file_is_folder(path);
    unsigned again = !t->outcomes && t->alike && t->test && t->chief && !there;
    if (smoe_comm_agree(t->comm, 0, &again, err)) return -1;
    if (again) {
        json_auto_t *unused = json_object();
        int status = evaluate_split(t, smoe_moe_eval_batch(t->spec, t->step.images), unused, err);
        smoe_model_serve(t->model);
        if (smoe_comm_agree(t->comm, status, NULL, err)) return -1;
    }
    int status = t->outcomes && t->chief
                     ? smoe_run_outcomes(t->run, t->outcomes, smoe_dataset_images(t->test), err)
                     : 0;
    return smoe_comm_agree(t->comm, status, NULL, err);
}

static void trainer_tell(const trainer *t, double images_per_s) {
    if (!t->observer->step) return;
    size_t steps = t->spec->train.steps;
    double left = (double)(steps - t->state.step) * smoe_since(t->start) / (double)t->done;
    smoe_train_status s = {.step = t->state.step,
                           .steps = steps,
                           .epoch = t->epoch,
                           .loss = t->step.last.loss,
                           .precision = t->step.last.precision,
                           .lr = t->rate,
                           .images_per_s = images_per_s,
                           .seconds_left = left,
                           .state = t->watch.state};
    t->observer->step(t->observer->user, &s);
}

static void trainer_tell_begin(const trainer *t) {
    const smoe_train_begin begin = {.spec = t->spec,
                                    .dir = t->options->dir,
                                    .train = t->train,
                                    .test = t->test,
                                    .model = t->model,
                                    .step = t->state.step};
    if (t->observer->begin) t->observer->begin(t->observer->user, &begin);
}

static int trainer_loop(trainer *t, smoe_err *err) {
    const smoe_train_spec *train = &t->spec->train;
    double mark = smoe_now();
    size_t since = 0;
    t->start = t->saved = mark;
    while (!run_over(t)) {
        double begin = smoe_now();
        if (trainer_step(t, err)) return -1;
        t->durations[t->done++ % DURATIONS] = smoe_since(begin);
        bool last = t->state.step == train->steps;
        const char *text = smoe_watch_step(&t->watch, t->state.step, t->step.last.loss);
        if (text) trainer_say(t, text);
        double images_per_s = (double)(++since * train->batch_size) / smoe_since(mark);
        trainer_tell(t, images_per_s);
        int status = 0;
        if (is_logged(t, t->state.step)) {
            json_t *r = record_begin(t);
            smoe_step_record(r, &t->step, t->rate, images_per_s, smoe_loader_waited(t->loader));
            status = put_record(t, r, err);
            mark = smoe_now();
            since = 0;
        }
        if (t->test && (is_due(train->eval_every, t->state.step) || last)) {
            double paused = smoe_now();
            if (smoe_comm_agree(t->comm, status, NULL, err) || trainer_evaluate(t, err)) return -1;
            mark += smoe_now() - paused;
            last = run_over(t);
        }
        /* Checked last, so that a request that came during an evaluation need not wait for a
         * step. */
        enum { STOP = 1, SAVE = 2 }; /* if one process gets a request, all of them act on it */
        unsigned wish = (!last && is_asked(t->options->stop) ? STOP : 0) |
                        (last || checkpoint_due(t) ? SAVE : 0);
        if (smoe_comm_agree(t->comm, status, &wish, err)) return -1;
        bool stop = wish & STOP;
        if (wish && trainer_checkpoint(t, err)) return -1;
        if (stop)
            return smoe_fail(err, SMOE_STOPPED, "stopped on request after step %llu of %zu",
                             (unsigned long long)t->state.step, train->steps);
    }
    return trainer_outcomes(t, err);
}

/* ---- end ------------------------------------------------------------------------------------- */

static void log_traffic(const trainer *t) {
    const smoe_sent *sent = t->comm->sent;
    const smoe_sent *g = &sent[SMOE_TRAFFIC_GRADIENTS], *w = &sent[SMOE_TRAFFIC_WEIGHTS];
    const smoe_sent *o = &sent[SMOE_TRAFFIC_OTHER], *s = &sent[SMOE_TRAFFIC_SLOTS];
    smoe_run_log(t->run,
                 "%d processes; in %zu steps this one sent gradients: %" PRIu64 " bytes in %" PRIu64
                 " messages, weights: %" PRIu64 " in %" PRIu64 ", slots: %" PRIu64 " in %" PRIu64
                 ", other: %" PRIu64 " in %" PRIu64,
                 t->comm->size, t->done, g->bytes, g->messages, w->bytes, w->messages, s->bytes,
                 s->messages, o->bytes, o->messages);
}

/* Writes the result of the run, also of a failed one. A status that cannot be written makes the run
 * fail, unless it has failed already. */
static int trainer_finish(trainer *t, int status, smoe_err *err) {
    smoe_train_result *r = t->result;
    r->step = t->state.step;
    r->train_loss = t->done ? t->step.last.loss : NAN;
    r->step_seconds = NAN;
    r->best = t->state.best;
    r->best_step = t->state.best_step;
    memcpy(r->remark, t->watch.text, sizeof r->remark);
    if (t->done) {
        size_t n = t->done < DURATIONS ? t->done : DURATIONS;
        r->step_seconds = smoe_stats_median(t->durations, n);
    }
    if (!t->run) return status;
    if (t->comm->size > 1) log_traffic(t);
    if (status) smoe_run_log(t->run, "%s", err->text);
    const char *word = !status ? "done" : err->code == SMOE_STOPPED ? "stopped" : "failed";
    smoe_err ignored;
    return smoe_run_close(t->run, word, status ? &ignored : err) ? -1 : status;
}

int smoe_train(const smoe_spec *spec, const smoe_train_options *options, smoe_train_result *result,
               smoe_err *err) {
    trainer t = {.spec = spec, .options = options, .result = result, .alone = smoe_comm_alone};
    t.comm = options->comm ? options->comm : &t.alone;
    t.chief = !t.comm->rank;
    static const smoe_observer silent = {0};
    t.observer = t.chief && options->observer ? options->observer : &silent;
    *result = (smoe_train_result){0};
    smoe_scan scan = smoe_scan_until(options->scan, options->stop);
    t.scan = &scan;
    int status = smoe_fewshot_open(&t.fewshot, spec, &scan, err);
    if (!status) status = trainer_start(&t, err);
    if (!status) trainer_tell_begin(&t);
    if (!status) status = trainer_loop(&t, err);
    status = trainer_finish(&t, status, err);
    smoe_loader_free(t.loader);
    smoe_tokenizer_free(t.tokenizer);
    smoe_model_free(t.model);
    smoe_safetensors_free(t.init);
    smoe_safetensors_free(t.moments);
    smoe_dataset_free(t.train);
    smoe_dataset_free(t.test);
    smoe_step_free(&t.step);
    smoe_fewshot_free(t.fewshot);
    json_decref(options->env);
    free(t.order);
    free(t.durations);
    free(t.outcomes);
    free(t.names);
    return status;
}
