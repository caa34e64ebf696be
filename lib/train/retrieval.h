/*
 * Retrieval: which captions are nearest to an image, and which images to a caption, among those of
 * a whole split. Recall at k is the share of queries that have a true match among their k nearest.
 */
#pragma once

#include "base/base.h"

enum { SMOE_RECALLS = 3 };
extern const size_t smoe_recall_at[SMOE_RECALLS]; /* 1, 5, 10 */

/* Images and captions, of length 1; image i has the captions first[i] .. first[i + 1] - 1. */
typedef struct smoe_retrieval {
    size_t images, captions, D;
    const real *image, *caption; /* [images,D], [captions,D] */
    const size_t *first;         /* [images + 1] */
    const uint64_t *key;         /* [captions] of all words, whatever a context cuts */
} smoe_retrieval;

/*
 * rank: how many items are nearer to each query than its nearest true one, 0 the best. Queries are
 * the images, items the captions, or with `by_caption` the other way round. The captions of an
 * image are true for it, and so are those of the same words; with several captions any of them
 * counts. Among equally near items, the one with the lower number counts as nearer.
 */
void smoe_retrieval_rank(size_t *rank, const smoe_retrieval *r, bool by_caption);

/* The shares of ranks below each of smoe_recall_at. */
void smoe_retrieval_recall(double recall[SMOE_RECALLS], const size_t *rank, size_t n);
