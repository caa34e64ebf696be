/* Statistics of small samples against tables of Student's t and cases worked by hand. */
#include "approx.h"
#include "base/rng.h"
#include "math/stats.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

/* Printed tables have three decimals: half of the last one. */
static void quantiles_are_those_of_the_tables(void **state) {
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
    for (double t = -20; t <= 20; t += 0.37) {
        assert_close(smoe_stats_t_cdf(t, 1), 0.5 + atan(t) / M_PI, 1e-12);
        assert_close(smoe_stats_t_cdf(t, 2), 0.5 + t / (2 * sqrt(2 + t * t)), 1e-12);
    }
    /* and many are the normal distribution, to O(1/n) */
    assert_close(smoe_stats_t_cdf(1.3, 1e7), 0.5 * erfc(-1.3 / sqrt(2)), 1e-7);
}

static void quantile_inverts_the_distribution(void **state) {
    for (double freedom = 1; freedom < 300; freedom *= 1.7)
        for (double p = 0.01; p < 1; p += 0.07)
            assert_close(smoe_stats_t_cdf(smoe_stats_t_quantile(p, freedom), freedom), p, 1e-10);
}

/* 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9 = 14, sd sqrt(14/3). */
static void mean_and_deviation(void **state) {
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

static void medians(void **state) {
    double odd[] = {3, -1, 2}, even[] = {4, 1, 3, 2};
    assert_true(smoe_stats_median(odd, 3) == 2);
    assert_true(odd[0] == -1 && odd[2] == 3);
    assert_true(smoe_stats_median(even, 4) == 2.5); /* the mean of the middle two */
    assert_true(isnan(smoe_stats_median(even, 0)));
}

/* Differences 1, 2, 3: mean 2, sd 1, half-width 4.303 / sqrt(3) = 2.484: includes 0.
 * Differences 4, 5, 6: mean 5, the same half-width: excludes 0. */
static void seeds_by_hand(void **state) {
    const double near[] = {1, 2, 3, NAN}, far[] = {4, 5, 6};
    smoe_paired p = smoe_stats_paired(near, 4);
    assert_int_equal(p.n, 3);
    assert_close(p.mean, 2, 1e-15);
    assert_close(p.half, 4.302653 / sqrt(3), 1e-5);
    assert_true(p.seeds_half == p.half && !p.images && !p.distinguishable);
    assert_close(smoe_stats_p(&p, p.half), 0.05, 1e-9);
    p = smoe_stats_paired(far, 3);
    assert_close(p.mean, 5, 1e-15);
    assert_true(p.distinguishable);
    /* t = 5 sqrt(3), of two degrees: P(T > t) = 1/2 - t / (2 sqrt(2 + t^2)), t^2 = 75 */
    assert_close(smoe_stats_p(&p, p.mean), 1 - sqrt(75.0 / 77), 1e-12);
}

/* 0.1 and -0.1 as differences of doubles, which are rounded: their sum is -2.8e-17, their mean 0. */
static void values_that_cancel(void **state) {
    const double rest[] = {0.3 - 0.2, 0.1 - 0.2}, little[] = {1, -1 + 1e-6};
    assert_true(rest[0] + rest[1] != 0);
    assert_true(smoe_stats_paired(rest, 2).mean == 0);
    assert_true(smoe_stats_paired(little, 2).mean > 0);
}

static void one_seed_has_no_interval(void **state) {
    const double one[] = {8}, same[] = {0, 0}, sure[] = {1, 1, 1, 1, 1, 1}, d[] = {7, 9};
    smoe_paired p = smoe_stats_paired(one, 1);
    smoe_stats_add_images(&p, d, 1, 2);
    assert_true(p.mean == 8 && isnan(p.half) && !p.distinguishable && !p.images);
    assert_true(isnan(smoe_stats_p(&p, 8)) && isnan(smoe_stats_p_equivalent(&p, 1)));
    p = smoe_stats_paired(one, 0);
    assert_true(p.n == 0 && isnan(p.mean) && !p.distinguishable);
    p = smoe_stats_paired(same, 2);
    assert_true(!p.distinguishable && smoe_stats_p(&p, p.mean) == 1);
    /* seeds that agree exactly: the sign test, which six of them pass */
    p = smoe_stats_paired(sure, 2);
    assert_true(p.half == 0 && !p.distinguishable && smoe_stats_p(&p, p.mean) == 1.0 / 2);
    p = smoe_stats_paired(sure, 5);
    assert_true(p.half == 0 && !p.distinguishable && smoe_stats_p(&p, p.mean) == 1.0 / 16);
    p = smoe_stats_paired(sure, 6);
    assert_true(p.half == 0 && p.distinguishable && smoe_stats_p(&p, p.mean) == 1.0 / 32);
}

/*
 * Seeds 1 2 3 and 2 3 7: means 2 and 4, of images 1.5 2.5 5, of all 3.
 *   seeds   variance of 2 and 4 is 2, of their mean 1; t(1) = 12.706205
 *   images  MS_images = 2 (2.25 + 0.25 + 4) / 2 = 6.5; squares within seeds 2 + 14, less 13 leaves
 *           MS_rest = 3 / 2 = 1.5; (6.5 - 1.5) / 6 = 5/6; t(2) = 4.302653
 */
static void seeds_and_images_by_hand(void **state) {
    const double d[] = {1, 2, 3, 2, 3, 7}, seeds[] = {2, 4};
    smoe_paired p = smoe_stats_paired(seeds, 2);
    smoe_stats_add_images(&p, d, 2, 3);
    assert_int_equal(p.images, 3);
    assert_close(p.seeds_var, 1, 1e-15);
    assert_close(p.images_var, 5.0 / 6, 1e-15);
    double half = sqrt(12.706205 * 12.706205 + 4.302653 * 4.302653 * 5 / 6);
    assert_close(p.half, half, 1e-5);
    assert_close(p.seeds_half, 12.706205, 1e-5);
    assert_close(smoe_stats_p(&p, half), 0.05, 1e-7);
}

/*
 * Seeds with the same mean, although their images differ: squares of 20, of which the means of
 * images, all 0, explain nothing, so MS_rest = 20 / 3. The seeds' own variance is 0, the rest
 * proves 20 / 3 / 8 = 5 / 6. Images that agree less than chance would have them subtract nothing.
 */
static void the_rest_bounds_the_seeds(void **state) {
    const double d[] = {1, -1, 2, -2, -1, 1, -2, 2}, seeds[] = {0, 0};
    smoe_paired p = smoe_stats_paired(seeds, 2);
    smoe_stats_add_images(&p, d, 2, 4);
    assert_true(p.images == 4 && p.images_var == 0 && p.seeds_half == 0);
    assert_close(p.seeds_var, 5.0 / 6, 1e-15);
    assert_close(p.half, 12.706205 * sqrt(5.0 / 6), 1e-5);
    assert_true(!p.distinguishable && smoe_stats_p(&p, p.mean) == 1);
}

/* Mean 2, its standard error 1/sqrt(3), two degrees; margins 3 and 1. P(T > 1 sqrt 3): t^2 = 3,
 * so 1/2 - sqrt(3/5)/2; outside the margin the same from the other side. */
static void equivalence_by_hand(void **state) {
    const double value[] = {1, 2, 3};
    smoe_paired p = smoe_stats_paired(value, 3);
    double beyond = 0.5 - sqrt(3.0 / 5) / 2;
    assert_close(smoe_stats_p_equivalent(&p, 3), beyond, 1e-12);
    assert_close(smoe_stats_p_equivalent(&p, 1), 1 - beyond, 1e-12);
    /* 5% where the 90% interval just fits: t of 2.919986 */
    assert_close(smoe_stats_p_equivalent(&p, 2 + 2.919986 / sqrt(3)), 0.05, 1e-7);
}

/* Outcomes that all agree: of 40 images a share of 1% that differ would be missed with probability
 * 0.99^40 = 0.669, of 400 with 0.018. */
static void equivalence_without_differences(void **state) {
    const double mean[2] = {0}, none[2 * 400] = {0};
    const struct {
        size_t images;
        double p;
    } sets[] = {{40, 0.668971758569680}, {400, 0.017950553275045}};
    for (size_t k = 0; k < 2; k++) {
        smoe_paired p = smoe_stats_paired(mean, 2);
        smoe_stats_add_images(&p, none, 2, sets[k].images);
        assert_true(p.half == 0 && p.images == sets[k].images);
        assert_close(smoe_stats_p_equivalent(&p, 0.01), sets[k].p, 1e-12);
        assert_true(smoe_stats_p_equivalent(&p, 1) == 0);
    }
}

/* Values that all agree, without outcomes. The sign test: n seeds on one side of 0 by chance, with
 * 2^(1-n); on the inner side of both margins, with 2^-n. */
static void equal_seeds_are_few_signs(void **state) {
    const double none[8] = {0}, same[] = {0.505 - 0.5, 0.205 - 0.2, 0.005};
    assert_true(same[0] != same[1]); /* rounded */
    smoe_paired two = smoe_stats_paired(none, 2), eight = smoe_stats_paired(none, 8);
    assert_true(smoe_stats_p_equivalent(&two, 0.01) == 1.0 / 4);
    assert_true(smoe_stats_p_equivalent(&eight, 0.01) == 1.0 / 256);
    smoe_paired three = smoe_stats_paired(same, 3);
    assert_true(smoe_stats_p_equivalent(&three, 0.01) == 1.0 / 8);
    assert_true(smoe_stats_p_equivalent(&three, 0.001) == 7.0 / 8);
    assert_true(smoe_stats_p(&three, three.mean) == 1.0 / 4 && smoe_stats_p(&eight, 0) == 1);
    assert_false(smoe_stats_p_equivalent(&eight, NAN) < 0.05); /* no margin is asked for */
}

/* Of four: 4 x 0.01, 3 x 0.02, the larger of that and 2 x 0.025, 0.9. Of six: times 6, 5, 4 and
 * 3. */
static void holm_by_hand(void **state) {
    const double p[] = {0.025, 0.01, 0.9, 0.02}, two[] = {0.6, NAN};
    double adjusted[4];
    smoe_stats_holm(adjusted, p, 4, 4);
    const double four[] = {0.06, 0.04, 0.9, 0.06}, six[] = {0.1, 0.06, 1, 0.1};
    for (size_t i = 0; i < 4; i++) assert_close(adjusted[i], four[i], 1e-15);
    smoe_stats_holm(adjusted, p, 4, 6);
    for (size_t i = 0; i < 4; i++) assert_close(adjusted[i], six[i], 1e-15);
    smoe_stats_holm(adjusted, two, 2, 2);
    assert_true(adjusted[0] == 1 && adjusted[1] == 1);
}

/* ---- simulations: the truth is known, and how often an interval contains it ------------------ */

enum { MOST_SEEDS = 12, IMAGES = 60 };

typedef struct truth {
    double mean, seeds, images, rest; /* deviations of a, b and e in mean + a[s] + b[i] + e[s][i] */
} truth;

static double d[MOST_SEEDS * IMAGES];

static smoe_paired draw(smoe_rng *rng, const truth *t, size_t S) {
    double b[IMAGES], mean[MOST_SEEDS];
    for (size_t i = 0; i < IMAGES; i++) b[i] = t->images * smoe_rng_normal(rng);
    for (size_t s = 0; s < S; s++) {
        double a = t->mean + t->seeds * smoe_rng_normal(rng);
        mean[s] = 0;
        for (size_t i = 0; i < IMAGES; i++) {
            d[s * IMAGES + i] = a + b[i] + t->rest * smoe_rng_normal(rng);
            mean[s] += d[s * IMAGES + i] / IMAGES;
        }
    }
    smoe_paired p = smoe_stats_paired(mean, S);
    smoe_stats_add_images(&p, d, S, IMAGES);
    return p;
}

/* The standard deviations of the mean due to seeds, to images and to the rest. */
static truth truth_of(const double mixture[3], size_t seeds) {
    double S = (double)seeds;
    return (truth){.mean = 0.3,
                   .seeds = mixture[0] * sqrt(S),
                   .images = mixture[1] * sqrt(IMAGES),
                   .rest = mixture[2] * sqrt(S * IMAGES)};
}

/*
 * Standard deviations of the mean due to seeds, to images and to the rest, in many mixtures, with
 * two to twelve seeds. At least 95% of ROUNDS intervals contain the true value: below 0.95 - 4
 * sqrt(.95 .05 / 2000) = 0.9305 chance is less than one in 30,000 (and seeds are fixed, so the test
 * does not depend on chance). False alarms are therefore at most 7%, as measured here; the method's
 * own bound is 5.2%. From eight seeds on the intervals are not too wide either: at most 98% contain
 * it, 99.5% where the variance of seeds is smaller than that of the rest, which bounds it. With two
 * or three seeds and the rest, nearly all contain it: a variance known from one or two differences
 * deserves little trust.
 */
static void intervals_have_the_truth(void **state) {
    enum { ROUNDS = 2000 };
    static const double mixture[][3] = {{0, 0, 1}, {1, 0, 1}, {0, 1, 0}, {0, 1, 1},
                                        {1, 1, 1}, {1, 3, 1}, {3, 1, 1}, {0.5, 0.5, 1}};
    static const size_t seeds[] = {2, 3, 8, 12};
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++)
        for (size_t m = 0; m < sizeof mixture / sizeof *mixture; m++) {
            truth t = truth_of(mixture[m], seeds[k]);
            bool bounded = t.seeds < 0.9 * t.rest / sqrt(IMAGES);
            size_t good = 0;
            for (size_t n = 0; n < ROUNDS; n++) {
                smoe_paired p = draw(&rng, &t, seeds[k]);
                good += fabs(p.mean - t.mean) <= p.half;
                assert_true(p.half >= p.seeds_half);
            }
            double share = (double)good / ROUNDS;
            double most = seeds[k] < 8 ? 1 : bounded ? 0.995 : 0.98;
            if (share < 0.9305 || share > most)
                fail_msg("%zu seeds, mixture %zu: %.4f", seeds[k], m, share);
        }
}

