/*
 * What other processes have of the tensors of a table, read while a checkpoint is written: experts
 * that are sharded over processes (vit/expert_parallel.h), and moments, of which every process has
 * those of its own range of the slabs.
 */
#ifndef SMOE_SHARDED_STATE_H
#define SMOE_SHARDED_STATE_H

#include "base/param.h"
#include "comm/comm.h"

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

#endif
