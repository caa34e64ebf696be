/*
 * What follows from several values of a spec together: sizes of variants, blocks with experts,
 * slots and capacities, defaults that fit the run, the reported origins, and the search path of
 * data.
 */
#include "scratch.h"
#include "spec/routers.h"
#include "spec/schema.h"
#include "specs.h"
#include "unit.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is resolved ------------------------------------------------------ */

static void variants_are_those_of_the_papers(void **state) {
    static const struct {
        const char *name;
        size_t size[4];
    } table[] = {{"Ti", {192, 12, 768, 3}},   {"S", {384, 12, 1536, 6}},
                 {"B", {768, 12, 3072, 12}},  {"L", {1024, 24, 4096, 16}},
                 {"H", {1280, 32, 5120, 16}}, {"S-vmoe", {512, 8, 2048, 8}}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[64];
        snprintf(text, sizeof text, "model: {variant: %s}", table[i].name);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        const size_t size[] = {s.model.width, s.model.depth, s.model.mlp, s.model.heads};
        assert_memory_equal(size, table[i].size, sizeof size);
        assert_int_equal(s.model.moe.layer_count, s.model.depth / 2);
        smoe_spec_free(&s);
    }
}

/* Evaluation has whole groups, whatever the batch and the number of images; other routers and dense
 * models have no groups. */
static void batches_of_evaluation_have_whole_groups(void **state) {
    static const struct {
        const char *router;
        size_t asked, images, batch;
    } table[] = {{"tokens-choice", 250, 10000, 248}, {"tokens-choice", 250, 29, 32},
                 {"tokens-choice", 250, 249, 248},   {"experts-choice", 250, 3, 8},
                 {"tokens-choice", 5, 100, 8},       {"soft", 250, 29, 29},
                 {"soft", 250, 10000, 250}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "eval: {batch_size: %zu}\nmodel: {moe: {router: %s, group_images: 8}}",
                 table[i].asked, table[i].router);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        assert_int_equal(smoe_moe_eval_batch(&s, table[i].images), table[i].batch);
        smoe_spec_free(&s);
    }
}

static void sizes_override_the_variant_s(void **state) {
    smoe_spec s = specs_good("model: {variant: B, depth: 4}", NULL, NULL, NULL);
    assert_int_equal(s.model.depth, 4);
    assert_int_equal(s.model.width, 768);
    smoe_spec_free(&s);
    /* ... if they are set equally close to the user. A variant on the command line replaces
     * sizes of the file; sizes on the command line stay. */
    s = specs_good("model: {variant: B, depth: 4, mlp: 8}", "model.variant=Ti", "model.mlp=16",
                   NULL);
    assert_int_equal(s.model.depth, 12);
    assert_int_equal(s.model.width, 192);
    assert_int_equal(s.model.mlp, 16);
    smoe_spec_free(&s);
    /* A resolved spec, which states every size, does not fix them. */
    smoe_spec small = specs_good("model: {variant: Ti}", NULL, NULL, NULL);
    char *yaml = specs_yaml(&small, false);
    s = specs_good(yaml, "model.variant=L", NULL, NULL);
    assert_int_equal(s.model.depth, 24);
    assert_int_equal(s.model.width, 1024);
    assert_int_equal(s.model.heads, 16);
    free(yaml);
    smoe_spec_free(&small);
    smoe_spec_free(&s);
    s = specs_good("model: {width: 64, depth: 2, mlp: 96, heads: 2}", NULL, NULL, NULL);
    assert_string_equal(s.model.variant, "none");
    smoe_spec_free(&s);
}

static void layers_mean_these_blocks(void **state) {
    static const struct {
        const char *layers;
        size_t depth;
        const char *map, *written;
    } cases[] = {{"none", 4, "----", "none"},
                 {"[]", 4, "----", "none"},
                 {"last-1", 4, "---X", "last-1"},
                 {"last-4", 4, "XXXX", "last-4"},
                 {"every-2", 5, "-X-X-", "every-2"},
                 {"every-1", 3, "XXX", "every-1"},
                 {"every-4", 4, "---X", "every-4"},
                 {"every-3", 7, "--X--X-", "every-3"},
                 {"[3, 0]", 4, "X--X", "[0, 3]"},
                 {"last-half", 5, "---XX", "last-2"},
                 {"last-half", 1, "X", "last-1"},
                 {"all", 3, "XXX", "all"},
                 /* V-MoE's Last-n (section 3.1): the last n even blocks, counted from 1. */
                 {"last-even-2", 8, "-----X-X", "last-even-2"},
                 {"last-even-1", 5, "---X-", "last-even-1"},
                 {"last-even-2", 24, "---------------------X-X", "last-even-2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "model: {depth: %zu, moe: {layers: %s}}", cases[i].depth,
                 cases[i].layers);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        size_t count = 0;
        for (size_t block = 0; block < cases[i].depth; block++) {
            assert_int_equal(s.model.moe.is_moe[block], cases[i].map[block] == 'X');
            count += cases[i].map[block] == 'X';
        }
        assert_false(s.model.moe.is_moe[cases[i].depth]);
        assert_int_equal(s.model.moe.layer_count, count);
        assert_string_equal(s.model.moe.layers, cases[i].written);
        smoe_spec_free(&s);
    }
    specs_wrong("model: {depth: 5, moe: {layers: last-even-3}}", NULL,
                "t:1:33: model.moe.layers: last-even-3: of 5 blocks, 2 are even");
}

