/* Retrieval among the images and captions of a split; see retrieval.h. */
#include "train/retrieval.h"
#include "base/team.h"
#include "math/gemm.h"

const size_t smoe_recall_at[SMOE_RECALLS] = {1, 5, 10};

static bool item_nearer(const real *score, size_t a, size_t b) {
    return score[a] > score[b] || (score[a] == score[b] && a < b);
}

static bool caption_belongs(const smoe_retrieval *r, size_t image, size_t caption) {
    bool same = false;
    for (size_t k = r->first[image]; k < r->first[image + 1] && !same; k++)
        same = r->key[k] == r->key[caption];
    return same;
}

static size_t retrieval_rank_of(const smoe_retrieval *r, bool by_caption, const real *score,
                                size_t query) {
    size_t n = by_caption ? r->images : r->captions, best = SIZE_MAX, before = 0;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t j = 0; j < n; j++) {
            if (pass && !item_nearer(score, j, best)) continue;
            bool true_one =
                by_caption ? caption_belongs(r, j, query) : caption_belongs(r, query, j);
            if (pass)
                before += !true_one;
            else if (true_one && (best == SIZE_MAX || item_nearer(score, j, best)))
                best = j;
        }
    return before;
}

void smoe_retrieval_rank(size_t *rank, const smoe_retrieval *r, bool by_caption) {
    enum { ROWS = 64 }; /* queries at a time */
    size_t n = by_caption ? r->captions : r->images, m = by_caption ? r->images : r->captions;
    const real *query = by_caption ? r->caption : r->image;
    const real *item = by_caption ? r->image : r->caption;
    SMOE_FREED real *score = smoe_alloc(ROWS * m, sizeof *score);
    for (size_t from = 0, rows; from < n; from += rows) {
        rows = n - from < ROWS ? n - from : ROWS;
        smoe_gemm(smoe_product_of(score, smoe_matrix_of(query + from * r->D, rows, r->D),
                                  smoe_transposed(smoe_matrix_of(item, m, r->D))));
        SMOE_SHARED(elementwise, rows * m)
        for (size_t i = 0; i < rows; i++)
            rank[from + i] = retrieval_rank_of(r, by_caption, score + i * m, from + i);
    }
}

void smoe_retrieval_recall(double recall[SMOE_RECALLS], const size_t *rank, size_t n) {
    for (size_t k = 0; k < SMOE_RECALLS; k++) {
        size_t hits = 0;
        for (size_t i = 0; i < n; i++) hits += rank[i] < smoe_recall_at[k];
        recall[k] = n ? (double)hits / (double)n : 0;
    }
}
