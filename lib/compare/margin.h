/* Margins within which two settings count as equivalent: "0.01", for shares (precision, dropped,
 * few-shot accuracies), or "METRIC=0.01,METRIC=0.1". */
#ifndef SMOE_MARGIN_H
#define SMOE_MARGIN_H

#include "base/base.h"

/* The margin of a metric; NAN: none. `text` may be NULL. */
double smoe_margin_of(const char *text, const char *metric);

/* SMOE_USAGE: no positive numbers, or metrics that are not measured; `from` says where they were
 * given, for the message. */
int smoe_margin_check(const char *text, const char *from, smoe_err *err) SMOE_MUST_CHECK;

#endif
