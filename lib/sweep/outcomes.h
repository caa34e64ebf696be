/*
 * What became of each test image: outcomes.npy of a run (smoe-run(5)), and its like of each
 * evaluation at other settings. Two trials have the same images where the data of their specs and
 * the split are the same, augmentation aside.
 */
#ifndef SMOE_OUTCOMES_H
#define SMOE_OUTCOMES_H

#include "sweep/sweep.h"

/* The column of outcomes that has a metric image by image: 0 of the precision, 1 of the loss, also
 * of an evaluation; -1 of others. */
int smoe_outcomes_column(const char *metric);

/* Do two trials of a sweep, or evaluations, have the same test images? */
bool smoe_outcomes_alike(const smoe_sweep *sweep, size_t a, size_t b);

/*
 * The outcomes of trial i, [images,2], fresh; NULL where there are none. *images is how many there
 * must be, 0 for any number; it is set to how many there are. Another number, or a mean of `column`
 * that is not `value`, is SMOE_DATA: the file is of another evaluation.
 */
int smoe_outcomes_read(float **outcome, size_t *images, const smoe_sweep *sweep, size_t i,
                       int column, double value, smoe_err *err) SMOE_MUST_CHECK;

#endif
