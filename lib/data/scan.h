/*
 * Scans of data, which may take long: opening a data set, walking a folder, decoding all images of
 * a split. A request stops them, and progress is told. Both belong to the thread that scans. Not
 * here: what is read.
 */
#ifndef SMOE_DATA_SCAN_H
#define SMOE_DATA_SCAN_H

#include "base/base.h"

#include <signal.h>

typedef struct smoe_scan {
    const volatile sig_atomic_t *stop; /* set by a request to stop; NULL: there is none */
    /* `done` images of `all`, or, where that is 0, so many files were found; both are 0 when a
     * scan begins, and when it has ended. NULL: nobody is told. */
    void (*show)(void *user, size_t done, size_t all);
    void *user;
    size_t found, depth; /* scans of which this one is a part */
} smoe_scan;

/* That of this thread. */
smoe_scan *smoe_scan_here(void);

/* Around a scan, which may be a part of another one. smoe_scan_end returns `status`. */
smoe_scan *smoe_scan_begin(void);
int smoe_scan_end(int status);

/* Before each image, on any thread; before each file that is found, with `all` 0. SMOE_STOPPED
 * after a request to stop. */
int smoe_scan_at(smoe_scan *scan, size_t done, size_t all, smoe_err *err) SMOE_MUST_CHECK;

/* Within a file that may take long, on the thread that scans: SMOE_STOPPED after a request. */
int smoe_scan_asked(smoe_err *err) SMOE_MUST_CHECK;

#endif
