/* The rules of keys, which are the entries of rules.def, and the check of a rule; see rules.h. */
#include "spec/rules.h"

#include <fnmatch.h>

const smoe_rule smoe_spec_rules[] = {
#define ALWAYS(names) {names, SMOE_RULE_ALWAYS, "", "", NULL},
#define NEEDS(names, others) {names, SMOE_RULE_NEEDS, others, "", NULL},
#define INSTEAD(names, why) {names, SMOE_RULE_INSTEAD, "", why, NULL},
#include "spec/rules.def"
};
const size_t smoe_spec_rule_count = SMOE_COUNT(smoe_spec_rules);

bool smoe_rule_names(const smoe_rule *rule, const char *name) {
    char word[SMOE_RULE_WORD];
    for (const char *names = rule->names; smoe_text_next(&names, ' ', word, sizeof word);) {
        size_t length = strlen(word);
        if (!strncmp(name, word, length) && strchr("=.", name[length])) return true;
    }
    return false;
}

char *smoe_rule_broken(const smoe_rule *rule, smoe_rule_ask *ask, const void *subject) {
    char words[SMOE_RULE_WORD], word[SMOE_RULE_WORD], called[SMOE_RULE_WORD];
    SMOE_FREED char *all = NULL;
    bool needs = rule->relation == SMOE_RULE_NEEDS;
    if (!needs && rule->relation != SMOE_RULE_NOT) return NULL;
    for (const char *others = rule->others; smoe_text_next(&others, ' ', words, sizeof words);) {
        smoe_rule_answer here = SMOE_RULE_YES;
        SMOE_FREED char *with = NULL;
        for (const char *rest = words; smoe_text_next(&rest, '+', word, sizeof word);) {
            smoe_rule_answer answer = ask(subject, word, called);
            if (answer < here) here = answer;
            smoe_text_add(&with, "%s%s", with ? " and " : "", called);
        }
        if (needs && here != SMOE_RULE_NO) return NULL;
        if (!needs && here == SMOE_RULE_YES)
            return smoe_text_format("cannot be used with %s%s", with, rule->why);
        smoe_text_add(&all, "%s%s", !all ? "needs " : *others ? ", " : " or ", with);
    }
    return needs ? smoe_text_format("%s%s", all, rule->why) : NULL;
}

const char *smoe_rule_instead(const smoe_rule *rules, size_t count, const char *word) {
    char own[SMOE_RULE_WORD];
    for (const smoe_rule *rule = rules; rule < rules + count; rule++)
        for (const char *names = rule->names;
             rule->relation == SMOE_RULE_INSTEAD && smoe_text_next(&names, ' ', own, sizeof own);)
            if (smoe_text_same_word(own, word) || !fnmatch(own, word, FNM_CASEFOLD))
                return rule->why;
    return NULL;
}

const char *smoe_spec_elsewhere(const char *word) {
    return smoe_rule_instead(smoe_spec_rules, smoe_spec_rule_count, word);
}
