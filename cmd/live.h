/*
 * The progress of a sweep on stderr: on a terminal a table that is redrawn, elsewhere one line per
 * finished trial. It is the observer that is passed to the runner.
 */
#ifndef SMOE_LIVE_H
#define SMOE_LIVE_H

#include "opt.h"
#include "sweep/runner.h"

typedef struct smoe_live {
    const smoe_sweep *sweep;
    bool quiet, lines, terminal;
    size_t jobs;  /* trials at once */
    size_t drawn; /* lines of the table on the terminal */
    double last;  /* when it was drawn */
    smoe_runner_observer observer;
} smoe_live;

/* Fills `live`, whose observer then points at it; the sweep is borrowed. */
void smoe_live_open(smoe_live *live, const smoe_sweep *sweep, const smoe_options *options);

#endif
