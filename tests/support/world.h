/* What tests of sweeps work in: a temporary folder, and the path of a sweep in it that is not there yet. Setup and teardown are
 * cmocka's; *state is the world. */
#ifndef WORLD_H
#define WORLD_H

#include "scratch.h"
#include "specs.h"
#include "sweep/sweep.h"

typedef struct world {
    scratch folder;
    char dir[SCRATCH_PATH];
} world;

int world_setup(void **state);
int world_teardown(void **state);

/* The cells of a text, the points they are evaluated at, and the reference; 0, or the code of the failure of the last two.
 * Cells that are no valid spec fail the test. */
int world_plan_text(smoe_sweep *sweep, const smoe_spec_text *from, smoe_err *err);
int world_plan(smoe_sweep *sweep, const char *text, smoe_err *err);
/* The same where nothing fails. */
smoe_sweep world_cells(const char *text);

/* Cell i is done: its precision, and one metric more. */
void world_done(const smoe_sweep *sweep, size_t i, double precision, const char *metric,
                double value);

#endif
