/* Running a test program once for every instruction set of this processor. */
#ifndef SMOE_TEST_ISAS_H
#define SMOE_TEST_ISAS_H

#include "math/kernels.h"

/* From the narrowest to the widest, NULL at the end; smoe_kernels_of says which are there. */
extern const char *const isas_all[];

/* A cmocka test: this program again, with SMOE_ISA set to each instruction set that is not the one
 * in force; whatever fails there fails here. Does nothing in such a child. */
void isas_run_again(void **state);

#endif