/* Words count among the MoE blocks, here 1, 3, 5; a list names blocks. */
static void random_layers_are_some_with_experts(void **state) {
    static const struct {
        const char *layers, *map;
    } cases[] = {{"none", "------"},       {"all", "-X-X-X"},     {"last-2", "---X-X"},
                 {"[5, 1]", "-X---X"},     {"every-2", "---X--"}, {"last-half", "-----X"},
                 {"last-even-1", "---X--"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "model: {depth: 6, moe: {layers: every-2, router: experts-choice, random_layers: "
                 "%s}}",
                 cases[i].layers);
        smoe_spec s = specs_good(text, NULL, NULL, NULL);
        for (size_t block = 0; block < 6; block++)
            assert_int_equal(s.model.moe.random.is_random[block], cases[i].map[block] == 'X');
        smoe_spec_free(&s);
    }
#define CHOICE "model: {depth: 4, moe: {layers: [1, 3], router: tokens-choice}}"
    specs_wrong(CHOICE, "model.moe.random_layers=[2]",
                "override model.moe.random_layers=[2]: model.moe.random_layers: block 2 has no "
                "experts: see model.moe.layers");
    specs_wrong(CHOICE, "model.moe.random_layers=last-3",
                "override model.moe.random_layers=last-3: model.moe.random_layers: last-3 of 2 "
                "blocks: use last-2 at most, or last-half");
    specs_wrong("model: {moe: {router: soft}}", "model.moe.random_layers=all",
                "override model.moe.random_layers=all: model.moe.random_layers: router soft makes "
                "no choices that could be random; use tokens-choice or experts-choice");
}

static void router_random_is_tokens_choice(void **state) {
    smoe_spec s = specs_good(CHOICE, "model.moe.router=random", NULL, NULL);
    assert_string_equal(s.model.moe.router, "tokens-choice");
    assert_string_equal(s.model.moe.random.layers, "all");
    assert_true(s.model.moe.random.is_random[1] && s.model.moe.random.is_random[3] &&
                !s.model.moe.random.is_random[2]);
    smoe_spec_free(&s);
}

static void slots_follow_from_one_of_three_keys(void **state) {
    smoe_spec s = specs_good("{}", NULL, NULL, NULL);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 64), 1);
    smoe_spec_free(&s);
    s = specs_good("model: {moe: {experts: 16, total_slots: 64}}", NULL, NULL, NULL);
    assert_int_equal(s.model.moe.slots_per_expert, 0);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 64), 4);
    smoe_spec_free(&s);
    s = specs_good("model: {moe: {experts: 16, slots_per_expert: 4, total_slots: 64}}", NULL, NULL,
                   NULL);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 64), 4);
    smoe_spec_free(&s);
    /* 196 tokens * 1 / 8 experts = 24.5, half to even: 24. 196 * 1.5 / 28 = 10.5: 10; 196 * 3 /
     * 56 = 10.5. */
    s = specs_good("model: {moe: {experts: 8, slots_per_expert: 0}}", NULL, NULL, NULL);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 196), 24);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 204), 26); /* 25.5 */
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 1), 1);    /* 0.125, at least one */
    smoe_spec_free(&s);
}

/* 196 tokens among 64 experts, some of which get 4: round(196/64) = 3 would be too few. */
static void identity_without_slots_has_what_it_needs(void **state) {
    smoe_spec s = specs_good("data: {image_size: 224}\n"
                             "model: {patch_size: 16, moe: {router: identity, slots_per_expert: 0, "
                             "capacity: 0.1}}",
                             NULL, NULL, NULL);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, smoe_spec_tokens(&s)), 4);
    char *text = specs_yaml(&s, true);
    assert_non_null(strstr(text, "; an expert has 4 slots\n"));
    free(text);
    smoe_spec_free(&s);
}

static void capacity_rounds_half_to_even(void **state) {
    smoe_moe_spec moe = {
        .experts = 32, .choice.capacity = {.item = {1}}, .choice.capacity_multiple_of = 1};
    assert_int_equal(smoe_moe_capacity(&moe, 0, 784, 1), 24); /* 24.5 */
    assert_int_equal(smoe_moe_capacity(&moe, 0, 816, 1), 26); /* 25.5 */
    assert_int_equal(smoe_moe_capacity(&moe, 0, 784, 2), 49);
    assert_int_equal(smoe_moe_capacity(&moe, 0, 10, 1), 1); /* 0.3125, at least one */
    moe.choice.capacity.item[0] = 1.05;
    assert_int_equal(smoe_moe_capacity(&moe, 0, 50 * 8, 2), 26); /* 26.25 */
    moe.choice.capacity_rounding = SMOE_ROUNDING_CEIL;
    assert_int_equal(smoe_moe_capacity(&moe, 0, 50 * 8, 2), 27);
    moe.choice.capacity_multiple_of = 4;
    assert_int_equal(smoe_moe_capacity(&moe, 0, 50 * 8, 2), 28);
    moe.choice.capacity.item[0] = 1;
    assert_int_equal(smoe_moe_capacity(&moe, 0, 32 * 8, 1), 8); /* already a multiple */
}

