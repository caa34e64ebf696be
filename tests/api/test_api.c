/*
 * The public functions against the modules they are built on. Pixels of a file equal those of the
 * data set, predictions equal those of the evaluation, and training ends with the same weights as
 * the trainer.
 */
#include "datafiles.h"
#include "folders.h"
#include "scratch.h"
#include "spec/spec.h"
#include "unit.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char folder_spec[] =
    "data: {source: image-folder, path: images, image_size: 16}\n"
    "model: {variant: none, width: 16, depth: 2, mlp: 24, heads: 2, patch_size: 4,\n"
    "        moe: {layers: last-1, experts: 4, slots_per_expert: 2}}\n"
    "train: {steps: 6, batch_size: 2, eval_every: 3, checkpoint_every: 3}\n"
    "eval: {batch_size: 2}\n";

/* Three training images and more test images, in a folder with a spec. */
typedef struct rig {
    folders *images;
    char spec[SCRATCH_PATH], run[SCRATCH_PATH];
    uint64_t steps, stop_at;
    volatile sig_atomic_t stop;
    smoe_err err;
} rig;

static int rig_setup(void **state) {
    rig *r = *state = calloc(1, sizeof *r);
    char path[SCRATCH_PATH];
    folders_setup((void **)&r->images);
    folders_lay_out(r->images, path, "images", "");
    scratch_path(&r->images->dir, r->spec, "spec.yaml");
    scratch_path(&r->images->dir, r->run, "run");
    scratch_write(r->spec, folder_spec, sizeof folder_spec - 1);
    return 0;
}

static int rig_teardown(void **state) {
    rig *r = *state;
    folders_teardown((void **)&r->images);
    free(r);
    return 0;
}

static smoe_spec *spec_of(rig *r, const char *assign) {
    smoe_spec *spec;
    const char *const overrides[] = {assign};
    if (smoe_spec_open(&spec, r->spec, overrides, assign != NULL, &r->err))
        fail_msg("%s", r->err.text);
    return spec;
}

static void on_step(void *user, uint64_t step, uint64_t steps, double loss) {
    rig *r = user;
    assert_int_equal(step, ++r->steps);
    assert_int_equal(steps, 6);
    assert_true(isfinite(loss));
    if (step == r->stop_at) r->stop = 1;
}

/* Returns 0 or the error code. */
static int train(rig *r, const char *assign, const char *dir, smoe_run_mode mode,
                 smoe_trained *trained) {
    const smoe_train_settings settings = {
        .mode = mode, .stop = &r->stop, .step = on_step, .user = r};
    smoe_spec *spec = spec_of(r, assign);
    int status = smoe_train_run(spec, dir, &settings, trained, &r->err);
    smoe_spec_close(spec);
    return status ? (int)r->err.code : 0;
}

static smoe_model *trained_model(rig *r, const char *assign) {
    smoe_model *model;
    smoe_trained trained;
    if (train(r, assign, r->run, SMOE_RUN_NEW, &trained)) fail_msg("%s", r->err.text);
    if (smoe_model_load(&model, r->run, &r->err)) fail_msg("%s", r->err.text);
    return model;
}

static void test_spec(void **state) {
    rig *r = *state;
    smoe_spec *spec = spec_of(r, "model.moe.experts=8");
    char *json = smoe_spec_json(spec);
    assert_non_null(strstr(json, "\"experts\":8"));
    free(json);
    smoe_spec_close(spec);
    const char *const wrong[] = {"model.moe.experts=0", "model.with=3"};
    assert_int_equal(smoe_spec_open(&spec, r->spec, wrong, 2, &r->err), -1);
    assert_null(spec);
    assert_int_equal(r->err.code, SMOE_USAGE);
    assert_int_equal(r->err.lines, 2);
    assert_int_equal(smoe_spec_open(&spec, "/none", NULL, 0, NULL), -1);
    smoe_spec_close(NULL);
    assert_string_equal(smoe_version(), SMOE_VERSION);
}

/* A run that is stopped after two steps and resumed has the same weights as an uninterrupted
 * one. */
