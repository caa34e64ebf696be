/*
 * The parameter table: one entry per tensor, in the order of the model. Weights, gradients and both
 * moments are one slab each with the same offsets. Optimiser, checkpoint, cost, inspection and
 * gradient check are loops over this table; no other code names single tensors.
 */
#pragma once

#include "base/bf16.h"

enum { SMOE_PARAM_DIMS = 4 };

/* Which weight decay applies. */
typedef enum smoe_param_group {
    SMOE_PARAM_PLAIN,  /* none: biases, norms, positions, the class token */
    SMOE_PARAM_KERNEL, /* optimizer.weight_decay */
    SMOE_PARAM_HEAD    /* optimizer.head_weight_decay */
} smoe_param_group;

/* The gradient of E stacked kernels [E,out,in] as an outer product that is not carried out: that of
 * kernel e is dY_e^T X_e over rows first[e] .. first[e+1]. With few rows, the two factors are much
 * smaller than the product. */
typedef struct smoe_outer {
    smoe_rows dy, x; /* [rows,out], [rows,in], both in `real` or both in BF16; borrowed from the
                          layer, until its next pass */
    const size_t *first;
} smoe_outer;

/* With several passes per update, the gradient is the sum of theirs in a fixed binary tree, that of
 * train/grad_accum.h. Their factors lie one after another, in memory of the layer. */
typedef struct smoe_outer_passes {
    size_t passes, rows; /* a power of two, or 0: there is a single pass; room for rows of each */
    real *dy, *x;        /* [passes,rows,out], [passes,rows,in] */
    size_t *first;       /* [passes,E+1] */
} smoe_outer_passes;

/* A gradient that its layer leaves as outer products: that of a single pass, or of several. */
typedef struct smoe_outer_gradient {
    smoe_outer factors;
    smoe_outer_passes kept;
} smoe_outer_gradient;

/* How a parameter is trained, where that differs from others (train.optimizer.groups). */
typedef struct smoe_param_rule {
    double lr;    /* factor of the learning rate */
    double decay; /* weight decay; negative: that of the group */
    size_t until; /* the step from which the optimiser leaves it as it is; 0: never */
} smoe_param_rule;

typedef struct smoe_param {
    char name[80]; /* the checkpoint's name, "blocks.3.attn.qkv.weight" */
    int ndim;      /* 0: a scalar */
    size_t dim[SMOE_PARAM_DIMS];
    size_t size, offset; /* elements; offset into every slab, a multiple of 16 */
    /* Several processes may share a tensor, in shards: here are elements from .. from + size of
     * `whole`, which is the product of dim; else from is 0 and size is whole. */
    size_t whole, from;
    smoe_param_group group;
    smoe_param_rule rule;
    bool frozen;  /* not trained: no gradient, no moments */
    bool state;   /* set by its layer after every step; frozen, whatever the spec says */
    bool alike;   /* entries of the first axis start with the same values */
    bool stacked; /* the first axis is that of matrices, or vectors, each used by its own rows */
    bool fresh;   /* the gradient counts as 0, whatever memory holds: backward overwrites it */
    smoe_outer_gradient *outer; /* where backward leaves the gradient, borrowed from the layer;
                                   NULL: in the slab */
    double mean, std;           /* initial values: normal(mean, std), constant where std is 0 */
} smoe_param;

/* The weights of a parameter that is only read, inside the mapped file. */
typedef struct smoe_param_place {
    const real *values;
    const smoe_bf16 *narrow; /* not NULL: they are stored in BF16, and values is NULL */
} smoe_param_place;

/* Reads tensors of which other processes have parts. */
typedef struct smoe_part_reader {
    /* Whether tensor `i` of a slab of the table may be such a one. */
    bool (*away)(void *user, const void *slab, size_t i);
    /* Elements first .. first + count of the whole tensor to out, in the type of the slab. All
     * processes must be reading, or in the next function. */
    void (*read)(void *user, const void *slab, size_t i, size_t first, size_t count, void *out);
    /* Answers what others read, until all processes have called it. */
    void (*finish)(void *user);
    /* The elements of tensor `i` of a slab that are here: [*first, *end) of the whole tensor. */
    void (*here)(void *user, const void *slab, size_t i, size_t *first, size_t *end);
    void *user;
} smoe_part_reader;

typedef struct smoe_params {
    smoe_param *param;
    size_t count;
    size_t size;    /* elements of the weights, padding included */
    size_t trained; /* elements of gradients and moments; frozen parameters lie behind them */
    size_t shared;  /* of these, those of tensors that are not sharded, which come first */
    size_t total;   /* parameters that are here, without padding */
    size_t passes;  /* backward passes per update, after which layers may leave gradients
                            as outer products; 0: these must be in memory */
    bool headless;  /* the head is not taken from a file to start from: its classes are others */
    const uint32_t *head_order; /* the row of such a file for each row of the head, where its
                                   classes are in another order; NULL: they are not */
    real *w, *g, *m, *v;        /* slabs; NULL until allocated */
    smoe_bf16 *m_bf16,
        *v_bf16; /* moments stored in BF16; then m or v, which they replace, is NULL */
    struct smoe_params *second; /* Adafactor: the second moments, as a table of their own: tensors
                                   whole, or as the means of rows and of columns; NULL: none */
    const smoe_part_reader *reader; /* NULL: everything is here */
    uint64_t carried;               /* updates that the moments had before the first of this run */
    real *average; /* moving average of the weights, with the offsets of w; NULL: there is none */
    smoe_param_place *place; /* [count] places of the weights, instead of w; NULL: they are in w */
    smoe_arena copies;       /* weights that had to be copied from the file */
} smoe_params;

