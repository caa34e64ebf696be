/*
 * The report of smoe inspect, and the page of smoe compare: one self-contained HTML file that makes
 * no requests. The page is report.html with its style and scripts, compiled into the library; the
 * tables, the plots of the figures and the samples go into it as JSON.
 */
#pragma once

#include "base/result.h"
#include "draw/page.h"
#include "draw/sample.h"

/* Where the page comes from, or what was found: a line, or a text of many lines that is folded. */
typedef struct smoe_report_fact {
    const char *term, *text;
    bool folded;
} smoe_report_fact;

typedef struct smoe_report {
    const smoe_frame *frames; /* [frame_count]; `runs`, `routing` and others make the summary */
    size_t frame_count;
    const smoe_sample *samples; /* [sample_count], those of a run together */
    size_t sample_count;
    const char *command, *title, *lead;
    const smoe_report_fact *found; /* [found_count] sentences that begin the summary */
    size_t found_count;
    const smoe_report_fact *origin; /* [origin_count] the provenance of the page */
    size_t origin_count;
} smoe_report;

/* Writes the file at path. Tables and samples that would make the page too large to open are left
 * out; the page names them: tables beyond 6 MB together, samples beyond 2.5 MB. */
int smoe_report_write(const smoe_report *report, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* The same with the tables of the result, and its lines that have a label as what was found. */
int smoe_report_result(const smoe_report *report, const smoe_result *result, const char *path,
                       smoe_err *err) SMOE_MUST_CHECK;

/* For report.c: the JSON object that report.js reads; NULL with err. */
json_t *smoe_report_data(const smoe_report *report, smoe_err *err);
