/*
 * Kernels that work on rows or elements: GELU, LayerNorm, softmax over rows and over columns, sums
 * and the Adam step, with forward and backward passes side by side. The last, short vector of a row
 * is computed in the same way as the others, so the bits of a value do not depend on its position.
 */
#include "math/kernels.h"
#include "math/round_bf16.h"
#include "math/softmax.h"

enum {
    STRIP = 16 * VL /* columns whose sums stay in the L1 while rows are read in memory order */
};

/* ---- GELU ------------------------------------------------------------------------------------
 * erf:  x Phi(x), derivative Phi(x) + x phi(x).
 * tanh: x s(2z), z = sqrt(2/pi)(x + 0.044715 x^3), s the logistic function, since
 *       (1 + tanh z)/2 = s(2z); derivative s + x s(1 - s) 2z'.
 * quick: x s(b x), b = 1.702; derivative s + x s(1 - s) b. */
static inline vreal gelu_parts(vreal x, smoe_gelu kind, vreal *slope) {
    if (kind == SMOE_GELU_ERF) {
        vreal density, phi = vnormal(x, &density);
        *slope = phi + x * density;
        return x * phi;
    }
    if (kind == SMOE_GELU_QUICK) return vgelu_quick(x, slope);
    const real c = (real)0.79788456080286535588, q = (real)0.044715;
    vreal x2 = x * x;
    vreal z2 = 2 * c * (x + q * x2 * x), dz2 = 2 * c * (1 + 3 * q * x2);
    vreal s = 1 / (1 + vexp(-z2));
    *slope = s + x * s * (1 - s) * dz2;
    return x * s;
}

static void row_gelu(real *y, const real *x, size_t n, smoe_gelu kind) {
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
        vreal slope;
        give(y + i, gelu_parts(take(x + i, w, 0), kind, &slope), w);
    }
}

static void gelu_backward(real *dx, real *a, const real *da, const real *x, size_t n,
                          smoe_gelu kind) {
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
        vreal slope, y = gelu_parts(take(x + i, w, 0), kind, &slope);
        give(dx + i, take(da + i, w, 0) * slope, w);
        give(a + i, y, w);
    }
}

static void gelu_slopes(real *y, real *slopes, const real *x, size_t n, smoe_gelu kind) {
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
        vreal slope;
        give(y + i, gelu_parts(take(x + i, w, 0), kind, &slope), w);
        give(slopes + i, slope, w);
    }
}

/* ---- BF16 ------------------------------------------------------------------------------------ */

static void widen(real *restrict y, const smoe_bf16 *restrict x, size_t n) {
    size_t i = 0;
    for (; i + VL <= n; i += VL) vstore(y + i, load_widened(x + i));
    for (; i < n; i++) y[i] = smoe_bf16_widen(x[i]);
}

static void row_narrow(smoe_bf16 *restrict y, const real *restrict x, size_t n) {
    size_t i = 0;
#ifndef SMOE_F64
    for (; i + VL <= n; i += VL) narrow_vector(y + i, x + i);
#endif
    for (; i < n; i++) y[i] = smoe_bf16_round((float)x[i]);
}

/* ---- LayerNorm -------------------------------------------------------------------------------
 * xh = (x - mean) r, r = 1/sqrt(var + eps), y = xh w + b. With u = dy w:
 * dx = r (u - mean(u) - xh mean(u xh)); dw = sum dy xh; db = sum dy. */
static inline void norm_stats(real stats[2], const real *x, size_t n, real eps) {
    vreal sum = {0}, square = {0};
    for (size_t i = 0; i < n; i += VL) sum += take(x + i, width(i, n), 0);
    real mean = vsum(sum) / (real)n;
    for (size_t i = 0; i < n; i += VL) {
        vreal c = take(x + i, width(i, n), mean) - mean;
        square += c * c;
    }
    stats[0] = mean;
    stats[1] = 1 / (real)sqrt(vsum(square) / (real)n + eps);
}

/* n elements of a row. */
static inline void norm_part(real *y, const real stats[2], const real *x, const real *w,
                             const real *b, size_t n) {
    for (size_t i = 0; i < n; i += VL) {
        size_t k = width(i, n);
        vreal scaled = (take(x + i, k, 0) - stats[0]) * stats[1];
        give(y + i, scaled * take(w + i, k, 0) + take(b + i, k, 0), k);
    }
}