/* MS_rest / (S I) of d, from its definition. */
static double variance_of_rest(size_t S) {
    double seed[MOST_SEEDS] = {0}, image[IMAGES] = {0}, whole = 0, squares = 0;
    for (size_t s = 0; s < S; s++)
        for (size_t i = 0; i < IMAGES; i++) {
            double value = d[s * IMAGES + i] / (double)(S * IMAGES);
            seed[s] += value * (double)S;
            image[i] += value * IMAGES;
            whole += value;
        }
    for (size_t s = 0; s < S; s++)
        for (size_t i = 0; i < IMAGES; i++) {
            double rest = d[s * IMAGES + i] - seed[s] - image[i] + whole;
            squares += rest * rest;
        }
    return squares / (double)((S - 1) * (IMAGES - 1) * S * IMAGES);
}

/*
 * Samples whose seeds agree by chance: the interval over their own variance is narrower than that
 * of the images alone, 1.96 sqrt(MS_rest / (S I) + V_images). With the bound no interval is, and
 * of these samples, not of all, at least 95% have the truth; without it 54 to 93%. With eight
 * seeds, whose quantile is small, that holds while the variance of seeds is at most a quarter of
 * that of the rest; if they are equal, 90%. Chance as above, four deviations of 400 samples. The
 * law is checked on all other samples too.
 */
