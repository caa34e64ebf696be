/*
 * Training from the outside: a run directory and what is in it. Eight images are learnt by heart;
 * auxiliary losses stand apart; a run stopped and resumed at any steps is, byte for byte, the run that
 * never stopped, whatever the threads; a loss that is no number ends the run and names its place;
 * evaluation does not depend on its batches.
 */
#include "base/threads.h"
#include "close.h"
#include "models.h"
#include "scratch.h"
#include "train/trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A spec, where it is trained, and what came of it. */
typedef struct job {
    scratch folder;
    char dir[SCRATCH_PATH]; /* of the run, in the folder */
    smoe_spec spec;
    uint64_t stop_at; /* when to ask it to stop; 0: never */
    volatile sig_atomic_t stop;
    size_t steps, evals; /* times the observer was called */
    smoe_train_result result;
    smoe_err err;
} job;

static void on_step(void *user, const smoe_step *step) {
    job *j = user;
    j->steps++;
    assert_true(isfinite(step->loss) && step->lr >= 0);
    if (step->step == j->stop_at) j->stop = 1;
}

static void on_eval(void *user, uint64_t step, const char *split, const smoe_eval *eval) {
    job *j = user;
    j->evals++;
    assert_true(step > 0 && isfinite(eval->loss));
    assert_string_equal(split, "test");
}

static void begin(job *j, const char *keys) {
    *j = (job){0};
    scratch_make(&j->folder);
    scratch_path(&j->folder, j->dir, "run");
    assert_true(models_spec(&j->spec, keys));
}

static void end(job *j) {
    smoe_spec_free(&j->spec);
    scratch_remove(&j->folder);
}

/* 0, or the code of the failure. */
static int run(job *j, smoe_run_mode mode, uint64_t stop_at) {
    j->stop_at = stop_at;
    j->stop = 0;
    j->steps = j->evals = 0;
    j->result = (smoe_train_result){0};
    const smoe_observer observer = {.user = j, .step = on_step, .eval = on_eval};
    const smoe_train_options options = {
        .dir = j->dir, .mode = mode, .stop = &j->stop, .observer = &observer};
    return smoe_train(&j->spec, &options, &j->result, &j->err) ? (int)j->err.code : 0;
}

static void finishes(job *j, smoe_run_mode mode) {
    if (run(j, mode, 0)) fail_msg("%s", j->err.text);
}

/* A run of that name; its path in `dir`. */
static void finishes_in(job *j, char dir[SCRATCH_PATH], const char *name) {
    scratch_path(&j->folder, j->dir, name);
    finishes(j, SMOE_RUN_NEW);
    memcpy(dir, j->dir, sizeof j->dir);
}

