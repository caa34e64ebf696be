/*
 * What training does, against its definition: steps repeated by hand from its parts, with weights
 * and records compared; starting from a file; a gradient that is not finite; which checkpoints
 * exist and what the result says about them; measured times.
 */
#include "approx.h"
#include "training.h"
#include "train/task.h"
#include "train/optim.h"
#include "tensors/safetensors.h"
#include "data/loader.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- steps by hand --------------------------------------------------------------------------- */

/* The parts that the trainer puts together. */
typedef struct parts {
    const smoe_spec *spec;
    smoe_dataset *set;
    smoe_loader *loader;
    smoe_model *model;
    smoe_params *params;
    size_t B, N;
} parts;

static parts parts_make(const smoe_spec *spec) {
    parts p = {.spec = spec, .B = spec->train.batch_size};
    smoe_err err;
    smoe_loader_options options = {.batch_size = p.B,
                                   .train = true,
                                   .multi = smoe_task_of(spec->train.loss)->multi,
                                   .seed = spec->seed};
    assert_int_equal(smoe_dataset_open(&p.set, spec, "train", NULL, &err), 0);
    p.N = smoe_dataset_classes(p.set);
    assert_int_equal(smoe_loader_open(&p.loader, p.set, spec, &options, &err), 0);
    assert_int_equal(smoe_model_create(&p.model, spec, p.N, &err), 0);
    p.params = smoe_model_params(p.model);
    assert_int_equal(smoe_optim_allocate(p.params, &spec->train, &err), 0);
    assert_int_equal(smoe_model_reserve(p.model, p.B, true, &err), 0);
    smoe_params_init(p.params, spec->seed);
    return p;
}

static void parts_free(parts *p) {
    smoe_loader_free(p->loader);
    smoe_model_free(p->model);
    smoe_dataset_free(p->set);
}

/* One step; the record of the run must have its values, to the bit. */
static void step_by_hand(parts *p, size_t step, const json_t *record) {
    const smoe_train_spec *train = &p->spec->train;
    smoe_err err;
    smoe_batch batch;
    assert_int_equal(smoe_loader_next(p->loader, &batch, &err), 1);
    smoe_pass pass = {.train = true, .seed = p->spec->seed, .step = step, .images = p->B};
    real *dlogits = calloc(p->B * p->N, sizeof *dlogits);
    double *rows = calloc(p->B, sizeof *rows);
    smoe_task_sums sums = {0};
    smoe_model_forward(p->model, batch.pixels, &pass);
    smoe_task_measure(smoe_task_of(train->loss), &sums, dlogits, rows,
                      &(const smoe_task_batch){.logits = smoe_model_logits(p->model),
                                               .target = batch.target,
                                               .B = p->B,
                                               .N = p->N,
                                               .whole = p->B,
                                               .smoothing = train->label_smoothing});
    double aux = smoe_model_losses(p->model).aux;
    smoe_model_backward(p->model, dlogits, &pass);
    double norm = smoe_optim_norm(p->params);
    smoe_optim_step(p->params, train, step, norm);
    free(dlogits);
    free(rows);
    assert_int_equal(training_number(record, "step"), step + 1);
    assert_close(training_number(record, "train/loss"), sums.loss / (double)p->B, 0);
    assert_close(training_number(record, "train/precision_at_1"),
                 (double)sums.correct / (double)p->B, 0);
    assert_close(training_number(record, "train/gradient_norm"), norm, 0);
    if (aux > 0) assert_close(training_number(record, "train/aux_loss"), aux, 0);
}

/* The weights of the last checkpoint are these, byte for byte, after that many updates. */
static void assert_checkpoint(const job *j, const smoe_params *params, const char *updates) {
    char path[2 * SCRATCH_PATH];
    smoe_safetensors *file;
    smoe_err err;
    snprintf(path, sizeof path, "%s/ckpt/latest/model.safetensors", j->dir);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_int_equal(smoe_safetensors_count(file), params->count);
    for (size_t i = 0; i < params->count; i++) {
        const smoe_param *param = &params->param[i];
        const smoe_tensor *tensor = smoe_safetensors_find(file, param->name);
        if (!tensor || tensor->size != param->size ||
            memcmp(tensor->data, params->w + param->offset, param->size * sizeof(real)))
            fail_msg("%s is not what three steps make of it", param->name);
    }
    smoe_safetensors_free(file);
    snprintf(path, sizeof path, "%s/ckpt/latest/state.safetensors", j->dir);
    assert_int_equal(smoe_safetensors_open(&file, path, &err), 0);
    assert_string_equal(smoe_safetensors_metadata(file, "smoe.optimizer_steps"), updates);
    smoe_safetensors_free(file);
}

