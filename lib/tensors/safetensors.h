/*
 * safetensors files: the checkpoint's container. u64 little-endian header length, a JSON header of
 * {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {string: string}}, then the tensors.
 * smoe-checkpoint(5) describes the format and the names.
 */
#pragma once

#include "base/bf16.h"

typedef enum smoe_dtype {
    SMOE_DTYPE_F32,
    SMOE_DTYPE_F16,
    SMOE_DTYPE_BF16,
    SMOE_DTYPE_F64,
    SMOE_DTYPE_I64,
    SMOE_DTYPE_U8,
    SMOE_DTYPE_OTHER /* valid in the format, unused here */
} smoe_dtype;

/* Bytes of an element and the format's word for it; 0 and "" of SMOE_DTYPE_OTHER. */
size_t smoe_dtype_bytes(smoe_dtype dtype);
/* Bytes of an element of any type of the format, by its word; 0 if it has less than one. */
size_t smoe_type_bytes(const char *type);
/* What to save instead of a tensor of a type, by its word, that weights do not have. */
const char *smoe_type_remedy(const char *type);
const char *smoe_dtype_name(smoe_dtype dtype);

enum { SMOE_TENSOR_DIMS = 8 };

/* Puts elements [first, first + count) of `tensor`, which is not in memory, in its dtype to out.
 * Pieces come in order and start at multiples of SMOE_TENSOR_PIECE. */
enum { SMOE_TENSOR_PIECE = 1 << 20 };
typedef struct smoe_tensor smoe_tensor;
typedef int smoe_tensor_source(const void *user, const smoe_tensor *tensor, size_t first,
                               size_t count, void *out, smoe_err *err);

struct smoe_tensor {
    const char *name; /* is the first, by which tensors are sorted */
    smoe_dtype dtype;
    int ndim;
    size_t dim[SMOE_TENSOR_DIMS];
    size_t size;                /* elements */
    const void *data;           /* little-endian; possibly unaligned when read */
    smoe_tensor_source *source; /* when written: not NULL, the elements come from here */
    const void *user;           /* of the source */
    const char
        *type; /* the format's word for dtype, "F32", when read; not looked at when written */
};

/* A file opened for reading: mapped, and its header validated completely (duplicate names, holes,
 * overlaps, ends past the file, sizes that disagree with the shape: SMOE_DATA naming file and
 * tensor or offset); or a file of another program, converted in memory (tensors/foreign.h). */
typedef struct smoe_safetensors smoe_safetensors;
/* Where there is no file of that name, but an index of several (tensors/shards.h), or `path` is
 * one, all of them are opened as one. */
