/*
 * Row-wise work shared by threads: the kernels of math/kernels.h over many rows. Sums over rows are
 * taken in SMOE_ROW_PARTS fixed parts and then in order, so their bits do not depend on threads.
 */
#pragma once

#include "math/kernels.h"
#include "math/matrix.h"

enum { SMOE_ROW_PARTS = 16 };

/* Elements of the `parts` scratch that sums over rows of n columns need (two sums at a time). */
size_t smoe_rows_parts(size_t n);

/* out [n] += column sums of x [R,n], whose rows may have gaps only in BF16; and the same by the
 * calling thread alone. */
void smoe_rows_sum(real *out, smoe_matrix x, real *parts);
void smoe_rows_sum_serial(real *out, smoe_matrix x);
/* y = x, each rounded to the nearest BF16 number, ties to even; y may be x. */
void smoe_rows_round(real *y, const real *x, size_t size);
/* y += x, size elements */
void smoe_rows_add(real *y, const real *x, size_t size);
/* The levels of the binary tree in which `count` terms, a power of two, are added one after the
 * other: at each, one sum may wait for its right neighbour. */
size_t smoe_rows_levels(size_t count);
