/*
 * Gradients and the optimiser's state over several processes.
 *
 * Each process sums and updates its own range of the slabs (smoe_optim_range). Where experts are
 * sharded over processes (vit/expert_parallel.h), each has all of the gradients of its experts.
 *
 * Gradients that layers leave as the factors of outer products (base/param.h): each process has the
 * factors of its own pieces of the batch. They are sent, not the gradients, and the sum over all
 * pieces is computed from all of them, tile by tile, in the tree of the pieces (math/outer.h). So
 * the bits are those of one process, and no process has these gradients in memory. This never sends
 * more than the gradients would be, apart from the numbers of rows. A gradient is left as factors
 * only if those of all G passes are no larger than itself (smoe_outer_sum_pays). Each of R
 * processes then sends at most 1/R of the gradient to each of the others; if gradients were summed
 * in halves, it would send (R - 1)/R of it in all.
 *
 * The norm is that of one process with all experts, to the bit: the sum of the squares of units of
 * SMOE_OPTIM_UNIT elements of a slab that nothing is missing from. A unit may have parts in several
 * processes; the one that has its first element gets the others.
 */
#pragma once

#include "vit/expert_parallel.h"

typedef struct smoe_sharded_gradients {
    smoe_alloc_pool memory;
    smoe_params *params;
    smoe_comm *comm;
    size_t shards;    /* N */
    smoe_comm same;   /* the processes that have the same experts, one of each block */
    size_t whole;     /* elements of the gradients of all */
    size_t *in, *out; /* [R] elements of units from and to each process */
    real **parts;     /* [2,R] where those begin: in what is received, in what is sent */
    real *buffer;     /* what is received, then what is sent */
    real *unit;       /* [SMOE_OPTIM_UNIT] */
} smoe_sharded_gradients;

/* Gradients of the range of this process of the tensors that are not sharded become their sums over
 * all processes; those that are left as factors can be computed there, as each process gets from
 * all others the factors of the experts that have elements in its range. If it is only counted what
 * is sent (comm/comm.h), all buffers of choice routers are full. `block` as in
 * smoe_comm_scatter_sum. */
void smoe_sharded_gradients_shared(smoe_params *params, smoe_comm *comm, real *block);

/* The table needs no slabs. `experts` is that of the model; borrows all. Free in any case. */
void smoe_sharded_gradients_open(smoe_sharded_gradients *sharded, smoe_params *params,
                                 const smoe_expert_parallel *experts, smoe_comm *comm);
void smoe_sharded_gradients_free(smoe_sharded_gradients *sharded);

/* Units of the whole gradient. */
size_t smoe_sharded_gradients_units(const smoe_sharded_gradients *sharded);

/* The gradients of experts become their sum over all blocks; those that are kept as factors become
 * known, so that every process that has an expert computes the same sum of all passes. */
void smoe_sharded_gradients_sum(smoe_sharded_gradients *sharded, real *block);

/* square [smoe_sharded_gradients_units] of the gradients, of which shared ones are summed in the
 * range of each process, and those of experts everywhere. */
void smoe_sharded_gradients_squares(smoe_sharded_gradients *sharded, double *square);

/* ---- state ----------------------------------------------------------------------------------- */

/* Reads the parts of tensors that other processes have, while a checkpoint is written: sharded
 * experts, and moments, of which every process has those of its own range. */
typedef struct smoe_sharded_state {
    const smoe_params *params;
    smoe_comm *comm;
    size_t shards; /* the processes of a block, over which experts are sharded; 1: they are not */
    bool moments;  /* those of tensors that are not sharded are in ranges */
    smoe_part_reader reader;
} smoe_sharded_state;

/* Sets `reader`, which the table needs before its slabs are allocated; borrows both. */
void smoe_sharded_state_open(smoe_sharded_state *state, const smoe_params *params, smoe_comm *comm,
                             size_t shards, bool moments);
