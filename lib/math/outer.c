/* Gradients of few rows, from their factors; see outer.h. */
#include "math/outer.h"

bool smoe_outer_pays(size_t rows, size_t out, size_t in) {
    enum { UNIT = 16 }; /* what `outer` works on */
    return rows <= SMOE_FACTORS_ROWS && out % UNIT == 0 && in % UNIT == 0 &&
           out <= SMOE_FACTORS_WIDEST && in <= SMOE_FACTORS_WIDEST;
}

/* Rows of kernel e, and where its factors begin. */
static size_t factors_of(const smoe_param *param, size_t e, const real **dy, const real **x) {
    size_t first = param->factors.first[e];
    *dy = param->factors.dy + first * param->dim[1];
    *x = param->factors.x + first * param->dim[2];
    return param->factors.first[e + 1] - first;
}

size_t smoe_outer_terms(const smoe_param *param, size_t at) {
    const real *dy, *x;
    return factors_of(param, at / (param->dim[1] * param->dim[2]), &dy, &x);
}

size_t smoe_outer_step(const smoe_param *param) {
    return SMOE_OUTER_ROWS * param->dim[2];
}

void smoe_outer_write(real *g, const smoe_param *param, size_t first,
                      const smoe_prefetch_ranges *next) {
    const real *dy, *x;
    size_t out = param->dim[1], in = param->dim[2], at = first / in;
    size_t rows = factors_of(param, at / out, &dy, &x);
    smoe_kernels_get()->row->outer(g, dy + at % out, out, x, rows, in, next);
}

double smoe_outer_square(const smoe_param *param, size_t e) {
    enum { PAIRS = SMOE_FACTORS_ROWS * SMOE_FACTORS_ROWS };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    const real *dy, *x;
    double left[PAIRS], right[PAIRS], sum = 0;
    size_t rows = factors_of(param, e, &dy, &x);
    kern->gram(left, dy, rows, param->dim[1]);
    kern->gram(right, x, rows, param->dim[2]);
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s <= r; s++)
            sum += (r == s ? 1 : 2) * left[r * rows + s] * right[r * rows + s];
    return sum < 0 ? 0 : sum; /* rounding, where rows cancel; NaN stays */
}
