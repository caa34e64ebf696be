/* Axes of the figure of a sweep. */
#ifndef SMOE_RESULTS_FIGURE_H
#define SMOE_RESULTS_FIGURE_H

#include "base/base.h"

/* Whether values that rise from point to point look like powers: three or more, all positive, each
 * at least 1.4 times the one before. `value` is sorted in place. */
bool smoe_results_powers(double *value, size_t n);

#endif
