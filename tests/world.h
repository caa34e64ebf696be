/* What tests of sweeps work in: a temporary folder, and the path of a sweep in it that is not there yet. Setup and teardown are
 * cmocka's; *state is the world. */
#ifndef WORLD_H
#define WORLD_H

#include "scratch.h"

typedef struct world {
    scratch folder;
    char dir[SCRATCH_PATH];
} world;

int world_setup(void **state);
int world_teardown(void **state);

#endif
