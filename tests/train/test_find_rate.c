/* The learning-rate finder: on a loss whose fall and growth are known functions of the rate. */
#include "train/find_rate.h"
#include "specs.h"
#include "unit.h"

#include <math.h>

/* From 2.3 to 1 with half of the fall at `middle`, and growing from `bound` on. */
static double loss_at(double rate, double middle, double bound) {
    return 2.3 - 1.3 / (1 + pow(middle / rate, 2)) + (rate > bound ? rate / bound - 1 : 0);
}

static void half_of_the_fall_is_found(void **state) {
    static const double middle[] = {1e-4, 3e-3, 0.05};
    for (size_t i = 0; i < 3; i++) {
        smoe_spec spec = specs_good("train: {steps: 600, optimizer: {lr: 0.5}}", NULL, NULL, NULL);
        smoe_find_rate find;
        smoe_find_rate_begin(&find, &spec);
        while (find.steps < spec.train.steps)
            smoe_find_rate_step(&find, loss_at(spec.train.optimizer.lr, middle[i], 1));
        double found = smoe_find_rate_result(&find);
        /* the running mean comes a few steps late, of which a decade has 20 */
        assert_true(found >= 0.9 * middle[i] && found < 2.5 * middle[i]);
        assert_true(find.steps < SMOE_FIND_STEPS && find.rate[find.steps - 1] > 1);
        assert_true(find.given == 0.5);
        smoe_spec_free(&spec);
    }
}

static void rates_end_at_the_highest(void **state) {
    smoe_spec spec = specs_good("train: {steps: 600}", NULL, NULL, NULL);
    smoe_find_rate find;
    smoe_find_rate_begin(&find, &spec);
    for (size_t i = 0; i < 5; i++) smoe_find_rate_step(&find, 2.3);
    assert_true(isnan(smoe_find_rate_result(&find)));
    while (find.steps < spec.train.steps) smoe_find_rate_step(&find, 2.3);
    assert_int_equal(find.steps, SMOE_FIND_STEPS);
    assert_true(fabs(find.rate[0] - 1e-6) < 1e-12 &&
                fabs(find.rate[SMOE_FIND_STEPS - 1] - 10) < 1e-6);
    smoe_spec_free(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_fall_is_found),
        cmocka_unit_test(rates_end_at_the_highest),
    };
    return cmocka_run_group_tests_name("find_rate", tests, NULL, NULL);
}
