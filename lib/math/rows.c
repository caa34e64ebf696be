/* Row-wise kernels over threads; see rows.h. */
#include "math/rows.h"
#include "base/team.h"

enum { CHUNK = 1 << 14 }; /* elements of one task: within the L2 with its neighbours */

size_t smoe_rows_parts(size_t n) {
    return 2 * SMOE_ROW_PARTS * n;
}

void smoe_rows_add(real *y, const real *x, size_t size) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    SMOE_SHARED(elementwise, size)
    for (size_t i = 0; i < size; i += CHUNK)
        kern->add(y + i, x + i, size - i < CHUNK ? size - i : CHUNK);
}

size_t smoe_rows_levels(size_t count) {
    size_t levels = 0;
    while (count >> (levels + 1)) levels++;
    return levels;
}

void smoe_rows_round(real *y, const real *x, size_t size) {
    SMOE_SHARED(elementwise, size)
    for (size_t i = 0; i < size; i++) y[i] = smoe_bf16_widen(smoe_bf16_round((float)x[i]));
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

void smoe_rows_sum(real *out, smoe_matrix x, real *parts) {
    size_t R = x.m, n = x.n;
    SMOE_SHARED(elementwise, R * n)
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) {
        size_t begin = R * p / SMOE_ROW_PARTS, end = R * (p + 1) / SMOE_ROW_PARTS;
        memset(parts + p * n, 0, n * sizeof(real));
        smoe_rows_sum_serial(parts + p * n, smoe_matrix_part(x, begin, end - begin, 0, n));
    }
    for (size_t p = 0; p < SMOE_ROW_PARTS; p++) smoe_kernels_get()->row->add(out, parts + p * n, n);
}
