/*
 * Dispatch and combine, forward and backward, against plain loops in double, for dense and sparse
 * plans filled by the test; statistics of plans with known numbers; and the whole MoE layer:
 * identity equals the experts alone, soft equals algorithm 1 of the paper written out.
 */
#include "approx.h"
#include "base/rng.h"
#include "base/threads.h"
#include "gradcheck.h"
#include "math/rows.h"
#include "models.h"
#include "vit/layer.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of at most 40 products of normal numbers in single precision. */
static const double CLOSE = 2e-5;

static real *numbers(size_t n, uint64_t seed) {
    real *x = calloc(n, sizeof *x);
    assert_non_null(x);
    if (seed) gradcheck_normal(x, n, seed);
    return x;
}

/* A plan, its inputs and outputs, and the expected values. */
typedef struct fixture {
    smoe_plan plan;
    smoe_arena arena;
    size_t d, R, rows;
    double *disp, *comb; /* [tokens,rows] weight between each token and each row */
    real *x, *out, *residual, *dy, *dslots;
} fixture;

static void reserve(fixture *f, bool sparse, size_t G, size_t T, size_t E, size_t P) {
    f->plan.T = T;
    f->plan.E = E;
    f->plan.P = P;
    f->plan.S = E * P;
    smoe_plan_reserve(&f->plan, sparse, G, true, &f->arena);
}

static void begin_as(fixture *f, bool rounded, bool sparse, size_t G, size_t T, size_t E, size_t P,
                     size_t tokens) {
    smoe_err err;
    *f = (fixture){.d = 7, .R = tokens, .plan.rounded = rounded};
    reserve(f, sparse, G, T, E, P);
    assert_int_equal(smoe_arena_bind(&f->arena, &err), 0);
    reserve(f, sparse, G, T, E, P);
    memset(f->arena.base, 0xff, f->arena.size);
    assert_int_equal(f->plan.G * f->plan.S, G * E * P);
    smoe_plan_begin(&f->plan, tokens);
}

static void begin(fixture *f, bool sparse, size_t G, size_t T, size_t E, size_t P, size_t tokens) {
    begin_as(f, false, sparse, G, T, E, P, tokens);
}

static bool is_bf16(real x) {
    real y;
    smoe_rows_round(&y, &x, 1);
    return x == y;
}

/* Weights of every (token, slot) of a dense plan; slots of a group are rows s*G + g. The
 * products of a rounded plan use its weights in BF16; the weights themselves do not change. */
static void fill_dense(fixture *f) {
    smoe_plan *p = &f->plan;
    size_t n = p->tokens * p->S;
    gradcheck_normal(p->dense.disp, n, 1);
    gradcheck_normal(p->dense.comb, n, 2);
    if (p->rounded) smoe_plan_round(p);
    assert_int_equal(is_bf16(p->dense.mixed_disp[0]) && is_bf16(p->dense.mixed_comb[n - 1]),
                     p->rounded);
    assert_false(is_bf16(p->dense.disp[0]) || is_bf16(p->dense.comb[n - 1]));
    f->rows = p->rows;
    f->disp = calloc(f->R * f->rows, sizeof *f->disp);
    f->comb = calloc(f->R * f->rows, sizeof *f->comb);
    for (size_t i = 0; i < n; i++) {
        size_t t = i / p->S, s = i % p->S, row = s * p->G + t / p->T;
        f->disp[t * f->rows + row] = (double)p->dense.mixed_disp[i];
        f->comb[t * f->rows + row] = (double)p->dense.mixed_comb[i];
    }
}

/* Buffers filled to different heights with tokens of their group, some tokens in several
 * buffers. */