/* 4x4 patches of two images and more; the shape of a layer by the family of its router. */
static void shapes_of_layers(void **state) {
    static const char text[] = "data: {source: shapes, image_size: 32}\n"
                               "model: {patch_size: 8, moe: {layers: all, experts: 5, k: 2, "
                               "slots_per_expert: 3, group_images: 4, capacity: 0.5}}\n"
                               "train: {batch_size: 8}\n";
    static const struct {
        const char *router;
        smoe_moe_shape x;
        size_t rest; /* P of a group of 9 tokens */
    } want[] = {
        {"soft", {1, 16, 5, 3, 15, 0, 0.5}, 3},           {"uniform", {1, 16, 5, 3, 15, 0, 0.5}, 3},
        {"identity", {1, 16, 5, 4, 20, 0, 0.5}, 2},       /* ceil(16/5), ceil(9/5) */
        {"tokens-choice", {4, 64, 5, 13, 65, 2, 0.5}, 2}, /* 2*64*0.5/5 = 12.8; 1.8 */
        {"experts-choice", {4, 64, 5, 6, 30, 1, 0.5}, 1}, /* 64*0.5/5 = 6.4; 0.9 */
        {"images-choice", {4, 64, 5, 16, 80, 2, 0.5}, 3}, /* 2*4*0.5/5 = 0.8 images; 1 */
        {"remoe", {1, 16, 5, 16, 80, 0, 0.5}, 9},         /* all tokens */
        {"hash", {1, 16, 5, 4, 20, 0, 0.5}, 2},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char router[64];
        snprintf(router, sizeof router, "model.moe.router=%s", want[i].router);
        bool fixed = smoe_router_find(want[i].router)->family == SMOE_FAMILY_FIXED;
        smoe_spec s = specs_good(text, router, fixed ? "model.moe.slots_per_expert=7" : NULL, NULL);
        const smoe_moe_shape x = smoe_moe_shape_of(&s.model.moe, 0, 16), w = want[i].x;
        if (x.images != w.images || x.T != w.T || x.E != w.E || x.P != w.P || x.S != w.S ||
            x.K != w.K || x.capacity != w.capacity)
            fail_msg("%s: %zu images, T %zu, E %zu, P %zu, S %zu, K %zu", want[i].router, x.images,
                     x.T, x.E, x.P, x.S, x.K);
        assert_int_equal(smoe_moe_places(&s.model.moe, 0, 9, 3), want[i].rest);
        smoe_spec_free(&s);
    }
    /* an expert that chooses takes no token twice; a buffer may be larger than its group */
    smoe_spec s = specs_good(text, "model.moe.capacity=9", "model.moe.router=experts-choice", NULL);
    assert_int_equal(smoe_moe_shape_of(&s.model.moe, 0, 16).P, 64);
    smoe_spec_free(&s);
    s = specs_good(text, "model.moe.capacity=9", "model.moe.router=tokens-choice", NULL);
    assert_int_equal(smoe_moe_shape_of(&s.model.moe, 0, 16).P, 230); /* 230.4 */
    smoe_spec_free(&s);
}

static void tokens_count_the_class_token(void **state) {
    smoe_spec s = specs_good("data: {image_size: 224}\nmodel: {patch_size: 16}", NULL, NULL, NULL);
    assert_int_equal(smoe_spec_tokens(&s), 196);
    s.model.head = SMOE_HEAD_TOKEN;
    assert_int_equal(smoe_spec_tokens(&s), 197);
    s.model.head = SMOE_HEAD_MAP;
    assert_int_equal(smoe_spec_tokens(&s), 196);
    smoe_spec_free(&s);
}

/* Defaults adapt to short runs and small batches; given values do not (fixtures warmup and
 * groups). */
static void defaults_fit_the_run(void **state) {
    smoe_spec s = specs_good("train: {steps: 50, batch_size: 12}", NULL, NULL, NULL);
    assert_int_equal(s.train.schedule.warmup.steps, 5);
    assert_int_equal(s.train.schedule.cooldown.steps, 10);
    assert_int_equal(s.model.moe.choice.group_images, 6);
    smoe_spec_free(&s);
    s = specs_good("train: {steps: 1}", NULL, NULL, NULL);
    assert_int_equal(s.train.schedule.warmup.steps + s.train.schedule.cooldown.steps, 0);
    smoe_spec_free(&s);
    /* A constant schedule does not use them. */
    s = specs_good("train: {steps: 5, schedule: {name: constant, warmup: 10}}", NULL, NULL, NULL);
    smoe_spec_free(&s);
}

/* Shares refer to the steps in use. A number in the file gives way to an override of the steps,
 * but not one that is set by an override too. */
