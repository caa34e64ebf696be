/* Which trials of a sweep a process runs, where these are not all. */
#ifndef SMOE_CHOOSE_H
#define SMOE_CHOOSE_H

#include "sweep/sweep.h"

/* Leaves out every trial whose number, with which its name begins, is not in the list, as
 * "3,17-20"; `from` names the list in messages. SMOE_USAGE: a part of the list is no number or
 * range, or there is no such trial. */
int smoe_choose_trials(smoe_sweep *sweep, const char *list, const char *from,
                       smoe_err *err) SMOE_MUST_CHECK;

/* The number of trials that are not left out. */
size_t smoe_choose_count(const smoe_sweep *sweep);

#endif
