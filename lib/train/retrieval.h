/*
 * Retrieval: which captions are nearest to an image, and which images to a caption, among those of
 * a whole split. Recall at k is the share of queries that have a true match among their k nearest.
 */
#ifndef SMOE_RETRIEVAL_H
#define SMOE_RETRIEVAL_H

#include "base/base.h"

enum { SMOE_RECALLS = 3 };
extern const size_t smoe_recall_at[SMOE_RECALLS]; /* 1, 5, 10 */

/*
 * rank [n]: how many items are nearer to query i than its nearest true one, 0 the best. queries,
 * items [n,D] of length 1; item j is true for query i where key[i] == key[j], as captions of the
 * same words are. Of equally near items the one of lower number counts as nearer.
 */
int smoe_retrieval_rank(size_t *rank, const real *queries, const real *items, const uint64_t *key,
                        size_t n, size_t D, smoe_err *err) SMOE_MUST_CHECK;

/* The shares of ranks below each of smoe_recall_at. */
void smoe_retrieval_recall(double recall[SMOE_RECALLS], const size_t *rank, size_t n);

#endif
