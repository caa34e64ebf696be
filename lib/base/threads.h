/* Threads: OpenMP, set once at start. Results never depend on their number, which smoe_threads_set
 * and smoe_threads of smoe/smoe.h set and return. */
#pragma once

#include "base/base.h"

/* The number of the calling thread inside a parallel region; 0 outside. */
size_t smoe_thread(void);

/* Bytes of the stack of a thread that OpenMP starts, by OMP_STACKSIZE and the like; SIZE_MAX: it
 * starts none, or that is not known. */
size_t smoe_threads_stack(void);

/* Memory of the calling thread for one kind of work, at least `bytes`, aligned to a cache line:
 * what one use writes, the next one overwrites. It is taken from the heap at the first use and
 * freed when the thread ends; if there is none, smoe_alloc_end is called. What is too large for a
 * small stack is here. */
typedef enum smoe_room {
    SMOE_ROOM_PRODUCTS,
    SMOE_ROOM_GRADIENTS, /* of a range of parameters, made of */
    SMOE_ROOM_STEP,      /* steps of outer products (math/outer.h), made of */
    SMOE_ROOM_SUMS,      /* sums of passes */
    SMOE_ROOMS
} smoe_room;
void *smoe_thread_room(smoe_room use, size_t bytes);
