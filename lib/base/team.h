/*
 * Loops that are shared by threads, and the time that the threads spend in them, by kind of work,
 * and waiting for each other. Times are measured only between smoe_team_watch and its end.
 */
#pragma once

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
 * is first set to 0. Call it outside of all loops, like smoe_team_watched. There is one watcher per
 * process, as there is one number of threads. */
void smoe_team_watch(smoe_worked *worked);
/* Ends the measurement; the sum of worked->seconds is the time since the start, times the number of
 * threads. */
void smoe_team_watched(void);

/* The loop that follows, over this many elements, is divided among all threads in equal parts,
 * always in the same way; one thread does all of it if waking the others would take as long. */
#define SMOE_SHARED(work, size) \
    SMOE_SHARED_BY(work, smoe_team_for(size, smoe_threads()), schedule(static))
/* The same with a given number of threads and another schedule of OpenMP. */
#define SMOE_SHARED_BY(work, threads, how) \
    SMOE_TEAM(work, threads) SMOE_PRAGMA(omp for how nowait)
/* `threads`, or 1 if a loop over this many elements is not worth more. */
int smoe_team_for(size_t size, int threads);
/* The block that follows is run by that many threads; `omp for` in it should be `nowait`, because
 * the threads meet at the end of the block. */
#define SMOE_TEAM(work, threads)                   \
    SMOE_PRAGMA(omp parallel num_threads(threads)) \
    for (smoe_shift shift = smoe_shift_begin(SMOE_WORK_##work); shift.on; smoe_shift_end(&shift))
#define SMOE_PRAGMA(...) _Pragma(#__VA_ARGS__)

/* The start and end of one thread's work in a block; for the macros. */
typedef struct smoe_shift {
    bool on;
    int work;
    double begin;
} smoe_shift;
smoe_shift smoe_shift_begin(int work);
void smoe_shift_end(smoe_shift *shift);
