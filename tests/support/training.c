/* See training.h. */
#include "training.h"
#include "approx.h"
#include "train/optim.h"
#include "train/schedule.h"
#include "tensors/params_io.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void take(double seconds) {
    if (seconds > 0) usleep((useconds_t)(seconds * 1e6));
}

static void on_step(void *user, const smoe_train_status *step) {
    job *j = user;
    j->steps++;
    assert_int_equal(step->steps, j->spec.train.steps);
    assert_close(step->lr, smoe_schedule_rate(&j->spec.train, step->step - 1), 0);
    assert_true(isfinite(step->loss));
    if (step->step == j->stop_at) j->stop = 1;
    take(j->step_pause);
}

static void on_eval(void *user, uint64_t step, const char *split, const smoe_eval *eval) {
    job *j = user;
    j->evals++;
    assert_true(step > 0 && isfinite(eval->loss));
    assert_string_equal(split, j->spec.eval.split);
    take(j->eval_pause);
}

void training_begin(job *j, const char *keys) {
    *j = (job){0};
    scratch_make(&j->folder);
    scratch_path(&j->folder, j->dir, "run");
    assert_true(models_spec(&j->spec, keys));
}

void training_end(job *j) {
    smoe_spec_free(&j->spec);
    scratch_remove(&j->folder);
}

int training_run(job *j, smoe_run_mode mode, uint64_t stop_at) {
    j->stop_at = stop_at;
    j->stop = 0;
    j->steps = j->evals = 0;
    j->result = (smoe_train_result){0};
    const smoe_observer observer = {.user = j, .step = on_step, .eval = on_eval};
    const smoe_train_options options = {.dir = j->dir,
                                        .mode = mode,
                                        .init = *j->init ? j->init : NULL,
                                        .fit = SMOE_FIT_PARTIAL,
                                        .stop = &j->stop,
                                        .observer = &observer};
    return smoe_train(&j->spec, &options, &j->result, &j->err) ? (int)j->err.code : 0;
}

void training_finish(job *j, smoe_run_mode mode) {
    if (training_run(j, mode, 0)) fail_msg("%s", j->err.text);
}

void training_finish_in(job *j, char dir[SCRATCH_PATH], const char *name) {
    scratch_path(&j->folder, j->dir, name);
    training_finish(j, SMOE_RUN_NEW);
    memcpy(dir, j->dir, sizeof j->dir);
}

char *training_read(const char *dir, const char *name, size_t *size) {
    char path[2 * SCRATCH_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return scratch_read(path, size);
}

void training_assert_status(const char *dir, const char *word) {
    char *text = training_read(dir, "STATUS", NULL);
    if (strncmp(text, word, strlen(word))) fail_msg("STATUS is %s, not %s", text, word);
    free(text);
}

json_t *training_records(const char *dir) {
    json_t *all = json_array();
    char *text = training_read(dir, "metrics.jsonl", NULL), *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *record = json_loads(line, 0, NULL);
        assert_non_null(record);
        json_array_append_new(all, record);
    }
    free(text);
    return all;
}

double training_number(const json_t *record, const char *key) {
    const json_t *value = json_object_get(record, key);
    if (!json_is_number(value)) fail_msg("a record has no number %s", key);
    return json_number_value(value);
}
