/* When options have an effect, and which words name a command: the table rules.def, and the check
 * of a command line against it; see opt.h. */
#include "opt.h"

const smoe_rule smoe_option_rules[] = {
#define ALWAYS(commands, names) {names, SMOE_RULE_ALWAYS, "", "", commands},
#define NEEDS(commands, names, others, why) {names, SMOE_RULE_NEEDS, others, why, commands},
#define NOT(commands, names, others, why) {names, SMOE_RULE_NOT, others, why, commands},
#define IDLE(commands, names, why) {names, SMOE_RULE_IDLE, "", why, commands},
#define INSTEAD(names, why) {names, SMOE_RULE_INSTEAD, "", why, ""},
#include "rules.def"
};
const size_t smoe_option_rule_count = SMOE_COUNT(smoe_option_rules);

/* What commands find out about their arguments, and its name in messages. */
static const struct {
    const char *name, *shown;
} states[] = {{"folder", "the folder of a sweep"},
              {"several", "several arguments"},
              {"run", "a run"},
              {"model", "a model"},
              {"spec-file", "a spec"},
              {"any", "this command"}};

/* What was given: the options, and the state of the arguments, NULL while the command has not found
 * out about it. */
typedef struct given {
    const smoe_options *options;
    const char *state;
} given;

static smoe_rule_answer ask_given(const void *subject, const char *word,
                                  char called[SMOE_RULE_WORD]) {
    const given *g = subject;
    for (size_t i = 0; i < SMOE_COUNT(states); i++) {
        if (strcmp(states[i].name, word)) continue;
        snprintf(called, SMOE_RULE_WORD, "%s", states[i].shown);
        if (!strcmp(word, "any") || (g->state && !strcmp(g->state, word))) return SMOE_RULE_YES;
        return g->state ? SMOE_RULE_NO : SMOE_RULE_OPEN;
    }
    snprintf(called, SMOE_RULE_WORD, "--%s", word);
    for (size_t i = 0; i < smoe_option_count; i++)
        if (!strcmp(smoe_option_table[i].name, word) && g->options->given[i]) return SMOE_RULE_YES;
    return SMOE_RULE_NO;
}

bool smoe_rule_concerns(const smoe_rule *rule, const smoe_command *command, const char *name) {
    return (!strcmp(rule->commands, "*") ||
            smoe_text_has_word(rule->commands, ' ', command->name)) &&
           smoe_rule_names(rule, name);
}

int smoe_options_check(const smoe_options *options, const char *state, smoe_err *err) {
    const given subject = {options, state};
    for (size_t r = 0; r < smoe_option_rule_count; r++) {
        const smoe_rule *rule = &smoe_option_rules[r];
        for (size_t i = 0; rule->relation != SMOE_RULE_IDLE && i < smoe_option_count; i++) {
            const char *name = smoe_option_table[i].name;
            if (!options->given[i] || !smoe_rule_concerns(rule, options->command, name)) continue;
            SMOE_FREED char *broken = smoe_rule_broken(rule, ask_given, &subject);
            if (broken) return smoe_fail(err, SMOE_USAGE, "--%s %s", name, broken);
        }
        for (size_t i = 0; rule->relation == SMOE_RULE_IDLE && i < options->overrides; i++)
            if (smoe_rule_concerns(rule, options->command, options->assign[i]))
                return smoe_fail(err, SMOE_USAGE, "override %s: has no effect in smoe %s: %s",
                                 options->assign[i], options->command->name, rule->why);
    }
    return 0;
}

const smoe_command *smoe_command_find(const char *name, smoe_err *err) {
    SMOE_FREED const char **names = smoe_alloc(smoe_command_count, sizeof *names);
    for (size_t i = 0; i < smoe_command_count; i++) {
        if (!strcmp(smoe_commands[i].name, name)) return &smoe_commands[i];
        names[i] = smoe_commands[i].name;
    }
    const char *write = smoe_rule_instead(smoe_option_rules, smoe_option_rule_count, name);
    int nearest = smoe_text_nearest(name, names, smoe_command_count);
    if (write)
        smoe_fail(err, SMOE_USAGE, "unknown command '%s'; write %s", name, write);
    else if (nearest >= 0)
        smoe_fail(err, SMOE_USAGE, "unknown command '%s'; did you mean '%s'?", name,
                  names[nearest]);
    else
        smoe_fail(err, SMOE_USAGE, "unknown command '%s'", name);
    smoe_fail_more(err, SMOE_USAGE, "`smoe --help` lists the commands");
    return NULL;
}