/* A file of a run directory, in fresh memory. */
static char *read_in(const char *dir, const char *name, size_t *size) {
    char path[2 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return scratch_read(path, size);
}

static void assert_status(const char *dir, const char *word) {
    char *text = read_in(dir, "STATUS", NULL);
    if (strncmp(text, word, strlen(word))) fail_msg("STATUS is %s, not %s", text, word);
    free(text);
}

/* ---- learning ---------------------------------------------------------------------------------- */

#define SMALL_RUN                                                                    \
    "data.image_size=16 data.channels=3 data.classes=0 model.width=16 model.mlp=24 " \
    "model.moe.capacity=1.5 train.batch_size=8 "

static void eight_images_by_heart(void **state) {
    (void)state;
    static const char *const keys[] = {
        SMALL_RUN "data.limit=8 train.steps=150 train.optimizer.lr=0.01 "
                  "train.optimizer.head_weight_decay=0 train.eval_every=0 train.checkpoint_every=0",
        SMALL_RUN "data.limit=8 train.steps=150 train.optimizer.lr=0.01 train.loss=sigmoid "
                  "train.optimizer.head_weight_decay=0 train.eval_every=0 train.checkpoint_every=0 "
                  "model.head=token model.moe.router=experts-choice",
        SMALL_RUN "data.limit=8 train.steps=300 train.optimizer.lr=0.05 train.optimizer.name=sgd "
                  "train.optimizer.head_weight_decay=0 train.eval_every=0 train.checkpoint_every=0 "
                  "model.head=map model.moe.router=identity",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        job j;
        begin(&j, keys[i]);
        finishes(&j, SMOE_RUN_NEW);
        if (!(j.result.train_loss < 0.05)) fail_msg("%s: loss %g", keys[i], j.result.train_loss);
        assert_int_equal(j.steps, j.spec.train.steps);
        assert_int_equal(j.evals, 0);
        assert_status(j.dir, "done");
        end(&j);
    }
}

/* The first record of one step of training with `keys`; free it. */
static json_t *first_record(const char *keys) {
    job j;
    begin(&j, keys);
    finishes(&j, SMOE_RUN_NEW);
    char *text = read_in(j.dir, "metrics.jsonl", NULL);
    json_t *record = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(record);
    free(text);
    end(&j);
    return record;
}

/* The auxiliary loss stands by itself, as it is before its weight; the loss is without it. The first
 * step's are computed before the weight could change anything. */
#define ONE_STEP SMALL_RUN "data.limit=8 train.steps=1 train.eval_every=0 model.moe.group_images=8 "

static void auxiliary_losses_apart(void **state) {
    (void)state;
    json_t *light = first_record(ONE_STEP "model.moe.router=tokens-choice model.moe.aux_weight=0"),
           *heavy = first_record(ONE_STEP "model.moe.router=tokens-choice model.moe.aux_weight=9"),
           *none = first_record(ONE_STEP "model.moe.router=experts-choice model.moe.aux_weight=9");
    static const char *const same[] = {"train/loss", "train/aux_loss"};
    for (int i = 0; i < 2; i++) {
        double a = json_number_value(json_object_get(light, same[i]));
        double b = json_number_value(json_object_get(heavy, same[i]));
        assert_true(a > 0);
        assert_close(b, a, 0);
    }
    double a = json_number_value(json_object_get(light, "train/gradient_norm"));
    double b = json_number_value(json_object_get(heavy, "train/gradient_norm"));
    assert_true(b > a); /* what is trained on has it */
    assert_null(json_object_get(none, "train/aux_loss"));
    json_decref(light);
    json_decref(heavy);
    json_decref(none);
}

/* ---- resuming ---------------------------------------------------------------------------------- */

/* Everything random is on; five batches are a pass over the data, so that passes are crossed. */
#define RANDOM_RUN                                                                                \
    SMALL_RUN "data.limit=40 train.steps=13 train.log_every=1 train.eval_every=4 "                \
              "train.checkpoint_every=4 eval.batch_size=7 data.augment.crop=inception "           \
              "data.augment.flip=true data.augment.randaugment.n=2 data.augment.randaugment.m=9 " \
              "data.augment.mixup=0.3 model.dropout=0.1 model.moe.expert_dropout=0.1 "

static const char *const random_runs[] = {
    RANDOM_RUN "model.moe.router=tokens-choice model.moe.k=2 model.moe.group_images=4",
    RANDOM_RUN "model.moe.router=soft train.optimizer.name=sgd train.loss=sigmoid",
    /* endless data, a schedule that moves */
    SMALL_RUN "train.steps=13 train.log_every=2 train.eval_every=0 train.checkpoint_every=0 "
              "train.schedule.name=rsqrt train.schedule.warmup=3 train.schedule.cooldown=4",
};
enum { RANDOM_RUNS = sizeof random_runs / sizeof *random_runs };

static void same_file(const char *a, const char *b, const char *name) {
    char x[2 * SCRATCH_PATH], y[2 * SCRATCH_PATH];
    snprintf(x, sizeof x, "%s/%s", a, name);
    snprintf(y, sizeof y, "%s/%s", b, name);
    scratch_assert_same(x, y);
}

/* The records of metrics.jsonl without what a clock says. */
static json_t *records_of(const char *dir) {
    json_t *all = json_array();
    char *text = read_in(dir, "metrics.jsonl", NULL), *rest = text;
    static const char *const clocks[] = {"wall_s", "train/images_per_s", "train/waited_s"};
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *r = json_loads(line, 0, NULL);
        assert_non_null(r);
        for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) json_object_del(r, clocks[i]);
        json_array_append_new(all, r);
    }
    free(text);
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
    same_metrics(a, b, spec->train.steps / spec->train.log_every);
}

