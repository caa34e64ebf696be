/*
 * Training from outside: a run directory and its contents. Eight images are memorised; auxiliary
 * losses are separate from the loss; a run that is stopped and resumed at any steps equals, byte
 * for byte, the run that never stopped, for any number of threads; a loss that is not finite ends
 * the run and names its place; evaluation does not depend on its batches.
 */
#include "base/threads.h"
#include "approx.h"
#include "training.h"
#include "data/loader.h"
#include "train/evaluate.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- learning -------------------------------------------------------------------------------- */

static void eight_images_are_learnt(void **state) {
    static const char *const keys[] = {
        JOBS_SMALL
        "data.limit=8 train.steps=150 train.optimizer.lr=0.01 "
        "train.optimizer.head_weight_decay=0 train.eval_every=0 train.checkpoint_every=0",
        JOBS_SMALL
        "data.limit=8 train.steps=150 train.optimizer.lr=0.01 train.loss=sigmoid "
        "train.optimizer.head_weight_decay=0 train.eval_every=0 train.checkpoint_every=0 "
        "model.head=token model.moe.router=experts-choice",
        JOBS_SMALL
        "data.limit=8 train.steps=300 train.optimizer.lr=0.05 train.optimizer.name=sgd "
        "train.optimizer.head_weight_decay=0 train.eval_every=0 train.checkpoint_every=0 "
        "model.head=map model.moe.router=identity",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        job j;
        training_begin(&j, keys[i]);
        training_finish(&j, SMOE_RUN_NEW);
        if (!(j.result.train_loss < 0.05)) fail_msg("%s: loss %g", keys[i], j.result.train_loss);
        assert_int_equal(j.steps, j.spec.train.steps);
        assert_int_equal(j.evals, 0);
        training_assert_status(j.dir, "done");
        training_end(&j);
    }
}

/* The first record of one training step with `keys`; free it. */
static json_t *first_record(const char *keys) {
    job j;
    training_begin(&j, keys);
    training_finish(&j, SMOE_RUN_NEW);
    json_t *records = training_records(j.dir), *first = json_incref(json_array_get(records, 0));
    assert_non_null(first);
    json_decref(records);
    training_end(&j);
    return first;
}

/* The auxiliary loss is recorded separately, before its weight is applied; the loss does not
 * contain it. Those of the first step are computed before the weight could have an effect. */
#define ONE_STEP \
    JOBS_SMALL "data.limit=8 train.steps=1 train.eval_every=0 model.moe.group_images=8 "

