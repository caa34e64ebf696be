/*
 * The outcomes of test images: outcomes.npy of a run (smoe-run(5)), and the corresponding file of
 * each evaluation at other settings (sweep/evaluations.h).
 */
#pragma once

#include "base/base.h"

/* The column of outcomes that has a metric image by image: 0 for the precision, 1 for the loss,
 * also of an evaluation; -1 for others. */
int smoe_outcomes_column(const char *metric);

/*
 * A column of the file, [images], fresh; NULL where there is no such file, or no such column in it:
 * a packed sweep (smoe_sweep_pack) has the first one alone. *images is how many there must be, 0
 * for any number; it is set to how many there are. SMOE_DATA: another number, or a mean that is not
 * `value`, which may be NAN: the file is of another evaluation.
 */
int smoe_outcomes_read(float **outcome, size_t *images, const char *path, size_t column,
                       double value, smoe_err *err) SMOE_MUST_CHECK;
