/* Remarks on losses: what grows, stays at guessing or is memorised is said once; a run that learns
 * gets none. */
#include "train/watch.h"
#include "approx.h"
#include "specs.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 600 };

static const double guess = 2.302585092994046; /* log 10 */

static smoe_watch watch_of(const smoe_spec *spec) {
    return (smoe_watch){.spec = spec, .guess = guess};
}

static smoe_spec spec_of_steps(void) {
    return specs_good("train: {steps: 600}", NULL, NULL, NULL);
}

/* The remarks of a run whose loss at step s is `first` + (last - first) s / STEPS. */
static size_t remarks(smoe_watch *w, double first, double last) {
    size_t count = 0;
    for (uint64_t s = 1; s <= STEPS; s++)
        count += smoe_watch_step(w, s, first + (last - first) * (double)s / STEPS) != NULL;
    return count;
}

static void a_run_that_learns_gets_none(void **state) {
    smoe_spec spec = spec_of_steps();
    smoe_watch w = watch_of(&spec);
    assert_int_equal(remarks(&w, 2.4, 0.5), 0);
    assert_null(w.state);
    assert_null(smoe_watch_eval(&w, 300, 1.4));
    assert_null(smoe_watch_eval(&w, STEPS, 0.9));
    assert_string_equal(w.text, "");
    smoe_spec_free(&spec);
}

static void guessing_is_said_at_half_and_at_the_end(void **state) {
    smoe_spec spec = spec_of_steps();
    smoe_watch w = watch_of(&spec);
    assert_int_equal(remarks(&w, guess, guess), 2);
    assert_string_equal(w.state, "at guessing");
    assert_non_null(strstr(w.text, "step 600: the loss is 2.303, that of guessing 2.303"));
    assert_int_equal(remarks(&w, 2.2, 2.1), 0); /* 0.96 of it is something */
    smoe_spec_free(&spec);
}

static void growth_is_said_once(void **state) {
    smoe_spec spec = spec_of_steps();
    smoe_watch w = watch_of(&spec);
    assert_int_equal(remarks(&w, 2.3, 2000), 1);
    assert_string_equal(w.state, "loss grows");
    assert_non_null(strstr(w.text, "lower train.optimizer.lr"));
    smoe_spec_free(&spec);
}

/* Risen by more than a fifth above its least, or above guessing, while the training loss is less
 * than half of it. */
static void memorising_is_said_at_the_end(void **state) {
    static const double test[][2] = {{1.9, 3.79}, {1.0, 1.3}, {1.0, 1.1}};
    for (size_t i = 0; i < 3; i++) {
        smoe_spec spec = spec_of_steps();
        smoe_watch w = watch_of(&spec);
        assert_int_equal(remarks(&w, 2.3, 0.03), 0);
        assert_null(smoe_watch_eval(&w, 400, test[i][0]));
        const char *text = smoe_watch_eval(&w, STEPS, test[i][1]);
        if (i < 2)
            assert_non_null(strstr(text, i ? "test loss 1.3 (lowest 1 at step 400)"
                                           : "test loss 3.79 (lowest 1.9 at step 400)"));
        else
            assert_null(text);
        smoe_spec_free(&spec);
    }
}

/* The entropy of ten shapes that are equally frequent; of 20 images it is known only roughly. */
static void guessing_follows_the_labels(void **state) {
    smoe_spec spec =
        specs_good("data: {source: shapes, image_size: 16, limit: 5000}", NULL, NULL, NULL);
    smoe_dataset *set;
    smoe_err err;
    smoe_watch w;
    assert_int_equal(smoe_dataset_open(&set, &spec, "train", NULL, &err), 0);
    smoe_watch_open(&w, &spec, set, smoe_dataset_classes(set));
    assert_close(w.guess, guess, 0.01);
    smoe_dataset_free(set);
    smoe_spec_free(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_learns_gets_none),
        cmocka_unit_test(guessing_is_said_at_half_and_at_the_end),
        cmocka_unit_test(growth_is_said_once),
        cmocka_unit_test(memorising_is_said_at_the_end),
        cmocka_unit_test(guessing_follows_the_labels),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
