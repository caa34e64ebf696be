/*
 * Rows of results compared seed by seed and image by image (sweep/contrast.h): which row is the
 * reference of which, and the differences.
 *
 * A reference is a list of settings, "KEY=VALUE,KEY=VALUE": a row is compared with the row that has
 * these and its own values in all other columns; KEY=* lets the two differ in a column, where that
 * still leaves one row alone. Of a pool, every seed has one difference: the mean over its rows that
 * have results; settings add nothing to the number of seeds. Without settings the reference of
 * trials is the first row; of evaluations, the first setting that the same trial is evaluated at.
 */
#ifndef SMOE_COMPARE_H
#define SMOE_COMPARE_H

#include "sweep/results.h"

/* Gives the sweep its reference, a copy of `settings`, in the place of an earlier one; `from` is
 * who wants it, for messages ("--reference"). SMOE_USAGE: columns that are not swept, values that
 * no row has, or settings that leave no row with a counterpart. */
int smoe_compare_refer(smoe_sweep *sweep, const char *settings, const char *from,
                       smoe_err *err) SMOE_MUST_CHECK;

/* For results.c: fills reference and difference of results whose values are there. Without seeds
 * and without settings there is nothing to compare. */
int smoe_results_compare(smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* Why a row is not compared and what would help, "not compared: VALUE, VALUE (no row of the
 * reference with KEY=VALUE); --reference ... compares it"; fresh. NULL where it is, or is the
 * reference itself. */
char *smoe_results_not_compared(const smoe_results *results, size_t group);

#endif
