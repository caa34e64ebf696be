/*
 * Rows of a sweep compared with a reference, from outcomes that the test wrote: which row is
 * compared with which, differences and intervals worked by hand, and the files written.
 */
#include "sweep/results.h"
#include "approx.h"
#include "sweep_folder.h"
#include "sweep/evaluations.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRAINED                                                                  \
    "name: g\nmodel: {width: 8, depth: 2, mlp: 8, heads: 1, moe: {layers: all, " \
    "experts: 4, router: tokens-choice}}\ntrain: {batch_size: 8}\n"

static smoe_sweep made(const sweep_folder *w, const char *text) {
    smoe_sweep sweep;
    smoe_err err;
    assert_int_equal(sweep_folder_plan(&sweep, text, &err), 0);
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    return sweep;
}

/* The current results, written to the files. */
static smoe_results results_of(smoe_sweep *sweep) {
    smoe_results r = sweep_folder_results(sweep);
    smoe_err err;
    assert_int_equal(smoe_results_write(&r, &err), 0);
    return r;
}

static void refer(smoe_sweep *sweep, const char *settings) {
    smoe_err err;
    if (smoe_sweep_refer(sweep, settings, "test", &err)) fail_msg("%s", err.text);
}

static char *file(const sweep_folder *w, const char *name) {
    char path[SCRATCH_PATH + 40];
    snprintf(path, sizeof path, "%s/%s", w->dir, name);
    return access(path, F_OK) ? NULL : scratch_read(path, NULL);
}

static const char three_rows[] =
    TRAINED "sweep: {grid: {model.moe.experts: [2, 4, 8]}, seeds: [0, 1, 2]}\n";

/* 2 - 4: -0.25, -0.26, -0.24 (distinguishable; t of 2 degrees of freedom 4.302653, standard
 * deviation 0.01); 8 - 4: 0.1, -0.1 (t of 1 degree 12.706205, standard deviation 0.1 sqrt 2) and
 * a seed without result. */
static void rows_are_compared_seed_by_seed(void **state) {
    const double precision[] = {0.25, 0.44, 0.66, 0.5, 0.7, 0.9, 0.6, 0.6};
    smoe_sweep sweep = made(*state, three_rows);
    for (size_t i = 0; i < 8; i++) sweep_folder_done(&sweep, i, precision[i], "step_s", 1);
    refer(&sweep, "model.moe.experts=4");
    smoe_results r = results_of(&sweep);
    assert_int_equal(r.contrasts.compared.differences, 4); /* two rows, two metrics */
    const smoe_difference *d = r.contrasts.compared.difference;
    assert_string_equal(r.measured->metric[d->metric], "precision_at_1");
    assert_string_equal(smoe_difference_setting(&r.contrasts.compared, d, 0), "2");
    assert_int_equal(d->paired.n, 3);
    assert_close(d->paired.mean, -0.25, 1e-12);
    assert_close(d->paired.half, 4.302653 * 0.01 / sqrt(3), 1e-7);
    assert_true(d->paired.distinguishable);
    d++;
    assert_string_equal(smoe_difference_setting(&r.contrasts.compared, d, 0), "8");
    assert_int_equal(d->paired.n, 2);
    assert_close(d->paired.mean, 0, 1e-12);
    assert_close(d->paired.half, 12.706205 * 0.1, 1e-6);
    assert_false(d->paired.distinguishable);
    assert_string_equal(r.measured->metric[d[1].metric], "step_s");
    smoe_results_free(&r);
    char *text = file(*state, "differences.csv");
    double mean, low, high; /* t of 4.302653 times 0.01/sqrt(3) is 0.0248414 */
    assert_int_equal(sscanf(text,
                            "model.moe.experts,reference,metric,difference,low,high,n,"
                            "distinguishable,images,seeds_low,seeds_high,p,margin,verdict\n"
                            "2,model.moe.experts=4,precision_at_1,%lf,%lf,%lf,",
                            &mean, &low, &high),
                     3);
    assert_close(mean, -0.25, 1e-12);
    assert_close(low, -0.2748414, 1e-7);
    assert_close(high, -0.2251586, 1e-7);
    assert_non_null(strstr(text, ",distinguishable\n8,model.moe.experts=4,precision_at_1,"));
    assert_non_null(strstr(text, "\n2,model.moe.experts=4,step_s,0,0,0,3,false,0,0,0,1,,a time: "
                                 "not judged\n"));
    free(text);
    text = file(*state, "summary.md");
    assert_non_null(strstr(text, "## Differences from experts 4\n"));
    assert_non_null(
        strstr(text, "| 2 | precision_at_1 | -0.25 | [-0.2748, -0.2252] | [-0.2748, -0.2252] | 3 | "
                     "distinguishable |\n"));
    free(text);
    smoe_sweep_free(&sweep);
}