static void row_norm(smoe_outputs y, const smoe_norm_rows *rows, const smoe_norm_weights *norm) {
    enum { PART = 512 };
    real part[PART], *stats = rows->stats;
    const real *x = rows->x, *w = norm->w, *b = norm->b;
    const size_t n = norm->n;
    for (size_t row = 0; row < rows->R; row++, x += n, stats += 2) {
        norm_stats(stats, x, n, norm->eps);
        for (size_t i = 0; i < n; i += PART) {
            size_t k = n - i < PART ? n - i : PART, at = row * n + i;
            norm_part(y.bf16 ? part : y.at + at, stats, x + i, w + i, b + i, k);
            if (y.bf16) row_narrow(y.bf16 + at, part, k);
        }
    }
}

static void norm_backward(real *dx, real *dw, real *db, const real *dy, const smoe_norm_rows *rows,
                          const smoe_norm_weights *norm) {
    const real *x = rows->x, *w = norm->w;
    const size_t n = norm->n;
    for (size_t row = 0; row < rows->R; row++, x += n, dy += n, dx += n) {
        real mean = rows->stats[2 * row], r = rows->stats[2 * row + 1];
        vreal su = {0}, sux = {0};
        for (size_t i = 0; i < n; i += VL) {
            size_t k = width(i, n);
            vreal g = take(dy + i, k, 0), xh = (take(x + i, k, mean) - mean) * r;
            vreal u = g * take(w + i, k, 0);
            su += u;
            sux += u * xh;
            give(dw + i, take(dw + i, k, 0) + g * xh, k);
            give(db + i, take(db + i, k, 0) + g, k);
        }
        real mu = vsum(su) / (real)n, mux = vsum(sux) / (real)n;
        for (size_t i = 0; i < n; i += VL) {
            size_t k = width(i, n);
            vreal u = take(dy + i, k, 0) * take(w + i, k, 0);
            vreal xh = (take(x + i, k, mean) - mean) * r;
            give(dx + i, take(dx + i, k, 0) + r * (u - mu - xh * mux), k);
        }
    }
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* `rows` <= ABREAST rows of x, a constant, of n columns, ld apart: the largest so far of each; and
 * exp(x - most) into y, and its sums. */
static inline __attribute__((always_inline)) void column_most(size_t rows, real *most,
                                                              const real *x, size_t n, size_t ld) {
    for (size_t j = 0; j < n; j += VL) {
        vreal m = vload(most + j);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) m = vmax(take(x + r * ld + j, width(j, n), 0), m);
        vstore(most + j, m);
    }
}
static inline __attribute__((always_inline)) void
column_exp(size_t rows, real *y, real *sum, const real *x, const real *most, size_t n, size_t ld) {
    for (size_t j = 0; j < n; j += VL) {
        size_t w = width(j, n);
        vreal m = vload(most + j), s = vload(sum + j);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            vreal e = vexp_falling(take(x + r * ld + j, w, 0) - m);
            s += e;
            give(y + r * ld + j, e, w);
        }
        vstore(sum + j, s);
    }
}

static void column_softmax(real *y, const real *x, size_t R, size_t n) {
    for (size_t j0 = 0; j0 < n; j0 += STRIP, x += STRIP, y += STRIP) {
        __attribute__((aligned(SMOE_VBYTES))) real most[STRIP], sum[STRIP] = {0};
        size_t columns = n - j0 < STRIP ? n - j0 : STRIP, i = 0;
        for (size_t j = 0; j < STRIP; j++) most[j] = -(real)INFINITY;
        for (; i + ABREAST <= R; i += ABREAST) column_most(ABREAST, most, x + i * n, columns, n);
        for (; i < R; i++) column_most(1, most, x + i * n, columns, n);
        for (i = 0; i + ABREAST <= R; i += ABREAST)
            column_exp(ABREAST, y + i * n, sum, x + i * n, most, columns, n);
        for (; i < R; i++) column_exp(1, y + i * n, sum, x + i * n, most, columns, n);
        for (size_t j = 0; j < columns; j += VL) vstore(sum + j, 1 / vload(sum + j));
        for (i = 0; i < R; i++)
            for (size_t j = 0; j < columns; j += VL) {
                size_t w = width(j, columns);
                give(y + i * n + j, take(y + i * n + j, w, 0) * vload(sum + j), w);
            }
    }
}

