/*
 * A sweep in one small file: the data for its tables, without weights. A tar.gz with the manifest
 * and, for each finished trial, its result and which test images it got right.
 * Unpacked, it is a sweep that smoe_sweep_open reads; trials that are not done can be run there.
 */
#ifndef SMOE_SWEEP_PACK_H
#define SMOE_SWEEP_PACK_H

#include "sweep/sweep.h"

/* Writes the file, whole or not at all. The same sweep gives the same bytes. Outcomes are kept as
 * booleans: intervals of precision stay over seeds and images, those of the loss become intervals
 * over seeds. SMOE_DATA: outcomes that are damaged; SMOE_RUNTIME: the file cannot be written. */
int smoe_sweep_pack(const smoe_sweep *sweep, const char *path, smoe_err *err) SMOE_MUST_CHECK;

#endif
