/*
 * The parameter table in files, and out of them (params_io.c, init_map.c).
 */
#pragma once

#include "tensors/init_map.h"

/* The type that `real` has in a file. */
#define SMOE_DTYPE_REAL (sizeof(real) == sizeof(double) ? SMOE_DTYPE_F64 : SMOE_DTYPE_F32)

/* Weights of the table out of a file, BF16, F16, F32 or F64 converted. SMOE_DATA names, in one
 * pass, every tensor that is missing, unknown, misshapen or of another type; or, where the model is
 * of another width, depth or the like, that. Shapes are exact: the same elements under other unit
 * axes are refused. Nothing is changed on failure. *loaded (may be NULL) counts the parameters that
 * were filled. */
int smoe_params_load(smoe_params *params, const smoe_safetensors *file, smoe_fit fit,
                     size_t *loaded, smoe_err *err) SMOE_MUST_CHECK;

/* Checks that a file to start from fits as far as it has to, with one tensor of the model at least:
 * else SMOE_DATA. The table needs no slabs. */
int smoe_params_check(const smoe_params *params, const smoe_safetensors *file, smoe_fit fit,
                      smoe_err *err) SMOE_MUST_CHECK;

/* Weights for reading alone, with the same demands on the file as smoe_params_load with
 * SMOE_FIT_RESIZED: where a tensor
 * is stored as it is computed with (F32 that is aligned), and the kernels of experts in BF16 too,
 * the file's pages are the memory, and nothing is copied; the rest is converted. The table must be
 * without slabs, and `file` stay open for as long as the table is used. */
int smoe_params_map(smoe_params *params, const smoe_safetensors *file,
                    smoe_err *err) SMOE_MUST_CHECK;

/* A slab (params->w, ->m ...) and what its tensors' names have before the parameter's name ("",
 * "m."). */
typedef struct smoe_slab {
    const char *prefix;
    real *values;             /* both NULL: the tensors are checked and not read */
    smoe_bf16 *narrow;        /* the slab, where it is one in BF16 */
    const smoe_params *table; /* whose parameters these are, where it is another table; else NULL */
} smoe_slab;

static inline const smoe_params *smoe_slab_table(const smoe_slab *slab, const smoe_params *params) {
    return slab->table ? slab->table : params;
}

/* Whether the slab has the parameter: there are no moments of one that is frozen. */
static inline bool smoe_slab_has(const smoe_slab *slab, const smoe_param *param) {
    return !*slab->prefix || !param->frozen;
}

/* The slabs of the moments that there are; returns their number. */
size_t smoe_params_moments(const smoe_params *params, smoe_slab slabs[2]);

/* smoe_params_load for several slabs that lie in one file. Of several processes each reads what is
 * here of the tensors (params->reader). */
int smoe_params_load_slabs(const smoe_params *params, const smoe_slab *slabs, size_t count,
                           const smoe_safetensors *file, smoe_fit fit, size_t *loaded,
                           smoe_err *err) SMOE_MUST_CHECK;

/* A slab as params->count tensors named PREFIX + parameter name: BF16, or F32 (F64 where real is
 * double), then also without data; borrowing the slab and the table. Tensors and their names are
 * one piece of fresh memory. */
smoe_tensor *smoe_params_tensors(const smoe_params *params, const smoe_slab *slab);
