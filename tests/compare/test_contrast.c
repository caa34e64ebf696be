/*
 * Contrasts of rows, from results and per-image outcomes that the test wrote: intervals over seeds
 * and images, the intervals used if outcomes are missing, trends, and margins.
 */
#include "sweep/results.h"
#include "approx.h"
#include "sweep_folder.h"
#include "tensors/npy.h"
#include "compare/contrast.h"
#include "sweep/trial.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAINED                                                                  \
    "name: g\nmodel: {width: 8, depth: 2, mlp: 8, heads: 1, moe: {layers: all, " \
    "experts: 4, router: tokens-choice}}\ntrain: {batch_size: 8}\n"

enum { IMAGES = 3 };

static smoe_sweep made(const sweep_folder *w, const char *text) {
    smoe_sweep sweep = sweep_folder_trials(text);
    smoe_err err;
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    return sweep;
}

/* Trial i is done, with these losses per image; no image is classified correctly. */
static void done(const smoe_sweep *sweep, size_t i, const double *loss) {
    float outcome[IMAGES][2] = {{0}};
    double mean = 0;
    smoe_err err;
    for (size_t k = 0; k < IMAGES; k++) {
        outcome[k][1] = (float)loss[k];
        mean += loss[k] / IMAGES;
    }
    sweep_folder_done(sweep, i, 0, "test_loss", mean);
    char *dir = smoe_trial_dir(sweep, i), *path = smoe_trial_outcomes(sweep, i);
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(smoe_npy_write(path, "<f4", outcome, 2, (const size_t[]){IMAGES, 2}, &err), 0);
    free(path);
    free(dir);
}

static const smoe_difference *loss_of(const smoe_results *r) {
    for (size_t i = 0; i < r->contrasts.compared.differences; i++)
        if (!strcmp(r->measured->metric[r->contrasts.compared.difference[i].metric], "test_loss"))
            return &r->contrasts.compared.difference[i];
    fail_msg("no difference of losses");
    return NULL;
}

static const char two_rows[] =
    TRAINED "sweep: {grid: {model.moe.experts: [2, 4]}, seeds: [0, 1]}\n";

/* 4 - 2 experts, by seed: 1 2 3 and 2 3 7. The interval is derived in tests/math/test_stats.c. */
static void fill(const smoe_sweep *sweep) {
    done(sweep, 0, (const double[]){1, 0.5, 2});
    done(sweep, 1, (const double[]){3, 1, 0});
    done(sweep, 2, (const double[]){2, 2.5, 5});
    done(sweep, 3, (const double[]){5, 4, 7});
}

static void assert_alone(smoe_sweep *sweep) {
    smoe_results r = sweep_folder_results(sweep);
    const smoe_difference *d = loss_of(&r);
    assert_int_equal(d->paired.images, 0);
    assert_close(d->paired.half, 12.706205, 1e-5);
    smoe_results_free(&r);
}

static void images_are_paired(void **state) {
    smoe_sweep sweep = made(*state, two_rows);
    fill(&sweep);
    smoe_results r = sweep_folder_results(&sweep);
    const smoe_difference *d = loss_of(&r);
    assert_int_equal(d->paired.n, 2);
    assert_int_equal(d->paired.images, IMAGES);
    assert_close(d->paired.mean, 3, 1e-12);
    assert_close(d->paired.seeds_half, 12.706205, 1e-5);
    assert_close(d->paired.half, sqrt(12.706205 * 12.706205 + 4.302653 * 4.302653 * 5 / 6), 1e-5);
    smoe_results_free(&r);
    /* if one trial is of an older version, the interval is over seeds only */
    char *path = smoe_trial_outcomes(&sweep, 2);
    assert_int_equal(unlink(path), 0);
    free(path);
    assert_alone(&sweep);
    smoe_sweep_free(&sweep);
}

/* Trials that are tested on different images cannot be paired by image: each set adds what it adds
 * by itself. Of independent sets variances add up; of sets that may share images, such as the first
 * three and the first thirty, deviations. The losses of the first row, by seed: 1 0.5 2 and 3 1 0, MS_rest 49/24, MS_images less
 * than that; of the second: 2 2.5 5 and 5 4 7, MS_rest 7/24, MS_images 7/24 + 6 x 13/18. */
