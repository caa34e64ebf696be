/* The manifest of a sweep: what it preserves, who may join, damage to it, and claims between
 * processes. */
#include "raw_safetensors.h"
#include "sweep_folder.h"
#include "sweep/trial.h"
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL "model: {width: 8, depth: 2, mlp: 8, heads: 1, moe: {experts: 4}}\n"

static const char grid[] =
    "name: g\n" SMALL
    "sweep: {grid: {model.moe.experts: [2, 4], model.moe.router: [soft, uniform]}, "
    "seeds: [0, 1]}\n";

static void the_manifest_gives_the_trials_back(void **state) {
    sweep_folder *w = *state;
    smoe_sweep made = sweep_folder_trials(grid), read;
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&made, w->dir, false, &err), 0);
    assert_int_equal(smoe_sweep_open(&read, w->dir, &err), 0);
    assert_int_equal(read.trials, made.trials);
    assert_int_equal(read.seed, made.seed);
    assert_string_equal(read.name, "g");
    for (size_t i = 0; i < made.trials; i++) {
        assert_string_equal(read.trial[i].name, made.trial[i].name);
        assert_string_equal(read.trial[i].spec, made.trial[i].spec);
        assert_true(read.trial[i].hash == made.trial[i].hash);
        assert_int_equal(read.trial[i].state, SMOE_TRIAL_OPEN);
        for (size_t c = 0; c < made.columns; c++)
            assert_string_equal(read.trial[i].value[c], made.trial[i].value[c]);
    }
    smoe_sweep_free(&read);
    smoe_sweep_free(&made);
}

static void folders_are_made_exclusively(void **state) {
    sweep_folder *w = *state;
    smoe_sweep first = sweep_folder_trials(grid), second = sweep_folder_trials(grid);
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&first, w->dir, false, &err), 0);
    assert_int_equal(smoe_sweep_create(&second, w->dir, false, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, "exists already; --resume continues a sweep, --extend adds "
                                     "cells to one, --force replaces it"));
    assert_int_equal(smoe_sweep_create(&second, w->dir, true, &err), 0);
    smoe_sweep_free(&second);
    second = sweep_folder_trials(SMALL "name: g\nsweep: {seeds: [0, 1, 2]}\n");
    assert_int_equal(smoe_sweep_create(&second, w->dir, true, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, "is another sweep: it has 8 cells, the spec now makes 3"));
    smoe_sweep_free(&second);
    char text[600];
    snprintf(text, sizeof text, "%strain: {steps: 77}\n", grid);
    second = sweep_folder_trials(text);
    assert_int_equal(smoe_sweep_create(&second, w->dir, true, &err), -1);
    assert_non_null(strstr(err.text, "is another sweep: cell 000-"));
    assert_non_null(strstr(err.text, " train.steps=77 (was 1000)"));
    smoe_sweep_free(&second);
    smoe_sweep_free(&first);
    assert_int_equal(smoe_sweep_open(&first, "/nowhere/at/all", &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, "no sweep there"));
}

/* A sweep that ended before its manifest was complete leaves a folder that counts as empty,
 * until it contains something else. */
static void a_folder_without_a_manifest_is_not_begun(void **state) {
    sweep_folder *w = *state;
    char claims[SCRATCH_PATH + 16], half[SCRATCH_PATH + 32], note[SCRATCH_PATH + 32];
    smoe_err err;
    snprintf(claims, sizeof claims, "%s/claims", w->dir);
    snprintf(half, sizeof half, "%s/cells.jsonl.tmp-7-0", w->dir);
    snprintf(note, sizeof note, "%s/note.txt", claims);
    assert_int_equal(mkdir(w->dir, 0777) || mkdir(claims, 0777), 0);
    scratch_write(half, "x", 1);
    scratch_write(note, "y", 1);
    smoe_sweep sweep = sweep_folder_trials(grid);
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), -1);
    assert_int_equal(smoe_sweep_extend(&sweep, w->dir, &err), -1);
    assert_int_equal(smoe_sweep_remove(w->dir, &err), -1);
    assert_int_equal(unlink(note), 0);
    assert_int_equal(smoe_sweep_remove(w->dir, &err), 0);
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(access(half, F_OK), -1);
    smoe_sweep_free(&sweep);
}

/* A sweep that evaluates a run belongs to one checkpoint of it; one over another checkpoint cannot
 * join. */
static void another_checkpoint_is_another_sweep(void **state) {
    sweep_folder *w = *state;
    static const char *const name[] = {"model-a", "model-a", "model-b"};
    for (int i = 0; i < 3; i++) {
        smoe_sweep sweep = sweep_folder_trials(SMALL);
        smoe_err err = {0};
        char path[SCRATCH_PATH];
        size_t size;
        char *empty = raw_safetensors_file("{}", "", 0, &size);
        scratch_write(scratch_path(&w->folder, path, name[i]), empty, size);
        free(empty);
        sweep.run = strdup("r");
        sweep.checkpoint = strdup(path);
        assert_int_equal(smoe_sweep_create(&sweep, w->dir, true, &err), i == 2 ? -1 : 0);
        if (i == 2)
            assert_non_null(strstr(err.text, "is another sweep: its evaluations are different"));
        smoe_sweep_free(&sweep);
    }
}

static int claim(const smoe_sweep *sweep, size_t trial, smoe_claim *held) {
    smoe_err err;
    return smoe_trial_claim(sweep, trial, held, SMOE_CLAIM_LEASE, NULL, &err);
}

/* A process that holds a claim until it is killed; it holds the claim when this function
 * returns. */
