/*
 * Gradients that are left as factors (base/param.h): a product of few rows takes less time to
 * compute than memory takes to keep it, so Adam's step computes it in registers, other steps ask
 * for it piece by piece, and the norm does without.
 */
#ifndef SMOE_FACTORS_H
#define SMOE_FACTORS_H

#include "base/param.h"
#include "math/kernels.h"

/* Whether the gradient of E kernels [E,out,in] is better left as factors when experts have `rows`
 * rows at most: with more, computing takes longer than memory. */
enum { SMOE_FACTORS_ROWS = SMOE_OUTER_TERMS };
bool smoe_factors_pay(size_t rows, size_t out, size_t in);

/* Elements first .. first+count, multiples of SMOE_FACTORS_UNIT, of a factored gradient [E,out,in]:
 * the numbers that backward would have written. By the calling thread alone. */
enum { SMOE_FACTORS_UNIT = 16 };
void smoe_factors_write(real *out, const smoe_param *row, size_t first, size_t count);

/* Adam's step of w, m and v, smoe_factors_step(row) elements of each, with as many of a factored
 * gradient, from `first`, a multiple of that, on. The numbers are those of writing it and then
 * `adam` (math/kernels.h). By the calling thread alone. */
size_t smoe_factors_step(const smoe_param *row);
void smoe_factors_adam(real *w, real *m, real *v, const smoe_param *row, size_t first,
                       const smoe_adam_constants *k);

/* The square of the norm of expert e's part, |dY^T X|^2 = sum over rows r, s of (dy_r . dy_s)(x_r .
 * x_s), in double; not below 0. By the calling thread alone. */
double smoe_factors_square(const smoe_param *row, size_t e);

#endif
