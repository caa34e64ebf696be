/*
 * Claims: at most one process, of any machine, works on something in a shared folder. A claim is a
 * file that is linked to its name when it is complete, renewed while it is held, and removed at the
 * end; nothing is asked of the file system but hard links, or else exclusive creation, and renaming
 * (no locks, which many shared ones refuse).
 *
 * The claim of a process that is gone is taken over: at once on the same machine, where that can be
 * seen; from another machine when it has not been renewed for its lease, as measured by the clock
 * of the process that waits for it. Clocks of machines are never compared. Of several processes
 * that take over the same claim one succeeds: that which holds a claim on doing so.
 */
#pragma once

#include "base/base.h"

#include <sys/types.h>

enum { SMOE_CLAIM_LEASE = 120, SMOE_CLAIM_RENEW = 15 }; /* seconds */

typedef struct smoe_claim {
    char *path; /* owned; NULL: it is not held */
    char token[64];
    pid_t worker; /* another process that works under the claim, or 0 */
    unsigned lease;
    uint64_t beat; /* times it was renewed */
    double renewed;
} smoe_claim;

/* What a process knows of a claim that others hold, and of the claims on the right to take it over
 * (of which the last is never taken over); all zero at first. */
enum { SMOE_CLAIM_LEVELS = 3 };
typedef struct smoe_claim_sight {
    uint32_t sum; /* of its text */
    double since; /* the clock when it was first seen so */
} smoe_claim_sight;
typedef struct smoe_claim_seen {
    smoe_claim_sight level[SMOE_CLAIM_LEVELS];
} smoe_claim_seen;

/* 1: ours, to be renewed every SMOE_CLAIM_RENEW seconds or to be held for less than `lease`, until
 * smoe_claim_release; 0: another process holds it; -1: the folder cannot be written. `seen` may be
 * NULL: then claims of other machines stand. */
int smoe_claim_take(smoe_claim *claim, const char *path, unsigned lease, smoe_claim_seen *seen,
                    smoe_err *err) SMOE_MUST_CHECK;

/* Does nothing if it was renewed lately, unless the worker is another one. 0; 1: another process
 * has taken it over, as this one was stopped or cut off for longer than the lease; -1: it could not
 * be written for half of the lease. */
int smoe_claim_renew(smoe_claim *claim, pid_t worker, smoe_err *err) SMOE_MUST_CHECK;
void smoe_claim_release(smoe_claim *claim);

/* The holder, "process 123 on host", fresh; NULL: none, as far as can be seen. Of a holder on
 * another machine only the age of the file is known, if the clocks agree; nothing is taken over
 * because of it. */
char *smoe_claim_holder(const char *path);