/* sum += y * dy over `rows` rows. */
static inline __attribute__((always_inline)) void column_dot(size_t rows, real *sum, const real *y,
                                                             const real *dy, size_t n, size_t ld) {
    for (size_t j = 0; j < n; j += VL) {
        size_t w = width(j, n);
        vreal s = vload(sum + j);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++)
            s += take(y + r * ld + j, w, 0) * take(dy + r * ld + j, w, 0);
        vstore(sum + j, s);
    }
}

static void column_softmax_backward(real *dx, const real *y, const real *dy, size_t R, size_t n) {
    for (size_t j0 = 0; j0 < n; j0 += STRIP, dx += STRIP, y += STRIP, dy += STRIP) {
        __attribute__((aligned(SMOE_VBYTES))) real sum[STRIP] = {0};
        size_t columns = n - j0 < STRIP ? n - j0 : STRIP, i = 0;
        for (; i + ABREAST <= R; i += ABREAST)
            column_dot(ABREAST, sum, y + i * n, dy + i * n, columns, n);
        for (; i < R; i++) column_dot(1, sum, y + i * n, dy + i * n, columns, n);
        for (i = 0; i < R; i++)
            for (size_t j = 0; j < columns; j += VL) {
                size_t w = width(j, columns);
                vreal p = take(y + i * n + j, w, 0), d = take(dx + i * n + j, w, 0);
                give(dx + i * n + j, d + p * (take(dy + i * n + j, w, 0) - vload(sum + j)), w);
            }
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void row_add(real *y, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void scale(real *y, real a, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a * x[i];
}

static void row_multiply(real *y, const real *x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] *= x[i];
}

static void axpy(real *y, real a, const real *x, size_t n) {
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
        give(y + i, take(y + i, w, 0) + a * take(x + i, w, 0), w);
    }
}

static real dot(const real *x, const real *y, size_t n) {
    vreal sum = {0};
    for (size_t i = 0; i < n; i += VL) {
        size_t w = width(i, n);
        sum += take(x + i, w, 0) * take(y + i, w, 0);
    }
    return vsum(sum);
}

static void column_sum(real *out, const real *x, size_t R, size_t n) {
    for (size_t row = 0; row < R; row++, x += n) row_add(out, x, n);
}

static double dot_double(const real *x, const real *y, size_t n) {
    enum { LANES = 16 };
    double sum[LANES] = {0}, total = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __builtin_prefetch(x + i + SUM_PREFETCH);
        for (size_t j = 0; j < LANES; j++) sum[j] += (double)x[i + j] * (double)y[i + j];
    }
    for (; i < n; i++) sum[0] += (double)x[i] * (double)y[i];
    for (size_t j = 0; j < LANES; j++) total += sum[j];
    return total;
}

/* Vectors of double, and as many elements widened. */
enum { VD = SMOE_VBYTES / sizeof(double) };
typedef double vdouble __attribute__((vector_size(SMOE_VBYTES)));
typedef real vpart
    __attribute__((vector_size(VD * sizeof(real)), aligned(sizeof(real)), may_alias));
static inline vdouble wide(const real *x) {
    return __builtin_convertvector(*(const vpart *)x, vdouble);
}

static void column_dot_double(double *sum, const real *x, const real *y, size_t R, size_t n,
                              size_t ld) {
    for (size_t i = 0; i < R; i++, x += ld, y += ld) {
        size_t j = 0;
        for (; j + VD <= n; j += VD) {
            vdouble s;
            memcpy(&s, sum + j, sizeof s);
            s += wide(x + j) * wide(y + j);
            memcpy(sum + j, &s, sizeof s);
        }
        for (; j < n; j++) sum[j] += (double)x[j] * (double)y[j];
    }
}

