/*
 * Internal to foreign.c: the names and layouts of tensors in other programs. Adding a program: a
 * table of rules here, and the place in foreign.c that knows its files.
 */
#ifndef SMOE_FOREIGN_NAMES_H
#define SMOE_FOREIGN_NAMES_H

#include "tensors/foreign_files.h"

/* From one name to another; '#' is the number of a block, '?' any digit. The axes of the new tensor
 * are separated by commas, each the axes of the old one that are merged in it; NULL: as they are.
 * As part `part` of `parts`, one after the other on the first axis. */
typedef struct smoe_foreign_rule {
    const char *from, *to, *axes;
    int part, parts;
} smoe_foreign_rule;

enum { SMOE_FOREIGN_PARTS = 3 /* at most */ };

typedef struct smoe_foreign_rules {
    const smoe_foreign_rule *rule;
    size_t count;
} smoe_foreign_rules;

extern const smoe_foreign_rules smoe_foreign_flax, smoe_foreign_hugging_face,
    smoe_foreign_open_clip;

/* Whether a name matches a pattern; `number` gets the digits of '#'. */
bool smoe_foreign_matches(const char *pattern, const char *name, char number[16]);

/* A pattern with the number in its place. */
void smoe_foreign_fill_in(char out[SMOE_FOREIGN_NAME], const char *pattern, const char *number);

#endif
