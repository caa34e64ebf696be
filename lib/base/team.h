/*
 * Loops that are shared by threads, and the time of the threads in them: how long they do which
 * work, and how long they wait for each other. Times are measured only while somebody watches.
 */
#ifndef SMOE_TEAM_H
#define SMOE_TEAM_H

#include "base/threads.h"

/* WORK(name, what it is) */
#define SMOE_WORKS(WORK)                                                                        \
    WORK(products, "matrix products, with the GELU applied to them in the cache")               \
    WORK(attention, "scores, softmax and weighted values of the heads")                         \
    WORK(routing, "softmaxes or choices, gathering and scattering of tokens")                   \
    WORK(elementwise, "norms, sums, patches, pooling, loss")                                    \
    WORK(optimizer, "gradient norm and update")                                                 \
    WORK(alone, "one thread, outside of all loops")                                             \
    WORK(waiting, "the other threads meanwhile, and those that have finished their share of a " \
                  "loop")

typedef enum smoe_work {
#define WORK(name, help) SMOE_WORK_##name,
    SMOE_WORKS(WORK)
#undef WORK
        SMOE_WORK_COUNT
} smoe_work;

/* Its name in tables and JSON. */
const char *smoe_work_name(smoe_work work);

/* Seconds of all threads together, by work. */
typedef struct smoe_worked {
    double seconds[SMOE_WORK_COUNT];
} smoe_worked;

/* From now on, until the next call, the time of the threads is added to *worked (not NULL), which
 * starts at 0. To be called outside of all loops, like smoe_team_watched. There is one watcher per
 * process, as there is one number of threads. */
void smoe_team_watch(smoe_worked *worked);
/* Ends the watching; the sum of worked->seconds is the time since the start, times the number of
 * threads. */
void smoe_team_watched(void);

/* The loop that follows, over so many numbers, is shared by all threads in equal parts, the same at
 * any time; one thread has it all where waking the others would take as long. */
#define SMOE_SHARED(work, size) \
    SMOE_SHARED_BY(work, smoe_team_for(size, smoe_threads()), schedule(static))
/* The same by so many threads, with another schedule of OpenMP. */
#define SMOE_SHARED_BY(work, threads, how) \
    SMOE_TEAM(work, threads) SMOE_PRAGMA(omp for how nowait)
/* `threads`, or 1 where a loop over so many numbers is not worth more. */
int smoe_team_for(size_t size, int threads);
/* The block that follows is run by that many threads; `omp for` in it should be `nowait`, because
 * the threads meet at the end of the block. */
#define SMOE_TEAM(work, threads)                   \
    SMOE_PRAGMA(omp parallel num_threads(threads)) \
    for (smoe_shift shift = smoe_shift_begin(SMOE_WORK_##work); shift.on; smoe_shift_end(&shift))
#define SMOE_PRAGMA(...) _Pragma(#__VA_ARGS__)

/* What one thread does in a block; for the macros. */
typedef struct smoe_shift {
    bool on;
    smoe_work work;
    double begin;
} smoe_shift;
smoe_shift smoe_shift_begin(smoe_work work);
void smoe_shift_end(smoe_shift *shift);

#endif
