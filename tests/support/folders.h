/* A sample of image folders for tests, as a directory or an archive. Every failure fails the test
 * that asked. */
#ifndef FOLDERS_H
#define FOLDERS_H

#include "data/dataset.h"
#include "datafiles.h"
#include "scratch.h"

enum { FOLDERS_FILES = 9, FOLDERS_SIDE = 16 };

/* The sample: two classes whose paths sort otherwise than their names ('-' comes before '/'), all
 * kinds of endings and sizes, and what must be passed over. */
typedef struct folders {
    scratch dir;
    datafile file[FOLDERS_FILES + 4];
    size_t count; /* of them, images and litter */
} folders;

/* A test's setup and teardown: *state is the sample. */
int folders_setup(void **state);
int folders_teardown(void **state);

/* A file of that name with a picture drawn from the seed; its bytes are the caller's to free. */
datafile folders_picture(const char *name, size_t width, size_t height, size_t channels,
                         unsigned seed);

/* The sample as a directory or archive of that name, below `above` ("" or "name/"). */
void folders_lay_out(const folders *f, char path[SCRATCH_PATH], const char *name,
                     const char *above);

smoe_dataset *folders_open(const smoe_spec *spec, const char *split);
void folders_image(const smoe_dataset *set, size_t i, real *pixels, int64_t *label);
/* Every image and label of two sets alike. */
void folders_assert_equal(const smoe_dataset *a, const smoe_dataset *b);

#endif
