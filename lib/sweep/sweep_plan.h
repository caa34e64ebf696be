/* The plan of a sweep, stated before any trial runs: primary contrasts, the reference, and margins
 * within which settings count as equivalent. The primary contrasts are in the manifest and cannot
 * change once it is written. */
#pragma once

#include "sweep/sweep.h"

/* Takes the plan over from a spec and checks it against the trials and the evaluations. SMOE_USAGE,
 * with the number of the contrast; see compare/primary.h. */
int smoe_sweep_set_plan(smoe_sweep *sweep, smoe_sweep_plan *plan, smoe_err *err) SMOE_MUST_CHECK;

/* Sets the reference of the sweep to a copy of `settings`; `from` names its source in messages
 * ("--reference"). SMOE_USAGE: see smoe_compare_check. */
int smoe_sweep_refer(smoe_sweep *sweep, const char *settings, const char *from,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Adds seeds, as "0,1", to those whose results were known before the others ran; NULL: none.
 * Contrasts use only the others, as soon as one of those has a result. Returns whether a seed was
 * new. */
bool smoe_sweep_see(smoe_sweep_plan *plan, const char *seeds);
/* Whether a seed is one of them. */
bool smoe_sweep_seen(const smoe_sweep_plan *plan, const char *seed);