/* 4 - 2: 0.25; 8 - 2: 0.5. One seed gives no interval. */
static void the_first_row_is_the_reference(void **state) {
    smoe_sweep sweep = made(*state, three_rows);
    for (size_t i = 0; i < 9; i += 3)
        sweep_folder_done(&sweep, i, 0.25 + 0.25 * (double)i / 3, "step_s", 1);
    smoe_results r = results_of(&sweep);
    char *reference = smoe_comparison_reference(&r.contrasts.compared);
    assert_string_equal(reference, "model.moe.experts=2");
    free(reference);
    assert_int_equal(r.contrasts.compared.differences, 4);
    assert_string_equal(
        smoe_difference_setting(&r.contrasts.compared, &r.contrasts.compared.difference[1], 0),
        "8");
    assert_int_equal(r.contrasts.compared.difference[1].paired.n, 1);
    assert_true(r.contrasts.compared.difference[1].paired.mean == 0.5 &&
                isnan(r.contrasts.compared.difference[1].paired.half));
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

static const char two_keys[] =
    TRAINED "sweep: {grid: {model.moe.k: [1, 2], model.moe.experts: [2, 4]}, seeds: [0, 1]}\n";

/* k 2 - 1: with 2 experts 0.125, 0.25, with 4 experts 0, -0.25. First the mean over the experts
 * for each seed, 0.0625 and 0; their mean is 0.03125, its half-width 12.706205 times that. As
 * four pairs it would be 0.34. */
static void other_keys_stay_and_are_pooled(void **state) {
    const double precision[] = {0.5, 0.5, 0.25, 0.5, 0.625, 0.75, 0.25, 0.25};
    smoe_sweep sweep = made(*state, two_keys);
    for (size_t i = 0; i < 8; i++) sweep_folder_done(&sweep, i, precision[i], "other", 1);
    refer(&sweep, "model.moe.k=1");
    smoe_results r = results_of(&sweep);
    assert_int_equal(r.contrasts.compared.differences,
                     3); /* "other" is no key by which rows are compared */
    assert_string_equal(
        smoe_difference_setting(&r.contrasts.compared, &r.contrasts.compared.difference[0], 1),
        "2");
    assert_close(r.contrasts.compared.difference[0].paired.mean, 0.1875, 0);
    assert_string_equal(
        smoe_difference_setting(&r.contrasts.compared, &r.contrasts.compared.difference[1], 1),
        "4");
    assert_close(r.contrasts.compared.difference[1].paired.mean, -0.125, 0);
    const smoe_difference *pool = &r.contrasts.compared.difference[2];
    assert_true(pool->pooled);
    assert_string_equal(smoe_difference_setting(&r.contrasts.compared, pool, 0), "2");
    assert_null(smoe_difference_setting(&r.contrasts.compared, pool, 1));
    assert_int_equal(pool->paired.n, 2);
    assert_close(pool->paired.mean, 0.03125, 0);
    assert_close(pool->paired.half, 12.706205 * 0.03125, 1e-6);
    smoe_results_free(&r);
    char *text = file(*state, "differences.csv");
    assert_non_null(strstr(text, "\n2,,model.moe.k=1,precision_at_1,0.03125,"));
    free(text);
    text = file(*state, "summary.md");
    assert_non_null(strstr(text, "\n| 2 | all | precision_at_1 | +0.03125 | [-0.3658, +0.4283] | "
                                 "[-0.3658, +0.4283] | 2 | "));
    free(text);
    smoe_sweep_free(&sweep);
}

/* Experts 4 - 2, at any capacity: 0.25 and 0.75 with k 1, 0.125 with k 2; with k 3 there is no
 * counterpart. Without seeds the pool is one mean, 0.375, and has no interval. */
static void columns_of_the_reference_may_be_left_out(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {zip: {model.moe.experts: [2, 4, 2, 4, 4, 4, 4, 4], "
                             "model.moe.k: [1, 1, 2, 2, 1, 3, 3, 3], "
                             "model.moe.capacity: [1, 2, 0.5, 0.25, 4, 1, 2, 4]}}\n");
    const double precision[] = {0.25, 0.5, 0.5, 0.625, 1, 0, 0, 0};
    for (size_t i = 0; i < 8; i++) sweep_folder_done(&sweep, i, precision[i], "other", 1);
    refer(&sweep, "model.moe.experts=2,model.moe.capacity=*");
    smoe_results r = results_of(&sweep);
    const double want[] = {0.25, 0.125, 0.75};
    assert_int_equal(r.contrasts.compared.differences, 4);
    for (size_t i = 0; i < 3; i++)
        assert_close(r.contrasts.compared.difference[i].paired.mean, want[i], 0);
    assert_true(r.contrasts.compared.difference[3].pooled);
    assert_int_equal(r.contrasts.compared.difference[3].paired.n, 1);
    assert_close(r.contrasts.compared.difference[3].paired.mean, 0.375, 1e-15);
    assert_true(isnan(r.contrasts.compared.difference[3].paired.half));
    assert_null(
        smoe_difference_setting(&r.contrasts.compared, &r.contrasts.compared.difference[3], 2));
    smoe_results_free(&r);
    refer(&sweep,
          "model.moe.k=3,model.moe.capacity=*"); /* three rows each are possible counterparts */
    r = results_of(&sweep);
    assert_int_equal(r.contrasts.compared.differences, 0);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* Two routers with two priorities against one soft row, two seeds: -0.10, -0.12 and -0.11,
 * -0.13. Each row has n = 2, and so has the pool: the mean of the seeds' means -0.105 and
 * -0.125, t of 1 degree 12.706205. Treated as four pairs, the half-width would be 3.182446
 * sqrt(5e-4 / 3) / 2 = 0.0205, and the interval would exclude 0. */
static void pairs_of_one_reference_count_once(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {zip: {model.moe.router: [soft, tokens-choice, tokens-choice],"
                             " model.moe.priority: [bpr, bpr, vanilla]}, seeds: [0, 1]}\n");
    const double precision[] = {0.5, 0.75, 0.4, 0.63, 0.39, 0.62};
    const double mean[] = {-0.11, -0.12, -0.115};
    for (size_t i = 0; i < 6; i++) sweep_folder_done(&sweep, i, precision[i], "other", 1);
    refer(&sweep, "model.moe.router=soft,model.moe.priority=*");
    smoe_results r = results_of(&sweep);
    assert_int_equal(r.contrasts.compared.differences, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r.contrasts.compared.difference[i].paired.n, 2);
        assert_close(r.contrasts.compared.difference[i].paired.mean, mean[i], 1e-12);
    }
    const smoe_difference *pool = &r.contrasts.compared.difference[2];
    assert_true(pool->pooled);
    assert_close(pool->paired.half, 12.706205 * 0.01, 1e-6);
    assert_false(pool->paired.distinguishable);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* Without seeds nothing is compared unless requested; files of an earlier reference are removed. */
static void without_seeds_only_when_asked(void **state) {
    smoe_sweep sweep = made(*state, TRAINED "sweep: {grid: {model.moe.experts: [2, 4]}}\n");
    sweep_folder_done(&sweep, 0, 0.5, "step_s", 1);
    sweep_folder_done(&sweep, 1, 0.75, "step_s", 1);
    refer(&sweep, "model.moe.experts=2");
    smoe_results r = results_of(&sweep);
    assert_int_equal(r.contrasts.compared.differences, 2);
    smoe_results_free(&r);
    char *text = file(*state, "differences.csv");
    assert_non_null(text);
    free(text);
    free(sweep.reference);
    sweep.reference = NULL;
    r = results_of(&sweep);
    assert_int_equal(r.contrasts.compared.differences, 0);
    smoe_results_free(&r);
    assert_null(file(*state, "differences.csv"));
    smoe_sweep_free(&sweep);
}

static void wrong(smoe_sweep *sweep, const char *settings, const char *message) {
    smoe_err err;
    assert_int_equal(smoe_sweep_refer(sweep, settings, "--reference", &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, message);
}

static void mistakes_are_named(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {zip: {model.moe.experts: [2, 4], model.moe.capacity: [1, 2]},"
                             " seeds: [0, 1], evaluate: {grid: {model.moe.k: [1, 2]}}}\n");
    static const char known[] = " is not KEY=VALUE with one of the swept keys: model.moe.experts, "
                                "model.moe.capacity, evaluate.model.moe.k";
    char text[200];
    snprintf(text, sizeof text, "--reference: 'experts'%s", known);
    wrong(&sweep, "experts=2", text);
    snprintf(text, sizeof text, "--reference: 'model.moe.experts'%s", known);
    wrong(&sweep, "model.moe.experts", text);
    snprintf(text, sizeof text, "--reference: 'seed'%s", known);
    wrong(&sweep, "seed=0", text);
    wrong(&sweep, "model.moe.experts=3",
          "--reference: no row has model.moe.experts=3\n"
          "the values of model.moe.experts are: 2, 4");
    wrong(&sweep, "evaluate.model.moe.k=3",
          "--reference: no row has evaluate.model.moe.k=3\n"
          "the values of evaluate.model.moe.k are: 1, 2");
    wrong(&sweep, "model.moe.experts=2",
          "--reference: no row differs from another in model.moe.experts=2 alone; keys that change "
          "together are given together, KEY=VALUE,KEY=VALUE");
    assert_null(sweep.reference);
    refer(&sweep, " model.moe.experts=2, model.moe.capacity=1 ,evaluate.model.moe.k=2");
    smoe_sweep_free(&sweep);
}

/* The manifest keeps it. */
static void a_reference_is_kept(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep, read;
    smoe_err err;
    assert_int_equal(sweep_folder_plan(&sweep, three_rows, &err), 0);
    refer(&sweep, "model.moe.experts=8");
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(smoe_sweep_open(&read, w->dir, &err), 0);
    assert_string_equal(read.reference, "model.moe.experts=8");
    smoe_sweep_free(&read);
    smoe_sweep_free(&sweep);
}

/* The differences of evaluations: row by row ("2,2" is k = 2 evaluated at k = 2), the mean and
 * the pairs. */
static void assert_evaluated(smoe_sweep *sweep, const char *const *row, const double *mean,
                             const size_t *pairs, size_t count) {
    smoe_results r = results_of(sweep);
    char text[40];
    size_t n = 0;
    for (size_t i = 0; i < r.evaluations->contrasts.compared.differences; i++) {
        const smoe_difference *d = &r.evaluations->contrasts.compared.difference[i];
        if (strcmp(r.evaluations->measured->metric[d->metric], "precision_at_1")) continue;
        const char *k = smoe_difference_setting(&r.evaluations->contrasts.compared, d, 0);
        const char *at = smoe_difference_setting(&r.evaluations->contrasts.compared, d, 2);
        snprintf(text, sizeof text, "%s,%s", k ? k : "", at ? at : "");
        assert_true(n < count);
        assert_string_equal(text, row[n]);
        assert_int_equal(d->paired.n, pairs[n]);
        assert_close(d->paired.mean, mean[n++], 0);
    }
    assert_int_equal(n, count);
    smoe_results_free(&r);
}

/* Precision of trial i at points 0 and 1, two seeds of k 1 and of k 2: 0, 0.25; 0.5, 0.5; 0.25,
 * 1; 0.25, 1. */
static void evaluations_are_compared(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = made(w, TRAINED "sweep: {grid: {model.moe.k: [1, 2]}, seeds: [0, 1], "
                                       "evaluate: {grid: {model.moe.k: [1, 2]}}}\n");
    const double precision[][2] = {{0, 0.25}, {0.5, 0.5}, {0.25, 1}, {0.25, 1}};
    for (size_t i = 0; i < 4; i++) {
        char path[2 * SCRATCH_PATH], text[200];
        int length = snprintf(
            text, sizeof text,
            "[{\"loss\": 1, \"precision_at_1\": %g}, {\"loss\": 1, \"precision_at_1\": %g}]",
            precision[i][0], precision[i][1]);
        snprintf(path, sizeof path, "%s/claims/%s.evaluations.json", w->dir, sweep.trial[i].name);
        scratch_write(path, text, (size_t)length);
    }
    /* the default reference: the first setting of the same trial */
    assert_evaluated(&sweep, (const char *const[]){"1,2", "2,2"}, (const double[]){0.125, 0.75},
                     (const size_t[]){2, 2}, 2);
    refer(&sweep, "evaluate.model.moe.k=2");
    assert_evaluated(&sweep, (const char *const[]){"1,1", "2,1", ",1"},
                     (const double[]){-0.125, -0.75, -0.4375}, (const size_t[]){2, 2, 2}, 3);
    refer(&sweep, "model.moe.k=1");
    assert_evaluated(&sweep, (const char *const[]){"2,1", "2,2", "2,"},
                     (const double[]){0, 0.625, 0.3125}, (const size_t[]){2, 2, 2}, 3);
    refer(&sweep, "model.moe.k=1,evaluate.model.moe.k=1");
    assert_evaluated(&sweep, (const char *const[]){"1,2", "2,1", "2,2"},
                     (const double[]){0.125, 0, 0.75}, (const size_t[]){2, 2, 2}, 3);
    char *text = file(w, "evaluations_differences.csv");
    assert_non_null(
        strstr(text, "\n2,2,model.moe.k=1 evaluate.model.moe.k=1,precision_at_1,0.75,"));
    free(text);
    text = file(w, "summary.md");
    assert_non_null(strstr(text, "### Differences from k 1, at k 1\n"));
    free(text);
    smoe_sweep_free(&sweep);
}

int main(void) {
#define TEST(name) unit_test_with(name, sweep_folder)
    const struct CMUnitTest tests[] = {TEST(rows_are_compared_seed_by_seed),
                                       TEST(the_first_row_is_the_reference),
                                       TEST(other_keys_stay_and_are_pooled),
                                       TEST(without_seeds_only_when_asked),
                                       TEST(mistakes_are_named),
                                       TEST(columns_of_the_reference_may_be_left_out),
                                       TEST(pairs_of_one_reference_count_once),
                                       TEST(a_reference_is_kept),
                                       TEST(evaluations_are_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
