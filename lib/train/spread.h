/*
 * What other processes have of the tensors of a table, read while a checkpoint is written: experts
 * that are divided over processes (vit/share.h), and moments, of which every process has those of
 * its own range of the slabs.
 */
#ifndef SMOE_SPREAD_H
#define SMOE_SPREAD_H

#include "base/param.h"
#include "comm/comm.h"

typedef struct smoe_spread {
    const smoe_params *params;
    smoe_comm *comm;
    size_t shards; /* the processes of a block, over which experts are divided; 1: they are not */
    bool moments;  /* those of tensors that are not divided are in ranges */
    smoe_part_reader reader;
} smoe_spread;

/* Sets `reader`, which the table needs before its slabs are allocated; borrows both. */
void smoe_spread_open(smoe_spread *spread, const smoe_params *params, smoe_comm *comm,
                      size_t shards, bool moments);

#endif
