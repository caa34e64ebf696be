/* Matrix units in C: what one block of math/kernels.h's smoe_matrix_kernels gives, bit by bit. */
#ifndef SMOE_TEST_TILES_H
#define SMOE_TEST_TILES_H

#include "math/kernels.h"

/* The sums of a unit, by its name; NULL where there is no model of it. `fused`: multiply-adds round
 * once. */
typedef void tiles_block(real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps,
                         size_t parts);
tiles_block tiles_amx, tiles_pairs, tiles_fused, tiles_unfused;

/* A denormal becomes 0 with its sign. */
float tiles_flushed(float x);

#endif
