/* What smoe data looks at: the splits of a data set, of another one beside it, and which of their
 * images are nearly the same. */
#ifndef SMOE_CMD_DATA_H
#define SMOE_CMD_DATA_H

#include "opt.h"
#include "data/survey.h"

enum { SMOE_DATA_SPLITS = 3 };
extern const char *const smoe_data_split_name[SMOE_DATA_SPLITS];

typedef struct smoe_data_split {
    const char *name; /* NULL: it is not there */
    smoe_dataset *set;
    smoe_survey survey;
    size_t *count; /* [classes] images that show a class */
} smoe_data_split;

/* Images of split b that are nearly images of split a. */
typedef struct smoe_data_near {
    const smoe_data_split *a, *b;
    char other[256]; /* a in words */
    bool against;    /* a is one of another data set */
    smoe_near *pair;
    size_t count;
} smoe_data_near;

typedef struct smoe_data_job {
    smoe_spec spec;
    smoe_data_split split[SMOE_DATA_SPLITS];
    size_t splits; /* that are there; the first of them says the names of the classes */
    smoe_err why[SMOE_DATA_SPLITS]; /* of those that are not */
    const char *path;
    smoe_data_near near[SMOE_DATA_SPLITS * (SMOE_DATA_SPLITS + 1)];
    size_t nears;
    size_t left_out;
} smoe_data_job;

/* Reads a data set, or that of a spec. */
int smoe_data_look(smoe_data_job *job, const char *path, const smoe_options *options,
                   smoe_err *err) SMOE_MUST_CHECK;

/* That of --against, at the size of the images of `spec`; a folder without splits as a whole. */
int smoe_data_look_against(smoe_data_job *job, const smoe_spec *spec, const smoe_options *options,
                           smoe_err *err) SMOE_MUST_CHECK;

/* Fills job->near: its splits among one another, and with those of `against` (NULL: none). */
void smoe_data_compare(smoe_data_job *job, const smoe_data_job *against);

/* Writes exclude.txt of --against: the images that are nearly images of the other data set. */
int smoe_data_write_excluded(const smoe_data_job *job, const smoe_options *options,
                             smoe_err *err) SMOE_MUST_CHECK;

void smoe_data_job_free(smoe_data_job *job);

#endif
