/*
 * Routing ablations (Soft MoE paper, Table 3): one spec with its router replaced, over seeds. Runs
 * of one seed see the same data in the same order and start from the same weights outside the
 * routers, so they are compared seed by seed (compare/compare.h).
 */
#ifndef SMOE_ABLATE_H
#define SMOE_ABLATE_H

#include "sweep/sweep.h"

/* Axes "router" and "seed" from two lists with commas. `dense` is the spec without MoE
 * layers. `identity` gets as many slots per expert as its tokens need. SMOE_USAGE: an unknown or
 * repeated router or seed, or a spec without MoE layers. */
int smoe_ablate_axes(smoe_axes *axes, const smoe_spec *spec, const char *routers, const char *seeds,
                     smoe_err *err) SMOE_MUST_CHECK;

#endif