static void test_training(void **state) {
    rig *r = *state;
    char parts[SCRATCH_PATH], a[SCRATCH_PATH + 64], b[SCRATCH_PATH + 64];
    smoe_trained trained;
    scratch_path(&r->images->dir, parts, "parts");
    assert_int_equal(train(r, NULL, r->run, SMOE_RUN_NEW, &trained), 0);
    assert_int_equal(r->steps, 6);
    assert_int_equal(trained.step, 6);
    assert_int_equal(trained.test.images, 3);
    assert_true(isfinite(trained.train_loss) && isfinite(trained.test.loss));
    assert_int_equal(train(r, NULL, r->run, SMOE_RUN_NEW, NULL), SMOE_USAGE);
    r->steps = 0, r->stop_at = 2;
    assert_int_equal(train(r, NULL, parts, SMOE_RUN_NEW, &trained), SMOE_STOPPED);
    assert_int_equal(trained.step, 2);
    r->stop = 0, r->stop_at = 0;
    assert_int_equal(train(r, NULL, parts, SMOE_RUN_RESUME, &trained), 0);
    assert_int_equal(trained.step, 6);
    snprintf(a, sizeof a, "%s/ckpt/latest/model.safetensors", r->run);
    snprintf(b, sizeof b, "%s/ckpt/latest/model.safetensors", parts);
    scratch_assert_same(a, b);
}

/* With few-shot evaluations, and starting from the weights of another run: the loss continues
 * from there. */
static void test_init(void **state) {
    rig *r = *state;
    smoe_model *model = trained_model(r, "eval.fewshot.shots=[1]");
    char second[SCRATCH_PATH], metrics[SCRATCH_PATH + 32];
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", r->run);
    char *text = scratch_read(metrics, NULL);
    assert_non_null(strstr(text, "test/fewshot_1\""));
    free(text);
    smoe_score first, again;
    assert_int_equal(smoe_model_evaluate(model, &first, "test", &r->err), 0);
    smoe_model_free(model);
    const smoe_train_settings settings = {.init = r->run};
    smoe_spec *spec = spec_of(r, "train.optimizer.lr=0");
    scratch_path(&r->images->dir, second, "second");
    if (smoe_train_run(spec, second, &settings, NULL, &r->err)) fail_msg("%s", r->err.text);
    smoe_spec_close(spec);
    assert_int_equal(smoe_model_load(&model, second, &r->err), 0);
    assert_int_equal(smoe_model_evaluate(model, &again, "test", &r->err), 0);
    assert_true(first.loss == again.loss);
    smoe_model_free(model);
}

