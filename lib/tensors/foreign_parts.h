/*
 * Internal to foreign.c. The tensors in a file of another program (foreign_files.c): each is a
 * piece, a view with strides, whose bytes belong to the file. The names and layouts of tensors in
 * other programs, in one table; adding a program: its rules, wherever in the table they shadow no
 * other. And which of the tensors in a file are those of the model (foreign_names.c): training
 * loops keep more than one model in a file, in dictionaries of any name, and wrappers put prefixes
 * before the names of its tensors. A model is where its patch embedding is.
 */
#pragma once

#include "tensors/pickle.h"
#include "tensors/safetensors.h"

enum { SMOE_FOREIGN_NAME = SMOE_PICKLE_TEXT, SMOE_FOREIGN_DIMS = SMOE_PICKLE_DIMS };

/* With its data; of other files than .pth `where`, storage and offset are empty. */
typedef smoe_pickle_tensor smoe_foreign_piece;

/* A file in a zip file, unpacked. */
typedef struct smoe_foreign_member {
    char *name;
    char *bytes;
    size_t size;
    bool borrowed; /* the bytes are those of the file */
} smoe_foreign_member;

/* In which dictionary a model is, and after which prefix: "module.", "vit.", "opt/target/". */
typedef struct smoe_foreign_place {
    char where[SMOE_FOREIGN_NAME], prefix[SMOE_FOREIGN_NAME];
} smoe_foreign_place;

typedef struct smoe_foreign_file {
    const char *path;
    smoe_foreign_member *member;
    smoe_foreign_piece *piece;
    smoe_foreign_place *model; /* of each patch embedding, after smoe_foreign_place_of */
    size_t members, pieces, models;
    size_t held, used; /* bytes of all members, and of the pieces */
} smoe_foreign_file;

/* Whether a file begins as those of PyTorch before it used zip; four bytes. */
bool smoe_foreign_is_legacy(const void *bytes);

/* Reads the pieces of a .npz or .pth file; `file` has its path. SMOE_DATA if it inflates to more
 * than 64 times its size and a megabyte. */
int smoe_foreign_read(smoe_foreign_file *file, const void *bytes, size_t size,
                      smoe_err *err) SMOE_MUST_CHECK;

/* Adds a copy of a piece. SMOE_DATA if the pieces together have far more bytes than the file. */
int smoe_foreign_add(smoe_foreign_file *file, const smoe_foreign_piece *piece,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Adds a tensor of a safetensors file, whose elements have whole bytes and whose name fits. */
int smoe_foreign_add_tensor(smoe_foreign_file *file, const smoe_tensor *tensor,
                            smoe_err *err) SMOE_MUST_CHECK;

void smoe_foreign_file_free(smoe_foreign_file *file);

/* ---- names and places ------------------------------------------------------------------------ */

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

/* Whether a name fits the pattern `from`; out then becomes the name by the pattern `to`. */
bool smoe_foreign_renamed(char out[SMOE_FOREIGN_NAME], const char *name, const char *from,
                          const char *to);

/* The first rule for a name, and the name that it gives; NULL if there is none. */
const smoe_foreign_rule *smoe_foreign_rule_of(const char *name, char to[SMOE_FOREIGN_NAME]);
/* The rule after that, if it is for the same name; else NULL. */
const smoe_foreign_rule *smoe_foreign_rule_next(const smoe_foreign_rule *rule, const char *name,
                                                char to[SMOE_FOREIGN_NAME]);

/* What a tensor of this name means, if no model of this program has it ("relative positions");
 * NULL: not known. */
const char *smoe_foreign_lack(const char *name);

/* The other way round, to the names of Hugging Face's ViT: the first rule that gives `name` (after
 * NULL), and its tensor's name there; then, for the parts of qkv, the next one. */
const smoe_foreign_rule *smoe_foreign_hf_next(const smoe_foreign_rule *rule, const char *name,
                                              char from[SMOE_FOREIGN_NAME]);

/* Chooses: raw weights before averages, a teacher before a student, the first of equals, and never
 * the moments of an optimiser; if `weights` is "raw" or "ema", those, or SMOE_USAGE. Without any
 * patch embedding: the dictionary with most tensors, without a prefix. What was chosen, what else
 * is there, and the number of heads if queries have an axis of them, goes to `note`. */
int smoe_foreign_place_of(smoe_foreign_place *at, smoe_foreign_file *file, const char *weights,
                          FILE *note, smoe_err *err) SMOE_MUST_CHECK;

/* Whether a piece is of another model: in another dictionary, or after its prefix; or cannot be
 * read and is outside the prefix of this one. After smoe_foreign_place_of. */
bool smoe_foreign_place_other(const smoe_foreign_place *at, const smoe_foreign_file *file,
                              const smoe_foreign_piece *piece);

/* The first rule for a name without the prefix, or without the first parts of it (a classifier
 * stands beside "vit."); *name becomes what the rule is for, or, if there is none (NULL), the name
 * without the prefix. */
const smoe_foreign_rule *smoe_foreign_place_rule(const smoe_foreign_place *at, const char **name,
                                                 char to[SMOE_FOREIGN_NAME]);
