/*
 * .npy, NumPy format 1.0: the magic, two version bytes, a u16 little-endian header length, a Python
 * dictionary padded with spaces to a multiple of 64 bytes in all and closed by '\n', then the
 * elements in C order. Writing only.
 */
#include "store/npy.h"
#include "base/file.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "elements are written as they lie in memory");

enum { MAGIC = 8, PREFIX = MAGIC + 2, ALIGN = 64, HEADER = 4 * ALIGN, MOST_DIMS = 8 };

/* Fills the header, NumPy's spelling of a tuple included: (), (3,), (3, 4). Returns its length. */
static size_t header_fill(char header[HEADER], const char *dtype, int ndim, const size_t *dim) {
    memcpy(header, "\x93NUMPY\x01\x00", MAGIC);
    size_t n = PREFIX;
    n += (size_t)snprintf(header + n, HEADER - n,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype);
    for (int i = 0; i < ndim; i++)
        n += (size_t)snprintf(header + n, HEADER - n, "%s%zu", i ? ", " : "", dim[i]);
    n += (size_t)snprintf(header + n, HEADER - n, "%s), }", ndim == 1 ? "," : "");
    size_t whole = (n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(header + n, ' ', whole - n);
    header[whole - 1] = '\n';
    header[MAGIC] = (char)((whole - PREFIX) & 0xff);
    header[MAGIC + 1] = (char)((whole - PREFIX) >> 8);
    return whole;
}

int smoe_npy_write(const char *path, const char *dtype, const void *data, int ndim,
                   const size_t *dim, smoe_err *err) {
    assert(ndim >= 0 && ndim <= MOST_DIMS);
    assert(!strcmp(dtype, "<f4") || !strcmp(dtype, "<f8") || !strcmp(dtype, "<i8"));
    size_t bytes = (size_t)(dtype[2] - '0');
    for (int i = 0; i < ndim; i++) bytes *= dim[i];
    char header[HEADER];
    size_t length = header_fill(header, dtype, ndim, dim);
    smoe_file file;
    if (smoe_file_create(&file, path, err)) return -1;
    if (smoe_file_put(&file, header, length, err)) return -1;
    if (smoe_file_put(&file, data, bytes, err)) return -1;
    return smoe_file_commit(&file, err);
}