static void other_images_are_not_paired(sweep_folder *w, const char *grid, double shared) {
    char text[400];
    snprintf(text, sizeof text, TRAINED "sweep: {grid: {%s}, seeds: [0, 1]}\n", grid);
    smoe_sweep sweep = made(w, text);
    fill(&sweep);
    smoe_results r = sweep_folder_results(&sweep);
    const smoe_difference *d = loss_of(&r);
    assert_int_equal(d->paired.images, 2 * IMAGES);
    assert_close(d->paired.rest_var, (49.0 / 24 + 7.0 / 24 + shared) / 6, 1e-12);
    assert_close(d->paired.images_var, 13.0 / 18, 1e-12);
    assert_close(d->paired.seeds_half, 12.706205, 1e-5);
    assert_close(d->paired.half, sqrt(12.706205 * 12.706205 + 2.570582 * 2.570582 * 13 / 18), 1e-5);
    smoe_results_free(&r);
    char *path = smoe_trial_outcomes(&sweep, 2);
    assert_int_equal(unlink(path), 0);
    free(path);
    assert_alone(&sweep);
    smoe_sweep_free(&sweep);
}

static void independent_images_are_not_paired(void **state) {
    other_images_are_not_paired(*state, "data.seed: [3, 30]", 0);
}

static void related_images_are_not_paired(void **state) {
    other_images_are_not_paired(*state, "data.limit: [3, 30]", 2 * sqrt(49.0 / 24 * 7 / 24));
}

