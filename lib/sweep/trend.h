/* Trends: how metrics change with the numbers of a swept key, by doubling. */
#ifndef SMOE_TREND_H
#define SMOE_TREND_H

#include "sweep/results.h"

/* The number that a row has in a column; false where it is no positive one. */
bool smoe_trend_number(const char *text, double *x);

/* For results.c: fills trend, with a slope for each metric that people look at first and each set
 * of rows that differ in one column alone, of three or more positive numbers. Rows without any
 * result are left out; so is all of it where there are no seeds. */
int smoe_results_follow(smoe_results *results, smoe_err *err) SMOE_MUST_CHECK;

#endif
