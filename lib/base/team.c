/* Shared loops and the time in them; see team.h. */
#include "base/team.h"
#include "base/clock.h"

#include <omp.h>

int smoe_team_for(size_t size, int threads) {
    /* About 10 microseconds of work for one thread, as long as waking another thread takes. */
    enum { LEAST = 1 << 14 };
    return size < LEAST ? 1 : threads;
}

/* One per process, like OpenMP's threads. */
static struct {
    smoe_worked *worked; /* NULL: no time is measured */
    int threads;
    double start, inside;         /* when watching began; seconds within blocks since */
    int done;                     /* threads that have ended the block they are in, */
    double first_begin, last_end; /* when the first of them came and the last went, */
    double busy;                  /* and the seconds of all of them in it */
} team;

void smoe_team_watch(smoe_worked *worked) {
    *worked = (smoe_worked){0};
    team.worked = worked;
    team.threads = smoe_threads();
    team.inside = 0;
    team.start = smoe_now();
}

void smoe_team_watched(void) {
    double *seconds = team.worked->seconds, outside = smoe_now() - team.start - team.inside;
    seconds[SMOE_WORK_alone] = outside;
    seconds[SMOE_WORK_waiting] += outside * (team.threads - 1);
    team.worked = NULL;
}

smoe_shift smoe_shift_begin(int work) {
    return (smoe_shift){true, work, team.worked ? smoe_now() : 0};
}

/* The last thread knows how long the block took, and so how long the others waited. */
static void team_end(const smoe_shift *shift, double now) {
    if (!team.done || shift->begin < team.first_begin) team.first_begin = shift->begin;
    if (!team.done || now > team.last_end) team.last_end = now;
    team.busy += now - shift->begin;
    team.worked->seconds[shift->work] += now - shift->begin;
    if (++team.done < omp_get_num_threads()) return;
    double took = team.last_end - team.first_begin;
    team.inside += took;
    team.worked->seconds[SMOE_WORK_waiting] += took * team.threads - team.busy;
    team.done = 0;
    team.busy = 0;
}

void smoe_shift_end(smoe_shift *shift) {
    shift->on = false;
    if (!team.worked) return;
    double now = smoe_now();
#pragma omp critical(smoe_team)
    team_end(shift, now);
}
