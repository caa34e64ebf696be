/* Settings without effect: entries of rules.def, and the remarks about them, with their places. */
#include "specs.h"
#include "spec/routers.h"
#include "spec/rules.h"
#include "spec/schema.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#define SMALL "model: {width: 8, depth: 2, mlp: 8, heads: 2, moe: {experts: 4}}\n"

/* Names that no key has would never be refused, and words that nothing knows never hold. */
static void rules_name_keys(void **state) {
    smoe_spec s = specs_good("{}", NULL, NULL, NULL);
    char name[SMOE_KEY_SIZE], others[200], called[SMOE_RULE_WORD], *rest, *word;
    for (size_t i = 0; i < smoe_spec_rule_count; i++) {
        const smoe_rule *rule = &smoe_spec_rules[i];
        for (const char *names = rule->names; smoe_text_next(&names, ' ', name, sizeof name);)
            if (rule->relation != SMOE_RULE_INSTEAD && smoe_schema_find(name) < 0 &&
                smoe_schema_section(name) < 0)
                fail_msg("rules.def names %s, which is no key", name);
        snprintf(others, sizeof others, "%s", rule->others);
        for (rest = others; (word = strsep(&rest, " +"));) {
            *called = '\0';
            smoe_spec_ask(&s, word, called);
            if (*word && !*called)
                fail_msg("rules.def has the condition %s, which nothing knows", word);
        }
    }
    smoe_spec_free(&s);
}

/* Whether an entry, or the keys of a router, say when a key acts. */
static bool is_covered(int entry) {
    static const char section[] = "model.moe.";
    const char *key = smoe_schema[entry].key;
    for (size_t i = 0; i < smoe_spec_rule_count; i++)
        if (smoe_spec_rules[i].relation != SMOE_RULE_INSTEAD &&
            smoe_rule_names(&smoe_spec_rules[i], key))
            return true;
    for (size_t r = 0; !strncmp(key, section, sizeof section - 1) && r < SMOE_ROUTERS; r++)
        if (smoe_text_has_word(smoe_routers[r].keys, ' ', key + sizeof section - 1)) return true;
    return false;
}

/* Each key must state when it has an effect. */
static void every_key_has_a_row(void **state) {
    for (int i = 0; i < (int)SMOE_SCHEMA_COUNT; i++)
        if (!is_covered(i))
            fail_msg("no entry of rules.def, and no router, says when %s acts", smoe_schema[i].key);
}

