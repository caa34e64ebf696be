/*
 * Images and their captions, each among those of the batch (CLIP): logits [B,B] of image b with
 * text c, the target at [b,b] is 1. The loss of image b is the mean of the two cross-entropies of
 * its row and of its column, whose gradient is (softmax of the row + softmax of the column)/2 less
 * the target.
 */
#include "base/team.h"
#include "train/task.h"

#include <assert.h>

/* log(sum of exp) of n numbers, `step` apart. */
static double log_sum(const real *l, size_t n, size_t step) {
    double top = (double)l[0], sum = 0;
    for (size_t i = 1; i < n; i++) top = (double)l[i * step] > top ? (double)l[i * step] : top;
    for (size_t i = 0; i < n; i++) sum += exp((double)l[i * step] - top);
    return top + log(sum);
}

/* rows: first the row's, then the column's, which every gradient of the column needs. */
static void contrastive_batch(smoe_task_sums *sums, real *dlogits, double *rows,
                              const smoe_task_batch *x) {
    const real *logits = x->logits, *target = x->target;
    const size_t B = x->B, N = x->N;
    const double scale = 0.5 / (double)x->whole;
    assert(N == B && x->smoothing == 0);
    SMOE_SHARED(elementwise, B * N)
    for (size_t b = 0; b < B; b++) {
        double row = log_sum(logits + b * N, N, 1);
        rows[b] = row - (double)logits[b * N + b];
        for (size_t c = 0; dlogits && c < N; c++)
            dlogits[b * N + c] =
                (real)(scale * (exp((double)logits[b * N + c] - row) - (double)target[b * N + c]));
    }
    SMOE_SHARED(elementwise, B * N)
    for (size_t c = 0; c < N; c++) {
        double column = log_sum(logits + c, B, N);
        rows[c] = (rows[c] + column - (double)logits[c * N + c]) / 2;
        for (size_t b = 0; dlogits && b < B; b++)
            dlogits[b * N + c] += (real)(scale * (exp((double)logits[b * N + c] - column) -
                                                  (double)target[b * N + c]));
    }
    for (size_t b = 0; b < B; b++) {
        sums->loss += rows[b];
        sums->correct += smoe_task_correct(logits + b * N, target + b * N, N);
    }
}

const smoe_task smoe_task_contrastive = {.batch = contrastive_batch};
