/* The first and the last lines of a long command, on stderr: data set and counts, model, directory;
 * and the files that were written. They are left out with --quiet and --json. */
#ifndef SMOE_HEADING_H
#define SMOE_HEADING_H

#include "load.h"
#include "base/result.h"

/* The splits that are used, and their numbers of images. */
typedef struct smoe_heading {
    const char *split[2]; /* NULL: one split, or none */
    size_t images[2], classes;
    bool endless; /* new images in every epoch */
} smoe_heading;

/* Adds a split that is open; NULL: none. */
void smoe_heading_add(smoe_heading *heading, const char *split, const smoe_dataset *set);

/* Adds the line "data: shapes, train 900 images, test 100; 10 classes", and the epochs of training
 * if there is a training split. */
void smoe_heading_data(smoe_result *out, const smoe_heading *heading, const smoe_spec *spec);

/* "model: soft, 16 experts in 2 of 4 blocks; width 96; 2.7 M parameters". */
void smoe_heading_model(smoe_result *out, const smoe_spec *spec, smoe_model *model);

/* Optimiser and schedule, what is frozen, and a line per group of tensors. */
void smoe_heading_optimizer(smoe_result *out, const smoe_spec *spec, smoe_model *model);

/* Data and model of a spec whose data is not open: it is counted here. Data that cannot be read is
 * left to the command, whose messages are better. */
void smoe_heading_spec(smoe_result *out, const smoe_spec *spec);

/* Prints the data and the model of a command without training, and where the model lies. */
void smoe_heading_loaded(const smoe_loaded *loaded, const smoe_options *options);

/* Adds "LABEL  DIR: a.csv, b.svg", of the files that are there, and `more`, which may be NULL;
 * without a folder, all that are not NULL. Nothing where none is. */
void smoe_heading_list(smoe_result *out, const char *label, const char *folder,
                       const char *const *file, size_t count, const char *more);

/* Prints the last line: the same with the label "files". */
void smoe_heading_files(const smoe_options *options, const char *folder, const char *const *file,
                        size_t count, const char *more);

/* Prints the lines on stderr, unless --quiet or --json, and frees them. */
void smoe_heading_print(smoe_result *lines, const smoe_options *options);

#endif
