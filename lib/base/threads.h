/* Threads: OpenMP, set once at start. Results never depend on how many there are. */
#ifndef SMOE_THREADS_H
#define SMOE_THREADS_H

#include "base/base.h"

/* More than any machine has. OpenMP's runtime needs stack for each thread of a team, and crashes
 * with tens of thousands. */
enum { SMOE_MOST_THREADS = 1024 };

/* Sets the number of threads of parallel regions, at most SMOE_MOST_THREADS; n = 0: as many as the
 * process may run on. */
void smoe_threads_set(int n);
int smoe_threads(void);
/* The number of the calling thread inside a parallel region; 0 outside. */
size_t smoe_thread(void);

#endif