static void spans_follow_the_steps(void **state) {
    const char *shares = "train: {steps: 1000, schedule: {warmup: 0.05, cooldown: 2e-1}}";
    smoe_spec s = specs_good(shares, NULL, NULL, NULL);
    assert_int_equal(s.train.schedule.warmup.steps, 50);
    assert_int_equal(s.train.schedule.cooldown.steps, 200);
    smoe_spec_free(&s);
    s = specs_good(shares, "train.steps=40", NULL, NULL);
    assert_int_equal(s.train.schedule.warmup.steps, 2);
    assert_int_equal(s.train.schedule.cooldown.steps, 8);
    assert_false(smoe_spec_shortened(&s, "train.schedule.warmup"));
    smoe_spec_free(&s);
    const char *numbers = "train: {steps: 1000, schedule: {warmup: 100, cooldown: 200}}";
    s = specs_good(numbers, "train.steps=400", NULL, NULL); /* they just fit */
    assert_int_equal(s.train.schedule.warmup.steps, 100);
    assert_int_equal(s.train.schedule.cooldown.steps, 200);
    smoe_spec_free(&s);
    s = specs_good(numbers, "train.steps=50", NULL, NULL);
    assert_int_equal(s.train.schedule.warmup.steps, 5);
    assert_int_equal(s.train.schedule.cooldown.steps, 10);
    assert_true(smoe_spec_shortened(&s, "train.schedule.warmup"));
    assert_true(smoe_spec_shortened(&s, "train.schedule.cooldown"));
    smoe_spec_free(&s);
    specs_wrong(numbers, "train.schedule.warmup=900",
                "override train.schedule.warmup=900: train.schedule.warmup: 900 steps of warm-up "
                "and 200 of cooldown do not fit in train.steps 1000: shorten them, as with "
                "train.schedule.warmup=100 train.schedule.cooldown=200, or train longer");
    specs_wrong(
        numbers, "train.schedule.warmup=1.5",
        "override train.schedule.warmup=1.5: train.schedule.warmup: expected a whole number "
        "of steps, or a share of them in (0, 1), found '1.5'");
    specs_wrong(
        numbers, "train.schedule.warmup=10%",
        "override train.schedule.warmup=10%: train.schedule.warmup: expected a whole number "
        "of steps, or a share of them in (0, 1), found '10%'");
    specs_wrong(
        "train: {schedule: {warmup: 0.7, cooldown: 0.6}}", NULL,
        "t:1:28: train.schedule.warmup: 700 steps of warm-up and 600 of cooldown do not fit "
        "in train.steps 1000: shorten them, as with train.schedule.warmup=100 "
        "train.schedule.cooldown=200, or train longer");
    /* Only rsqrt has a cooldown. */
    specs_wrong("train: {steps: 10, schedule: {name: cosine, warmup: 11}}", NULL,
                "t:1:53: train.schedule.warmup: 11 steps of warm-up do not fit in train.steps 10: "
                "shorten it, as with train.schedule.warmup=1, or train longer");
}

/* The largest that fits, and keys that only choice routers use. */
static void largest_values_that_fit(void **state) {
    static const char *const texts[] = {
        "train: {steps: 10, schedule: {name: rsqrt, warmup: 4, cooldown: 6}}",
        "train: {steps: 10, schedule: {name: cosine, warmup: 9}}",
        "model: {moe: {router: soft, group_images: 3}}\ntrain: {batch_size: 8}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        smoe_spec s = specs_good(texts[i], NULL, NULL, NULL);
        smoe_spec_free(&s);
    }
}

static void trained_models_are_not_asked_about_training(void **state) {
    smoe_spec_text text =
        specs_text("model: {moe: {router: tokens-choice, group_images: 12}}\n"
                   "train: {batch_size: 16, steps: 50, schedule: {warmup: 40, cooldown: 40}}");
    char *overrides[] = {(char *)"model.moe.k=65"}, *idle[] = {(char *)"train.batch_size=24"};
    smoe_err err;
    smoe_spec s;
    text.trained = true;
    assert_int_equal(smoe_spec_parse(&s, &text, NULL, 0, &err), 0);
    assert_int_equal(s.model.moe.choice.group_images, 12);
    assert_int_equal(s.train.batch_size, 16);
    smoe_spec_free(&s);
    assert_int_equal(smoe_spec_parse(&s, &text, overrides, 1, &err), -1);
    assert_string_equal(err.text, "override model.moe.k=65: model.moe.k: a token cannot choose 65 "
                                  "of 64 experts: use k of 64 at most");
    smoe_spec_free(&s);
    assert_int_equal(smoe_spec_parse(&s, &text, idle, 1, &err), -1);
    assert_string_equal(err.text, "override train.batch_size=24: train.batch_size: has no effect: "
                                  "it needs a model that is trained here");
    smoe_spec_free(&s);
    specs_wrong(text.text, NULL,
                "t:2:55: train.schedule.warmup: 40 steps of warm-up and 40 of cooldown do not fit "
                "in train.steps 50: shorten them, as with train.schedule.warmup=5 "
                "train.schedule.cooldown=10, or train longer\n"
                "t:1:52: model.moe.group_images: groups of 12 images do not divide "
                "the batch of 16: use groups that divide it, or a multiple of 12 images");
}

/* A list has a number for each MoE layer, here those of blocks 1 and 3. It is written back as
 * given, and a number for all layers as a number. Be = round(2 * 8 * 4 * 0.5 / 4) = 8 and
 * round(8 * 4 * 1.5 / 4) = 12. */
#define LISTED                                                                                 \
    "data: {image_size: 8}\nmodel: {depth: 4, moe: {layers: every-2, router: tokens-choice,\n" \
    "  experts: 4, k: [2, 1], capacity: [0.5, 1.5]}}"

