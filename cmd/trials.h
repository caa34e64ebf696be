/* What is told about the trials of a sweep: their results, their state, their cost. */
#pragma once

#include "opt.h"
#include "sweep/results.h"

/* The tables of the summary and of the contrasts on stdout, or with --json all results. */
int smoe_trials_summary(const smoe_results *results, const smoe_options *options,
                        smoe_err *err) SMOE_MUST_CHECK;

/* How many seeds the contrasts need for some differences: --power, whose text is a list of them. */
int smoe_trials_power(smoe_sweep *sweep, const smoe_options *options,
                      smoe_err *err) SMOE_MUST_CHECK;

/* For each row the value of a key with the highest precision@1 on the split val, of its own trials
 * or of their evaluations there: --tune. */
int smoe_trials_tune(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* The state of each trial: --status. */
int smoe_trials_status(smoe_result *result, const smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* The cost of each trial, with a short measurement of its step: --dry-run. */
int smoe_trials_estimate(smoe_sweep *sweep, const smoe_options *options,
                         smoe_err *err) SMOE_MUST_CHECK;

/* A script for sbatch, a job array of Slurm that works on the sweep, whose folder is there:
 * --slurm. */
int smoe_trials_slurm(smoe_sweep *sweep, const smoe_options *options,
                      smoe_err *err) SMOE_MUST_CHECK;
