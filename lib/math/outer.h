/*
 * Gradients that are stored as the factors of outer products (base/param.h): computing a product of
 * few rows takes less time than writing it to memory and reading it again. So the optimiser
 * computes it when it is needed, and the norm is computed without it.
 */
#pragma once

#include "base/param.h"
#include "math/kernels.h"
#include "math/tuning.h"

/* Whether the gradients of E kernels [E,out,in] and [E,in,out] should be left as outer products
 * when each has at most `rows` rows. With more rows, computing takes longer than memory; with wider
 * kernels, a step does not fit into the caches. */
enum { SMOE_FACTORS_ROWS = SMOE_OUTER_TERMS, SMOE_FACTORS_WIDEST = 8192 };
bool smoe_outer_pays(size_t rows, size_t out, size_t in);
/* The same for the sum of `passes` of them, a power of two: whether their factors are no larger
 * than the sum, so that processes send less if they exchange them (train/sharded.h); and whether
 * adding the passes needs no more than SMOE_FACTORS_SUMS elements of scratch. */
enum { SMOE_FACTORS_SUMS = 1 << 16 };
bool smoe_outer_sum_pays(size_t rows, size_t passes, size_t out, size_t in);

/* Rows that the element `at` of a factored gradient is summed over. */
size_t smoe_outer_terms(const smoe_param *param, size_t at);

/* A step is a number of elements of a factored gradient [E,out,in], at most SMOE_FACTORS_STEP: some
 * rows of one kernel. smoe_outer_write computes the step that begins at `first`, a multiple of that
 * number: the values that backward would have written. Meanwhile the ranges `next`, which the
 * update will change, are prefetched. By the calling thread alone. */
enum { SMOE_FACTORS_STEP = SMOE_OUTER_ROWS * SMOE_FACTORS_WIDEST };
size_t smoe_outer_step(const smoe_param *param);
void smoe_outer_write(real *g, const smoe_param *param, size_t first,
                      const smoe_prefetch_ranges *next);

/* Any elements of it, first .. first + n; a step of which only a part is wanted is computed
 * whole. */
void smoe_outer_read(real *g, const smoe_param *param, size_t first, size_t n);

/* Of a single pass: the square of the norm of kernel e's part, |dY^T X|^2 = sum over rows r, s of
 * (dy_r . dy_s)(x_r . x_s), in double; not below 0. By the calling thread alone. */
double smoe_outer_square(const smoe_param *param, size_t e);
