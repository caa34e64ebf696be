/*
 * Evaluations of a sweep without training or data: which points are made and refused, that the
 * manifest preserves them, and the tables and figures of results that the test wrote. Evaluations
 * of trained trials are in tests/cli/case_evaluations.sh.
 */
#include "approx.h"
#include "sweep_folder.h"
#include "specs.h"
#include "sweep/evaluations.h"
#include "sweep/results.h"
#include "unit.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRAINED                                                                  \
    "name: g\nmodel: {width: 8, depth: 2, mlp: 8, heads: 1, moe: {layers: all, " \
    "experts: 4, router: tokens-choice}}\ntrain: {batch_size: 8}\n"

/* The same for a file, which must exist. */
static int plan_file(smoe_sweep *sweep, const char *file, smoe_err *err) {
    smoe_spec_text from;
    if (smoe_spec_text_read(&from, file, err)) fail_msg("%s", err->text);
    int code = sweep_folder_plan_text(sweep, &from, err);
    smoe_spec_text_free(&from);
    return code;
}

static const char good[] =
    TRAINED "sweep: {grid: {model.moe.k: [1, 2]}, seeds: [0, 1], evaluate: {\n"
            "  grid: {model.moe.k: [1, 2, 4]},\n"
            "  zip: {model.moe.capacity: [0.5, 2], model.moe.random_layers: [none, [1]]}}}\n";

/* Keys of the grid first, the last axis varies fastest: 3 x 2 points. */
static void assert_points(const smoe_sweep *sweep) {
    static const char *const want[6][3] = {{"1", "0.5", "none"}, {"1", "2", "[1]"},
                                           {"2", "0.5", "none"}, {"2", "2", "[1]"},
                                           {"4", "0.5", "none"}, {"4", "2", "[1]"}};
    const smoe_points *e = &sweep->evaluate;
    assert_int_equal(e->columns, 3);
    assert_int_equal(e->points, 6);
    assert_string_equal(e->column[2], "model.moe.random_layers");
    for (size_t p = 0; p < 6; p++)
        for (size_t c = 0; c < 3; c++) assert_string_equal(e->value[p][c], want[p][c]);
    char **assign = smoe_alloc(3 + SMOE_AXES_MORE, sizeof *assign);
    assert_int_equal(smoe_axes_assign(assign, e, 3), 3);
    assert_string_equal(assign[2], "model.moe.random_layers=[1]");
    smoe_texts_free(assign, 3);
}

static void points_are_every_combination(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep, read, other;
    smoe_err err;
    assert_int_equal(sweep_folder_plan(&sweep, good, &err), 0);
    assert_points(&sweep);
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(smoe_sweep_open(&read, w->dir, &err), 0);
    assert_points(&read);
    smoe_sweep_free(&read);
    smoe_sweep_free(&sweep);
    /* the same sweep can be joined, one with other points cannot */
    assert_int_equal(sweep_folder_plan(&sweep, good, &err), 0);
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, true, &err), 0);
    smoe_sweep_free(&sweep);
    assert_int_equal(
        sweep_folder_plan(&other,
                          TRAINED "sweep: {grid: {model.moe.k: [1, 2]}, seeds: [0, 1], evaluate: "
                                  "{grid: {model.moe.k: [1, 2]}}}\n",
                          &err),
        0);
    assert_int_equal(smoe_sweep_create(&other, w->dir, true, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, "its evaluations are different"));
    smoe_sweep_free(&other);
}

/* All mistakes are reported before anything runs. */
static void impossible_points_are_named(void **state) {
    smoe_sweep sweep;
    smoe_err err;
    assert_int_equal(sweep_folder_plan(&sweep,
                                       TRAINED
                                       "sweep: {evaluate: {grid: {model.moe.experts: [1, 2], "
                                       "train.steps: [1], eval.batch_size: [4]}}}\n",
                                       &err),
                     SMOE_USAGE);
    assert_int_equal(err.lines, 2);
    assert_non_null(strstr(err.text, "evaluate.model.moe.experts: cannot change after training"));
    assert_non_null(strstr(err.text, "evaluate.train.steps: cannot change after training"));
    smoe_sweep_free(&sweep);
    assert_int_equal(sweep_folder_plan(&sweep,
                                       TRAINED "sweep: {evaluate: {grid: {model.moe.k: [4, 5]}}}\n",
                                       &err),
                     SMOE_USAGE);
    assert_int_equal(err.lines, 1);
    assert_non_null(strstr(err.text, "000 at model.moe.k=5: "));
    assert_non_null(strstr(err.text, "a token cannot choose 5 of 4 experts"));
    smoe_sweep_free(&sweep);
    /* also where the cells after it are possible */
    assert_int_equal(
        sweep_folder_plan(&sweep,
                          TRAINED "sweep: {grid: {model.moe.experts: [4, 8]}, evaluate: {grid: "
                                  "{model.moe.k: [1, 5]}}}\n",
                          &err),
        SMOE_USAGE);
    assert_int_equal(err.lines, 1);
    assert_non_null(strstr(err.text, "000-experts=4 at model.moe.k=5: "));
    smoe_sweep_free(&sweep);
    assert_int_equal(
        sweep_folder_plan(&sweep,
                          TRAINED
                          "sweep: {evaluate: {grid: {model.moe.router: [soft, experts-choice]}}}\n",
                          &err),
        SMOE_USAGE);
    assert_int_equal(err.lines, 1);
    assert_non_null(strstr(err.text, "router=soft: needs other parameters than the trained ones"));
    smoe_sweep_free(&sweep);
    /* 3 does not divide the batch of 8, which matters only in training */
    assert_int_equal(
        sweep_folder_plan(
            &sweep, TRAINED "sweep: {evaluate: {grid: {model.moe.group_images: [3]}}}\n", &err),
        0);
    smoe_sweep_free(&sweep);
}

