/*
 * Routing worked by hand: small numbers whose result is in the comments. The laws that all routers
 * keep, and larger cases against a second implementation, are in test_routers.c.
 */
#include "approx.h"
#include "router_fixture.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Single precision, a handful of operations on numbers near 1. */
static const double CLOSE = 1e-6;

/* A router over tokens of width d = E with the given x; B images of T tokens. */
static void begin(router_fixture *r, const char *keys, size_t T, const real *x) {
    assert_true(router_fixture_make(r, keys, T, 1));
    memcpy(r->x, x, T * r->d * sizeof *x);
}

static void assert_all(const real *x, const double *expected, size_t n) {
    for (size_t i = 0; i < n; i++) assert_close(x[i], expected[i], CLOSE);
}

/* ---- soft routing ---------------------------------------------------------------------------- */

#define TWO "model.width=2 model.heads=1 model.moe.experts=2 model.moe.slots_per_expert=1 "

/*
 * X = (1 0; 0 2), Phi = (ln 2, 0; 0, (ln 3)/2), normalize: false. L = X Phi = (ln 2, 0; 0, ln 3).
 *   D, columns: (2, 1)/3 and (1, 3)/4       C, rows: (2, 1)/3 and (1, 3)/4
 *   X~_1 = 2/3 (1 0) + 1/3 (0 2) = (2/3, 2/3)      X~_2 = 1/4 (1 0) + 3/4 (0 2) = (1/4, 3/2)
 * and with experts that change nothing
 *   Y_1 = 2/3 X~_1 + 1/3 X~_2 = (4/9 + 1/12, 4/9 + 1/2) = (19/36, 17/18)
 *   Y_2 = 1/4 X~_1 + 3/4 X~_2 = (1/6 + 3/16, 1/6 + 9/8) = (17/48, 31/24)
 */
static void soft_two_by_two(void **state) {
    const real x[] = {1, 0, 0, 2}, zero[4] = {0};
    router_fixture r;
    begin(&r, TWO "model.moe.router=soft model.moe.normalize=false", 2, x);
    const real phi[] = {(real)log(2), 0, 0, (real)(log(3) / 2)};
    memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->dense.disp, (const double[]){2. / 3, 1. / 4, 1. / 3, 3. / 4}, 4);
    assert_all(r.plan->dense.comb, (const double[]){2. / 3, 1. / 3, 1. / 4, 3. / 4}, 4);
    real slots[4], y[4];
    smoe_plan_dispatch(r.plan, (smoe_outputs){.at = slots}, r.x, 2);
    assert_all(slots, (const double[]){2. / 3, 2. / 3, 1. / 4, 3. / 2}, 4);
    smoe_plan_combine(r.plan, y, (smoe_values){.at = slots}, zero, 2);
    assert_all(y, (const double[]){19. / 36, 17. / 18, 17. / 48, 31. / 24}, 4);
    router_fixture_free(&r);
}

/*
 * normalize: X = (3 4; 0 0), Phi columns (0 2) and (7 0), scale 5 ln 2. l2n: (0.6 0.8), (0 0)
 * exactly, (0 1), (1 0), each shorter by the 1e-6 of the norm.
 * L = 5 ln 2 (0.8 0.6; 0 0) = (ln 16, ln 8; 0 0).
 *   D: (16, 1)/17 and (8, 1)/9     C: (2, 1)/3 and (1, 1)/2
 *   X~_1 = 16/17 (3 4): slots mix the raw tokens, not the normalised ones.
 */
