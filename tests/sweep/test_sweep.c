/*
 * Sweeps without training: the section `sweep` and its mistakes, the trials of a grid, results and
 * figures of outcomes that the test wrote, and the rows of an ablation. Training is in test_trial.c
 * and tests/cli/case_sweep.sh.
 */
#include "approx.h"
#include "sweep_folder.h"
#include "specs.h"
#include "sweep/axes.h"
#include "sweep/trial_run.h"
#include "sweep/results.h"
#include "vit/model.h"
#include "data/loader.h"
#include "sweep/trial.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL "model: {width: 8, depth: 2, mlp: 8, heads: 1, moe: {experts: 4}}\n"

/* ---- the section ----------------------------------------------------------------------------- */

static void the_section_is_read(void **state) {
    smoe_spec s =
        specs_good("sweep:\n"
                   "  grid: {model.moe.experts: [2, 4], model.moe.layers: [none, [1, 2]]}\n"
                   "  zip: {train.steps: [10, 20], train.batch_size: [8, 16]}\n"
                   "  seeds: [0, 7]\n"
                   "  reference: model.moe.experts=2\n"
                   "name: x\n",
                   NULL, NULL, NULL);
    assert_int_equal(s.sweep.train.count, 5);
    assert_string_equal(s.sweep.train.key[0].key, "model.moe.experts");
    assert_string_equal(s.sweep.train.key[0].value[1], "4");
    assert_string_equal(s.sweep.train.key[1].value[0], "none");
    assert_string_equal(s.sweep.train.key[1].value[1], "[1, 2]");
    assert_true(s.sweep.train.key[2].zip && s.sweep.train.key[3].zip && !s.sweep.train.key[1].zip);
    assert_string_equal(s.sweep.train.key[4].key, "seed");
    assert_string_equal(s.sweep.train.key[4].value[1], "7");
    assert_string_equal(s.sweep.reference, "model.moe.experts=2");
    assert_string_equal(s.name, "x");
    /* and it is not part of the resolved spec */
    char *yaml = specs_yaml(&s, false);
    assert_null(strstr(yaml, "sweep"));
    free(yaml);
    smoe_spec_free(&s);
}

static void mistakes_in_the_section(void **state) {
    specs_wrong("sweep: 3", NULL,
                "t:1:8: sweep: expected {grid: {KEY: [..]}, zip: {KEY: [..]}, seeds: [..]}");
    specs_wrong("sweep: {gird: {}}", NULL,
                "t:1:9: sweep: unknown key 'gird'; known here: grid, zip, seeds, evaluate, figure, "
                "reference, primary, family, equivalence, seen");
    specs_wrong("sweep: {train.steps: [1, 2]}", NULL,
                "t:1:9: sweep: unknown key 'train.steps'; keys of the spec are swept under grid; "
                "known here: grid, zip, seeds, evaluate, figure, reference, primary, family, "
                "equivalence, seen");
    specs_wrong("sweep: {grid: {train.stepps: [1]}}", NULL,
                "t:1:16: train.stepps: unknown key; did you mean train.steps?");
    specs_wrong("sweep: {grid: {train.steps: []}}", NULL, "t:1:29: train.steps: has no values");
    specs_wrong("sweep: {grid: {train.steps: [1, 2, 1]}}", NULL,
                "t:1:36: train.steps: a value is given twice");
    /* in a zip values may repeat, combinations may not */
    smoe_spec s = specs_good("sweep: {zip: {train.steps: [1, 1, 2], train.keep: [3, 4, 3]}}", NULL,
                             NULL, NULL);
    smoe_spec_free(&s);
    specs_wrong("sweep: {zip: {train.steps: [1, 2, 1], train.keep: [3, 4, 3]}}", NULL,
                "t:1:14: sweep.zip: a combination of values is given twice");
    specs_wrong("sweep: {grid: {train.steps: {a: 1}}}", NULL,
                "t:1:29: train.steps: expected a list of values");
    specs_wrong("sweep: {grid: {seed: [1]}, seeds: [2]}", NULL, "t:1:28: seed: is swept twice");
    specs_wrong("sweep: {zip: {train.steps: [1, 2], train.batch_size: [1]}}", NULL,
                "t:1:36: train.batch_size: the lists of zip must have the same length");
    specs_wrong("sweep: {seeds: [1], seeds: [2]}", NULL, "t:1:21: sweep: duplicate key");
    specs_wrong("sweep: {reference: {a: b}}", NULL,
                "t:1:20: sweep.reference: expected KEY=VALUE, or several separated by commas");
    specs_wrong("sweep: {grid: [1]}", NULL, "t:1:15: sweep.grid: expected KEY: [VALUE, ...]");
}

