/* What smoe data and its --suggest share. */
#pragma once

#include "cmd.h"
#include "data/survey.h"

/* A split of a data set that was looked at. */
typedef struct smoe_surveyed {
    const char *name; /* NULL: it is not there */
    smoe_dataset *set;
    smoe_survey survey;
    size_t *count; /* [classes] images that show a class */
} smoe_surveyed;

/* Prints a spec that fits the data of `spec` at `path`, whose first split is `first`. If its images
 * have another size in the suggestion, the split is read again, and `spec` changed. SMOE_DATA if
 * there is no image. */
int smoe_data_suggest(smoe_surveyed *first, smoe_spec *spec, const char *path,
                      const smoe_options *options, smoe_err *err);
