/* A job array of Slurm that works on a sweep: --slurm. */
#ifndef SMOE_SLURM_H
#define SMOE_SLURM_H

#include "opt.h"
#include "sweep/sweep.h"

/* Writes options->slurm, a script for sbatch. The sweep has a folder. */
int smoe_slurm_write(const smoe_sweep *sweep, const smoe_options *options,
                     smoe_err *err) SMOE_MUST_CHECK;

#endif