static void numbers_for_each_layer(void **state) {
    smoe_spec s = specs_good(LISTED, NULL, NULL, NULL);
    const smoe_moe_spec *moe = &s.model.moe;
    assert_int_equal(smoe_moe_k(moe, 1), 2);
    assert_int_equal(smoe_moe_k(moe, 3), 1);
    assert_true(smoe_moe_ratio(moe, 1) == 0.5 && smoe_moe_ratio(moe, 3) == 1.5);
    assert_int_equal(smoe_moe_places(moe, 1, 32, 16), 8);
    assert_int_equal(smoe_moe_places(moe, 3, 32, 16), 12);
    char *yaml = specs_yaml(&s, true), *json = smoe_spec_json(&s);
    assert_non_null(strstr(yaml, "    k: [2, 1] "));
    assert_non_null(strstr(yaml, "    capacity: [0.5, 1.5] "));
    assert_non_null(strstr(yaml, "; a buffer has 8, 12 places\n"));
    assert_non_null(strstr(json, "\"k\":[2,1],\"capacity\":[0.5,1.5],"));
    smoe_spec again = specs_good(json, NULL, NULL, NULL);
    char *twice = smoe_spec_json(&again);
    assert_string_equal(json, twice);
    smoe_spec_free(&again);
    smoe_spec_free(&s);
    free(yaml);
    free(json);
    free(twice);

    /* 1100 needs two digits as a real, 1.1e+03, which is not read as a whole number */
    s = specs_good(LISTED, "model.moe.experts=2000", "model.moe.k=[10, 1100]", NULL);
    yaml = specs_yaml(&s, false);
    assert_non_null(strstr(yaml, "    k: [10, 1100]\n"));
    again = specs_good(yaml, NULL, NULL, NULL);
    assert_int_equal(smoe_moe_k(&again.model.moe, 3), 1100);
    smoe_spec_free(&again);
    smoe_spec_free(&s);
    free(yaml);

    /* a number replaces a list, and a list a number */
    s = specs_good(LISTED, "model.moe.k=3", "model.moe.capacity=[2, 2]", NULL);
    assert_true(smoe_moe_k(&s.model.moe, 1) == 3 && smoe_moe_k(&s.model.moe, 3) == 3);
    assert_true(smoe_moe_ratio(&s.model.moe, 3) == 2);
    json = smoe_spec_json(&s);
    assert_non_null(strstr(json, "\"k\":3,\"capacity\":[2.0,2.0],"));
    free(json);
    smoe_spec_free(&s);
    specs_wrong(LISTED, "model.moe.k=[1, 2, 4]",
                "override model.moe.k=[1, 2, 4]: model.moe.k: 3 numbers of model.moe.k for 2 MoE "
                "layers: give one for each layer, or one for all");
    specs_wrong(LISTED, "model.moe.k=[1, 5]",
                "override model.moe.k=[1, 5]: model.moe.k: a token cannot choose 5 of 4 experts: "
                "use k of 4 at most");
    specs_wrong(LISTED, "model.moe.capacity=[1, 0]",
                "override model.moe.capacity=[1, 0]: model.moe.capacity: must be in (0, 65536], "
                "found 0");
    specs_wrong(LISTED, "model.moe.capacity=[]",
                "override model.moe.capacity=[]: model.moe.capacity: has no items: give one "
                "number, or a list of them");
    specs_wrong(LISTED, "data.std=[]",
                "override data.std=[]: data.std: has no items: give one number, or a list of them");
}

#define TAUGHT                                                                 \
    "model: {depth: 2, moe: {layers: all, router: images-choice, experts: 4, " \
    "balance: superclass, superclasses: [3, 0, 0, 1, 2, 2]}}\ntrain: {steps: 10}"

static void superclasses_of_classes(void **state) {
    smoe_spec s = specs_good(TAUGHT, NULL, NULL, NULL);
    static const size_t listed[] = {3, 0, 0, 1, 2, 2},
                        consecutive[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 3};
    for (size_t c = 0; c < 6; c++)
        assert_int_equal(smoe_moe_superclass(&s.model.moe, c, 6), listed[c]);
    char *json = smoe_spec_json(&s), *yaml = specs_yaml(&s, false);
    assert_non_null(strstr(json, "\"superclasses\":[3,0,0,1,2,2],"));
    smoe_spec again = specs_good(yaml, NULL, NULL, NULL);
    char *twice = smoe_spec_json(&again);
    assert_string_equal(json, twice);
    free(json);
    free(yaml);
    free(twice);
    smoe_spec_free(&again);
    smoe_spec_free(&s);

    s = specs_good(TAUGHT, "model.moe.superclasses=consecutive", NULL, NULL);
    for (size_t c = 0; c < 10; c++) /* floor(4 c / 10) */
        assert_int_equal(smoe_moe_superclass(&s.model.moe, c, 10), consecutive[c]);
    smoe_spec_free(&s);

    /* A list may be longer than those of layers. */
    char text[1600] = "model.moe.superclasses=[0";
    for (size_t c = 1; c < 700; c++) strcat(text, ",1");
    strcat(text, "]");
    s = specs_good(TAUGHT, text, NULL, NULL);
    assert_int_equal(s.model.moe.balance.superclasses.count, 700);
    assert_int_equal(smoe_moe_superclass(&s.model.moe, 699, 700), 1);
    smoe_spec_free(&s);

    specs_wrong(TAUGHT, "model.moe.superclasses=[0, 4]",
                "override model.moe.superclasses=[0, 4]: model.moe.superclasses: class 1 has "
                "super-class 4, but 4 experts have only 0 to 3");
    specs_wrong(TAUGHT, "model.moe.superclasses=[]",
                "override model.moe.superclasses=[]: model.moe.superclasses: has no items");
    specs_wrong(TAUGHT, "model.moe.superclasses=[0.5]",
                "override model.moe.superclasses=[0.5]: model.moe.superclasses: expected a whole "
                "number, found '0.5'");
    specs_wrong(TAUGHT, "model.moe.superclasses=some",
                "override model.moe.superclasses=some: model.moe.superclasses: expected "
                "consecutive | list of integers in [0, 65535], found 'some'");
    specs_wrong(TAUGHT, "model.moe.router=tokens-choice",
                "override model.moe.router=tokens-choice: model.moe.router: router tokens-choice "
                "chooses for each token, which has no super-class: use router images-choice, or "
                "balance loss");
    specs_wrong(TAUGHT, "train.loss=contrastive",
                "override train.loss=contrastive: train.loss: captions have no super-classes: use "
                "balance loss, or train.loss softmax");
}

