/*
 * A table of labels (data.labels): for each image its classes, and its split where the table says
 * it. Leaves to others which images there are.
 */
#pragma once

#include "spec/spec.h"

typedef struct smoe_labels_row {
    const char *name, *split; /* of the image; split NULL: none */
    size_t first, count;      /* classes, in smoe_labels.word: the main one first, one at least */
    size_t line;              /* in the file, for messages */
} smoe_labels_row;

typedef struct smoe_labels {
    char *path, *text; /* of the file; all names point into it */
    smoe_labels_row *row;
    size_t rows;
    uint32_t *order;   /* [rows] by name */
    const char **word; /* [words] classes of rows, one after another */
    size_t words;
    const char **all; /* [classes] all names of classes, sorted */
    size_t classes;
} smoe_labels;

/* Reads a table; see smoe-spec(5) for its form. Failures name file and line. */
int smoe_labels_read(smoe_labels **labels, const char *path, smoe_err *err) SMOE_MUST_CHECK;
/* That of data.labels; NULL without one. */
int smoe_labels_open(smoe_labels **labels, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;
void smoe_labels_free(smoe_labels *labels);

/* The name of a class as it was written, without white space around it; in place. */
char *smoe_labels_trimmed(char *text);

/* The number, from 1, of the row of an image: its path is the image's name, or the end of it after
 * a slash, the longest first, with the ending of the file or without, and with accents composed or
 * not (smoe_accents_form); 0: there is none. */
uint32_t smoe_labels_find(const smoe_labels *labels, const char *name);

/* Names of the classes of a row, by its number. */
static inline const char *const *smoe_labels_classes(const smoe_labels *labels, uint32_t row) {
    return labels->word + labels->row[row - 1].first;
}
