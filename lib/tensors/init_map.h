/*
 * The source of each parameter of a model: the tensor with its name and shape or, if a model starts
 * from the weights of another one (train --init), the corresponding tensor of that model.
 */
#pragma once

#include "base/param.h"
#include "tensors/safetensors.h"

/* How far a file may differ from the parameter table of the model that it is read into. */
typedef enum smoe_fit {
    SMOE_FIT_EXACT,   /* every parameter is there with its shape, and no other tensor */
    SMOE_FIT_RESIZED, /* so, but learned positions of another number of patches are resized */
    SMOE_FIT_INIT,    /* train --init: the whole model up to its head; learned positions of another
                         number of patches are resized; a head that is for another number of
                         classes, or not whole, counts as missing as a whole, and so do slot vectors
                         for another number of slots per expert; a router may be another one */
    SMOE_FIT_PARTIAL, /* train --init --partial: what there is: so, and any tensors may be missing
                         or unknown */
    SMOE_FIT_UPCYCLE /* train --init --upcycle: as SMOE_FIT_INIT, and each expert of a block that is
                         dense in the file starts as a copy of its MLP; there must be one */
} smoe_fit;

/* Whether every parameter must be there, and nothing else, head and all. */
static inline bool smoe_fit_whole(smoe_fit fit) {
    return fit == SMOE_FIT_EXACT || fit == SMOE_FIT_RESIZED;
}

enum { SMOE_TENSOR_NAME = 128 }; /* room for the name of a parameter with its prefix */

/* "[3, 4]" */
enum { SMOE_SHAPE_TEXT = 192 };
const char *smoe_shape_text(char buf[SMOE_SHAPE_TEXT], int ndim, const size_t *dim);

/* A table and a file, both borrowed. */
typedef struct smoe_init_map {
    const smoe_params *params;
    const smoe_safetensors *file;
    smoe_fit fit;
    bool headless;         /* the whole head is initialised, whatever the file has of it */
    const uint32_t *order; /* params->head_order, unless everything is taken as it is */
} smoe_init_map;

/* Checks the head first: with another number of classes in the file, the whole head is left out.
 * `prefix`: what names in the file have before those of the parameters ("", "m."). */
smoe_init_map smoe_init_map_of(const smoe_params *params, const smoe_safetensors *file,
                               smoe_fit fit, const char *prefix);

typedef enum smoe_way {
    SMOE_WAY_FRESH,   /* not at all */
    SMOE_WAY_SAME,    /* the tensor as it is */
    SMOE_WAY_RESIZED, /* positions of another number of patches, or tokens before them */
    SMOE_WAY_ORDERED, /* rows of the head, in the order of the model's classes */
    SMOE_WAY_TOKENS,  /* registers from a class token, registers and their positions */
    SMOE_WAY_COPIED   /* a dense MLP's, to each expert */
} smoe_way;

typedef struct smoe_init_source {
    const smoe_tensor *tensor; /* NULL: fresh */
    smoe_way way;
} smoe_init_source;

/* The source of a parameter whose tensor is called `name`. */
smoe_init_source smoe_init_map_source(const smoe_init_map *from, const smoe_param *param,
                                      const char *name);

/* Whether a tensor of the file is one of those that registers are made of. */
bool smoe_init_map_composed(const smoe_init_map *from, const char *name);

/* If its shape or type is wrong, the reason is appended to err: SMOE_DATA. A head that is
 * left out is checked too: everything except the number of classes must be right. */
int smoe_init_map_check(const smoe_init_map *from, const smoe_param *param, const char *name,
                        smoe_init_source source, smoe_err *err);

/* Fills out [param->size] from a source that was checked, converted. Position embeddings are
 * resized by bilinear interpolation with aligned corners (the zoom of order 1 of the ViT and V-MoE
 * code). That of a class token is 0 if the source has none. */
void smoe_init_map_fill(real *out, const smoe_init_map *from, const smoe_param *param,
                        smoe_init_source source);
/* Elements [first, first + count) of a tensor that is taken as it is. */
void smoe_init_map_part(real *out, const smoe_tensor *tensor, size_t first, size_t count);

/* ---- in words ------------------------------------------------------------------ */

/* If the file is not the whole model up to its head, which SMOE_FIT_INIT asks for, a line in err
 * says which tensors are missing or not used. */
void smoe_init_map_lacks(const smoe_init_map *from, smoe_err *err);

/* What a load that is not exact takes from the file, in one line: how many tensors, which of the
 * model's are resized, copied or start fresh, and which of the file's are not used. Fresh. */
char *smoe_init_map_text(const smoe_params *params, const smoe_safetensors *file, smoe_fit fit);

/* "positions resized from 2x2 patches to 4x4" if those of a file are of another grid, fresh; else
 * NULL. */
char *smoe_init_map_resized(const smoe_params *params, const smoe_safetensors *file);
