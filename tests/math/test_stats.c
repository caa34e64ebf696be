/* Statistics of small samples against tables of Student's t and cases worked by hand. */
#include "close.h"
#include "math/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

/* Printed tables: three decimals, so half of the last one. */
static void quantiles_are_those_of_the_tables(void **state) {
    (void)state;
    static const struct {
        double p, freedom, t;
    } table[] = {{0.975, 1, 12.706}, {0.975, 2, 4.303},   {0.975, 4, 2.776}, {0.975, 9, 2.262},
                 {0.975, 30, 2.042}, {0.975, 120, 1.980}, {0.95, 1, 6.314},  {0.95, 5, 2.015},
                 {0.995, 3, 5.841},  {0.995, 10, 3.169},  {0.9, 2, 1.886},   {0.75, 1, 1.000},
                 {0.9995, 4, 8.610}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double t = smoe_stats_t_quantile(table[i].p, table[i].freedom);
        assert_close(t, table[i].t, 5e-4);
        assert_close(smoe_stats_t_quantile(1 - table[i].p, table[i].freedom), -t, 1e-9);
    }
}

/* One degree of freedom is the Cauchy distribution, two have P = 1/2 + t / (2 sqrt(2 + t^2)). */
static void closed_forms(void **state) {
    (void)state;
    for (double t = -20; t <= 20; t += 0.37) {
        assert_close(smoe_stats_t_cdf(t, 1), 0.5 + atan(t) / M_PI, 1e-12);
        assert_close(smoe_stats_t_cdf(t, 2), 0.5 + t / (2 * sqrt(2 + t * t)), 1e-12);
    }
    /* and many are the normal distribution, to O(1/n) */
    assert_close(smoe_stats_t_cdf(1.3, 1e7), 0.5 * erfc(-1.3 / sqrt(2)), 1e-7);
}

static void quantile_inverts_the_distribution(void **state) {
    (void)state;
    for (double freedom = 1; freedom < 300; freedom *= 1.7)
        for (double p = 0.01; p < 1; p += 0.07)
            assert_close(smoe_stats_t_cdf(smoe_stats_t_quantile(p, freedom), freedom), p, 1e-10);
}

/* 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9 = 14, sd sqrt(14/3). */
static void mean_and_deviation(void **state) {
    (void)state;
    const double value[] = {1, NAN, 2, 3, INFINITY, 6};
    smoe_stats s = smoe_stats_of(value, 6);
    assert_int_equal(s.n, 4);
    assert_close(s.mean, 3, 1e-15);
    assert_close(s.sd, sqrt(14.0 / 3), 1e-15);
    s = smoe_stats_of(value, 1);
    assert_true(s.n == 1 && s.mean == 1 && isnan(s.sd));
    s = smoe_stats_of(value, 0);
    assert_true(s.n == 0 && isnan(s.mean));
}

/* Differences 1, 2, 3: mean 2, sd 1, half 4.303 / sqrt(3) = 2.484: includes 0.
 * Differences 4, 5, 6: mean 5, the same half: does not. */
static void pairs_by_hand(void **state) {
    (void)state;
    const double a[] = {2, 4, 6, NAN}, b[] = {1, 2, 3, 4}, far[] = {5, 7, 9, 1};
    smoe_paired p = smoe_stats_paired(a, b, 4, 0.95);
    assert_int_equal(p.n, 3);
    assert_close(p.mean, 2, 1e-15);
    assert_close(p.half, 4.302653 / sqrt(3), 1e-5);
    assert_false(p.distinguishable);
    p = smoe_stats_paired(far, b, 3, 0.95);
    assert_close(p.mean, 5, 1e-15);
    assert_true(p.distinguishable);
    p = smoe_stats_paired(b, far, 3, 0.95);
    assert_close(p.mean, -5, 1e-15);
    assert_true(p.distinguishable);
}

/* What varies together from pair to pair does not count, however large. */
static void pairing_removes_what_is_shared(void **state) {
    (void)state;
    const double a[] = {101.1, 203.0, 299.9}, b[] = {100, 202.1, 299};
    assert_true(smoe_stats_paired(a, b, 3, 0.95).distinguishable);
}

static void one_pair_says_nothing(void **state) {
    (void)state;
    const double a[] = {9}, b[] = {1};
    smoe_paired p = smoe_stats_paired(a, b, 1, 0.95);
    assert_true(p.mean == 8 && isnan(p.half) && !p.distinguishable);
    p = smoe_stats_paired(a, b, 0, 0.95);
    assert_true(p.n == 0 && isnan(p.mean) && !p.distinguishable);
    const double same[] = {1, 1};
    assert_false(smoe_stats_paired(same, same, 2, 0.95).distinguishable);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_tables),
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(quantile_inverts_the_distribution),
        cmocka_unit_test(mean_and_deviation),
        cmocka_unit_test(pairs_by_hand),
        cmocka_unit_test(pairing_removes_what_is_shared),
        cmocka_unit_test(one_pair_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
