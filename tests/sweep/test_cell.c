/* A cell of a sweep, run: stopped it stays open, and goes on where it was; done it is measured. */
#include "close.h"
#include "world.h"
#include "sweep/cell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char two_steps[] =
    "name: c\ndata: {image_size: 8, limit: 8}\n"
    "model: {width: 8, depth: 1, mlp: 8, heads: 1, patch_size: 4, moe: {layers: none}}\n"
    "train: {steps: 2, batch_size: 8, log_every: 1, eval_every: 1}\n"
    "sweep: {seeds: [0, 1]}\n";

static void stopped_then_done(void **state) {
    world *w = *state;
    smoe_sweep sweep = world_cells(two_steps);
    smoe_err err = {0};
    volatile sig_atomic_t stop = 1;
    smoe_cell_options options = {.stop = &stop};
    assert_int_equal(smoe_sweep_create(&sweep, w->dir, false, &err), 0);
    assert_int_equal(smoe_cell_run(&sweep, 1, &options, &err), -1);
    assert_int_equal(err.code, SMOE_STOPPED);
    assert_string_equal(err.text, "stopped on request after step 1 of 2");
    assert_int_equal(smoe_cell_look(&sweep, 1, &err), 0);
    assert_int_equal(sweep.cell[1].state, SMOE_CELL_OPEN);
    stop = 0;
    if (smoe_cell_run(&sweep, 1, &options, &err)) fail_msg("%s", err.text);
    assert_int_equal(smoe_cell_look(&sweep, 1, &err), 0);
    assert_int_equal(sweep.cell[1].state, SMOE_CELL_DONE);
    const json_t *result = json_object_get(sweep.cell[1].outcome, "result");
    double step = json_number_value(json_object_get(result, "step_s"));
    assert_true(step > 0);
    assert_close(json_number_value(json_object_get(result, "train_s")), 2 * step, 0);
    smoe_sweep_free(&sweep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stopped_then_done, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
