/*
 * .npy, NumPy format 1.0: the magic, two version bytes, a u16 little-endian header length, a Python
 * dictionary padded with spaces to a multiple of 64 bytes in all and closed by '\n', then the
 * elements in C order. Read back as they are written here and by NumPy. Behind the dictionary a
 * comment, which is Python too, has the digest of the file.
 */
#include "tensors/npy.h"
#include "base/digest.h"
#include "base/file.h"

#include <assert.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "elements are written as they lie in memory");

enum { MAGIC = 8, PREFIX = MAGIC + 2, ALIGN = 64, HEADER = 4 * ALIGN, MOST_BYTES = 1 << 30 };

static const char MARK[] = "# xxh3 ";

/* Fills the header, NumPy's spelling of a tuple included: (), (3,), (3, 4), and the digest. Returns
 * its length. */
static size_t header_fill(char header[HEADER], const char *dtype, const void *data, size_t bytes,
                          int ndim, const size_t *dim) {
    char text[SMOE_DIGEST_DIGITS + 1];
    memcpy(header, "\x93NUMPY\x01\x00", MAGIC);
    size_t n = PREFIX;
    n += (size_t)snprintf(header + n, HEADER - n,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype);
    for (int i = 0; i < ndim; i++)
        n += (size_t)snprintf(header + n, HEADER - n, "%s%zu", i ? ", " : "", dim[i]);
    n += (size_t)snprintf(header + n, HEADER - n, "%s), } %s" SMOE_DIGEST_ZEROS,
                          ndim == 1 ? "," : "", MARK);
    size_t whole = (n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(header + n, ' ', whole - n);
    header[whole - 1] = '\n';
    header[MAGIC] = (char)((whole - PREFIX) & 0xff);
    header[MAGIC + 1] = (char)((whole - PREFIX) >> 8);
    SMOE_FREED_BY(smoe_digest_freed) smoe_digest *digest = smoe_digest_new();
    smoe_digest_add(digest, header, whole);
    smoe_digest_add(digest, data, bytes);
    memcpy(header + n - SMOE_DIGEST_DIGITS, smoe_digest_text(digest, text), SMOE_DIGEST_DIGITS);
    return whole;
}

/* Bytes of all elements. */
static size_t npy_bytes_of(const char *dtype, int ndim, const size_t *dim) {
    assert(ndim >= 0 && ndim <= SMOE_NPY_DIMS);
    assert(!strcmp(dtype, "<f4") || !strcmp(dtype, "<f8") || !strcmp(dtype, "<i8") ||
           !strcmp(dtype, "|b1"));
    size_t bytes = (size_t)(dtype[2] - '0');
    for (int i = 0; i < ndim; i++) bytes *= dim[i];
    return bytes;
}

int smoe_npy_write(const char *path, const char *dtype, const void *data, int ndim,
                   const size_t *dim, smoe_err *err) {
    size_t bytes = npy_bytes_of(dtype, ndim, dim);
    char header[HEADER];
    size_t length = header_fill(header, dtype, data, bytes, ndim, dim);
    smoe_file file;
    if (smoe_file_create(&file, path, err)) return -1;
    if (smoe_file_put(&file, header, length, err)) return -1;
    if (smoe_file_put(&file, data, bytes, err)) return -1;
    return smoe_file_commit(&file, err);
}

void *smoe_npy_make(size_t *size, const char *dtype, const void *data, int ndim,
                    const size_t *dim) {
    size_t bytes = npy_bytes_of(dtype, ndim, dim);
    char header[HEADER];
    size_t length = header_fill(header, dtype, data, bytes, ndim, dim);
    *size = length + bytes;
    char *all = smoe_alloc(*size, 1);
    memcpy(all, header, length);
    memcpy(all + length, data, bytes);
    return all;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The value behind a key of the header's dictionary, "'shape':", or NULL. */
static const char *npy_value_of(const char *header, const char *key) {
    const char *at = strstr(header, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), " ") : NULL;
}

/* "(3, 4)", "(3,)", "()" */
static bool read_shape(const char *text, smoe_npy_header *h) {
    if (!text || *text++ != '(') return false;
    for (h->ndim = 0; *text != ')'; h->ndim++) {
        size_t digits = strspn(text, "0123456789");
        if (h->ndim == SMOE_NPY_DIMS || !digits || digits > 20) return false;
        h->dim[h->ndim] = strtoull(text, NULL, 10);
        text += digits;
        if (*text != ',' && *text != ')') return false;
        text += *text == ',';
        text += strspn(text, " ");
    }
    return true;
}

const char *smoe_npy_header_read(smoe_npy_header *h, const char *bytes, size_t size) {
    enum { LONGEST = 1 << 12 };
    char text[LONGEST];
    size_t wide, length = 0;
    *h = (smoe_npy_header){{0}, false, 0, {0}, 0};
    if (size < MAGIC + 4 || memcmp(bytes, "\x93NUMPY", 6))
        return "it does not begin as .npy files do";
    wide = bytes[6] == 1 ? 2 : 4; /* of format 1, and 2 and 3 */
    for (size_t i = 0; i < wide; i++) length |= (size_t)(unsigned char)bytes[MAGIC + i] << 8 * i;
    h->from = MAGIC + wide + length;
    if (length >= LONGEST || h->from > size) return "the length of its header";
    memcpy(text, bytes + MAGIC + wide, length);
    text[length] = '\0';
    const char *type = npy_value_of(text, "'descr':"),
               *order = npy_value_of(text, "'fortran_order':");
    if (type && *type == '\'' && strcspn(type + 1, "'") == 3) memcpy(h->dtype, type + 1, 3);
    if (!order || (strncmp(order, "False", 5) && strncmp(order, "True", 4)) ||
        !read_shape(npy_value_of(text, "'shape':"), h))
        return "its shape";
    h->fortran = *order == 'T';
    return NULL;
}

/* Whether the text is a complete file of that type; if so, its dimensions and the start of the
 * elements. */
static bool is_whole(const char *text, size_t size, const char *dtype, int ndim, size_t *dim,
                     size_t *from) {
    smoe_npy_header h;
    if (smoe_npy_header_read(&h, text, size) || h.fortran || h.ndim != ndim ||
        strcmp(h.dtype, dtype) != 0)
        return false;
    size_t left = (size - h.from) / (size_t)(dtype[2] - '0'), count = 1;
    for (int i = 0; i < ndim; i++) {
        if (h.dim[i] && count > left / h.dim[i]) return false;
        count *= dim[i] = h.dim[i];
    }
    *from = h.from;
    return size - h.from == count * (size_t)(dtype[2] - '0');
}

/* Of the whole file; elements may look like the mark, so it is looked for in the header alone. */
static smoe_seal seal_of(const char *text, size_t size) {
    size_t most = size < HEADER ? size : HEADER;
    const char *end = size > PREFIX ? memchr(text + PREFIX, '\n', most - PREFIX) : NULL;
    return end ? smoe_digest_sealed(text, size, (size_t)(end - text), MARK) : SMOE_SEAL_NONE;
}

/* The whole file, verified. */
static int read_file(char **text, size_t *size, const char *path, smoe_seal *seal, smoe_err *err) {
    if (smoe_file_read(path, MOST_BYTES, text, size, err)) return -1;
    *seal = seal_of(*text, *size);
    if (*seal != SMOE_SEAL_WRONG) return 0;
    free(*text);
    *text = NULL;
    return smoe_fail(err, SMOE_DATA, "%s: changed since it was written: its digest is another",
                     path);
}

int smoe_npy_verify(const char *path, bool *sealed, smoe_err *err) {
    SMOE_FREED char *text = NULL;
    size_t size = 0;
    smoe_seal seal;
    if (read_file(&text, &size, path, &seal, err)) return -1;
    bool good = size >= PREFIX && !memcmp(text, "\x93NUMPY", 6);
    *sealed = seal == SMOE_SEAL_RIGHT;
    return good ? 0 : smoe_fail(err, SMOE_DATA, "%s: not a .npy file", path);
}

int smoe_npy_read(const char *path, const char *dtype, void **data, int ndim, size_t *dim,
                  smoe_err *err) {
    char *text = NULL;
    size_t size = 0, from = 0;
    smoe_seal seal;
    if (read_file(&text, &size, path, &seal, err)) return -1;
    if (!is_whole(text, size, dtype, ndim, dim, &from)) {
        free(text);
        return smoe_fail(err, SMOE_DATA,
                         "%s: not a complete .npy file of type %s with %d dimensions", path, dtype,
                         ndim);
    }
    memmove(text, text + from, size - from);
    *data = text;
    return 0;
}
