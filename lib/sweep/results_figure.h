/* For results.c: the figure of a sweep. */
#ifndef SMOE_RESULTS_FIGURE_H
#define SMOE_RESULTS_FIGURE_H

#include "sweep/results.h"

/*
 * DIR/NAME.gp and .svg: `y`, precision_at_1 unless it is given (the loss where there is none),
 * against `x`, a column or a metric, with the 95% interval of each mean (compare/contrast.h) as
 * bars.
 *   x     not given: the first column from x_from on whose values are numbers, at least two; else
 *         the first column from there, its values side by side
 *   line  the column that tells lines apart. Not given: all but x; where x is a metric, all
 *         columns whose values are no numbers
 * A name that these results do not have counts as not given. Nothing is drawn where no trial is
 * done or nothing but the seed is swept. *drawn is false when a script was left that gnuplot has
 * not drawn.
 */
int smoe_results_figure(const smoe_results *results, const smoe_sweep_figure *wish,
                        const char *name, bool *drawn, smoe_err *err) SMOE_MUST_CHECK;

/* Whether values that rise from point to point look like powers: three or more, all positive, each
 * at least 1.4 times the one before. `value` is sorted in place. */
bool smoe_results_powers(double *value, size_t n);

#endif