static void soft_normalised_mixes_raw_tokens(void **state) {
    const real x[] = {3, 4, 0, 0}, phi[] = {0, 7, 2, 0}, scale = (real)(5 * log(2));
    router_fixture r;
    begin(&r, TWO "model.moe.router=soft", 2, x);
    memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
    *router_fixture_tensor(&r, "scale") = scale;
    router_fixture_pass(&r, 1, false);
    const double disp[] = {16. / 17, 8. / 9, 1. / 17, 1. / 9}, comb[] = {2. / 3, 1. / 3, 0.5, 0.5};
    for (size_t i = 0; i < 4; i++) {
        assert_close(r.plan->dense.disp[i], disp[i], 3e-6); /* ln 16 x 1e-6 too small */
        assert_close(r.plan->dense.comb[i], comb[i], 3e-6);
    }
    assert_true(r.plan->dense.comb[2] ==
                r.plan->dense.comb[3]); /* the zero vector maps to zero exactly */
    real slots[4];
    smoe_plan_dispatch(r.plan, (smoe_outputs){.at = slots}, r.x, 2);
    assert_close(slots[0], 48. / 17, 1e-5); /* 3 and 4 times the above */
    assert_close(slots[1], 64. / 17, 1e-5);
    router_fixture_free(&r);
}

/*
 * The two epsilons for a token of length 1e-3: paper 1e-3/(1e-3 + 1e-6) = 1/1.001, vmoe
 * 1e-3/sqrt(1e-6 + 1e-6) = 1/sqrt 2. With scale 1, Phi's first column parallel to the token and the
 * second orthogonal: C_11/C_12 = exp of that.
 */
static void two_epsilons(void **state) {
    static const char *const keys[] = {TWO "model.moe.router=soft",
                                       TWO "model.moe.router=soft model.moe.l2_eps=vmoe"};
    const double length[] = {1 / 1.001, 1 / sqrt(2)};
    const real x[] = {(real)1e-3, 0}, phi[] = {1, 0, 0, 1};
    for (size_t i = 0; i < 2; i++) {
        router_fixture r;
        begin(&r, keys[i], 1, x);
        memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
        *router_fixture_tensor(&r, "scale") = 1;
        router_fixture_pass(&r, 1, false);
        assert_close(log((double)(r.plan->dense.comb[0] / r.plan->dense.comb[1])), length[i], 3e-6);
        assert_close(r.plan->dense.disp[0], 1, 0); /* one token: every D is 1 */
        assert_close(r.plan->dense.disp[1], 1, 0);
        router_fixture_free(&r);
    }
}

/* The half-uniform routers share the learnt half with soft; the other half is constant. */
static void uniform_halves(void **state) {
    const real x[] = {1, 0, 0, 2}, phi[] = {(real)log(2), 0, 0, (real)(log(3) / 2)};
    const double learnt[2][4] = {{2. / 3, 1. / 4, 1. / 3, 3. / 4},
                                 {2. / 3, 1. / 3, 1. / 4, 3. / 4}};
    const double half[] = {0.5, 0.5, 0.5, 0.5};
    router_fixture r;
    begin(&r, TWO "model.moe.router=soft-uniform model.moe.normalize=false", 2, x);
    memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->dense.disp, learnt[0], 4);
    assert_all(r.plan->dense.comb, half, 4);
    router_fixture_free(&r);
    begin(&r, TWO "model.moe.router=uniform-soft model.moe.normalize=false", 2, x);
    memcpy(router_fixture_tensor(&r, "phi"), phi, sizeof phi);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->dense.disp, half, 4);
    assert_all(r.plan->dense.comb, learnt[1], 4);
    router_fixture_free(&r);
    begin(&r, TWO "model.moe.router=uniform", 2, x);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->dense.disp, half, 4);
    assert_all(r.plan->dense.comb, half, 4);
    router_fixture_free(&r);
}

/* Token t goes to expert t mod 2, slot t / 2: five tokens are placed as 0 2 4 | 1 3 -. */
static void identity_places(void **state) {
    const real x[10] = {0};
    router_fixture r;
    begin(&r, "model.width=2 model.heads=1 model.moe.experts=2 model.moe.router=identity", 5, x);
    router_fixture_pass(&r, 1, true);
    assert_int_equal(r.plan->P, 3);
    const int32_t tokens[] = {0, 2, 4, 1, 3};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(r.plan->list.slot_token[i], tokens[i]);
        assert_close(r.plan->list.slot_weight[i], 1, 0);
    }
    assert_int_equal(r.plan->list.used[0], 3);
    assert_int_equal(r.plan->list.used[1], 2);
    assert_int_equal(r.plan->choices.dropped, 0);
    router_fixture_free(&r);
}

