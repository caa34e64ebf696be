/*
 * How much readers of files hold. A file is not trusted: what a header claims is not allocated
 * before its bytes are there, and nothing is inflated without a bound.
 *
 *   model of another program (.npz, .pth)   smoe_most_inflated, twice while it is converted
 *   cifar, idx                              smoe_most_inflated of each file, 1 GiB
 *   image                                   SMOE_MOST_IMAGE_BYTES, SMOE_MOST_PIXELS (data/)
 *   archive                                 blocks; of a member what its reader says
 *   safetensors, npy                        mapped, not read
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SMOE_INFLATED_TIMES = 64, SMOE_INFLATED_MORE = 1 << 20 };

/* The bytes to which a compressed file of that size may inflate. Weights and images hardly shrink;
 * bytes that are all the same do so a thousandfold. */
static inline size_t smoe_most_inflated(size_t size) {
    return size > (SIZE_MAX - SMOE_INFLATED_MORE) / SMOE_INFLATED_TIMES
               ? SIZE_MAX
               : size * SMOE_INFLATED_TIMES + SMOE_INFLATED_MORE;
}