static pid_t holder(const smoe_sweep *sweep, size_t trial) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        smoe_claim held;
        char word = claim(sweep, trial, &held) == 1 ? 'y' : 'n';
        if (write(ready[1], &word, 1) != 1) _exit(1);
        for (;;) pause();
    }
    char word = 0;
    assert_int_equal(read(ready[0], &word, 1), 1);
    assert_int_equal(word, 'y');
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* Files of the sweep are removed, files of others stay. Nothing is removed while a trial runs,
 * or from a folder that is not a sweep. */
static void a_sweep_can_be_removed(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(grid);
    smoe_err err;
    smoe_claim held;
    char trial[2 * SCRATCH_PATH], note[SCRATCH_PATH + 16];
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    char *run = smoe_trial_dir(&sweep, 2);
    assert_int_equal(mkdir(run, 0777), 0);
    snprintf(trial, sizeof trial, "%s/spec.yaml", run);
    scratch_write(trial, "x", 1);
    snprintf(note, sizeof note, "%s/note.txt", w->dir);
    scratch_write(note, "y", 1);
    pid_t other = holder(&sweep, 5);
    assert_int_equal(smoe_sweep_remove(w->dir, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, "another process runs cell 005-"));
    assert_int_equal(access(trial, F_OK), 0);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(smoe_sweep_remove(w->dir, &err), 0);
    assert_int_equal(access(note, F_OK), 0);
    assert_int_equal(access(run, F_OK), -1);
    assert_int_equal(smoe_sweep_remove(w->dir, &err), 0); /* as after a kill */
    smoe_sweep again = sweep_folder_trials(grid);
    assert_int_equal(smoe_sweep_create(&again, w->dir, true, &err), 0);
    assert_int_equal(claim(&again, 5, &held), 1);
    smoe_claim_release(&held);
    assert_int_equal(smoe_sweep_remove("/nowhere/at/all", &err), 0);
    free(run);
    smoe_sweep_free(&again);
    smoe_sweep_free(&sweep);
}

/* A manifest in which a character of a spec is changed, a line is cut, or a line is added is
 * refused. */
static void a_damaged_manifest_is_refused(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(grid);
    smoe_err err;
    char path[SCRATCH_PATH + 16];
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    smoe_sweep_free(&sweep);
    snprintf(path, sizeof path, "%s/cells.jsonl", w->dir);
    size_t size;
    char *text = scratch_read(path, &size), *at = strstr(text, "\"depth\":2");
    assert_non_null(at);
    at[8] = '3';
    scratch_write(path, text, size);
    assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "cells.jsonl:2: not a line of a sweep, or changed"));
    at[8] = '2';
    static const char *const names[] = {"/00-", ".00-", "0/0-"}; /* would lead outside the folder */
    at = strstr(text, "000-experts");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        memcpy(at, names[i], 4);
        scratch_write(path, text, size);
        assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), -1);
        assert_non_null(strstr(err.text, "cells.jsonl:2: not a line of a sweep, or changed"));
    }
    memcpy(at, "000-", 4);
    char *last = text + size - 2;
    while (last[-1] != '\n') last--;
    scratch_write(path, text, (size_t)(last - text));
    assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), -1);
    assert_non_null(strstr(err.text, "cells.jsonl: has 7 cells, its first line says 8"));
    at = strstr(text, "\"seed\":\"0\""); /* the settings are protected too */
    assert_non_null(at);
    at[8] = '7';
    scratch_write(path, text, size);
    assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), -1);
    assert_non_null(strstr(err.text, "cells.jsonl:2: not a line of a sweep, or changed"));
    at[8] = '0';
    for (size_t cut = 0; cut < size; cut += 97) {
        scratch_write(path, text, cut);
        assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), -1);
        assert_int_equal(err.code, SMOE_DATA);
    }
    scratch_write(path, text, size);
    assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), 0);
    smoe_sweep_free(&sweep);
    free(text);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void a_claim_dies_with_its_process(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(grid);
    smoe_err err;
    smoe_claim held;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    pid_t other = holder(&sweep, 3);
    assert_int_equal(claim(&sweep, 3, &held), 0);
    assert_int_equal(claim(&sweep, 4, &held), 1);
    smoe_claim_release(&held);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(claim(&sweep, 3, &held), 1);
    smoe_claim_release(&held);
    smoe_sweep_free(&sweep);
}

static void outcomes_are_kept(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(grid), read;
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(
        smoe_trial_finish(&sweep, 1, smoe_trial_failure(4, "step 3: the loss is nan"), &err), 0);
    assert_int_equal(
        smoe_trial_finish(&sweep, 2, json_pack("{s:s, s:{}}", "status", "done", "result"), &err),
        0);
    assert_int_equal(smoe_sweep_open(&read, w->dir, &err), 0);
    assert_int_equal(read.trial[0].state, SMOE_TRIAL_OPEN);
    assert_int_equal(read.trial[1].state, SMOE_TRIAL_FAILED);
    assert_int_equal(json_integer_value(json_object_get(read.trial[1].outcome, "code")), 4);
    assert_int_equal(read.trial[2].state, SMOE_TRIAL_DONE);
    smoe_sweep_free(&read);
    char path[SCRATCH_PATH + 100];
    snprintf(path, sizeof path, "%s/claims/%s.json", w->dir, sweep.trial[5].name);
    scratch_write(path, "{\"status\": \"do", 14);
    assert_int_equal(smoe_sweep_open(&read, w->dir, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "; remove the file to compute it again"));
    smoe_sweep_free(&sweep);
}

#define TEST(name) unit_test_with(name, sweep_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_manifest_gives_the_trials_back),
        TEST(folders_are_made_exclusively),
        TEST(a_folder_without_a_manifest_is_not_begun),
        TEST(another_checkpoint_is_another_sweep),
        TEST(a_sweep_can_be_removed),
        TEST(a_damaged_manifest_is_refused),
        TEST(a_claim_dies_with_its_process),
        TEST(outcomes_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
