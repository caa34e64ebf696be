/*
 * Rows of results compared seed by seed: which row is the reference of which, and the differences.
 * Runs of one seed see the same data in the same order and start from the same weights in the
 * tensors that they share, so what they have in common drops out of their difference.
 *
 * A reference is a list of settings, "KEY=VALUE,KEY=VALUE": a row is compared with the row that has
 * these and its own values in all other columns; KEY=* lets the two differ in a column, where that
 * still leaves one row alone. The rows of a pool that have the reference cell of a seed in common
 * are averaged before, and count once: their differences share what chance did to that cell. So do
 * evaluations of one trained cell. Without settings the reference of cells is the first row; of
 * evaluations, the first setting that the same cell is evaluated at.
 */
#ifndef SMOE_COMPARE_H
#define SMOE_COMPARE_H

#include "sweep/results.h"

/* Gives the sweep its reference, a copy of `settings`, in the place of an earlier one; `from` is
 * who wants it, for messages ("--reference"). SMOE_USAGE: columns that are not swept, values that
 * no row has, or settings that leave no row with a counterpart. */
int smoe_compare_refer(smoe_sweep *sweep, const char *settings, const char *from,
                       smoe_err *err) SMOE_MUST_CHECK;

/* Is a reference's value in a column "*"? NULL is not. */
bool smoe_compare_is_any(const char *value);

/* For results.c: fills reference and difference of results whose values are there. Without seeds
 * and without settings there is nothing to compare. */
int smoe_results_compare(smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

/* Why a row is not compared and what would help, "not compared: VALUE, VALUE (no row of the
 * reference with KEY=VALUE); --reference ... compares it"; fresh. NULL where it is, or is the
 * reference itself. */
char *smoe_results_not_compared(const smoe_results *results, size_t group);

#endif