static void narrow_samples_have_the_truth(void **state) {
    enum { NARROW = 400 };
    static const double mixture[][3] = {{0, 0, 1},   {0, 1, 1}, {0.5, 0, 1},
                                        {0.5, 1, 1}, {1, 0, 1}, {1, 1, 1}};
    static const size_t seeds[] = {2, 3, 5, 8};
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_TEST, 0, 0, 3);
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++)
        for (size_t m = 0; m < sizeof mixture / sizeof *mixture; m++) {
            double t = smoe_stats_t_quantile(0.975, (double)seeds[k] - 1);
            truth of = truth_of(mixture[m], seeds[k]);
            double needed = seeds[k] == 8 && of.seeds > 0.6 * sqrt(8) ? 0.90 - 0.06 : 0.95 - 0.0436;
            size_t good = 0, unbounded = 0;
            for (size_t n = 0; n < NARROW;) {
                smoe_paired p = draw(&rng, &of, seeds[k]), own = p;
                double least = 1.96 * sqrt(variance_of_rest(seeds[k]) + p.images_var);
                assert_true(p.half >= least);
                own.seeds_var = p.seeds_half * p.seeds_half / (t * t);
                if (smoe_stats_half(&own, 0.95) >= least) continue;
                n++;
                good += fabs(p.mean - of.mean) <= p.half;
                unbounded += fabs(p.mean - of.mean) <= smoe_stats_half(&own, 0.95);
            }
            if (good < needed * NARROW || unbounded > 0.94 * NARROW)
                fail_msg("%zu seeds, mixture %zu: %zu, without the bound %zu", seeds[k], m, good,
                         unbounded);
        }
}