static void auxiliary_losses_apart(void **state) {
    json_t *light = first_record(ONE_STEP "model.moe.router=tokens-choice model.moe.aux_weight=0"),
           *heavy = first_record(ONE_STEP "model.moe.router=tokens-choice model.moe.aux_weight=9"),
           *none = first_record(ONE_STEP "model.moe.router=experts-choice model.moe.aux_weight=9");
    static const char *const same[] = {"train/loss", "train/aux_loss"};
    for (int i = 0; i < 2; i++) {
        assert_true(training_number(light, same[i]) > 0);
        assert_close(training_number(heavy, same[i]), training_number(light, same[i]), 0);
    }
    assert_true(training_number(heavy, "train/gradient_norm") >
                training_number(light, "train/gradient_norm")); /* what is minimised has it */
    assert_null(json_object_get(none, "train/aux_loss"));
    json_decref(light);
    json_decref(heavy);
    json_decref(none);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* All random parts are on; five batches are a pass over the data, so that ends of passes are
 * crossed. */
#define RANDOM_RUN                                                                                 \
    JOBS_SMALL "data.limit=40 train.steps=13 train.log_every=1 train.eval_every=4 "                \
               "train.checkpoint_every=4 eval.batch_size=7 data.augment.crop=inception "           \
               "data.augment.flip=true data.augment.randaugment.n=2 data.augment.randaugment.m=9 " \
               "data.augment.mixup=0.3 data.augment.cutmix=0.5 train.label_smoothing=0.1 "         \
               "model.dropout=0.1 model.moe.expert_dropout=0.1 model.drop_path=0.3 "

static const char *const random_runs[] = {
    RANDOM_RUN "model.moe.router=tokens-choice model.moe.k=2 model.moe.group_images=4 "
               "model.moe.priority=random",
    RANDOM_RUN "model.moe.router=soft model.moe.soft_noise=0.2 train.optimizer.name=sgd "
               "train.loss=sigmoid",
    /* endless data, a schedule that changes */
    JOBS_SMALL "train.steps=13 train.log_every=2 train.eval_every=0 train.checkpoint_every=0 "
               "train.schedule.name=rsqrt train.schedule.warmup=3 train.schedule.cooldown=4",
    /* frozen tensors, and some with other settings */
    RANDOM_RUN "model.moe.router=soft model.moe.scale_form=exp model.moe.scale_init=sqrt_d "
               "model.moe.experts_init=shared model.head=map model.qk_norm=true "
               "model.qk_norm_form=vmoe train.schedule.start=0 "
               "train.optimizer.groups=[{\"match\":\"blocks.0.*\",\"frozen\":true},"
               "{\"match\":\"*embed*\",\"frozen\":true},"
               "{\"match\":\"*.router.*\",\"lr\":2,\"decay\":0.1}]",
};
enum { RANDOM_RUNS = sizeof random_runs / sizeof *random_runs };

static void same_file(const char *a, const char *b, const char *name) {
    char x[2 * SCRATCH_PATH], y[2 * SCRATCH_PATH];
    snprintf(x, sizeof x, "%s/%s", a, name);
    snprintf(y, sizeof y, "%s/%s", b, name);
    scratch_assert_same(x, y);
}

/* The records of metrics.jsonl without times, and without the checksum, which includes those. */
static json_t *records_of(const char *dir) {
    static const char *const clocks[] = {"wall_s",       "train/images_per_s", "train/waited_s",
                                         "test/infer_s", "val/infer_s",        "chain"};
    json_t *all = training_records(dir);
    for (size_t i = 0; i < json_array_size(all); i++)
        for (size_t k = 0; k < sizeof clocks / sizeof *clocks; k++)
            json_object_del(json_array_get(all, i), clocks[k]);
    return all;
}

static void same_metrics(const char *a, const char *b, size_t least) {
    json_t *x = records_of(a), *y = records_of(b);
    assert_true(json_array_size(x) >= least);
    assert_int_equal(json_array_size(x), json_array_size(y));
    for (size_t i = 0; i < json_array_size(x); i++)
        if (!json_equal(json_array_get(x, i), json_array_get(y, i)))
            fail_msg("record %zu: %s and %s", i, json_dumps(json_array_get(x, i), 0),
                     json_dumps(json_array_get(y, i), 0));
    json_decref(x);
    json_decref(y);
}

static void same_run(const char *a, const char *b, const smoe_spec *spec) {
    same_file(a, b, "ckpt/latest/model.safetensors");
    same_file(a, b, "ckpt/latest/state.safetensors");
    if (spec->train.eval_every) same_file(a, b, "ckpt/best/model.safetensors");
    same_metrics(a, b, spec->train.patience ? 1 : spec->train.steps / spec->train.log_every);
}

/* Stopped after each of these steps; the last one ends the run; another number of threads every
 * time. */
static void interrupted(job *j, const uint64_t *stops) {
    smoe_run_mode mode = SMOE_RUN_NEW;
    size_t steps = j->spec.train.steps;
    for (size_t i = 0;; i++, mode = SMOE_RUN_RESUME) {
        smoe_threads_set(1 + (int)(i % 3));
        int code = training_run(j, mode, stops[i]);
        uint64_t before = i ? stops[i - 1] : 0;
        if (!stops[i]) {
            assert_int_equal(code, 0);
            assert_int_equal(j->steps, steps - before);
            training_assert_status(j->dir, "done");
            break;
        }
        char expected[80];
        snprintf(expected, sizeof expected, "stopped on request after step %zu of %zu",
                 (size_t)stops[i], steps);
        assert_int_equal(code, SMOE_STOPPED);
        assert_string_equal(j->err.text, expected);
        assert_int_equal(j->steps, stops[i] - before);
        assert_int_equal(j->result.step, stops[i]);
        training_assert_status(j->dir, "stopped");
        free(training_read(j->dir, "ckpt/latest/model.safetensors", NULL));
    }
    smoe_threads_set(2);
}

static void resuming_is_never_having_stopped(void **state) {
    static const uint64_t stops[][6] = {{3, 4, 9, 12, 0}, {1, 0}, {5, 10, 0}, {8, 0}};
    for (size_t i = 0; i < RANDOM_RUNS; i++) {
        char whole[SCRATCH_PATH], name[32];
        job j;
        training_begin(&j, random_runs[i]);
        training_finish_in(&j, whole, "whole");
        for (size_t k = 0; k < sizeof stops / sizeof *stops; k++) {
            snprintf(name, sizeof name, "parts%zu", k);
            scratch_path(&j.folder, j.dir, name);
            interrupted(&j, stops[k]);
            same_run(whole, j.dir, &j.spec);
        }
        training_end(&j);
    }
}

/* At rate 0 no evaluation is better than the first one: with patience 2 it is the last but two. So
 * it is after a resume, which has nothing to do once the run is over. */
static void patience_ends_a_run(void **state) {
    static const uint64_t stops[] = {1, 3, 5};
    char whole[SCRATCH_PATH];
    job j;
    training_begin(&j, JOBS_SMALL "data.limit=20 train.steps=12 train.log_every=4 "
                                  "train.eval_every=2 train.checkpoint_every=4 eval.split=val");
    j.spec.data.holdout = 0.1;
    j.spec.train.optimizer.lr = 0;
    j.spec.train.patience = 2;
    training_finish_in(&j, whole, "whole");
    assert_int_equal(j.result.step, 6);
    assert_int_equal(j.result.best_step, 2);
    assert_non_null(strstr(j.result.remark, "step 6: the run ends, as train.patience 2 says; the "
                                            "best evaluation is that of step 2"));
    free(training_read(whole, "outcomes.npy", NULL));
    char *records = training_read(whole, "metrics.jsonl", NULL);
    char *last = strstr(records, "{\"step\":6,");
    assert_non_null(last);
    assert_non_null(strstr(last, "\"train/loss\":"));
    free(records);
    for (size_t k = 0; k < sizeof stops / sizeof *stops; k++) {
        scratch_path(&j.folder, j.dir, (const char *[]){"a", "b", "c"}[k]);
        assert_int_equal(training_run(&j, SMOE_RUN_NEW, stops[k]), SMOE_STOPPED);
        training_finish(&j, SMOE_RUN_RESUME);
        assert_int_equal(j.result.step, 6);
        same_run(whole, j.dir, &j.spec);
        training_finish(&j, SMOE_RUN_RESUME);
        assert_int_equal(j.steps, 0);
        assert_int_equal(j.result.step, 6);
    }
    j.spec.train.patience = 0;
    training_finish(&j, SMOE_RUN_RESUME);
    assert_int_equal(j.result.step, 12);
    /* the best checkpoint is kept even if no others are */
    j.spec.train.patience = 2;
    j.spec.train.checkpoint_every = 0;
    training_finish_in(&j, whole, "no checkpoints");
    assert_int_equal(j.result.step, 6);
    free(training_read(whole, "ckpt/best/model.safetensors", NULL));
    free(training_read(whole, "ckpt/step_00000002/model.safetensors", NULL));
    training_end(&j);
}

/* Another seed is another run: the comparison above can fail. What the seed affects is in
 * test_train_steps.c. */
static void seeds_and_threads(void **state) {
    char one[SCRATCH_PATH], two[SCRATCH_PATH], other[SCRATCH_PATH];
    job j;
    training_begin(&j, random_runs[0]);
    smoe_threads_set(1);
    training_finish_in(&j, one, "one");
    smoe_threads_set(2);
    training_finish_in(&j, two, "two");
    same_run(one, two, &j.spec);
    j.spec.seed++;
    training_finish_in(&j, other, "other");
    size_t n, m;
    char *a = training_read(one, "ckpt/latest/model.safetensors", &n);
    char *b = training_read(other, "ckpt/latest/model.safetensors", &m);
    assert_true(n == m && memcmp(a, b, n));
    free(a);
    free(b);
    training_end(&j);
}

/* Resuming a finished run changes nothing. */
static void resuming_what_is_done(void **state) {
    job j;
    training_begin(&j, random_runs[2]);
    training_finish(&j, SMOE_RUN_NEW);
    char *before = training_read(j.dir, "metrics.jsonl", NULL);
    training_finish(&j, SMOE_RUN_RESUME);
    assert_int_equal(j.steps, 0);
    char *after = training_read(j.dir, "metrics.jsonl", NULL);
    assert_string_equal(before, after);
    training_assert_status(j.dir, "done");
    free(before);
    free(after);
    training_end(&j);
}

/* ---- what is recorded ------------------------------------------------------------------------ */

/* Evaluations carry the name of their split; metrics of the training batch keep theirs. */
static void records_say_their_split(void **state) {
    static const char *const rows[][2] = {{"eval.split=test", "test"},
                                          {"eval.split=val", "val"},
                                          {"eval.split=train", "train_split"}};
    for (size_t i = 0; i < 3; i++) {
        char keys[300];
        job j;
        snprintf(keys, sizeof keys,
                 JOBS_SMALL "model.moe.router=identity data.limit=20 train.steps=4 "
                            "train.log_every=2 train.eval_every=2 %s",
                 rows[i][0]);
        training_begin(&j, keys);
        training_finish(&j, SMOE_RUN_NEW);
        json_t *records = training_records(j.dir);
        assert_int_equal(json_array_size(records), 4);
        for (size_t k = 0; k < 4; k++) { /* training, evaluation, ... */
            json_t *record = json_array_get(records, k), *value;
            const char *key;
            bool loss = false, dropped = false;
            json_object_foreach(record, key, value) {
                smoe_metric_place at;
                if (!strcmp(key, "chain")) continue;
                if (!smoe_metric_read(&at, key)) fail_msg("'%s' is no metric", key);
                assert_string_equal(
                    at.split,
                    k % 2 && smoe_metrics[at.metric].scope == SMOE_OF_SPLIT ? rows[i][1] : "");
                assert_true(smoe_metrics[at.metric].scope !=
                            (k % 2 ? SMOE_OF_STEP : SMOE_OF_SPLIT));
                loss |= at.metric == (k % 2 ? SMOE_METRIC_LOSS : SMOE_METRIC_TRAIN_LOSS);
                dropped |= at.metric == SMOE_METRIC_DROPPED;
            }
            assert_true(loss && dropped);
        }
        json_decref(records);
        training_end(&j);
    }
}

/* wall_s continues from the last record that is kept. */
static void time_goes_on_over_resumes(void **state) {
    job j;
    char path[2 * SCRATCH_PATH], text[1000];
    training_begin(&j, JOBS_SMALL "data.limit=20 train.steps=4 train.log_every=1 "
                                  "train.eval_every=0 train.checkpoint_every=2");
    assert_int_equal(training_run(&j, SMOE_RUN_NEW, 3), SMOE_STOPPED);
    json_t *records = training_records(j.dir);
    assert_int_equal(json_array_size(records), 3);
    double last = 0;
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        double wall = training_number(json_array_get(records, i), "wall_s");
        assert_true(wall > last && wall < 1000);
        last = wall;
        used += (size_t)snprintf(text + used, sizeof text - used, "{\"step\":%zu,\"wall_s\":%zu}\n",
                                 i + 1, 1000 + i);
    }
    json_decref(records);
    snprintf(path, sizeof path, "%s/metrics.jsonl", j.dir);
    scratch_write(path, text, used);
    training_finish(&j, SMOE_RUN_RESUME);
    records = training_records(j.dir);
    assert_int_equal(json_array_size(records), 4);
    last = training_number(json_array_get(records, 3), "wall_s");
    assert_true(last > 1002 && last < 2000);
    json_decref(records);
    training_end(&j);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Steps of 1e38 make weights whose sums overflow. The head starts at zero and the first step
 * changes only the head, the second step all others: the third step is impossible. */
static void a_loss_that_is_no_number(void **state) {
    job j;
    training_begin(&j,
                   JOBS_SMALL "train.optimizer.clip=0 train.checkpoint_every=0 train.eval_every=0 "
                              "train.log_every=1");
    j.spec.train.optimizer.lr = 1e38;
    assert_int_equal(training_run(&j, SMOE_RUN_NEW, 0), SMOE_NONFINITE);
    static const char *const words[] = {"step 3:", "the loss is ", "layer patch_embed,",
                                        "parameter patch_embed."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(j.err.text, words[i])) fail_msg("'%s' does not say '%s'", j.err.text, words[i]);
    training_assert_status(j.dir, "failed");
    assert_int_equal(j.result.step, 2);
    /* with checkpoints: the weights of the second step are not saved, those of the first are
     * there */
    j.spec.train.checkpoint_every = 1;
    assert_int_equal(training_run(&j, SMOE_RUN_FORCE, 0), SMOE_NONFINITE);
    if (!strstr(j.err.text,
                "step 2: tensor patch_embed.proj.weight is not finite and was not saved"))
        fail_msg("%s", j.err.text);
    training_assert_status(j.dir, "failed");
    free(training_read(j.dir, "ckpt/step_00000001/model.safetensors", NULL));
    training_end(&j);
}

/* A path where no directory can be created: an error at once, before any step. */
static void no_directory_can_be_created(void **state) {
    char file[SCRATCH_PATH];
    job j;
    training_begin(&j, JOBS_SMALL);
    scratch_write(scratch_path(&j.folder, file, "file"), "x", 1);
    scratch_path(&j.folder, j.dir, "file/run");
    assert_int_equal(training_run(&j, SMOE_RUN_NEW, 0), SMOE_RUNTIME);
    assert_non_null(strstr(j.err.text, file));
    assert_int_equal(j.steps, 0);
    training_end(&j);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

enum { EVALUATED = 23, CLASSES = 10 };

typedef struct collected {
    real logits[EVALUATED * CLASSES];
    int64_t labels[EVALUATED];
    size_t images, batches;
    size_t order[EVALUATED]; /* which image came when */
} collected;

static int collect(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                   smoe_err *err) {
    collected *c = user;
    (void)err;
    assert_int_equal(classes, CLASSES);
    for (size_t b = 0; b < batch->images; b++) {
        size_t image = (size_t)batch->index[b];
        assert_true(image < EVALUATED);
        memcpy(c->logits + image * classes, logits + b * classes, classes * sizeof *logits);
        c->labels[image] = batch->label[b];
        c->order[c->images++] = image;
    }
    c->batches++;
    return 0;
}

static int refuse(void *user, const smoe_batch *batch, const real *logits, size_t classes,
                  smoe_err *err) {
    (void)user, (void)batch, (void)logits, (void)classes;
    return smoe_fail(err, SMOE_RUNTIME, "the sink is full");
}

/* Loss and precision of the logits passed to the observer, by their definitions. */
static void assert_evaluation(const collected *c, const smoe_eval *eval) {
    double loss = 0;
    size_t right = 0;
    for (size_t i = 0; i < EVALUATED; i++) {
        const real *l = c->logits + i * CLASSES;
        double sum = 0;
        size_t best = 0;
        for (size_t k = 0; k < CLASSES; k++) {
            sum += exp((double)l[k]);
            if (l[k] > l[best]) best = k;
        }
        loss += log(sum) - (double)l[c->labels[i]];
        right += best == (size_t)c->labels[i];
    }
    assert_int_equal(eval->images, EVALUATED);
    assert_close(eval->loss, loss / EVALUATED, 1e-6);
    assert_close(eval->precision_at_1, (double)right / EVALUATED, 1e-12);
}

/* The outcomes of images are those of their logits, at the image's place in the data set. */
static void outcomes_are_those_of_the_images(void **state) {
    models_rig r;
    smoe_err err;
    smoe_dataset *set;
    smoe_eval eval;
    collected c = {.images = 0};
    float outcome[2 * EVALUATED];
    memset(outcome, 0xff, sizeof outcome);
    assert_true(models_make(&r, "data.channels=3 data.classes=10 data.limit=23", 7, false));
    assert_int_equal(smoe_dataset_open(&set, &r.spec, "test", NULL, &err), 0);
    if (smoe_evaluate(r.model, &r.spec, set, 7,
                      &(smoe_eval_options){.outcomes = outcome, .sink = collect, .user = &c}, &eval,
                      &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < EVALUATED; i++) {
        const real *l = c.logits + i * CLASSES;
        double sum = 0, others = -INFINITY;
        for (size_t k = 0; k < CLASSES; k++) {
            sum += exp((double)l[k]);
            if (k != (size_t)c.labels[i]) others = fmax(others, (double)l[k]);
        }
        double own = (double)l[c.labels[i]];
        assert_true((double)outcome[2 * i] == (own > others));
        assert_close((double)outcome[2 * i + 1], log(sum) - own, 1e-6);
    }
    smoe_dataset_free(set);
    models_free(&r);
}

/* If images do not influence one another, they have the same logits, and the split the same
 * loss, to the bit, however they are batched and ordered. */
static void evaluation_does_not_depend_on_batches_and_order(void **state) {
    static const size_t sizes[] = {1, 3, 7, 23, 64};
    models_rig r;
    smoe_err err;
    smoe_dataset *set;
    collected first = {.images = 0};
    smoe_eval eval = {0}, again;
    /* the classes of shapes, and all 23 of its images */
    assert_true(models_make(&r, "data.channels=3 data.classes=10 data.limit=23", 64, false));
    assert_int_equal(smoe_dataset_open(&set, &r.spec, "test", NULL, &err), 0);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        r.spec.eval.order = i % 2 ? SMOE_ORDER_FILE : SMOE_ORDER_SHUFFLED;
        collected c = {.images = 0};
        if (smoe_evaluate(r.model, &r.spec, set, sizes[i / 2],
                          &(smoe_eval_options){.sink = collect, .user = &c}, &again, &err))
            fail_msg("%s", err.text);
        assert_int_equal(c.images, EVALUATED);
        assert_int_equal(c.batches, (EVALUATED + sizes[i / 2] - 1) / sizes[i / 2]);
        uint32_t order[EVALUATED];
        smoe_dataset_order(order, EVALUATED, &r.spec);
        for (size_t k = 0; k < EVALUATED; k++) {
            assert_int_equal(c.order[k], order[k]);
            if (i % 2) assert_int_equal(c.order[k], k);
        }
        assert_evaluation(&c, &again);
        if (!i) first = c, eval = again;
        assert_memory_equal(first.logits, c.logits, sizeof c.logits);
        assert_memory_equal(first.labels, c.labels, sizeof c.labels);
        assert_close(again.loss, eval.loss, 0);
    }
    for (size_t i = 0; i < EVALUATED; i++) { /* in the order of the data set */
        real pixels[3 * 8 * 8], target[CLASSES];
        int64_t label;
        assert_int_equal(smoe_dataset_image(set, i, false, pixels, target, &label, &err), 0);
        assert_int_equal(label, first.labels[i]);
    }
    assert_int_equal(
        smoe_evaluate(r.model, &r.spec, set, 7, &(smoe_eval_options){.sink = refuse}, &again, &err),
        -1);
    assert_string_equal(err.text, "the sink is full");
    smoe_dataset_free(set);
    models_free(&r);
}

/* With one sigmoid per class, every shape in an image is a label of it, in evaluation too. */
static void evaluation_knows_all_labels(void **state) {
    models_rig r;
    smoe_err err;
    smoe_dataset *set;
    smoe_eval eval;
    collected c = {.images = 0};
    double loss = 0, labels = 0;
    assert_true(models_make(&r, "data.channels=3 data.classes=10 data.limit=23 train.loss=sigmoid",
                            23, false));
    assert_int_equal(smoe_dataset_open(&set, &r.spec, "test", NULL, &err), 0);
    if (smoe_evaluate(r.model, &r.spec, set, 7, &(smoe_eval_options){.sink = collect, .user = &c},
                      &eval, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < EVALUATED; i++) {
        real pixels[3 * 8 * 8], target[CLASSES];
        int64_t label;
        assert_int_equal(smoe_dataset_image(set, i, true, pixels, target, &label, &err), 0);
        for (size_t k = 0; k < CLASSES; k++) {
            double l = (double)c.logits[i * CLASSES + k];
            loss += log1p(exp(l)) - (double)target[k] * l;
            labels += (double)target[k];
        }
    }
    assert_true(labels > EVALUATED);
    assert_close(eval.loss, loss / EVALUATED, 1e-6 * eval.loss); /* of single precision */
    smoe_dataset_free(set);
    models_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_images_are_learnt),
        cmocka_unit_test(auxiliary_losses_apart),
        cmocka_unit_test(resuming_is_never_having_stopped),
        cmocka_unit_test(seeds_and_threads),
        cmocka_unit_test(resuming_what_is_done),
        cmocka_unit_test(records_say_their_split),
        cmocka_unit_test(patience_ends_a_run),
        cmocka_unit_test(time_goes_on_over_resumes),
        cmocka_unit_test(a_loss_that_is_no_number),
        cmocka_unit_test(no_directory_can_be_created),
        cmocka_unit_test(outcomes_are_those_of_the_images),
        cmocka_unit_test(evaluation_does_not_depend_on_batches_and_order),
        cmocka_unit_test(evaluation_knows_all_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
