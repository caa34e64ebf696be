/*
 * Rules for the names that users write: when a key or an option has an effect, which of them
 * exclude each other, and what to write here for names of other programs. A rule is an entry of a
 * table: of spec/rules.def for the keys of specs, of cmd/rules.def for options. Both have this
 * form.
 */
#pragma once

#include "spec/spec.h"

typedef struct smoe_rule {
    const char *names; /* keys and sections of keys, or options */
    enum smoe_relation {
        SMOE_RULE_ALWAYS,  /* they have an effect in every case */
        SMOE_RULE_NEEDS,   /* only with one of the others */
        SMOE_RULE_NOT,     /* not with any of the others */
        SMOE_RULE_IDLE,    /* never; `why` tells the reason */
        SMOE_RULE_INSTEAD, /* words of other programs (fnmatch, any case); `why`: what to write */
    } relation;
    /* What the names need or exclude, separated by spaces; conditions that must all hold are joined
     * by +. A smoe_rule_ask function decides what each word means. */
    const char *others;
    const char *why;      /* the end of the message, or "" */
    const char *commands; /* to which the rule applies; "*": all; NULL in rules of keys */
} smoe_rule;

extern const smoe_rule smoe_spec_rules[];
extern const size_t smoe_spec_rule_count;

/* Room for a word of `others`, and for its wording in a message. */
enum { SMOE_RULE_WORD = 160 };

/* Whether a word of `others` holds for a subject, and its wording in messages. OPEN: the command
 * does not know yet. */
typedef enum smoe_rule_answer { SMOE_RULE_NO, SMOE_RULE_OPEN, SMOE_RULE_YES } smoe_rule_answer;
typedef smoe_rule_answer smoe_rule_ask(const void *subject, const char *word,
                                       char called[SMOE_RULE_WORD]);

/* Whether the rule names this option, key, or key=value: itself, or a section of it. */
bool smoe_rule_names(const smoe_rule *rule, const char *name);

/* How a rule that names what was given is violated, as a new text: "needs --init, the model to
 * start from", "cannot be used with --resume". NULL: it is not; OPEN answers do not violate it. */
char *smoe_rule_broken(const smoe_rule *rule, smoe_rule_ask *ask, const void *subject);

/* What to write for a name of other programs; NULL: none of the rules has it. */
const char *smoe_rule_instead(const smoe_rule *rules, size_t count, const char *word);

/* The words of spec/rules.def, for a resolved smoe_spec (acts.c). */
smoe_rule_ask smoe_spec_ask;
