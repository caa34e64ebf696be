/* Primary contrasts: which plans are valid, what is stored, and what is found. */
#include "sweep/results.h"
#include "approx.h"
#include "sweep_folder.h"
#include "sweep/trial.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAINED                                                                  \
    "name: g\nmodel: {width: 8, depth: 2, mlp: 8, heads: 1, moe: {layers: all, " \
    "experts: 4, router: tokens-choice}}\ntrain: {batch_size: 8}\n"
#define GRID                                                                              \
    "sweep:\n  grid: {model.moe.router: [soft, uniform], model.moe.experts: [2, 4, 8]}\n" \
    "  seeds: [0, 1]\n"
#define EVALUATED GRID "  evaluate: {grid: {eval.split: [test, train]}}\n"

static const char plan[] = TRAINED GRID
    "  equivalence: 0.05\n  family: 6\n  primary:\n"
    "    - {row: model.moe.router=soft, reference: model.moe.router=uniform, expect: higher}\n"
    "    - {row: model.moe.router=soft, reference: model.moe.router=uniform, measure: test_loss,\n"
    "       expect: higher}\n"
    "    - {row: 'model.moe.router=uniform,model.moe.experts=8', reference: model.moe.experts=2,\n"
    "       expect: equivalent}\n"
    "    - {trend: model.moe.experts, where: model.moe.router=soft, expect: rising}\n";

/*
 * Soft, then uniform, with 2, 4, 8 experts, two seeds each; by seed:
 *   soft - uniform, the mean over experts   0.599/3 and 0.603/3   t = 0.601/0.002 = 300.5
 *   the same of losses                      -1 and -1.001         2001
 *   uniform 8 - 2 experts                   0.001 and 0           within 0.05: 0.0495/0.0005 = 99
 *   the slope of soft                       0.1 and 0.1001        2001
 * With one degree of freedom p is 1 - 2 atan(t) / pi; one-sided, half of it. Corrected for six
 * contrasts, the two smallest, which are equal, are multiplied by 6, the next by 4 and 3.
 */
static const double precision[] = {0.3, 0.3, 0.4, 0.4,    0.5,   0.5002,
                                   0.2, 0.2, 0.2, 0.1972, 0.201, 0.2};

static void p_and_findings(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(plan);
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    for (size_t i = 0; i < 12; i++)
        sweep_folder_done(&sweep, i, precision[i], "test_loss",
                          i < 6 ? 1 : 2 + 0.001 * (double)(i % 2));
    smoe_results r = sweep_folder_results(&sweep);
    assert_int_equal(r.contrasts.primaries, 4);
    const smoe_primary_result *found = r.contrasts.primary;
    static const size_t rows[] = {3, 3, 1, 3};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(found[i].groups, rows[i]);
        assert_int_equal(found[i].paired.n, 2);
    }
    static const double mean[] = {0.601 / 3, -1.0005, 0.0005, 0.10005},
                        ratio[] = {300.5, 2001, 99, 2001};
    static const double times[] = {4, 6, 3, 6};
    static const smoe_finding want[] = {SMOE_CONFIRMED, SMOE_REFUTED, SMOE_CONFIRMED,
                                        SMOE_CONFIRMED};
    for (size_t i = 0; i < 4; i++) {
        double p = (1 - 2 * atan(ratio[i]) / M_PI) / (i == 2 ? 2 : 1);
        assert_close(found[i].paired.mean, mean[i], 1e-12);
        assert_close(found[i].p, p, 1e-9);
        assert_close(found[i].adjusted, times[i] * p, 1e-8);
        assert_int_equal(found[i].finding, want[i]);
    }
    assert_close(found[2].margin, 0.05, 0);
    char *name = smoe_primary_name(found[3].asked);
    assert_string_equal(name, "slope over model.moe.experts, model.moe.router=soft");
    free(name);
    assert_int_equal(smoe_results_write(&r, &err), 0);
    char path[SCRATCH_PATH + 20];
    snprintf(path, sizeof path, "%s/primary.csv", w->dir);
    char *text = scratch_read(path, NULL);
    assert_non_null(strstr(
        text, "\nmodel.moe.router=soft - model.moe.router=uniform,test_loss,higher,-1.0005"));
    assert_non_null(strstr(text, ",refuted\n"));
    free(text);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* Without results nothing is found. A difference far outside the margin refutes equivalence. */
