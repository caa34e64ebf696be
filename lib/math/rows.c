/* Row-wise kernels over threads; see rows.h. */
#include "math/rows.h"
#include "base/bf16.h"
#include "base/team.h"
#include "math/kernels.h"

enum { CHUNK = 1 << 14 }; /* elements of one task: within the L2 with its neighbours */

static size_t min(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t smoe_rows_parts(size_t n) {
    return 2 * SMOE_ROW_PARTS * n;
}

void smoe_rows_add(real *y, const real *x, size_t size) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    SMOE_SHARED(elementwise, size)
    for (size_t i = 0; i < size; i += CHUNK) kern->add(y + i, x + i, min(CHUNK, size - i));
}

void smoe_rows_round(real *y, const real *x, size_t size) {
    SMOE_SHARED(elementwise, size)
    for (size_t i = 0; i < size; i++) y[i] = smoe_bf16_widen(smoe_bf16_round((float)x[i]));
}

void smoe_rows_norm(real *y, real *stats, const real *x, const real *w, const real *b, size_t R,
                    size_t n, real eps) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t step = n < CHUNK ? CHUNK / n : 1;
    SMOE_SHARED(elementwise, R * n)
    for (size_t i = 0; i < R; i += step)
        kern->norm(y + i * n, stats + 2 * i, x + i * n, w, b, min(step, R - i), n, eps);
}

void smoe_rows_norm_bf16(smoe_bf16 *y, real *stats, const real *x, const real *w, const real *b,
                         size_t R, size_t n, real eps) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    size_t step = n < CHUNK ? CHUNK / n : 1;
    SMOE_SHARED(elementwise, R * n)
    for (size_t i = 0; i < R; i += step)
        kern->norm_narrow(y + i * n, stats + 2 * i, x + i * n, w, b, min(step, R - i), n, eps);
}

void smoe_rows_add_bf16(real *out, const smoe_bf16 *x, size_t R, size_t n, size_t ld) {
    enum { STRIP = 512, ABREAST = 8 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real wide[ABREAST * STRIP];
    for (size_t j = 0; j < n; j += STRIP)
        for (size_t i = 0; i < R; i += ABREAST) {
            size_t width = min(STRIP, n - j), rows = min(ABREAST, R - i);
            for (size_t r = 0; r < rows; r++)
                kern->widen(wide + r * width, x + (i + r) * ld + j, width);
            kern->column_sum(out + j, wide, rows, width);
        }
}

/* out += the sums of the parts, part by part in order. */
static void rows_gather(real *out, const real *parts, size_t n) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) kern->add(out, parts + p * n, n);
}

void smoe_rows_norm_backward(real *dx, real *dw, real *db, const real *dy, const real *x,
                             const real *stats, const real *w, size_t R, size_t n, real *parts) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real *dws = parts, *dbs = parts + SMOE_ROW_PARTS * n;
    SMOE_SHARED(elementwise, R * n)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        size_t begin = R * p / SMOE_ROW_PARTS, end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(dws + p * n, 0, n * sizeof(real));
        memset(dbs + p * n, 0, n * sizeof(real));
        kern->norm_backward(dx + begin * n, dws + p * n, dbs + p * n, dy + begin * n, x + begin * n,
                            stats + 2 * begin, w, end - begin, n);
    }
    if (dw) rows_gather(dw, dws, n);
    if (db) rows_gather(db, dbs, n);
}

void smoe_rows_sum(real *out, const real *x, size_t R, size_t n, real *parts) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    SMOE_SHARED(elementwise, R * n)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        size_t begin = R * p / SMOE_ROW_PARTS, end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(parts + p * n, 0, n * sizeof(real));
        kern->column_sum(parts + p * n, x + begin * n, end - begin, n);
    }
    rows_gather(out, parts, n);
}

void smoe_rows_sum_bf16(real *out, const smoe_bf16 *x, size_t R, size_t n, size_t ld, real *parts) {
    SMOE_SHARED(elementwise, R * n)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        size_t begin = R * p / SMOE_ROW_PARTS, end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(parts + p * n, 0, n * sizeof(real));
        smoe_rows_add_bf16(parts + p * n, x + begin * ld, end - begin, n, ld);
    }
    rows_gather(out, parts, n);
}
