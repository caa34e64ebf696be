/*
 * The parameter table in files, and out of them (params_io.c, init_map.c).
 */
#ifndef SMOE_PARAMS_IO_H
#define SMOE_PARAMS_IO_H

#include "base/param.h"
#include "tensors/safetensors.h"

/* How far a file may differ from the table. */
typedef enum smoe_fit {
    SMOE_FIT_EXACT,   /* every parameter is there with its shape, and no other tensor */
    SMOE_FIT_RESIZED, /* so, but learned positions of another number of patches are resized */
    SMOE_FIT_PARTIAL, /* train --init: missing and unknown tensors are allowed; a head that is for
                         another number of classes, or not whole, counts as missing as a whole;
                         learned positions of another number of patches are resized; slot vectors
                         for another number of slots per expert count as missing */
    SMOE_FIT_UPCYCLE  /* train --init --upcycle: so, and each expert of a block that is dense in the
                         file starts as a copy of its MLP; there must be one */
} smoe_fit;

/* Whether every parameter must be there, and nothing else. */
static inline bool smoe_fit_whole(smoe_fit fit) {
    return fit == SMOE_FIT_EXACT || fit == SMOE_FIT_RESIZED;
}

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

/* What a load that is not exact takes from the file, in one line: how many tensors, which of the
 * model's are resized, copied or start fresh, and which of the file's are not used. Fresh; NULL
 * when out of memory. */
char *smoe_params_partial_text(const smoe_params *params, const smoe_safetensors *file,
                               smoe_fit fit);

/* Weights for reading alone, with the same demands on the file as smoe_params_load with
 * SMOE_FIT_RESIZED: where a tensor
 * is stored as it is computed with (F32 that is aligned), and the kernels of experts in BF16 too,
 * the file's pages are the memory, and nothing is copied; the rest is converted. The table must be
 * without slabs, and `file` stay open for as long as the table is used. */
int smoe_params_map(smoe_params *params, const smoe_safetensors *file,
                    smoe_err *err) SMOE_MUST_CHECK;

/* Whether the positions of a file are of another grid, and so are resized: the patches along an
 * edge there and here. */
bool smoe_params_resized(const smoe_params *params, const smoe_safetensors *file, size_t *there,
                         size_t *here);

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

/* smoe_params_load for several slabs that lie in one file. */
int smoe_params_load_slabs(const smoe_params *params, const smoe_slab *slabs, size_t count,
                           const smoe_safetensors *file, smoe_fit fit, size_t *loaded,
                           smoe_err *err) SMOE_MUST_CHECK;

/* A slab as params->count tensors named PREFIX + parameter name: BF16, or F32 (F64 where real is
 * double), then also without data; borrowing the slab and the table. Tensors and their names live
 * in *tensors until free(*tensors). */
int smoe_params_tensors(const smoe_params *params, const smoe_slab *slab, smoe_tensor **tensors,
                        smoe_err *err) SMOE_MUST_CHECK;

#endif
