/* Running one trial of a sweep: if it is stopped it stays open and can be resumed; when done it
 * is measured. */
#include "approx.h"
#include "sweep_folder.h"
#include "sweep/trial_run.h"
#include "tensors/npy.h"
#include "sweep/trial.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char two_steps[] =
    "name: c\ndata: {image_size: 8, limit: 8}\n"
    "model: {width: 8, depth: 1, mlp: 8, heads: 1, patch_size: 4, moe: {layers: none}}\n"
    "train: {steps: 2, batch_size: 8, log_every: 1, eval_every: 1}\n"
    "sweep: {seeds: [0, 1]}\n";

/* Their means equal the values in the trial's table: exactly for shares, to single precision for
 * losses. */
static void assert_outcomes(const smoe_sweep *sweep, size_t i) {
    const json_t *result = json_object_get(sweep->trial[i].outcome, "result");
    char *path = smoe_trial_outcomes(sweep, i);
    double correct = 0, loss = 0;
    size_t dim[2];
    void *data;
    smoe_err err;
    if (smoe_npy_read(path, "<f4", &data, 2, dim, &err)) fail_msg("%s", err.text);
    const float *outcome = data;
    assert_int_equal(dim[0], 8);
    assert_int_equal(dim[1], 2);
    for (size_t k = 0; k < 8; k++) {
        assert_true(outcome[2 * k] == 0 || outcome[2 * k] == 1);
        correct += (double)outcome[2 * k];
        loss += (double)outcome[2 * k + 1];
    }
    assert_close(json_number_value(json_object_get(result, "precision_at_1")), correct / 8, 0);
    assert_close(json_number_value(json_object_get(result, "test_loss")), loss / 8, 1e-6);
    free(data);
    free(path);
}

/* A manifest of a version without some keys has the same trials as one with their defaults, but not
 * with other values. */
static void keys_that_were_added(void **state) {
    smoe_sweep sweep = sweep_folder_trials(two_steps);
    json_t *spec = json_loads(sweep.trial[0].spec, 0, NULL);
    smoe_trial was = {.name = (char[]){"0"}};
    assert_int_equal(json_object_del(json_object_get(spec, "train"), "label_smoothing"), 0);
    assert_int_equal(json_object_del(json_object_get(spec, "data"), "holdout"), 0);
    assert_int_equal(smoe_trial_set_spec(&was, spec), 0);
    assert_true(was.hash != sweep.trial[0].hash);
    assert_true(smoe_trial_same(&was, &sweep.trial[0]));
    assert_false(smoe_trial_same(&was, &sweep.trial[1])); /* another seed */
    free(was.spec);
    json_object_set_new(json_object_get(spec, "train"), "label_smoothing", json_real(0.1));
    assert_int_equal(smoe_trial_set_spec(&was, spec), 0);
    assert_false(smoe_trial_same(&was, &sweep.trial[0]));
    free(was.spec);
    json_decref(spec);
    smoe_sweep_free(&sweep);
}

static void stopped_then_done(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(two_steps);
    smoe_err err = {0};
    volatile sig_atomic_t stop = 1;
    smoe_trial_options options = {.train.stop = &stop};
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(smoe_trial_run(&sweep, 1, &options, &err), -1);
    assert_int_equal(err.code, SMOE_STOPPED);
    assert_string_equal(err.text, "stopped on request after step 1 of 2");
    assert_int_equal(smoe_trial_look(&sweep, 1, &err), 0);
    assert_int_equal(sweep.trial[1].state, SMOE_TRIAL_OPEN);
    char *outcomes = smoe_trial_outcomes(&sweep, 1);
    assert_int_equal(access(outcomes, F_OK), -1); /* only the last evaluation writes outcomes */
    free(outcomes);
    stop = 0;
    if (smoe_trial_run(&sweep, 1, &options, &err)) fail_msg("%s", err.text);
    assert_int_equal(smoe_trial_look(&sweep, 1, &err), 0);
    assert_int_equal(sweep.trial[1].state, SMOE_TRIAL_DONE);
    const json_t *result = json_object_get(sweep.trial[1].outcome, "result");
    double step = json_number_value(json_object_get(result, "step_s"));
    assert_true(step > 0);
    assert_close(json_number_value(json_object_get(result, "train_s")), 2 * step, 0);
    assert_outcomes(&sweep, 1);
    smoe_sweep_free(&sweep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_were_added),
        unit_test_with(stopped_then_done, sweep_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
