/*
 * A table of labels (data.labels): for each image its classes, and its split where the table says
 * it. Leaves to others which images there are.
 */
#ifndef SMOE_DATA_LABELS_H
#define SMOE_DATA_LABELS_H

#include "base/base.h"

typedef struct smoe_labels smoe_labels;

/* Reads a table; see smoe-spec(5) for its form. Failures name file and line. */
int smoe_labels_read(smoe_labels **labels, const char *path, smoe_err *err) SMOE_MUST_CHECK;
void smoe_labels_free(smoe_labels *labels);
const char *smoe_labels_path(const smoe_labels *labels);

/* The number, from 1, of the row of an image: its path is the image's name, or the end of it after
 * a slash, the longest first, with the ending of the file or without; 0: there is none. */
uint32_t smoe_labels_find(const smoe_labels *labels, const char *name);
size_t smoe_labels_rows(const smoe_labels *labels);
const char *smoe_labels_name(const smoe_labels *labels, uint32_t row);
size_t smoe_labels_line(const smoe_labels *labels, uint32_t row); /* in its file, for messages */
const char *smoe_labels_split(const smoe_labels *labels, uint32_t row); /* NULL: none */

/* Names of the classes of a row, the main one first; *count of them, none at least. */
const char *const *smoe_labels_classes(const smoe_labels *labels, uint32_t row, size_t *count);

/* All names of classes of the table, sorted. */
const char *const *smoe_labels_all(const smoe_labels *labels, size_t *count);

#endif