static void other_outcomes_are_refused(void **state) {
    smoe_sweep sweep = made(*state, two_rows);
    smoe_results r;
    smoe_err err;
    fill(&sweep);
    sweep_folder_done(&sweep, 1, 0, "test_loss", 1.5);
    assert_int_equal(smoe_trial_look(&sweep, 1, &err), 0);
    for (size_t i = 0; i < 4; i++) assert_int_equal(smoe_trial_look(&sweep, i, &err), 0);
    assert_int_equal(smoe_results_make(&r, &sweep, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "001-experts=2,seed=1/outcomes.npy: does not belong to "
                                     "the results of the cell"));
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* k 2 - 1 with 2 and 4 experts. A seed that one of the settings lacks does not count; a setting
 * without any result is left out. Seed 0: 0.2 and 0.4; seed 1: 0.1 and 0.5; seed 2: 0.3 and no
 * result. */
static void pools_are_of_whole_seeds(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {grid: {model.moe.k: [1, 2], model.moe.experts: "
                             "[2, 4, 8]}, seeds: [0, 1, 2], reference: model.moe.k=1}\n");
    static const double gain[2][3] = {{0.2, 0.1, 0.3}, {0.4, 0.5, NAN}};
    for (size_t e = 0; e < 2; e++)
        for (size_t s = 0; s < 3; s++) {
            sweep_folder_done(&sweep, 3 * e + s, 0.25, "other", 1);
            if (isfinite(gain[e][s]))
                sweep_folder_done(&sweep, 9 + 3 * e + s, 0.25 + gain[e][s], "other", 1);
        }
    smoe_results r = sweep_folder_results(&sweep);
    const smoe_difference *pool =
        &r.contrasts.compared.difference[r.contrasts.compared.differences - 1];
    assert_true(pool->pooled);
    assert_int_equal(pool->paired.n, 2);
    assert_close(pool->paired.mean, 0.3, 1e-12);
    assert_close(pool->paired.half, 0, 1e-12);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/*
 * 2, 4, 8 experts, one step of log2 each, so the slope is half of last - first. Slopes by seed with
 * k 1: 0.1, 0.12, 0.14, mean 0.12, half-width 4.302653 x 0.02 / sqrt 3; with k 2: 0.1 and -0.1. An
 * axis without numbers, or with only two, has no trend.
 */
static void trends_by_hand(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {grid: {model.moe.k: [1, 2], model.moe.experts: "
                             "[2, 4, 8]}, seeds: [0, 1, 2]}\n");
    static const double precision[][3] = {{0.1, 0.1, 0.1}, {0.9, 0.2, 0.15}, {0.3, 0.34, 0.38},
                                          {0.3, 0.3, NAN}, {0.5, 0.1, 0},    {0.5, 0.1, 0.7}};
    for (size_t g = 0; g < 6; g++)
        for (size_t s = 0; s < 3; s++)
            if (isfinite(precision[g][s]))
                sweep_folder_done(&sweep, 3 * g + s, precision[g][s], "other", 1);
    smoe_results r = sweep_folder_results(&sweep);
    assert_int_equal(r.contrasts.trends.count, 2);
    const smoe_trend *t = r.contrasts.trends.trend;
    assert_string_equal(sweep.column[t->column], "model.moe.experts");
    assert_int_equal(t->groups, 3);
    assert_int_equal(t->paired.n, 3);
    assert_close(t->paired.mean, 0.12, 1e-12);
    assert_close(t->paired.half, 4.302653 * 0.02 / sqrt(3), 1e-7);
    assert_string_equal(smoe_trend_direction(t), "rising");
    t++;
    assert_int_equal(t->paired.n, 2);
    assert_close(t->paired.mean, 0, 1e-12);
    assert_string_equal(smoe_trend_direction(t), "not distinguishable");
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* 0.81 at 2, 16, 32 and 512 experts, with every seed: the weights of a slope are rounded, so that
 * their sum is not exactly 0, which is no trend. */
static void equal_rows_have_no_trend(void **state) {
    smoe_sweep sweep = made(
        *state, TRAINED "sweep: {grid: {model.moe.experts: [2, 16, 32, 512]}, seeds: [0, 1, 2]}\n");
    for (size_t cell = 0; cell < 12; cell++) sweep_folder_done(&sweep, cell, 0.81, "other", 1);
    smoe_results r = sweep_folder_results(&sweep);
    assert_int_equal(r.contrasts.trends.count, 1);
    const smoe_trend *t = r.contrasts.trends.trend;
    assert_int_equal(t->paired.n, 3);
    assert_true(t->paired.mean == 0);
    assert_string_equal(smoe_trend_direction(t), "not distinguishable");
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* k 2 as k 1 with 2 to 64 experts, 0.1 to 0.7: of the six differences the sum is a few 1e-17, which
 * all seeds have. */
static void tied_rows_do_not_differ(void **state) {
    smoe_sweep sweep = made(
        *state, TRAINED "sweep: {grid: {model.moe.k: [1, 2], model.moe.experts: "
                        "[2, 4, 8, 16, 32, 64]}, seeds: [0, 1, 2], reference: model.moe.k=1}\n");
    static const double value[] = {0.1, 0.3, 0.7, 0.6, 0.2, 0.41};
    for (size_t cell = 0; cell < 36; cell++)
        sweep_folder_done(&sweep, cell, value[cell / 3 % 6], "other", 1);
    smoe_results r = sweep_folder_results(&sweep);
    const smoe_difference *pool =
        &r.contrasts.compared.difference[r.contrasts.compared.differences - 1];
    assert_true(pool->pooled);
    assert_int_equal(pool->paired.n, 3);
    assert_true(pool->paired.mean == 0);
    assert_false(pool->paired.distinguishable);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* k 2 as k 1 with 2, 4 and 8 experts, image by image: a third three times less a third three times
 * is 1.1e-16, a spread from which 3 images would prove that the rows are equivalent. */
static void tied_images_have_no_spread(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {grid: {model.moe.k: [1, 2], model.moe.experts: "
                             "[2, 4, 8]}, seeds: [0, 1], reference: model.moe.k=1}\n");
    for (size_t cell = 0; cell < 12; cell++) done(&sweep, cell, (const double[]){0, 1, 1});
    smoe_results r = sweep_folder_results(&sweep);
    const smoe_difference *pool =
        &r.contrasts.compared.difference[r.contrasts.compared.differences - 1];
    assert_true(pool->pooled);
    assert_int_equal(pool->paired.images, IMAGES);
    assert_true(pool->paired.half == 0);
    assert_close(smoe_stats_p_equivalent(&pool->paired, 0.1), 0.9 * 0.9 * 0.9, 1e-12);
    smoe_results_free(&r);
    smoe_sweep_free(&sweep);
}

/* Uneven steps: log2 is 0, 1, 3; deviations from the mean 4/3 are -4/3, -1/3, 5/3, sum of
 * squares 42/9. */
static void slopes_by_hand(void **state) {
    const bool member[] = {true, false, true, true}, two[] = {true, false, false, true};
    const double x[] = {1, 5, 2, 8}, want[] = {-12.0 / 42, 0, -3.0 / 42, 15.0 / 42};
    double weight[4];
    assert_true(smoe_contrast_slope(weight, member, x, 4));
    for (size_t g = 0; g < 4; g++) assert_close(weight[g], want[g], 1e-15);
    assert_false(smoe_contrast_slope(weight, two, x, 4));
}

/* As smoe sweep does with its option. */
static int set_equivalence(smoe_sweep *sweep, const char *text, const char *from, smoe_err *err) {
    if (smoe_margin_check(text, from, err)) return -1;
    smoe_text_set(&sweep->plan.equivalence, text);
    return 0;
}

/* 4 - 2 experts: 0.01 -+ 0.001 t, 90% interval up to 0.01 + 2.919986 x 0.002 / sqrt 3 = 0.01337. */
static void margins_decide(void **state) {
    smoe_sweep sweep =
        made(*state, TRAINED "sweep: {grid: {model.moe.experts: [2, 4]}, seeds: [0, 1, 2]}\n");
    static const struct {
        const char *margin, *verdict;
    } cases[] = {{"0.0134", "equivalent within \xc2\xb1"
                            "0.0134"},
                 {"0.0133", "different"},
                 {"precision_at_1=0.02", "equivalent within \xc2\xb1"
                                         "0.02"},
                 {"test_loss=0.02", "distinguishable"}};
    const double precision[] = {0.5, 0.5, 0.5, 0.508, 0.51, 0.512};
    char text[64];
    smoe_err err;
    for (size_t i = 0; i < 6; i++) sweep_folder_done(&sweep, i, precision[i], "other", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(set_equivalence(&sweep, cases[i].margin, "test", &err), 0);
        smoe_results r = sweep_folder_results(&sweep);
        assert_int_equal(r.contrasts.compared.differences, 1);
        assert_string_equal(
            smoe_difference_verdict(text, sizeof text, r.contrasts.compared.difference),
            cases[i].verdict);
        smoe_results_free(&r);
    }
    sweep_folder_done(&sweep, 3, 0.45, "other", 1);
    assert_int_equal(set_equivalence(&sweep, "0.01", "test", &err), 0);
    smoe_results r = sweep_folder_results(&sweep);
    assert_string_equal(smoe_difference_verdict(text, sizeof text, r.contrasts.compared.difference),
                        "not decided");
    smoe_results_free(&r);
    static const char *const bad[] = {"0", "-1", "much", "0.1,0.2", "precision_at_1=x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(set_equivalence(&sweep, bad[i], "--equivalence", &err), -1);
        assert_int_equal(err.code, SMOE_USAGE);
        assert_non_null(strstr(err.text, "--equivalence: '"));
    }
    assert_int_equal(set_equivalence(&sweep, "beauty=1", "--equivalence", &err), -1);
    assert_string_equal(err.text,
                        "--equivalence: 'beauty' is not a measured column of results.csv");
    smoe_sweep_free(&sweep);
}

int main(void) {
#define TEST(name) unit_test_with(name, sweep_folder)
    const struct CMUnitTest tests[] = {TEST(images_are_paired),
                                       TEST(independent_images_are_not_paired),
                                       TEST(related_images_are_not_paired),
                                       TEST(other_outcomes_are_refused),
                                       TEST(pools_are_of_whole_seeds),
                                       TEST(trends_by_hand),
                                       TEST(equal_rows_have_no_trend),
                                       TEST(tied_rows_do_not_differ),
                                       TEST(tied_images_have_no_spread),
                                       TEST(slopes_by_hand),
                                       TEST(margins_decide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