/* ---- choices --------------------------------------------------------------------------------- */

/* The logits are ln g, so the gate is g exactly. */
static void gated_images(router_fixture *r, const char *keys, size_t B, size_t T, size_t E,
                         const double *g) {
    double x[256];
    assert_true(B * T * E <= 256);
    for (size_t i = 0; i < B * T * E; i++) x[i] = log(g[i]);
    router_fixture_logits(r, keys, T, B, E, x);
}

static void gated(router_fixture *r, const char *keys, size_t T, size_t E, const double *g) {
    gated_images(r, keys, 1, T, E, g);
}

#define TOKENS "model.moe.router=tokens-choice model.moe.experts=2 model.moe.noise=0 "

/* Logits 0, -2000, -1000: the second choice is the last expert, though both weights are 0. */
static void choices_of_no_weight(void **state) {
    const double g[] = {1, 1, 1};
    router_fixture r;
    gated(&r, "model.moe.router=tokens-choice model.moe.experts=3 model.moe.k=2 model.moe.noise=0",
          1, 3, g);
    r.x[1] = -2000;
    r.x[2] = -1000;
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "");
    router_fixture_buffer(&r, 2, "0");
    assert_true(r.plan->list.slot_weight[2 * r.plan->P] == 0);
    router_fixture_free(&r);
}

/*
 * Four tokens, three of which want expert 0 with g = 0.6, 0.9, 0.8. Be = 1*4*1/2 = 2.
 * vanilla: 0 and 1 are placed, 2 is dropped. bpr: 1 and 2 are placed, 0 is dropped.
 */
static void placement_order(void **state) {
    const double g[] = {.6, .4, .9, .1, .8, .2, .3, .7};
    router_fixture r;
    gated(&r, TOKENS "model.moe.priority=vanilla", 4, 2, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "01");
    router_fixture_buffer(&r, 1, "3");
    assert_int_equal(r.plan->choices.dropped, 1);
    assert_int_equal(r.plan->choices.chosen[0], 3);
    assert_int_equal(r.plan->choices.lost[0], 1);
    assert_int_equal(r.plan->choices.chosen[1], 1);
    assert_int_equal(r.plan->choices.lost[1], 0);
    assert_close(r.plan->list.slot_weight[1], 0.9, CLOSE); /* g itself */
    /* a dropped token's output is the residual alone */
    real slots[3 * 8], y[4 * 8], residual[4 * 8];
    for (size_t i = 0; i < 32; i++) residual[i] = (real)i;
    for (size_t i = 0; i < 24; i++) slots[i] = 1;
    smoe_plan_combine(r.plan, y, (smoe_values){.at = slots}, residual, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_close(y[2 * 8 + i], 16 + (double)i, 0);
        assert_close(y[8 + i], 8 + (double)i + 0.9, 1e-5);
    }
    router_fixture_free(&r);
    gated(&r, TOKENS "model.moe.priority=bpr", 4, 2, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "12");
    router_fixture_buffer(&r, 1, "3");
    assert_int_equal(r.plan->choices.dropped, 1);
    router_fixture_free(&r);
}

/*
 * K = 2, three tokens, Be = 2*3*(1/3)/2 = 1. First choices: tokens 0 and 1 want expert 0, token 2
 * wants expert 1. All first choices are placed before any second one: token 0 with expert 0, token
 * 2 with expert 1; the second choice of token 0, expert 1, is then full although token 0 comes
 * first. With equal g the lower expert is the first choice: g = (.5, .5) goes to expert 0 and
 * leaves expert 1 to the next.
 */
