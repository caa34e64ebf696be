/*
 * Gradients that layers leave as the factors of outer products (base/param.h), over several
 * processes. Each process has the factors of its own pieces of the batch. They are sent, not the
 * gradients, and the sum over all pieces is computed from all of them, tile by tile, in the tree of
 * the pieces (math/outer.h). So the bits are those of one process, and no process has these
 * gradients in memory.
 *
 * This never sends more than the gradients would be, apart from the numbers of rows. A gradient is
 * left as factors only if those of all G passes are no larger than itself (smoe_outer_sum_pays).
 * Each of R processes then sends at most 1/R of the gradient to each of the others; if gradients
 * were summed in halves, it would send (R - 1)/R of it in all.
 */
#ifndef SMOE_OUTER_GRAD_H
#define SMOE_OUTER_GRAD_H

#include "base/param.h"
#include "comm/comm.h"

/* Each process gets the factors of all processes of `comm`, of all tensors that are sharded. */
void smoe_outer_grad_collect(const smoe_params *params, smoe_comm *comm);

/* Of tensors that are not sharded: each process gets from all others the factors of the experts
 * that have elements in its range of the slabs (smoe_optim_range). If it is only counted what is
 * sent (comm/comm.h), all buffers of choice routers are full. */
void smoe_outer_grad_scatter(const smoe_params *params, smoe_comm *comm);

/* The next gradients that are in memory without a gap, from parameter *i on, of the tensors that
 * are sharded or of the others; returns their number. *i starts at 0. */
size_t smoe_outer_grad_between(const smoe_params *params, bool sharded, size_t *i, size_t *first);

#endif
