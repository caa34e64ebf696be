/* Running a test program once for every instruction set of this processor. */
#pragma once

#include "math/kernels.h"

/* From the narrowest to the widest, with NULL at the end; smoe_kernels_of says which are
 * available. */
extern const char *const isas_all[];

/* A cmocka test: runs this program again with SMOE_ISA set to each other instruction set; a
 * failure there is a failure here. Does nothing in such a child process. */
void isas_run_again(void **state);
