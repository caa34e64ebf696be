/*
 * Routers published since Soft MoE, worked by hand, and the laws of their transport plans. The laws
 * of all routers are in test_routers.c.
 */
#include "approx.h"
#include "gradcheck.h"
#include "route/transport.h"
#include "router_fixture.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Single precision, a handful of operations on numbers near 1. */
static const double CLOSE = 1e-6;

/* ---- hash ------------------------------------------------------------------------------------ */

/* 12 tokens on 5 experts: 3, 3, 2, 2, 2 of each image, the same for every image, seed and step. */
static void hash_deals_positions_out(void **state) {
    router_fixture r;
    assert_true(router_fixture_make(
        &r, "model.moe.router=hash model.moe.experts=5 model.moe.slots_per_expert=3", 12, 2));
    router_fixture_pass(&r, 2, true);
    assert_int_equal(r.plan->P, 3);
    assert_int_equal(r.plan->choices.dropped, 0);
    size_t in_order = 0;
    for (size_t e = 0; e < 5; e++) {
        assert_int_equal(r.plan->list.used[e], e < 2 ? 3 : 2);
        for (size_t p = 0; p < (size_t)r.plan->list.used[e]; p++) {
            int32_t token = r.plan->list.slot_token[e * 3 + p];
            in_order += token == (int32_t)(p * 5 + e);
            assert_int_equal(r.plan->list.slot_token[15 + e * 3 + p], token + 12);
        }
    }
    assert_true(in_order < 6); /* as in identity */
    uint64_t bits = router_fixture_bits(r.plan);
    r.pass.seed++, r.pass.step++;
    router_fixture_pass(&r, 2, false);
    assert_int_equal(router_fixture_bits(r.plan), bits);
    r.router->site++; /* another block */
    router_fixture_pass(&r, 2, false);
    assert_int_not_equal(router_fixture_bits(r.plan), bits);
    router_fixture_free(&r);
}

/* ---- remoe ----------------------------------------------------------------------------------- */

#define REMOE "model.moe.router=remoe model.moe.experts=2 "

/*
 * Two tokens with logits (2, -1) and (1, 3). Open gates: expert 0 for both tokens, with 2 and 1,
 * and expert 1 for token 1, with 3. f = E/(K T) (2, 1) = (2, 1); L1 = (2 (2 + 1) + 1 * 3)/2 = 9/2;
 * without f 6/2. Three of four gates are open, more than K T = 2: lambda rises by a factor; with
 * one open gate it falls.
 */
static void remoe_by_hand(void **state) {
    const double x[] = {2, -1, 1, 3};
    router_fixture r;
    router_fixture_logits(&r, REMOE "model.moe.l1_factor=1.5", 2, 1, 2, x);
    real *l1 = router_fixture_tensor(&r, "l1");
    *l1 = 4;
    router_fixture_pass(&r, 1, true);
    router_fixture_buffer(&r, 0, "01");
    router_fixture_buffer(&r, 1, "1");
    assert_close(r.plan->list.slot_weight[0], 2, CLOSE);
    assert_close(r.plan->list.slot_weight[1], 1, CLOSE);
    assert_close(r.plan->list.slot_weight[2], 3, CLOSE);
    assert_close(r.plan->losses.aux, 4.5, CLOSE);
    assert_close(r.plan->losses.weighted, 18, CLOSE);
    assert_true(r.router->counts[0] == 3);
    const double counts[] = {3, 2, 1};
    const double after[] = {6, 6, 4};
    r.pass.images = 1;
    for (size_t i = 0; i < 3; i++) {
        r.router->type->settle(r.router, &counts[i], &r.pass);
        assert_close(*l1, after[i], CLOSE);
    }
    router_fixture_free(&r);
    router_fixture_logits(&r, REMOE "model.moe.balance=none", 2, 1, 2, x);
    router_fixture_pass(&r, 1, true);
    assert_close(r.plan->losses.aux, 3, CLOSE);
    router_fixture_pass(&r, 1, false);
    assert_true(r.plan->losses.aux == 0 && r.plan->losses.weighted == 0);
    router_fixture_free(&r);
}