static void nothing_is_found_without_results(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(
        TRAINED "sweep: {grid: {model.moe.experts: [2, 4]}, seeds: [0, 1], primary: [{row: "
                "model.moe.experts=4, reference: model.moe.experts=2, expect: equivalent, margin: "
                "0.01}]}\n");
    smoe_results r;
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(smoe_results_make(&r, &sweep, &err), 0);
    assert_true(r.contrasts.primary->finding == SMOE_OPEN && isnan(r.contrasts.primary->p) &&
                r.contrasts.primary->adjusted == 1);
    smoe_results_free(&r);
    const double far[] = {0.1, 0.1, 0.5, 0.5001};
    for (size_t i = 0; i < 4; i++) {
        sweep_folder_done(&sweep, i, far[i], "other", 1);
        assert_int_equal(smoe_trial_look(&sweep, i, &err), 0);
    }
    assert_int_equal(smoe_results_make(&r, &sweep, &err), 0);
    assert_int_equal(r.contrasts.primary->finding, SMOE_REFUTED);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* The manifest stores the plan; a different plan is a different sweep. */
static void plans_are_kept(void **state) {
    sweep_folder *w = *state;
    smoe_sweep sweep = sweep_folder_trials(plan), read, other, same = sweep_folder_trials(plan);
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(smoe_sweep_open(&read, w->dir, &err), 0);
    assert_int_equal(read.plan.primaries, sweep.plan.primaries);
    assert_string_equal(read.plan.equivalence, "0.05");
    assert_string_equal(read.plan.primary[0].measure, "precision_at_1");
    assert_string_equal(read.plan.family, "6");
    smoe_sweep_free(&read);
    assert_int_equal(smoe_sweep_create(&same, w->dir, true, &err), 0);
    char *text = strdup(plan), *word = strstr(text, "expect: higher");
    memcpy(word, "expect:  lower", strlen("expect:  lower"));
    other = sweep_folder_trials(text);
    assert_int_equal(smoe_sweep_create(&other, w->dir, true, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(strstr(err.text, ": sweep.primary has changed since this sweep began, "
                                     "with 4 primary contrasts; -o DIR chooses another folder"));
    free(text);
    smoe_sweep_free(&other);
    smoe_sweep_free(&same);
    smoe_sweep_free(&sweep);
}

/* Contrasts of evaluations look for their rows among the evaluations. */
static void evaluations_may_be_named(void **state) {
    smoe_sweep sweep = sweep_folder_trials(
        TRAINED EVALUATED "  primary: [{row: evaluate.eval.split=test, reference: "
                          "evaluate.eval.split=train, measure: loss, expect: higher}]\n");
    assert_int_equal(sweep.plan.primaries, 1);
    smoe_sweep_free(&sweep);
}

static void mistakes_are_named(void **state) {
    static const struct {
        const char *primary, *message;
    } cases[] = {
        {"{row: model.moe.router=soft, expect: higher}",
         "give row and reference, or trend and optionally where"},
        {"{row: model.moe.router=soft, reference: model.moe.router=uniform, where: model.moe.k=1, "
         "expect: higher}",
         "give row and reference, or trend and optionally where"},
        {"{row: model.moe.router=soft, reference: model.moe.router=uniform, trend: model.moe.k, "
         "expect: higher}",
         "give row and reference, or trend and optionally where"},
        {"{row: model.moe.router=soft, reference: model.moe.router=uniform}",
         "expect: give one of higher, lower, different, equivalent"},
        {"{trend: model.moe.experts, expect: higher}", "expect: give one of rising, falling"},
        {"{row: model.moe.router=soft, reference: model.moe.router=uniform, expect: equivalent}",
         "expect: equivalent: give a margin, a positive number"},
        {"{row: model.moe.router=soft, reference: model.moe.router=uniform, expect: lower, margin: "
         "1}",
         "margin: goes with expect: equivalent"},
        {"{row: model.moe.router=soft, reference: model.moe.router=uniform, expect: lower, "
         "measure: beauty}",
         "measure: 'beauty' is not a measured column of results.csv"},
        {"{row: evaluate.eval.split=test, reference: evaluate.eval.split=train, expect: lower, "
         "measure: test_loss}",
         "measure: 'test_loss' is not a measured column of evaluations.csv"},
        {"{row: router=soft, reference: model.moe.router=uniform, expect: lower}",
         "'router' is not KEY=VALUE with a swept key; these are: model.moe.router, "
         "model.moe.experts"},
        {"{row: model.moe.router, reference: model.moe.router=uniform, expect: lower}",
         "'model.moe.router' is not KEY=VALUE with a swept key; these are: model.moe.router, "
         "model.moe.experts"},
        {"{row: model.moe.router=soft, reference: model.moe.router=dense, expect: lower}",
         "no row has a counterpart with model.moe.router=dense"},
        {"{row: model.moe.router=dense, reference: model.moe.router=soft, expect: lower}",
         "no row has model.moe.router=dense"},
        {"{row: model.moe.router=soft, reference: 'model.moe.router=uniform,model.moe.experts=*', "
         "expect: lower}",
         "a row has several possible references; name all keys that change together"},
        {"{trend: model.moe.k, expect: rising}",
         "trend: 'model.moe.k' is not swept; these are: model.moe.router, model.moe.experts"},
        {"{trend: model.moe.router, expect: rising}",
         "a trend needs three rows that differ in model.moe.router alone, with positive numbers "
         "there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000], want[200];
        smoe_sweep sweep;
        smoe_err err = {0};
        snprintf(text, sizeof text, "%s  primary: [%s]\n", TRAINED EVALUATED, cases[i].primary);
        snprintf(want, sizeof want, "t:8:13: sweep.primary, contrast 1: %s", cases[i].message);
        assert_int_equal(sweep_folder_plan(&sweep, text, &err), SMOE_USAGE);
        assert_string_equal(err.text, want);
        smoe_sweep_free(&sweep);
    }
    smoe_sweep sweep;
    smoe_err err = {0};
    assert_int_equal(sweep_folder_plan(&sweep, TRAINED GRID "  family: none\n", &err), SMOE_USAGE);
    assert_string_equal(err.text, "t:7:11: sweep.family: 'none' is not a number of contrasts; the "
                                  "sweep itself has 0");
    smoe_sweep_free(&sweep);
}

int main(void) {
#define TEST(name) unit_test_with(name, sweep_folder)
    const struct CMUnitTest tests[] = {TEST(p_and_findings), TEST(nothing_is_found_without_results),
                                       TEST(plans_are_kept), TEST(evaluations_may_be_named),
                                       TEST(mistakes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
