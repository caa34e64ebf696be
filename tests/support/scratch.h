/* A temporary folder for a test, and files in it. Every failure fails the calling test. */
#pragma once

#include <stddef.h>

enum { SCRATCH_PATH = 512 };

typedef struct scratch {
    char dir[64];
} scratch;

void scratch_make(scratch *s);
void scratch_remove(scratch *s);

/* The same as cmocka's setup and teardown: *state is the folder. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* The path of a name in the folder, written to buf, which is returned. */
const char *scratch_path(const scratch *s, char buf[SCRATCH_PATH], const char *name);

/* The whole file in newly allocated memory, with a NUL after it; size may be NULL. */
char *scratch_read(const char *path, size_t *size);
void scratch_write(const char *path, const void *bytes, size_t size);

/* Whether the two files have the same bytes. */
void scratch_assert_same(const char *a, const char *b);

/* Number of entries of a folder, without "." and "..". */
size_t scratch_entries(const char *path);
