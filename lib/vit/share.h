/*
 * The experts of each layer, divided over processes (train.experts_over). N neighbouring processes
 * are a block; process s of it has the s-th of N ranges of the experts of every group, their
 * weights, gradients and moments. The processes route their own pieces of the batch. Then the
 * inputs of experts travel to the processes that have them, and the outputs back, and in backward
 * their gradients the same way.
 *
 * No bit depends on N. The gradient of a batch is the sum of its pieces' gradients in a fixed
 * binary tree (train/pieces.h), but the rows that an expert gets at a time belong to N pieces, one
 * of each process, which are no neighbours in the tree. So the experts compute the rows of each
 * process by themselves, as a process that has all experts would. Their gradients are added in the
 * tree: those of the pieces of one process, then those of the processes of the block. What is above
 * it in the tree, sums over blocks, is left to the step (train/divided.h).
 *
 * Passes of training are made by all processes alike. Evaluations are not: their numbers of batches
 * differ, and some passes are made by one process only. So each pass begins with a vote of the
 * block, and a process that has no pass of its own serves those of the others until nobody has one.
 */
#ifndef SMOE_SHARE_H
#define SMOE_SHARE_H

#include "vit/layer.h"

/* Experts first .. end of `count` are in process s of n. */
static inline void smoe_share_range(size_t count, size_t n, size_t s, size_t *first, size_t *end) {
    *first = count * s / n;
    *end = count * (s + 1) / n;
}

/* The process of n that has element `at` of a divided tensor, and where its part ends. */
size_t smoe_share_owner(const smoe_param *param, size_t n, size_t at, size_t *end);

/* Removes the experts of other processes from a layer and its parameter table. Call it before slabs
 * and buffers are allocated. */
void smoe_share_divide(smoe_moe *l, smoe_share *share);

/* Allocates memory for sums of gradients; call it after the slabs of the table are allocated. The
 * other function returns the number of slabs of this memory. */
int smoe_share_allocate(smoe_share *share, const smoe_params *params,
                        smoe_err *err) SMOE_MUST_CHECK;
size_t smoe_share_sums(const smoe_share *share);
void smoe_share_free(smoe_share *share);

/* Buffers of group k, for `most` rows from each process. */
void smoe_share_reserve(smoe_moe *l, size_t k, size_t most, const smoe_space *space);

/* l->out from l->slots, and l->dslots from l->dout. */
void smoe_share_forward(smoe_moe *l, const smoe_pass *pass);
void smoe_share_backward(smoe_moe *l, const smoe_pass *pass);

/* Whether any process of the block has another pass outside of training; `own`: this one has. */
bool smoe_share_goes_on(smoe_share *share, bool own);
/* A pass of the layer in which this process only serves the others. */
void smoe_share_serve(smoe_moe *l, const smoe_pass *pass);

/* Adds the bytes and messages that this process sends for the layer in a step of training; for
 * choice routers those of full buffers. forwards: passes forward of each piece, of which there is
 * one backward. Call it after buffers were reserved or measured. */
void smoe_share_expect(const smoe_moe *l, size_t forwards, smoe_sent *sent);

#endif
