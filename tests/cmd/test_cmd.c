/* The parts of the program other than its commands: the parser of the command line, times. tests/cli/ has the rest. */
#include "opt.h"
#include "cmd.h"
#include "progress.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Parses `words`, a command line with single blanks between words, for a command. The caller
 * frees the result. */
static int parse(smoe_options *options, const char *command, const char *words, smoe_err *err) {
    static char text[256];
    static char *argv[32];
    int argc = 0;
    snprintf(text, sizeof text, "%s %s", command, words);
    for (char *rest = text, *word; (word = strsep(&rest, " "));)
        if (*word) argv[argc++] = word;
    argv[argc] = NULL;
    *err = (smoe_err){0};
    return smoe_options_parse(options, smoe_command_find(command, err), argc, argv, err);
}

static void test_any_order(void **state) {
    static const char *const same[] = {
        "-q -o dir spec.yaml seed=1 train.steps=5 -j3",
        "spec.yaml seed=1 -j 3 train.steps=5 --out=dir --quiet",
        "seed=1 train.steps=5 -qj3 -odir -- spec.yaml",
        "--threads 7 seed=1 --out dir spec.yaml --threads 3 train.steps=5 --quiet",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        smoe_options options;
        smoe_err err;
        assert_int_equal(parse(&options, "train", same[i], &err), 0);
        assert_int_equal(options.args, 1);
        assert_string_equal(options.arg[0], "spec.yaml");
        assert_int_equal(options.overrides, 2);
        assert_string_equal(options.assign[0], "seed=1");
        assert_string_equal(options.assign[1], "train.steps=5");
        assert_string_equal(options.out, "dir");
        assert_int_equal(options.threads, 3);
        assert_true(options.quiet);
        assert_false(options.verbose || options.json || options.resume || options.force);
        smoe_options_free(&options);
    }
}

static void test_what_is_an_override(void **state) {
    smoe_options options;
    smoe_err err;
    assert_int_equal(parse(&options, "eval", "a.b_c2=x=y =x ./a=b A=b 2=3 a/b=c key=", &err), 0);
    assert_int_equal(options.overrides, 2);
    assert_string_equal(options.assign[0], "a.b_c2=x=y");
    assert_string_equal(options.assign[1], "key=");
    assert_int_equal(options.args, 5);
    smoe_options_free(&options);
}

static void test_defaults_are_set(void **state) {
    smoe_options options;
    smoe_err err;
    assert_int_equal(parse(&options, "eval", "", &err), 0);
    assert_string_equal(options.which, "latest");
    assert_string_equal(options.color, "auto");
    assert_null(options.logits);
    assert_int_equal(options.threads, 0);
    smoe_options_free(&options);
}

/* The commands that a row names exist, and take the option. */
static void check_names(const smoe_option *row) {
    for (size_t i = 0; i < 1 + sizeof row->help_in / sizeof *row->help_in; i++) {
        const char *names = i ? row->help_in[i - 1].commands : row->commands;
        char name[40];
        while (names && smoe_text_next(&names, ' ', name, sizeof name)) {
            const smoe_command *command = smoe_command_find(name, NULL);
            if (!command) fail_msg("--%s: no command %s", row->name, name);
            assert_true(smoe_option_applies(row, command));
        }
    }
}

/* Every row is found by its name, and by its letter, which no other row has. */
static void test_table_is_sound(void **state) {
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *a = &smoe_option_table[i];
        assert_true((a->kind == SMOE_OPT_FLAG) == (!a->argument && !a->choices));
        assert_true(!a->argument || !a->choices);
        assert_true(a->name && a->help);
        check_names(a);
        bool taken = smoe_option_applies(a, NULL);
        for (size_t c = 0; c < smoe_command_count; c++)
            taken = taken || smoe_option_applies(a, &smoe_commands[c]);
        assert_true(taken);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(a->name, smoe_option_table[j].name);
            assert_true(!a->letter || a->letter != smoe_option_table[j].letter);
        }
    }
}

/* ---- rules.def ------------------------------------------------------------------------------- */

/* A command line with an option and the options among "status+json"; *state is the state among
 * them. False if the command takes one of the options not at all. */
