/*
 * How fast the model of a spec trains and predicts on this machine, compared with the machine's own
 * limits; and estimates of training, measured if that is quick.
 */
#pragma once

#include "data/scan.h"
#include "bench/cost.h"
#include "math/precision.h"
#include "spec/parts.h"
#include "tensors/safetensors.h"

/* ---- limits of the machine ------------------------------------------------------------------- */

/* Measured between the timed passes, so that a slow moment affects both: a large product by BLIS,
 * multiply-adds on registers, memory that is read and written as an optimiser does it, and memory
 * that is read alone, as weights are. This is one measurement. */
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
/* Some tens of milliseconds. */
smoe_machine smoe_peaks_measure(smoe_peaks *y);
void smoe_peaks_free(smoe_peaks *y);

/* ---- times of a spec ------------------------------------------------------------------------- */

/* A training step and inference on one batch of random pixels. With a file of weights: inference
 * only, with the weights in the file. */
enum { SMOE_BENCH_MOST = 1000 }; /* rounds at most */

/* Of several rounds: the best (the shortest time, the highest speed) and the median. On a shared
 * machine the best values may come from different moments; the medians show the usual case. */
typedef struct smoe_bench_time {
    double min, median; /* seconds */
} smoe_bench_time;

/* Times of one pass of the model: of the whole, of the whole without the optimiser, of each part;
 * and, of all threads together, the processor time and that of each kind of work. */
typedef struct smoe_bench_pass {
    double flops;             /* of the batch; products, a multiply-add is 2 */
    smoe_precision precision; /* of the operands of products, but for those of routers and head */
    smoe_bench_time whole, layers, processor, part[SMOE_PART_COUNT], work[SMOE_WORK_COUNT];
    double part_flops[SMOE_PART_COUNT]; /* what a part has to compute and, at least, */
    double part_read[SMOE_PART_COUNT];  /* to read alone, in bytes, */
    double part_bytes[SMOE_PART_COUNT]; /* and to write, or to read and write */
} smoe_bench_pass;

typedef struct smoe_bench {
    size_t batch, timed, rounds; /* timed passes, and those that were asked for */
    int threads;
    double params;
    smoe_bench_pass train, infer;     /* `train` is all zero with a file of weights */
    smoe_machine best, median;        /* between the rounds */
    double planned_bytes, peak_bytes; /* the latter without the buffers for measuring peaks */
    double data_s;                    /* for the caller to set, to smoe_bench_data */
    double weight_bytes;              /* of a file of weights; 0 without one */
} smoe_bench;

/* What computes the products of a part in this pass: "multiply-adds", or the name of the matrix
 * unit. */
const char *smoe_bench_unit(const smoe_bench_pass *pass, smoe_part part);
/* The seconds that the products of all parts take at the speed of their units; with or without
 * those that the optimiser does. */
double smoe_bench_products(const smoe_bench_pass *pass, const smoe_machine *machine,
                           bool optimizer);
/* The lower bound of the time of a part, in seconds: its products at the speed of their unit, or
 * its bytes at the speed of memory, whichever takes longer; *memory: whether that is memory. */
double smoe_bench_limit(const smoe_bench_pass *pass, smoe_part part, const smoe_machine *machine,
                        bool *memory);

/* How a spec is timed. */
typedef struct smoe_bench_options {
    size_t rounds;                   /* timed, each after an untimed pass */
    const smoe_safetensors *weights; /* a checkpoint of that spec: inference with its weights in the
                                        file, and no training, whose results are then 0; NULL:
                                        initial weights in memory */
    void (*progress)(void *user, size_t done, size_t of); /* or NULL */
    void *user;
    const volatile sig_atomic_t *stop; /* a request to stop; NULL: none */
} smoe_bench_options;

/* Rounds of inference and then of training, with measurements of the peaks in between. A request to
 * stop ends them; then `timed` is less than `rounds`, and of passes without a round all is 0. */
int smoe_bench_run(smoe_bench *bench, const smoe_spec *spec, size_t classes,
                   const smoe_bench_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Seconds of processor time to make a training batch of the spec's data, which happens beside the
 * step; 0 where they cannot be opened. */
double smoe_bench_data(const smoe_spec *spec, smoe_scan *scan);

/* ---- estimates ------------------------------------------------------------------------------- */

/* What training would cost on this machine: parameters, FLOPs and memory according to bench/cost.h,
 * and the time of the steps, measured if that is quick. Dry runs must be fast: models that do
 * not fit into memory get no time, the time of large ones is estimated from the rate of a
 * reference, and after some seconds of measurements the last measured rate is used. */
typedef struct smoe_estimate {
    double params, flops, bytes; /* flops: of the whole training */
    double slots;                /* of the last MoE layer; 0: there is none */
    double seconds;              /* of all steps; NAN: it does not fit */
    bool measured;               /* else from the FLOPs and a rate */
    bool fits;                   /* into the memory of this machine */
} smoe_estimate;

/* All zero at first. */
typedef struct smoe_estimator {
    double memory;          /* bytes of this machine */
    double spent;           /* seconds, on measuring */
    double reference, last; /* FLOP/s: of the reference, and of the last spec measured */
} smoe_estimator;

/* The estimate for a spec whose cost is given. */
int smoe_estimate_make(smoe_estimate *estimate, smoe_estimator *estimator, const smoe_spec *spec,
                       size_t classes, const smoe_cost *cost, smoe_err *err) SMOE_MUST_CHECK;

/* The memory that this process may use, in bytes: that of the machine, or of its control group. */
double smoe_estimate_memory(void);
