/* Gradients of few rows, from their factors; see outer.h. */
#include "math/outer.h"
#include "base/threads.h"
#include "math/rows.h"

bool smoe_outer_pays(size_t rows, size_t out, size_t in) {
    enum { UNIT = 16 }; /* what `outer` works on */
    return rows <= SMOE_FACTORS_ROWS && out % UNIT == 0 && in % UNIT == 0 &&
           out <= SMOE_FACTORS_WIDEST && in <= SMOE_FACTORS_WIDEST;
}

bool smoe_outer_sum_pays(size_t rows, size_t passes, size_t out, size_t in) {
    size_t widest = out > in ? out : in;
    return smoe_outer_pays(rows, out, in) && passes * rows * (out + in) <= out * in &&
           smoe_rows_levels(passes) * SMOE_OUTER_ROWS * widest <= SMOE_FACTORS_SUMS;
}

/* The factors of pass i of several. */
static smoe_outer outer_pass_of(const smoe_param *param, size_t i) {
    const smoe_outer_passes *kept = &param->outer->kept;
    size_t out = param->dim[1], in = param->dim[2], E = param->size / (out * in),
           row = i * kept->rows;
    return (smoe_outer){{{.at = kept->dy + row * out}, out},
                        {{.at = kept->x + row * in}, in},
                        kept->first + i * (E + 1)};
}

/* Rows of kernel e, and its factors. */
static size_t outer_factors(const smoe_outer *f, size_t e, smoe_rows *dy, smoe_rows *x) {
    size_t first = f->first[e];
    *dy = (smoe_rows){smoe_values_from(f->dy.of, first * f->dy.ld), f->dy.ld};
    *x = (smoe_rows){smoe_values_from(f->x.of, first * f->x.ld), f->x.ld};
    return f->first[e + 1] - first;
}

size_t smoe_outer_terms(const smoe_param *param, size_t at) {
    const smoe_outer *f = &param->outer->factors;
    size_t e = at / (param->dim[1] * param->dim[2]), sum = 0;
    if (!param->outer->kept.passes) return f->first[e + 1] - f->first[e];
    for (size_t i = 0; i < param->outer->kept.passes; i++) {
        const size_t *first = outer_pass_of(param, i).first;
        sum += first[e + 1] - first[e];
    }
    return sum;
}

size_t smoe_outer_step(const smoe_param *param) {
    return SMOE_OUTER_ROWS * param->dim[2];
}

static void write_pass(real *g, const smoe_param *param, const smoe_outer *f, size_t first,
                       const smoe_prefetch_ranges *next) {
    smoe_rows dy, x;
    size_t out = param->dim[1], in = param->dim[2], at = first / in;
    size_t rows = outer_factors(f, at / out, &dy, &x);
    dy.of = smoe_values_from(dy.of, at % out);
    smoe_kernels_get()->row->outer(g, &dy, &x, rows, in, next);
}

/* Sums are combined like the bits of a binary counter: the sum that waits at a level is the left
 * neighbour of the next sum of this level. */
static void write_sum(real *g, const smoe_param *param, size_t first,
                      const smoe_prefetch_ranges *next) {
    static const smoe_prefetch_ranges none;
    size_t n = smoe_outer_step(param), passes = param->outer->kept.passes;
    real *waiting = smoe_thread_room(SMOE_ROOM_SUMS, SMOE_FACTORS_SUMS * sizeof *waiting);
    for (size_t i = 0; i < passes; i++) {
        size_t level = 0;
        smoe_outer f = outer_pass_of(param, i);
        write_pass(i % 2 ? g : waiting, param, &f, first, i ? &none : next);
        for (; i >> level & 1; level++)
            for (size_t k = 0; k < n; k++) g[k] += waiting[level * n + k];
        if (level && i + 1 < passes) memcpy(waiting + level * n, g, n * sizeof *g);
    }
}

void smoe_outer_write(real *g, const smoe_param *param, size_t first,
                      const smoe_prefetch_ranges *next) {
    if (param->outer->kept.passes)
        write_sum(g, param, first, next);
    else
        write_pass(g, param, &param->outer->factors, first, next);
}

void smoe_outer_read(real *g, const smoe_param *param, size_t first, size_t n) {
    static const smoe_prefetch_ranges none;
    real *step = smoe_thread_room(SMOE_ROOM_STEP, SMOE_FACTORS_STEP * sizeof *step);
    size_t size = smoe_outer_step(param), end = first + n;
    for (size_t at = first / size * size; at < end; at += size) {
        if (at >= first && at + size <= end) {
            smoe_outer_write(g + (at - first), param, at, &none);
            continue;
        }
        size_t from = at < first ? first : at, to = at + size < end ? at + size : end;
        smoe_outer_write(step, param, at, &none);
        memcpy(g + (from - first), step + (from - at), (to - from) * sizeof *g);
    }
}

enum { PAIRS = SMOE_FACTORS_ROWS * SMOE_FACTORS_ROWS };

/* The products of R rows of n elements with one another; those in BF16 are widened in parts. */
static void gram_of(double *out, const smoe_rows *x, size_t R, size_t n) {
    enum { PART = 256 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    if (x->of.at) {
        kern->gram(out, x->of.at, R, n);
        return;
    }
    real wide[SMOE_FACTORS_ROWS * PART];
    double part[PAIRS];
    memset(out, 0, R * R * sizeof *out);
    for (size_t i = 0; i < n; i += PART) {
        size_t some = n - i < PART ? n - i : PART;
        for (size_t r = 0; r < R; r++)
            kern->widen(wide + r * some, x->of.bf16 + r * x->ld + i, some);
        kern->gram(part, wide, R, some);
        for (size_t r = 0; r < R; r++)
            for (size_t s = 0; s <= r; s++) out[r * R + s] += part[r * R + s];
    }
}

double smoe_outer_square(const smoe_param *param, size_t e) {
    smoe_rows dy, x;
    double left[PAIRS], right[PAIRS], sum = 0;
    size_t rows = outer_factors(&param->outer->factors, e, &dy, &x);
    gram_of(left, &dy, rows, param->dim[1]);
    gram_of(right, &x, rows, param->dim[2]);
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s <= r; s++)
            sum += (r == s ? 1 : 2) * left[r * rows + s] * right[r * rows + s];
    return sum < 0 ? 0 : sum; /* rounding, where rows cancel; NaN stays */
}