static void the_evaluations_are_read(void **state) {
    smoe_spec s =
        specs_good("sweep:\n"
                   "  evaluate:\n"
                   "    grid: {model.moe.random_layers: [none, [1], [0, 1]], model.moe.k: 2}\n"
                   "    zip: {model.moe.capacity: [0.5, 1], model.moe.priority: [bpr, vanilla]}\n"
                   "  figure: {x: train_s, line: model.moe.router}\n",
                   NULL, NULL, NULL);
    assert_int_equal(s.sweep.train.count, 0);
    assert_int_equal(s.sweep.evaluate.count, 4);
    assert_string_equal(s.sweep.evaluate.key[0].value[2], "[0, 1]");
    assert_true(s.sweep.evaluate.key[3].zip && !s.sweep.evaluate.key[1].zip);
    assert_string_equal(s.sweep.figure.x, "train_s");
    assert_null(s.sweep.figure.y);
    smoe_spec_free(&s);
    specs_wrong("sweep: {evaluate: 3}", NULL,
                "t:1:19: sweep.evaluate: expected {grid: {KEY: [..]}, zip: {KEY: [..]}}");
    specs_wrong("sweep: {evaluate: {seeds: [1]}}", NULL,
                "t:1:20: sweep.evaluate: unknown key 'seeds'; known here: grid, zip");
    specs_wrong("sweep: {figure: {x: [1]}}", NULL,
                "t:1:21: sweep.figure: expected the name of a column of results.csv");
    specs_wrong("sweep: {figure: {z: x}}", NULL,
                "t:1:18: sweep.figure: unknown key 'z'; known here: x, y, line, title");
}

/* ---- axes ------------------------------------------------------------------------------------ */

