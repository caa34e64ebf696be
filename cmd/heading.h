/* The first and the last lines of a long command, on stderr: data set and counts, model, directory;
 * and the files that were written. They are left out with --quiet and --json. */
#ifndef SMOE_HEADING_H
#define SMOE_HEADING_H

#include "load.h"

#include <stdio.h>

/* The splits that are used, and their numbers of images. */
typedef struct smoe_heading {
    const char *split[2]; /* NULL: one split, or none */
    size_t images[2], classes;
    bool endless; /* new images in every epoch */
} smoe_heading;

/* Adds a split that is open; NULL: none. */
void smoe_heading_add(smoe_heading *heading, const char *split, const smoe_dataset *set);

/* "NAME        TEXT": on a terminal, the text is broken between words and indented. Without a name,
 * "", it begins where the line does. */
void smoe_heading_line(FILE *out, const char *name, const char *fmt, ...) SMOE_PRINTF(3, 4);

/* "data        shapes, train 900 images, test 100; 10 classes", and the epochs of training if
 * there is a training split. */
void smoe_heading_data(FILE *out, const smoe_heading *heading, const smoe_spec *spec);

/* "model       soft, 16 experts in 2 of 4 blocks; width 96; 2.7 M parameters". */
void smoe_heading_model(FILE *out, const smoe_spec *spec, smoe_model *model);

/* Optimiser and schedule, what is frozen, and a line per group of tensors. */
void smoe_heading_optimizer(FILE *out, const smoe_spec *spec, smoe_model *model);

/* Both for a spec whose data is not open: it is counted here. Data that cannot be read is left to
 * the command, whose messages are better. */
void smoe_heading_spec(FILE *out, const smoe_spec *spec);

/* The data and the model of a command without training, and where the model lies. */
void smoe_heading_loaded(const smoe_loaded *loaded, const smoe_options *options);

/* "NAME        DIR: a.csv, b.svg", of the files that are there, and `more`, which may be NULL;
 * without a folder, all that are not NULL. Nothing where none is. */
void smoe_heading_list(FILE *out, const char *name, const char *folder, const char *const *file,
                       size_t count, const char *more);

/* The last line: "files       DIR: a.csv, b.svg", of those that are there, and `more`, which may
 * be NULL; without a folder, all that are not NULL. */
void smoe_heading_files(const smoe_options *options, const char *folder, const char *const *file,
                        size_t count, const char *more);

#endif
