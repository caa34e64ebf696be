/*
 * The gradient of a batch as the sum of its pieces' gradients in a fixed binary tree: the sum of
 * pieces 2i and 2i + 1, of two such sums, and so on. Processes that have equal numbers of
 * neighbouring pieces have subtrees of it each, so the bits do not depend on how many there are
 * (comm/comm.h). Gradients of experts that are sharded over processes have their own tree
 * (vit/expert_parallel.h).
 */
#pragma once

#include "base/param.h"

enum { SMOE_GRAD_ACCUM_LEVELS = 17 };

/* A slab of gradients for each level, for a sum whose right neighbour is not computed yet. */
typedef struct smoe_grad_accum {
    real *slab[SMOE_GRAD_ACCUM_LEVELS];
    size_t levels, size; /* elements of a slab */
} smoe_grad_accum;

/* For trees of `count` pieces, a power of two, of the gradients of the table. Free in any case. */
int smoe_grad_accum_open(smoe_grad_accum *pieces, const smoe_params *params, size_t count,
                         smoe_err *err) SMOE_MUST_CHECK;
void smoe_grad_accum_free(smoe_grad_accum *pieces);

/* Adds the gradients of piece `i` in params->g to the tree. After the last piece params->g has the
 * sum; after any other it is ready for the next backward pass. Those that layers leave as outer
 * products are their own tree (math/outer.h), and take no memory in the slabs. */
void smoe_grad_accum_add(smoe_grad_accum *pieces, smoe_params *params, size_t i);

/* Makes gradients count as zero, as after an update of the optimiser. */
void smoe_grad_accum_clear(smoe_params *params);

/* The same tree over vectors x [count,n] of numbers: the sum is in the first. */
void smoe_grad_accum_sum(double *x, size_t count, size_t n);
