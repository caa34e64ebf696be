/*
 * The progress of training on stderr: on a terminal one line that is rewritten, elsewhere a plain
 * line from time to time; evaluations and remarks stay. It is an observer of the trainer.
 */
#pragma once

#include "opt.h"
#include "train/find_rate.h"
#include "train/trainer.h"

typedef struct smoe_progress {
    const smoe_options *options;
    bool lines, terminal, color;
    bool shown;           /* a line without its end is on the terminal */
    double last;          /* when the last line was written, in seconds of the monotonic clock */
    smoe_find_rate *find; /* of train --find-lr: is told the losses; NULL: none */
    const char *what;     /* is counted, of work without steps: "images" */
    const volatile sig_atomic_t *stop; /* a requested stop is acknowledged in the line */
    smoe_observer observer;
    smoe_scan scan; /* shows data that is read */
} smoe_progress;

/* Fills `progress`, whose observer and scan then point at it. what and stop may be NULL. */
void smoe_progress_open(smoe_progress *progress, const smoe_options *options, const char *what,
                        const volatile sig_atomic_t *stop);

/* "120 of 2000 images": for work without steps, which is told by a callback of this type. */
void smoe_progress_count(void *progress, size_t done, size_t all);

/* Removes an unfinished line. */
void smoe_progress_close(smoe_progress *progress);
