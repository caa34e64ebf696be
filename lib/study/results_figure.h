/* For results.c: the figure of a sweep. */
#ifndef SMOE_RESULTS_FIGURE_H
#define SMOE_RESULTS_FIGURE_H

#include "study/results.h"

/* precision_at_1 (train_loss where nothing was evaluated) against the first column that has numbers
 * alone, at least two; a line for each combination of the others; bars of one standard deviation.
 * Without such a column, the first column's values side by side. Nothing is drawn where no cell is
 * done or nothing but the seed is swept. *drawn is false when
 * a script was left that gnuplot has not drawn. */
int smoe_results_figure(const smoe_results *results, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* Whether values that rise from point to point look like powers: three or more, all positive, each
 * at least 1.4 times the one before. `value` is sorted in place. */
bool smoe_results_powers(double *value, size_t n);

#endif
