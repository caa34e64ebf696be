/* Tables of measures, filled without a sweep, as any program with runs could: groups, the
 * difference of two groups by seed, a slope, and missing numbers. */
#include "approx.h"
#include "compare/tables.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 8 };
static char *columns[] = {"experts", "seed"};
static char *settings[RUNS][2] = {{"2", "0"}, {"2", "1"}, {"2", "2"}, {"4", "0"},
                                  {"4", "1"}, {"4", "2"}, {"8", "0"}, {"8", "1"}};
/* 4 experts are better than 2 by 0.1, 0.2 and 0.3; 8 experts by 0.2 and 0.4, which is 0.1 and
 * 0.2 per doubling. */
static const double precision[RUNS] = {0.5, 0.4, 0.3, 0.6, 0.6, 0.6, 0.7, 0.8};

static void fill(smoe_measures *m, char *const **setting) {
    static const char name[] = "precision_at_1";
    for (size_t i = 0; i < RUNS; i++) setting[i] = settings[i];
    *m = (smoe_measures){
        .column = columns, .columns = 2, .seed = 1, .setting = setting, .runs = RUNS};
    m->metric = malloc(sizeof *m->metric);
    m->metric[m->metrics++] = name;
    smoe_measures_open(m);
    for (size_t i = 0; i < RUNS; i++) {
        assert_true(isnan(m->value[i]));
        m->value[i] = precision[i];
    }
}

static void test_groups(void **state) {
    smoe_measures m;
    char *const *setting[RUNS];
    fill(&m, setting);
    assert_int_equal(m.groups, 3);
    static const size_t group[RUNS] = {0, 0, 0, 1, 1, 1, 2, 2};
    for (size_t i = 0; i < RUNS; i++) assert_int_equal(m.group[i], group[i]);
    assert_string_equal(smoe_measures_setting(&m, 2, 0), "8");
    smoe_stats s = smoe_measures_stats(&m, 0, 0);
    assert_int_equal(s.n, 3);
    assert_close(s.mean, 0.4, 1e-15);
    assert_close(s.sd, 0.1, 1e-15);
    assert_int_equal(smoe_measures_metric(&m, "test_loss"), SIZE_MAX);
    assert_true(isnan(smoe_measures_stats(&m, 0, SIZE_MAX).mean));
    smoe_measures_free(&m);
}

/* The differences of 4 experts are 0.1, 0.2, 0.3: mean 0.2, standard deviation 0.1, half-width
 * t(0.975, 2) 0.1 / sqrt(3). Those of 8 experts, with two seeds, are 0.2 and 0.4: half-width
 * t(0.975, 1) 0.1. */
static void test_differences(void **state) {
    smoe_measures m;
    smoe_comparison c;
    smoe_err err;
    char *const *setting[RUNS];
    fill(&m, setting);
    const smoe_compare_options options = {.reference = "experts=2"};
    assert_int_equal(smoe_comparison_make(&c, &m, &options, &err), 0);
    assert_int_equal(c.differences, 2);
    assert_int_equal(c.difference[0].group, 1);
    assert_int_equal(c.difference[0].paired.n, 3);
    assert_close(c.difference[0].paired.mean, 0.2, 1e-15);
    assert_close(c.difference[0].paired.half, 4.302652729749464 * 0.1 / sqrt(3), 1e-12);
    assert_int_equal(c.difference[1].paired.n, 2);
    assert_close(c.difference[1].paired.mean, 0.3, 1e-15);
    assert_close(c.difference[1].paired.half, 12.706204736174698 * 0.1, 1e-12);
    assert_null(smoe_comparison_missing(&c, 0));
    char *reference = smoe_comparison_reference(&c);
    assert_string_equal(reference, "experts=2");
    free(reference);
    smoe_comparison_free(&c);
    smoe_measures_free(&m);
}

/* The two seeds that all groups have: slopes 0.1 and 0.2 per doubling. */
static void test_slope(void **state) {
    smoe_measures m;
    smoe_trends t;
    smoe_err err;
    char *const *setting[RUNS];
    fill(&m, setting);
    assert_int_equal(smoe_trends_make(&t, &m, &err), 0);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.trend[0].groups, 3);
    assert_int_equal(t.trend[0].paired.n, 2);
    assert_close(t.trend[0].paired.mean, 0.15, 1e-15);
    assert_string_equal(smoe_trend_setting(&t, &t.trend[0], 0), "*");
    assert_string_equal(smoe_trend_direction(&t.trend[0]), "not distinguishable");
    smoe_trends_free(&t);
    smoe_measures_free(&m);
}

/* If one run lacks the number, its seed is left out. */
static void test_missing(void **state) {
    smoe_measures m;
    smoe_comparison c;
    smoe_err err;
    char *const *setting[RUNS];
    fill(&m, setting);
    m.value[4] = NAN;
    const smoe_compare_options options = {.reference = "experts=2"};
    assert_int_equal(smoe_comparison_make(&c, &m, &options, &err), 0);
    assert_int_equal(c.difference[0].paired.n, 2);
    assert_close(c.difference[0].paired.mean, 0.2, 1e-15);
    smoe_comparison_free(&c);
    smoe_measures_free(&m);
}

/* Means of the same numbers in another order, or of other numbers of the same one, are equal. */
static void test_rounding(void **state) {
    const double a[] = {0.1, 0.2, 0.3}, b[] = {0.3, 0.2, 0.1}, c[] = {0.7, 0.7, 0.7, 0.7, 0.7, 0.7};
    assert_true(smoe_stats_of(a, 3).mean != smoe_stats_of(b, 3).mean);
    assert_true(smoe_stats_of(c, 6).mean != 0.7);
    assert_true(smoe_stats_apart(smoe_stats_of(a, 3).mean, smoe_stats_of(b, 3).mean) == 0);
    assert_true(smoe_stats_apart(smoe_stats_of(c, 6).mean, 0.7) == 0);
    assert_true(smoe_stats_apart(0.2, 0.2 + 1e-9) < 0 && smoe_stats_apart(1e-9, 0) > 0);
    assert_true(smoe_stats_apart(0, 0) == 0 && isnan(smoe_stats_apart(0, NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),   cmocka_unit_test(test_differences),
        cmocka_unit_test(test_slope),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