static void first_choices_before_second(void **state) {
    const double g[] = {.7, .3, .6, .4, .45, .55};
    router_fixture r;
    gated(&r, TOKENS "model.moe.k=2 model.moe.priority=vanilla model.moe.capacity=0.333", 3, 2, g);
    router_fixture_pass(&r, 1, false);
    assert_int_equal(r.plan->P, 1);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "2");
    assert_int_equal(r.plan->choices.dropped, 1);
    assert_int_equal(r.plan->choices.chosen[0], 3);
    assert_int_equal(r.plan->choices.lost[0], 2);
    assert_int_equal(r.plan->choices.lost[1], 2);
    router_fixture_free(&r);
    const double equal[] = {.5, .5, .1, .9};
    gated(&r, TOKENS "model.moe.k=2 model.moe.priority=vanilla model.moe.capacity=0.5", 2, 2,
          equal);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "1");
    router_fixture_free(&r);
}

/*
 * Three experts, K = 2, g = (.5 .4 .1), (.6 .2 .2), Be = 2*2*0.3/3 = 0.4, at least 1. bpr ranks by
 * the largest g: token 1 (.6) first. bpr-sum ranks by the sum of the top two: token 0 (.9 against
 * .8) first. Both want expert 0 first; for the second choice of token 1 the tie goes to the lower
 * index, expert 1.
 */
static void bpr_and_its_sum(void **state) {
    const double g[] = {.5, .4, .1, .6, .2, .2};
#define THREE \
    "model.moe.router=tokens-choice model.moe.noise=0 model.moe.k=2 model.moe.capacity=0.3 "
    router_fixture r;
    gated(&r, THREE "model.moe.priority=bpr", 2, 3, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "1");
    router_fixture_buffer(&r, 1, "1");
    router_fixture_buffer(&r, 2, "");
    assert_int_equal(r.plan->choices.dropped, 1);
    router_fixture_free(&r);
    gated(&r, THREE "model.moe.priority=bpr-sum", 2, 3, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "0");
    router_fixture_free(&r);
}

/*
 * V-MoE, appendix C.1: two tokens, K = 2, g = (.7 .2), (.5 .4) of experts that are all different.
 * The order of attempts is (0, first), (1, first), (1, second), (0, second), where bpr has the last
 * two in the other order. Here both second choices are expert 1 of three, which has one place:
 * g = (.7 .2 .1), (.1 .4 .5).
 */
static void choices_in_the_order_of_their_weights(void **state) {
    const double g[] = {.7, .2, .1, .1, .4, .5};
    router_fixture r;
    gated(&r, THREE "model.moe.priority=patch-expert", 2, 3, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "1");
    router_fixture_buffer(&r, 2, "1");
    router_fixture_free(&r);
    gated(&r, THREE "model.moe.priority=bpr", 2, 3, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 1, "0");
    router_fixture_free(&r);
}

/*
 * The learnt score is w . x + b, here x_0 + 1 = ln g_0 + 1: with g_0 = (.7, .1) it is 0.643 and
 * -1.303, and its sigmoid with b = 0 is g_0 / (1 + g_0): .7/1.7 and .1/1.1. The better token gets
 * the only place, with g s; with a negative w the other one.
 */
static void a_learnt_score(void **state) {
    const double g[] = {.7, .2, .1, .1, .8, .1};
    static const char *const priority[] = {"learnt", "learnt-sigmoid"};
    const double sign[] = {1, -1}, s[2][2] = {{log(.7) + 1, 1 - log(.1)}, {.7 / 1.7, 1 / 1.1}};
    for (size_t i = 0; i < 4; i++) {
        router_fixture r;
        char keys[256];
        snprintf(keys, sizeof keys, THREE "model.moe.skip_patch=0.5 model.moe.priority=%s",
                 priority[i / 2]);
        gated(&r, keys, 2, 3, g);
        real *w = router_fixture_tensor(&r, "score.weight");
        for (size_t k = 0; k < r.d; k++) w[k] = (real)(k ? 0 : sign[i % 2]);
        *router_fixture_tensor(&r, "score.bias") = i < 2;
        router_fixture_pass(&r, 1, false);
        size_t token = i % 2, best = token ? 1 : 0;
        router_fixture_buffer(&r, best, token ? "1" : "0");
        assert_close(r.plan->list.slot_weight[best * r.plan->P],
                     g[token * 3 + best] * s[i / 2][token], CLOSE);
        assert_int_equal(r.plan->choices.dropped, 1);
        router_fixture_free(&r);
    }
}