/* Points that are the same in every cell, however their values are written. */
static void points_occur_once(void **state) {
    smoe_sweep sweep;
    smoe_err err;
    assert_int_equal(sweep_folder_plan(&sweep,
                                       TRAINED
                                       "sweep: {grid: {model.depth: [2, 3]}, evaluate: {grid: "
                                       "{model.moe.capacity: [0.5, 5e-1], eval.split: [val]}}}\n",
                                       &err),
                     SMOE_USAGE);
    assert_string_equal(err.text,
                        "evaluate.model.moe.capacity=0.5 evaluate.eval.split=val and "
                        "evaluate.model.moe.capacity=5e-1 evaluate.eval.split=val are the same: a "
                        "value is given twice");
    smoe_sweep_free(&sweep);
    /* the last block is block 1 of two, but not of three */
    static const char blocks[] = TRAINED "sweep: {grid: {model.depth: [2%s]}, evaluate: {grid: "
                                         "{model.moe.random_layers: [last-1, [1]]}}}\n";
    char text[1000];
    snprintf(text, sizeof text, blocks, "");
    assert_int_equal(sweep_folder_plan(&sweep, text, &err), SMOE_USAGE);
    smoe_sweep_free(&sweep);
    snprintf(text, sizeof text, blocks, ", 3");
    assert_int_equal(sweep_folder_plan(&sweep, text, &err), 0);
    smoe_sweep_free(&sweep);
}

/* Results for `count` points of a trial: precision `p`, then a quarter more at each point. */
static void wrote(const sweep_folder *w, const smoe_sweep *sweep, size_t trial, size_t count,
                  double p) {
    char path[2 * SCRATCH_PATH], text[1000] = "[";
    size_t used = 1;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"loss\": 1.5, \"precision_at_1\": %g}", i ? ", " : "",
                                 p + 0.25 * (double)i);
    text[used++] = ']';
    snprintf(path, sizeof path, "%s/claims/%s.evaluations.json", w->dir, sweep->trial[trial].name);
    scratch_write(path, text, used);
}

static char *file(const sweep_folder *w, const char *name) {
    char path[SCRATCH_PATH + 40];
    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    return scratch_read(path, NULL);
}

/* Two seeds with both points, one with only the first: means of 0 and 0.5, 0.25 and 0.75, one
 * value. */
