/*
 * The row kernels of every instruction set of this processor, against the C library and plain loops
 * in double: exp, the normal distribution and GELU over a dense sweep of all floats, the rest over
 * widths on both sides of a vector's. NaN stays NaN; the bits of a value do not depend on its
 * place.
 */
#include "approx.h"
#include "base/rng.h"
#include "base/threads.h"
#include "isas.h"
#include "math/rows.h"
#include "math/simd.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define EACH_ISA(k)                                                                               \
    for (size_t isa_ = 0; isas_all[isa_]; isa_++)                                                 \
        for (const smoe_kernels *isa_k_ = smoe_kernels_of(isas_all[isa_]); isa_k_; isa_k_ = NULL) \
            for (const smoe_row_kernels *k = isa_k_->row; k; k = NULL)

/* ---- functions over all floats --------------------------------------------------------------- */

enum { STRIDE = 6007, BLOCK = 4096 }; /* 715 000 of the 2^32 floats; prime */

/* The next block of the sweep into x; false at its end. */
static bool sweep(real x[BLOCK], uint64_t *bits) {
    for (size_t i = 0; i < BLOCK; i++, *bits += STRIDE) {
        uint32_t b = (uint32_t)*bits;
        if (*bits >> 32) b = 0x3f800000;
        memcpy(&x[i], &b, sizeof b);
    }
    return *bits - (uint64_t)BLOCK * STRIDE < (uint64_t)1 << 32;
}

static double normal(double x) {
    return erfc(-x * M_SQRT1_2) / 2;
}

/* exp: relative error of 8.8e-8 at most measured (an ulp is up to 1.2e-7); 0 below -87.3,
 * overflow where single precision ends; the variant for x <= 0 gives the same bits. */
static void exp_over_all_floats(void **state) {
    real x[BLOCK], y[BLOCK], falling[BLOCK];
    double worst = 0;
    for (uint64_t bits = 0; sweep(x, &bits);) {
        for (size_t i = 0; i < BLOCK; i += VL) {
            vstore(y + i, vexp(vload(x + i)));
            vstore(falling + i, vexp_falling(vload(x + i)));
        }
        for (size_t i = 0; i < BLOCK; i++) {
            if (isnan(x[i])) assert_true(isnan(falling[i]));
            if (x[i] <= 0) assert_memory_equal(falling + i, y + i, sizeof *y);
            double right = exp((double)x[i]);
            if (isnan(x[i])) {
                assert_true(isnan(y[i]));
            } else if (x[i] < -87.3f) {
                assert_true(y[i] == 0);
            } else if (x[i] > 88.72f) {
                assert_true(y[i] > 3.4e38f);
            } else {
                worst = fmax(worst, fabs((double)y[i] - right) / right);
            }
        }
    }
    assert_true(worst < 1.2e-7);
}

/* Phi: absolute error of at most 2.1e-7 measured; relative error of 3.4e-6 above 1e-30: there
 * x^2/2, near 60, is known only to 4e-6. */
static void normal_over_all_floats(void **state) {
    real x[BLOCK], y[BLOCK];
    double worst = 0, relative = 0;
    for (uint64_t bits = 0; sweep(x, &bits);) {
        for (size_t i = 0; i < BLOCK; i += VL) {
            vreal density;
            vstore(y + i, vnormal(vload(x + i), &density));
        }
        for (size_t i = 0; i < BLOCK; i++) {
            if (isnan(x[i])) {
                assert_true(isnan(y[i]));
                continue;
            }
            double right = normal((double)x[i]), error = fabs((double)y[i] - right);
            worst = fmax(worst, error);
            if (right > 1e-30) relative = fmax(relative, error / right);
        }
    }
    assert_true(worst < 4e-7);
    assert_true(relative < 1e-5);
}

/*
 * GELU and its slope, in both forms. Largest errors measured: 2.3e-7 |x| and 2.3e-7 (erf), 1.2e-7
 * |x| and 2.0e-6 (tanh, near |x| = 4, where x s (1 - s) 2z' computes 1 - s from an s close to 1).
 */
typedef struct errors {
    double y, slope;
} errors;