static void origins_are_told(void **state) {
    smoe_spec s = specs_good("seed: 7\nmodel: {variant: Ti}\ntrain: {steps: 10}",
                             "train.batch_size=16", "model.moe.router=tokens-choice", NULL);
    char *text = specs_yaml(&s, true);
    static const char *const lines[] = {
        "seed: 7                                 # t:1:7\n",
        "  width: 192                            # variant Ti\n",
        "  patch_size: 4                         # default\n",
        "  batch_size: 16                        # override\n",
        "    warmup: 1                           # default, fitted to other keys\n",
        /* 8 images of 64 tokens, K = 1, C = 1, 64 experts: 8 places */
        "    capacity: 1                         # default; a buffer has 8 places\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("no line '%s' in\n%s", lines[i], text);
    free(text);
    smoe_spec_free(&s);
    /* 2 images of 4 tokens: 8 * 2.5 / 2 = 10 places, but an expert takes each token at most once */
    s = specs_good("data: {image_size: 8}\n"
                   "model: {moe: {router: experts-choice, experts: 2, group_images: 2}}",
                   "model.moe.capacity=2.5", NULL, NULL);
    text = specs_yaml(&s, true);
    assert_non_null(strstr(text, "override; a buffer has 8 places\n"));
    free(text);
    smoe_spec_free(&s);
}

/* ---- data paths ------------------------------------------------------------ */

/* DIR/specs/run.yaml beside DIR/specs/near, DIR/store/far, DIR/cwd/here; the current folder is
 * DIR/cwd. */
typedef struct place {
    scratch scratch;
    char old[PATH_MAX];
} place;

static char *at(const place *p, const char *name) {
    char path[SCRATCH_PATH];
    char *found = realpath(scratch_path(&p->scratch, path, name), NULL);
    assert_non_null(found);
    return found;
}

static int place_setup(void **state) {
    static const char *const folders[] = {"specs", "store", "cwd"};
    static const char *const files[] = {"specs/run.yaml", "specs/near", "store/far", "cwd/here"};
    static const char text[] = "data: {source: idx, path: near}";
    char path[SCRATCH_PATH];
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    scratch_make(&p->scratch);
    assert_non_null(getcwd(p->old, sizeof p->old));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(mkdir(scratch_path(&p->scratch, path, folders[i]), 0700), 0);
    for (size_t i = 0; i < 4; i++)
        scratch_write(scratch_path(&p->scratch, path, files[i]), text, sizeof text - 1);
    unsetenv("SMOE_DATA");
    *state = p;
    return chdir(scratch_path(&p->scratch, path, "cwd"));
}

static int place_teardown(void **state) {
    place *p = *state;
    unsetenv("SMOE_DATA");
    int status = chdir(p->old);
    scratch_remove(&p->scratch);
    free(p);
    return status;
}

/* The path found for the spec DIR/specs/run.yaml with this override, relative to DIR; or the
 * message. */
static void expect_path(const place *p, const char *assign, const char *found,
                        const char *portable) {
    char *file = at(p, "specs/run.yaml"), *expected = found ? at(p, found) : NULL, *path;
    char *overrides[] = {(char *)assign};
    smoe_err err;
    smoe_spec spec;
    assert_int_equal(smoe_spec_read(&spec, file, overrides, assign != NULL, &err), 0);
    int status = smoe_spec_path(&spec, "data.path", &path, &err);
    assert_int_equal(status, found ? 0 : -1);
    if (found) assert_string_equal(path, expected);
    if (!found) assert_int_equal(err.code, SMOE_DATA);
    free(path);
    char *kept, *absolute = *portable == '@' ? at(p, portable + 1) : strdup(portable);
    kept = smoe_path_portable(&spec, &smoe_schema[smoe_schema_find("data.path")]);
    assert_string_equal(kept, absolute);
    free(absolute);
    free(kept);
    free(expected);
    free(file);
    smoe_spec_free(&spec);
}

static void data_is_looked_for_in_this_order(void **state) {
    place *p = *state;
    expect_path(p, NULL, "specs/near", "@specs/near");         /* beside the spec */
    expect_path(p, "data.path=here", "cwd/here", "@cwd/here"); /* an override: beside the caller */
    expect_path(p, "data.path=near", NULL, "near");            /* ... and not beside the spec */
    expect_path(p, "data.path=../specs/near", "specs/near", "@specs/near");
    expect_path(p, "data.path=far", NULL, "far");
    char *list = smoe_text_format("/nowhere::%s/store:%s/specs", p->scratch.dir, p->scratch.dir);
    setenv("SMOE_DATA", list, 1);
    expect_path(p, "data.path=far", "store/far", "far"); /* a name is kept */
    expect_path(p, "data.path=near", "specs/near", "near");
    free(list);
}

static void a_missing_path_names_the_places(void **state) {
    place *p = *state;
    smoe_err err;
    char *path, *folder = at(p, "specs");
    smoe_spec s;
    static const char text[] = "data: {source: idx, path: gone, classes: 10}";
    assert_int_equal(
        smoe_spec_parse(&s, &(smoe_spec_text){.text = text, .label = "t", .folder = folder}, NULL,
                        0, &err),
        0);
    setenv("SMOE_DATA", "/x:/y", 1);
    assert_int_equal(smoe_spec_path(&s, "data.path", &path, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    char *message =
        smoe_text_format("data.path: gone was not found; tried %s/gone, /x/gone, /y/gone", folder);
    assert_string_equal(err.text, message);
    free(message);
    unsetenv("SMOE_DATA");
    smoe_spec_free(&s);
    s = specs_good("data: {source: idx, path: /gone/for/good}", NULL, NULL, NULL);
    assert_int_equal(smoe_spec_path(&s, "data.path", &path, &err), -1);
    assert_string_equal(
        err.text,
        "data.path: /gone/for/good does not exist; set data.path=PATH to where it is now");
    smoe_spec_free(&s);
    s = specs_good("data: {source: idx, path: ~/photos}", NULL, NULL, NULL);
    assert_int_equal(smoe_spec_path(&s, "data.path", &path, &err), -1);
    assert_non_null(strstr(err.text, "; write the home folder in place of ~"));
    smoe_spec_free(&s);
    s = specs_good("data: {source: idx, path: 'https://example.org/a.gz'}", NULL, NULL, NULL);
    assert_int_equal(smoe_spec_path(&s, "data.path", &path, &err), -1);
    assert_non_null(strstr(err.text, "; only files are read: download it first"));
    smoe_spec_free(&s);
    s = specs_good("data: {source: idx, classes: 10}", NULL, NULL, NULL);
    assert_int_equal(smoe_spec_path(&s, "data.path", &path, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    smoe_spec_free(&s);
    free(folder);
}

/* A resolved spec in another folder still finds its data. */
static void a_resolved_spec_finds_its_data_from_anywhere(void **state) {
    place *p = *state;
    char *file = at(p, "specs/run.yaml"), *expected = at(p, "specs/near"), *path;
    smoe_err err;
    smoe_spec s, again;
    assert_int_equal(smoe_spec_read(&s, file, NULL, 0, &err), 0);
    char *json = smoe_spec_json(&s);
    assert_int_equal(smoe_spec_parse(&again,
                                     &(smoe_spec_text){.text = json, .label = "t", .folder = "/"},
                                     NULL, 0, &err),
                     0);
    assert_int_equal(smoe_spec_path(&again, "data.path", &path, &err), 0);
    assert_string_equal(path, expected);
    free(path);
    free(json);
    free(file);
    free(expected);
    smoe_spec_free(&s);
    smoe_spec_free(&again);
}

/* ---- groups and profiles --------------------------------------------------------------------- */

#define GROUPS "train: {optimizer: {groups: "

/* All spellings of a list mean the same; what is written is read back, as YAML and JSON. */
static void groups_read_back(void **state) {
    static const char right[] =
        "[{match: \"*.phi\", lr: 0.1, decay: 0}, {match: \"a\\\\b\\\"\", frozen: true}]";
    static const char flow[] = "train.optimizer.groups=[{\"decay\": 0, match: '*.phi', lr: 1e-1},"
                               "{frozen: on, match: 'a\\b\"'}]";
    smoe_spec s = specs_good("{}", flow, NULL, NULL);
    const smoe_groups *groups = &s.train.optimizer.groups;
    assert_int_equal(groups->count, 2);
    assert_string_equal(groups->group[1].match, "a\\b\"");
    assert_true(groups->group[0].lr == 0.1 && groups->group[0].decay == 0 &&
                !groups->group[0].frozen);
    assert_true(groups->group[1].lr == 1 && groups->group[1].decay < 0 && groups->group[1].frozen);
    char *yaml = specs_yaml(&s, false), *json = smoe_spec_json(&s);
    if (!strstr(yaml, right)) fail_msg("%s", yaml);
    for (int i = 0; i < 2; i++) {
        smoe_spec again = specs_good(i ? json : yaml, NULL, NULL, NULL);
        char *back = specs_yaml(&again, false);
        assert_string_equal(back, yaml);
        free(back);
        smoe_spec_free(&again);
    }
    free(yaml);
    free(json);
    smoe_spec_free(&s);
    s = specs_good(GROUPS "[{match: a}]}}", "train.optimizer.groups=[]", NULL, NULL);
    assert_int_equal(s.train.optimizer.groups.count, 0); /* replaced as a whole */
    smoe_spec_free(&s);
}

/* All digits of a number in a list are kept. */
static void groups_keep_their_digits(void **state) {
    smoe_spec s = specs_good(GROUPS "[{match: a, decay: 0.12345678901234567}]}}", NULL, NULL, NULL);
    char *json = smoe_spec_json(&s);
    smoe_spec again = specs_good(json, NULL, NULL, NULL);
    assert_true(again.train.optimizer.groups.group[0].decay == 0.12345678901234567);
    free(json);
    smoe_spec_free(&s);
    smoe_spec_free(&again);
}

static void numbers_or_words(void **state) {
    smoe_spec s = specs_good("model: {moe: {phi_std: 0.5, gate_std: lecun, scale_init: sqrt_d}}",
                             NULL, NULL, NULL);
    assert_true(s.model.moe.soft.phi_std == 0.5 && s.model.moe.choice.gate_std == SMOE_WORD &&
                s.model.moe.soft.scale_init == SMOE_WORD);
    char *yaml = specs_yaml(&s, false);
    assert_non_null(strstr(yaml, "phi_std: 0.5\n"));
    assert_non_null(strstr(yaml, "gate_std: lecun\n"));
    assert_non_null(strstr(yaml, "scale_init: sqrt_d\n"));
    free(yaml);
    smoe_spec_free(&s);
}

static smoe_spec profiled(const char *text, const char *profile, const char *assign) {
    smoe_spec s;
    smoe_err err;
    smoe_spec_text from = specs_text(text);
    char *overrides[] = {(char *)assign};
    from.profile = profile;
    if (smoe_spec_parse(&s, &from, overrides, assign != NULL, &err)) fail_msg("%s", err.text);
    return s;
}

/* Default, profile, file, command line; and read again without the profile. */
static void a_profile_stands_before_the_file(void **state) {
    smoe_spec s = profiled("model: {moe: {router: experts-choice, capacity_rounding: round}}",
                           "vmoe", "model.moe.capacity_multiple_of=2");
    assert_int_equal(s.model.moe.soft.l2_eps, SMOE_L2_VMOE);
    assert_int_equal(s.model.moe.choice.capacity_rounding, SMOE_ROUNDING_ROUND);
    assert_int_equal(s.model.moe.choice.capacity_multiple_of, 2);
    assert_string_equal(s.train.optimizer.groups.group[0].match, "*.router.scale");
    char *told = specs_yaml(&s, true), *yaml = specs_yaml(&s, false);
    assert_non_null(strstr(told, "# profile vmoe\n"));
    smoe_spec again = specs_good(yaml, NULL, NULL, NULL);
    char *back = specs_yaml(&again, false);
    assert_string_equal(back, yaml);
    free(told);
    free(yaml);
    free(back);
    smoe_spec_free(&s);
    smoe_spec_free(&again);
    s = profiled("train: {optimizer: {groups: []}, batch_size: 12}", "paper", NULL);
    assert_int_equal(s.model.moe.choice.group_images, 6); /* adapted, as a default is */
    smoe_spec_free(&s);
    smoe_spec_text from = specs_text("{}");
    smoe_err err;
    from.profile = "vmoo";
    assert_int_equal(smoe_spec_parse(&s, &from, NULL, 0, &err), -1);
    assert_string_equal(err.text, "no profile vmoo");
    smoe_spec_free(&s);
}

/* Every profile gives every key once, with a valid value; the page has them as a table. */
static void profiles_are_whole(void **state) {
    char *page = scratch_read("man/smoe-spec.5", NULL);
    for (size_t i = 0; i < SMOE_PROFILES; i += 2) {
        const smoe_profile_entry *paper = &smoe_profiles[i], *vmoe = paper + 1;
        assert_string_equal(paper->profile, "paper");
        assert_string_equal(vmoe->profile, "vmoe");
        assert_string_equal(paper->key, vmoe->key);
        assert_true(smoe_schema_find(paper->key) >= 0 && *paper->source && *vmoe->source);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(smoe_profiles[k].key, paper->key);
        bool fits = strlen(vmoe->value) <= 21; /* else it has a line of its own */
        char *line = smoe_text_format(fits ? "\n%-31s %-12s %s\n" : "\n%-31s %s\n%60s\n",
                                      paper->key, paper->value, vmoe->value);
        if (!strstr(page, line)) fail_msg("smoe-spec.5 lacks the line%s", line);
        free(line);
    }
    free(page);
    static const char *const names[] = {"paper", "vmoe"};
    for (size_t k = 0; k < 2; k++) {
        smoe_spec s = profiled("{}", names[k], NULL);
        for (size_t i = k; i < SMOE_PROFILES; i += 2)
            assert_int_equal(s.origin[smoe_schema_find(smoe_profiles[i].key)].kind,
                             SMOE_FROM_PROFILE);
        smoe_spec_free(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_are_those_of_the_papers),
        cmocka_unit_test(batches_of_evaluation_have_whole_groups),
        cmocka_unit_test(sizes_override_the_variant_s),
        cmocka_unit_test(layers_mean_these_blocks),
        cmocka_unit_test(random_layers_are_some_with_experts),
        cmocka_unit_test(router_random_is_tokens_choice),
        cmocka_unit_test(slots_follow_from_one_of_three_keys),
        cmocka_unit_test(identity_without_slots_has_what_it_needs),
        cmocka_unit_test(capacity_rounds_half_to_even),
        cmocka_unit_test(shapes_of_layers),
        cmocka_unit_test(tokens_count_the_class_token),
        cmocka_unit_test(defaults_fit_the_run),
        cmocka_unit_test(spans_follow_the_steps),
        cmocka_unit_test(largest_values_that_fit),
        cmocka_unit_test(trained_models_are_not_asked_about_training),
        cmocka_unit_test(superclasses_of_classes),
        cmocka_unit_test(origins_are_told),
        cmocka_unit_test(groups_read_back),
        cmocka_unit_test(groups_keep_their_digits),
        cmocka_unit_test(numbers_or_words),
        cmocka_unit_test(a_profile_stands_before_the_file),
        cmocka_unit_test(profiles_are_whole),
        cmocka_unit_test(numbers_for_each_layer),
        unit_test_with(data_is_looked_for_in_this_order, place),
        unit_test_with(a_missing_path_names_the_places, place),
        unit_test_with(a_resolved_spec_finds_its_data_from_anywhere, place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
