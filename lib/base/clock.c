/* Time by part; see clock.h. */
#include "base/clock.h"

#include <time.h>

double smoe_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void smoe_clock_start(smoe_clock *clock) {
    if (clock) clock->last = smoe_now();
}

void smoe_clock_lap(smoe_clock *clock, size_t part) {
    if (!clock) return;
    double now = smoe_now();
    clock->seconds[part] += now - clock->last;
    clock->last = now;
}
