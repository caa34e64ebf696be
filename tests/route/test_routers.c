/*
 * Laws that every router of routers.def must keep, found by walking the table: weights that sum to
 * one, buffers that never overflow, places that are taken at most once, dropped tokens that are
 * counted, the same bits for the same seed and any number of threads, no noise in evaluation. Then
 * the choice routers against a plain second implementation of their definitions (smoe-routers(7))
 * in double, noise included. Numbers worked by hand are in test_routers_hand.c.
 */
#include "approx.h"
#include "base/rng.h"
#include "base/threads.h"
#include "router_fixture.h"
#include "spec/routers.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 12, IMAGES = 5 };

/* Sizes to combine with the router's name: S < T, S > T, E < S, E = 1, one token, short groups,
 * small and large buffers. */
static const struct size {
    const char *keys;
    size_t T;
} sizes[] = {
    {"model.moe.slots_per_expert=1", TOKENS},
    {"model.moe.slots_per_expert=6", TOKENS},
    {"model.moe.total_slots=6 model.moe.normalize=false", TOKENS},
    {"model.moe.experts=1 model.moe.slots_per_expert=4 model.moe.l2_eps=vmoe", TOKENS},
    {"model.moe.slots_per_expert=2", 1},
    {"model.moe.group_images=2 model.moe.capacity=0.5 model.moe.slots_per_expert=4", TOKENS},
    {"model.moe.group_images=4 model.moe.capacity=3 model.moe.slots_per_expert=4", TOKENS},
    {"model.moe.experts=20 model.moe.slots_per_expert=1 model.moe.k=3 model.moe.noise=4", TOKENS},
    {"model.moe.slots_per_expert=4 model.moe.soft_noise=2 model.moe.topk=before model.moe.k=2",
     TOKENS},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Calls law for every router and each size it accepts, in training and in evaluation. */
static void for_all(void (*law)(router_fixture *r, bool train)) {
    for (size_t i = 0; i < SMOE_ROUTERS; i++) {
        size_t accepted = 0;
        for (size_t s = 0; s < SIZES; s++)
            for (int train = 0; train < 2; train++) {
                router_fixture r;
                char keys[256];
                snprintf(keys, sizeof keys, "model.moe.router=%s %s", smoe_routers[i].name,
                         sizes[s].keys);
                if (!router_fixture_make(&r, keys, sizes[s].T, IMAGES)) continue;
                accepted++;
                law(&r, train);
                router_fixture_free(&r);
            }
        if (accepted < SIZES) fail_msg("%s accepts %zu sizes", smoe_routers[i].name, accepted);
    }
}

/* Sums of up to TOKENS or 18 terms, each within an ulp or two of its share. */
static const double SUM_TOLERANCE = 4e-6;

static void dense_weights_sum_to_one(const smoe_plan *plan) {
    assert_int_equal(plan->rows, plan->G * plan->S);
    for (size_t e = 0; e <= plan->E; e++)
        assert_int_equal(plan->first_row[e], e * plan->P * plan->G);
    for (size_t g = 0; g < plan->G; g++) {
        const real *disp = plan->dense.disp + g * plan->T * plan->S;
        const real *comb = plan->dense.comb + g * plan->T * plan->S;
        for (size_t s = 0; s < plan->S; s++) {
            double sum = 0;
            for (size_t t = 0; t < plan->T; t++) {
                assert_true(disp[t * plan->S + s] >= 0);
                sum += (double)disp[t * plan->S + s];
            }
            assert_close(sum, 1, SUM_TOLERANCE);
        }
        for (size_t t = 0; t < plan->T; t++) {
            double sum = 0;
            for (size_t s = 0; s < plan->S; s++) {
                assert_true(comb[t * plan->S + s] >= 0);
                sum += (double)comb[t * plan->S + s];
            }
            assert_close(sum, 1, SUM_TOLERANCE);
        }
    }
}

/* Buffers hold at most their capacity, only tokens of their own group, and no token twice.
 * `open`: weights have no upper bound. */
static void sparse_seats(const smoe_plan *plan, bool open) {
    char *seen = calloc(plan->tokens, 1), *in_expert = malloc(plan->tokens);
    size_t placed = 0, seated = 0;
    assert_non_null(seen);
    assert_non_null(in_expert);
    for (size_t e = 0; e < plan->E; e++) {
        memset(in_expert, 0, plan->tokens);
        assert_int_equal(plan->first_row[e], placed);
        for (size_t g = 0; g < plan->G; g++) {
            size_t b = g * plan->E + e, used = (size_t)plan->list.used[b];
            assert_true(used <= plan->P);
            for (size_t p = 0; p < used; p++, placed++) {
                size_t slot = b * plan->P + p, token = (size_t)plan->list.slot_token[slot];
                assert_in_range(token, g * plan->T, (g + 1) * plan->T - 1);
                assert_true(token < plan->tokens);
                assert_false(in_expert[token]);
                in_expert[token] = seen[token] = 1;
                assert_int_equal(plan->list.row[slot], placed);
                assert_true(plan->list.slot_weight[slot] > 0 &&
                            (open || plan->list.slot_weight[slot] <= 1));
            }
        }
    }
    assert_int_equal(plan->first_row[plan->E], placed);
    assert_int_equal(plan->rows, placed);
    assert_int_equal(plan->list.placed, placed);
    for (size_t t = 0; t < plan->tokens; t++) seated += (size_t)seen[t];
    assert_int_equal(plan->choices.dropped, plan->tokens - seated);
    free(seen);
    free(in_expert);
}

/* The placements by token: each one once, under its own token, in order of slots. */
static void sparse_index(const smoe_plan *plan) {
    assert_int_equal(plan->list.first[0], 0);
    assert_int_equal(plan->list.first[plan->tokens], plan->list.placed);
    for (size_t t = 0; t < plan->tokens; t++) {
        assert_true(plan->list.first[t] <= plan->list.first[t + 1]);
        for (int32_t i = plan->list.first[t]; i < plan->list.first[t + 1]; i++) {
            size_t slot = (size_t)plan->list.slot[i], b = slot / plan->P;
            assert_true(slot % plan->P < (size_t)plan->list.used[b]);
            assert_int_equal(plan->list.slot_token[slot], t);
            if (i > plan->list.first[t]) assert_true(plan->list.slot[i] > plan->list.slot[i - 1]);
        }
    }
}

static void lawful(router_fixture *r, bool train) {
    /* all images, then fewer than reserved */
    for (size_t images = IMAGES; images <= IMAGES; images -= 2) { /* 5, 3, 1 */
        router_fixture_pass(r, images, train);
        assert_int_equal(r->plan->tokens, images * r->router->image_tokens);
        assert_int_equal(r->plan->S, r->plan->E * r->plan->P);
        if (r->plan->sparse) {
            sparse_seats(r->plan, smoe_router_find(r->spec.model.moe.router)->family ==
                                      SMOE_FAMILY_THRESHOLD);
            sparse_index(r->plan);
        } else {
            dense_weights_sum_to_one(r->plan);
        }
    }
}

/* The properties that specs and costs assume of a router are those it has. */
static void as_its_entry_says(router_fixture *r, bool train) {
    const smoe_router_entry *entry = smoe_router_find(r->spec.model.moe.router);
    bool soft = entry->family == SMOE_FAMILY_SOFT;
    router_fixture_pass(r, IMAGES, train);
    assert_int_equal(r->plan->sparse, !soft);
    assert_int_equal(r->plan->choices.gate != NULL, smoe_router_gated(entry));
    assert_int_equal(entry->learns_dispatch, soft && !r->plan->dense.disp_constant);
    assert_int_equal(entry->learns_combine, soft && !r->plan->dense.comb_constant);
    if (soft)
        assert_int_equal(r->plan->P,
                         smoe_moe_slots_per_expert(&r->spec.model.moe, 1, r->router->image_tokens));
    if (entry->family == SMOE_FAMILY_FIXED) assert_int_equal(r->plan->list.placed, r->plan->tokens);
}

static void entries_describe_their_routers(void **state) {
    for_all(as_its_entry_says);
}

static void plans_are_lawful(void **state) {
    for_all(lawful);
}

/* Decisions depend on seed and step alone, not on earlier passes or threads. */
static void repeatable(router_fixture *r, bool train) {
    router_fixture_pass(r, IMAGES, train);
    uint64_t bits = router_fixture_bits(r->plan);
    smoe_pass pass = r->pass;
    r->pass.seed++;
    router_fixture_pass(r, 2, !train);
    r->pass = pass;
    for (int threads = 1; threads <= 3; threads++) {
        smoe_threads_set(threads);
        router_fixture_reserve(r);
        router_fixture_pass(r, IMAGES, train);
        if (router_fixture_bits(r->plan) != bits)
            fail_msg("%s: other bits with %d threads", r->spec.model.moe.router, threads);
    }
    smoe_threads_set(2);
}

static void same_seed_same_bits(void **state) {
    for_all(repeatable);
}

static void quiet(router_fixture *r, bool train) {
    router_fixture_pass(r, IMAGES, train);
    uint64_t bits = router_fixture_bits(r->plan);
    r->pass.seed += 5;
    r->pass.step += 7;
    router_fixture_pass(r, IMAGES, train);
    const smoe_router_entry *entry = smoe_router_find(r->spec.model.moe.router);
    bool soft = smoe_router_heeds(entry, "soft_noise") && r->spec.model.moe.soft.noise > 0;
    bool noisy = soft || (smoe_router_heeds(entry, "noise") && r->router->E > 1);
    if (!train) assert_int_equal(bits, router_fixture_bits(r->plan));
    if (!train) assert_close(r->plan->losses.aux, 0, 0);
    if (train && noisy) assert_int_not_equal(bits, router_fixture_bits(r->plan));
}

static void no_noise_in_evaluation(void **state) {
    for_all(quiet);
}

/* ---- a second implementation of the choice routers ------------------------------------------- */

typedef struct ranked {
    double score;
    size_t token;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* z, noisy z, p and g of all tokens, in double: p over all experts, g the weight of a placement. */
typedef struct gates {
    double *z, *noisy, *p, *g;
    size_t *order; /* [tokens,E] experts from the best to the worst */
} gates;

/* exp(z): the gate's weights are shares of these or, by themselves, sigmoids. */
static double gate_of(const smoe_moe_spec *moe, double z) {
    return moe->choice.gate == SMOE_GATE_SIGMOID ? 1 / (1 + exp(-z)) : exp(z);
}

static void normalise(double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    for (size_t i = 0; i < n; i++) x[i] /= sum;
}

/* Experts by score; ties by index. */
static void order_experts(size_t *order, const double *score, size_t E) {
    for (size_t e = 0; e < E; e++) {
        size_t place = e;
        for (; place > 0 && score[e] > score[order[place - 1]]; place--)
            order[place] = order[place - 1];
        order[place] = e;
    }
}

static gates gates_of(router_fixture *r, bool train) {
    const smoe_moe_spec *moe = &r->spec.model.moe;
    size_t R = r->plan->tokens, E = r->router->E, K = r->router->K;
    gates a = {calloc(R * E, 8), calloc(R * E, 8), calloc(R * E, 8), calloc(R * E, 8),
               calloc(R * E, sizeof(size_t))};
    assert_true(a.z && a.noisy && a.p && a.g && a.order);
    const real *w = router_fixture_tensor(r, "weight");
    const real *b = r->router->counted ? router_fixture_tensor(r, "bias") : NULL;
    double std = train ? moe->choice.noise / (double)E : 0, score[32];
    for (size_t t = 0; t < R; t++) {
        smoe_rng rng = smoe_rng_at(r->pass.seed, SMOE_RNG_NOISE, 1, r->pass.step, t);
        double *p = a.p + t * E, *g = a.g + t * E;
        size_t *order = a.order + t * E;
        for (size_t e = 0; e < E; e++) {
            size_t at = t * E + e;
            for (size_t i = 0; i < r->d; i++)
                a.z[at] += (double)r->x[t * r->d + i] * (double)w[e * r->d + i];
            a.noisy[at] = a.z[at] + (std > 0 ? std * smoe_rng_normal(&rng) : 0);
            g[e] = gate_of(moe, a.noisy[at]);
            p[e] = gate_of(moe, a.z[at]);
        }
        normalise(p, E);
        if (moe->choice.gate == SMOE_GATE_SOFTMAX) normalise(g, E);
        for (size_t e = 0; e < E; e++) score[e] = g[e] + (b ? (double)b[e] : 0);
        order_experts(order, b ? score : a.noisy + t * E, E);
        if (!moe->choice.renormalize && moe->choice.topk != SMOE_TOPK_BEFORE) continue;
        for (size_t k = K; k < E; k++) g[order[k]] = 0;
        normalise(g, E);
    }
    return a;
}

static void gates_free(gates *a) {
    free(a->z);
    free(a->noisy);
    free(a->p);
    free(a->g);
    free(a->order);
}

static size_t group_size(const router_fixture *r, size_t g) {
    size_t left = r->plan->tokens - g * r->router->T;
    return left < r->router->T ? left : r->router->T;
}

/* Tokens of a group in their order of placement, skipped ones last; *kept: the number not
 * skipped. */
static ranked *queue_of(const router_fixture *r, const gates *a, size_t g, size_t *kept) {
    const smoe_moe_spec *moe = &r->spec.model.moe;
    size_t n = group_size(r, g), E = r->router->E;
    ranked *queue = calloc(n, sizeof *queue);
    assert_non_null(queue);
    for (size_t i = 0; i < n; i++) {
        size_t t = g * r->router->T + i,
               top = moe->choice.priority == SMOE_PRIORITY_BPR_SUM ? smoe_moe_k(moe, 1) : 1;
        queue[i].token = t;
        for (size_t k = 0; k < top; k++) queue[i].score += a->g[t * E + a->order[t * E + k]];
    }
    *kept = (size_t)nearbyint(moe->choice.skip_patch * (double)n);
    if (moe->choice.priority == SMOE_PRIORITY_RANDOM) {
        smoe_rng rng = smoe_rng_at(r->pass.seed, SMOE_RNG_PRIORITY, 1, r->pass.step,
                                   r->pass.first + g * moe->choice.group_images);
        uint32_t sample_tables[IMAGES * TOKENS];
        smoe_rng_permutation(&rng, sample_tables, n);
        for (size_t i = 0; i < n; i++) queue[i].token = g * r->router->T + sample_tables[i];
        return queue;
    }
    if (moe->choice.priority == SMOE_PRIORITY_VANILLA && *kept == n) return queue;
    qsort(queue, n, sizeof *queue, by_score);
    if (moe->choice.priority != SMOE_PRIORITY_VANILLA) return queue;
    for (size_t i = 0; i < *kept; i++) queue[i].score = 0;
    qsort(queue, *kept, sizeof *queue, by_score);
    return queue;
}

typedef struct counts {
    size_t chosen[32], lost[32];
} counts;

static void recount_group(const router_fixture *r, const gates *a, size_t g, counts *c) {
    const smoe_moe_spec *moe = &r->spec.model.moe;
    const smoe_plan *plan = r->plan;
    size_t E = plan->E, kept, *used = calloc(E, sizeof *used);
    size_t room = smoe_moe_capacity(moe, 1, group_size(r, g), smoe_moe_k(moe, 1));
    ranked *queue = queue_of(r, a, g, &kept);
    for (size_t k = 0; k < smoe_moe_k(moe, 1); k++)
        for (size_t i = 0; i < kept; i++) {
            size_t t = queue[i].token, e = a->order[t * E + k];
            c->chosen[e]++;
            if (used[e] == room) {
                c->lost[e]++;
                continue;
            }
            size_t slot = (g * E + e) * plan->P + used[e]++;
            assert_int_equal(plan->list.slot_token[slot], t);
            assert_close(plan->list.slot_weight[slot], a->g[t * E + e], 3e-6);
        }
    for (size_t e = 0; e < E; e++) assert_int_equal(plan->list.used[g * E + e], used[e]);
    free(queue);
    free(used);
}

static double cv2(const double *x, size_t n) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    for (size_t i = 0; i < n; i++) squares += (x[i] - sum / (double)n) * (x[i] - sum / (double)n);
    return squares / (double)n / (sum / (double)n * sum / (double)n);
}

static double recount_aux(const router_fixture *r, const gates *a) {
    const smoe_moe_spec *moe = &r->spec.model.moe;
    size_t E = r->plan->E;
    bool batch = moe->balance.aux_over == SMOE_AUX_BATCH;
    double total = 0, sigma = moe->choice.noise / (double)E;
    for (size_t g = 0; g < (batch ? 1 : r->plan->G); g++) {
        double importance[32] = {0}, load[32] = {0};
        size_t first = g * r->router->T, n = batch ? r->plan->tokens : group_size(r, g);
        for (size_t t = first; t < first + n; t++) {
            const double *z = a->z + t * E;
            double threshold = a->noisy[t * E + a->order[t * E + smoe_moe_k(moe, 1) - 1]];
            for (size_t e = 0; e < E; e++) importance[e] += a->p[t * E + e];
            for (size_t e = 0; e < E && sigma > 0; e++) /* 1 - Phi(u) = erfc(u / sqrt 2) / 2 */
                load[e] += erfc((threshold - z[e]) / sigma / sqrt(2)) / 2;
        }
        total += (cv2(importance, E) + (sigma > 0 ? cv2(load, E) : 0)) / 2;
    }
    return batch ? total : total / (double)r->plan->G;
}

/* The mean of log(sum exp z)^2 over tokens. */
static double recount_z(const router_fixture *r, const gates *a) {
    double total = 0;
    for (size_t t = 0; t < r->plan->tokens; t++) {
        double sum = 0;
        for (size_t e = 0; e < r->plan->E; e++) sum += exp(a->noisy[t * r->plan->E + e]);
        total += log(sum) * log(sum);
    }
    return total / (double)r->plan->tokens;
}

static const char *const tokens_keys[] = {
    "model.moe.priority=vanilla",
    "model.moe.priority=bpr model.moe.capacity=0.5",
    "model.moe.k=2 model.moe.priority=vanilla model.moe.capacity=0.75",
    "model.moe.k=2 model.moe.priority=bpr model.moe.group_images=2",
    "model.moe.k=2 model.moe.priority=bpr-sum model.moe.group_images=4 model.moe.capacity=0.5",
    "model.moe.k=3 model.moe.priority=bpr model.moe.noise=0 model.moe.capacity=0.4",
    "model.moe.k=1 model.moe.priority=vanilla model.moe.skip_patch=0.4 model.moe.capacity=2",
    "model.moe.k=2 model.moe.priority=bpr-sum model.moe.skip_patch=0.7 model.moe.noise=5",
    "model.moe.k=2 model.moe.capacity_rounding=ceil model.moe.capacity_multiple_of=4",
    "model.moe.experts=20 model.moe.k=4 model.moe.group_images=4",
    "model.moe.k=2 model.moe.group_images=1 model.moe.aux_over=batch",
    "model.moe.gate=sigmoid model.moe.aux_over=batch model.moe.noise=0",
    "model.moe.k=2 model.moe.topk=before model.moe.capacity=0.5",
    "model.moe.k=3 model.moe.topk=before model.moe.noise=0 model.moe.skip_patch=0.5",
    "model.moe.k=2 model.moe.priority=random model.moe.capacity=0.5 model.moe.group_images=2",
    "model.moe.priority=random model.moe.skip_patch=0.7 model.moe.topk=before",
    "model.moe.gate=sigmoid model.moe.k=2 model.moe.capacity=0.6",
    "model.moe.gate=sigmoid model.moe.k=3 model.moe.renormalize=true model.moe.z_weight=0.1",
    "model.moe.k=2 model.moe.renormalize=true model.moe.priority=vanilla",
    "model.moe.balance=bias model.moe.k=2 model.moe.group_images=4",
    "model.moe.balance=bias model.moe.gate=sigmoid model.moe.renormalize=true model.moe.k=2",
    "model.moe.balance=none model.moe.noise=3",
};

static void tokens_choice_recounted(void **state) {
    for (size_t i = 0; i < sizeof tokens_keys / sizeof *tokens_keys; i++)
        for (int train = 0; train < 2; train++) {
            router_fixture r;
            char keys[256];
            snprintf(keys, sizeof keys, "model.moe.router=tokens-choice %s", tokens_keys[i]);
            assert_true(router_fixture_make(&r, keys, TOKENS, IMAGES));
            router_fixture_pass(&r, IMAGES, train);
            gates a = gates_of(&r, train);
            counts c = {0};
            for (size_t g = 0; g < r.plan->G; g++) recount_group(&r, &a, g, &c);
            for (size_t e = 0; e < r.plan->E; e++) {
                assert_int_equal(r.plan->choices.chosen[e], c.chosen[e]);
                assert_int_equal(r.plan->choices.lost[e], c.lost[e]);
            }
            const smoe_plan_losses *x = &r.plan->losses;
            const smoe_moe_spec *moe = &r.spec.model.moe;
            double aux = train && moe->balance.way == SMOE_BALANCE_LOSS ? recount_aux(&r, &a) : 0;
            double z = train && moe->balance.z_weight > 0 ? recount_z(&r, &a) : 0;
            if (aux > 0) assert_true(aux > 1e-4);
            assert_close(x->aux, aux, 1e-5 * aux);
            assert_close(x->z, z, 1e-5 * z);
            assert_close(x->weighted, moe->balance.aux_weight * aux + moe->balance.z_weight * z,
                         1e-5 * (aux + z));
            for (size_t e = 0; train && e < r.router->counted; e++)
                assert_true(r.router->counts[e] == (double)c.chosen[e]);
            gates_free(&a);
            router_fixture_free(&r);
        }
}

static void experts_choice_recounted(void **state) {
    static const char *const all[] = {"", "model.moe.capacity=0.5 model.moe.group_images=2",
                                      "model.moe.group_images=4", "model.moe.capacity=9",
                                      "model.moe.experts=20 model.moe.capacity=2"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        router_fixture r;
        char keys[200];
        snprintf(keys, sizeof keys, "model.moe.router=experts-choice %s", all[i]);
        assert_true(router_fixture_make(&r, keys, TOKENS, IMAGES));
        router_fixture_pass(&r, IMAGES, true);
        gates a = gates_of(&r, true);
        size_t E = r.plan->E;
        for (size_t b = 0; b < r.plan->G * E; b++) {
            size_t g = b / E, e = b % E, n = group_size(&r, g);
            size_t room = smoe_moe_capacity(&r.spec.model.moe, 1, n, 1), at;
            if (room > n) room = n;
            ranked *list = calloc(n, sizeof *list);
            for (size_t k = 0; k < n; k++)
                list[k] = (ranked){a.g[(g * r.router->T + k) * E + e], g * r.router->T + k};
            qsort(list, n, sizeof *list, by_score);
            assert_int_equal(r.plan->list.used[b], room);
            for (size_t p = 0; p < room; p++) {
                size_t token = (size_t)r.plan->list.slot_token[b * r.plan->P + p];
                for (at = 0; at < room && list[at].token != token;) at++;
                assert_true(at < room);
                assert_close(r.plan->list.slot_weight[b * r.plan->P + p], list[at].score, 3e-6);
            }
            free(list);
        }
        for (size_t e = 0; e < E; e++) {
            size_t used = 0;
            for (size_t g = 0; g < r.plan->G; g++) used += (size_t)r.plan->list.used[g * E + e];
            assert_int_equal(r.plan->choices.chosen[e], used);
            assert_int_equal(r.plan->choices.lost[e], 0);
        }
        gates_free(&a);
        router_fixture_free(&r);
    }
}

/* A layer configured by a list equals the layer configured by a single number. */
static void lists_are_for_layers(void **state) {
#define BOTH "model.moe.layers=[0,1] model.moe.group_images=2 model.moe.router="
    static const char *const keys[][2] = {
        {BOTH "tokens-choice model.moe.k=[1,2] model.moe.capacity=[2,0.5]",
         BOTH "tokens-choice model.moe.k=2 model.moe.capacity=0.5"},
        {BOTH "experts-choice model.moe.capacity=[2,0.5]",
         BOTH "experts-choice model.moe.capacity=0.5"},
        {BOTH "soft model.moe.capacity=[2,0.5]", BOTH "soft model.moe.capacity=0.5"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        router_fixture a, b;
        assert_true(router_fixture_make(&a, keys[i][0], TOKENS, IMAGES)); /* block 1 */
        assert_true(router_fixture_make(&b, keys[i][1], TOKENS, IMAGES));
        router_fixture_pass(&a, IMAGES, true);
        router_fixture_pass(&b, IMAGES, true);
        assert_int_equal(a.plan->P, b.plan->P);
        assert_int_equal(router_fixture_bits(a.plan), router_fixture_bits(b.plan));
        router_fixture_free(&a);
        router_fixture_free(&b);
    }
}

/* ---- random priority ------------------------------------------------------------------------- */

#define LOTS                                                                   \
    "model.moe.router=tokens-choice model.moe.capacity=0.4 model.moe.noise=0 " \
    "model.moe.priority=random "

/* Training draws the order anew at every step. Evaluation does not: the order of a group depends
 * on its first image, whatever batch it is in. */
static void random_priority_repeats(void **state) {
    router_fixture r;
    assert_true(router_fixture_make(&r, LOTS, TOKENS, IMAGES));
    router_fixture_pass(&r, IMAGES, true);
    uint64_t bits = router_fixture_bits(r.plan);
    r.pass.step++;
    router_fixture_pass(&r, IMAGES, true);
    assert_int_not_equal(bits, router_fixture_bits(r.plan));
    r.pass.step = 0;
    router_fixture_pass(&r, IMAGES, false);
    size_t at = 3 * r.plan->S;
    int32_t token[64], used[8];
    assert_true(r.plan->S <= 64 && r.plan->E <= 8);
    memcpy(token, r.plan->list.slot_token + at, r.plan->S * sizeof *token);
    memcpy(used, r.plan->list.used + 3 * r.plan->E, r.plan->E * sizeof *used);
    memmove(r.x, r.x + 3 * TOKENS * r.d, TOKENS * r.d * sizeof *r.x);
    r.pass.first = 3;
    router_fixture_pass(&r, 1, false);
    for (size_t e = 0; e < r.plan->E; e++) {
        assert_int_equal(r.plan->list.used[e], used[e]);
        for (size_t p = 0; p < (size_t)used[e]; p++)
            assert_int_equal(r.plan->list.slot_token[e * r.plan->P + p] + 3 * TOKENS,
                             token[e * r.plan->P + p]);
    }
    router_fixture_free(&r);
}

/* One expert with 5 places (12 * 0.4 = 4.8) for 12 tokens: a token is placed in 5/12 of 1200
 * draws, 500, standard deviation sqrt(1200 5/12 7/12) = 17; five of them are 86. Vanilla places
 * the first five tokens in every draw. */
static void random_priority_is_uniform(void **state) {
    router_fixture r;
    size_t placed[TOKENS] = {0};
    assert_true(router_fixture_make(&r, LOTS "model.moe.experts=1", TOKENS, 1));
    for (r.pass.step = 0; r.pass.step < 1200; r.pass.step++) {
        router_fixture_pass(&r, 1, true);
        assert_int_equal(r.plan->list.placed, 5);
        for (size_t p = 0; p < 5; p++) placed[r.plan->list.slot_token[p]]++;
    }
    for (size_t t = 0; t < TOKENS; t++) assert_in_range(placed[t], 500 - 86, 500 + 86);
    router_fixture_free(&r);
}

/* ---- noise of the soft routers --------------------------------------------------------------- */

/* L = X Phi + std times the normal numbers of (seed, block, step, token), only in training. */
static void soft_noise_recounted(void **state) {
    const double std = 1.5;
    router_fixture r, plain;
    assert_true(router_fixture_make(&r,
                                    "model.moe.slots_per_expert=2 model.moe.normalize=false "
                                    "model.moe.soft_noise=1.5",
                                    TOKENS, IMAGES));
    assert_true(router_fixture_make(
        &plain, "model.moe.slots_per_expert=2 model.moe.normalize=false", TOKENS, IMAGES));
    router_fixture_pass(&r, IMAGES, false);
    router_fixture_pass(&plain, IMAGES, false);
    assert_int_equal(router_fixture_bits(r.plan), router_fixture_bits(plain.plan));
    router_fixture_pass(&r, IMAGES, true);
    const real *phi = router_fixture_tensor(&r, "phi");
    size_t S = r.plan->S;
    for (size_t g = 0; g < IMAGES; g++) {
        double l[TOKENS][8], column[8] = {0};
        assert_true(S <= 8);
        for (size_t t = 0; t < TOKENS; t++) {
            smoe_rng rng = smoe_rng_at(r.pass.seed, SMOE_RNG_NOISE, 1, r.pass.step, g * TOKENS + t);
            for (size_t s = 0; s < S; s++) {
                l[t][s] = std * smoe_rng_normal(&rng);
                for (size_t i = 0; i < r.d; i++)
                    l[t][s] += (double)r.x[(g * TOKENS + t) * r.d + i] * (double)phi[i * S + s];
                column[s] += l[t][s] = exp(l[t][s]);
            }
        }
        for (size_t t = 0; t < TOKENS; t++) {
            double row = 0;
            for (size_t s = 0; s < S; s++) row += l[t][s];
            for (size_t s = 0; s < S; s++) {
                size_t at = (g * TOKENS + t) * S + s;
                assert_close(r.plan->dense.disp[at], l[t][s] / column[s], 3e-6);
                assert_close(r.plan->dense.comb[at], l[t][s] / row, 3e-6);
            }
        }
    }
    router_fixture_free(&r);
    router_fixture_free(&plain);
}

/* ---- random routers -------------------------------------------------------------------------- */

#define RANDOM "model.moe.router=tokens-choice model.moe.capacity=9 model.moe.group_images=1 "

/* Choice routers with random scores: each token's expert is that of its largest number, weighted
 * by softmax; W and x are not used. */
static void random_scores_recounted(void **state) {
    router_fixture r;
    assert_true(router_fixture_make(&r, RANDOM "model.moe.random_layers=all", TOKENS, IMAGES));
    for (size_t i = 0; i < IMAGES * TOKENS * r.d; i++) r.x[i] = NAN;
    r.pass.first = 30;
    router_fixture_pass(&r, IMAGES, false);
    assert_int_equal(r.plan->list.placed, IMAGES * TOKENS); /* places for all tokens */
    for (size_t t = 0; t < r.plan->tokens; t++) {
        double z[64], sum = 0;
        size_t E = r.plan->E, best = 0;
        smoe_rng rng = smoe_rng_at(r.pass.seed, SMOE_RNG_SCORES, 1, 30 + t / TOKENS, t % TOKENS);
        for (size_t e = 0; e < E; e++) z[e] = smoe_rng_normal(&rng);
        for (size_t e = 0; e < E; e++) sum += exp(z[e]);
        for (size_t e = 0; e < E; e++) best = z[e] > z[best] ? e : best;
        size_t slot = (size_t)r.plan->list.slot[r.plan->list.first[t]];
        assert_int_equal(slot / r.plan->P % E, best);
        assert_close(r.plan->list.slot_weight[slot], exp(z[best]) / sum, 3e-6);
    }
    router_fixture_free(&r);
}

/* An image's scores depend on its number, whatever batch it is in; each seed has other scores. */
static void random_scores_belong_to_images(void **state) {
    router_fixture all, one;
    assert_true(router_fixture_make(&all, RANDOM "model.moe.random_layers=[1]", TOKENS, IMAGES));
    assert_true(router_fixture_make(&one, RANDOM "model.moe.random_layers=[1]", TOKENS, IMAGES));
    router_fixture_pass(&all, IMAGES, false);
    one.pass.first = 3;
    router_fixture_pass(&one, 1, false);
    size_t buffers = one.plan->S, at = 3 * buffers;
    assert_memory_equal(all.plan->list.used + 3 * all.plan->E, one.plan->list.used,
                        one.plan->E * sizeof *one.plan->list.used);
    for (size_t e = 0; e < one.plan->E; e++)
        for (size_t p = 0; p < (size_t)one.plan->list.used[e]; p++) {
            size_t slot = e * one.plan->P + p;
            assert_true(all.plan->list.slot_weight[at + slot] == one.plan->list.slot_weight[slot]);
            assert_int_equal(all.plan->list.slot_token[at + slot],
                             3 * TOKENS + (size_t)one.plan->list.slot_token[slot]);
        }
    uint64_t bits = router_fixture_bits(one.plan);
    one.pass.seed++;
    router_fixture_pass(&one, 1, false);
    assert_int_not_equal(bits, router_fixture_bits(one.plan));
    router_fixture_free(&all);
    router_fixture_free(&one);
}

/* Training ignores the setting; so does evaluation for blocks that are not named. */
static void only_named_layers_are_random(void **state) {
    static const char *const keys[] = {"", "model.moe.random_layers=all",
                                       "model.moe.random_layers=[0]"};
    uint64_t bits[3][2];
    for (size_t i = 0; i < 3; i++)
        for (int train = 0; train < 2; train++) {
            router_fixture r;
            char text[200];
            snprintf(text, sizeof text, "%s model.moe.layers=[0,1] %s", RANDOM, keys[i]);
            assert_true(router_fixture_make(&r, text, TOKENS, IMAGES));
            router_fixture_pass(&r, IMAGES, train);
            bits[i][train] = router_fixture_bits(r.plan);
            router_fixture_free(&r);
        }
    assert_int_equal(bits[0][1], bits[1][1]);
    assert_int_equal(bits[0][1], bits[2][1]);
    assert_int_equal(bits[0][0], bits[2][0]);
    assert_int_not_equal(bits[0][0], bits[1][0]);
}

/* 4 experts, 100 seeds of 60 tokens: 1500 each on average, standard deviation sqrt(6000 3/16) =
 * 33.5; five of them are 168. */
static void random_scores_are_uniform(void **state) {
    router_fixture r;
    size_t chosen[4] = {0};
    assert_true(router_fixture_make(&r, RANDOM "model.moe.experts=4 model.moe.router=random",
                                    TOKENS, IMAGES));
    for (r.pass.seed = 0; r.pass.seed < 100; r.pass.seed++) {
        router_fixture_pass(&r, IMAGES, false);
        for (size_t e = 0; e < 4; e++) chosen[e] += r.plan->choices.chosen[e];
    }
    for (size_t e = 0; e < 4; e++) assert_in_range(chosen[e], 1500 - 168, 1500 + 168);
    router_fixture_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_describe_their_routers),
        cmocka_unit_test(plans_are_lawful),
        cmocka_unit_test(same_seed_same_bits),
        cmocka_unit_test(no_noise_in_evaluation),
        cmocka_unit_test(lists_are_for_layers),
        cmocka_unit_test(random_priority_repeats),
        cmocka_unit_test(random_priority_is_uniform),
        cmocka_unit_test(soft_noise_recounted),
        cmocka_unit_test(tokens_choice_recounted),
        cmocka_unit_test(experts_choice_recounted),
        cmocka_unit_test(random_scores_recounted),
        cmocka_unit_test(random_scores_belong_to_images),
        cmocka_unit_test(only_named_layers_are_random),
        cmocka_unit_test(random_scores_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
