/* The prefetch that the kernels of products share. */
#pragma once

#include "math/kernels.h"

/* Prefetches two cache lines into the L2. */
static inline void prefetch(smoe_prefetch *next) {
    __builtin_prefetch(next->at, 0, 2);
    __builtin_prefetch(next->at + 64, 0, 2);
    next->at += next->step;
    if (--next->left) return;
    next->at += next->skip;
    next->left = next->run;
}