/*
 * topk: before, K = 2: g = (.5 .3 .2) becomes (5/8 3/8 0), (.1 .45 .45) becomes (0 1/2 1/2). Expert
 * 1 takes token 1 first, as its first choice, with 1/2, then token 0 with 3/8. K = 1: always 1.
 */
static void top_k_before_softmax(void **state) {
    const double g[] = {.5, .3, .2, .1, .45, .45};
#define BEFORE \
    "model.moe.router=tokens-choice model.moe.noise=0 model.moe.capacity=3 model.moe.topk=before "
    router_fixture r;
    gated(&r, BEFORE "model.moe.k=2", 2, 3, g);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->choices.gate, (const double[]){5. / 8, 3. / 8, 0, 0, .5, .5}, 6);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "10");
    router_fixture_buffer(&r, 2, "1");
    assert_close(r.plan->list.slot_weight[0], 5. / 8, CLOSE);
    assert_close(r.plan->list.slot_weight[r.plan->P], 1. / 2, CLOSE);
    assert_close(r.plan->list.slot_weight[r.plan->P + 1], 3. / 8, CLOSE);
    router_fixture_free(&r);
    gated(&r, BEFORE "model.moe.k=1", 2, 3, g);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->choices.gate, (const double[]){1, 0, 0, 0, 1, 0}, 6);
    router_fixture_free(&r);
}

/*
 * gate: sigmoid, logits ln g: sigmoid(ln 3) = 3/4, sigmoid(ln 1/3) = 1/4, sigmoid(0) = 1/2.
 * K = 2 of (3, 1/3, 1): experts 0 and 2 with 3/4 and 1/2; renormalize: 3/5 and 2/5.
 */
static void sigmoid_gate(void **state) {
    const double g[] = {3, 1. / 3, 1};
#define SIGMOID \
    "model.moe.router=tokens-choice model.moe.noise=0 model.moe.k=2 model.moe.gate=sigmoid "
    router_fixture r;
    gated(&r, SIGMOID, 1, 3, g);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->choices.gate, (const double[]){3. / 4, 1. / 4, 1. / 2}, 3);
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "");
    assert_close(r.plan->list.slot_weight[2 * r.plan->P], 1. / 2, CLOSE);
    router_fixture_free(&r);
    gated(&r, SIGMOID "model.moe.renormalize=true", 1, 3, g);
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->choices.gate, (const double[]){3. / 5, 0, 2. / 5}, 3);
    /* far below 0 every sigmoid is 0; their shares are those of exp */
    r.x[0] = -1000, r.x[1] = -3000, r.x[2] = -1000;
    router_fixture_pass(&r, 1, true);
    assert_all(r.plan->choices.gate, (const double[]){1. / 2, 0, 1. / 2}, 3);
    router_fixture_free(&r);
}

/*
 * g = (.6 .4), (.7 .3), (.55 .45) with biases (0, .25): g + b = (.6 .65), (.7 .55), (.55 .7).
 * Tokens 0 and 2 go to expert 1, with weights .4 and .45, without bias. The experts are chosen 1
 * and 2 times, mean 3/2; a step of 0.1 makes the biases (.1, .15). Equal counts do not change them.
 */