static void fill_sparse(fixture *f) {
    smoe_plan *p = &f->plan;
    smoe_rng rng = smoe_rng_at(4, SMOE_RNG_TEST, 0, 0, 0);
    for (size_t b = 0; b < p->G * p->E; b++) {
        size_t first = b / p->E * p->T, left = f->R - first, n = left < p->T ? left : p->T;
        p->list.used[b] = (int32_t)(smoe_rng_below(&rng, p->P + 1) % (n + 1));
        uint32_t order[64];
        smoe_rng_permutation(&rng, order, n);
        for (size_t k = 0; k < (size_t)p->list.used[b]; k++) {
            p->list.slot_token[b * p->P + k] = (int32_t)(first + order[k]);
            p->list.slot_weight[b * p->P + k] = (real)smoe_rng_uniform(&rng);
        }
    }
    smoe_plan_seal(p);
    if (p->rounded) smoe_plan_round(p);
    for (size_t i = 0; i < p->list.placed; i++)
        assert_int_equal(is_bf16(p->list.slot_weight[p->list.slot[i]]), p->rounded);
    f->rows = p->rows;
    f->disp = calloc(f->R * f->rows, sizeof *f->disp);
    f->comb = calloc(f->R * f->rows, sizeof *f->comb);
    size_t row = 0;
    for (size_t e = 0; e < p->E; e++)
        for (size_t g = 0; g < p->G; g++)
            for (size_t k = 0; k < (size_t)p->list.used[g * p->E + e]; k++, row++) {
                size_t slot = (g * p->E + e) * p->P + k, t = (size_t)p->list.slot_token[slot];
                f->disp[t * f->rows + row] = 1;
                f->comb[t * f->rows + row] = (double)p->list.slot_weight[slot];
            }
    assert_int_equal(row, f->rows);
}

/* y [m,d] must be add + (w or its transpose) x. */
static void assert_mixed(const real *y, const real *add, const double *w, bool transposed,
                         const real *x, size_t m, size_t k, size_t d) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < d; j++) {
            double sum = add ? (double)add[i * d + j] : 0;
            for (size_t p = 0; p < k; p++)
                sum += (transposed ? w[p * m + i] : w[i * k + p]) * (double)x[p * d + j];
            assert_close(y[i * d + j], sum, CLOSE);
        }
}

/* The gradient of the weight between token t and row: a_t . b_row */
static double along(const fixture *f, const real *a, const real *b, size_t t, size_t row) {
    double sum = 0;
    for (size_t j = 0; j < f->d; j++) sum += (double)a[t * f->d + j] * (double)b[row * f->d + j];
    return sum;
}

static void check_weight_gradients(const fixture *f) {
    const smoe_plan *p = &f->plan;
    if (!p->sparse) {
        for (size_t i = 0; i < p->tokens * p->S; i++) {
            size_t t = i / p->S, row = i % p->S * p->G + t / p->T;
            assert_close(p->dense.dcomb[i], along(f, f->dy, f->out, t, row), CLOSE);
            assert_close(p->dense.ddisp[i], along(f, f->x, f->dslots, t, row), CLOSE);
        }
        return;
    }
    for (size_t i = 0; i < p->list.placed; i++) {
        size_t slot = (size_t)p->list.slot[i];
        double expected =
            along(f, f->dy, f->out, (size_t)p->list.slot_token[slot], (size_t)p->list.row[slot]);
        assert_close(p->list.dweight[slot], expected, CLOSE);
    }
}

