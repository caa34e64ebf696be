/*
 * What the trials of a sweep with `init` start from: one model for all of them, or the trial of
 * another sweep that has the same settings, as far as that sweep varies them. A swept key
 * "start.KEY" is the value of KEY that the start has, where the trial itself has another.
 */
#pragma once

#include "sweep/sweep.h"
#include "tensors/init_map.h"

/* Sets sweep->init to the absolute path of `init`, a run, a checkpoint, a file, the folder of a
 * sweep, or NULL, and checks that every trial has a start there (SMOE_USAGE names the first that
 * has none, or more than one, or a key "start.KEY" that nothing varies; SMOE_DATA where `init`
 * cannot be read). */
int smoe_start_set(smoe_sweep *sweep, const char *init, const smoe_start *how,
                   smoe_err *err) SMOE_MUST_CHECK;

/* Checks, before any trial runs, that the trials can start there: SMOE_DATA names the first whose
 * model has other shapes than the file; with `moments` SMOE_USAGE if one cannot have those. Trials
 * that the sweep in `dir` already has are not checked; NULL: all are new. */
int smoe_start_check(const smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* The model that trial i starts from, fresh: a path for smoe_run_locate. NULL with err. */
char *smoe_start_of(const smoe_sweep *sweep, size_t i, smoe_err *err);

/* How a trial of that spec takes the tensors of the model. */
smoe_fit smoe_start_fit(const smoe_sweep *sweep, const smoe_spec *spec);
