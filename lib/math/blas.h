/*
 * BLIS, used only through this file, for the machine peak of `smoe bench`, and by LAPACK. BLIS
 * selects slow kernels on processors whose name it does not know (those with a masked brand string,
 * and those newer than the library). So the kernels are selected here by the features of the
 * processor, unless the user has set BLIS_ARCH_TYPE.
 */
#pragma once

#include "base/base.h"

/* Checks that BLIS accepts the value of BLIS_ARCH_TYPE; otherwise BLIS would end the program.
 * SMOE_USAGE. */
int smoe_blas_check(smoe_err *err) SMOE_MUST_CHECK;

/* Starts BLIS with the right kernels. Call before any other BLIS or LAPACK use, from one thread. */
void smoe_blas_start(void);
/* "BLIS 0.9.0" and the name of the kernels that it uses, as text. */
const char *smoe_blas_version(void);
const char *smoe_blas_kernel(void);
/* C = A B, all [side,side] and row-major, by BLIS on `threads` threads. */
void smoe_blas_product(real *c, const real *a, const real *b, size_t side, int threads);
