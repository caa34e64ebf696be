/* Threads: OpenMP, set once at start. Results never depend on their number, which smoe_threads_set
 * and smoe_threads of smoe/smoe.h set and return. */
#ifndef SMOE_THREADS_H
#define SMOE_THREADS_H

#include "base/base.h"

/* The number of the calling thread inside a parallel region; 0 outside. */
size_t smoe_thread(void);

#endif