/* Stopped after each of these steps, the last one ends it; other threads every time. */
static void interrupted(job *j, const uint64_t *stops) {
    smoe_run_mode mode = SMOE_RUN_NEW;
    size_t steps = j->spec.train.steps;
    for (size_t i = 0;; i++, mode = SMOE_RUN_RESUME) {
        smoe_threads_set(1 + (int)(i % 3));
        int code = run(j, mode, stops[i]);
        uint64_t before = i ? stops[i - 1] : 0;
        if (!stops[i]) {
            assert_int_equal(code, 0);
            assert_int_equal(j->steps, steps - before);
            assert_status(j->dir, "done");
            break;
        }
        char expected[80];
        snprintf(expected, sizeof expected, "stopped on request after step %zu of %zu",
                 (size_t)stops[i], steps);
        assert_int_equal(code, SMOE_STOPPED);
        assert_string_equal(j->err.text, expected);
        assert_int_equal(j->steps, stops[i] - before);
        assert_int_equal(j->result.step, stops[i]);
        assert_status(j->dir, "stopped");
        free(read_in(j->dir, "ckpt/latest/model.safetensors", NULL));
    }
    smoe_threads_set(2);
}

static void resuming_is_never_having_stopped(void **state) {
    (void)state;
    static const uint64_t stops[][6] = {{3, 4, 9, 12, 0}, {1, 0}, {5, 10, 0}, {8, 0}};
    for (size_t i = 0; i < RANDOM_RUNS; i++) {
        char whole[SCRATCH_PATH], name[32];
        job j;
        begin(&j, random_runs[i]);
        finishes_in(&j, whole, "whole");
        for (size_t k = 0; k < sizeof stops / sizeof *stops; k++) {
            snprintf(name, sizeof name, "parts%zu", k);
            scratch_path(&j.folder, j.dir, name);
            interrupted(&j, stops[k]);
            same_run(whole, j.dir, &j.spec);
        }
        end(&j);
    }
}

/* Another seed is another run: the comparison above can fail. */
static void seeds_and_threads(void **state) {
    (void)state;
    char one[SCRATCH_PATH], two[SCRATCH_PATH], other[SCRATCH_PATH];
    job j;
    begin(&j, random_runs[0]);
    smoe_threads_set(1);
    finishes_in(&j, one, "one");
    smoe_threads_set(2);
    finishes_in(&j, two, "two");
    same_run(one, two, &j.spec);
    j.spec.seed++;
    finishes_in(&j, other, "other");
    size_t n, m;
    char *a = read_in(one, "ckpt/latest/model.safetensors", &n);
    char *b = read_in(other, "ckpt/latest/model.safetensors", &m);
    assert_true(n == m && memcmp(a, b, n));
    free(a);
    free(b);
    end(&j);
}

/* Resuming a run that is done does nothing to it. */
static void resuming_what_is_done(void **state) {
    (void)state;
    job j;
    begin(&j, random_runs[2]);
    finishes(&j, SMOE_RUN_NEW);
    char *before = read_in(j.dir, "metrics.jsonl", NULL);
    finishes(&j, SMOE_RUN_RESUME);
    assert_int_equal(j.steps, 0);
    char *after = read_in(j.dir, "metrics.jsonl", NULL);
    assert_string_equal(before, after);
    assert_status(j.dir, "done");
    free(before);
    free(after);
    end(&j);
}

/* ---- what goes wrong ---------------------------------------------------------------------------- */

/* Steps of 1e38 make weights whose sums are no floats. The head starts at zero and the first step
 * moves it alone, the second step all others: the third cannot be taken. */