static void check(fixture *f) {
    size_t d = f->d, R = f->R, rows = f->rows;
    real *slots = numbers(rows * d + 1, 0), *y = numbers(R * d, 0);
    real *dx = numbers(R * d, 9), *dout = numbers(rows * d + 1, 9);
    f->x = numbers(R * d, 5);
    f->out = numbers(rows * d + 1, 6);
    f->residual = numbers(R * d, 7);
    f->dy = numbers(R * d, 8);
    f->dslots = numbers(rows * d + 1, 10);
    smoe_plan_dispatch(&f->plan, (smoe_outputs){.at = slots}, f->x, d);
    assert_mixed(slots, NULL, f->disp, true, f->x, rows, R, d);
    smoe_plan_combine(&f->plan, y, (smoe_values){.at = f->out}, f->residual, d);
    assert_mixed(y, f->residual, f->comb, false, f->out, R, rows, d);
    smoe_plan_combine_backward(&f->plan, (smoe_outputs){.at = dout}, f->dy,
                               (smoe_values){.at = f->out}, d);
    assert_mixed(dout, NULL, f->comb, true, f->dy, rows, R, d);
    smoe_plan_dispatch_backward(&f->plan, dx, (smoe_values){.at = f->dslots}, f->x, d);
    assert_mixed(dx, NULL, f->disp, false, f->dslots, R, rows, d);
    check_weight_gradients(f);
    real *all[] = {slots, y, dx, dout, f->x, f->out, f->residual, f->dy, f->dslots};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(f->disp);
    free(f->comb);
    smoe_arena_free(&f->arena);
}

static void dense_against_loops(void **state) {
    static const size_t sizes[][4] = {{1, 1, 1, 1}, {3, 5, 2, 3}, {2, 16, 4, 1}, {9, 4, 3, 7}};
    for (size_t i = 0; i < 2 * (sizeof sizes / sizeof *sizes); i++) {
        const size_t *s = sizes[i / 2];
        fixture f;
        begin_as(&f, i % 2, false, s[0], s[1], s[2], s[3], s[0] * s[1]);
        fill_dense(&f);
        check(&f);
        if (s[0] == 1) continue; /* fewer groups than reserved */
        begin_as(&f, i % 2, false, s[0], s[1], s[2], s[3], (s[0] - 1) * s[1]);
        fill_dense(&f);
        check(&f);
    }
}

static void sparse_against_loops(void **state) {
    static const size_t sizes[][5] = {/* G T E P tokens */
                                      {1, 1, 1, 1, 1},
                                      {3, 6, 4, 3, 18},
                                      {3, 6, 4, 3, 14}, /* a short last group */
                                      {2, 20, 5, 9, 40}};
    for (size_t i = 0; i < 2 * (sizeof sizes / sizeof *sizes); i++) {
        const size_t *s = sizes[i / 2];
        fixture f;
        begin_as(&f, i % 2, true, s[0], s[1], s[2], s[3], s[4]);
        fill_sparse(&f);
        check(&f);
    }
}

/* ---- rows in BF16 ---------------------------------------------------------------------------- */

/* The gradients of the weights of all slots. */
static real *weight_gradients(const smoe_plan *p, bool of_dispatch) {
    size_t n = p->sparse ? p->G * p->S : p->tokens * p->S;
    real *x = numbers(n, 0);
    const real *from = p->sparse ? p->list.dweight : of_dispatch ? p->dense.ddisp : p->dense.dcomb;
    for (size_t i = 0; !p->sparse && i < n; i++) x[i] = from[i];
    for (size_t i = 0; p->sparse && i < p->list.placed; i++)
        x[p->list.slot[i]] = from[p->list.slot[i]];
    return x;
}

static void assert_gradients(const smoe_plan *p, real *wide, bool of_dispatch, double most) {
    size_t n = p->sparse ? p->G * p->S : p->tokens * p->S;
    real *x = weight_gradients(p, of_dispatch);
    for (size_t i = 0; i < n; i++) assert_close(x[i], (double)wide[i], most);
    free(x);
    free(wide);
}

static void assert_rounded(const smoe_bf16 *y, real *x, size_t n) {
    smoe_rows_round(x, x, n);
    for (size_t i = 0; i < n; i++) assert_true((real)smoe_bf16_widen(y[i]) == x[i]);
}

/* What is written in BF16 is what would be written in `real`, rounded; what is read in BF16 gives
 * what the same numbers in `real` give. Only the products of two long rows of sparse plans are
 * summed in another order. */