/* Another seed, and everything that it affects; two batches are a pass over the data. */
#define THREE_STEPS                                                                           \
    JOBS_SMALL "seed=5 data.limit=16 train.steps=3 train.log_every=1 train.eval_every=0 "     \
               "train.schedule.name=linear train.schedule.warmup=2 model.dropout=0.1 "        \
               "train.optimizer.lr=0.004 data.augment.crop=inception data.augment.mixup=0.3 " \
               "data.augment.cutmix=1 train.label_smoothing=0.1 model.drop_path=0.2 "

static void three_steps_by_hand(void **state) {
    static const char *const keys[] = {
        THREE_STEPS "model.moe.router=tokens-choice model.moe.noise=1 model.moe.expert_dropout=0.1",
        THREE_STEPS "model.moe.router=soft train.optimizer.name=sgd train.loss=sigmoid",
    };
    static const double rates[] = {0.002, 0.004, 0.004}; /* lr/2, lr, lr (3 - 2)/(3 - 2) */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        job j;
        training_begin(&j, keys[i]);
        training_finish(&j, SMOE_RUN_NEW);
        parts p = parts_make(&j.spec);
        json_t *records = training_records(j.dir);
        assert_int_equal(json_array_size(records), 3);
        for (size_t step = 0; step < 3; step++) {
            const json_t *record = json_array_get(records, step);
            step_by_hand(&p, step, record);
            assert_close(training_number(record, "train/lr"), rates[step], 1e-17);
            assert_close(training_number(record, "epoch"), (double)step / 2,
                         0); /* before the batch */
        }
        assert_checkpoint(&j, p.params, "3");
        json_decref(records);
        parts_free(&p);
        training_end(&j);
    }
}

/* ---- starting from a file -------------------------------------------------------------------- */

typedef struct filled { /* a tensor with a single value */
    const char *name;
    int ndim;
    size_t dim[2];
    float value;
} filled;

/* Training starts from a file with these tensors. */
static void init_from(job *j, const filled *list, size_t count) {
    smoe_tensor tensor[4];
    float *data[4];
    smoe_err err;
    assert_true(count <= 4);
    for (size_t i = 0; i < count; i++) {
        size_t size = list[i].dim[0] * (list[i].ndim == 2 ? list[i].dim[1] : 1);
        data[i] = calloc(size, sizeof *data[i]);
        for (size_t k = 0; k < size; k++) data[i][k] = list[i].value;
        tensor[i] = (smoe_tensor){.name = list[i].name,
                                  .dtype = SMOE_DTYPE_F32,
                                  .ndim = list[i].ndim,
                                  .dim = {list[i].dim[0], list[i].dim[1]},
                                  .size = size,
                                  .data = data[i]};
    }
    scratch_path(&j->folder, j->init, "init.safetensors");
    assert_int_equal(smoe_safetensors_write(j->init, &(const smoe_content){tensor, count}, &err),
                     0);
    for (size_t i = 0; i < count; i++) free(data[i]);
}

/* A file without tensors for this model, or with another shape, is refused before any step. */
static void files_that_do_not_fit(void **state) {
    static const filled bad[] = {{"x", 1, {4, 0}, 1}, {"norm.weight", 1, {17, 0}, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        job j;
        training_begin(&j, JOBS_SMALL "train.steps=1 train.eval_every=0");
        init_from(&j, &bad[i], 1);
        assert_int_equal(training_run(&j, SMOE_RUN_NEW, 0), SMOE_DATA);
        assert_non_null(strstr(j.err.text, j.init));
        assert_int_equal(j.steps, 0);
        training_end(&j);
    }
}

/* The last norm is zero, so logits are the head's bias: loss and forward pass are finite. In the
 * backward pass nine of ten wrong classes add 3e38/4 each, which exceeds the largest float. */
static void a_gradient_that_is_no_number(void **state) {
    static const filled start[] = {{"norm.weight", 1, {16, 0}, 0},
                                   {"norm.bias", 1, {16, 0}, 0},
                                   {"head.weight", 2, {10, 16}, 3e38F},
                                   {"head.bias", 1, {10, 0}, 100}};
    job j;
    training_begin(&j, JOBS_SMALL "train.batch_size=4 train.loss=sigmoid train.eval_every=0 "
                                  "train.checkpoint_every=1");
    init_from(&j, start, sizeof start / sizeof *start);
    assert_int_equal(training_run(&j, SMOE_RUN_NEW, 0), SMOE_NONFINITE);
    if (!strstr(j.err.text, "step 1: the gradient is not finite: parameter "))
        fail_msg("%s", j.err.text);
    assert_null(strstr(j.err.text, "parameter all"));
    assert_int_equal(j.result.step, 0);
    char ckpt[2 * SCRATCH_PATH];
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", j.dir);
    assert_int_equal(access(ckpt, F_OK), -1);
    training_end(&j);
}

/* ---- checkpoints and the result -------------------------------------------------------------- */

/* The step of the first record with the highest precision, which is returned in *best; *equals:
 * the number of later ones that equal it. */
static uint64_t best_of(const char *dir, double *best, size_t *equals) {
    json_t *records = training_records(dir);
    uint64_t step = 0;
    *best = -1;
    *equals = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        if (!json_object_get(record, "test/loss")) continue;
        double precision = training_number(record, "test/precision_at_1");
        *equals = precision > *best ? 0 : *equals + (precision == *best);
        if (!(precision > *best)) continue;
        *best = precision;
        step = (uint64_t)training_number(record, "step");
    }
    json_decref(records);
    return step;
}

