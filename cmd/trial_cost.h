/* The cost of a trial, for --dry-run and --slurm. */
#ifndef SMOE_TRIAL_COST_H
#define SMOE_TRIAL_COST_H

#include "opt.h"
#include "bench/cost.h"
#include "sweep/sweep.h"

/* The spec of a trial, its classes and its cost; the caller frees both, also on failure. */
int smoe_trial_cost(smoe_spec *spec, size_t *classes, smoe_cost *cost, const smoe_trial *trial,
                    const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

#endif
