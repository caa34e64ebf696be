/*
 * Internal to foreign.c: which of the tensors in a file are those of the model. Training loops keep
 * more than one model in a file, in dictionaries of any name, and wrappers put prefixes before the
 * names of its tensors. A model is where its patch embedding is.
 */
#ifndef SMOE_FOREIGN_PLACE_H
#define SMOE_FOREIGN_PLACE_H

#include "tensors/foreign_names.h"

#include <stdio.h>

/* In which dictionary a model is, and after which prefix: "module.", "vit.", "opt/target/". */
typedef struct smoe_foreign_place {
    char where[SMOE_FOREIGN_NAME], prefix[SMOE_FOREIGN_NAME];
} smoe_foreign_place;

/* Chooses: raw weights before averages, a teacher before a student, the first of equals; if
 * `weights` is "raw" or "ema", those, or SMOE_USAGE. Without any patch embedding: the dictionary
 * with most tensors, without a prefix. What was chosen, and what else is there, goes to `note`. */
int smoe_foreign_place_of(smoe_foreign_place *at, const smoe_foreign_file *file,
                          const char *weights, FILE *note, smoe_err *err) SMOE_MUST_CHECK;

/* Whether a piece is of another model: in another dictionary, or after its prefix. */
bool smoe_foreign_place_other(const smoe_foreign_place *at, const smoe_foreign_file *file,
                              const smoe_foreign_piece *piece);

/* The first rule for a name without the prefix, or without the first parts of it (a classifier
 * stands beside "vit."); *name becomes what the rule is for, or, if there is none (NULL), the name
 * without the prefix. */
const smoe_foreign_rule *smoe_foreign_place_rule(const smoe_foreign_place *at, const char **name,
                                                 char to[SMOE_FOREIGN_NAME]);

#endif
