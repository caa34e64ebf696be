/*
 * From the command line to the trials of a sweep: a spec with its section `sweep`, or an existing
 * run, and overrides. Overrides with lists, key=a,b,c, are swept; each trained trial is evaluated
 * at every value of evaluate.key=a,b,c.
 */
#ifndef SMOE_GRID_H
#define SMOE_GRID_H

#include "sweep/sweep.h"

typedef struct smoe_grid_options {
    bool skip_invalid; /* leave out combinations that are no valid spec: err has their names then,
                          although the call succeeds */
    bool referred;     /* the caller sets a reference: that of the spec is not looked at */
    bool planned;      /* nothing will run, so keys start.KEY need no init */
    const char *init;  /* what the trials start from (sweep/start.h); NULL: new weights */
    smoe_start start;
} smoe_grid_options;

/* The trials of a spec. *skipped: combinations that are no valid spec. SMOE_USAGE: there are some
 * (without skip_invalid), or if nothing is to be swept. */
int smoe_grid_of_spec(smoe_sweep *sweep, const smoe_spec_text *text, char *const *overrides,
                      size_t count, const smoe_grid_options *options, size_t *skipped,
                      smoe_err *err) SMOE_MUST_CHECK;

/* A sweep with one trial, the existing run in DIR, evaluated at the lists. */
int smoe_grid_of_run(smoe_sweep *sweep, const char *dir, char *const *overrides, size_t count,
                     smoe_err *err) SMOE_MUST_CHECK;

#endif