static void a_loss_that_is_no_number(void **state) {
    (void)state;
    job j;
    begin(&j, SMALL_RUN "train.optimizer.clip=0 train.checkpoint_every=1 train.eval_every=0 "
                        "train.log_every=1");
    j.spec.train.optimizer.lr = 1e38;
    assert_int_equal(run(&j, SMOE_RUN_NEW, 0), SMOE_NONFINITE);
    static const char *const words[] = {"step 3:", "the loss is ", "layer patch_embed,",
                                        "parameter patch_embed."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(j.err.text, words[i])) fail_msg("'%s' does not say '%s'", j.err.text, words[i]);
    assert_status(j.dir, "failed");
    free(read_in(j.dir, "ckpt/step_00000002/model.safetensors", NULL)); /* the last one is there */
    assert_int_equal(j.result.step, 2);
    end(&j);
}

/* A place where no directory can be: an error at once, before any step. */
static void no_place_to_write(void **state) {
    (void)state;
    char file[SCRATCH_PATH];
    job j;
    begin(&j, SMALL_RUN);
    scratch_write(scratch_path(&j.folder, file, "file"), "x", 1);
    scratch_path(&j.folder, j.dir, "file/run");
    assert_int_equal(run(&j, SMOE_RUN_NEW, 0), SMOE_RUNTIME);
    assert_non_null(strstr(j.err.text, file));
    assert_int_equal(j.steps, 0);
    end(&j);
}

/* ---- evaluation --------------------------------------------------------------------------------- */

enum { EVALUATED = 23, CLASSES = 10 };

typedef struct collected {
    real logits[EVALUATED * CLASSES];
    int64_t labels[EVALUATED];
    size_t images, batches;
} collected;

static int collect(void *user, const real *logits, const int64_t *labels, size_t images,
                   size_t classes, smoe_err *err) {
    collected *c = user;
    (void)err;
    assert_int_equal(classes, CLASSES);
    assert_true(c->images + images <= EVALUATED);
    memcpy(c->logits + c->images * classes, logits, images * classes * sizeof *logits);
    memcpy(c->labels + c->images, labels, images * sizeof *labels);
    c->images += images;
    c->batches++;
    return 0;
}

static int refuse(void *user, const real *logits, const int64_t *labels, size_t images,
                  size_t classes, smoe_err *err) {
    (void)user, (void)logits, (void)labels, (void)images, (void)classes;
    return smoe_fail(err, SMOE_RUNTIME, "the sink is full");
}

/* Loss and precision of the logits that were handed out, by their definitions. */
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

static void evaluation_does_not_depend_on_batches(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 3, 7, 23, 64};
    models_rig r;
    smoe_err err;
    smoe_dataset *set;
    collected first = {.images = 0};
    smoe_eval eval, again;
    /* the classes of shapes, and its images, all 23 of them */
    assert_true(models_make(&r, "data.channels=3 data.classes=10 data.limit=23", 64, false));
    assert_int_equal(smoe_dataset_open(&set, &r.spec, "test", &err), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        collected c = {.images = 0};
        if (smoe_evaluate(r.model, &r.spec, set, sizes[i], collect, &c, &again, &err))
            fail_msg("%s", err.text);
        assert_int_equal(c.images, EVALUATED);
        assert_int_equal(c.batches, (EVALUATED + sizes[i] - 1) / sizes[i]);
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
    assert_int_equal(smoe_evaluate(r.model, &r.spec, set, 7, refuse, NULL, &again, &err), -1);
    assert_string_equal(err.text, "the sink is full");
    smoe_dataset_free(set);
    models_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_images_by_heart),
        cmocka_unit_test(auxiliary_losses_apart),
        cmocka_unit_test(resuming_is_never_having_stopped),
        cmocka_unit_test(seeds_and_threads),
        cmocka_unit_test(resuming_what_is_done),
        cmocka_unit_test(a_loss_that_is_no_number),
        cmocka_unit_test(no_place_to_write),
        cmocka_unit_test(evaluation_does_not_depend_on_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