/* If a loss draws open gates towards 1, lambda finds the weight that leaves K of E open. */
static void sparsity_arrives(void **state) {
    enum { STEPS = 600, LAST = 200, TOKENS = 16, IMAGES = 8, K = 2 };
    router_fixture r;
    assert_true(router_fixture_make(&r, "model.moe.router=remoe model.moe.experts=8 model.moe.k=2",
                                    TOKENS, IMAGES));
    real *l1 = router_fixture_tensor(&r, "l1"), *w = router_fixture_tensor(&r, "weight");
    const smoe_param *p = smoe_params_find(&r.params, "blocks.1.mlp.router.weight");
    real *g = r.params.g + p->offset, *dx = calloc(IMAGES * TOKENS * r.d, sizeof *dx);
    *l1 = (real)1e-8;
    /* If tokens share nothing, a linear gate is open for half of them. */
    for (size_t t = 0; t < (size_t)IMAGES * TOKENS; t++) r.x[t * r.d] = 3;
    double open = 0;
    for (size_t step = 0; step < STEPS; step++) {
        memset(g, 0, p->size * sizeof *g);
        router_fixture_pass(&r, IMAGES, true);
        if (step >= STEPS - LAST) open += (double)r.plan->list.placed / (IMAGES * TOKENS) / LAST;
        for (size_t i = 0; i < r.plan->list.placed; i++) {
            size_t slot = (size_t)r.plan->list.slot[i];
            r.plan->list.dweight[slot] = (r.plan->list.slot_weight[slot] - 1) / (IMAGES * TOKENS);
        }
        r.router->type->backward(r.router, dx, r.x, &r.pass);
        for (size_t i = 0; i < p->size; i++) w[i] -= (real)0.03 * g[i];
        r.router->type->settle(r.router, r.router->counts, &r.pass);
    }
    assert_in_range((uintmax_t)(100 * open), 100 * K * 3 / 4, 100 * K * 5 / 4);
    assert_true(*l1 > (real)1e-3); /* it started at 1e-8 */
    free(dx);
    router_fixture_free(&r);
}

/* ---- images ---------------------------------------------------------------------------------- */

/*
 * Two images of two tokens; means of logits (ln 3, 0) and (ln 4, 0): g = (3/4, 1/4) and (4/5, 1/5).
 * Be = round(2 * 1/2) = 1 image. Both want expert 0; bpr places the second image, whole, and both
 * tokens of the first are dropped.
 */
static void images_choose_whole(void **state) {
    const double x[] = {2 * log(3), 0, 0, 0, log(4), 1, log(4), -1};
    router_fixture r;
    router_fixture_logits(&r,
                          "model.moe.router=images-choice model.moe.experts=2 model.moe.noise=0 "
                          "model.moe.group_images=2",
                          2, 2, 2, x);
    router_fixture_pass(&r, 2, true);
    assert_int_equal(r.plan->P, 2);
    router_fixture_buffer(&r, 0, "23");
    router_fixture_buffer(&r, 1, "");
    for (size_t p = 0; p < 2; p++) assert_close(r.plan->list.slot_weight[p], .8, CLOSE);
    assert_int_equal(r.plan->choices.dropped, 2);
    assert_int_equal(r.plan->choices.chosen[0], 4);
    assert_int_equal(r.plan->choices.lost[0], 2);
    for (size_t t = 0; t < 4; t++)
        assert_close(r.plan->choices.gate[2 * t], t < 2 ? .75 : .8, CLOSE);
    /* importance (31/20, 9/20), mean 1, variance (11/20)^2 */
    assert_close(r.plan->losses.aux, 0.55 * 0.55 / 2, CLOSE);
    router_fixture_free(&r);
}

/*
 * The images of before: p = (3/4, 1/4) and (4/5, 1/5). Three classes with super-classes 1, 0, 1, or
 * 0, 0, 1 where two experts share the list equally. The first image is of class 2; the second is
 * mixed, a quarter of class 0 and the rest of class 1.
 */
