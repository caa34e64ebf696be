/*
 * The progress of a sweep on stderr: on a terminal a table that is redrawn, elsewhere one line per
 * finished trial. The processes of the trials write into memory that they share with their parent.
 */
#ifndef SMOE_LIVE_H
#define SMOE_LIVE_H

#include "opt.h"
#include "sweep/sweep.h"
#include "train/trainer.h"

typedef enum smoe_live_state {
    SMOE_LIVE_WAITING,
    SMOE_LIVE_RUNNING,
    SMOE_LIVE_ENDED
} smoe_live_state;

typedef struct smoe_live_trial {
    smoe_live_state state;
    uint64_t step, steps;
    double loss, precision, test_precision, left;
    size_t evaluation, evaluations; /* at other settings: begun, of; 0: not there yet */
} smoe_live_trial;

typedef struct smoe_live {
    const smoe_sweep *sweep;
    smoe_live_trial *trial; /* [trials], shared */
    bool quiet, lines, terminal;
    size_t drawn; /* lines of the table on the terminal */
    double last;  /* when it was drawn */
} smoe_live;

/* Memory that the processes of trials share with their sweep, which is borrowed. */
int smoe_live_open(smoe_live *live, const smoe_sweep *sweep, const smoe_options *options,
                   smoe_err *err) SMOE_MUST_CHECK;

/* For the process of a trial: its observer. */
smoe_observer smoe_live_observer(smoe_live *live, size_t trial);

/* The same for its evaluations at other settings (sweep/evaluations.h); `user` is the observer's.
 */
void smoe_live_evaluated(void *user, size_t done, size_t of);

/* What a trial is doing now. */
void smoe_live_set(smoe_live *live, size_t trial, smoe_live_state state);
/* The trial has ended, as its outcome says. */
void smoe_live_end(smoe_live *live, size_t trial);
/* Redraws the table where there is one and it is time. */
void smoe_live_show(smoe_live *live);
/* A line that stays. */
void smoe_live_say(smoe_live *live, const char *text);
void smoe_live_close(smoe_live *live);

#endif