static void the_command_line_beats_the_section(void **state) {
    smoe_spec s = specs_good("sweep: {grid: {model.moe.experts: [2, 4], train.steps: [1, 2]}, "
                             "zip: {train.log_every: [1, 2], train.keep: [3, 4]}, seeds: [0, 1]}",
                             NULL, NULL, NULL);
    char *overrides[] = {"train.steps=5", "model.moe.experts=8, 16,32", "seed=9",
                         "model.moe.layers=[0,1],[1]", "data.augment={crop: pad, flip: true}"};
    char *plain[5];
    size_t plains;
    smoe_sweep_keys axes = {0};
    smoe_err err;
    assert_int_equal(smoe_axes_of(&axes, &s.sweep.train, overrides, 5, plain, &plains, &err), 0);
    assert_int_equal(plains, 3);
    assert_string_equal(plain[0], "train.steps=5");
    assert_string_equal(plain[1], "seed=9");
    assert_string_equal(plain[2], "data.augment={crop: pad, flip: true}");
    assert_int_equal(axes.count, 4);
    assert_true(axes.key[0].zip && axes.key[1].zip && !axes.key[2].zip);
    assert_string_equal(axes.key[1].value[1], "4");
    assert_int_equal(axes.key[2].count, 3);
    assert_string_equal(axes.key[2].value[1], "16");
    assert_string_equal(axes.key[3].value[0], "[0,1]");
    smoe_points all;
    assert_false(smoe_axes_product(&all, &axes, 11));
    smoe_points_free(&all);
    assert_true(smoe_axes_product(&all, &axes, 12));
    assert_int_equal(all.points, 12);
    assert_int_equal(all.columns, 4);
    for (size_t c = 0; c < all.columns; c++) assert_string_not_equal(all.column[c], "seed");
    assert_string_equal(all.column[1], "train.keep");
    assert_string_equal(all.value[7][1], "4"); /* the last axis fastest */
    assert_string_equal(all.value[7][3], "[1]");
    char **assign = smoe_alloc(4 + SMOE_AXES_MORE, sizeof *assign);
    assert_int_equal(smoe_axes_assign(assign, &all, 7), 4);
    assert_string_equal(assign[1], "train.keep=4");
    assert_string_equal(assign[2], "model.moe.experts=8");
    assert_string_equal(assign[3], "model.moe.layers=[1]");
    smoe_texts_free(assign, 4);
    smoe_points_free(&all);
    smoe_spec_keys_clear(&axes);
    char *twice[] = {"train.steps=1,2", "train.steps=3,4"};
    assert_int_equal(smoe_axes_of(&axes, &s.sweep.train, twice, 2, plain, &plains, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "override train.steps=3,4: train.steps is swept twice");
    smoe_spec_keys_clear(&axes);
    smoe_spec_free(&s);
    s = specs_good("sweep: {grid: {model.moe.capacity: [1, 2]}}", NULL, NULL, NULL);
    char *longer[] = {"model.moe.capacity_rounding=ceil"}; /* another key with the same beginning */
    assert_int_equal(smoe_axes_of(&axes, &s.sweep.train, longer, 1, plain, &plains, &err), 0);
    assert_int_equal(plains, 1);
    assert_int_equal(axes.count, 1);
    assert_int_equal(axes.key[0].count, 2);
    smoe_spec_keys_clear(&axes);
    char *same[] = {"train.steps=1,2, 1"};
    assert_int_equal(smoe_axes_of(&axes, &s.sweep.train, same, 1, plain, &plains, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "override train.steps=1,2, 1: 1 is given twice");
    smoe_spec_keys_clear(&axes);
    char *missing[] = {"seed=1,"};
    assert_int_equal(smoe_axes_of(&axes, &s.sweep.train, missing, 1, plain, &plains, &err), -1);
    assert_string_equal(err.text, "override seed=1,: a value is missing after a comma");
    smoe_spec_keys_clear(&axes);
    smoe_spec_free(&s);
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* The trials of the text of a spec with a sweep. */
static int expand(smoe_sweep *sweep, const char *text, bool skip, smoe_err *err) {
    smoe_spec spec;
    smoe_spec_text from = specs_text(text);
    smoe_sweep_keys axes = {0};
    char *plain[1];
    size_t plains;
    smoe_err ignored;
    (void)!smoe_spec_parse(&spec, &(smoe_spec_text){.text = text, .label = "t"}, NULL, 0, &ignored);
    assert_int_equal(smoe_axes_of(&axes, &spec.sweep.train, NULL, 0, plain, &plains, err), 0);
    int status = smoe_sweep_expand(sweep, &from, NULL, 0, &axes, skip, err);
    smoe_spec_keys_clear(&axes);
    smoe_spec_free(&spec);
    return status;
}

static const char grid[] =
    "name: g\n" SMALL
    "sweep: {grid: {model.moe.experts: [2, 4], model.moe.router: [soft, uniform]}, "
    "seeds: [0, 1]}\n";

static void trials_are_every_combination(void **state) {
    smoe_sweep sweep = sweep_folder_trials(grid);
    assert_int_equal(sweep.trials, 8);
    assert_int_equal(sweep.columns, 3);
    assert_int_equal(sweep.seed, 2);
    assert_string_equal(sweep.trial[0].name, "000-experts=2,router=soft,seed=0");
    assert_string_equal(sweep.trial[3].name, "003-experts=2,router=uniform,seed=1");
    assert_string_equal(sweep.trial[7].name, "007-experts=4,router=uniform,seed=1");
    smoe_spec s = specs_good(sweep.trial[7].spec, NULL, NULL, NULL);
    assert_int_equal(s.model.moe.experts, 4);
    assert_string_equal(s.model.moe.router, "uniform");
    assert_int_equal(s.seed, 1);
    assert_int_equal(s.model.width, 8);
    smoe_spec_free(&s);
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < i; k++) assert_true(sweep.trial[i].hash != sweep.trial[k].hash);
    smoe_sweep_free(&sweep);
}

/* A seed that changes together with another key is an axis of both. */
static void seeds_may_be_zipped(void **state) {
    smoe_sweep sweep =
        sweep_folder_trials(SMALL "sweep: {zip: {model.moe.experts: [2, 4], seed: [5, 6]}}\n");
    assert_int_equal(sweep.trials, 2);
    assert_int_equal(sweep.seed, 1);
    assert_string_equal(sweep.trial[1].name, "001-experts=4,seed=6");
    smoe_sweep_free(&sweep);
}

/* Every digit of a number counts; no value creates a folder. */
static void trials_are_told_apart(void **state) {
    smoe_sweep sweep = sweep_folder_trials(
        SMALL "sweep: {grid: {train.optimizer.lr: [0.12345678, 0.12345679]}}\n");
    assert_non_null(strstr(sweep.trial[0].spec, "\"lr\":0.12345678"));
    assert_true(sweep.trial[0].hash != sweep.trial[1].hash);
    smoe_sweep_free(&sweep);
    sweep = sweep_folder_trials(SMALL "sweep: {grid: {name: [a-b, 'c d:']}}\n");
    assert_string_equal(sweep.trial[0].name, "000-name=a-b");
    assert_string_equal(sweep.trial[1].name, "001-name=c_d_");
    smoe_sweep_free(&sweep);
}

/* A trial occurs once, however its values are spelt. */
static void the_same_trial_twice_is_refused(void **state) {
    smoe_sweep sweep;
    smoe_err err;
    assert_int_equal(expand(&sweep,
                            SMALL "sweep: {grid: {model.moe.layers: [none, [1], last-1]}, "
                                  "seeds: [0, 1]}\n",
                            false, &err),
                     -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "model.moe.layers=[1] seed=0 and model.moe.layers=last-1 seed=0 "
                                  "are the same: a value is given twice");
    smoe_sweep_free(&sweep);
    assert_int_equal(expand(&sweep, SMALL "sweep: {zip: {train.steps: [10, 1e1], seed: [0, 00]}}\n",
                            false, &err),
                     -1);
    assert_string_equal(
        err.text,
        "train.steps=10 seed=0: t:2:33: train.steps: 10 and 1e1 are the same value; write both "
        "alike\n"
        "train.steps=1e1 seed=00: t:2:33: train.steps: 10 and 1e1 are the same value; write both "
        "alike");
    smoe_sweep_free(&sweep);
}

static const char invalid[] =
    SMALL "sweep: {grid: {model.moe.experts: [2, 3, 4], model.heads: [1, 3]}}\n"
          "train: {batch_size: 8}\n";

static void invalid_trials_are_all_named(void **state) {
    smoe_sweep sweep;
    smoe_err err;
    assert_int_equal(expand(&sweep, invalid, false, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_int_equal(sweep.skipped, 3);
    assert_int_equal(err.lines, 3);
    for (int experts = 2; experts <= 4; experts++) {
        char text[200];
        snprintf(
            text, sizeof text,
            "model.moe.experts=%d model.heads=3: override model.heads=3: model.heads: 3 heads do "
            "not divide the width 8",
            experts);
        assert_non_null(strstr(err.text, text));
    }
    smoe_sweep_free(&sweep);
    assert_int_equal(expand(&sweep, invalid, true, &err), 0);
    assert_int_equal(sweep.skipped, 3);
    assert_int_equal(sweep.trials, 3);
    assert_string_equal(sweep.trial[1].name, "002-experts=3,heads=1"); /* numbers are kept */
    smoe_sweep_free(&sweep);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Experts 2, 4, 8 over two seeds; one seed of experts 8 failed. */
static void results_by_hand(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(
        "name: r\n" SMALL "sweep: {grid: {model.moe.experts: [2, 4, 8]}, seeds: [0, 1]}\n");
    smoe_err err;
    bool sample_tables;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    sweep_folder_done(&sweep, 0, 0.5, "step_s", 1);
    sweep_folder_done(&sweep, 1, 0.75, "step_s", 3);
    sweep_folder_done(&sweep, 2, 0.25, "step_s", 1);
    sweep_folder_done(&sweep, 3, 0.25, "step_s", 1);
    sweep_folder_done(&sweep, 4, 1, "step_s", 1);
    assert_int_equal(smoe_trial_finish(&sweep, 5, smoe_trial_failure(1, "x"), &err), 0);
    smoe_sweep_free(&sweep);
    assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), 0);
    smoe_results r;
    assert_int_equal(smoe_results_make(&r, &sweep, &err), 0);
    assert_int_equal(r.measured->groups, 3);
    assert_int_equal(smoe_results_done(&r, 0), 2);
    assert_int_equal(smoe_results_done(&r, 2), 1); /* the other one failed */
    size_t metric = smoe_measures_metric(r.measured, "precision_at_1");
    assert_int_equal(smoe_measures_metric(r.measured, "nothing"), SIZE_MAX);
    smoe_stats s = smoe_measures_stats(r.measured, 0, metric);
    assert_int_equal(s.n, 2);
    assert_close(s.mean, 0.625, 1e-15);
    assert_close(s.sd, 0.25 / sqrt(2), 1e-15);
    s = smoe_measures_stats(r.measured, 2, metric);
    assert_true(s.n == 1 && s.mean == 1 && isnan(s.sd));
    assert_int_equal(smoe_results_write(&r, &err), 0);
    assert_int_equal(smoe_results_draw(&r, &sample_tables, &err), 0);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
    char path[SCRATCH_PATH + 16];
    snprintf(path, sizeof path, "%s/summary.csv", w->dir);
    char *text = scratch_read(path, NULL);
    assert_string_equal(text,
                        "model.moe.experts,precision_at_1_mean,precision_at_1_sd,precision_at_1_n,"
                        "step_s_mean,step_s_sd,step_s_n\n"
                        "2,0.625,0.1767766952966369,2,2,1.4142135623730951,2\n"
                        "4,0.25,0,2,1,0,2\n"
                        "8,1,,1,1,,1\n");
    free(text);
    snprintf(path, sizeof path, "%s/results.csv", w->dir);
    text = scratch_read(path, NULL);
    assert_non_null(strstr(text, "cell,model.moe.experts,seed,status,precision_at_1,step_s,error\n"
                                 "\"000-experts=2,seed=0\",2,0,done,0.5,1,\n"));
    assert_non_null(strstr(text, "\"005-experts=8,seed=1\",8,1,failed,,,x\n"));
    free(text);
    snprintf(path, sizeof path, "%s/sweep.gp", w->dir);
    text = scratch_read(path, NULL);
    assert_non_null(strstr(text, "$line0 << END\n2 0.625 0 1\n4 0.25 0.25 0.25\n8 1 1 1\nEND\n"));
    assert_non_null(strstr(text, "set logscale x 2\n"));
    assert_non_null(strstr(text, "set xlabel 'experts'\n"));
    /* the first row is the reference: a dashed line at its height, across the axis */
    assert_non_null(
        strstr(text, "$line1 << END\n1.666666667 0.625 0.625 0.625\n9.6 0.625 0.625 0.625\nEND\n"));
    assert_non_null(strstr(text, "dt 2 title 'reference'"));
    assert_non_null(strstr(text, "set ylabel 'test top-1 accuracy' . \"\\n\" . "
                                 "'(95% interval, up to 2 seeds)'\n"));
    free(text);
    snprintf(path, sizeof path, "%s/sweep.svg", w->dir);
    assert_int_equal(sample_tables, !access(path, F_OK));
}

/* The axis names the split on which all trials are evaluated. */
static void axes_name_the_split(void **state) {
    static const char *const rows[][2] = {
        {"eval: {split: val}\nsweep: {grid: {model.moe.experts: [2, 4]}}\n", "val top-1 accuracy"},
        {"eval: {split: train}\nsweep: {grid: {model.moe.experts: [2, 4]}}\n",
         "train top-1 accuracy"},
        {"sweep: {grid: {eval.split: [val, test]}}\n", "top-1 accuracy"}};
    for (size_t i = 0; i < 3; i++) {
        sweep_folder *w = *state;
        char text[400], dir[SCRATCH_PATH + 24], path[SCRATCH_PATH + 40], label[80];
        bool drawn;
        smoe_err err;
        smoe_results r;
        snprintf(text, sizeof text, "name: r\n" SMALL "%s", rows[i][0]);
        snprintf(dir, sizeof dir, "%.*s%zu", SCRATCH_PATH, w->dir, i % 10);
        smoe_sweep sweep = sweep_folder_trials(text);
        assert_int_equal(smoe_sweep_create(&sweep, dir, false, &err), 0);
        for (size_t k = 0; k < 2; k++) sweep_folder_done(&sweep, k, 0.5, "step_s", 1);
        smoe_sweep_free(&sweep);
        assert_int_equal(smoe_sweep_open(&sweep, dir, &err), 0);
        assert_int_equal(smoe_results_make(&r, &sweep, &err), 0);
        assert_int_equal(smoe_results_draw(&r, &drawn, &err), 0);
        smoe_results_free(&r);
        smoe_sweep_free(&sweep);
        snprintf(path, sizeof path, "%s/sweep.gp", dir);
        snprintf(label, sizeof label, "set ylabel '%s'\n", rows[i][1]);
        char *script = scratch_read(path, NULL);
        if (!strstr(script, label)) fail_msg("no %s in %s", label, script);
        free(script);
    }
}

static void powers_are_recognised(void **state) {
    double powers[] = {8, 2, 4, 2, 1}, steps[] = {10, 20, 30, 40}, two[] = {1, 100},
           zero[] = {0, 1, 10}, thirds[] = {1e-4, 3e-4, 1e-3};
    assert_true(smoe_results_powers(powers, 5));
    assert_false(smoe_results_powers(steps, 4)); /* 40 < 1.4 * 30 */
    assert_false(smoe_results_powers(two, 2));
    assert_false(smoe_results_powers(zero, 3));
    assert_true(smoe_results_powers(thirds, 3));
}

/* The last records count; the best precision is kept with its step; a partial line is not a
 * record. */
static void a_run_is_measured_from_its_metrics(void **state) {
    sweep_folder *w = *state;
    char path[SCRATCH_PATH];
    static const char metrics[] =
        "{\"step\":1,\"train/loss\":3.0,\"train/images_per_s\":10}\n"
        "{\"step\":2,\"train/loss\":2.0,\"train/images_per_s\":40,"
        "\"blocks.1/router/dispatch_max\":0.9,\"blocks.1/router/combine_max\":0.125}\n"
        "{\"step\":2,\"test/loss\":2.5,\"test/precision_at_1\":0.75,\"test/fewshot_5\":0.5,"
        "\"test/fewshot_5_sd\":0.125}\n"
        "{\"step\":3,\"train/loss\":1.0,\"train/images_per_s\":20,"
        "\"blocks.0/router/dispatch_max\":0.25,\"blocks.1/router/dispatch_max\":0.75,"
        "\"blocks.10/router/dispatch_max\":0.5}\n" /* largest over layers, last record */
        "{\"step\":3,\"test/loss\":2.25,\"test/precision_at_1\":0.5,\"test/fewshot_5\":0.25}\n"
        "{\"step\":4,\"train/lo";
    scratch_write(scratch_path(&w->folder, path, "metrics.jsonl"), metrics, sizeof metrics - 1);
    smoe_err err;
    json_t *r = smoe_trial_measure(w->folder.dir, 3, 8, &err);
    json_t *want = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, s:f}", "dispatch_max", 0.75,
                             "combine_max", 0.125, "train_loss", 1.0, "test_loss", 2.25,
                             "precision_at_1", 0.5, "best_precision_at_1", 0.75, "best_step", 2,
                             "fewshot_5", 0.25, "step_s", 8 / 20.0);
    assert_true(json_equal(r, want));
    json_decref(r);
    json_decref(want);
    assert_null(smoe_trial_measure("/nowhere/at/all", 3, 8, &err));
    assert_int_equal(err.code, SMOE_DATA);
    assert_null(smoe_trial_measure(w->folder.dir, 4, 8, &err)); /* the last record is missing */
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "/metrics.jsonl: the records end at step 3 of 4: "
                                     "records are missing"));
    scratch_write(path, "", 0);
    assert_null(smoe_trial_measure(w->folder.dir, 1, 8, &err));
    assert_int_equal(err.code, SMOE_DATA);
    r = smoe_trial_measure(w->folder.dir, 0, 8, &err); /* a run before its first record */
    assert_int_equal(json_object_size(r), 0);
    json_decref(r);
    scratch_write(path, "{\"step\":1}\n{\"st\n{\"step\":2}\n", 27);
    assert_null(smoe_trial_measure(w->folder.dir, 0, 8, &err));
    assert_non_null(strstr(err.text, "/metrics.jsonl:2: not a record with a step"));
}