/* The interval over seeds alone ignores images: if images dominate, half of the intervals miss. */
static void intervals_over_seeds_alone_are_too_narrow(void **state) {
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_TEST, 0, 0, 1);
    truth t = {.images = 3 * sqrt(IMAGES), .rest = sqrt(8.0 * IMAGES), .seeds = sqrt(8)};
    size_t good = 0;
    for (size_t n = 0; n < 1000; n++) {
        smoe_paired p = draw(&rng, &t, 8);
        good += fabs(p.mean) <= p.seeds_half;
    }
    assert_in_range(good, 500, 800);
}

/*
 * Check by resampling: seeds and images drawn with replacement, and the mean over the draw. Given
 * d, its variance is that of the seeds' means over S, plus that of the images' means over I, plus
 * that of the rest over S I, all without corrections for degrees of freedom. Compared with the
 * analytic form, the rest counts twice more, and the seeds' part is smaller by 1/S. With twelve
 * seeds and these components the ratio is (11/12 (1 + 1/9) + 1 + 2/9) / (1 + 1 + 1/9) = 1.06 of the
 * variance; 3,000 draws estimate a standard deviation to 1.3%, so the two agree to 10%.
 */
static void a_bootstrap_agrees(void **state) {
    enum { S = 12, DRAWS = 3000 };
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_TEST, 0, 0, 2);
    truth t = {.seeds = sqrt(S), .images = sqrt(IMAGES), .rest = sqrt(S * IMAGES) / 3};
    smoe_paired p = draw(&rng, &t, S);
    double sum = 0, squares = 0;
    for (int n = 0; n < DRAWS; n++) {
        size_t image[IMAGES];
        double mean = 0;
        for (size_t i = 0; i < IMAGES; i++) image[i] = smoe_rng_below(&rng, IMAGES);
        for (size_t s = 0; s < S; s++) {
            const double *row = d + IMAGES * smoe_rng_below(&rng, S);
            for (size_t i = 0; i < IMAGES; i++) mean += row[image[i]] / (S * IMAGES);
        }
        sum += mean;
        squares += mean * mean;
    }
    double deviation = sqrt(squares / DRAWS - sum / DRAWS * (sum / DRAWS));
    assert_close(deviation / sqrt(p.seeds_var + p.images_var), 1, 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_tables),
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(quantile_inverts_the_distribution),
        cmocka_unit_test(mean_and_deviation),
        cmocka_unit_test(medians),
        cmocka_unit_test(seeds_by_hand),
        cmocka_unit_test(values_that_cancel),
        cmocka_unit_test(one_seed_has_no_interval),
        cmocka_unit_test(seeds_and_images_by_hand),
        cmocka_unit_test(the_rest_bounds_the_seeds),
        cmocka_unit_test(equivalence_by_hand),
        cmocka_unit_test(equivalence_without_differences),
        cmocka_unit_test(equal_seeds_are_few_signs),
        cmocka_unit_test(holm_by_hand),
        cmocka_unit_test(intervals_have_the_truth),
        cmocka_unit_test(narrow_samples_have_the_truth),
        cmocka_unit_test(intervals_over_seeds_alone_are_too_narrow),
        cmocka_unit_test(a_bootstrap_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
