/*
 * The names in a run directory, none of which may be a link; and what it has beside its records,
 * made from them or from all its files: metrics.csv, the event file of a record, MANIFEST.sha256.
 * The run writes them (run.c); smoe-run(5) says when.
 */
#pragma once

#include "store/tfevents.h"

#include <jansson.h>

#define SMOE_RUN_CSV "metrics.csv"
#define SMOE_RUN_MANIFEST "MANIFEST.sha256"
#define SMOE_RUN_EVENTS "tb"
#define SMOE_RUN_OUTCOMES "outcomes.npy" /* of the images of its last evaluation */

/* Fails with SMOE_DATA if a file or folder of the run is a symbolic link: it would lead out of the
 * run, to bytes of others. Only ckpt/latest and ckpt/best are links; see smoe_checkpoints_own.
 * Missing files are no error here. */
int smoe_run_own(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Writes DIR/metrics.csv: a row for each record of DIR/metrics.jsonl, a column for each name that
 * occurs, in the order of first occurrence; what a record does not have is empty, and lists are
 * separated by ';'. */
int smoe_run_csv(const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Adds a record as an event: numbers as scalars, lists as histograms. The metrics of a
 * layer begin with the split if the record is one of an evaluation. */
int smoe_run_event(smoe_tfevents *events, const json_t *record, double seconds,
                   smoe_err *err) SMOE_MUST_CHECK;

enum { SMOE_SUM_SIZE = 65 }; /* of a SHA-256 in hexadecimal digits */

/* Writes DIR/MANIFEST.sha256, which `sha256sum -c` reads: all files of the folder and below it, by
 * name, but for itself and links. */
int smoe_run_manifest(const char *dir, smoe_err *err) SMOE_MUST_CHECK;
