/*
 * Internal to foreign.c: the names and layouts of tensors in other programs, in one table. Adding a
 * program: its rules, wherever in the table they shadow no other.
 */
#ifndef SMOE_FOREIGN_NAMES_H
#define SMOE_FOREIGN_NAMES_H

#include "tensors/foreign_files.h"

/* From one name to another; '#' is the number of a block, '?' any digit, '*' a last word ("weight",
 * "bias"). The axes of the new tensor are separated by commas, each the axes of the old one that
 * are merged in it, none for an axis of 1; NULL: as they are. As part `part` of `parts`, one after
 * the other on the first axis. slices > 0: of the old tensor only slice `slice` of so many on its
 * first axis. Several rules may have the same `from`, one after the other: all hold. `to` "": a
 * tensor that is not used. */
typedef struct smoe_foreign_rule {
    const char *from, *to, *axes;
    int part, parts; /* parts 0: one */
    int slice, slices;
} smoe_foreign_rule;

enum { SMOE_FOREIGN_PARTS = 3 /* at most */ };

/* Whether a name is that of the patch embedding's weights, from which the place of a model in a
 * file is known. */
bool smoe_foreign_is_anchor(const char *name);

/* The first rule for a name, and the name that it gives; NULL if there is none. */
const smoe_foreign_rule *smoe_foreign_rule_of(const char *name, char to[SMOE_FOREIGN_NAME]);
/* The rule after that, if it is for the same name; else NULL. */
const smoe_foreign_rule *smoe_foreign_rule_next(const smoe_foreign_rule *rule, const char *name,
                                                char to[SMOE_FOREIGN_NAME]);

/* What a tensor of this name means, if no model of this program has it ("relative positions");
 * NULL: not known. */
const char *smoe_foreign_lack(const char *name);

/* The other way round, to the names of Hugging Face's ViT: the first rule that gives `name`, and
 * its tensor's name there; then, for the parts of qkv, the next one. */
const smoe_foreign_rule *smoe_foreign_hf_of(const char *name, char from[SMOE_FOREIGN_NAME]);
const smoe_foreign_rule *smoe_foreign_hf_next(const smoe_foreign_rule *rule, const char *name,
                                              char from[SMOE_FOREIGN_NAME]);

#endif
