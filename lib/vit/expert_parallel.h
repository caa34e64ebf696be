/*
 * The experts of each layer, divided over processes (train.experts_over). N neighbouring processes
 * are a block; process s of it has the s-th of N ranges of the experts of every group, their
 * weights, gradients and moments. The processes route their own pieces of the batch. Then the
 * inputs of experts travel to the processes that have them, and the outputs back, and in backward
 * their gradients the same way.
 *
 * No bit depends on N. The gradient of a batch is the sum of its pieces' gradients in a fixed
 * binary tree (train/grad_accum.h), but the rows that an expert gets at a time belong to N pieces,
 * one of each process, which are no neighbours in the tree. So the experts compute the rows of each
 * process by themselves, as a process that has all experts would. Their gradients are added in the
 * tree: those of the pieces of one process, then those of the processes of the block. What is above
 * it in the tree, sums over blocks, is left to the step (train/sharded.h).
 *
 * Passes of training are made by all processes alike. Evaluations are not: their numbers of batches
 * differ, and some passes are made by one process only. So each pass begins with a vote of the
 * block, and a process that has no pass of its own serves those of the others until nobody has one.
 */
#pragma once

#include "vit/layer.h"

/* Experts divided over the N processes of a block; of a model. */
typedef struct smoe_expert_parallel {
    smoe_comm block;
    size_t pieces;               /* of the batch, in one process */
    size_t levels, block_levels; /* of the tree over these, and over the processes of a block */
    size_t size;                 /* number of gradients of the experts of this process */
    real *sums;        /* [N * levels + block_levels, size] sums that wait for their neighbour */
    smoe_arena memory; /* of these; owned */
    uint64_t *counts;  /* [2, E] rows of experts: sent, received; owned */
} smoe_expert_parallel;

/* Experts first .. end of `count` are in process s of n. */
static inline void smoe_expert_parallel_range(size_t count, size_t n, size_t s, size_t *first,
                                              size_t *end) {
    *first = count * s / n;
    *end = count * (s + 1) / n;
}

/* The process of n that has element `at` of a divided tensor, and where its part ends. */
size_t smoe_expert_parallel_owner(const smoe_param *param, size_t n, size_t at, size_t *end);

/* Of a layer with an exchange: the number of processes; buffers, for `rows` rows of a plan; l->out
 * from l->slots, and l->dslots from l->dout. */
size_t smoe_expert_parallel_processes(const smoe_moe *l);
void smoe_expert_parallel_reserve(smoe_moe *l, size_t rows, const smoe_space *space);
void smoe_expert_parallel_forward(smoe_moe *l, const smoe_pass *pass);
void smoe_expert_parallel_backward(smoe_moe *l, const smoe_pass *pass);

/* Removes the experts of other processes from a layer and its parameter table, and gives it its
 * exchange. Call it before slabs and buffers are allocated. */
void smoe_expert_parallel_shard(smoe_moe *l, smoe_expert_parallel *experts);

/* Allocates memory for sums of gradients; call it after the slabs of the table are allocated. The
 * other function returns the number of slabs of this memory. */
int smoe_expert_parallel_allocate(smoe_expert_parallel *experts, const smoe_params *params,
                                  smoe_err *err) SMOE_MUST_CHECK;
size_t smoe_expert_parallel_sums(const smoe_expert_parallel *experts);
void smoe_expert_parallel_free(smoe_expert_parallel *experts);

/* Whether any process of the block has another pass outside of training; `own`: this one has. */
bool smoe_expert_parallel_goes_on(smoe_expert_parallel *experts, bool own);
/* A pass of the layer in which this process only serves the others. */
void smoe_expert_parallel_serve(smoe_moe *l, const smoe_pass *pass);

/* Adds the bytes and messages that this process sends for the layer in a step of training; for
 * choice routers those of full buffers. forwards: passes forward of each piece, of which there is
 * one backward. Call it after buffers were reserved or measured. */
void smoe_expert_parallel_expect(const smoe_moe *l, size_t forwards, smoe_sent *sent);
