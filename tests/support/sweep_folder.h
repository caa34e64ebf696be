/* Fixture for tests of sweeps: a temporary folder, and the path of a sweep in it that does not
 * exist yet. Setup and teardown are cmocka's; *state is the fixture. */
#pragma once

#include "scratch.h"
#include "specs.h"
#include "sweep/results.h"

typedef struct sweep_folder {
    scratch folder;
    char dir[SCRATCH_PATH];
} sweep_folder;

int sweep_folder_setup(void **state);
int sweep_folder_teardown(void **state);

/* The trials of a text, the points at which they are evaluated, and the reference; 0, or the
 * error code if one of the last two fails. An invalid spec of a trial fails the test. */
int sweep_folder_plan_text(smoe_sweep *sweep, const smoe_spec_text *from, smoe_err *err);
int sweep_folder_plan(smoe_sweep *sweep, const char *text, smoe_err *err);
/* The same if nothing may fail. */
smoe_sweep sweep_folder_trials(const char *text);

/* Marks trial i as done, with its precision and one other metric. */
void sweep_folder_done(const smoe_sweep *sweep, size_t i, double precision, const char *metric,
                       double value);

/* The present results of the trials. */
smoe_results sweep_folder_results(smoe_sweep *sweep);
