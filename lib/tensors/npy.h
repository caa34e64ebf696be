/* .npy files (NumPy format 1.0), little-endian, C order: what --logits, --labels and --dump-routing
 * write, and the outcomes of images, which are read again. A comment in the header, which NumPy
 * skips, has a digest, which reading verifies where it is there. */
#pragma once

#include "base/base.h"

/* dtype here and below: "<f4", "<f8", "<i8" or "|b1", bytes of 0 or 1. Written under a temporary
 * name, then renamed. */
int smoe_npy_write(const char *path, const char *dtype, const void *data, int ndim,
                   const size_t *dim, smoe_err *err) SMOE_MUST_CHECK;

/* The same bytes in fresh memory. */
void *smoe_npy_make(size_t *size, const char *dtype, const void *data, int ndim, const size_t *dim);

/* What comes before the elements of a .npy file in memory, of any type and order. Returns what is
 * wrong with it, "its shape"; NULL: nothing. */
enum { SMOE_NPY_DIMS = 8 };
typedef struct smoe_npy_header {
    char dtype[4]; /* "": a type whose name is longer, or shorter */
    bool fortran;
    int ndim;
    size_t dim[SMOE_NPY_DIMS];
    size_t from; /* where the elements begin */
} smoe_npy_header;
const char *smoe_npy_header_read(smoe_npy_header *header, const char *bytes, size_t size);

/* Fresh memory with the elements of a file of this type and ndim dimensions, which go to dim; at
 * most 1 GB. SMOE_DATA: another file, or not a whole one. */
int smoe_npy_read(const char *path, const char *dtype, void **data, int ndim, size_t *dim,
                  smoe_err *err) SMOE_MUST_CHECK;

/* Checks that a file is unchanged; *sealed: it has a digest. SMOE_DATA: it is not, or is no
 * .npy file. */
int smoe_npy_verify(const char *path, bool *sealed, smoe_err *err) SMOE_MUST_CHECK;
