/* Statistical power against published values, closed forms, and simulation. */
#include "approx.h"
#include "base/rng.h"
#include "compare/power.h"
#include "unit.h"

#include <math.h>

/* Two seeds whose differences have a standard deviation of 1. */
static smoe_paired unit(void) {
    const double value[] = {-M_SQRT1_2, M_SQRT1_2};
    return smoe_stats_paired(value, 2);
}

/* Paired t tests as in textbooks (Cohen 1988, ch. 2; two-sided, 5%). An effect of half a
 * standard deviation needs 34 pairs for 80% power and 44 for 90%; one of 0.8 needs 15 and 19;
 * one of 1 needs 10 and 13. */
static void tables_of_paired_tests(void **state) {
    static const struct {
        double effect, power;
        size_t n;
    } table[] = {{0.5, 0.8, 34}, {0.5, 0.9, 44}, {0.8, 0.8, 15},
                 {0.8, 0.9, 19}, {1, 0.8, 10},   {1, 0.9, 13}};
    smoe_paired p = unit();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(smoe_power_seeds(&p, table[i].effect, table[i].power), table[i].n);
        assert_int_equal(smoe_power_seeds(&p, -table[i].effect, table[i].power), table[i].n);
    }
}

/* If there is no difference, one is found in 5% of all cases, whatever the number of seeds; a
 * huge one is always found. */
static void no_difference_and_a_huge_one(void **state) {
    smoe_paired p = unit();
    for (size_t n = 2; n < 3000; n = n * 3 / 2 + 1) {
        assert_close(smoe_power_of(&p, n, 0), 0.05, 1e-7);
        assert_close(smoe_power_of(&p, n, 1e5), 1, 2e-5);
    }
    assert_int_equal(smoe_power_seeds(&p, 0, 0.8), 0);
    assert_int_equal(smoe_power_seeds(&p, 1e-3, 0.8), 0); /* about 8 million would be needed */
}

/* The variance between images does not shrink with more seeds. With a standard deviation of 0.1
 * of the mean, a difference of 0.2 is found with probability at most P(Z > 1.96 - 2) + ... =
 * 0.516, whatever the number of seeds; one of 0.4 with nearly 0.98. */
static void images_are_a_limit(void **state) {
    smoe_paired p = unit();
    p.images = 100001;
    p.images_var = 0.01;
    assert_int_equal(smoe_power_seeds(&p, 0.2, 0.8), 0);
    assert_close(smoe_power_of(&p, 100000, 0.2), 0.516, 1e-3);
    assert_true(smoe_power_seeds(&p, 0.4, 0.8) > 0);
    smoe_paired alone = unit();
    assert_true(smoe_power_seeds(&p, 0.4, 0.8) > smoe_power_seeds(&alone, 0.4, 0.8));
}

static void one_seed_has_no_power(void **state) {
    const double value[] = {0.3}, sure[] = {0.3, 0.3};
    smoe_paired p = smoe_stats_paired(value, 1);
    assert_int_equal(smoe_power_seeds(&p, 0.1, 0.8), 0);
    p = smoe_stats_paired(sure, 2);
    assert_int_equal(smoe_power_seeds(&p, 0.1, 0.8), 2);
}

enum { SEEDS = 6, IMAGES = 60, ROUNDS = 8000 };

/* How often the interval of SEEDS seeds and IMAGES images excludes 0 if the true difference is
 * `difference`. */
static double found(const smoe_paired *truth, double difference, uint64_t stream) {
    smoe_rng rng = smoe_rng_at(0, SMOE_RNG_TEST, 1, 0, stream);
    double seeds = sqrt(truth->seeds_var * (double)truth->n), d[SEEDS * IMAGES], image[IMAGES];
    double spread = sqrt(truth->images_var * IMAGES);
    size_t misses = 0;
    for (size_t n = 0; n < ROUNDS; n++) {
        double mean[SEEDS] = {0};
        for (size_t i = 0; i < IMAGES; i++) image[i] = spread * smoe_rng_normal(&rng);
        for (size_t s = 0; s < SEEDS; s++) {
            double a = difference + seeds * smoe_rng_normal(&rng);
            for (size_t i = 0; i < IMAGES; i++) {
                d[s * IMAGES + i] = a + image[i] + 0.1 * smoe_rng_normal(&rng);
                mean[s] += d[s * IMAGES + i] / IMAGES;
            }
        }
        smoe_paired p = smoe_stats_paired(mean, SEEDS);
        if (truth->images) smoe_stats_add_images(&p, d, SEEDS, IMAGES);
        misses += p.distinguishable;
    }
    return (double)misses / ROUNDS;
}

/*
 * Over seeds alone the integral is exact: four standard deviations of a share of 8,000 are at most
 * 0.0224. With images the method treats the variance between images as known, while 60 images
 * estimate it to 18%: another 0.02.
 */
static void simulations_agree(void **state) {
    static const double difference[] = {0.5, 1, 1.5, 2};
    smoe_paired p = unit(), both = unit();
    both.images = IMAGES;
    both.images_var = 0.08;
    for (size_t i = 0; i < sizeof difference / sizeof *difference; i++) {
        assert_close(found(&p, difference[i], i), smoe_power_of(&p, SEEDS, difference[i]), 0.0224);
        assert_close(found(&both, difference[i], 10 + i),
                     smoe_power_of(&both, SEEDS, difference[i]), 0.0424);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_paired_tests), cmocka_unit_test(no_difference_and_a_huge_one),
        cmocka_unit_test(images_are_a_limit),     cmocka_unit_test(one_seed_has_no_power),
        cmocka_unit_test(simulations_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
