/*
 * The parameter table: one row a tensor, in the order of the model. Weights, gradients and both
 * moments are one slab each with the same offsets, so optimiser, checkpoint, cost, inspection and
 * gradient check are loops over this table and nothing else knows a tensor by hand.
 */
#ifndef SMOE_PARAM_H
#define SMOE_PARAM_H

#include "base/base.h"
#include "base/bf16.h"

enum { SMOE_PARAM_DIMS = 4 };

/* Which weight decay applies. */
typedef enum smoe_param_group {
    SMOE_PARAM_PLAIN,  /* none: biases, norms, positions, the class token */
    SMOE_PARAM_KERNEL, /* optimizer.weight_decay */
    SMOE_PARAM_HEAD    /* optimizer.head_weight_decay */
} smoe_param_group;

/* The gradient of E stacked kernels [E,out,in] as what it is the product of: that of kernel e is
 * dY_e^T X_e over rows first[e] .. first[e+1]. Of few rows, these are far fewer numbers. */
typedef struct smoe_outer {
    const real *dy, *x; /* [rows,out], [rows,in]; borrowed from the layer, until its next pass */
    const size_t *first;
} smoe_outer;

typedef struct smoe_param {
    char name[80]; /* the checkpoint's name, "blocks.3.attn.qkv.weight" */
    int ndim;      /* 0: a scalar */
    size_t dim[SMOE_PARAM_DIMS];
    size_t size, offset; /* elements; offset into every slab, a multiple of 16 */
    smoe_param_group group;
    double lr;    /* factor of the learning rate */
    double decay; /* weight decay; negative: that of the group */
    bool frozen;  /* not trained: no gradient, no moments */
    bool alike;   /* entries of the first axis start with the same values */
    bool stacked; /* first axis counts matrices, or vectors, each used by rows of its own */
    bool fresh;   /* the gradient counts as 0, whatever is in memory: backward overwrites it */
    bool outer;   /* backward leaves the gradient as `factors`, and nothing in memory */
    smoe_outer factors;
    double mean, std; /* initial values: normal(mean, std), constant where std is 0 */
} smoe_param;

/* The weights of a row that is only read, where the file has them. */
typedef struct smoe_param_place {
    const real *values;
    const smoe_bf16 *narrow; /* not NULL: they are stored in BF16, and values is NULL */
} smoe_param_place;

typedef struct smoe_params {
    smoe_param *row;
    size_t count, room;
    size_t size;                /* elements of the weights, padding included */
    size_t trained;             /* of gradients and moments: rows that are frozen lie behind it */
    size_t total;               /* parameters, padding not included */
    bool factor;                /* there is one backward pass for each update: layers may leave
                                   gradients as outer products */
    bool failed;                /* an add ran out of memory; reported when slabs are asked for */
    real *w, *g, *m, *v;        /* slabs; NULL until allocated */
    smoe_bf16 *m_bf16, *v_bf16; /* moments in BF16, which then m or v are not there for */
    smoe_param_place *place;    /* [count]: weights lie here and not in w; NULL: in w */
    smoe_arena copies;          /* those of them that could not stay in the file */
} smoe_params;

/* Adds a row and returns its index. Cannot be seen to fail: memory is checked in _allocate. */
size_t smoe_params_add(smoe_params *params, smoe_param_group group, double mean, double std,
                       int ndim, const size_t *dim, const char *fmt, ...) SMOE_PRINTF(7, 8);

/* Gives every row its place again, those that are frozen behind the others: after rows have been
 * frozen, before slabs are asked for. */
void smoe_params_place(smoe_params *params);

/* The slabs: weights always; gradients with slabs >= 2; moments with 3 (momentum) and 4 (Adam). */
int smoe_params_allocate(smoe_params *params, int slabs, smoe_err *err) SMOE_MUST_CHECK;

/* Every weight from its own stream (seed, name): the same values whatever else the model has. */
void smoe_params_init(smoe_params *params, uint64_t seed);

/* Moments by themselves: each in `real`, in BF16, or not at all. */
typedef enum smoe_moment { SMOE_MOMENT_NONE, SMOE_MOMENT_REAL, SMOE_MOMENT_BF16 } smoe_moment;
int smoe_params_allocate_moments(smoe_params *params, smoe_moment first, smoe_moment second,
                                 smoe_err *err) SMOE_MUST_CHECK;

/* Elements [first, first + count) of a row's initial values; first is a multiple of SMOE_PARAM_RUN,
 * the elements of one stream: large tensors are filled in parallel, or piece by piece. */
enum { SMOE_PARAM_RUN = 1 << 16 };
void smoe_param_initial(real *out, const smoe_param *row, uint64_t seed, size_t first,
                        size_t count);

/* Parameters that are trained; and gradients that have to be in memory: all of those but of
 * factored rows, which layers have marked when they were reserved. */
size_t smoe_params_trained(const smoe_params *params);
size_t smoe_params_gradients(const smoe_params *params);

/* The row of that name, or NULL. */
const smoe_param *smoe_params_find(const smoe_params *params, const char *name);

/* Where the next row begins: on a cache line, in every slab. */
static inline size_t smoe_param_end(const smoe_param *row) {
    enum { PAD = 16 };
    return row->offset + (row->size + PAD - 1) / PAD * PAD;
}

/* The weights of a row, to be read; NULL when they are in BF16, which only stacked kernels
 * (smoe_param_streams) can be. */
static inline const real *smoe_weight(const smoe_params *params, size_t row) {
    return params->place ? params->place[row].values : params->w + params->row[row].offset;
}
static inline const smoe_bf16 *smoe_weight_bf16(const smoe_params *params, size_t row) {
    return params->place ? params->place[row].narrow : NULL;
}
/* NULL of a row that is frozen. */
static inline real *smoe_gradient(const smoe_params *params, size_t row) {
    const smoe_param *p = &params->row[row];
    return p->frozen ? NULL : params->g + p->offset;
}

/* Whether a row is stacked kernels, used by matrix products alone, which take BF16 as it is and
 * overwrite a gradient that is fresh: most of a large model, where setting it to 0 and reading that
 * again would be a tenth of a step. */
static inline bool smoe_param_streams(const smoe_param *row) {
    return row->stacked && row->group == SMOE_PARAM_KERNEL;
}

void smoe_params_free(smoe_params *params);

#endif
