/* Row-wise kernels over threads; see rows.h. */
#include "math/rows.h"
#include "base/team.h"

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

/* Rows first .. end of them. */
static smoe_norm_rows rows_between(const smoe_norm_rows *rows, size_t n, size_t first, size_t end) {
    return (smoe_norm_rows){rows->x + first * n, rows->stats + 2 * first, end - first};
}

void smoe_rows_norm(smoe_outputs y, const smoe_norm_rows *rows, const smoe_norm_weights *norm) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const size_t R = rows->R, n = norm->n, step = n < CHUNK ? CHUNK / n : 1;
    SMOE_SHARED(elementwise, R * n)
    for (size_t i = 0; i < R; i += step) {
        const smoe_norm_rows some = rows_between(rows, n, i, min(i + step, R));
        kern->norm(smoe_outputs_from(y, i * n), &some, norm);
    }
}

void smoe_rows_sum_serial(real *out, smoe_matrix x) {
    enum { STRIP = 512, ABREAST = 8 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real wide[ABREAST * STRIP];
    if (x.of.at) kern->column_sum(out, x.of.at, x.m, x.n);
    for (size_t j = 0; x.of.bf16 && j < x.n; j += STRIP)
        for (size_t i = 0; i < x.m; i += ABREAST) {
            smoe_matrix part = smoe_matrix_part(x, i, ABREAST, j, STRIP);
            for (size_t r = 0; r < part.m; r++)
                kern->widen(wide + r * part.n, part.of.bf16 + r * part.row, part.n);
            kern->column_sum(out + j, wide, part.m, part.n);
        }
}

/* out += the sums of the parts, part by part in order. */
static void rows_gather(real *out, const real *parts, size_t n) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) kern->add(out, parts + p * n, n);
}

void smoe_rows_norm_backward(real *dx, real *dw, real *db, const real *dy,
                             const smoe_norm_rows *rows, const smoe_norm_weights *norm,
                             real *parts) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const size_t R = rows->R, n = norm->n;
    real *dws = parts, *dbs = parts + SMOE_ROW_PARTS * n;
    SMOE_SHARED(elementwise, R * n)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        size_t begin = R * p / SMOE_ROW_PARTS, end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(dws + p * n, 0, n * sizeof(real));
        memset(dbs + p * n, 0, n * sizeof(real));
        const smoe_norm_rows some = rows_between(rows, n, begin, end);
        kern->norm_backward(dx + begin * n, dws + p * n, dbs + p * n, dy + begin * n, &some, norm);
    }
    if (dw) rows_gather(dw, dws, n);
    if (db) rows_gather(db, dbs, n);
}

void smoe_rows_sum(real *out, smoe_matrix x, real *parts) {
    size_t R = x.m, n = x.n;
    SMOE_SHARED(elementwise, R * n)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        size_t begin = R * p / SMOE_ROW_PARTS, end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(parts + p * n, 0, n * sizeof(real));
        smoe_rows_sum_serial(parts + p * n, smoe_matrix_part(x, begin, end - begin, 0, n));
    }
    rows_gather(out, parts, n);
}