static bool line_of(char *line, size_t size, const smoe_command *command, const char *option,
                    const char *words, const char **state) {
    char list[SMOE_RULE_WORD], *rest = list, *word;
    snprintf(line, size, "spec.yaml");
    snprintf(list, sizeof list, "%s%s%s", option, *words ? "+" : "", words);
    *state = NULL;
    while ((word = strsep(&rest, "+"))) {
        const smoe_option *entry = NULL;
        for (size_t i = 0; i < smoe_option_count; i++)
            if (!strcmp(smoe_option_table[i].name, word)) entry = &smoe_option_table[i];
        if (!entry) *state = strstr(words, word); /* the last word of the text */
        if (!entry) continue;
        if (!smoe_option_applies(entry, command)) return false;
        size_t used = strlen(line);
        char value[20];
        snprintf(value, sizeof value, "%s", entry->kind == SMOE_OPT_FLAG ? "" : "1");
        if (entry->choices)
            snprintf(value, sizeof value, "%.*s", (int)strcspn(entry->choices, "|"),
                     entry->choices);
        snprintf(line + used, size - used, " --%s%s%s", word, *value ? "=" : "", value);
    }
    return true;
}

/* The answer to such a command line, as a message; "" when it is accepted. */
static void answer(char *text, size_t size, const smoe_command *command, const char *option,
                   const char *words) {
    char line[200];
    const char *state;
    smoe_options options;
    smoe_err err;
    if (!line_of(line, sizeof line, command, option, words, &state))
        fail_msg("rules.def: smoe %s does not take --%s or %s", command->name, option, words);
    if (parse(&options, command->name, line, &err)) fail_msg("%s: %s", line, err.text);
    int status = smoe_options_check(&options, state, &err);
    assert_int_equal(status, err.code == SMOE_USAGE ? -1 : 0);
    snprintf(text, size, "%s", status ? err.text : "");
    smoe_options_free(&options);
}

/* One option of a rule for one command: refused, or accepted, with each of the others. */
static void check_rule(const smoe_rule *rule, const smoe_command *command, const char *option) {
    char refused[80], text[sizeof((smoe_err *)0)->text], others[200], *rest = others, *words;
    bool needs = rule->relation == SMOE_RULE_NEEDS;
    snprintf(refused, sizeof refused, "--%s %s", option,
             needs ? "needs --" : "cannot be used with ");
    answer(text, sizeof text, command, option, "");
    bool never = !strcmp(rule->others, "any"), open = strstr(rule->others, "spec-file");
    assert_int_equal(!strncmp(text, refused, strlen(refused)), (needs && !open) || never);
    snprintf(others, sizeof others, "%s", rule->others);
    while ((words = strsep(&rest, " "))) {
        answer(text, sizeof text, command, option, words);
        /* Another rule of the same option may come first; it names the option too. */
        size_t length = needs ? strlen(refused) : strlen(option) + 3;
        if (!strncmp(text, refused, length) == needs)
            fail_msg("smoe %s --%s with %s: \"%s\"", command->name, option, words, text);
    }
}

/* Every rule is kept for each of its commands, and each option of a command has a rule. */
static void test_rules(void **state) {
    for (size_t c = 0; c < smoe_command_count; c++)
        for (size_t i = 0; i < smoe_option_count; i++) {
            const smoe_option *option = &smoe_option_table[i];
            size_t rules = 0;
            if (!smoe_option_applies(option, &smoe_commands[c])) continue;
            for (size_t r = 0; r < smoe_option_rule_count; r++) {
                const smoe_rule *rule = &smoe_option_rules[r];
                if (!smoe_rule_concerns(rule, &smoe_commands[c], option->name)) continue;
                rules++;
                if (rule->relation != SMOE_RULE_ALWAYS)
                    check_rule(rule, &smoe_commands[c], option->name);
            }
            if (!rules)
                fail_msg("rules.def: no rule for smoe %s --%s", smoe_commands[c].name,
                         option->name);
        }
}

/* Names that no command or option has would never be refused. */
static void test_rules_name_known(void **state) {
    for (size_t r = 0; r < smoe_option_rule_count; r++) {
        char list[400], *rest = list, *word;
        if (smoe_option_rules[r].relation == SMOE_RULE_INSTEAD) continue;
        snprintf(list, sizeof list, "%s", smoe_option_rules[r].commands);
        while (strcmp(list, "*") && (word = strsep(&rest, " ")))
            if (!smoe_command_find(word, NULL)) fail_msg("rules.def: no command %s", word);
        snprintf(list, sizeof list, "%s", smoe_option_rules[r].names);
        for (rest = list;
             smoe_option_rules[r].relation != SMOE_RULE_IDLE && (word = strsep(&rest, " "));) {
            size_t users = 0;
            for (size_t i = 0; i < smoe_option_count; i++)
                for (size_t c = 0; c < smoe_command_count; c++)
                    users += !strcmp(smoe_option_table[i].name, word) &&
                             smoe_rule_concerns(&smoe_option_rules[r], &smoe_commands[c], word) &&
                             smoe_option_applies(&smoe_option_table[i], &smoe_commands[c]);
            if (!users) fail_msg("rules.def: no command of its rule takes --%s", word);
        }
    }
}