static void results_are_tabled(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep;
    smoe_results r;
    smoe_err err;
    bool sample_tables;
    assert_int_equal(sweep_folder_plan(&sweep,
                                       TRAINED
                                       "sweep: {grid: {model.moe.k: [1, 2]}, seeds: [0, 1], "
                                       "evaluate: {grid: {model.moe.capacity: [0.5, 2]}}}\n",
                                       &err),
                     0);
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    wrote(w, &sweep, 0, 2, 0);
    wrote(w, &sweep, 1, 2, 0.5);
    wrote(w, &sweep, 2, 1, 1);
    assert_int_equal(smoe_results_make(&r, &sweep, &err), 0);
    assert_int_equal(smoe_results_write(&r, &err), 0);
    assert_int_equal(smoe_results_draw(&r, &sample_tables, &err), 0);
    smoe_results_free(&r);
    char *text = file(w, "evaluations.csv");
    assert_non_null(strstr(text, "cell,model.moe.k,seed,evaluate.model.moe.capacity,status,loss,"
                                 "precision_at_1\n\"000-k=1,seed=0\",1,0,0.5,done,1.5,0\n"));
    assert_non_null(strstr(text, "\"002-k=2,seed=0\",2,0,0.5,done,1.5,1\n"
                                 "\"002-k=2,seed=0\",2,0,2,open,,\n"));
    free(text);
    text = file(w, "evaluations_summary.csv");
    assert_non_null(strstr(text, "\n1,0.5,1.5,0,2,0.25,0.3535533905932738,2\n"
                                 "1,2,1.5,0,2,0.5,0.3535533905932738,2\n"
                                 "2,0.5,1.5,,1,1,,1\n"));
    free(text);
    text = file(w, "summary.md");
    assert_non_null(strstr(text, "## Evaluations"));
    free(text);
    text = file(w, "evaluations.gp"); /* by the evaluated key, a line for each trained k */
    assert_non_null(strstr(text, "set xlabel 'capacity ratio of the evaluation'\n"));
    assert_non_null(strstr(text, "$line0 << END\n0.5 0.25 0 1\n2 0.5 0 1\nEND\n"));
    free(text);
    /* a damaged file is never used as results */
    char path[2 * SCRATCH_PATH];
    json_t *list;
    snprintf(path, sizeof path, "%s/claims/%s.evaluations.json", w->dir, sweep.trial[3].name);
    scratch_write(path, "[{}, {}, {}]", 12); /* more than there are points */
    assert_int_equal(smoe_evaluations_read(&list, NULL, &sweep, 3, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    scratch_write(path, "[{}, ", 5);
    assert_int_equal(smoe_evaluations_read(&list, NULL, &sweep, 3, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    smoe_sweep_free(&sweep);
}

/* ---- what a figure shows --------------------------------------------------------------------- */

/* Routers of two widths against step time: a line per router, rising in time. */
static void a_metric_on_the_x_axis(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep;
    smoe_results r;
    smoe_err err;
    bool sample_tables;
    assert_int_equal(
        sweep_folder_plan(&sweep,
                          TRAINED "sweep: {grid: {model.mlp: [8, 16]}, zip: {model.moe.router: "
                                  "[tokens-choice, experts-choice], model.moe.layers: [all, [1]]}, "
                                  "evaluate: {grid: {model.moe.capacity: [0.5, 2]}}, "
                                  "figure: {x: train_s}}\n",
                          &err),
        0);
    smoe_sweep_figure wish = {.x = strdup("train_s")};
    sweep.figure = wish;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    sweep_folder_done(&sweep, 0, 0.5, "train_s", 20);
    sweep_folder_done(&sweep, 1, 0.25, "train_s", 7);
    sweep_folder_done(&sweep, 2, 0.75, "train_s", 10);
    for (size_t i = 0; i < 3; i++) wrote(w, &sweep, i, 2, 0);
    smoe_sweep_free(&sweep);
    assert_int_equal(smoe_sweep_open(&sweep, w->dir, &err), 0);
    assert_string_equal(sweep.figure.x, "train_s");
    assert_int_equal(smoe_results_make(&r, &sweep, &err), 0);
    assert_int_equal(smoe_results_draw(&r, &sample_tables, &err), 0);
    char *text = file(w, "sweep.gp");
    assert_non_null(strstr(text, "set xlabel 'seconds of training'\n"));
    assert_non_null(strstr(text, "$line0 << END\n10 0.75 0.75 0.75\n20 0.5 0.5 0.5\nEND\n"));
    assert_non_null(strstr(text, "$line1 << END\n7 0.25 0.25 0.25\nEND\n"));
    /* the router is what tells the lines apart, not the layers that it always comes with */
    assert_non_null(strstr(text, "title 'experts-choice'"));
    free(text);
    sweep.figure.y = strdup("nothing");
    assert_int_equal(smoe_results_draw(&r, &sample_tables, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(
        strstr(err.text, "the figure cannot have x train_s, y nothing, line (default)"));
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* Every spec of experiments/, at the papers' scale too: all its trials and points are valid. */
static void experiments_expand(void **state) {
    glob_t files;
    size_t trials = 0, points = 0;
    assert_int_equal(glob("experiments/*.yaml", 0, NULL, &files), 0);
    assert_int_equal(glob("experiments/paper/*.yaml", GLOB_APPEND, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        smoe_sweep sweep;
        smoe_err err = {0};
        if (plan_file(&sweep, files.gl_pathv[i], &err))
            fail_msg("%s: %s", files.gl_pathv[i], err.text);
        trials += sweep.trials;
        points += sweep.trials * sweep.evaluate.points;
        smoe_sweep_free(&sweep);
    }
    globfree(&files);
    /* They have thousands; without these sections there would be one trial per spec. */
    assert_true(trials >= 1000 && points >= 200);
}

int main(void) {
#define TEST(name) unit_test_with(name, sweep_folder)
    const struct CMUnitTest tests[] = {TEST(points_are_every_combination),
                                       TEST(impossible_points_are_named),
                                       TEST(points_occur_once),
                                       TEST(results_are_tabled),
                                       TEST(a_metric_on_the_x_axis),
                                       cmocka_unit_test(experiments_expand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
