/* Threads: OpenMP, set once at start. Results never depend on how many there are. */
#ifndef SMOE_THREADS_H
#define SMOE_THREADS_H

#include "base/base.h"

/* More than any one machine has; OpenMP's runtime takes room on the stack for each of a team, and
 * dies of tens of thousands. */
enum { SMOE_MOST_THREADS = 1024 };

/* How many threads parallel regions use from now on, at most SMOE_MOST_THREADS; n = 0: as many as
 * the process may run on. */
void smoe_threads_set(int n);
int smoe_threads(void);
/* Which of them the caller is, inside a parallel region; 0 outside. */
size_t smoe_thread(void);

#endif
