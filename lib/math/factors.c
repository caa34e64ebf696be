/* Gradients of few rows, from their factors; see factors.h. */
#include "math/factors.h"
#include "math/gemm.h"

#include <string.h>

bool smoe_factors_pay(size_t rows, size_t out, size_t in) {
    return rows <= SMOE_FACTORS_ROWS && out % SMOE_FACTORS_UNIT == 0 && in % SMOE_FACTORS_UNIT == 0;
}

/* Rows of expert e, and where its factors begin. */
static size_t factors_of(const smoe_param *row, size_t e, const real **dy, const real **x) {
    size_t first = row->factors.first[e];
    *dy = row->factors.dy + first * row->dim[1];
    *x = row->factors.x + first * row->dim[2];
    return row->factors.first[e + 1] - first;
}

void smoe_factors_write(real *out, const smoe_param *row, size_t first, size_t count) {
    size_t size = row->dim[1] * row->dim[2];
    while (count) {
        const real *dy, *x;
        size_t e = first / size, at = first % size, n = size - at < count ? size - at : count;
        size_t rows = factors_of(row, e, &dy, &x);
        if (rows) {
            smoe_product p = smoe_linear_dw_product(NULL, dy, x, rows, row->dim[1], row->dim[2]);
            smoe_gemm_few(out, &p, at, n);
        } else {
            memset(out, 0, n * sizeof *out);
        }
        out += n;
        first += n;
        count -= n;
    }
}

size_t smoe_factors_step(const smoe_param *row) {
    return smoe_kernels_get()->row->outer_rows * row->dim[2];
}

void smoe_factors_adam(real *w, real *m, real *v, const smoe_param *row, size_t first,
                       const smoe_adam_constants *k) {
    const real *dy, *x;
    size_t out = row->dim[1], in = row->dim[2], at = first / in;
    size_t rows = factors_of(row, at / out, &dy, &x);
    smoe_kernels_get()->row->adam_outer(w, m, v, dy + at % out, out, x, rows, in, k);
}

double smoe_factors_square(const smoe_param *row, size_t e) {
    enum { PAIRS = SMOE_FACTORS_ROWS * SMOE_FACTORS_ROWS };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const real *dy, *x;
    double left[PAIRS], right[PAIRS], sum = 0;
    size_t rows = factors_of(row, e, &dy, &x);
    kern->gram(left, dy, rows, row->dim[1]);
    kern->gram(right, x, rows, row->dim[2]);
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s <= r; s++)
            sum += (r == s ? 1 : 2) * left[r * rows + s] * right[r * rows + s];
    return sum < 0 ? 0 : sum; /* rounding, where rows cancel; NaN stays */
}