static void compare_rows(fixture *f) {
    smoe_plan *p = &f->plan;
    size_t d = f->d, R = f->R, n = f->rows * d;
    real *x = numbers(R * d, 5), *dy = numbers(R * d, 8), *residual = numbers(R * d, 7);
    real *rows = numbers(n, 6), *wide = numbers(n, 0), *y[2] = {numbers(R * d, 0)};
    smoe_bf16 *read = calloc(n, sizeof *read), *written = calloc(n, sizeof *written);
    y[1] = numbers(R * d, 0);
    assert_true(read && written);
    smoe_rows_round(rows, rows, n);
    for (size_t i = 0; i < n; i++) read[i] = smoe_bf16_round((float)rows[i]);
    const smoe_outputs to = {.at = wide}, to_bf16 = {.bf16 = written};
    const smoe_values from = {.at = rows}, from_bf16 = {.bf16 = read};
    double most = p->sparse && d > 512 ? 1e-4 : 0; /* sums of 600 products of normal numbers */

    smoe_plan_dispatch(p, to, x, d);
    smoe_plan_dispatch(p, to_bf16, x, d);
    assert_rounded(written, wide, n);
    smoe_plan_combine(p, y[0], from, residual, d);
    smoe_plan_combine(p, y[1], from_bf16, residual, d);
    assert_memory_equal(y[0], y[1], R * d * sizeof(real));
    smoe_plan_combine_backward(p, to, dy, from, d);
    real *gradients = weight_gradients(p, false);
    smoe_plan_combine_backward(p, to_bf16, dy, from_bf16, d);
    assert_rounded(written, wide, n);
    assert_gradients(p, gradients, false, most);
    smoe_plan_dispatch_backward(p, y[0], from, x, d);
    gradients = weight_gradients(p, true);
    smoe_plan_dispatch_backward(p, y[1], from_bf16, x, d);
    assert_memory_equal(y[0], y[1], R * d * sizeof(real));
    assert_gradients(p, gradients, true, most);
    real *all[] = {x, dy, residual, rows, wide, y[0], y[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(read);
    free(written);
}

static void rows_in_bf16(void **state) {
    for (size_t i = 0; i < 4; i++) {
        fixture f;
        begin(&f, i % 2, 3, 6, 4, 3, 18);
        if (f.plan.sparse)
            fill_sparse(&f);
        else
            fill_dense(&f);
        f.d = i < 2 ? 7 : 600;
        f.plan.precision = f.plan.sparse ? SMOE_PRECISION_F32 : SMOE_PRECISION_BF16;
        compare_rows(&f);
        free(f.disp);
        free(f.comb);
        smoe_arena_free(&f.arena);
    }
}

/* No token is placed: every output is the residual, every gradient of the input is zero. */
static void no_token_is_placed(void **state) {
    fixture f;
    begin(&f, true, 2, 3, 2, 2, 6);
    memset(f.plan.list.used, 0, 4 * sizeof *f.plan.list.used);
    smoe_plan_seal(&f.plan);
    assert_int_equal(f.plan.choices.dropped, 6);
    assert_int_equal(f.plan.rows, 0);
    f.disp = calloc(1, 8);
    f.comb = calloc(1, 8);
    check(&f);
}

/* ---- statistics ------------------------------------------------------------------------------ */

/*
 * T = 2, S = 2, one group, or two equal ones. D columns (1, 0), (1/2, 1/2): largest 1, 1/2, mean
 * 3/4; tokens per slot e^0 = 1 and e^(ln 2) = 2, mean 3/2. C rows (3/4, 1/4), (1/2, 1/2): largest
 * 3/4, 1/2, mean 5/8; slots per token 4/3^(3/4) and 2.
 */
static void dense_statistics(void **state) {
    for (size_t G = 1; G <= 2; G++) {
        fixture f;
        smoe_plan_stats stats;
        begin(&f, false, G, 2, 2, 1, 2 * G);
        for (size_t g = 0; g < G; g++) {
            memcpy(f.plan.dense.disp + 4 * g, (real[]){1, (real)0.5, 0, (real)0.5},
                   4 * sizeof(real));
            memcpy(f.plan.dense.comb + 4 * g,
                   (real[]){(real)0.75, (real)0.25, (real)0.5, (real)0.5}, 4 * sizeof(real));
        }
        smoe_plan_measure(&f.plan, &stats);
        assert_close(stats.dispatch_max, 0.75, 1e-12);
        assert_close(stats.tokens_per_slot, 1.5, 1e-12);
        assert_close(stats.combine_max, 0.625, 1e-12);
        assert_close(stats.slots_per_token, (4 / pow(3, 0.75) + 2) / 2, 1e-12);
        assert_close(stats.dropped, 0, 0);
        smoe_arena_free(&f.arena);
    }
}

/* Four tokens, two experts with two places: token 0 with weights 1/2 and 1/2, token 1 with 1/4,
 * 2 and 3 dropped. combine_max (1/2 + 1/4)/4, slots per token (2 + 1)/4, dropped 1/2. */
static void sparse_statistics(void **state) {
    fixture f;
    smoe_plan_stats stats;
    begin(&f, true, 1, 4, 2, 2, 4);
    memcpy(f.plan.list.used, (int32_t[]){2, 1}, 8);
    memcpy(f.plan.list.slot_token, (int32_t[]){0, 1, 0}, 12);
    memcpy(f.plan.list.slot_weight, (real[]){(real)0.5, (real)0.25, (real)0.5}, 3 * sizeof(real));
    smoe_plan_seal(&f.plan);
    smoe_plan_measure(&f.plan, &stats);
    assert_close(stats.dropped, 0.5, 0);
    assert_true(stats.scale == 0);
    assert_close(stats.combine_max, 0.1875, 1e-12);
    assert_close(stats.slots_per_token, 0.75, 1e-12);
    smoe_plan_begin(&f.plan, 4); /* no token is placed */
    memset(f.plan.list.used, 0, 2 * sizeof *f.plan.list.used);
    smoe_plan_seal(&f.plan);
    smoe_plan_measure(&f.plan, &stats);
    assert_close(stats.dropped, 1, 0);
    assert_close(stats.dispatch_max, 0, 0);
    assert_close(stats.combine_max, 0, 0);
    smoe_arena_free(&f.arena);
}

/* ---- weights in BF16 ------------------------------------------------------------------------- */

/* 1/3 = 1.0101 0101 0101... / 4 becomes 1.0101011 / 4 = 171/512. 1 + 2^-8 lies between two
 * numbers and becomes the even one, 1; 1 + 3 * 2^-8 becomes 1 + 2^-6. Numbers of BF16 stay. */
static void rounding_by_hand(void **state) {
    const real x[] = {1 / (real)3, 1 + (real)0x1p-8, 1 + (real)0x3p-8, -(real)0.75, 0};
    const double right[] = {171. / 512, 1, 1 + 0x1p-6, -0.75, 0};
    real y[5];
    smoe_rows_round(y, x, 5);
    for (size_t i = 0; i < 5; i++) assert_close(y[i], right[i], 0);
}

/* ---- the whole layer ------------------------------------------------------------------------- */

typedef struct layer {
    smoe_spec spec;
    smoe_params params;
    smoe_build build;
    smoe_moe moe;
    smoe_arena keep, scratch;
    size_t R, T, d;
    real *x, *residual, *y;
} layer;

static void layer_make(layer *l, const char *keys, size_t B) {
    smoe_err err;
    *l = (layer){.d = 8};
    assert_true(models_spec(&l->spec, keys));
    l->T = smoe_spec_tokens(&l->spec);
    l->R = B * l->T;
    l->build =
        (smoe_build){.spec = &l->spec, .model = &l->spec.model, .params = &l->params, .T = l->T};
    smoe_moe_init(&l->moe, &l->build, 1);
    gradcheck_scatter(&l->params, 3, 0.3, 0);
    smoe_space space = {
        .keep = &l->keep, .scratch = &l->scratch, .B = B, .threads = smoe_threads(), .wide = true};
    smoe_moe_reserve(&l->moe, &space);
    assert_false(smoe_arena_bind(&l->keep, &err) || smoe_arena_bind(&l->scratch, &err));
    smoe_moe_reserve(&l->moe, &space);
    l->x = numbers(l->R * l->d, 1);
    l->residual = numbers(l->R * l->d, 2);
    l->y = numbers(l->R * l->d, 0);
    smoe_pass pass = {.images = B};
    smoe_moe_forward(&l->moe, l->y, l->x, l->residual, &pass);
}

static void layer_free(layer *l) {
    smoe_moe_free(&l->moe);
    smoe_params_free(&l->params);
    smoe_arena_free(&l->keep);
    smoe_arena_free(&l->scratch);
    smoe_spec_free(&l->spec);
    free(l->x);
    free(l->residual);
    free(l->y);
}

static const real *tensor(const layer *l, const char *name) {
    const smoe_param *p = smoe_params_find(&l->params, name);
    if (!p) fail_msg("no tensor %s", name);
    return l->params.w + p->offset;
}

/* out [d] = expert e of x [d], directly from its definition. */
static void expert(const layer *l, size_t e, double *out, const double *x) {
    size_t d = l->d, h = l->spec.model.mlp;
    const real *w1 = tensor(l, "blocks.1.mlp.experts.fc1.weight") + e * h * d;
    const real *b1 = tensor(l, "blocks.1.mlp.experts.fc1.bias") + e * h;
    const real *w2 = tensor(l, "blocks.1.mlp.experts.fc2.weight") + e * h * d;
    const real *b2 = tensor(l, "blocks.1.mlp.experts.fc2.bias") + e * d;
    for (size_t i = 0; i < d; i++) out[i] = (double)b2[i];
    for (size_t j = 0; j < h; j++) {
        double a = (double)b1[j];
        for (size_t i = 0; i < d; i++) a += (double)w1[j * d + i] * x[i];
        a *= erfc(-a / sqrt(2)) / 2;
        for (size_t i = 0; i < d; i++) out[i] += (double)w2[i * h + j] * a;
    }
}

static void identity_is_the_experts_alone(void **state) {
    static const char *const keys[] = {
        "model.moe.router=identity model.moe.slots_per_expert=2", /* E = 3, T = 4 */
        "model.moe.router=identity model.moe.experts=4 model.moe.slots_per_expert=1", /* T = E */
        "model.moe.router=identity model.moe.slots_per_expert=6 model.patch_size=2"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        layer l;
        layer_make(&l, keys[k], 3);
        for (size_t r = 0; r < l.R; r++) {
            double x[8], out[8];
            for (size_t i = 0; i < 8; i++) x[i] = (double)l.x[r * 8 + i];
            expert(&l, r % l.T % l.spec.model.moe.experts, out, x);
            for (size_t i = 0; i < 8; i++)
                assert_close(l.y[r * 8 + i], out[i] + (double)l.residual[r * 8 + i], CLOSE);
        }
        layer_free(&l);
    }
}

/* Algorithms 1 and 2 of Soft MoE for one image, loop by loop. */
static void soft_image(const layer *l, size_t b, double *y) {
    size_t T = l->T, d = l->d, P = l->moe.router->P, S = l->moe.router->plan.S;
    const real *x = l->x + b * T * d, *phi = tensor(l, "blocks.1.mlp.router.phi");
    double scale = (double)*tensor(l, "blocks.1.mlp.router.scale"), logit[64][64];
    memset(y, 0, T * d * sizeof *y);
    for (size_t t = 0; t < T; t++)
        for (size_t s = 0; s < S; s++) {
            double product = 0, xx = 0, pp = 0;
            for (size_t i = 0; i < d; i++) {
                double xi = (double)x[t * d + i], p = (double)phi[i * S + s];
                product += xi * p;
                xx += xi * xi;
                pp += p * p;
            }
            logit[t][s] = scale * product / (sqrt(xx) + 1e-6) / (sqrt(pp) + 1e-6);
        }
    for (size_t s = 0; s < S; s++) {
        double slot[8] = {0}, out[8], sum = 0;
        for (size_t t = 0; t < T; t++) sum += exp(logit[t][s]);
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < d; i++) slot[i] += exp(logit[t][s]) / sum * (double)x[t * d + i];
        expert(l, s / P, out, slot);
        for (size_t t = 0; t < T; t++) {
            double row = 0;
            for (size_t q = 0; q < S; q++) row += exp(logit[t][q]);
            for (size_t i = 0; i < d; i++) y[t * d + i] += exp(logit[t][s]) / row * out[i];
        }
    }
}

static void soft_is_the_papers_algorithm(void **state) {
    static const char *const keys[] = {
        "model.moe.router=soft model.moe.slots_per_expert=1", /* S < T */
        "model.moe.router=soft model.moe.slots_per_expert=5", /* S > T */
        "model.moe.router=soft model.moe.total_slots=12 model.patch_size=2"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        layer l;
        double y[16 * 8];
        layer_make(&l, keys[k], 2);
        for (size_t b = 0; b < 2; b++) {
            soft_image(&l, b, y);
            for (size_t i = 0; i < l.T * l.d; i++) {
                size_t at = b * l.T * l.d + i;
                assert_close(l.y[at], y[i] + (double)l.residual[at], CLOSE);
            }
        }
        layer_free(&l);
    }
}

/* With mix_precision bf16 the experts get the rounded tokens dispatched by rounded weights, and
 * their outputs are rounded: with identity, whose weights are 1, both are BF16 numbers. The
 * router sees the original tokens. */
static void layers_mix_in_bf16(void **state) {
    static const char *const keys[] = {"model.moe.slots_per_expert=2", "model.moe.router=identity",
                                       "model.moe.router=experts-choice"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        layer l, plain;
        char text[128];
        snprintf(text, sizeof text, "%s model.moe.mix_precision=bf16", keys[k]);
        layer_make(&l, text, 2);
        layer_make(&plain, keys[k], 2);
        const smoe_plan *plan = &l.moe.router->plan, *other = &plain.moe.router->plan;
        size_t n = plan->rows * l.d;
        real *slots = numbers(n, 0), *x = numbers(l.R * l.d, 0);
        smoe_rows_round(x, l.x, l.R * l.d);
        smoe_plan_dispatch(plan, (smoe_outputs){.at = slots}, x, l.d);
        assert_memory_equal(l.moe.slots, slots, n * sizeof *slots);
        for (size_t i = 0; i < n; i++) {
            assert_true(is_bf16(((const real *)l.moe.out)[i]));
            assert_true(!plan->sparse || is_bf16(slots[i]));
        }
        assert_int_equal(gradcheck_plan_mark(0, plan), gradcheck_plan_mark(0, other));
        for (size_t i = 0; !plan->sparse && i < plan->tokens * plan->S; i++)
            assert_true(plan->dense.disp[i] == other->dense.disp[i] &&
                        plan->dense.comb[i] == other->dense.comb[i]);
        double far = 0; /* three roundings of up to 2^-9 of numbers below 8 */
        for (size_t i = 0; i < l.R * l.d; i++) far = fmax(far, fabs((double)(l.y[i] - plain.y[i])));
        assert_true(far > 1e-4 && far < 3 * 8. / 512);
        free(slots);
        free(x);
        layer_free(&l);
        layer_free(&plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_against_loops),
        cmocka_unit_test(sparse_against_loops),
        cmocka_unit_test(rows_in_bf16),
        cmocka_unit_test(no_token_is_placed),
        cmocka_unit_test(dense_statistics),
        cmocka_unit_test(sparse_statistics),
        cmocka_unit_test(identity_is_the_experts_alone),
        cmocka_unit_test(soft_is_the_papers_algorithm),
        cmocka_unit_test(rounding_by_hand),
        cmocka_unit_test(layers_mix_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
