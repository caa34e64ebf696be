/* What tests of sweeps work in: a temporary folder, and the path of a sweep in it that is not there
 * yet. Setup and teardown are cmocka's; *state is the fixture. */
#ifndef WORLD_H
#define WORLD_H

#include "scratch.h"
#include "specs.h"
#include "sweep/results.h"

typedef struct sweep_folder {
    scratch folder;
    char dir[SCRATCH_PATH];
} sweep_folder;

int sweep_folder_setup(void **state);
int sweep_folder_teardown(void **state);

/* The cells of a text, the points they are evaluated at, and the reference; 0, or the code of the failure of the last two.
 * Cells that are no valid spec fail the test. */
int sweep_folder_plan_text(smoe_sweep *sweep, const smoe_spec_text *from, smoe_err *err);
int sweep_folder_plan(smoe_sweep *sweep, const char *text, smoe_err *err);
/* The same where nothing fails. */
smoe_sweep sweep_folder_trials(const char *text);

/* Cell i is done: its precision, and one metric more. */
void sweep_folder_done(const smoe_sweep *sweep, size_t i, double precision, const char *metric,
                       double value);

/* The results of the cells as they are now. */
smoe_results sweep_folder_results(smoe_sweep *sweep);

#endif
