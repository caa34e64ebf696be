/*
 * Compares two runs: settings, environment, records and weights. Only files of the runs are read;
 * no model is trained or evaluated.
 */
#pragma once

#include "base/frame.h"
#include "store/curves.h"
#include "tensors/safetensors.h"

/* Where the records of two runs first differ, times and rates aside. */
typedef struct smoe_run_difference {
    bool any;       /* they differ; otherwise only `records` is set */
    size_t records; /* that are the same, up to there */
    uint64_t step;
    char metric[96]; /* "": one of them has no record there */
    double a, b;     /* NAN where one of them has no such number */
    double ulps;     /* numbers of double precision between them; NAN: not both are numbers */
} smoe_run_difference;

/* Whether a member of a record is a time or a rate, and so differs between two equal runs. */
bool smoe_record_of_clock(const char *metric);

/* Of two files metrics.jsonl, which are read up to there. */
int smoe_runs_compare_records(smoe_run_difference *first, const char *a, const char *b,
                              smoe_err *err) SMOE_MUST_CHECK;

/* A row per number that both runs have: its last values, and the mean difference b - a over the
 * steps in common; initialises the frame. */
void smoe_runs_compare_metrics(smoe_frame *frame, const smoe_curves *a, const smoe_curves *b);

/* Members of two JSON objects that differ, by their dotted names; initialises the frame. */
void smoe_runs_compare_json(smoe_frame *frame, const char *name, const char *title, const json_t *a,
                            const json_t *b);

/* The tensors of two model files that are open. */
typedef struct smoe_weights_difference {
    size_t tensors, equal, alone; /* in both; of these, the same; in one of the two, or misshapen */
    char most[128];               /* the tensor with the largest difference of a weight */
    double distance;              /* that difference */
    bool other_classes; /* the files name other classes: rows of heads do not correspond, so that
                           heads are in only one of the two */
} smoe_weights_difference;
void smoe_runs_compare_weights(smoe_weights_difference *difference, const smoe_safetensors *a,
                               const smoe_safetensors *b);
