/* smoe compare -o DIR: the comparison as a page in the style of the report, and its tables. */
#ifndef SMOE_COMPARE_PAGE_H
#define SMOE_COMPARE_PAGE_H

#include "origin.h"
#include "base/frame.h"

/* A pair: frames without rows are left out. */
typedef struct smoe_compare_pair {
    const char *b; /* the other is the first argument */
    const smoe_frame *settings, *environment, *metrics;
    const char *records, *weights, *outputs; /* sentences; NULL: none */
} smoe_compare_pair;

/* Adds the curves of a run to a frame that smoe_compare_curves has initialised, for the figure
 * over_steps; run without records: nothing. */
void smoe_compare_curves(smoe_frame *frame);
int smoe_compare_add_curves(smoe_frame *frame, const char *run, smoe_err *err) SMOE_MUST_CHECK;

/* DIR/compare.html and a CSV file per table. Existing files need --force. */
int smoe_compare_page(const char *const *arg, const smoe_compare_pair *pair, size_t pairs,
                      const smoe_frame *seeds, const smoe_frame *curves, const smoe_origin *origin,
                      const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

/* Refuses existing files before the work starts. */
int smoe_compare_page_check(const smoe_options *options, smoe_err *err) SMOE_MUST_CHECK;

#endif
