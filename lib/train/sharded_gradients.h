/*
 * The parameter table of a step where experts are sharded over processes (vit/expert_parallel.h):
 * the norm of the whole gradient, and sums over blocks of processes.
 *
 * The norm is that of one process with all experts, to the bit: the sum of the squares of units of
 * SMOE_OPTIM_UNIT elements of a slab that nothing is missing from. A unit may have parts in several
 * processes; the one that has its first element gets the others.
 */
#ifndef SMOE_SHARDED_GRADIENTS_H
#define SMOE_SHARDED_GRADIENTS_H

#include "base/alloc.h"
#include "vit/expert_parallel.h"

/* A part of a unit that one process has. */
typedef struct smoe_unit_part {
    size_t unit, at, count; /* elements at .. at + count of the unit */
    size_t from;            /* where they are: in the slab, or among what is received */
    int process;            /* that has them; of parts to be sent: that gets them */
} smoe_unit_part;

typedef struct smoe_sharded_gradients {
    smoe_alloc_pool memory;
    smoe_params *params;
    smoe_comm *comm;
    size_t shards;         /* N */
    smoe_comm same;        /* the processes that have the same experts, one of each block */
    size_t whole;          /* elements of the gradients of all */
    smoe_unit_part *units; /* of the units whose squares are computed here, in their order */
    smoe_unit_part *sent;  /* of other units, in their order */
    size_t count, sent_count;
    size_t *in, *out; /* [R] elements from and to each process */
    real *buffer;     /* what is received, then what is sent */
    real *unit;       /* [SMOE_OPTIM_UNIT] */
} smoe_sharded_gradients;

/* The table needs no slabs. `experts` is that of the model; borrows all. Free in any case. */
void smoe_sharded_gradients_open(smoe_sharded_gradients *parts, smoe_params *params,
                                 const smoe_expert_parallel *experts, smoe_comm *comm);
void smoe_sharded_gradients_free(smoe_sharded_gradients *parts);

/* Units of the whole gradient. */
size_t smoe_sharded_gradients_units(const smoe_sharded_gradients *parts);

/* The gradients of experts become their sum over all blocks; those that are kept as factors become
 * known, so that every process that has an expert computes the same sum of all passes. `block` as
 * in smoe_comm_scatter_sum. */
void smoe_sharded_gradients_sum(smoe_sharded_gradients *parts, real *block);

/* square [smoe_sharded_gradients_units] of the gradients, of which shared ones are summed in the
 * range of each process, and those of experts everywhere. */
void smoe_sharded_gradients_squares(smoe_sharded_gradients *parts, double *square);

#endif