int smoe_safetensors_open(smoe_safetensors **file, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* Files that smoe writes have the digest of all their bytes in their metadata (smoe.xxh3, whose
 * digits count as zeros). smoe_safetensors_open verifies it where there is one, in one pass over
 * the file. */
bool smoe_safetensors_has_digest(const smoe_safetensors *file);
int smoe_safetensors_verify(const smoe_safetensors *file, smoe_err *err) SMOE_MUST_CHECK;

/* What a user says of a file of another program that it does not say itself. All zero: nothing. */
typedef struct smoe_file_choice {
    const char *weights;  /* "raw" or "ema", where it has both; or NULL */
    size_t rows, columns; /* of the grid of its position embeddings; 0: a square */
} smoe_file_choice;
/* smoe_safetensors_open without that pass, for a look at names and metadata; with that choice of
 * weights, or NULL. */
int smoe_safetensors_peek(smoe_safetensors **file, const char *path, const char *weights,
                          smoe_err *err) SMOE_MUST_CHECK;
/* The grid of the file's position embeddings, as it was set; 0, 0 before. */
void smoe_safetensors_set_grid(smoe_safetensors *file, size_t rows, size_t columns);
void smoe_safetensors_grid(const smoe_safetensors *file, size_t *rows, size_t *columns);
/* What was chosen and changed in a file of another program, in one line, or NULL. */
const char *smoe_safetensors_note(const smoe_safetensors *file);
/* The same over bytes in memory (borrowed until freed), `path` for messages: what the fuzzer calls.
 */
int smoe_safetensors_parse(smoe_safetensors **file, const void *bytes, size_t size,
                           const char *path, smoe_err *err) SMOE_MUST_CHECK;
size_t smoe_safetensors_count(const smoe_safetensors *file);
/* The i-th tensor in the order of the data. */
const smoe_tensor *smoe_safetensors_at(const smoe_safetensors *file, size_t i);
const smoe_tensor *smoe_safetensors_find(const smoe_safetensors *file, const char *name);
const char *smoe_safetensors_metadata(const smoe_safetensors *file, const char *key); /* or NULL */
/* All metadata but the digest in the order of the file, in a fresh array; returns their number. The
 * words are borrowed from the file. */
typedef struct smoe_pair {
    const char *key, *value;
} smoe_pair;
/* What a file holds that is to be made. */
typedef struct smoe_content {
    const smoe_tensor *tensor;
    size_t count;
    const smoe_pair *pair; /* metadata */
    size_t pairs;
} smoe_content;
size_t smoe_safetensors_pairs(const smoe_safetensors *file, smoe_pair **pairs);
const char *smoe_safetensors_path(const smoe_safetensors *file);
/* Several files as one, with the tensors of all, one file after the other, and the metadata of the
 * first. The files become its own. */
smoe_safetensors *smoe_safetensors_join(const char *path, smoe_safetensors *const *part,
                                        size_t parts);
/* Tensors in memory as a file: of each name, type, shape and data, which is in the arena. That
 * becomes the file's own, or is freed; names, metadata and the note (NULL: none) are copied.
 * SMOE_DATA: a name is not printable. */
int smoe_safetensors_make(smoe_safetensors **file, const char *path, const smoe_content *content,
                          smoe_arena *arena, const char *note, smoe_err *err) SMOE_MUST_CHECK;
/* The mapped memory that the file was parsed from becomes its own, to be unmapped with it. */
void smoe_safetensors_own(smoe_safetensors *file, void *map, size_t size);
void smoe_safetensors_free(smoe_safetensors *file);
SMOE_FREES(smoe_safetensors)

/* Elements [first, first + count) of a tensor as numbers of this build: F16, BF16 and F32 exactly
 * (NaN payloads included where real is float), F64 rounded to nearest. False for the types that
 * hold no weights. */
bool smoe_tensor_convert(real *out, const smoe_tensor *tensor, size_t first, size_t count);

/* Elements [first, first + count) of a tensor of weights (F32, F16, BF16, F64) in `type` (F32, F16,
 * BF16) to out: rounded once, to nearest, ties to even; infinities and NaN stay, bit for bit where
 * the type does. Returns first + count, or the first element that is finite and beyond `type`. */
size_t smoe_tensor_store(void *out, smoe_dtype type, const smoe_tensor *tensor, size_t first,
                         size_t count);

/* The CRC-32 of the data of these tensors, laid out as smoe_safetensors_write does it, in whatever
 * order they are given. */
int smoe_tensors_crc32(const smoe_tensor *tensors, size_t count, uint32_t *crc,
                       smoe_err *err) SMOE_MUST_CHECK;

/* Writes path whole or not at all (temporary name, fsync, rename): header padded with spaces so
 * that data starts on 64 bytes, tensors by size of an element, largest first, then by name; data
 * goes from the caller's memory to the file without a copy. The same arguments give the same bytes.
 * Errors (disk full too) are SMOE_RUNTIME naming path; where it or a source fails nothing is left
 * behind. */
int smoe_safetensors_write(const char *path, const smoe_content *content,
                           smoe_err *err) SMOE_MUST_CHECK;