static void gelu_errors(const smoe_row_kernels *k, smoe_gelu kind, errors *worst) {
    real x[BLOCK], y[BLOCK], a[BLOCK], dx[BLOCK], ones[BLOCK], same[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) ones[i] = 1;
    for (uint64_t bits = 0; sweep(x, &bits);) {
        k->gelu(y, x, BLOCK, kind);
        k->gelu_backward(dx, a, ones, x, BLOCK, kind);
        assert_memory_equal(a, y, sizeof y); /* the activation is the same if not kept */
        memcpy(same, x, sizeof same);
        k->gelu_slopes(a, same, same, BLOCK, kind);
        assert_memory_equal(a, y, sizeof y);
        assert_memory_equal(same, dx, sizeof dx);
        for (size_t i = 0; i < BLOCK; i++) {
            double v = (double)x[i], right, slope;
            if (isnan(v)) assert_true(isnan(y[i]) && isnan(dx[i]));
            if (v == HUGE_VAL) assert_true(y[i] == x[i]);
            if (!isfinite(v) || fabs(v) > 1e18) continue; /* x^2 overflows */
            if (kind == SMOE_GELU_ERF) {
                right = v * normal(v);
                slope = normal(v) + v * exp(-v * v / 2) / sqrt(2 * M_PI);
            } else if (kind == SMOE_GELU_QUICK) {
                double s = 1 / (1 + exp(-1.702 * v));
                right = v * s;
                slope = s + 1.702 * v * s / (1 + exp(1.702 * v));
            } else {
                double c = sqrt(2 / M_PI), t = tanh(c * (v + 0.044715 * v * v * v));
                right = v * (1 + t) / 2;
                slope = (1 + t) / 2 + v / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
            }
            worst->y = fmax(worst->y, fabs((double)y[i] - right) / fmax(fabs(v), 1e-30));
            worst->slope = fmax(worst->slope, fabs((double)dx[i] - slope));
        }
    }
}