/* Keys of rules.def exist, and each of them is refused by its command, and by no other one. */
static void test_rules_of_keys(void **state) {
    for (size_t r = 0; r < smoe_option_rule_count; r++) {
        const smoe_rule *rule = &smoe_option_rules[r];
        char list[600], *rest = list, *key;
        snprintf(list, sizeof list, "%s", rule->names);
        while (rule->relation == SMOE_RULE_IDLE && (key = strsep(&rest, " "))) {
            char words[100];
            smoe_options options;
            smoe_err err;
            if (smoe_spec_check_key(key, &err)) fail_msg("rules.def: %s", err.text);
            snprintf(words, sizeof words, "spec.yaml %s=1", key);
            assert_int_equal(parse(&options, rule->commands, words, &err), 0);
            assert_int_equal(smoe_options_check(&options, NULL, &err), -1);
            assert_int_equal(err.code, SMOE_USAGE);
            assert_non_null(strstr(err.text, key));
            smoe_options_free(&options);
            assert_int_equal(parse(&options, "train", words, &err), 0);
            assert_int_equal(smoe_options_check(&options, NULL, &err), 0);
            smoe_options_free(&options);
            snprintf(words, sizeof words, "spec.yaml %s_of_another_name=1", key);
            assert_int_equal(parse(&options, rule->commands, words, &err), 0);
            assert_int_equal(smoe_options_check(&options, NULL, &err), 0);
            smoe_options_free(&options);
        }
    }
}

static void test_times(void **state) {
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "0 s"},
                 {59.4, "59 s"},
                 {59.6, "1 min 0 s"},
                 {3599, "59 min 59 s"},
                 {3600, "1 h 0 min"},
                 {86399, "23 h 59 min"},
                 {-1, "?"},
                 {1e300, "?"},
                 {172799, "47 h 59 min"},
                 {216000, "2.5 days"},
                 {8640000, "100 days"},
                 {2.5 * 31557600, "2.5 years"},
                 {953683063, "30 years"},
                 {1e12, "32 thousand years"}};
    char buf[32];
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(smoe_cmd_time(buf, sizeof buf, times[i].seconds), times[i].text);
    assert_string_equal(smoe_cmd_time(buf, sizeof buf, 0.0 / 0.0), "?");
}

/* Whole numbers of options are written as those of keys, and in no other way. */
static void test_counts(void **state) {
    static const char *const wrong[] = {"",    "0",     "-1",   "+5",  " 5",  "5 ",  "0x1",
                                        "1.5", "1e400", "1e-1", "nan", "inf", "5,5", "\u0663"};
    static const char *const right[] = {"5", "5e0", "0_5"};
    (void)state;
    size_t options = 0;
    for (size_t i = 0; i < smoe_option_count; i++) {
        const smoe_option *entry = &smoe_option_table[i];
        if (entry->kind != SMOE_OPT_COUNT) continue;
        options++;
        size_t c = 0;
        while (!smoe_option_applies(entry, &smoe_commands[c])) c++;
        for (size_t k = 0; k < SMOE_COUNT(wrong) + SMOE_COUNT(right); k++) {
            bool good = k >= SMOE_COUNT(wrong);
            const char *value = good ? right[k - SMOE_COUNT(wrong)] : wrong[k];
            char name[64], command[64], text[64];
            smoe_options parsed;
            smoe_err err = {0};
            snprintf(command, sizeof command, "%s", smoe_commands[c].name);
            snprintf(name, sizeof name, "--%s", entry->name);
            snprintf(text, sizeof text, "%s", value);
            char *argv[] = {command, name, text, NULL};
            int status = smoe_options_parse(&parsed, &smoe_commands[c], 3, argv, &err);
            if (good) {
                assert_int_equal(status, 0);
                assert_int_equal(*(const long *)((const char *)&parsed + entry->at), 5);
            } else {
                assert_int_equal(status, -1);
                assert_int_equal(err.code, SMOE_USAGE);
                assert_non_null(strstr(err.text, "expected a whole number of at least 1"));
            }
            smoe_options_free(&parsed);
        }
    }
    assert_true(options > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_what_is_an_override),
        cmocka_unit_test(test_defaults_are_set),
        cmocka_unit_test(test_table_is_sound),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_name_known),
        cmocka_unit_test(test_rules_of_keys),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
