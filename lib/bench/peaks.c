/* Measuring the machine; see peaks.h. */
#include "bench/peaks.h"
#include "base/clock.h"
#include "base/threads.h"
#include "math/blas.h"
#include "math/kernels.h"
#include "math/tuning.h"

#include <string.h>

enum {
    SIDE = 1024, /* of the square matrices */
    FMA_ROUNDS = 2000000,
    MATRIX_ROUNDS = 20000,  /* of 32 x 32 x 32 */
    ARRAYS = 4,             /* weights, gradients and two moments */
    LENGTH = 16 << 20,      /* numbers of an array: together more than a cache holds for long */
    STRIDE = LENGTH + 1040, /* distance between arrays: if the low bits of addresses agree,
                             * processors mistake a load for a load of what was just stored, and
                             * wait */
    CHUNK = 1 << 15,        /* numbers of an array that a thread takes, as the optimiser does */
    WINDOW = 256 << 20,     /* bytes that one measurement reads, */
    PIECE = 1 << 16,        /* in such pieces */
};

int smoe_peaks_open(smoe_peaks *y, smoe_err *err) {
    size_t square = (size_t)SIDE * SIDE, slab = (size_t)ARRAYS * STRIDE;
    *y = (smoe_peaks){.threads = smoe_threads(),
                      .bytes = (double)((3 * square + slab) * sizeof(real))};
    /* With large pages: the peak is the best that the machine can do, not the default. */
    for (int bound = 0; bound < 2; bound++) {
        y->slab = smoe_arena_take(&y->arena, slab, sizeof(real));
        for (int i = 0; i < 3; i++) y->square[i] = smoe_arena_take(&y->arena, square, sizeof(real));
        if (!bound && smoe_arena_bind(&y->arena, err))
            return smoe_fail_prefix(err, "the buffers to measure the peak rates");
    }
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < square; j++) y->square[i][j] = (real)(j % 7);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < slab; i++) y->slab[i] = 1;
    y->read = (const char *)y->slab;
    y->read_bytes = slab * sizeof(real);
    return 0;
}

void smoe_peaks_free(smoe_peaks *y) {
    smoe_arena_free(&y->arena);
}

static double product_gflops(smoe_peaks *y) {
    double start = smoe_now();
    smoe_blas_product(y->square[0], y->square[1], y->square[2], SIDE, SIDE, SIDE, y->threads);
    return 2e-9 * SIDE * SIDE * SIDE / (smoe_now() - start);
}

static double multiply_add_gflops(void) {
    double flops = 0, start = smoe_now();
#pragma omp parallel reduction(+ : flops)
    flops += smoe_kernels_get()->gemm->peak(FMA_ROUNDS);
    return 1e-9 * flops / (smoe_now() - start);
}

static double matrix_gflops(void) {
    double flops = 0, start = smoe_now();
#pragma omp parallel reduction(+ : flops)
    flops += smoe_kernels_get()->matrix->peak(MATRIX_ROUNDS);
    return 1e-9 * flops / (smoe_now() - start);
}

static double memory_bandwidth(smoe_peaks *y) {
    double start = smoe_now();
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < LENGTH; at += CHUNK) {
        real *a = y->slab + at, *b = a + STRIDE, *c = b + STRIDE, *d = c + STRIDE;
        for (size_t i = 0; i < CHUNK; i++) {
            a[i] += 1;
            b[i] += 1;
            c[i] += 1;
            d[i] += 1;
        }
    }
    return 2.0 * ARRAYS * LENGTH * sizeof(real) / (smoe_now() - start);
}

void smoe_peaks_reads(smoe_peaks *y, const void *at, size_t bytes) {
    if (bytes < SMOE_STREAMS * PIECE) return;
    y->read = at;
    y->read_bytes = bytes;
}

/* Reads a window; in a file another one each time, so that no cache holds it already. */
static double read_bandwidth(smoe_peaks *y) {
    size_t count = y->read_bytes < WINDOW ? y->read_bytes : WINDOW;
    size_t pieces = count / SMOE_STREAMS / PIECE, stride = pieces * PIECE;
    if (y->window + count > y->read_bytes) y->window = 0;
    const char *from = y->read + y->window;
    uint32_t all = 0;
    double start = smoe_now();
#pragma omp parallel for schedule(static) reduction(^ : all)
    for (size_t i = 0; i < pieces; i++)
        all ^= smoe_kernels_get()->gemm->read_streams(from + i * PIECE, stride, PIECE);
    double seconds = smoe_now() - start;
    y->window += count;
    y->bits ^= all;
    return (double)(SMOE_STREAMS * stride) / seconds;
}

smoe_machine smoe_peaks_measure(smoe_peaks *y) {
    return (smoe_machine){.gemm_gflops = product_gflops(y),
                          .fma_gflops = multiply_add_gflops(),
                          .matrix_gflops = matrix_gflops(),
                          .memory_bandwidth = memory_bandwidth(y),
                          .read_bandwidth = read_bandwidth(y)};
}