static void gelu_over_all_floats(void **state) {
    EACH_ISA(k) {
        for (int kind = SMOE_GELU_ERF; kind <= SMOE_GELU_QUICK; kind++) {
            errors worst = {0, 0};
            gelu_errors(k, (smoe_gelu)kind, &worst);
            assert_true(worst.y < 4e-7);
            assert_true(worst.slope < (kind == SMOE_GELU_ERF ? 4e-7 : 4e-6));
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { ROWS = 5, WIDEST = 70, LD = WIDEST + 3, SIZE = ROWS * LD + 1 };

/* Error of a few operations on sums of 70 numbers near 1, in single precision. */
static const double CLOSE = 4e-6;
static const real HOLE = 1e30f; /* fills memory that a kernel must not touch */

static void numbers(real *x, size_t n, uint64_t seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < n; i++) x[i] = (real)smoe_rng_normal(&rng);
}

static void holes(real *x) {
    for (size_t i = 0; i < SIZE; i++) x[i] = HOLE;
}

static void assert_holes(const real *x, size_t from) {
    for (size_t i = from; i < SIZE; i++) assert_true(x[i] == HOLE);
}

/* y, stats and all gradients of a LayerNorm of one row, by the formulas of kern_row.c in double. */
static void check_norm_row(const real *y, const real *stats, const real *x, const real *w,
                           const real *b, size_t n) {
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    double r = 1 / sqrt(var + 1e-6);
    assert_close(stats[0], mean, CLOSE);
    assert_close(stats[1] / r, 1, CLOSE);
    for (size_t i = 0; i < n; i++)
        assert_close(y[i], ((double)x[i] - mean) * r * (double)w[i] + (double)b[i], 2e-5);
}

static void norms(void **state) {
    real x[SIZE], y[SIZE], w[WIDEST], b[WIDEST], stats[2 * ROWS], one[WIDEST], stat[2];
    numbers(x, SIZE, 1);
    numbers(w, WIDEST, 2);
    numbers(b, WIDEST, 3);
    EACH_ISA(k) {
        for (size_t n = 2; n <= WIDEST; n++) {
            holes(y);
            k->norm(smoe_reals_out(y), &(smoe_norm_rows){x, stats, ROWS},
                    &(smoe_norm_weights){w, b, n, 1e-6f});
            assert_holes(y, ROWS * n);
            for (size_t r = 0; r < ROWS; r++) {
                check_norm_row(y + r * n, stats + 2 * r, x + r * n, w, b, n);
                k->norm(smoe_reals_out(one), &(smoe_norm_rows){x + r * n, stat, 1},
                        &(smoe_norm_weights){w, b, n, 1e-6f});
                assert_memory_equal(one, y + r * n, n * sizeof(real)); /* whatever the others */
            }
            real bad = x[n + 1];
            x[n + 1] = (real)NAN; /* row 1 */
            k->norm(smoe_reals_out(y), &(smoe_norm_rows){x, stats, ROWS},
                    &(smoe_norm_weights){w, b, n, 1e-6f});
            for (size_t i = 0; i < ROWS * n; i++) assert_true(isnan(y[i]) == (i / n == 1));
            x[n + 1] = bad;
        }
    }
}

/* dx = r (u - mean u - xh mean(u xh)), dw = sum dy xh, db = sum dy, all added to the present
 * values. */
static void norm_backwards(void **state) {
    real x[SIZE], y[SIZE], w[WIDEST], dy[SIZE], stats[2 * ROWS], dx[SIZE], dw[WIDEST], db[WIDEST];
    numbers(x, SIZE, 1);
    numbers(w, WIDEST, 2);
    numbers(dy, SIZE, 3);
    EACH_ISA(k) {
        for (size_t n = 2; n <= WIDEST; n += 3) {
            double sums[2][WIDEST] = {{0}};
            for (size_t i = 0; i < SIZE; i++) dx[i] = i < ROWS * n ? 2 : HOLE;
            for (size_t i = 0; i < n; i++) dw[i] = db[i] = 3;
            k->norm(smoe_reals_out(y), &(smoe_norm_rows){x, stats, ROWS},
                    &(smoe_norm_weights){w, w, n, 1e-6f});
            k->norm_backward(dx, dw, db, dy, &(smoe_norm_rows){x, stats, ROWS},
                             &(smoe_norm_weights){w, NULL, n, 0});
            assert_holes(dx, ROWS * n);
            for (size_t row = 0; row < ROWS; row++) {
                double mean = (double)stats[2 * row], r = (double)stats[2 * row + 1];
                double u = 0, ux = 0, size = (double)n;
                for (size_t i = 0; i < n; i++) {
                    double g = (double)dy[row * n + i], xh = ((double)x[row * n + i] - mean) * r;
                    u += g * (double)w[i] / size;
                    ux += g * (double)w[i] * xh / size;
                    sums[0][i] += g * xh;
                    sums[1][i] += g;
                }
                for (size_t i = 0; i < n; i++) {
                    double xh = ((double)x[row * n + i] - mean) * r;
                    double d = r * ((double)dy[row * n + i] * (double)w[i] - u - xh * ux);
                    assert_close(dx[row * n + i], 2 + d, 2e-5 * (1 + r));
                }
            }
            for (size_t i = 0; i < n; i++) {
                assert_close(dw[i], 3 + sums[0][i], 2e-5);
                assert_close(db[i], 3 + sums[1][i], 2e-5);
            }
        }
    }
}

static void softmaxes(void **state) {
    real start[SIZE], x[SIZE], dp[SIZE];
    numbers(start, SIZE, 4);
    for (size_t i = 0; i < SIZE; i++) start[i] *= 5;
    EACH_ISA(k) {
        for (size_t n = 1; n <= WIDEST; n++) {
            memcpy(x, start, sizeof x);
            k->softmax(x, ROWS, n, LD);
            numbers(dp, SIZE, 5);
            k->softmax_backward(dp, x, ROWS, n, LD);
            real dy[SIZE];
            numbers(dy, SIZE, 5);
            for (size_t r = 0; r < ROWS; r++) {
                double sum = 0, along = 0;
                for (size_t i = 0; i < n; i++) sum += exp((double)start[r * LD + i]);
                for (size_t i = 0; i < n; i++)
                    along += exp((double)start[r * LD + i]) / sum * (double)dy[r * LD + i];
                for (size_t i = 0; i < LD; i++) {
                    double p = exp((double)start[r * LD + i]) / sum;
                    double d = p * ((double)dy[r * LD + i] - along);
                    if (i >= n) assert_true(x[r * LD + i] == start[r * LD + i]);
                    if (i >= n) assert_true(dp[r * LD + i] == dy[r * LD + i]);
                    if (i < n) assert_close((double)x[r * LD + i] / p, 1, CLOSE);
                    if (i < n) assert_close(dp[r * LD + i], d, CLOSE);
                }
            }
        }
    }
}

/* Logits that would overflow unless the maximum is subtracted; -inf gives weight 0; NaN and +inf
 * make only their own row NaN. */
static void softmax_of_extremes(void **state) {
    EACH_ISA(k) {
        for (size_t n = 2; n <= 40; n++) {
            real x[5][40];
            for (size_t i = 0; i < n; i++)
                for (size_t r = 0; r < 5; r++) x[r][i] = (real)(1e4 + (double)i);
            x[0][n - 1] = x[4][n - 1] = -(real)INFINITY;
            x[1][n / 2] = (real)NAN;
            x[2][n - 1] = (real)INFINITY;
            k->softmax(x[0], 5, n, 40);
            assert_memory_equal(x[4], x[0], n * sizeof(real));
            double sum = 0;
            for (size_t i = 0; i < n; i++) sum += (double)x[0][i];
            assert_close(sum, 1, 1e-6); /* at most 40 roundings of 3e-8, of either sign */
            assert_true(x[0][n - 1] == 0);
            for (size_t i = 0; i < n; i++) assert_true(isnan(x[1][i]));
            assert_true(isnan(x[2][n - 1]));
            for (size_t i = 0; i < n; i++) x[0][i] = -(real)INFINITY;
            k->softmax(x[0], 1, n, 40);
            for (size_t i = 0; i < n; i++) assert_true(isnan(x[0][i]));
            for (size_t top = 0; top < n; top++) { /* one that is far above all others, anywhere */
                for (size_t i = 0; i < n; i++) x[0][i] = i == top ? 1000 : 0;
                k->softmax(x[0], 1, n, 40);
                for (size_t i = 0; i < n; i++) assert_true(x[0][i] == (i == top));
            }
            real flat[80], y[80]; /* the same by columns */
            for (size_t i = 0; i < 80; i++) flat[i] = i == 41 ? (real)NAN : 1;
            k->column_softmax(y, flat, 2, 40);
            for (size_t i = 0; i < 80; i++) assert_true(isnan(y[i]) == (i % 40 == 1));
        }
    }
}

static void column_softmaxes(void **state) {
    real x[SIZE], y[SIZE], dy[SIZE], dx[SIZE], one[SIZE];
    numbers(x, SIZE, 6);
    numbers(dy, SIZE, 7);
    EACH_ISA(k) {
        for (size_t n = 1; n <= WIDEST; n++) {
            holes(y);
            for (size_t i = 0; i < SIZE; i++) dx[i] = i < ROWS * n ? 2 : HOLE;
            k->column_softmax(y, x, ROWS, n);
            k->column_softmax_backward(dx, y, dy, ROWS, n);
            assert_holes(y, ROWS * n);
            assert_holes(dx, ROWS * n);
            for (size_t j = 0; j < n; j++) {
                double sum = 0, along = 0;
                for (size_t r = 0; r < ROWS; r++) sum += exp((double)x[r * n + j]);
                for (size_t r = 0; r < ROWS; r++)
                    along += exp((double)x[r * n + j]) / sum * (double)dy[r * n + j];
                for (size_t r = 0; r < ROWS; r++) {
                    double p = exp((double)x[r * n + j]) / sum;
                    assert_close((double)y[r * n + j] / p, 1, CLOSE);
                    assert_close(dx[r * n + j], 2 + p * ((double)dy[r * n + j] - along), CLOSE);
                }
            }
            k->column_softmax(one, x, 1, n); /* of a single row: exactly one */
            for (size_t j = 0; j < n; j++) assert_true(one[j] == 1);
        }
    }
}

/* The result for a row or column does not depend on its neighbours: neither on their number, nor
 * on its own position. */
static void softmaxes_alone(void **state) {
    enum { R = 6, N = 600 };
    real x[R * N], y[R * N], dy[R * N], dx[R * N], one[N], done[N];
    numbers(x, R * N, 31);
    numbers(dy, R * N, 32);
    EACH_ISA(k) {
        memcpy(y, x, sizeof x);
        memcpy(dx, dy, sizeof dy);
        k->softmax(y, R, N, N);
        k->softmax_backward(dx, y, R, N, N);
        for (size_t r = 0; r < R; r++) {
            memcpy(one, x + r * N, sizeof one);
            memcpy(done, dy + r * N, sizeof done);
            k->softmax(one, 1, N, N);
            k->softmax_backward(done, one, 1, N, N);
            assert_memory_equal(y + r * N, one, sizeof one);
            assert_memory_equal(dx + r * N, done, sizeof done);
        }
        memset(dx, 0, sizeof dx);
        k->column_softmax(y, x, R, N);
        k->column_softmax_backward(dx, y, dy, R, N);
        for (size_t j = 0; j < N; j++) {
            real column[R], slope[R], from[R] = {0};
            for (size_t r = 0; r < R; r++) column[r] = x[r * N + j];
            for (size_t r = 0; r < R; r++) slope[r] = dy[r * N + j];
            k->column_softmax(one, column, R, 1);
            k->column_softmax_backward(from, one, slope, R, 1);
            for (size_t r = 0; r < R; r++) assert_true(y[r * N + j] == one[r]);
            for (size_t r = 0; r < R; r++) assert_true(dx[r * N + j] == from[r]);
        }
    }
}

/* Sums of the products of every two of R rows; nothing is written beyond the last. */
static void grams(void **state) {
    enum { MOST = 9, LENGTH = 37 };
    real x[MOST * LENGTH];
    numbers(x, MOST * LENGTH, 21);
    EACH_ISA(k) {
        for (size_t R = 1; R <= MOST; R++)
            for (size_t n = 1; n <= LENGTH; n++) {
                double out[MOST * MOST + 1];
                out[R * R] = 7;
                k->gram(out, x, R, n);
                assert_true(out[R * R] == 7);
                for (size_t r = 0; r < R; r++)
                    for (size_t s = 0; s <= r; s++) {
                        double sum = 0;
                        for (size_t i = 0; i < n; i++)
                            sum += (double)x[r * n + i] * (double)x[s * n + i];
                        assert_close(out[r * R + s], sum, 1e-12);
                    }
            }
    }
}

static void sums(void **state) {
    real x[SIZE], y[SIZE], start[SIZE];
    numbers(x, SIZE, 8);
    numbers(start, SIZE, 9);
    EACH_ISA(k) {
        for (size_t n = 0; n <= WIDEST; n++) {
            double dot = 0, squares = 0;
            for (size_t i = 0; i < n; i++) dot += (double)x[i] * (double)start[i];
            for (size_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
            assert_close(k->dot(x, start, n), dot, 2e-5);
            assert_close(k->dot_double(x, x, n), squares, 1e-12);
            holes(y);
            memcpy(y, start, n * sizeof *y);
            k->add(y, x, n);
            k->axpy(y, (real)-0.5, x, n);
            assert_holes(y, n);
            for (size_t i = 0; i < n; i++)
                assert_close(y[i], (double)start[i] + (double)x[i] / 2, CLOSE);
            k->scale(y, 3, x, n);
            assert_holes(y, n);
            for (size_t i = 0; i < n; i++) assert_true(y[i] == 3 * x[i]);
            memcpy(y, start, n * sizeof *y);
            k->column_sum(y, x, ROWS, n);
            double columns[WIDEST + 1];
            for (size_t i = 0; i <= WIDEST; i++) columns[i] = 2;
            k->column_dot_double(columns, x, start, ROWS, n, LD);
            for (size_t i = 0; i <= WIDEST; i++) {
                double sum = 2;
                for (size_t r = 0; r < ROWS && i < n; r++)
                    sum += (double)x[r * LD + i] * (double)start[r * LD + i];
                assert_close(columns[i], sum, 1e-12);
            }
            assert_holes(y, n);
            for (size_t i = 0; i < n; i++) {
                double sum = (double)start[i];
                for (size_t r = 0; r < ROWS; r++) sum += (double)x[r * n + i];
                assert_close(y[i], sum, CLOSE);
            }
        }
    }
}

/* By the formula of kernels.h, with gradients cleared or kept. */
static void adam(void **state) {
    smoe_adam_constants c = {.clip = 0.5f,
                             .beta1 = 0.9f,
                             .beta2 = 0.99f,
                             .correct1 = 2,
                             .correct2 = 3,
                             .eps = 0.01f,
                             .rate = 0.1f,
                             .decay = 0.2f};
    real w[SIZE], g[SIZE], m[SIZE], v[SIZE], start[4][SIZE];
    for (size_t i = 0; i < 4; i++) numbers(start[i], SIZE, 10 + i);
    for (size_t i = 0; i < SIZE; i++) start[3][i] *= start[3][i];
    EACH_ISA(k) {
        for (size_t n = 0; n <= WIDEST; n++) {
            real *const slab[] = {w, g, m, v};
            for (size_t i = 0; i < 4; i++) {
                holes(slab[i]);
                memcpy(slab[i], start[i], n * sizeof *w);
            }
            c.leave = n % 2;
            k->adam(w, g, m, v, n, &c);
            for (size_t i = 0; i < 4; i++) assert_holes(slab[i], n);
            for (size_t i = 0; i < n; i++) {
                double gi = 0.5 * (double)start[1][i], mi = 0.9 * (double)start[2][i] + 0.1 * gi;
                double vi = 0.99 * (double)start[3][i] + 0.01 * gi * gi, wi = (double)start[0][i];
                wi -= 0.1 * (2 * mi / (sqrt(3 * vi) + 0.01) + 0.2 * wi);
                assert_close(w[i], wi, CLOSE);
                assert_close(m[i], mi, CLOSE);
                assert_close(v[i], vi, CLOSE);
                assert_true(g[i] == (c.leave ? start[1][i] : 0));
            }
        }
    }
}

/* GELU of a value has the same bits at any place in a vector or at the end of a row. */
static void place_does_not_matter(void **state) {
    real x[WIDEST], y[WIDEST], one;
    numbers(x, WIDEST, 14);
    EACH_ISA(k) {
        for (int kind = SMOE_GELU_ERF; kind <= SMOE_GELU_QUICK; kind++) {
            k->gelu(y, x, WIDEST, (smoe_gelu)kind);
            for (size_t i = 0; i < WIDEST; i++) {
                k->gelu(&one, x + i, 1, (smoe_gelu)kind);
                assert_memory_equal(&one, y + i, sizeof one);
            }
        }
    }
}

/* ---- over threads ---------------------------------------------------------------------------- */

enum { MANY = 700, BROAD = 96 }; /* several tasks of each of rows.c's loops */

typedef struct results {
    real sum[BROAD], add[MANY * BROAD];
} results;

static void all_of_them(results *r, const real *x, const real *dy, real *parts) {
    memset(r, 0, sizeof *r);
    smoe_rows_sum(r->sum, smoe_matrix_of(dy, MANY, BROAD), parts);
    smoe_rows_add(r->add, x, MANY * BROAD);
}

static void same_bits_for_any_threads(void **state) {
    size_t n = MANY * BROAD;
    real *x = malloc(n * sizeof *x), *dy = malloc(n * sizeof *dy);
    real *parts = malloc(smoe_rows_parts(BROAD) * sizeof *parts);
    results *one = malloc(sizeof *one), *more = malloc(sizeof *more);
    assert_true(x && dy && parts && one && more);
    numbers(x, n, 15);
    numbers(dy, n, 16);
    smoe_threads_set(1);
    all_of_them(one, x, dy, parts);
    for (int threads = 2; threads <= 3; threads++) {
        smoe_threads_set(threads);
        all_of_them(more, x, dy, parts);
        assert_memory_equal(one, more, sizeof *one);
    }
    for (size_t j = 0; j < BROAD; j++) { /* the sums are right too: 700 numbers near 1 */
        double sum = 0;
        for (size_t r = 0; r < MANY; r++) sum += (double)dy[r * BROAD + j];
        assert_close(one->sum[j], sum, 1e-4);
    }
    assert_memory_equal(one->add, x, n * sizeof *x);
    void *all[] = {x, dy, parts, one, more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    smoe_threads_set(2);
}

/* ---- BF16 ---- */

static void narrow_and_widen(void **state) {
    enum { N = 1 << 16 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    smoe_bf16 *from = malloc(N * sizeof *from), *to = malloc(N * sizeof *to);
    real *wide = malloc(N * sizeof *wide);
    for (size_t i = 0; i < N; i++) from[i] = (smoe_bf16)i;
    kern->widen(wide, from, N);
    for (size_t i = 0; i < N; i++) {
        float right = smoe_bf16_widen((smoe_bf16)i);
        assert_true(isnan(right) ? isnan(wide[i]) : wide[i] == right);
    }
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < N; i++) {
        float x = smoe_float_of_bits((uint32_t)smoe_rng_u64(&rng));
        wide[i] = x; /* any pattern */
        to[i] = smoe_bf16_round(x);
    }
    kern->narrow(from, wide, N);
    for (size_t i = 0; i < N; i++) assert_true(from[i] == to[i]);
    free(from);
    free(to);
    free(wide);
}

/*
 * Stochastic rounding gives one of the two neighbours; it rounds up with a probability equal to the
 * distance from the lower one; numbers of BF16 stay. With K = 2^18 draws of probability p the count
 * has a standard deviation of sqrt(K p (1 - p)) <= 256; six of them are exceeded by chance once in
 * 10^9.
 */
static void narrow_by_chance(void **state) {
    enum { K = 1 << 18 };
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    real *x = malloc(K * sizeof *x);
    smoe_bf16 *y = malloc(K * sizeof *y), *z = malloc(K * sizeof *z);
    static const unsigned parts[] = {0, 1, 0x1000, 0x8000, 0xc000, 0xffff}; /* of 2^16 */
    for (size_t c = 0; c < sizeof parts / sizeof *parts; c++) {
        const uint32_t low = 0x3a12;
        for (size_t i = 0; i < K; i++) x[i] = smoe_float_of_bits(low << 16 | parts[c]);
        kern->narrow_random(y, x, K, 77, 0);
        size_t up = 0, runs = 0;
        for (size_t i = 0; i < K; i++) {
            assert_true(y[i] == low || y[i] == low + 1);
            up += y[i] != low;
            runs += i && (y[i] != low) && (y[i - 1] != low);
        }
        double p = parts[c] / 65536.0;
        assert_true(fabs((double)up - K * p) <= 6 * 256 * 2 * sqrt(p * (1 - p)));
        /* Neighbours are independent: both round up with p^2, counted with a standard deviation
         * <= K/2. */
        assert_true(fabs((double)runs - K * p * p) <= 6 * 512);
        kern->narrow_random(z, x, K, 78, 0);
        size_t same = 0;
        for (size_t i = 0; i < K; i++) same += y[i] == z[i];
        assert_true(fabs((double)same - K * (1 - 2 * p * (1 - p))) <= 6 * 256);
        /* the result depends on the place and the key only */
        kern->narrow_random(z, x, 1000, 77, 300);
        assert_memory_equal(y + 300, z, 1000 * sizeof *y);
    }
    free(x);
    free(y);
    free(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isas_run_again),
        cmocka_unit_test(exp_over_all_floats),
        cmocka_unit_test(normal_over_all_floats),
        cmocka_unit_test(gelu_over_all_floats),
        cmocka_unit_test(norms),
        cmocka_unit_test(norm_backwards),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(softmax_of_extremes),
        cmocka_unit_test(column_softmaxes),
        cmocka_unit_test(softmaxes_alone),
        cmocka_unit_test(sums),
        cmocka_unit_test(grams),
        cmocka_unit_test(adam),
        cmocka_unit_test(place_does_not_matter),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(narrow_and_widen),
        cmocka_unit_test(narrow_by_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
