/* Retrieval among the images and captions of a split; see retrieval.h. */
#include "train/retrieval.h"
#include "base/team.h"
#include "math/gemm.h"

#include <stdlib.h>

const size_t smoe_recall_at[SMOE_RECALLS] = {1, 5, 10};

static bool nearer(const real *score, size_t a, size_t b) {
    return score[a] > score[b] || (score[a] == score[b] && a < b);
}

static size_t rank_of(const real *score, size_t query, const uint64_t *key, size_t n) {
    size_t best = query, before = 0;
    for (size_t j = 0; j < n; j++)
        if (key[j] == key[query] && nearer(score, j, best)) best = j;
    for (size_t j = 0; j < n; j++) before += key[j] != key[query] && nearer(score, j, best);
    return before;
}

int smoe_retrieval_rank(size_t *rank, const real *queries, const real *items, const uint64_t *key,
                        size_t n, size_t D, smoe_err *err) {
    enum { ROWS = 64 }; /* queries at a time */
    real *score = malloc((ROWS * n + 1) * sizeof *score);
    if (!score) return smoe_fail(err, SMOE_RUNTIME, "out of memory for the scores of %zu items", n);
    for (size_t from = 0, rows; from < n; from += rows) {
        rows = n - from < ROWS ? n - from : ROWS;
        smoe_product p = smoe_linear_product(score, queries + from * D, items, NULL, rows, n, D);
        smoe_gemm(&p);
        SMOE_SHARED(elementwise, rows * n)
        for (size_t i = 0; i < rows; i++) rank[from + i] = rank_of(score + i * n, from + i, key, n);
    }
    free(score);
    return 0;
}

void smoe_retrieval_recall(double recall[SMOE_RECALLS], const size_t *rank, size_t n) {
    for (size_t k = 0; k < SMOE_RECALLS; k++) {
        size_t hits = 0;
        for (size_t i = 0; i < n; i++) hits += rank[i] < smoe_recall_at[k];
        recall[k] = n ? (double)hits / (double)n : 0;
    }
}
