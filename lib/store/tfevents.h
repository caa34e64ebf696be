/*
 * Event files of TensorBoard: scalars, histograms and pictures, appended as they come. A file is a
 * sequence of records (length, CRC, data, CRC, little-endian), each an Event of protobuf;
 * tfevents.c lists the fields that are written. Leaves to others: which metrics there are.
 */
#pragma once

#include "base/base.h"

typedef struct smoe_tfevents smoe_tfevents;

/* A new file FOLDER/events.out.tfevents.SECONDS.HOST.PID.N in a folder that is made if it is not
 * there. With `restart` readers forget what older files of the folder have from `step` on. */
int smoe_tfevents_open(smoe_tfevents **events, const char *folder, bool restart, uint64_t step,
                       smoe_err *err) SMOE_MUST_CHECK;

/* Adds a value to the event in the making. The seconds of the clock and the step are those of
 * smoe_tfevents_put. */
void smoe_tfevents_scalar(smoe_tfevents *events, const char *tag, double value);

/* A histogram of n numbers by their place: value[i] counts in the bucket from i to i + 1. */
void smoe_tfevents_histogram(smoe_tfevents *events, const char *tag, const double *value, size_t n);

/* The bytes of a PNG file of three channels. */
void smoe_tfevents_picture(smoe_tfevents *events, const char *tag, size_t width, size_t height,
                           const void *png, size_t size);

/* Writes the event at once and in one piece, if it has values. */
int smoe_tfevents_put(smoe_tfevents *events, double seconds, uint64_t step,
                      smoe_err *err) SMOE_MUST_CHECK;

void smoe_tfevents_close(smoe_tfevents *events);

/* CRC-32C (Castagnoli) of bytes. */
uint32_t smoe_crc32c(const void *bytes, size_t size);