static void biases_move_choices_alone(void **state) {
    const double g[] = {.6, .4, .7, .3, .55, .45};
    router_fixture r;
    gated(&r, TOKENS "model.moe.balance=bias model.moe.balance_rate=0.1 model.moe.capacity=2", 3, 2,
          g);
    real *b = router_fixture_tensor(&r, "bias");
    b[0] = 0, b[1] = 0.25;
    router_fixture_pass(&r, 1, true);
    router_fixture_buffer(&r, 0, "1");
    router_fixture_buffer(&r, 1, "20"); /* bpr: .45 before .4 */
    assert_close(r.plan->list.slot_weight[r.plan->P], .45, CLOSE);
    assert_close(r.plan->list.slot_weight[r.plan->P + 1], .4, CLOSE);
    assert_true(r.plan->losses.aux == 0 && r.plan->losses.weighted == 0);
    assert_int_equal(r.router->counted, 2);
    assert_true(r.router->counts[0] == 1 && r.router->counts[1] == 2);
    r.router->type->settle(r.router, r.router->counts, &r.pass);
    assert_close(b[0], .1, CLOSE);
    assert_close(b[1], .15, CLOSE);
    r.router->type->settle(r.router, (const double[]){7, 7}, &r.pass);
    assert_close(b[0], .1, CLOSE);
    assert_close(b[1], .15, CLOSE);
    router_fixture_free(&r);
}

/* logsumexp of logits ln g is the logarithm of their sum: 2 and 1/2, so the mean is (ln 2)^2. */
static void z_loss(void **state) {
    const double g[] = {1.5, .5, .25, .25};
    static const char *const routers[] = {"tokens-choice", "experts-choice"};
    for (size_t i = 0; i < 2; i++) {
        router_fixture r;
        char keys[128];
        snprintf(keys, sizeof keys,
                 "model.moe.router=%s model.moe.experts=2 model.moe.noise=0 model.moe.z_weight=3",
                 routers[i]);
        gated(&r, keys, 2, 2, g);
        r.spec.model.moe.balance.aux_weight = 0;
        router_fixture_pass(&r, 1, true);
        assert_close(r.plan->losses.z, log(2) * log(2), CLOSE);
        assert_close(r.plan->losses.weighted, 3 * log(2) * log(2), 3 * CLOSE);
        router_fixture_pass(&r, 1, false);
        assert_true(r.plan->losses.z == 0);
        router_fixture_free(&r);
    }
}

/* Scores in a random order of the experts: each token has the same weights, for other experts, and
 * the same ones at every evaluation. In 64 tokens each of three experts is the best one of some. */
static void permuted_scores(void **state) {
    enum { T = 64, E = 3 };
    double g[T * E];
    size_t best[E] = {0};
    router_fixture r;
    for (size_t i = 0; i < T * E; i++) g[i] = (const double[]){.6, .3, .1}[i % E];
    gated(&r,
          "model.moe.router=tokens-choice model.moe.experts=3 model.moe.capacity=9 "
          "model.moe.noise=0 "
          "model.moe.random_layers=all model.moe.random_scores=permuted",
          T, E, g);
    router_fixture_pass(&r, 1, false);
    for (size_t t = 0; t < T; t++) {
        double sum = 0, squares = 0;
        for (size_t e = 0; e < E; e++) {
            double x = (double)r.plan->choices.gate[t * E + e];
            sum += x;
            squares += x * x;
            best[e] += x > .5;
        }
        assert_close(sum, 1, CLOSE);
        assert_close(squares, .36 + .09 + .01, CLOSE);
    }
    for (size_t e = 0; e < E; e++) assert_true(best[e] > 8);
    size_t chosen = r.plan->choices.chosen[0];
    router_fixture_pass(&r, 1, false);
    assert_int_equal(r.plan->choices.chosen[0], chosen);
    router_fixture_pass(&r, 1, true); /* training takes the scores as they are */
    assert_int_equal(r.plan->choices.chosen[0], T);
    router_fixture_free(&r);
}

