/*
 * Gradients that are left as factors (base/param.h): a product of few rows takes less time to
 * compute than memory takes to keep it, so the optimiser asks for it piece by piece, and for its
 * norm without it.
 */
#ifndef SMOE_FACTORS_H
#define SMOE_FACTORS_H

#include "base/param.h"

/* Whether the gradient of E kernels [E,out,in] is better left as factors when experts have `rows`
 * rows at most: with more, computing takes longer than memory. */
enum { SMOE_FACTORS_ROWS = 32 };
bool smoe_factors_pay(size_t rows, size_t out, size_t in);

/* Elements first .. first+count, multiples of SMOE_FACTORS_UNIT, of a factored gradient [E,out,in]:
 * the numbers that backward would have written. By the calling thread alone. */
enum { SMOE_FACTORS_UNIT = 16 };
void smoe_factors_write(real *out, const smoe_param *row, size_t first, size_t count);

/* The square of the norm of expert e's part, |dY^T X|^2 = sum over rows r, s of (dy_r . dy_s)(x_r .
 * x_s), in double; not below 0. By the calling thread alone. */
double smoe_factors_square(const smoe_param *row, size_t e);

#endif