/* A spec with which an override has an effect, and one with which it has none. */
static void each_condition_has_two_sides(void **state) {
    static const struct {
        const char *acts, *idle, *assign, *why;
    } rows[] = {
        {"data: {source: idx}", "{}", "data.path=x", "it needs a data.source that reads files"},
        {"data: {source: idx, path: x}", "{}", "data.cache_mb=3",
         "it needs a data.source that reads files"},
        {"{}", "data: {source: idx, path: x}", "data.test_size=30",
         "it needs a data.source that is generated"},
        {"{}", "data: {limit: 20}", "data.test_size=30",
         "it needs a data.limit of 0 or at least as large; data.train_limit limits the training "
         "images alone"},
        {"{}", "data: {limit: 20}", "data.train_limit=20",
         "it needs a data.limit of 0 or a larger one"},
        {"{}", "data: {source: facts}", "data.shapes.size=1.1", "it needs data.source shapes"},
        {"data: {source: facts}", "{}", "data.facts.entities=200", "it needs data.source facts"},
        {"data: {source: facts}", "data: {source: facts, facts: {exponent: 0}}",
         "data.facts.offset=2", "it needs data.facts.exponent above 0"},
        {"eval: {fewshot: {shots: [1], data: {source: facts}}}",
         "eval: {fewshot: {shots: [], data: {source: facts}}}", "data.facts.entities=200",
         "it needs data.source facts"},
        {"{data: {source: webdataset, path: x}, train: {loss: contrastive}}",
         "data: {source: webdataset, path: x}", "data.caption=json.caption",
         "it needs data.source webdataset and train.loss contrastive or contrastive-sigmoid"},
        {"data: {source: webdataset, path: x}", "{}", "data.shuffle_buffer=9",
         "it needs data.source webdataset"},
        {"data: {source: webdataset, path: x}", "data: {source: webdataset, path: x, labels: y}",
         "data.label=json.id", "it needs data.source webdataset and no data.labels"},
        {"data: {augment: {randaugment: {n: 2}}}", "{}", "data.augment.randaugment.m=3",
         "it needs data.augment.randaugment.n above 0"},
        {"model: {qk_norm: true}", "{}", "model.qk_norm_form=vmoe", "it needs model.qk_norm true"},
        {"{}", "model: {moe: {normalize: false}}", "model.moe.l2_eps=vmoe",
         "it needs model.moe.normalize true"},
        {"model: {moe: {slots_per_expert: 0}}", "{}", "model.moe.capacity=2",
         "it needs slots_per_expert 0 and total_slots 0, or a router that chooses"},
        {"{}", "model: {moe: {layers: none}}", "model.moe.experts=8", "model.moe.layers is none"},
        {"model: {moe: {router: tokens-choice}}", "{}", "model.moe.k=2",
         "router soft does not use it"},
        {"{}", "train: {optimizer: {name: sgd}}", "train.optimizer.beta1=0.5",
         "it needs train.optimizer.name adam or adafactor"},
        {"train: {optimizer: {name: sgd}}", "{}", "train.optimizer.momentum=0.5",
         "it needs train.optimizer.name sgd"},
        {"{}", "train: {schedule: {name: constant}}", "train.schedule.warmup=9",
         "it needs a train.schedule.name that is not constant"},
        {"{}", "train: {schedule: {name: cosine}}", "train.schedule.cooldown=9",
         "it needs train.schedule.name rsqrt"},
        {"{}", "train: {schedule: {name: cosine}}", "train.schedule.timescale=9",
         "it needs train.schedule.name rsqrt"},
        {"{}", "train: {loss: contrastive}", "train.optimizer.head_weight_decay=1",
         "it needs train.loss softmax or sigmoid"},
        {"eval: {fewshot: {shots: [1]}}", "{}", "eval.fewshot.seeds=2",
         "it needs eval.fewshot.shots"},
        {"eval: {fewshot: {shots: [1], data: {source: idx, path: x}}}", "{}",
         "eval.fewshot.data.path=y", "it needs an eval.fewshot.data.source that reads files"},
        {"eval: {fewshot: {shots: [1], data: {source: facts}}}", "eval: {fewshot: {shots: [1]}}",
         "eval.fewshot.data.limit=9", "it needs an eval.fewshot.data.source of its own"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char message[400];
        smoe_spec s = specs_good(rows[i].acts, rows[i].assign, NULL, NULL);
        smoe_spec_free(&s);
        snprintf(message, sizeof message, "override %s: %.*s: has no effect: %s", rows[i].assign,
                 (int)strcspn(rows[i].assign, "="), rows[i].assign, rows[i].why);
        specs_wrong(rows[i].idle, rows[i].assign, message);
    }
}

/* In a file it is not an error; on request it is reported, with its place. */
static void a_file_is_remarked_on(void **state) {
    smoe_spec s =
        specs_good(SMALL "train:\n  optimizer: {momentum: 0.5, lr: 1}\n", NULL, NULL, NULL);
    smoe_idle idle;
    size_t at = smoe_spec_idle(&s, 0, &idle);
    assert_int_not_equal(at, 0);
    assert_string_equal(idle.key, "train.optimizer.momentum");
    assert_string_equal(idle.why, "it needs train.optimizer.name sgd");
    assert_false(idle.overridden);
    assert_int_equal(idle.line, 3);
    assert_int_equal(idle.column, 25);
    assert_int_equal(smoe_spec_idle(&s, at, &idle), 0);
    smoe_spec_free(&s);
}

/* A variant has no effect if all four sizes are given. */
static void a_variant_beside_all_sizes(void **state) {
    smoe_idle idle;
    smoe_spec s =
        specs_good("model: {variant: S, width: 6, depth: 2, mlp: 8, heads: 2}", NULL, NULL, NULL);
    assert_int_not_equal(smoe_spec_idle(&s, 0, &idle), 0);
    assert_string_equal(idle.key, "model.variant");
    smoe_spec_free(&s);
    s = specs_good("model: {variant: S, width: 6, depth: 2, mlp: 8}", NULL, NULL, NULL);
    assert_int_equal(smoe_spec_idle(&s, 0, &idle), 0);
    smoe_spec_free(&s);
}

/* A resolved spec states every key, so it has no remarks. Settings added to it count. */
static void a_resolved_spec_has_no_remarks(void **state) {
    smoe_idle idle;
    smoe_spec s = specs_good(SMALL "train: {optimizer: {momentum: 0.5}}\n", NULL, NULL, NULL);
    char *yaml = specs_yaml(&s, false);
    smoe_spec again = specs_good(yaml, NULL, NULL, NULL);
    assert_int_equal(smoe_spec_idle(&again, 0, &idle), 0);
    smoe_spec_free(&again);
    again = specs_good(yaml, "model.variant=Ti", NULL, NULL);
    assert_int_equal(smoe_spec_idle(&again, 0, &idle), 0);
    specs_wrong(yaml, "train.optimizer.momentum=0.25",
                "override train.optimizer.momentum=0.25: train.optimizer.momentum: has no effect: "
                "it needs train.optimizer.name sgd");
    free(yaml);
    smoe_spec_free(&again);
    smoe_spec_free(&s);
}

/* Of the two numbers of slots the one set closer to the user counts; the other gets a remark. */
static void the_closer_number_of_slots_counts(void **state) {
    smoe_idle idle;
    smoe_spec s = specs_good("model: {moe: {experts: 4, slots_per_expert: 2}}",
                             "model.moe.total_slots=16", NULL, NULL);
    assert_int_equal(s.model.moe.slots_per_expert, 0);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 64), 4);
    assert_int_not_equal(smoe_spec_idle(&s, 0, &idle), 0);
    assert_string_equal(idle.key, "model.moe.slots_per_expert");
    assert_string_equal(idle.why, "model.moe.total_slots on the command line replaces it");
    assert_int_equal(idle.column, 45);
    smoe_spec_free(&s);
    s = specs_good("model: {moe: {experts: 4, total_slots: 16}}", "model.moe.slots_per_expert=2",
                   NULL, NULL);
    assert_int_equal(s.model.moe.total_slots, 0);
    assert_int_equal(smoe_moe_slots_per_expert(&s.model.moe, 0, 64), 2);
    smoe_spec_free(&s);
    /* equally close, they must agree: tests/spec/slots-disagree.yaml, overrides-clash.yaml */
    s = specs_good("model: {moe: {experts: 4, total_slots: 16, slots_per_expert: 4}}", NULL, NULL,
                   NULL);
    assert_int_equal(smoe_spec_idle(&s, 0, &idle), 0);
    smoe_spec_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_name_keys),
        cmocka_unit_test(every_key_has_a_row),
        cmocka_unit_test(each_condition_has_two_sides),
        cmocka_unit_test(a_file_is_remarked_on),
        cmocka_unit_test(a_variant_beside_all_sizes),
        cmocka_unit_test(a_resolved_spec_has_no_remarks),
        cmocka_unit_test(the_closer_number_of_slots_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
