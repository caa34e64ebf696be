/*
 * Tuning parameters: values found by measurement, which change speed but never bits. Those that
 * determine registers and loops have a column for each instruction set (tuning_kernels.h); none
 * inherits values unseen. The columns for NEON and plain (SSE2 and others) have safe values that
 * have not been tuned.
 */
#pragma once

#include "base/base.h"

/* Streams of memory, 1 to SMOE_STREAMS, in which one thread prefetches a long array. Zen 5 drops
 * prefetches beyond its miss queue, but its hardware prefetcher follows one stream well; on Intel
 * four streams side by side are faster than one. */
enum { SMOE_STREAMS = 4 };
size_t smoe_tuning_streams(void);

enum {
    SMOE_OUTER_TERMS = 32, /* terms up to which a gradient stays a sum of outer products */
    SMOE_OUTER_ROWS =
        4, /* rows of a gradient made at a time: with more, Adam and memory wait for each other */
    SMOE_ADAM_PREFETCH = 32 * SMOE_LINE, /* elements that Adam prefetches ahead */
    SUM_PREFETCH = 1024                  /* elements that a sum of squares prefetches ahead */
};
