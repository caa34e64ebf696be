/*
 * Tuning parameters: values found by measurement, which change speed but never bits. Two kinds:
 *   fixed when a kernel is compiled, with a column for each instruction set, because they determine
 *   registers and loops (tuning_kernels.h);
 *   chosen when the program starts, one structure per processor family (smoe_tuning).
 * A new instruction set gets a column, a new family a structure; none inherits values unseen. The
 * columns for NEON and plain (SSE2 and others) have safe values that have not been tuned.
 */
#pragma once

#include "base/base.h"

/* ---- one structure per processor family ------------------------------------------------------ */

typedef struct smoe_tuning {
    const char *family; /* for env.json: "intel", "amd", "arm", "unknown" */
    /* Streams of memory, 1 to SMOE_STREAMS, in which one thread prefetches a long array. Zen 5
     * drops prefetches beyond its miss queue, but its hardware prefetcher follows one stream well;
     * on Intel four streams side by side are faster than one. */
    size_t streams;
} smoe_tuning;

enum { SMOE_STREAMS = 4 };

/* The structure of this processor, which is determined once. */
const smoe_tuning *smoe_tuning_get(void);

/* ---- the same for all processors ------------------------------------------------------------- */

enum {
    SMOE_OUTER_TERMS = 32, /* terms up to which a gradient stays a sum of outer products */
    SMOE_OUTER_ROWS =
        4, /* rows of a gradient made at a time: with more, Adam and memory wait for each other */
    SMOE_ADAM_PREFETCH = 32 * SMOE_LINE, /* elements that Adam prefetches ahead */
    SUM_PREFETCH = 1024                  /* elements that a sum of squares prefetches ahead */
};