/* What a parameter is to weight decay, and its initial values. */
typedef struct smoe_param_kind {
    smoe_param_group group;
    double mean, std;
} smoe_param_kind;

/* Without weight decay, all `value`; and normal(0, std). */
static inline smoe_param_kind smoe_param_constant(double value) {
    return (smoe_param_kind){SMOE_PARAM_PLAIN, value, 0};
}
static inline smoe_param_kind smoe_param_normal(smoe_param_group group, double std) {
    return (smoe_param_kind){group, 0, std};
}

/* Adds a parameter and returns its index. */
size_t smoe_params_add(smoe_params *params, smoe_param_kind kind, int ndim, const size_t *dim,
                       const char *fmt, ...) SMOE_PRINTF(5, 6);

/* Assigns all offsets again: first parameters that are trained, whole ones before sharded ones,
 * then the frozen ones. To be called after parameters have been frozen or sharded and before slabs
 * are allocated. */
void smoe_params_place(smoe_params *params);

/* Only elements from .. from + size of a tensor are here. */
void smoe_params_shard(smoe_params *params, size_t i, size_t from, size_t size);
static inline bool smoe_param_sharded(const smoe_param *param) {
    return param->size != param->whole;
}

/* The slabs: weights always; gradients with slabs >= 2; moments with 3 (momentum) and 4 (Adam). */
int smoe_params_allocate(smoe_params *params, int slabs, smoe_err *err) SMOE_MUST_CHECK;

/* Every tensor is initialised from its own stream (seed, name), so its values do not depend on the
 * rest of the model. */
void smoe_params_init(smoe_params *params, uint64_t seed);

/* Allocates only moments: each in `real`, in BF16, or not at all. */
typedef enum smoe_moment { SMOE_MOMENT_NONE, SMOE_MOMENT_REAL, SMOE_MOMENT_BF16 } smoe_moment;
int smoe_params_allocate_moments(smoe_params *params, smoe_moment first, smoe_moment second,
                                 smoe_err *err) SMOE_MUST_CHECK;

/* Allocates the moving average, which starts at zero. smoe_params_exchange_average swaps it with
 * the weights, so that all code that reads weights reads the average, until the next call swaps
 * back. */
int smoe_params_allocate_average(smoe_params *params, smoe_err *err) SMOE_MUST_CHECK;
void smoe_params_exchange_average(smoe_params *params);

/* Elements [first, first + count) of the initial values of a whole parameter, so that large tensors
 * can be filled in parallel or in pieces. Pieces that start at multiples of SMOE_PARAM_RUN, the
 * number of elements of one stream, take the least time. */
enum { SMOE_PARAM_RUN = 1 << 16 };
void smoe_param_initial(real *out, const smoe_param *param, uint64_t seed, size_t first,
                        size_t count);

/* Elements of all parameters that are a state; so many numbers are counted for them in each
 * pass. */
size_t smoe_params_counted(const smoe_params *params);

/* The number of trained parameters; and the number of gradients that have to be in memory, which
 * leaves out those that layers marked as outer products when they were reserved. */
size_t smoe_params_trained(const smoe_params *params);
size_t smoe_params_gradients(const smoe_params *params);

/* The parameter of that name, or NULL. */
const smoe_param *smoe_params_find(const smoe_params *params, const char *name);

/* The offset of the next parameter: the start of a cache line in every slab. */
static inline size_t smoe_param_end(const smoe_param *param) {
    enum { PAD = 16 };
    return param->offset + (param->size + PAD - 1) / PAD * PAD;
}

/* The weights of a parameter, for reading; NULL if they are in BF16, which is possible only for
 * stacked kernels (smoe_param_streams). */
static inline const real *smoe_weight(const smoe_params *params, size_t i) {
    return params->place ? params->place[i].values : params->w + params->param[i].offset;
}
static inline const smoe_bf16 *smoe_weight_bf16(const smoe_params *params, size_t i) {
    return params->place ? params->place[i].narrow : NULL;
}
/* NULL if the parameter is frozen. */
static inline real *smoe_gradient(const smoe_params *params, size_t i) {
    const smoe_param *p = &params->param[i];
    return p->frozen ? NULL : params->g + p->offset;
}

/* Whether a parameter is stacked kernels, used only by matrix products. These read BF16 directly
 * and overwrite a fresh gradient. They are most of a large model, where setting gradients to 0 and
 * reading them again would take a tenth of a step. */
static inline bool smoe_param_streams(const smoe_param *param) {
    return param->stacked && param->group == SMOE_PARAM_KERNEL;
}

/* The gradient of parameter i counts as 0, as after an update. */
void smoe_params_clear(smoe_params *params, size_t i);

void smoe_params_free(smoe_params *params);
