/*
 * Where the time of a pass goes: seconds by part. The user of the clock numbers and names the
 * parts.
 */
#pragma once

#include "base/base.h"

enum { SMOE_CLOCK_PARTS = 16 }; /* at most */

typedef struct smoe_clock {
    double last, seconds[SMOE_CLOCK_PARTS];
} smoe_clock;

/* Seconds of a monotonic clock. */
double smoe_now(void);

/* Seconds since `start`, at least a nanosecond, the unit of that clock: a rate is finite, even if a
 * coarse clock has not moved. */
double smoe_since(double start);

/* Adds the time since the last lap (or start) to `part`. With a NULL clock nothing is measured. */
void smoe_clock_start(smoe_clock *clock);
void smoe_clock_lap(smoe_clock *clock, size_t part);
