/*
 * Ridge regression for many strengths at once: W(l2) = (X'X + l2 I)^-1 X'Y from one
 * eigendecomposition (LAPACK, in double), after which each strength costs a product.
 */
#pragma once

#include "base/base.h"

typedef struct smoe_ridge {
    size_t D, N, r;  /* inputs, outputs, r = min(rows, D) */
    double *basis;   /* [D,r] */
    double *value;   /* [r] eigenvalues, none negative */
    double *outputs; /* [r,N] */
} smoe_ridge;

/* Of X [n,D] and Y [n,N]. Free with smoe_ridge_free in any case. SMOE_RUNTIME when memory is short
 * or the eigenvalues do not converge. */
int smoe_ridge_create(smoe_ridge *ridge, const double *X, const double *Y, size_t n, size_t D,
                      size_t N, smoe_err *err) SMOE_MUST_CHECK;

/* W [D,N], for l2 > 0. */
void smoe_ridge_weights(const smoe_ridge *ridge, double l2, double *W);

void smoe_ridge_free(smoe_ridge *ridge);
