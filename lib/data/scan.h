/*
 * Scans of data, which may take long: opening a data set, walking a folder, decoding all images of
 * a split. A request stops them, and they report progress. The caller passes a smoe_scan to the
 * functions that read; NULL: no requests and no reports. Not here: what is read.
 */
#pragma once

#include "base/base.h"

#include <signal.h>

typedef struct smoe_scan {
    const volatile sig_atomic_t *stop; /* set by a request to stop; NULL: there is none */
    /* Reports `done` of `all` images, and what is done with them ("images read"), or, if `all` is
     * 0, that many files found; both are 0 when a scan begins and when it has ended. Called by the
     * thread that scans; may be NULL. */
    void (*show)(void *user, size_t done, size_t all, const char *what);
    void *user;
    struct smoe_datasets *kept; /* sets to use again (data/dataset.h), or NULL */
    size_t found, depth;        /* scans of which this one is a part */
} smoe_scan;

/* The scan (NULL: none), which a request stops, too. */
smoe_scan smoe_scan_until(const smoe_scan *scan, const volatile sig_atomic_t *stop);

/* Around a scan, which may be a part of another one. smoe_scan_end returns `status`. */
void smoe_scan_begin(smoe_scan *scan);
int smoe_scan_end(smoe_scan *scan, int status);

/* To be called before each image, and with `all` 0 before each file that is found. A split may be
 * gone through more than once: `what` tells these apart. SMOE_STOPPED after a request to stop. */
int smoe_scan_at(smoe_scan *scan, size_t done, size_t all, const char *what,
                 smoe_err *err) SMOE_MUST_CHECK;

/* On other threads than the one that scans, and within a file that may take long: SMOE_STOPPED
 * after a request. */
int smoe_scan_asked(const smoe_scan *scan, smoe_err *err) SMOE_MUST_CHECK;
