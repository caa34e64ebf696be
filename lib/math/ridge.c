/*
 * Ridge regression; see ridge.h. With at least as many rows as inputs, X'X = V L V' gives
 *   W = V (L + l2)^-1 (V'X'Y),
 * with fewer, X X' = U L U' gives the same W = (X'U) (L + l2)^-1 (U'Y) from a smaller matrix.
 */
#include "math/ridge.h"

#include <lapacke.h>

/* C [a,b] = A'B of A [n,a] and B [n,b], row by row of C. */
static void product_tn(double *C, const double *A, const double *B, size_t n, size_t a, size_t b) {
#pragma omp parallel for
    for (size_t i = 0; i < a; i++) {
        double *row = C + i * b;
        for (size_t j = 0; j < b; j++) row[j] = 0;
        for (size_t k = 0; k < n; k++) {
            double x = A[k * a + i];
            const double *from = B + k * b;
#pragma omp simd
            for (size_t j = 0; j < b; j++) row[j] += x * from[j];
        }
    }
}

/* C [n,n] = A A' of A [n,m]. */
static void product_nt(double *C, const double *A, size_t n, size_t m) {
#pragma omp parallel for schedule(dynamic, 8)
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (size_t k = 0; k < m; k++) sum += A[i * m + k] * A[j * m + k];
            C[i * n + j] = C[j * n + i] = sum;
        }
}

/* square [r,r] becomes its eigenvectors, one per column; value [r] are the eigenvalues, in rising
 * order. */
static int decompose(double *square, double *value, size_t r, smoe_err *err) {
    lapack_int info =
        LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'U', (lapack_int)r, square, (lapack_int)r, value);
    if (info)
        return smoe_fail(err, SMOE_RUNTIME,
                         "eigendecomposition of a %zu x %zu matrix failed (dsyevd: %d); are the "
                         "features finite?",
                         r, r, (int)info);
    for (size_t i = 0; i < r; i++)
        if (value[i] < 0) value[i] = 0; /* of a square: only rounding makes it negative */
    return 0;
}

int smoe_ridge_create(smoe_ridge *ridge, const double *X, size_t n, size_t D, smoe_err *err) {
    bool wide = n < D;
    size_t r = wide ? n : D;
    *ridge = (smoe_ridge){.X = X, .n = n, .D = D, .r = r};
    double *square = malloc(r * r * sizeof *square);
    ridge->value = malloc(r * sizeof(double));
    ridge->basis = wide ? malloc(D * r * sizeof(double)) : square;
    if (wide) ridge->rows = square;
    if (!square || !ridge->basis || !ridge->value)
        return smoe_fail(err, SMOE_RUNTIME, "out of memory for a regression on %zu rows of %zu", n,
                         D);
    if (wide)
        product_nt(square, X, n, D);
    else
        product_tn(square, X, X, n, D, D);
    if (decompose(square, ridge->value, r, err)) return -1;
    if (wide) product_tn(ridge->basis, X, square, n, D, r);
    return 0;
}

void smoe_ridge_targets(smoe_ridge *ridge, const double *Y, size_t N) {
    size_t r = ridge->r;
    free(ridge->outputs);
    ridge->outputs = smoe_alloc(r * N, sizeof(double));
    ridge->N = N;
    if (ridge->rows) {
        product_tn(ridge->outputs, ridge->rows, Y, ridge->n, r, N);
        return;
    }
    SMOE_FREED double *inputs = smoe_alloc(r * N, sizeof *inputs); /* X'Y */
    product_tn(inputs, ridge->X, Y, ridge->n, r, N);
    product_tn(ridge->outputs, ridge->basis, inputs, r, r, N);
}

void smoe_ridge_weights(const smoe_ridge *ridge, double l2, double *W) {
    size_t r = ridge->r, N = ridge->N;
#pragma omp parallel for
    for (size_t d = 0; d < ridge->D; d++) {
        double *row = W + d * N;
        for (size_t c = 0; c < N; c++) row[c] = 0;
        for (size_t i = 0; i < r; i++) {
            double x = ridge->basis[d * r + i] / (ridge->value[i] + l2);
            for (size_t c = 0; c < N; c++) row[c] += x * ridge->outputs[i * N + c];
        }
    }
}

void smoe_ridge_free(smoe_ridge *ridge) {
    free(ridge->basis);
    free(ridge->rows);
    free(ridge->value);
    free(ridge->outputs);
    *ridge = (smoe_ridge){0};
}
