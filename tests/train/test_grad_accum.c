/* The tree in which the gradients of pieces are summed: its order, compared with the definition. */
#include "base/param.h"
#include "train/grad_accum.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 16, SIZE = 48 };

/* Numbers of such different magnitudes that every order of summation rounds differently. */
static real number(size_t piece, size_t k) {
    real x = (real)(1 + (piece * 7 + k * 13) % 11) / 3;
    for (size_t i = 0; i < (piece * 5 + k) % 9; i++) x *= piece % 2 ? -16 : 16;
    return x;
}

static real tree(size_t first, size_t count, size_t k) {
    if (count == 1) return number(first, k);
    return tree(first, count / 2, k) + tree(first + count / 2, count / 2, k);
}

static void sums_follow_the_tree(void **state) {
    for (size_t count = 1; count <= MOST; count *= 2) {
        smoe_params params = {0};
        smoe_grad_accum pieces;
        smoe_err err;
        smoe_params_add(&params, smoe_param_constant(0), 1, (const size_t[]){SIZE}, "x");
        assert_int_equal(smoe_params_allocate(&params, 2, &err), 0);
        assert_int_equal(smoe_grad_accum_open(&pieces, &params, count, &err), 0);
        assert_int_equal(1 << pieces.levels, count);
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < SIZE; k++) {
                assert_true(params.g[k] == 0);
                params.g[k] += number(i, k);
            }
            smoe_grad_accum_add(&pieces, &params, i);
        }
        size_t unlike = 0;
        for (size_t k = 0; k < SIZE; k++) {
            real in_order = 0;
            for (size_t i = 0; i < count; i++) in_order += number(i, k);
            assert_true(params.g[k] == tree(0, count, k));
            unlike += params.g[k] != in_order;
        }
        assert_true(count < 4 || unlike > 0); /* the numbers do distinguish orders */
        smoe_grad_accum_free(&pieces);
        smoe_params_free(&params);
    }
}

static void vectors_are_summed_in_the_same_tree(void **state) {
    double x[MOST * 3], want[3];
    for (size_t k = 0; k < 3; k++) {
        double level[MOST];
        for (size_t i = 0; i < MOST; i++) level[i] = x[i * 3 + k] = (double)number(i, k) / 3;
        for (size_t n = MOST; n > 1; n /= 2)
            for (size_t i = 0; i < n / 2; i++) level[i] = level[2 * i] + level[2 * i + 1];
        want[k] = level[0];
    }
    smoe_grad_accum_sum(x, MOST, 3);
    assert_memory_equal(x, want, sizeof want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_follow_the_tree),
        cmocka_unit_test(vectors_are_summed_in_the_same_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
