/*
 * Running the cells of a sweep, for sweep and ablate: a process a cell, as many at once as --jobs
 * says, beside other processes that share the sweep. Signals, the live table and the summing up are
 * here.
 */
#ifndef SMOE_CELLS_H
#define SMOE_CELLS_H

#include "opt.h"
#include "sweep/results.h"
#include "sweep/sweep.h"

#include <jansson.h>

/* One kind of sweep: what differs between the commands. */
typedef struct smoe_cells_kind {
    const char *suffix; /* of the default folder, runs/NAME-SUFFIX */
    /* The cells of a spec, or of the directory of a run. */
    int (*expand)(smoe_sweep *sweep, const char *arg, const smoe_options *options, smoe_err *err);
    /* Is a sweep that is there of this kind? NULL: any is. */
    int (*check)(const smoe_sweep *sweep, smoe_err *err);
    /* What rows are compared with where nobody says and some row has it; NULL: the first row. */
    const char *reference;
} smoe_cells_kind;

/* The whole command: SPEC.yaml, or a folder with --resume or --status; the run or the dry run; the
 * results. SMOE_STOPPED after a first SIGINT or SIGTERM, once every running cell has a checkpoint;
 * SMOE_PARTIAL names the failed cells. */
int smoe_cells_command(const smoe_cells_kind *kind, const smoe_options *options,
                       smoe_err *err) SMOE_MUST_CHECK;

/* "seed=LIST" of --seeds or of the override, fresh; NULL where there is neither. SMOE_USAGE: both.
 */
int smoe_cells_seeds(char **seeds, const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Is that the directory of a run, and not of a sweep? */
bool smoe_cells_is_run(const char *arg);

/* The tables of the summary and of the differences on stdout, or with --json all results. */
int smoe_cells_summary(const smoe_results *results, const smoe_options *options,
                       smoe_err *err) SMOE_MUST_CHECK;

/* The tables of the differences alone. */
int smoe_cells_differences(const smoe_results *results, const smoe_options *options,
                           smoe_err *err) SMOE_MUST_CHECK;

/* How far each cell is: --status. */
int smoe_cells_status(const smoe_sweep *sweep, const smoe_options *options,
                      smoe_err *err) SMOE_MUST_CHECK;

/* What each cell would cost, with a short measurement of its step: --dry-run. */
int smoe_cells_estimate(const smoe_sweep *sweep, const smoe_options *options,
                        smoe_err *err) SMOE_MUST_CHECK;

#endif
