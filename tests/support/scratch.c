/* See scratch.h. Uses nothing from the library, since it helps to test it. */
#include "scratch.h"
#include "unit.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void scratch_make(scratch *s) {
    const char *tmp = getenv("TMPDIR");
    assert_true(snprintf(s->dir, sizeof s->dir, "%.40s/smoe-test-XXXXXX", tmp ? tmp : "/tmp") <
                (int)sizeof s->dir);
    assert_non_null(mkdtemp(s->dir));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st, (void)type, (void)where;
    return remove(path);
}

void scratch_remove(scratch *s) {
    assert_int_equal(nftw(s->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

const char *scratch_path(const scratch *s, char buf[SCRATCH_PATH], const char *name) {
    assert_true(snprintf(buf, SCRATCH_PATH, "%s/%s", s->dir, name) < SCRATCH_PATH);
    return buf;
}

char *scratch_read(const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("cannot read %s", path);
    struct stat there;
    assert_int_equal(fstat(fileno(in), &there), 0);
    size_t bytes = (size_t)there.st_size;
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, bytes, in), bytes);
    fclose(in);
    text[bytes] = '\0';
    if (size) *size = bytes;
    return text;
}

void scratch_write(const char *path, const void *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    if (!out) fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

void scratch_assert_same(const char *a, const char *b) {
    size_t a_size, b_size;
    char *a_bytes = scratch_read(a, &a_size), *b_bytes = scratch_read(b, &b_size);
    if (a_size != b_size || memcmp(a_bytes, b_bytes, a_size)) fail_msg("%s and %s differ", a, b);
    free(a_bytes);
    free(b_bytes);
}

size_t scratch_entries(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) fail_msg("cannot list %s", path);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(dir);
    return n;
}

int scratch_setup(void **state) {
    scratch *s = *state = calloc(1, sizeof *s);
    scratch_make(s);
    return 0;
}

int scratch_teardown(void **state) {
    scratch_remove(*state);
    free(*state);
    return 0;
}
