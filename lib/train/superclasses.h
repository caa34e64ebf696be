/*
 * Super-classes from the errors of a classifier: classes that it confuses are grouped together
 * (Mobile V-MoEs, arXiv 2309.04354, which uses another clustering method).
 */
#pragma once

#include "train/scores.h"

/*
 * Divides N classes into E super-classes of nearly equal size, 1 <= E <= N: `of` [N] from 0 to E-1,
 * in the order of their first classes. With n_ab the images of class a that are taken for b, and
 * n_a all images of class a, two classes are alike by (n_ab/n_a + n_ba/n_b)/2 (a term without
 * images is 0), and two sets of classes by the mean over their pairs. The two sets that are most
 * alike are merged, until E are left, but never into a set of more classes than N/E, rounded up,
 * where another pair remains; among equals the smallest sets come first, then the lowest classes.
 * Fails with SMOE_USAGE if E is not in this range, with SMOE_RUNTIME if there is no memory for N x
 * N numbers.
 */
int smoe_superclasses(uint32_t *of, size_t E, size_t N, const smoe_prediction *prediction,
                      size_t images, smoe_err *err) SMOE_MUST_CHECK;
