/*
 * Ridge regression for many strengths at once: W(l2) = (X'X + l2 I)^-1 X'Y from one
 * eigendecomposition (LAPACK, in double), after which each strength costs a product.
 */
#pragma once

#include "base/base.h"

typedef struct smoe_ridge {
    const double *X;   /* [n,D], of the caller */
    size_t n, D, N, r; /* rows, inputs, outputs, r = min(n, D) */
    double *basis;     /* [D,r] */
    double *rows;      /* [n,r] eigenvectors of X X'; NULL if n >= D */
    double *value;     /* [r] eigenvalues, none negative */
    double *outputs;   /* [r,N] */
} smoe_ridge;

/* Of X [n,D], which stays until smoe_ridge_free; call that in any case. SMOE_RUNTIME when memory is
 * short or the eigenvalues do not converge. */
int smoe_ridge_create(smoe_ridge *ridge, const double *X, size_t n, size_t D,
                      smoe_err *err) SMOE_MUST_CHECK;

/* Takes Y [n,N] in place of the targets before. */
void smoe_ridge_targets(smoe_ridge *ridge, const double *Y, size_t N);

/* W [D,N], for l2 > 0. */
void smoe_ridge_weights(const smoe_ridge *ridge, double l2, double *W);

void smoe_ridge_free(smoe_ridge *ridge);
