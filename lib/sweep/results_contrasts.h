/* For results.c: contrasts as tables, in files and in the summary. */
#ifndef SMOE_RESULTS_CONTRASTS_H
#define SMOE_RESULTS_CONTRASTS_H

#include "base/frame.h"
#include "sweep/results.h"

#include <stdio.h>

/* Rows of differences.csv, trends.csv, primary.csv; smoe-sweep(1) says what their columns are. */
void smoe_contrasts_differences(smoe_frame *frame, const smoe_results *results);
void smoe_contrasts_trends(smoe_frame *frame, const smoe_results *results);
void smoe_contrasts_primary(smoe_frame *frame, const smoe_results *results);

/* The sections of the summary, with headings of this level ("##"). */
void smoe_contrasts_markdown(FILE *out, const smoe_results *results, const char *level);

#endif
