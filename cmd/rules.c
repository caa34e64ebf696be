/* When options have an effect: the table rules.def, and the check of a command line against it; see
 * opt.h. */
#include "opt.h"

const smoe_option_rule smoe_option_rules[] = {
#define RULE(commands, options, relation, others, why) \
    {commands, options, SMOE_RULE_##relation, others, why},
#include "rules.def"
#undef RULE
};
const size_t smoe_option_rule_count = sizeof smoe_option_rules / sizeof *smoe_option_rules;

const smoe_key_rule smoe_key_rules[] = {
#define RULE_OF_KEYS(command, keys, why) {command, keys, why},
#include "rules.def"
#undef RULE_OF_KEYS
};
const size_t smoe_key_rule_count = sizeof smoe_key_rules / sizeof *smoe_key_rules;

/* What commands find out about their arguments, and its name in messages. */
static const struct {
    const char *name, *shown;
} states[] = {{"folder", "the folder of a sweep"},
              {"several", "several arguments"},
              {"run", "a run"},
              {"model", "a model"},
              {"spec-file", "a spec"},
              {"any", "this command"}};
enum { STATES = sizeof states / sizeof *states };

static const char *state_shown(const char *name) {
    for (size_t i = 0; i < STATES; i++)
        if (!strcmp(states[i].name, name)) return states[i].shown;
    return NULL;
}

static bool rules_given(const smoe_options *options, const char *name) {
    for (size_t i = 0; i < smoe_option_count; i++)
        if (!strcmp(smoe_option_table[i].name, name)) return options->given[i];
    return false;
}

/* Whether all words of "status+json" hold. */
static bool holds(const smoe_options *options, const char *state, const char *words) {
    char word[SMOE_RULE_WORD];
    while (smoe_text_next(&words, '+', word, sizeof word)) {
        const char *shown = state_shown(word);
        bool is = !strcmp(word, "any") || (state && !strcmp(state, word));
        if (shown ? !is : !rules_given(options, word)) return false;
    }
    return true;
}

/* Adds "--status and --json" to the text. */
static void name_words(char *text, size_t size, const char *words) {
    char word[SMOE_RULE_WORD];
    for (size_t n = 0; smoe_text_next(&words, '+', word, sizeof word); n++) {
        size_t used = strlen(text);
        const char *shown = state_shown(word);
        snprintf(text + used, size - used, "%s%s%s", n ? " and " : "", shown ? "" : "--",
                 shown ? shown : word);
    }
}

/* One option of a rule; 0 when it has its effect. */
static int rules_check(const smoe_option_rule *rule, const char *option,
                       const smoe_options *options, const char *state, smoe_err *err) {
    char words[SMOE_RULE_WORD], all[256] = "";
    size_t count = 0;
    for (const char *others = rule->others; smoe_text_next(&others, ' ', words, sizeof words);
         count++) {
        bool here = holds(options, state, words);
        bool open = !state && state_shown(words); /* the command checks once it knows its state */
        if (rule->relation == SMOE_RULE_NEEDS && (here || open)) return 0;
        if (rule->relation == SMOE_RULE_NOT && here) {
            char with[SMOE_RULE_WORD + 32] = "";
            name_words(with, sizeof with, words);
            return smoe_fail(err, SMOE_USAGE, "--%s cannot be used with %s%s", option, with,
                             rule->why);
        }
        size_t used = strlen(all);
        if (count) snprintf(all + used, sizeof all - used, "%s", *others ? ", " : " or ");
        name_words(all, sizeof all, words);
    }
    if (rule->relation == SMOE_RULE_NOT) return 0;
    return smoe_fail(err, SMOE_USAGE, "--%s needs %s%s", option, all, rule->why);
}

bool smoe_option_rule_concerns(const smoe_option_rule *rule, const smoe_command *command,
                               const smoe_option *option) {
    return (!strcmp(rule->commands, "*") ||
            smoe_text_has_word(rule->commands, ' ', command->name)) &&
           smoe_text_has_word(rule->options, ' ', option->name);
}

int smoe_options_check(const smoe_options *options, const char *state, smoe_err *err) {
    for (size_t r = 0; r < smoe_option_rule_count; r++) {
        const smoe_option_rule *rule = &smoe_option_rules[r];
        if (rule->relation == SMOE_RULE_ALWAYS) continue;
        for (size_t i = 0; i < smoe_option_count; i++)
            if (options->given[i] &&
                smoe_option_rule_concerns(rule, options->command, &smoe_option_table[i]) &&
                rules_check(rule, smoe_option_table[i].name, options, state, err))
                return -1;
    }
    return 0;
}

/* Whether KEY=VALUE sets one of the keys, or one of a section of them. */
static bool sets(const char *assign, const char *keys) {
    char name[SMOE_RULE_WORD];
    while (smoe_text_next(&keys, ' ', name, sizeof name)) {
        size_t length = strlen(name);
        if (!strncmp(assign, name, length) && strchr("=.", assign[length])) return true;
    }
    return false;
}

int smoe_options_check_keys(const smoe_options *options, smoe_err *err) {
    for (size_t r = 0; r < smoe_key_rule_count; r++) {
        const smoe_key_rule *rule = &smoe_key_rules[r];
        if (strcmp(rule->command, options->command->name)) continue;
        for (size_t i = 0; i < options->overrides; i++)
            if (sets(options->assign[i], rule->keys))
                return smoe_fail(err, SMOE_USAGE, "override %s: has no effect in smoe %s: %s",
                                 options->assign[i], rule->command, rule->why);
    }
    return 0;
}
