/* The manifest of a sweep as a file. */
#pragma once

#include "sweep/sweep.h"

/* Writes the manifest of a sweep into its folder, in place of one that is there. */
int smoe_manifest_write(const smoe_sweep *sweep, const char *dir, smoe_err *err) SMOE_MUST_CHECK;

/* Reads it, into a sweep of zeros; SMOE_DATA names the line. The caller frees the sweep. */
int smoe_manifest_read(smoe_sweep *sweep, const char *path, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_USAGE says what differs between two sweeps that should be the same. The second function
 * compares only keys, plans, evaluations and the models that trials start from. */
int smoe_manifest_compare(const smoe_sweep *was, const smoe_sweep *is,
                          smoe_err *err) SMOE_MUST_CHECK;
int smoe_manifest_compare_settings(const smoe_sweep *was, const smoe_sweep *is,
                                   smoe_err *err) SMOE_MUST_CHECK;