/* With checkpoints the best evaluation has one, whatever their interval; without, only the last
 * step has. Ten images have only eleven precisions: the best step, neither first nor last, has
 * equals after it, and the first counts. */
static void checkpoints_and_the_result(void **state) {
    static const char *const keys[] = {
        JOBS_SMALL
        "seed=1 data.limit=10 train.steps=21 train.eval_every=1 train.checkpoint_every=1000",
        JOBS_SMALL
        "seed=1 data.limit=10 train.steps=21 train.eval_every=1 train.checkpoint_every=0",
    };
    for (size_t i = 0; i < 2; i++) {
        job j;
        training_begin(&j, keys[i]);
        training_finish(&j, SMOE_RUN_NEW);
        double best;
        size_t equals;
        uint64_t step = best_of(j.dir, &best, &equals);
        assert_true(step > 1 && step < 21 && equals);
        assert_int_equal(j.result.best_step, step);
        assert_close(j.result.best, best, 0);
        assert_int_equal(j.result.classes, 10);
        char link[2 * SCRATCH_PATH], target[32] = "", expected[32];
        snprintf(link, sizeof link, "%s/ckpt/best", j.dir);
        snprintf(expected, sizeof expected, "step_%08d", (int)step);
        assert_int_equal(readlink(link, target, sizeof target - 1) > 0, !i);
        if (!i) assert_string_equal(target, expected);
        snprintf(link, sizeof link, "%s/ckpt", j.dir);
        assert_int_equal(scratch_entries(link), i ? 2 : 4); /* step and link, of one or two */
        training_finish(&j, SMOE_RUN_RESUME); /* nothing is left to do, and the result is known */
        assert_true(isnan(j.result.train_loss) && isnan(j.result.step_seconds));
        assert_int_equal(j.result.step, 21);
        assert_int_equal(j.result.best_step, step);
        training_end(&j);
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Two steps of eight images per record. The observer waits 20 ms between them, which count, and
 * 200 ms after each evaluation, which do not: no window is shorter than 20 ms, and none longer than
 * the time since the record before without those 200 ms, however slow the machine is. If the metric
 * did not count the eight images of a step, windows would be eight times as long. */
static void images_per_second(void **state) {
    job j;
    training_begin(&j,
                   JOBS_SMALL "data.limit=16 train.steps=6 train.log_every=2 train.eval_every=2 "
                              "train.checkpoint_every=0");
    j.step_pause = 0.02;
    j.eval_pause = 0.2;
    training_finish(&j, SMOE_RUN_NEW);
    json_t *records = training_records(j.dir);
    size_t seen = 0;
    double before = 0; /* the run's age at the record before, and what does not count since then */
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        if (!json_object_get(record, "train/loss")) continue;
        double window = 2 * 8 / training_number(record, "train/images_per_s");
        double wall = training_number(record, "wall_s");
        if (!(window > 0.02 && window < wall - before))
            fail_msg("two steps in %g s, of %g s", window, wall - before);
        before = wall + j.eval_pause;
        seen++;
    }
    assert_int_equal(seen, 3);
    json_decref(records);
    training_end(&j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_steps_by_hand),
        cmocka_unit_test(files_that_do_not_fit),
        cmocka_unit_test(a_gradient_that_is_no_number),
        cmocka_unit_test(checkpoints_and_the_result),
        cmocka_unit_test(images_per_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
