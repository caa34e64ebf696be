/* .npy files against headers written out by hand from the format's description. */
#include "scratch.h"
#include "tensors/npy.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes a file and compares it: magic and version, length 118 (so 128 in all), dictionary,
 * spaces, newline, data. */
static void check(const scratch *s, const char *dtype, const void *data, size_t bytes, int ndim,
                  const size_t *dim, const char *dictionary) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    assert_int_equal(smoe_npy_write(scratch_path(s, path, "a.npy"), dtype, data, ndim, dim, &err),
                     0);
    size_t size;
    char *file = scratch_read(path, &size);
    unsigned length = (unsigned char)file[8] + 256u * (unsigned char)file[9];
    assert_memory_equal(file, "\x93NUMPY\x01\x00", 8);
    assert_int_equal((10 + length) % 64, 0);
    assert_int_equal(size, 10 + length + bytes);
    assert_memory_equal(file + 10, dictionary, strlen(dictionary));
    /* a digest as a comment, then blanks */
    const char *rest = file + 10 + strlen(dictionary);
    assert_memory_equal(rest, " # xxh3 ", 8);
    assert_int_equal(strspn(rest + 8, "0123456789abcdef"), 16);
    for (rest += 24; rest < file + 10 + length - 1; rest++) assert_int_equal(*rest, ' ');
    assert_int_equal(file[10 + length - 1], '\n');
    assert_memory_equal(file + 10 + length, data, bytes);
    size_t shape[8];
    void *again = NULL;
    if (smoe_npy_read(path, dtype, &again, ndim, shape, &err)) fail_msg("%s", err.text);
    assert_memory_equal(again, data, bytes);
    for (int i = 0; i < ndim; i++) assert_int_equal(shape[i], dim[i]);
    free(again);
    assert_int_equal(scratch_entries(s->dir), 1); /* no temporary file left */
    free(file);
}

static void test_matrix_f4(void **state) {
    float x[2][3] = {{0, -0.0f, 1}, {1e-45f, 3.4e38f, -2.5f}};
    check(*state, "<f4", x, sizeof x, 2, (size_t[]){2, 3},
          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
}

static void test_vector_i8(void **state) {
    int64_t x[] = {INT64_MIN, -1, 0, INT64_MAX};
    check(*state, "<i8", x, sizeof x, 1, (size_t[]){4},
          "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }");
}

static void test_scalar_and_empty_f8(void **state) {
    double x = 0.1;
    check(*state, "<f8", &x, sizeof x, 0, NULL,
          "{'descr': '<f8', 'fortran_order': False, 'shape': (), }");
    check(*state, "<f8", &x, 0, 2, (size_t[]){0, 7},
          "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 7), }");
}

/* The longest header of the supported dimensions still ends at a multiple of 64. */
static void test_many_axes(void **state) {
    check(*state, "<f8", "", 0, 8,
          (size_t[]){0, 18446744073709551615u, 18446744073709551615u, 18446744073709551615u,
                     18446744073709551615u, 18446744073709551615u, 18446744073709551615u,
                     18446744073709551615u},
          "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 18446744073709551615, "
          "18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615, "
          "18446744073709551615, 18446744073709551615), }");
}

/* A file whose elements have changed fails, for both readers. */
static void test_changed(void **state) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    bool sealed = false;
    float x[4] = {1, 2, 3, 4};
    size_t size, dim[1] = {4};
    assert_int_equal(smoe_npy_write(scratch_path(*state, path, "a.npy"), "<f4", x, 1, dim, &err),
                     0);
    assert_int_equal(smoe_npy_verify(path, &sealed, &err), 0);
    assert_true(sealed);
    char *file = scratch_read(path, &size);
    file[size - 1] ^= 1;
    scratch_write(path, file, size);
    free(file);
    void *data = NULL;
    assert_int_equal(smoe_npy_verify(path, &sealed, &err), -1);
    assert_non_null(strstr(err.text, "a.npy: changed since it was written"));
    assert_int_equal(smoe_npy_read(path, "<f4", &data, 1, dim, &err), -1);
    assert_null(data);
}

static void test_failures_keep_the_old_file(void **state) {
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    float x = 1;
    scratch_path(*state, path, "no/such/folder.npy");
    assert_int_equal(smoe_npy_write(path, "<f4", &x, 0, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "No such file or directory"));
    /* /dev/full is not a regular file: it is written directly, and every write to it reports a
     * full disk. */
    assert_int_equal(smoe_npy_write("/dev/full", "<f4", &x, 0, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_string_equal(err.text, "/dev/full: cannot write: No space left on device");
    struct stat there;
    assert_int_equal(stat("/dev/full", &there), 0);
    assert_true(S_ISCHR(there.st_mode));
    assert_int_equal(smoe_npy_write("/dev/null", "<f4", &x, 0, NULL, &err), 0);
}

/* Anything but a complete file of the requested type and dimensions is refused. */
static void test_refused(void **state) {
    char path[SCRATCH_PATH];
    const float x[] = {1, 2, 3, 4, 5, 6};
    smoe_err err = {0};
    scratch_path(*state, path, "a.npy");
    assert_int_equal(smoe_npy_write(path, "<f4", x, 2, (const size_t[]){3, 2}, &err), 0);
    size_t size, dim[3];
    void *data = NULL;
    char *file = scratch_read(path, &size);
    assert_int_equal(smoe_npy_read(path, "<f8", &data, 2, dim, &err), -1);
    assert_int_equal(smoe_npy_read(path, "<f4", &data, 1, dim, &err), -1);
    assert_int_equal(smoe_npy_read(path, "<f4", &data, 3, dim, &err), -1);
    static const size_t cut[] = {0, 5, 9, 64, 127, 128, 151};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        scratch_write(path, file, cut[i]);
        assert_int_equal(smoe_npy_read(path, "<f4", &data, 2, dim, &err), -1);
        assert_int_equal(err.code, SMOE_DATA);
    }
    char *order = strstr(file + 10, "False");
    memcpy(order, "True ", 5);
    scratch_write(path, file, size);
    assert_int_equal(smoe_npy_read(path, "<f4", &data, 2, dim, &err), -1);
    assert_non_null(strstr(err.text, "its digest is another"));
    memset(strchr(order, '#'), ' ', 24); /* without its digest */
    scratch_write(path, file, size);
    assert_int_equal(smoe_npy_read(path, "<f4", &data, 2, dim, &err), -1);
    assert_non_null(
        strstr(err.text, "a.npy: not a complete .npy file of type <f4 with 2 dimensions"));
    assert_null(data);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        unit_test_with(test_matrix_f4, scratch),
        unit_test_with(test_vector_i8, scratch),
        unit_test_with(test_scalar_and_empty_f8, scratch),
        unit_test_with(test_many_axes, scratch),
        unit_test_with(test_changed, scratch),
        unit_test_with(test_refused, scratch),
        unit_test_with(test_failures_keep_the_old_file, scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
