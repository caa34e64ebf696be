/* Models of matrix units in C: the result of one block of smoe_matrix_kernels (math/kernels.h),
 * bit by bit. */
#pragma once

#include "math/kernels.h"

/* The sums of a unit, by its name; NULL if there is no model of it. `fused`: multiply-adds round
 * only once. */
typedef void tiles_block(real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps,
                         size_t parts);
tiles_block tiles_amx, tiles_pairs, tiles_fused, tiles_unfused;

/* A denormal becomes 0 of the same sign. */
float tiles_flushed(float x);
