/*
 * Code that sweep and ablate share: the folder, the trials that sweep/runner.h runs, the live table
 * and the summary.
 */
#ifndef SMOE_TRIALS_H
#define SMOE_TRIALS_H

#include "opt.h"
#include "sweep/results.h"
#include "sweep/sweep.h"

#include <jansson.h>

/* One kind of sweep: the differences between the commands. */
typedef struct smoe_trials_kind {
    const char *suffix; /* of the default folder, runs/NAME-SUFFIX */
    /* The trials of a spec, or of the directory of a run. */
    int (*expand)(smoe_sweep *sweep, const char *arg, const smoe_options *options, smoe_err *err);
    /* Whether an existing sweep is of this kind; NULL: all are. */
    int (*check)(const smoe_sweep *sweep, smoe_err *err);
    /* The default reference, if some group has this setting; NULL: the first. */
    const char *reference;
} smoe_trials_kind;

/* The whole command: SPEC.yaml, or a folder with --resume or --status; the run or the dry run; the
 * results. SMOE_STOPPED after a first SIGINT or SIGTERM, once every running trial has a checkpoint;
 * SMOE_PARTIAL names the failed trials. */
int smoe_trials_command(const smoe_trials_kind *kind, const smoe_options *options,
                        smoe_err *err) SMOE_MUST_CHECK;

/* "seed=LIST" of --seeds or of the override, fresh; NULL where there is neither. SMOE_USAGE: both.
 */
int smoe_trials_seeds(char **seeds, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Whether this is the directory of a run, and not of a sweep. */
bool smoe_trials_is_run(const char *arg);

/* The tables of the summary and of the contrasts on stdout, or with --json all results. */
int smoe_trials_summary(const smoe_results *results, const smoe_options *options,
                        smoe_err *err) SMOE_MUST_CHECK;

/* How many seeds the contrasts need for some differences: --power, whose text is a list of them. */
int smoe_trials_power(const smoe_results *results, const smoe_options *options,
                      smoe_err *err) SMOE_MUST_CHECK;

/* The state of each trial: --status. */
int smoe_trials_status(smoe_result *result, const smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* The cost of each trial, with a short measurement of its step: --dry-run. */
int smoe_trials_estimate(const smoe_sweep *sweep, const smoe_options *options,
                         smoe_err *err) SMOE_MUST_CHECK;

#endif
