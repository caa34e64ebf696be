/*
 * BLIS, reached from here alone: the machine peak of `smoe bench`, and general products outside the
 * model. Its detection falls back to slow kernels on processors it does not know by name (any with
 * a masked brand string; any newer than the library), so the choice is put right from what the
 * processor can do, unless the user's BLIS_ARCH_TYPE already decides.
 */
#ifndef SMOE_BLAS_H
#define SMOE_BLAS_H

#include "base/base.h"

/* Whether BLIS would accept what BLIS_ARCH_TYPE asks for: it ends the program otherwise.
 * SMOE_USAGE. */
int smoe_blas_check(smoe_err *err) SMOE_MUST_CHECK;

/* Starts BLIS with the right kernels. Call before any other BLIS or LAPACK use, from one thread. */
void smoe_blas_start(void);
/* "BLIS 0.9.0" and the name of its kernels in force, as text. */
const char *smoe_blas_version(void);
const char *smoe_blas_kernel(void);
/* C [m,n] = A [m,k] B [k,n], row-major without gaps, by BLIS on `threads` threads. */
void smoe_blas_product(real *c, const real *a, const real *b, size_t m, size_t n, size_t k,
                       int threads);

#endif
