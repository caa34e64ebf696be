/* LayerNorm over rows and over the heads of rows with gaps: the same bits for any number of threads,
 * and values, gradients and sums as loops in double have them. */
#include "approx.h"
#include "base/rng.h"
#include "base/team.h"
#include "math/rows.h"
#include "vit/layer.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 700, WIDTH = 96, MOST = ROWS * 2 * WIDTH }; /* several tasks of each loop */

/* What a norm has computed of x and dy, whose rows are `apart` numbers apart. */
typedef struct results {
    real y[MOST], stats[2 * ROWS * 4], dx[MOST], g[2 * WIDTH];
} results;

static void numbers(real *x, size_t n, uint64_t seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < n; i++) x[i] = (real)(2 * smoe_rng_uniform(&rng) - 1);
}

static void run(results *r, size_t H, size_t apart, const real *x, const real *dy, real *w,
                real *parts) {
    size_t n = WIDTH / H;
    memset(r, 0, sizeof *r);
    smoe_param param[] = {{.size = n}, {.size = n, .offset = n}};
    smoe_params params = {.param = param, .count = 2, .w = w, .g = r->g};
    const smoe_norm norm = {.params = &params,
                            .bias = 1,
                            .n = n,
                            .H = H,
                            .biased = true,
                            .eps = (real)1e-6,
                            .stats = r->stats,
                            .parts = parts};
    if (H == 1) {
        smoe_norm_forward(&norm, smoe_reals_out(r->y), x, ROWS);
        smoe_norm_backward(&norm, r->dx, dy, x, ROWS);
        return;
    }
    smoe_norm_heads_forward(&norm, smoe_reals_out(r->y), apart, x, apart, ROWS);
    smoe_norm_heads_backward(&norm, r->dx, dy, apart, x, apart, ROWS);
}

/* y = (x - mean)/s w + b; dx = (w dy - m1 - (x - mean)/s m2)/s, m1 and m2 the means of w dy and of
 * that times (x - mean)/s. */
static void check(const results *r, size_t H, size_t apart, const real *x, const real *dy,
                  const real *w) {
    double dw[WIDTH] = {0}, db[WIDTH] = {0};
    size_t n = WIDTH / H;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t h = 0; h < H; h++) {
            size_t at = row * apart + h * n;
            double mean = 0, variance = 0, m1 = 0, m2 = 0;
            for (size_t i = 0; i < n; i++) mean += (double)x[at + i] / (double)n;
            for (size_t i = 0; i < n; i++) variance += pow((double)x[at + i] - mean, 2) / (double)n;
            double s = sqrt(variance + 1e-6);
            for (size_t i = 0; i < n; i++) {
                double unit = ((double)x[at + i] - mean) / s, slope = (double)(w[i] * dy[at + i]);
                assert_close(r->y[at + i], unit * (double)w[i] + (double)w[n + i], 1e-5);
                m1 += slope / (double)n;
                m2 += slope * unit / (double)n;
                dw[i] += unit * (double)dy[at + i];
                db[i] += (double)dy[at + i];
            }
            for (size_t i = 0; i < n; i++) {
                double unit = ((double)x[at + i] - mean) / s, slope = (double)(w[i] * dy[at + i]);
                assert_close(r->dx[at + i], (slope - m1 - unit * m2) / s, 1e-5);
            }
        }
    for (size_t i = 0; i < n; i++) {
        assert_close(r->g[i], dw[i], 1e-3);
        assert_close(r->g[n + i], db[i], 1e-3);
    }
}

static void for_any_threads(size_t H, size_t apart) {
    real *x = malloc(MOST * sizeof *x), *dy = malloc(MOST * sizeof *dy), w[2 * WIDTH];
    real *parts = malloc(smoe_rows_parts(WIDTH) * sizeof *parts);
    results *one = malloc(sizeof *one), *more = malloc(sizeof *more);
    assert_true(x && dy && parts && one && more);
    numbers(x, MOST, 1);
    numbers(dy, MOST, 2);
    numbers(w, 2 * WIDTH, 3);
    smoe_threads_set(1);
    run(one, H, apart, x, dy, w, parts);
    check(one, H, apart, x, dy, w);
    for (int threads = 2; threads <= 3; threads++) {
        smoe_threads_set(threads);
        run(more, H, apart, x, dy, w, parts);
        assert_memory_equal(one, more, sizeof *one);
    }
    smoe_threads_set(2);
    void *all[] = {x, dy, parts, one, more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void whole_rows(void **state) {
    for_any_threads(1, WIDTH);
}

/* As of queries that lie beside keys. */
static void heads_with_gaps(void **state) {
    for_any_threads(4, 2 * WIDTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_rows),
                                       cmocka_unit_test(heads_with_gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
