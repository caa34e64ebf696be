/*
 * safetensors files: the checkpoint's container. u64 little-endian header length, a JSON header of
 * {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {string: string}}, then the tensors.
 */
#ifndef SMOE_SAFETENSORS_H
#define SMOE_SAFETENSORS_H

#include "base/base.h"
#include "base/param.h"

typedef enum smoe_dtype {
    SMOE_F32,
    SMOE_F16,
    SMOE_BF16,
    SMOE_F64,
    SMOE_I64,
    SMOE_U8,
    SMOE_OTHER_DTYPE /* valid in the format, unused here */
} smoe_dtype;

typedef struct smoe_tensor {
    const char *name;
    smoe_dtype dtype;
    int ndim; /* up to 8 */
    size_t dim[8];
    size_t size;      /* elements */
    const void *data; /* little-endian; possibly unaligned when read */
} smoe_tensor;

/* A file opened for reading: mapped, header validated completely (duplicate names, holes, overlaps, ends past the file, sizes
 * that disagree with the shape: SMOE_DATA naming file and tensor or offset). */
typedef struct smoe_safetensors smoe_safetensors;
int smoe_safetensors_open(smoe_safetensors **file, const char *path,
                          smoe_err *err) SMOE_MUST_CHECK;
/* The same over bytes in memory (borrowed until freed), `path` for messages: what the fuzzer calls. */
int smoe_safetensors_parse(smoe_safetensors **file, const void *bytes, size_t size,
                           const char *path, smoe_err *err) SMOE_MUST_CHECK;
size_t smoe_safetensors_count(const smoe_safetensors *file);
const smoe_tensor *smoe_safetensors_at(const smoe_safetensors *file, size_t i);
const smoe_tensor *smoe_safetensors_find(const smoe_safetensors *file, const char *name);
const char *smoe_safetensors_metadata(const smoe_safetensors *file, const char *key); /* or NULL */
const char *smoe_safetensors_path(const smoe_safetensors *file);
void smoe_safetensors_free(smoe_safetensors *file);

typedef struct smoe_pair { const char *key, *value; } smoe_pair;

/* Writes path whole (the caller names it inside a temporary directory or adds its own rename): header padded with spaces so that data starts on 64
 * bytes, tensors by dtype size then name, fsync before close. Errors (disk full too) are SMOE_RUNTIME naming path. */
int smoe_safetensors_write(const char *path, const smoe_tensor *tensors, size_t count,
                           const smoe_pair *metadata, size_t pairs, smoe_err *err) SMOE_MUST_CHECK;

/* Weights of the table out of a file, BF16, F16, F32 or F64 converted: every row must be there with its shape, and no other
 * tensor; SMOE_DATA names every tensor that is missing, unknown, misshapen or of another type. A timm file may hold the same shape with
 * unit axes in other places only where the element count and order agree: that is refused, shapes are exact.
 * `partial` (train --init): missing and unknown tensors are allowed and counted in *loaded; a wrong shape still fails. */
int smoe_params_load(smoe_params *params, const smoe_safetensors *file, bool partial,
                     size_t *loaded, smoe_err *err) SMOE_MUST_CHECK;

/* Slab `which` (params->w, ->m ...) as tensors named PREFIX + row name, F32. Tensors and their names live in *tensors until free(*tensors). */
int smoe_params_tensors(const smoe_params *params, const real *slab, const char *prefix,
                        smoe_tensor **tensors, smoe_err *err) SMOE_MUST_CHECK;

#endif
