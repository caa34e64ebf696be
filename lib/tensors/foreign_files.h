/*
 * Internal to foreign.c: the tensors in a file of another program. Each is a piece: a view with
 * strides, whose bytes belong to the file.
 */
#ifndef SMOE_FOREIGN_FILES_H
#define SMOE_FOREIGN_FILES_H

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

typedef struct smoe_foreign_file {
    const char *path;
    smoe_foreign_member *member;
    smoe_foreign_piece *piece;
    size_t members, pieces;
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

#endif
