/* Time by part; see clock.h. */
#include "base/clock.h"

#include <time.h>

double smoe_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double smoe_since(double start) {
    double seconds = smoe_now() - start;
    return seconds > 1e-9 ? seconds : 1e-9;
}

void smoe_clock_start(smoe_clock *clock) {
    if (clock) clock->last = smoe_now();
}

void smoe_clock_lap(smoe_clock *clock, size_t part) {
    if (!clock) return;
    double seconds = smoe_since(clock->last);
    clock->seconds[part] += seconds;
    clock->last += seconds;
}
