/*
 * Loops that are shared by threads, and the time of the threads in them: how long they do which
 * work, and how long they wait for each other. Times are measured only while somebody watches.
 */
#ifndef SMOE_TEAM_H
#define SMOE_TEAM_H

#include "base/threads.h"

/* Work is numbered; rooms above have numbers of their own, from SMOE_WORK_ABOVE on, and names for
 * all of them (spec/parts.def). */
enum {
    SMOE_WORK_alone,   /* one thread, outside of all loops */
    SMOE_WORK_waiting, /* the others meanwhile, and those that have done their share of a loop */
    SMOE_WORK_products,
    SMOE_WORK_elementwise,
    SMOE_WORK_ABOVE,
    SMOE_TEAM_WORKS = 8 /* at most */
};

/* Seconds of all threads together, by work. */
typedef struct smoe_worked {
    double seconds[SMOE_TEAM_WORKS];
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
    int work;
    double begin;
} smoe_shift;
smoe_shift smoe_shift_begin(int work);
void smoe_shift_end(smoe_shift *shift);

#endif