static void images_learn_superclasses(void **state) {
    const double x[] = {2 * log(3), 0, 0, 0, log(4), 1, log(4), -1};
    const real targets[] = {0, 0, 1, .25, .75, 0};
    static const struct {
        const char *keys;
        double mixed[2]; /* q of the second image */
    } cases[] = {{"model.moe.superclasses=[1,0,1]", {.75, .25}}, {"", {1, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        router_fixture r;
        char keys[256];
        snprintf(keys, sizeof keys,
                 "model.moe.router=images-choice model.moe.experts=2 model.moe.noise=0 "
                 "model.moe.group_images=2 model.moe.balance=superclass model.moe.aux_weight=2 %s",
                 cases[i].keys);
        router_fixture_logits(&r, keys, 2, 2, 2, x);
        r.pass.targets = targets;
        r.pass.classes = 3;
        router_fixture_pass(&r, 2, true);
        const double *q = cases[i].mixed;
        double expected = (-log(.25) - q[0] * log(.8) - q[1] * log(.2)) / 2;
        assert_close(r.plan->losses.aux, expected, CLOSE);
        assert_close(r.plan->losses.weighted, 2 * expected, 2 * CLOSE);
        router_fixture_pass(&r, 2, false);
        assert_true(r.plan->losses.aux == 0 && r.plan->losses.weighted == 0);
        router_fixture_free(&r);
    }
}

/* ---- two temperatures ------------------------------------------------------------------------ */

/* Cosines are the identity; 1/t_D = ln 2 and 1/t_C = ln 3: D columns (2, 1)/3, C rows (3, 1)/4. */
static void temperatures_by_hand(void **state) {
    router_fixture r;
    assert_true(router_fixture_make(
        &r,
        "model.width=2 model.heads=1 model.moe.experts=2 model.moe.slots_per_expert=1 "
        "model.moe.router=soft-temperatures",
        2, 1));
    const real x[] = {5, 0, 0, 7}, phi[] = {3, 0, 0, 2}; /* lengths do not matter */
    memcpy(r.x, x, sizeof x);
    memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
    *router_fixture_tensor(&r, "log_dispatch_temperature") = (real)-log(log(2));
    *router_fixture_tensor(&r, "log_combine_temperature") = (real)-log(log(3));
    router_fixture_pass(&r, 1, true);
    const double disp[] = {2. / 3, 1. / 3, 1. / 3, 2. / 3}, comb[] = {.75, .25, .25, .75};
    for (size_t i = 0; i < 4; i++) {
        assert_close(r.plan->dense.disp[i], disp[i], 2e-6);
        assert_close(r.plan->dense.comb[i], comb[i], 2e-6);
    }
    router_fixture_free(&r);
}

/*
 * One slot per expert, cosines as above, t_C = 1: rows (1, 0) and (0, 1). x/2 - tau with the tau
 * for which the squares sum to 1: (1/2 - tau)^2 + tau^2 = 1, tau = (1 - sqrt 7)/4. With t_C = 1/4
 * the rows are (4, 0), x/2 = (2, 0), tau = 1: a weight of 1 and an exact zero.
 */
static void entmax_by_hand(void **state) {
    router_fixture r;
    assert_true(router_fixture_make(
        &r,
        "model.width=2 model.heads=1 model.moe.experts=2 model.moe.slots_per_expert=1 "
        "model.moe.router=soft-temperatures model.moe.combine=entmax",
        2, 1));
    const real x[] = {5, 0, 0, 7}, phi[] = {3, 0, 0, 2};
    memcpy(r.x, x, sizeof x);
    memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
    *router_fixture_tensor(&r, "log_dispatch_temperature") = (real)-log(log(2));
    *router_fixture_tensor(&r, "log_combine_temperature") = 0;
    router_fixture_pass(&r, 1, true);
    double tau = (1 - sqrt(7)) / 4, large = (0.5 - tau) * (0.5 - tau), small = tau * tau;
    const double disp[] = {2. / 3, 1. / 3, 1. / 3, 2. / 3}, comb[] = {large, small, small, large};
    for (size_t i = 0; i < 4; i++) {
        assert_close(r.plan->dense.disp[i], disp[i], 2e-6);
        assert_close(r.plan->dense.comb[i], comb[i], 2e-6);
    }
    *router_fixture_tensor(&r, "log_combine_temperature") = (real)-log(4);
    router_fixture_pass(&r, 1, true);
    for (size_t i = 0; i < 4; i++) {
        if (i == 0 || i == 3)
            assert_close(r.plan->dense.comb[i], 1, 2e-6);
        else
            assert_close(r.plan->dense.comb[i], 0, 1e-12); /* the square of a rounding */
    }
    router_fixture_free(&r);
}

/* Rows of 1.5-entmax sum to 1, whatever the size of the logits, and at small temperatures most are
 * zero. */
static void entmax_rows(void **state) {
    for (int small = 0; small < 2; small++) {
        router_fixture r;
        assert_true(router_fixture_make(&r,
                                        "model.moe.experts=7 model.moe.slots_per_expert=3 "
                                        "model.moe.router=soft-temperatures "
                                        "model.moe.combine=entmax",
                                        9, 2));
        *router_fixture_tensor(&r, "log_combine_temperature") = (real)(small ? -6 : 6);
        router_fixture_pass(&r, 2, false);
        size_t zeros = 0;
        for (size_t t = 0; t < 18; t++) {
            double sum = 0;
            for (size_t s = 0; s < 21; s++) {
                double p = (double)r.plan->dense.comb[t * 21 + s];
                assert_true(p >= 0);
                zeros += p == 0;
                sum += p;
            }
            assert_close(sum, 1, 1e-6); /* 21 weights, each rounded once */
        }
        assert_true(small ? zeros > 18 * 21 / 2 : zeros == 0);
        router_fixture_free(&r);
    }
}

/* ---- renormalised Experts Choice ------------------------------------------------------------- */

/*
 * Three tokens, two experts with Be = 2. Logits (ln 3, 0), (ln 3, 0), (0, ln 4): g = (3/4, 1/4)
 * twice and (1/5, 4/5). Expert 0 takes tokens 0 and 1, expert 1 token 2 and, of equals, token 0. So
 * token 0 has both, and keeps its weights; tokens 1 and 2 have one, whose weight becomes 1. With
 * one place each, tokens 0 and 2 are taken, with 1, and token 1 is dropped.
 */
static void experts_choice_renormalized(void **state) {
    const double x[] = {log(3), 0, log(3), 0, 0, log(4)};
    router_fixture r;
    router_fixture_logits(&r,
                          "model.moe.router=experts-choice model.moe.experts=2 model.moe.noise=0 "
                          "model.moe.capacity=1.34 model.moe.renormalize=true",
                          3, 1, 2, x);
    router_fixture_pass(&r, 1, true);
    assert_int_equal(r.plan->P, 2);
    const double weight[] = {0.75, 1, 0.25, 1};
    const int32_t token[] = {0, 1, 0, 2};
    for (size_t e = 0; e < 2; e++) {
        assert_int_equal(r.plan->list.used[e], 2);
        for (size_t p = 0; p < 2; p++) {
            size_t slot = 2 * e + p, at = 2 * e;
            while (token[at] != r.plan->list.slot_token[slot] && at < 2 * e + 1) at++;
            assert_int_equal(r.plan->list.slot_token[slot], token[at]);
            assert_close(r.plan->list.slot_weight[slot], weight[at], CLOSE);
        }
    }
    router_fixture_free(&r);
    router_fixture_logits(&r,
                          "model.moe.router=experts-choice model.moe.experts=2 model.moe.noise=0 "
                          "model.moe.capacity=0.5 model.moe.renormalize=true",
                          3, 1, 2, x);
    router_fixture_pass(&r, 1, true);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "2");
    for (size_t e = 0; e < 2; e++) assert_close(r.plan->list.slot_weight[e], 1, CLOSE);
    assert_int_equal(r.plan->choices.dropped, 1);
    for (size_t e = 0; e < 2; e++) assert_true(r.plan->choices.gate[2 + e] == 0);
    router_fixture_free(&r);
}

/* ---- transport ------------------------------------------------------------------------------- */

enum { N = 30, E = 6 };

static real *random_logits(double size) {
    real *z = calloc((size_t)N * E, sizeof *z);
    assert_non_null(z);
    gradcheck_normal(z, (size_t)N * E, 77);
    for (size_t i = 0; i < (size_t)N * E; i++) z[i] *= (real)size;
    return z;
}

static double row_sum(const double *plan, size_t t) {
    double sum = 0;
    for (size_t e = 0; e < E; e++) sum += plan[t * E + e];
    return sum;
}

static double column_sum(const double *plan, size_t e) {
    double sum = 0;
    for (size_t t = 0; t < N; t++) sum += plan[t * E + e];
    return sum;
}

/* Marginals; and log Pi - z must be the sum of a number per token, which is given, and one per
 * expert. */
static void sinkhorn_marginals(void **state) {
    static const double sizes[] = {1, 5, 400}; /* the last: kernels that reach their floor */
    for (size_t s = 0; s < 3; s++) {
        real *z = random_logits(sizes[s]);
        double plan[N * E], scratch[N + E];
        smoe_transport_sinkhorn(plan, scratch, (smoe_transport_gains){z, N, E}, s < 2 ? 500 : 20);
        for (size_t t = 0; t < N; t++) assert_close(row_sum(plan, t), 1, 1e-12);
        for (size_t e = 0; e < E && s < 2; e++) assert_close(column_sum(plan, e), N / E, 1e-6);
        for (size_t t = 0; t < N && s < 2; t++)
            for (size_t e = 0; e < E; e++) {
                double v = log(plan[t * E + e]) - (double)z[t * E + e] - scratch[t];
                assert_close(v, log(plan[e]) - (double)z[e] - scratch[0], 1e-9);
            }
        free(z);
    }
}

/* 2 x 2 with row and column sums of 1: (a, 1-a; 1-a, a), and a^2/(1-a)^2 = exp(z11 + z22 - z12 -
 * z21) = 4: a = 2/3. */
static void sinkhorn_by_hand(void **state) {
    const real z[] = {(real)log(4), 0, 0, 0};
    double plan[4], scratch[4];
    smoe_transport_sinkhorn(plan, scratch, (smoe_transport_gains){z, 2, 2}, 200);
    const double want[] = {2. / 3, 1. / 3, 1. / 3, 2. / 3};
    for (size_t i = 0; i < 4; i++) assert_close(plan[i], want[i], 1e-7);
}

/* The projection of (1, 0) onto sum 2: (3/2, 1/2). Prices become (1/4, -1/4); then the
 * projection of (3/4, 1/4): (5/4, 3/4). With only one nonzero entry allowed: (2, 0). */
static void sparse_by_hand(void **state) {
    const real z[] = {1, 0};
    double plan[2], scratch[3];
    smoe_ranked ranked[2];
    smoe_transport_sparse(plan, scratch, ranked, (smoe_transport_gains){z, 2, 1}, 2, 1);
    assert_close(plan[0], 1.5, 1e-6);
    assert_close(plan[1], 0.5, 1e-6);
    smoe_transport_sparse(plan, scratch, ranked, (smoe_transport_gains){z, 2, 1}, 2, 2);
    assert_close(plan[0], 1.25, 1e-6);
    assert_close(plan[1], 0.75, 1e-6);
    smoe_transport_sparse(plan, scratch, ranked, (smoe_transport_gains){z, 2, 1}, 1, 1);
    assert_close(plan[0], 2, 1e-6);
    assert_close(plan[1], 0, 0);
    /* each further step halves the difference: ties in single precision, in double none */
    smoe_transport_sparse(plan, scratch, ranked, (smoe_transport_gains){z, 2, 1}, 2, 30);
    assert_close(plan[0] - plan[1], 0x1p-29, 1e-15);
}

/* Columns: sum and number of entries, for any number of steps. Rows: closer to 1 with more
 * steps. */
static void sparse_marginals(void **state) {
    static const size_t places[] = {5, 8, N};
    for (size_t k = 0; k < 3; k++) {
        real *z = random_logits(1);
        double plan[N * E], scratch[N + E], off[2] = {0};
        smoe_ranked ranked[N];
        for (size_t more = 0; more < 2; more++) {
            smoe_transport_sparse(plan, scratch, ranked, (smoe_transport_gains){z, N, E}, places[k],
                                  more ? 200 : 1);
            for (size_t e = 0; e < E; e++) {
                size_t entries = 0;
                for (size_t t = 0; t < N; t++) {
                    assert_true(plan[t * E + e] >= 0);
                    entries += plan[t * E + e] > 0;
                }
                assert_in_range(entries, 1, places[k]);
                assert_close(column_sum(plan, e), N / E, 1e-13);
            }
            for (size_t t = 0; t < N; t++) off[more] += fabs(row_sum(plan, t) - 1) / N;
        }
        if (!(off[1] < off[0] / 2)) fail_msg("rows off by %g, before %g", off[1], off[0]);
        free(z);
    }
}

/* An expert's tokens have more of its column than the others. */
static void experts_take_most_of_the_plan(void **state) {
    static const char *const routers[] = {"experts-choice-sinkhorn", "experts-choice-sparse"};
    for (size_t i = 0; i < 2; i++) {
        router_fixture r;
        char keys[160];
        snprintf(keys, sizeof keys,
                 "model.moe.router=%s model.moe.experts=6 model.moe.group_images=2 "
                 "model.moe.noise=0 model.moe.capacity=1.4",
                 routers[i]);
        assert_true(router_fixture_make(&r, keys, N / 2, 2));
        router_fixture_pass(&r, 2, true);
        assert_int_equal(r.plan->P, 7);
        real z[N * E];
        const real *w = router_fixture_tensor(&r, "weight");
        for (size_t k = 0; k < (size_t)N * E; k++) {
            double sum = 0;
            for (size_t j = 0; j < r.d; j++)
                sum += (double)r.x[k / E * r.d + j] * (double)w[k % E * r.d + j];
            z[k] = (real)sum;
        }
        double plan[N * E], scratch[N + E];
        smoe_ranked ranked[N];
        if (i)
            smoe_transport_sparse(plan, scratch, ranked, (smoe_transport_gains){z, N, E}, 7, 20);
        else
            smoe_transport_sinkhorn(plan, scratch, (smoe_transport_gains){z, N, E}, 20);
        for (size_t e = 0; e < E; e++) {
            bool taken[N] = {0};
            double least = INFINITY, most = 0;
            if (!i) assert_int_equal(r.plan->list.used[e], 7);
            for (size_t p = 0; p < (size_t)r.plan->list.used[e]; p++) {
                size_t slot = e * 7 + p, token = (size_t)r.plan->list.slot_token[slot];
                taken[token] = true;
                least = fmin(least, plan[token * E + e]);
                assert_true(r.plan->list.slot_weight[slot] == r.plan->choices.gate[token * E + e]);
            }
            for (size_t t = 0; t < N; t++)
                if (!taken[t]) most = fmax(most, plan[t * E + e]);
            assert_true(i ? least > 0 && most < 1e-5 : least > most - 1e-6);
        }
        router_fixture_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_deals_positions_out),
        cmocka_unit_test(remoe_by_hand),
        cmocka_unit_test(sparsity_arrives),
        cmocka_unit_test(images_choose_whole),
        cmocka_unit_test(images_learn_superclasses),
        cmocka_unit_test(temperatures_by_hand),
        cmocka_unit_test(entmax_by_hand),
        cmocka_unit_test(entmax_rows),
        cmocka_unit_test(experts_choice_renormalized),
        cmocka_unit_test(sinkhorn_marginals),
        cmocka_unit_test(sinkhorn_by_hand),
        cmocka_unit_test(sparse_by_hand),
        cmocka_unit_test(sparse_marginals),
        cmocka_unit_test(experts_take_most_of_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
