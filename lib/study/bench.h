/*
 * How fast a spec's model trains and answers here, against the limits of the machine (yardstick.h)
 * measured between its passes: training step and inference of one batch of random pixels. With a
 * file of weights: inference alone, out of the file.
 */
#ifndef SMOE_BENCH_H
#define SMOE_BENCH_H

#include "base/clock.h"
#include "spec/spec.h"
#include "train/safetensors.h"

enum { SMOE_BENCH_MOST = 1000 }; /* rounds at most */

typedef struct smoe_bench_time {
    double min, median; /* seconds; the highest share of a limit comes from the minimum */
} smoe_bench_time;

/* What a part of the model cannot be faster than on this machine. */
typedef struct smoe_bench_limit {
    double seconds;
    bool memory; /* it is memory that limits, else multiply-adds */
} smoe_bench_limit;

typedef struct smoe_bench {
    size_t batch;
    int threads;
    double params, flops_train, flops_infer; /* of the batch; products, a multiply-add is 2 */
    smoe_bench_time train, infer;
    double gemm_gflops, fma_gflops, memory_bandwidth; /* the machine's; the last in bytes/s */
    double mfu_gemm_train, mfu_gemm_infer, mfu_fma_train, mfu_fma_infer;
    double mfu_fma_layers;                /* of a training step without the optimiser */
    double optimizer_bandwidth;           /* bytes/s of norm and update, mean */
    double planned_bytes, peak_rss_bytes; /* the latter without the yardsticks */
    double data_s; /* processor time of making a training batch, which happens beside the step;
                      0 where the spec's data cannot be opened */
    double weight_bytes,
        read_bandwidth; /* of a file of weights: bytes in it, and bytes/s at which a
                                            plain loop on all threads reads it; 0 without one */
    smoe_clock train_parts, infer_parts; /* means over the rounds */
    smoe_bench_limit train_limit[SMOE_PART_COUNT], infer_limit[SMOE_PART_COUNT];
} smoe_bench;

/* `rounds` timed rounds after one that is not, of inference and then of training (each with
 * products in between). `weights`, a checkpoint of that spec: inference with its weights where they
 * lie, and no training, whose results are 0 then; NULL: initial weights in memory. progress(user,
 * done, of) may be NULL. */
int smoe_bench_run(smoe_bench *bench, const smoe_spec *spec, size_t classes,
                   const smoe_safetensors *weights, size_t rounds,
                   void (*progress)(void *user, size_t done, size_t of), void *user,
                   smoe_err *err) SMOE_MUST_CHECK;

#endif
