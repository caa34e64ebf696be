/* See tiles.h. The rules are those of Intel's manual for TDPBF16PS and VDPBF16PS, which
 * math/kernels.h repeats. */
#include "tiles.h"

#include <math.h>

enum { SIDE = SMOE_MATRIX_SIDE, DEEP = SMOE_MATRIX_DEEP, TILE = SMOE_MATRIX_TILE, ROWS = 16 };

float tiles_flushed(float x) {
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

/* Term p of row i of A, or of column j of B, in one step of a panel. */
static float term_a(const smoe_bf16 *a, size_t i, size_t p) {
    return smoe_bf16_widen(a[i / ROWS * TILE + i % ROWS * DEEP + p]);
}
static float term_b(const smoe_bf16 *b, size_t j, size_t p) {
    return smoe_bf16_widen(b[j / ROWS * TILE + (p / 2 * ROWS + j % ROWS) * 2 + p % 2]);
}

/* One step of one sum. */
typedef float step(float sum, const float a[DEEP], const float b[DEEP]);

static float multiply_add(float sum, float a, float b) {
    return tiles_flushed(fmaf(tiles_flushed(a), tiles_flushed(b), sum));
}

static float step_amx(float sum, const float a[DEEP], const float b[DEEP]) {
    float even = 0, odd = 0;
    for (size_t p = 0; p < DEEP; p += 2) {
        even = multiply_add(even, a[p], b[p]);
        odd = multiply_add(odd, a[p + 1], b[p + 1]);
    }
    return tiles_flushed(sum + tiles_flushed(even + odd));
}

static float step_pairs(float sum, const float a[DEEP], const float b[DEEP]) {
    for (size_t p = 0; p < DEEP; p += 2)
        sum = multiply_add(multiply_add(sum, a[p + 1], b[p + 1]), a[p], b[p]);
    return sum;
}

static float step_fused(float sum, const float a[DEEP], const float b[DEEP]) {
    for (size_t p = 0; p < DEEP; p++) sum = fmaf(a[p], b[p], sum);
    return sum;
}

static float step_unfused(float sum, const float a[DEEP], const float b[DEEP]) {
    for (size_t p = 0; p < DEEP; p++) {
        float product = a[p] * b[p];
        sum += product;
    }
    return sum;
}

static float one_step(step *rule, float sum, const smoe_bf16 *a, const smoe_bf16 *b, size_t i,
                      size_t j) {
    float x[DEEP], y[DEEP];
    for (size_t p = 0; p < DEEP; p++) {
        x[p] = term_a(a, i, p);
        y[p] = term_b(b, j, p);
    }
    return rule(sum, x, y);
}

static void by_rule(step *rule, real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps,
                    size_t parts) {
    enum { PART = 2 * TILE };
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j++) {
            float sum = 0, crossed = 0;
            for (size_t s = 0; s < steps; s++) {
                const smoe_bf16 *x = a + s * parts * PART, *y = b + s * parts * PART;
                sum = one_step(rule, sum, x, y, i, j);
                if (parts == 1) continue;
                crossed = one_step(rule, crossed, x, y + PART, i, j);
                crossed = one_step(rule, crossed, x + PART, y, i, j);
            }
            sums[i * SIDE + j] = (real)sum;
            if (parts > 1) sums[SIDE * SIDE + i * SIDE + j] = (real)crossed;
        }
}

void tiles_amx(real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps, size_t parts) {
    by_rule(step_amx, sums, a, b, steps, parts);
}
void tiles_pairs(real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps, size_t parts) {
    by_rule(step_pairs, sums, a, b, steps, parts);
}
void tiles_fused(real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps, size_t parts) {
    by_rule(step_fused, sums, a, b, steps, parts);
}
void tiles_unfused(real *sums, const smoe_bf16 *a, const smoe_bf16 *b, size_t steps, size_t parts) {
    by_rule(step_unfused, sums, a, b, steps, parts);
}