/* With equal scores the lower index comes first; likewise for equal experts. */
static void ties(void **state) {
    const double g[] = {.5, .5, .5, .5, .5, .5};
    router_fixture r;
    gated(&r, TOKENS "model.moe.priority=bpr", 3, 2, g);
    router_fixture_pass(&r, 1, false); /* Be = 3/2, half to even: 2 */
    router_fixture_buffer(&r, 0, "01");
    router_fixture_buffer(&r, 1, "");
    router_fixture_free(&r);
    gated(&r, "model.moe.router=experts-choice model.moe.experts=2 model.moe.capacity=0.7", 3, 2,
          g);
    router_fixture_pass(&r, 1, false); /* Be = 3*0.7/2 = 1.05: 1 */
    router_fixture_buffer(&r, 0, "0");
    router_fixture_buffer(&r, 1, "0");
    assert_int_equal(r.plan->choices.dropped, 2);
    router_fixture_free(&r);
}

/* skip_patch 0.5 of four tokens keeps the two with the highest g: 1 and 2; vanilla keeps their
 * order. */
static void skipped_patches(void **state) {
    const double g[] = {.6, .4, .8, .2, .9, .1, .3, .7};
    router_fixture r;
    gated(&r, TOKENS "model.moe.priority=bpr model.moe.skip_patch=0.5", 4, 2, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "21");
    router_fixture_buffer(&r, 1, "");
    assert_int_equal(r.plan->choices.dropped, 2);
    assert_int_equal(r.plan->choices.chosen[0] + r.plan->choices.chosen[1], 2);
    router_fixture_free(&r);
    gated(&r, TOKENS "model.moe.priority=vanilla model.moe.skip_patch=0.5", 4, 2, g);
    router_fixture_pass(&r, 1, false);
    router_fixture_buffer(&r, 0, "12");
    router_fixture_free(&r);
}

/*
 * Experts Choice, Be = 3*(2/3)/2 = 1: expert 0 takes token 1 (.9), expert 1 takes token 0 (.4 is
 * the largest of .4 .1 .2); no expert takes token 2. The softmax is over experts.
 */
static void experts_choose(void **state) {
    const double g[] = {.6, .4, .9, .1, .8, .2};
    router_fixture r;
    gated(&r,
          "model.moe.router=experts-choice model.moe.experts=2 model.moe.noise=0 "
          "model.moe.capacity=0.667",
          3, 2, g);
    router_fixture_pass(&r, 1, true);
    router_fixture_buffer(&r, 0, "1");
    router_fixture_buffer(&r, 1, "0");
    assert_close(r.plan->list.slot_weight[0], .9, CLOSE);
    assert_close(r.plan->list.slot_weight[r.plan->P], .4, CLOSE);
    assert_int_equal(r.plan->choices.dropped, 1);
    router_fixture_free(&r);
}

/*
 * No noise: aux = importance/2. g = (3/4 1/4), (1/2 1/2): importance (5/4, 3/4), mean 1, variance
 * 1/16, so aux = 1/32. Balanced gates: 0.
 */
static void importance(void **state) {
    const double g[] = {.75, .25, .5, .5}, balanced[] = {.75, .25, .25, .75};
    router_fixture r;
    gated(&r, TOKENS, 2, 2, g);
    router_fixture_pass(&r, 1, true);
    assert_close(r.plan->losses.aux, 1. / 32, CLOSE);
    router_fixture_free(&r);
    gated(&r, TOKENS, 2, 2, balanced);
    router_fixture_pass(&r, 1, true);
    assert_close(r.plan->losses.aux, 0, CLOSE);
    router_fixture_free(&r);
}

/*
 * Two images of one token, each a group: g = (3/4 1/4) and (1/4 3/4). In the batch importance is
 * (1, 1) and aux 0; in each group CV^2 = (1/4)^2/(1/2)^2 = 1/4, so the mean of the halves is 1/8.
 */