/* Every image of the data, read from its file. */
static void test_pixels(void **state) {
    rig *r = *state;
    smoe_model *model = trained_model(r, NULL);
    smoe_spec *spec = spec_of(r, NULL);
    smoe_dataset *set = folders_open(spec, "train");
    float pixels[3 * 16 * 16];
    real expected[3 * 16 * 16];
    int64_t label;
    assert_int_equal(smoe_model_channels(model), 3);
    assert_int_equal(smoe_model_image_size(model), 16);
    assert_int_equal(smoe_dataset_images(set), 6);
    for (size_t i = 0; i < smoe_dataset_images(set); i++) {
        char name[256], path[SCRATCH_PATH + 256];
        snprintf(path, sizeof path, "%s/images/%s", r->images->dir.dir,
                 smoe_dataset_image_name(set, i, name, sizeof name));
        if (smoe_pixels_read(pixels, model, path, &r->err)) fail_msg("%s", r->err.text);
        folders_image(set, i, expected, &label);
        for (size_t k = 0; k < 3 * 16 * 16; k++) assert_true(pixels[k] == (float)expected[k]);
    }
    assert_int_equal(smoe_pixels_read(pixels, model, r->spec, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    assert_int_equal(strncmp(r->err.text, r->spec, strlen(r->spec)), 0);
    assert_int_equal(smoe_pixels_decode(pixels, model, r->images->file[0].bytes, 20, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_DATA);
    smoe_dataset_free(set);
    smoe_spec_close(spec);
    smoe_model_free(model);
}

/* The mean loss and the precision of the predicted images are those of the evaluation, whether
 * the images are predicted together or one by one. */
static void test_predictions(void **state) {
    rig *r = *state;
    smoe_model *model = trained_model(r, NULL);
    smoe_spec *spec = spec_of(r, NULL);
    smoe_dataset *set = folders_open(spec, "test");
    enum { IMAGES = 3, CLASSES = 2, PIXELS = 3 * 16 * 16 };
    real image[PIXELS];
    float pixels[IMAGES * PIXELS], logits[IMAGES * CLASSES], one[CLASSES], p[IMAGES * CLASSES];
    int64_t label[IMAGES];
    assert_int_equal(smoe_model_classes(model), CLASSES);
    for (size_t i = 0; i < IMAGES; i++) {
        folders_image(set, i, image, &label[i]);
        for (size_t k = 0; k < PIXELS; k++) pixels[i * PIXELS + k] = (float)image[k];
        assert_int_equal(smoe_model_predict(model, one, pixels + i * PIXELS, 1, &r->err), 0);
        memcpy(logits + i * CLASSES, one, sizeof one);
    }
    float together[IMAGES * CLASSES];
    assert_int_equal(smoe_model_predict(model, together, pixels, IMAGES, &r->err), 0);
    assert_memory_equal(together, logits, sizeof logits);
    smoe_model_probabilities(model, p, logits, IMAGES);
    double loss = 0;
    size_t correct = 0;
    for (size_t i = 0; i < IMAGES; i++) {
        loss -= log((double)p[i * CLASSES + (size_t)label[i]]) / IMAGES;
        correct += p[i * CLASSES + (size_t)label[i]] > 0.5F;
    }
    smoe_score score;
    assert_int_equal(smoe_model_evaluate(model, &score, "test", &r->err), 0);
    assert_int_equal(score.images, IMAGES);
    assert_true(fabs(score.loss - loss) < 1e-6); /* the probabilities are rounded to float */
    assert_true(score.precision_at_1 == (double)correct / IMAGES);
    assert_int_equal(smoe_model_evaluate(model, &score, "none", &r->err), -1);
    assert_int_equal(score.images, 0);
    smoe_dataset_free(set);
    smoe_spec_close(spec);
    smoe_model_free(model);
}

static void test_probabilities(void **state) {
    rig *r = *state;
    smoe_model *model = trained_model(r, NULL);
    float p[4] = {1000, 1000, 0, logf(3)}; /* 1/2 and 1/2; 1/4 and 3/4 */
    smoe_model_probabilities(model, p, p, 2);
    const float expected[4] = {0.5F, 0.5F, 0.25F, 0.75F};
    for (size_t i = 0; i < 4; i++) assert_true(fabsf(p[i] - expected[i]) < 1e-6F);
    smoe_model_free(model);
}

static void test_sigmoid(void **state) {
    rig *r = *state;
    smoe_model *model = trained_model(r, "train.loss=sigmoid");
    float p[2] = {0, logf(3)}; /* 1/(1+1); 1/(1+1/3) */
    smoe_model_probabilities(model, p, p, 1);
    assert_true(p[0] == 0.5F);
    assert_true(fabsf(p[1] - 0.75F) < 1e-6F);
    smoe_model_free(model);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

typedef struct ends {
    size_t done, failed;
} ends;

static void on_ended(void *user, const char *trial, bool done, double precision_at_1) {
    ends *e = user;
    assert_true(*trial == '0');
    assert_true(done ? precision_at_1 >= 0 && precision_at_1 <= 1 : isnan(precision_at_1));
    e->done += done;
    e->failed += !done;
}

static size_t lines_of(const char *dir, const char *name) {
    char path[SCRATCH_PATH + 32];
    size_t lines = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *text = scratch_read(path, NULL);
    for (const char *c = text; *c; c++) lines += *c == '\n';
    free(text);
    return lines;
}

/* In a process that has already used threads. Trials that are complete are not run again. */
static void test_sweep(void **state) {
    rig *r = *state;
    const char *const lists[] = {"seed=0,1", "model.moe.router=soft,uniform"};
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 64];
    ends ended = {0};
    smoe_sweep_counts counts;
    smoe_sweep_settings settings = {.jobs = 2, .ended = on_ended, .user = &ended};
    smoe_model *model = trained_model(r, NULL);
    smoe_model_free(model);
    scratch_path(&r->images->dir, dir, "sweep");
    if (smoe_sweep_run(r->spec, lists, 2, dir, &settings, &counts, &r->err))
        fail_msg("%s", r->err.text);
    assert_int_equal(ended.done, 4);
    assert_int_equal(ended.failed, 0);
    assert_int_equal(counts.trials, 4);
    assert_int_equal(counts.done, 4);
    assert_int_equal(lines_of(dir, "results.csv"), 5);
    assert_int_equal(lines_of(dir, "summary.csv"), 3);
    /* The trial with router soft and seed 0 is the run that was trained here. */
    char one[SCRATCH_PATH + 64];
    snprintf(path, sizeof path, "%s/000-router=soft,seed=0/ckpt/latest/model.safetensors", dir);
    snprintf(one, sizeof one, "%s/ckpt/latest/model.safetensors", r->run);
    scratch_assert_same(path, one);
    /* If the sweep exists already, it is refused, continued (by the spec, or as it is), or
     * replaced. */
    assert_int_equal(smoe_sweep_run(r->spec, lists, 2, dir, &settings, NULL, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_USAGE);
    settings.mode = SMOE_RUN_RESUME;
    assert_int_equal(smoe_sweep_run(r->spec, lists, 2, dir, &settings, NULL, &r->err), 0);
    assert_int_equal(smoe_sweep_run(NULL, NULL, 0, dir, NULL, &counts, &r->err), 0);
    assert_int_equal(ended.done, 4);
    assert_int_equal(counts.done, 4);
    assert_int_equal(smoe_sweep_run(NULL, lists, 2, dir, NULL, NULL, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_USAGE);
    settings.mode = SMOE_RUN_FORCE;
    assert_int_equal(smoe_sweep_run(r->spec, lists, 1, dir, &settings, &counts, &r->err), 0);
    assert_int_equal(counts.done, 2);
    assert_int_equal(ended.done, 6);
    assert_int_equal(smoe_sweep_run(r->spec, NULL, 0, dir, &settings, NULL, NULL), -1);
}

/* A program whose locale has a decimal comma: numbers in the sweep of a spec mean the same, and its
 * tables have the same bytes. */
static void test_decimal_comma(void **state) {
    static const char sweep[] =
        "sweep: {grid: {train.optimizer.lr: [1e-3, 2e-3, 0.01]}, seeds: [0, 1],\n"
        "        reference: train.optimizer.lr=0.001, equivalence: {precision_at_1: 0.5},\n"
        "        primary: [{trend: train.optimizer.lr, expect: rising}]}\n";
    rig *r = *state;
    char text[sizeof folder_spec + sizeof sweep], make[2 * SCRATCH_PATH], a[SCRATCH_PATH];
    snprintf(text, sizeof text, "%s%s", folder_spec, sweep);
    scratch_write(r->spec, text, strlen(text));
    snprintf(make, sizeof make, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
             r->images->dir.dir);
    setenv("LOCPATH", r->images->dir.dir, 1);
    if (system(make) || !setlocale(LC_ALL, "de_DE.UTF-8")) {
        puts("no locale de_DE (package locales)");
        skip();
    }
    for (int comma = 1; comma >= 0; comma--) {
        setlocale(LC_ALL, comma ? "de_DE.UTF-8" : "C");
        if (smoe_sweep_run(r->spec, NULL, 0, scratch_path(&r->images->dir, a, comma ? "de" : "c"),
                           NULL, NULL, &r->err))
            fail_msg("%s", r->err.text);
    }
    static const char *const names[] = {"differences.csv", "trends.csv", "primary.csv"};
    for (size_t i = 0; i < 3; i++) {
        char *of[2];
        for (int comma = 0; comma < 2; comma++) {
            snprintf(a, sizeof a, "%s/%s/%s", r->images->dir.dir, comma ? "de" : "c", names[i]);
            of[comma] = scratch_read(a, NULL);
            char *time = strstr(of[comma], "step_s"); /* rows of times are last */
            if (time) *time = '\0';
        }
        assert_string_equal(of[0], of[1]);
        free(of[0]);
        free(of[1]);
    }
}

/* One of two trials has no data. A stop requested before the first trial leaves both undone. */
static void test_failed_sweep(void **state) {
    rig *r = *state;
    char dir[SCRATCH_PATH], paths[SCRATCH_PATH];
    const char *const lists[] = {paths};
    ends ended = {0};
    smoe_sweep_counts counts;
    smoe_sweep_settings settings = {.ended = on_ended, .user = &ended, .stop = &r->stop};
    scratch_path(&r->images->dir, dir, "sweep");
    snprintf(paths, sizeof paths, "data.path=%s/images,nowhere", r->images->dir.dir);
    r->stop = 1;
    assert_int_equal(smoe_sweep_run(r->spec, lists, 1, dir, &settings, &counts, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_STOPPED);
    assert_int_equal(counts.trials, 2);
    assert_int_equal(counts.done + counts.failed + ended.done + ended.failed, 0);
    r->stop = 0;
    settings.mode = SMOE_RUN_RESUME;
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(smoe_sweep_run(r->spec, lists, 1, dir, &settings, &counts, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_RUNTIME);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(smoe_sweep_run(r->spec, lists, 1, dir, &settings, &counts, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_PARTIAL);
    assert_non_null(strstr(r->err.text, "001-path=nowhere: "));
    assert_int_equal(counts.done, 1);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(ended.failed, 1);
}

static void refused(rig *r, const char *path, smoe_code code, const char *message) {
    smoe_model *model = (smoe_model *)r;
    assert_int_equal(smoe_model_load(&model, path, &r->err), -1);
    assert_null(model);
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.text, message)) fail_msg("%s", r->err.text);
}

/* A safetensors file without tensors: the length of the header, and the header. */
static void write_header(const char *path, const char *json) {
    char file[128] = {(char)strlen(json)};
    memcpy(file + 8, json, strlen(json));
    scratch_write(path, file, 8 + strlen(json));
}

static void test_refused(void **state) {
    rig *r = *state;
    char path[SCRATCH_PATH];
    refused(r, "/none", SMOE_DATA, "/none: neither a run");
    refused(r, r->spec, SMOE_DATA, r->spec);
    scratch_path(&r->images->dir, path, "foreign.safetensors");
    write_header(path, "{}");
    refused(r, path, SMOE_DATA, "has no spec");
    write_header(path, "{\"__metadata__\":{\"smoe.spec\":\"{}\"}}");
    refused(r, path, SMOE_DATA, "head.weight");
    write_header(path, "{\"__metadata__\":{\"smoe.spec\":\"{width: 1}\"}}");
    refused(r, path, SMOE_DATA, "unknown");
    smoe_model_free(NULL);
}

/* What a program may pass by mistake is refused, and a run that is there stays. */
static void test_misuse(void **state) {
    rig *r = *state;
    const smoe_train_settings garbage = {.mode = (smoe_run_mode)7};
    const smoe_sweep_settings other = {.mode = (smoe_run_mode)-1};
    smoe_model *model = trained_model(r, NULL);
    smoe_spec *spec = spec_of(r, NULL), *none;
    smoe_trained trained;
    smoe_score score;
    assert_int_equal(smoe_train_run(spec, r->run, &garbage, &trained, &r->err), -1);
    assert_non_null(strstr(r->err.text, "run: mode 7 is not one of smoe_run_mode"));
    assert_true(trained.step == 0 && isnan(trained.train_loss));
    assert_int_equal(smoe_model_evaluate(model, &score, "train", &r->err), 0);
    assert_int_equal(smoe_train_run(spec, NULL, NULL, NULL, &r->err), -1);
    assert_non_null(strstr(r->err.text, "directory is NULL"));
    assert_int_equal(smoe_train_run(NULL, "run", NULL, NULL, &r->err), -1);
    assert_int_equal(smoe_spec_open(&none, NULL, NULL, 0, &r->err), -1);
    assert_null(none);
    assert_int_equal(smoe_model_evaluate(model, &score, NULL, &r->err), -1);
    assert_int_equal(smoe_sweep_run(r->spec, NULL, 0, r->run, &other, NULL, &r->err), -1);
    assert_non_null(strstr(r->err.text, "mode -1 is not"));
    assert_int_equal(r->err.code, SMOE_USAGE);
    smoe_spec_close(spec);
    smoe_model_free(model);
}

/* A model that compares images with captions: its features are no logits. */
static void test_pairs(void **state) {
    static const char *const overrides[] = {"data.source=shapes", "data.path=null",
                                            "data.limit=8",       "train.loss=contrastive",
                                            "text.context=16",    "data.test_size=8"};
    rig *r = *state;
    smoe_spec *spec;
    smoe_model *model;
    smoe_score score;
    float pixels[3 * 16 * 16] = {0}, logits[64] = {5};
    if (smoe_spec_open(&spec, r->spec, overrides, sizeof overrides / sizeof *overrides, &r->err) ||
        smoe_train_run(spec, r->run, NULL, NULL, &r->err) ||
        smoe_model_load(&model, r->run, &r->err))
        fail_msg("%s", r->err.text);
    assert_int_equal(smoe_model_classes(model), 0);
    assert_int_equal(smoe_model_predict(model, logits, pixels, 1, &r->err), -1);
    assert_int_equal(r->err.code, SMOE_USAGE);
    assert_non_null(strstr(r->err.text, "compares images with captions and has no classes"));
    smoe_model_probabilities(model, logits, logits, 1);
    assert_true(logits[0] == 5);
    assert_int_equal(smoe_model_evaluate(model, &score, "test", &r->err), 0);
    assert_int_equal(score.images, 8);
    smoe_spec_close(spec);
    smoe_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        unit_test_with(test_spec, rig),          unit_test_with(test_training, rig),
        unit_test_with(test_init, rig),          unit_test_with(test_pixels, rig),
        unit_test_with(test_predictions, rig),   unit_test_with(test_probabilities, rig),
        unit_test_with(test_sigmoid, rig),       unit_test_with(test_sweep, rig),
        unit_test_with(test_decimal_comma, rig), unit_test_with(test_failed_sweep, rig),
        unit_test_with(test_refused, rig),       unit_test_with(test_misuse, rig),
        unit_test_with(test_pairs, rig),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