/* `rows` rows of x times `columns` rows of y: constants, so that all sums are in registers. */
static inline __attribute__((always_inline)) void gram_block(size_t rows, size_t columns,
                                                             double *out, size_t ld, const real *x,
                                                             const real *y, size_t n) {
    enum { MOST = 4 };
    vdouble sum[MOST][MOST] = {{{0}}};
    size_t i = 0;
    for (; i + VD <= n; i += VD) {
        vdouble b[MOST];
#pragma GCC unroll 4
        for (size_t s = 0; s < columns; s++) b[s] = wide(y + s * n + i);
#pragma GCC unroll 4
        for (size_t r = 0; r < rows; r++) {
            vdouble a = wide(x + r * n + i);
#pragma GCC unroll 4
            for (size_t s = 0; s < columns; s++) sum[r][s] += a * b[s];
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t s = 0; s < columns; s++) {
            double total = 0;
            for (size_t j = 0; j < VD; j++) total += sum[r][s][j];
            for (size_t j = i; j < n; j++) total += (double)x[r * n + j] * (double)y[s * n + j];
            out[r * ld + s] = total;
        }
}

static void gram(double *out, const real *x, size_t R, size_t n) {
    enum { ROWS = 4, SIDE = SMOE_VBYTES == 64 ? 4 : 2 }; /* sums that registers have room for */
    for (size_t r = 0; r < R; r += ROWS) {
        size_t rows = R - r < ROWS ? R - r : ROWS, last = r + rows, s = 0;
        if (rows == ROWS)
            for (; s + SIDE <= last; s += SIDE)
                gram_block(ROWS, SIDE, out + r * R + s, R, x + r * n, x + s * n, n);
        for (size_t q = r; q < last; q++)
            for (size_t t = s; t <= q; t++)
                gram_block(1, 1, out + q * R + t, R, x + q * n, x + t * n, n);
    }
}

/* ---- Adam ------------------------------------------------------------------------------------ */

/* One step of `size` <= VL elements. This code determines which products are rounded and which are
 * fused with a sum, because the compiler could decide differently in different places. */
static inline __attribute__((always_inline)) void adam_vector(real *w, vreal g, real *m, real *v,
                                                              size_t size, smoe_adam_constants k) {
    vreal wi = take(w, size, 0), gi = vrounded(k.clip * g);
    vreal mi = k.beta1 * take(m, size, 0) + vrounded((1 - k.beta1) * gi);
    vreal vi = k.beta2 * take(v, size, 0) + vrounded(vrounded((1 - k.beta2) * gi) * gi);
    vreal root = vsqrt(vrounded(vi * k.correct2));
    vreal move = vrounded(mi * k.correct1) / (root + k.eps) + k.decay * wi;
    give(w, wi - k.rate * move, size);
    give(m, mi, size);
    give(v, vi, size);
}

/* `size` elements <= VL of all four arrays. */
static inline __attribute__((always_inline)) void adam_part(real *w, real *g, real *m, real *v,
                                                            size_t size, smoe_adam_constants k) {
    adam_vector(w, take(g, size, 0), m, v, size, k);
    if (!k.leave) give(g, (vreal){0}, size);
}

/* The hardware prefetcher cannot follow four arrays at once. */
static void adam(real *restrict w, real *restrict g, real *restrict m, real *restrict v, size_t n,
                 const smoe_adam_constants *k) {
    const smoe_adam_constants c = *k; /* stores to the arrays do not change these */
    size_t i = 0, prefetch = SMOE_ADAM_PREFETCH + c.early;
    for (; i + SMOE_LINE <= n; i += SMOE_LINE) {
        if (i + c.early < n) {
            __builtin_prefetch(w + i + prefetch, 1);
            __builtin_prefetch(g + i + prefetch, 1);
            __builtin_prefetch(m + i + prefetch, 1);
            __builtin_prefetch(v + i + prefetch, 1);
        }
        for (size_t j = i; j < i + SMOE_LINE; j += VL) adam_part(w + j, g + j, m + j, v + j, VL, c);
    }
    for (; i < n; i += VL) adam_part(w + i, g + i, m + i, v + i, width(i, n), c);
}

/* ---- gradients of few rows ------------------------------------------------------------------- */

/* The number of vectors of each row whose sums fit into registers. */
enum { OUTER_ROWS = SMOE_OUTER_ROWS };

/* nv vectors, from column j on, of each of the rows of g; dy without gaps. */
static inline __attribute__((always_inline)) void outer_tile(size_t nv, real *g, const real *dy,
                                                             const smoe_rows *x, bool narrow,
                                                             size_t R, size_t n, size_t j) {
    vreal sum[OUTER_ROWS][OUTER_VECTORS] = {{{0}}};
    for (size_t r = 0, at = j; r < R; r++, dy += OUTER_ROWS, at += x->ld) {
        vreal xr[OUTER_VECTORS];
#pragma GCC unroll 4
        for (size_t q = 0; q < nv; q++)
            xr[q] = narrow ? load_widened(x->of.bf16 + at + q * VL) : vload(x->of.at + at + q * VL);
#pragma GCC unroll 4
        for (size_t i = 0; i < OUTER_ROWS; i++)
#pragma GCC unroll 4
            for (size_t q = 0; q < nv; q++) sum[i][q] += vset(dy[i]) * xr[q];
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < OUTER_ROWS; i++)
#pragma GCC unroll 4
        for (size_t q = 0; q < nv; q++) vstore(g + i * n + j + q * VL, sum[i][q]);
}

static inline __attribute__((always_inline)) void outer_rows(real *g, const real *near,
                                                             const smoe_rows *x, bool narrow,
                                                             size_t R, size_t n,
                                                             const smoe_prefetch_ranges *next) {
    enum { WIDTH = OUTER_VECTORS * VL, LINE = 64 };
    size_t tiles = (n + WIDTH - 1) / WIDTH;
    smoe_prefetch_ranges left = *next;
    for (size_t j = 0; j < n; j += WIDTH) {
        if (j + WIDTH <= n)
            outer_tile(OUTER_VECTORS, g, near, x, narrow, R, n, j);
        else
            for (size_t q = j; q < n; q += VL) outer_tile(1, g, near, x, narrow, R, n, q);
        for (size_t a = 0; a < SMOE_REACHES; a++)
            for (size_t prefetched = 0; prefetched < next->bytes[a];
                 prefetched += tiles * LINE, left.at[a] += LINE)
                __builtin_prefetch(left.at[a], 1);
    }
}

static void outer(real *g, const smoe_rows *dy, const smoe_rows *x, size_t R, size_t n,
                  const smoe_prefetch_ranges *next) {
    real near[SMOE_OUTER_TERMS * OUTER_ROWS], *to = near;
    bool narrow = x->of.bf16;
    for (size_t r = 0, at = 0; r < R; r++, at += dy->ld, to += OUTER_ROWS)
        if (narrow) {
            for (size_t i = 0; i < OUTER_ROWS; i++) to[i] = smoe_bf16_widen(dy->of.bf16[at + i]);
            __builtin_prefetch(dy->of.bf16 + at + OUTER_ROWS);
        } else {
            memcpy(to, dy->of.at + at, OUTER_ROWS * sizeof *to);
            __builtin_prefetch(dy->of.at + at + OUTER_ROWS);
        }
    if (narrow)
        outer_rows(g, near, x, true, R, n, next);
    else
        outer_rows(g, near, x, false, R, n, next);
}

/* The hash is the last part of MurmurHash3, which mixes every bit of 32 into every other. */
static void narrow_random(smoe_bf16 *restrict y, const real *restrict x, size_t n, uint32_t key,
                          size_t first) {
    for (size_t i = 0; i < n; i++) {
        uint32_t h = key + (uint32_t)(first + i) * 0x9e3779b9u;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        y[i] = (smoe_bf16)((smoe_float_bits((float)x[i]) + (h >> 16)) >> 16);
    }
}

const smoe_row_kernels SMOE_KERN(smoe_row_kern);
const smoe_row_kernels SMOE_KERN(smoe_row_kern) = {
    .gelu = row_gelu,
    .gelu_backward = gelu_backward,
    .gelu_slopes = gelu_slopes,
    .norm = row_norm,
    .norm_backward = norm_backward,
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .column_softmax = column_softmax,
    .column_softmax_backward = column_softmax_backward,
    .add = row_add,
    .scale = scale,
    .multiply = row_multiply,
    .axpy = axpy,
    .dot = dot,
    .column_sum = column_sum,
    .dot_double = dot_double,
    .column_dot_double = column_dot_double,
    .gram = gram,
    .widen = widen,
    .narrow = row_narrow,
    .narrow_random = narrow_random,
    .adam = adam,
    .outer = outer,
};