static void importance_of_the_batch(void **state) {
    const double g[] = {.75, .25, .25, .75};
    static const char *const over[] = {"batch", "group"};
    for (int i = 0; i < 2; i++) {
        router_fixture r;
        char keys[160];
        snprintf(keys, sizeof keys, TOKENS "model.moe.group_images=1 model.moe.aux_over=%s",
                 over[i]);
        gated_images(&r, keys, 2, 1, 2, g);
        router_fixture_pass(&r, 2, true);
        assert_close(r.plan->losses.aux, i ? 1. / 8 : 0, CLOSE);
        router_fixture_free(&r);
    }
}

/*
 * Load with so much noise (sigma = 1e5) that logits no longer matter: one token, two experts, K =
 * 2. The threshold is the smaller noisy logit = sigma n_min; load_e = Phi(-n_min) for both: CV^2 =
 * 0 and aux = importance/2 = CV^2(.75, .25)/2 = (1/4)^2/(1/2)^2/2 = 1/8.
 */
static void load_under_much_noise(void **state) {
    const double g[] = {.75, .25};
    router_fixture r;
    gated(&r,
          "model.moe.router=tokens-choice model.moe.experts=2 model.moe.k=2 model.moe.noise=1000",
          1, 2, g);
    r.spec.model.moe.choice.noise = 2e5;
    router_fixture_pass(&r, 1, true);
    /* the logits still contribute: ln 3 over sigma = 1e5 is 1e-5 in Phi, and its square in aux */
    assert_close(r.plan->losses.aux, 1. / 8, CLOSE);
    router_fixture_free(&r);
}

/* Be = round(K tokens C / E), half to even, at least 1, rounded up to a multiple; or always
 * rounded up. */
static void capacities(void **state) {
    smoe_moe_spec moe = {
        .experts = 4, .choice.capacity = {.item = {1}}, .choice.capacity_multiple_of = 1};
    const size_t tokens[] = {1, 2, 3, 6, 10, 14, 18}, half_even[] = {1, 1, 1, 2, 2, 4, 4},
                 up[] = {1, 1, 1, 2, 3, 4, 5}, fours[] = {4, 4, 4, 4, 4, 4, 8};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        moe.choice.capacity_rounding = SMOE_ROUNDING_ROUND;
        moe.choice.capacity_multiple_of = 1;
        assert_int_equal(smoe_moe_capacity(&moe, 0, tokens[i], 1), half_even[i]);
        assert_int_equal(smoe_moe_capacity(&moe, 0, tokens[i] * 2, 2), tokens[i]);
        moe.choice.capacity_rounding = SMOE_ROUNDING_CEIL;
        assert_int_equal(smoe_moe_capacity(&moe, 0, tokens[i], 1), up[i]);
        moe.choice.capacity_multiple_of = 4;
        assert_int_equal(smoe_moe_capacity(&moe, 0, tokens[i], 1), fours[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soft_two_by_two),
        cmocka_unit_test(soft_normalised_mixes_raw_tokens),
        cmocka_unit_test(two_epsilons),
        cmocka_unit_test(uniform_halves),
        cmocka_unit_test(identity_places),
        cmocka_unit_test(choices_of_no_weight),
        cmocka_unit_test(top_k_before_softmax),
        cmocka_unit_test(sigmoid_gate),
        cmocka_unit_test(biases_move_choices_alone),
        cmocka_unit_test(z_loss),
        cmocka_unit_test(placement_order),
        cmocka_unit_test(first_choices_before_second),
        cmocka_unit_test(bpr_and_its_sum),
        cmocka_unit_test(choices_in_the_order_of_their_weights),
        cmocka_unit_test(a_learnt_score),
        cmocka_unit_test(permuted_scores),
        cmocka_unit_test(ties),
        cmocka_unit_test(skipped_patches),
        cmocka_unit_test(experts_choose),
        cmocka_unit_test(importance),
        cmocka_unit_test(importance_of_the_batch),
        cmocka_unit_test(load_under_much_noise),
        cmocka_unit_test(capacities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