/* Records of version 0.1.0, before evaluations named their split: eval.split was val, and the
 * run was resumed after step 8. */
static void an_older_run_is_measured(void **state) {
    smoe_err err;
    json_t *r = smoe_trial_measure("tests/store/old-run", 16, 8, &err);
    static const struct {
        const char *column;
        double value;
    } want[] = {{"train_loss", 2.2678118032737471},
                {"test_loss", 2.3069669393059775},
                {"precision_at_1", 0.07},
                {"best_precision_at_1", 0.13},
                {"best_step", 8},
                {"fewshot_2", 0.1425},
                {"dispatch_max", 0.075609592837281525},
                {"combine_max", 0.17253159964457154},
                {"step_s", 8 / ((1395.0617343177946 + 910.09436569228978) / 2)}};
    if (!r) fail_msg("%s", err.text);
    assert_int_equal(json_object_size(r), sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_close(json_number_value(json_object_get(r, want[i].column)), want[i].value, 1e-15);
    json_decref(r);
}

/* ---- ablations ------------------------------------------------------------------------------- */

static const char all_routers[] = "soft,soft-uniform,uniform-soft,uniform,identity,dense";

static void rows_of_an_ablation(void **state) {
    static const char text[] = "data: {image_size: 16}\n" SMALL; /* 16 tokens, 4 experts, 1 slot */
    smoe_spec_text from = specs_text(text);
    smoe_spec spec;
    smoe_err err;
    smoe_sweep_keys axes = {0};
    smoe_sweep sweep;
    assert_int_equal(
        smoe_spec_parse(&spec,
                        &(smoe_spec_text){.text = from.text, .length = from.length, .label = "t"},
                        NULL, 0, &err),
        0);
    assert_int_equal(smoe_ablate_axes(&axes, &spec, all_routers, "3,4", &err), 0);
    assert_int_equal(smoe_sweep_expand(&sweep, &from, NULL, 0, &axes, false, &err), 0);
    assert_int_equal(sweep.trials, 12);
    for (size_t i = 0; i < 12; i++) {
        smoe_spec s = specs_good(sweep.trial[i].spec, NULL, NULL, NULL);
        const char *router = sweep.trial[i].value[0];
        assert_int_equal(s.seed, 3 + i % 2);
        if (!strcmp(router, "dense"))
            assert_int_equal(s.model.moe.layer_count, 0);
        else
            assert_string_equal(s.model.moe.router, router);
        /* 16 tokens over 4 experts */
        assert_int_equal(s.model.moe.slots_per_expert, strcmp(router, "identity") ? 1 : 4);
        smoe_spec_free(&s);
    }
    smoe_sweep_free(&sweep);
    smoe_spec_keys_clear(&axes);
    assert_int_equal(smoe_ablate_axes(&axes, &spec, "soft,unifrom", "0", &err), -1);
    assert_string_equal(err.text, "--routers: no router 'unifrom'; did you mean 'uniform'?");
    smoe_spec_keys_clear(&axes);
    assert_int_equal(smoe_ablate_axes(&axes, &spec, "soft,dense,soft", "0", &err), -1);
    assert_string_equal(err.text, "--routers: 'soft' is given twice");
    smoe_spec_keys_clear(&axes);
    smoe_spec_free(&spec);
    spec = specs_good("model: {moe: {layers: none}}", NULL, NULL, NULL);
    assert_int_equal(smoe_ablate_axes(&axes, &spec, "soft", "0", &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    smoe_spec_keys_clear(&axes);
    smoe_spec_free(&spec);
}

/* Compares the tensors that two models share by name and shape; returns their number. */
static size_t shared_weights(const smoe_spec *a, const smoe_spec *b) {
    const smoe_spec *spec[] = {a, b};
    smoe_model *model[2];
    smoe_err err;
    size_t shared = 0;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(smoe_model_create(&model[i], spec[i], 10, &err), 0);
        assert_int_equal(smoe_params_allocate(smoe_model_params(model[i]), 1, &err), 0);
        smoe_params_init(smoe_model_params(model[i]), spec[i]->seed);
    }
    const smoe_params *p = smoe_model_params(model[0]), *q = smoe_model_params(model[1]);
    for (size_t i = 0; i < p->count; i++) {
        const smoe_param *other = smoe_params_find(q, p->param[i].name);
        if (!other || other->size != p->param[i].size) continue;
        assert_memory_equal(p->w + p->param[i].offset, q->w + other->offset,
                            other->size * sizeof *p->w);
        shared++;
    }
    for (size_t i = 0; i < 2; i++) smoe_model_free(model[i]);
    return shared;
}

static void same_batches(const smoe_spec *a, const smoe_spec *b) {
    const smoe_spec *spec[] = {a, b};
    smoe_dataset *set[2];
    smoe_loader *loader[2];
    smoe_batch batch[2];
    smoe_err err;
    for (size_t i = 0; i < 2; i++) {
        smoe_loader_options options = {
            .batch_size = spec[i]->train.batch_size, .train = true, .seed = spec[i]->seed};
        assert_int_equal(smoe_dataset_open(&set[i], spec[i], "train", NULL, &err), 0);
        assert_int_equal(smoe_loader_open(&loader[i], set[i], spec[i], &options, &err), 0);
    }
    for (size_t step = 0; step < 3; step++) {
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(smoe_loader_next(loader[i], &batch[i], &err), 1);
        assert_memory_equal(batch[0].index, batch[1].index, batch[0].images * sizeof(uint64_t));
        assert_memory_equal(batch[0].pixels, batch[1].pixels,
                            batch[0].images * 3 * 16 * 16 * sizeof(real));
    }
    for (size_t i = 0; i < 2; i++) {
        smoe_loader_free(loader[i]);
        smoe_dataset_free(set[i]);
    }
}

/* What makes the rows comparable in pairs: the same seed, the same order of the data, the same
 * initial values outside the MoE layers. */
static void rows_of_one_seed_start_alike(void **state) {
    static const char text[] =
        "data: {image_size: 16, limit: 50}\ntrain: {batch_size: 8, steps: 9}\n" SMALL;
    smoe_spec soft = specs_good(text, "seed=3", NULL, NULL);
    smoe_spec dense = specs_good(text, "seed=3", "model.moe.layers=none", NULL);
    smoe_spec uniform = specs_good(text, "seed=3", "model.moe.router=uniform", NULL);
    /* embedding 3, two blocks of 8 (norms, attention), a dense MLP 4, norm 2, head 2 */
    assert_int_equal(shared_weights(&soft, &dense), 3 + 16 + 4 + 2 + 2);
    assert_int_equal(shared_weights(&soft, &uniform), 3 + 16 + 4 + 2 + 2 + 4); /* and experts */
    smoe_spec tokens = specs_good(text, "seed=3", "model.moe.router=tokens-choice", NULL);
    smoe_spec experts = specs_good(text, "seed=3", "model.moe.router=experts-choice", NULL);
    assert_int_equal(shared_weights(&soft, &tokens), 3 + 16 + 4 + 2 + 2 + 4);
    assert_int_equal(shared_weights(&tokens, &experts), 3 + 16 + 4 + 2 + 2 + 4 + 1); /* and W */
    same_batches(&soft, &dense);
    same_batches(&soft, &tokens);
    same_batches(&tokens, &experts);
    smoe_spec_free(&tokens);
    smoe_spec_free(&experts);
    smoe_spec_free(&soft);
    smoe_spec_free(&dense);
    smoe_spec_free(&uniform);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_section_is_read),
        cmocka_unit_test(mistakes_in_the_section),
        cmocka_unit_test(the_evaluations_are_read),
        cmocka_unit_test(the_command_line_beats_the_section),
        unit_test_with(trials_are_every_combination, sweep_folder),
        unit_test_with(seeds_may_be_zipped, sweep_folder),
        cmocka_unit_test(trials_are_told_apart),
        cmocka_unit_test(the_same_trial_twice_is_refused),
        unit_test_with(invalid_trials_are_all_named, sweep_folder),
        unit_test_with(results_by_hand, sweep_folder),
        unit_test_with(axes_name_the_split, sweep_folder),
        cmocka_unit_test(powers_are_recognised),
        cmocka_unit_test(an_older_run_is_measured),
        unit_test_with(a_run_is_measured_from_its_metrics, sweep_folder),
        unit_test_with(rows_of_an_ablation, sweep_folder),
        cmocka_unit_test(rows_of_one_seed_start_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
