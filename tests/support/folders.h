/* A sample of image folders for tests, as a directory or an archive. Every failure fails the
 * calling test. */
#pragma once

#include "data/dataset_source.h"
#include "datafiles.h"
#include "scratch.h"

enum { FOLDERS_FILES = 9, FOLDERS_SIDE = 16 };

/* The sample: two classes whose paths sort differently from their names ('-' comes before '/'),
 * all suffixes and several sizes, and files that must be ignored. */
typedef struct folders {
    scratch dir;
    datafile file[FOLDERS_FILES + 4];
    size_t count; /* number of files, images and ignored ones */
} folders;

/* cmocka's setup and teardown: *state is the sample. */
int folders_setup(void **state);
int folders_teardown(void **state);

/* A file of that name with a picture drawn from the seed; the caller frees its bytes. */
datafile folders_picture(const char *name, size_t width, size_t height, size_t channels,
                         unsigned seed);

/* The sample as a directory or archive of that name; its paths begin with `above` ("" or
 * "name/"). */
void folders_lay_out(const folders *f, char path[SCRATCH_PATH], const char *name,
                     const char *above);

smoe_dataset *folders_open(const smoe_spec *spec, const char *split);
void folders_image(const smoe_dataset *set, size_t i, real *pixels, int64_t *label);
/* All images and labels of two sets must be equal. */
void folders_assert_equal(const smoe_dataset *a, const smoe_dataset *b);
