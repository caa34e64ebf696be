/* Steps that follow from a budget of FLOPs. */
#include "bench/cost.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Reads a spec of dense blocks of width 16 and batches of 8, with the given section `train` and
 * overrides. */
static int read_spec(smoe_spec *spec, const char *train, char *const *overrides, size_t count,
                     smoe_err *err) {
    char *text = smoe_text_format("model: {width: 16, depth: 2, mlp: 32, heads: 2, patch_size: 8, "
                                  "moe: {layers: none}}\ntrain: {batch_size: 8, %s}\n",
                                  train);
    assert_non_null(text);
    const smoe_spec_text from = {.text = text, .label = "t"};
    int status = smoe_budget_parse(spec, &from, overrides, count, err);
    free(text);
    return status;
}

static void as_many_steps_as_fit(void **state) {
    smoe_spec spec;
    smoe_cost cost;
    assert_int_equal(read_spec(&spec, "flops: 3e9, schedule: {warmup: 0.1}", NULL, 0, NULL), 0);
    assert_int_equal(smoe_cost_estimate(&cost, &spec, 10, NULL), 0);
    double step = 8 * cost.flops_train_per_image, steps = (double)spec.train.steps;
    assert_true(steps * step <= 3e9 && 3e9 < (steps + 1) * step && steps > 10);
    assert_true(spec.train.flops == 0 && cost.train_exaflop <= 3e-9);
    assert_int_equal(spec.train.schedule.warmup.steps, (spec.train.steps + 5) / 10);
    smoe_cost_free(&cost);
    smoe_spec_free(&spec);
}

/* What is computed counts: K = 1 of Tokens Choice fills at most one place per token, whatever the
 * room. */
static void empty_places_are_free(void **state) {
    static const char routed[] = "model.moe.router=tokens-choice", all[] = "model.moe.layers=all";
    char *const tight[] = {(char *)routed, (char *)all, (char *)"model.moe.capacity=1"};
    char *const roomy[] = {(char *)routed, (char *)all, (char *)"model.moe.capacity=4"};
    smoe_spec spec;
    assert_int_equal(read_spec(&spec, "flops: 3e10", tight, 3, NULL), 0);
    size_t steps = spec.train.steps;
    smoe_spec_free(&spec);
    assert_int_equal(read_spec(&spec, "flops: 3e10", roomy, 3, NULL), 0);
    assert_true(steps > 10);
    assert_int_equal(spec.train.steps, steps);
    smoe_spec_free(&spec);
}

static void steps_or_flops(void **state) {
    char *const steps[] = {(char *)"train.steps=7"}, *const flops[] = {(char *)"train.flops=3e9"};
    char *const both[] = {steps[0], flops[0]};
    smoe_spec spec;
    smoe_err err;
    assert_int_equal(read_spec(&spec, "flops: 3e9", steps, 1, NULL), 0);
    assert_true(spec.train.steps == 7 && spec.train.flops == 0);
    smoe_spec_free(&spec);
    assert_int_equal(read_spec(&spec, "steps: 7", flops, 1, NULL), 0);
    assert_true(spec.train.steps > 10 && spec.train.flops == 0);
    smoe_spec_free(&spec);
    assert_int_equal(read_spec(&spec, "steps: 7, flops: 3e9", NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "both say how long to train; give one of them"));
    smoe_spec_free(&spec);
    assert_int_equal(read_spec(&spec, "log_every: 1", both, 2, &err), -1);
    smoe_spec_free(&spec);
    assert_int_equal(read_spec(&spec, "flops: 10", NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "t: train.flops: 10 is less than one step, "));
    smoe_spec_free(&spec);
    assert_int_equal(read_spec(&spec, "flops: 1e30", NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, " steps, but at most 1000000000 are possible"));
    smoe_spec_free(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_steps_as_fit),
        cmocka_unit_test(empty_places_are_free),
        cmocka_unit_test(steps_or_flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
