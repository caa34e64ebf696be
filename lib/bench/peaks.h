/*
 * The machine's own limits, measured between the timed passes, so that a slow moment affects both:
 * a large product by BLIS, multiply-adds on registers, memory that is read and written as an
 * optimiser does it, and memory that is read alone, as weights are.
 */
#ifndef SMOE_PEAKS_H
#define SMOE_PEAKS_H

#include "base/base.h"

/* One measurement of the machine. */
typedef struct smoe_machine {
    double gemm_gflops, fma_gflops;
    double matrix_gflops;    /* products in BF16 by the matrix unit, or what stands in for it */
    double memory_bandwidth; /* bytes/s, read and written: four arrays, each number replaced */
    double read_bandwidth;   /* bytes/s, by each thread in four streams */
} smoe_machine;

typedef struct smoe_peaks {
    int threads;
    double bytes; /* of the buffers for measuring */
    smoe_arena arena;
    real *square[3], *slab;
    /* [read_bytes] what is read alone: the slab, or a file of weights */
    const char *read;
    size_t read_bytes, window;
    uint32_t bits; /* of what was read, so that the compiler keeps the loop */
} smoe_peaks;

/* Allocates the memory for measurements; -1 and SMOE_RUNTIME if there is too little. */
int smoe_peaks_open(smoe_peaks *y, smoe_err *err) SMOE_MUST_CHECK;
/* From now on measures reading with these bytes, if there are enough of them. */
void smoe_peaks_reads(smoe_peaks *y, const void *at, size_t bytes);
/* Some tens of milliseconds. */
smoe_machine smoe_peaks_measure(smoe_peaks *y);
void smoe_peaks_free(smoe_peaks *y);

#endif
