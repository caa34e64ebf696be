/*
 * The kernel of one head of attention on few tokens, of every instruction set of this processor,
 * against plain loops in double, and against the general products, whose bits it has.
 */
#include "approx.h"
#include "base/rng.h"
#include "isas.h"
#include "math/gemm.h"
#include "math/kernels.h"
#include "unit.h"

#include <math.h>
#include <string.h>

enum { T = SMOE_HEAD_TOKENS, D = SMOE_HEAD_WIDTH, PITCH = 3 * D + 5, OUT = D + 3 };
static const real hole = -77;

/* The buffers of a head: queries, keys and values in one row, as in the model. */
typedef struct buffers {
    real rows[T * PITCH], out[T * OUT], dout[T * OUT], drows[T * PITCH], weights[T * T], dz[T * T];
} buffers;

static void random_numbers(real *x, size_t n, uint64_t seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t i = 0; i < n; i++) x[i] = (real)(4 * smoe_rng_uniform(&rng) - 2);
}

static void fill(buffers *x) {
    random_numbers(x->rows, T * PITCH, 1);
    random_numbers(x->dout, T * OUT, 2);
    for (size_t i = 0; i < T * PITCH; i++) x->drows[i] = hole;
    for (size_t i = 0; i < T * OUT; i++) x->out[i] = hole;
}

static smoe_attention_head head_of(buffers *x, size_t tokens, size_t width) {
    return (smoe_attention_head){.T = tokens,
                                 .d = width,
                                 .q = x->rows,
                                 .k = x->rows + D,
                                 .v = x->rows + 2 * D,
                                 .ldq = PITCH,
                                 .ldv = PITCH,
                                 .ldo = OUT,
                                 .scale = (real)0.3,
                                 .weights = x->weights,
                                 .out = x->out,
                                 .dout = x->dout,
                                 .dq = x->drows,
                                 .dk = x->drows + D,
                                 .dv = x->drows + 2 * D};
}

/* Columns from .. to of n rows are untouched. */
static void assert_untouched(const real *x, size_t n, size_t from, size_t to, size_t pitch) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = from; j < to; j++) assert_true(x[i * pitch + j] == hole);
}

static double dot(const real *x, const real *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static void check(const smoe_attention_head *x, const real *dz) {
    static double w[T][T], z[T][T];
    const double close = 1e-5;
    for (size_t i = 0; i < x->T; i++) {
        double sum = 0, along = 0;
        for (size_t j = 0; j < x->T; j++)
            sum += w[i][j] = exp((double)x->scale * dot(x->q + i * PITCH, x->k + j * PITCH, x->d));
        for (size_t j = 0; j < x->T; j++) {
            w[i][j] /= sum;
            z[i][j] = dot(x->dout + i * OUT, x->v + j * PITCH, x->d);
            along += w[i][j] * z[i][j];
        }
        for (size_t j = 0; j < x->T; j++) {
            z[i][j] = w[i][j] * (z[i][j] - along);
            assert_close(x->weights[i * x->T + j], w[i][j], close);
            assert_close(dz[i * x->T + j], z[i][j], close * 10);
        }
    }
    for (size_t i = 0; i < x->T; i++)
        for (size_t c = 0; c < x->d; c++) {
            double out = 0, dq = 0, dk = 0, dv = 0;
            for (size_t j = 0; j < x->T; j++) {
                out += w[i][j] * (double)x->v[j * PITCH + c];
                dq += (double)x->scale * z[i][j] * (double)x->k[j * PITCH + c];
                dk += (double)x->scale * z[j][i] * (double)x->q[j * PITCH + c];
                dv += w[j][i] * (double)x->dout[j * OUT + c];
            }
            assert_close(x->out[i * OUT + c], out, close * 10);
            assert_close(x->dq[i * PITCH + c], dq, close * 20);
            assert_close(x->dk[i * PITCH + c], dk, close * 20);
            assert_close(x->dv[i * PITCH + c], dv, close * 20);
        }
}

static const size_t tokens[] = {1, 2, 7, 16, 17, 33, 50, T};

static void heads_against_double(void **state) {
    static buffers b;
    for (size_t s = 0; isas_all[s]; s++) {
        const smoe_kernels *kernels = smoe_kernels_of(isas_all[s]);
        if (!kernels) continue;
        const smoe_attention_kernels *kern = kernels->attention;
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
            for (size_t width = kern->lanes; width <= D; width += kern->lanes) {
                fill(&b);
                smoe_attention_head x = head_of(&b, tokens[t], width);
                kern->forward(&x, &x);
                kern->backward(&x, &x, b.dz);
                check(&x, b.dz);
                assert_untouched(b.out, T, width, OUT, OUT);
                for (size_t part = 0; part < 3; part++)
                    assert_untouched(b.drows + part * D, T, width, D, PITCH);
                assert_untouched(b.drows, T, 3 * D, PITCH, PITCH);
            }
    }
}

static smoe_matrix head_rows(const smoe_attention_head *x, const real *at, size_t ld) {
    return smoe_matrix_rows((smoe_rows){smoe_reals(at), ld}, x->T, x->d);
}

static void multiply(real *c, size_t ldc, smoe_matrix a, smoe_matrix b, real scale) {
    smoe_product p = smoe_product_to(smoe_reals_out(c), ldc, a, b);
    p.to.alpha = scale;
    smoe_gemm_serial(p);
}

/* Products and softmaxes one by one, with the kernels in use. */
static void one_by_one(const smoe_attention_head *x, real *dz) {
    const smoe_row_kernels *row = smoe_kernels_get()->row;
    smoe_matrix q = head_rows(x, x->q, x->ldq), k = head_rows(x, x->k, x->ldq);
    smoe_matrix v = head_rows(x, x->v, x->ldv), dout = head_rows(x, x->dout, x->ldo);
    smoe_matrix w = smoe_matrix_of(x->weights, x->T, x->T), dz_of = smoe_matrix_of(dz, x->T, x->T);
    multiply(x->weights, x->T, q, smoe_transposed(k), x->scale);
    row->softmax(x->weights, x->T, x->T, x->T);
    multiply(x->out, x->ldo, w, v, 1);
    multiply(x->dv, x->ldv, smoe_transposed(w), dout, 1);
    multiply(dz, x->T, dout, smoe_transposed(v), 1);
    row->softmax_backward(dz, x->weights, x->T, x->T, x->T);
    multiply(x->dq, x->ldq, dz_of, k, x->scale);
    multiply(x->dk, x->ldq, smoe_transposed(dz_of), q, x->scale);
}

static void bits_of_products(void **state) {
    static buffers b, right;
    const smoe_attention_kernels *kern = smoe_kernels_get()->attention;
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        for (size_t width = kern->lanes; width <= D; width += kern->lanes) {
            fill(&b);
            fill(&right);
            smoe_attention_head x = head_of(&b, tokens[t], width);
            smoe_attention_head y = head_of(&right, tokens[t], width);
            kern->forward(&x, &x);
            kern->backward(&x, &x, b.dz);
            one_by_one(&y, right.dz);
            assert_memory_equal(&b, &right, sizeof b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isas_run_again),
        cmocka_unit_test(heads_against_double),
        cmocka_unit_test(bits_of_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
