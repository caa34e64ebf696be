/* Time by part; see clock.h. */
#include "base/clock.h"

#include <time.h>

static const char *const names[] = {
#define PART(name, help) #name,
    SMOE_PARTS(PART)
#undef PART
};
const char *smoe_part_name(smoe_part part) {
    return names[part];
}
double smoe_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void smoe_clock_start(smoe_clock *clock) {
    if (clock) clock->last = smoe_now();
}

void smoe_clock_lap(smoe_clock *clock, smoe_part part) {
    if (!clock) return;
    double now = smoe_now();
    clock->seconds[part] += now - clock->last;
    clock->last = now;
}
