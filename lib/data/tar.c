/* The members of a plain tar; see tar.h. */
#include "data/tar.h"
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, LONGEST = 4096 }; /* of a header; of a name */
static const char SPARSE[] = "a sparse file; tar without --sparse stores files whole";

/* ustar: offsets and lengths of its fields. */
enum {
    NAME = 0,
    NAME_SIZE = 100,
    SIZE = 124,
    SIZE_SIZE = 12,
    SUM = 148,
    SUM_SIZE = 8,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_SIZE = 155
};

typedef struct reader {
    const char *path;
    int file;
    uint64_t size, at;  /* where the archive ends in the file; of the header */
    char name[LONGEST]; /* given by an entry before the member's own; "": none */
    uint64_t next_size; /* likewise */
    bool sized;
} reader;

static int damaged(const reader *r, smoe_err *err, const char *what) {
    return smoe_fail(err, SMOE_DATA, "%s: at byte %llu: %s", r->path, (unsigned long long)r->at,
                     what);
}

/* An octal number, or a binary one whose first byte is 0x80. False where it is neither. */
static bool tar_number(const uint8_t *field, size_t n, uint64_t *value) {
    size_t i = 0;
    *value = 0;
    if (field[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (*value >> 56) return false;
            *value = *value << 8 | field[i];
        }
        return true;
    }
    while (i < n && field[i] == ' ') i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        *value = *value << 3 | (uint64_t)(field[i] - '0');
    return i == n || field[i] == ' ' || !field[i];
}

/* The sum of the bytes of the header, with those of the sum itself as blanks. */
static bool sum_is_right(const uint8_t *header) {
    uint64_t sum = 0, wanted;
    for (size_t i = 0; i < BLOCK; i++) sum += i >= SUM && i < SUM + SUM_SIZE ? ' ' : header[i];
    return tar_number(header + SUM, SUM_SIZE, &wanted) && sum == wanted;
}

static bool is_zero(const uint8_t *header) {
    for (size_t i = 0; i < BLOCK; i++)
        if (header[i]) return false;
    return true;
}

/* Records "LENGTH KEY=VALUE\n" of a pax header: path and size are taken. */
static int take_pax(reader *r, const char *text, size_t size, smoe_err *err) {
    for (size_t at = 0, length; at < size; at += length) {
        char *end, *equals;
        length = strtoul(text + at, &end, 10);
        if (end == text + at || *end != ' ' || length < 5 || length > size - at ||
            text[at + length - 1] != '\n' || (size_t)(end - text) >= at + length)
            return damaged(r, err, "a pax header is damaged");
        const char *key = end + 1, *stop = text + at + length - 1;
        equals = memchr(key, '=', (size_t)(stop - key));
        if (!equals) return damaged(r, err, "a pax header is damaged");
        const char *value = equals + 1;
        size_t n = (size_t)(stop - value);
        if (!strncmp(key, "GNU.sparse.", strlen("GNU.sparse."))) return damaged(r, err, SPARSE);
        if (equals - key == 4 && !memcmp(key, "path", 4)) {
            if (n >= sizeof r->name) return damaged(r, err, "a name is too long");
            memcpy(r->name, value, n);
            r->name[n] = '\0';
        } else if (equals - key == 4 && !memcmp(key, "size", 4)) {
            r->next_size = strtoull(value, &end, 10);
            r->sized = true;
            if (end != stop) return damaged(r, err, "a pax header is damaged");
        }
    }
    return 0;
}

/* A long name ('L') or a pax header ('x'), of the member that follows. */
static int take_extension(reader *r, uint8_t type, uint64_t size, smoe_err *err) {
    uint8_t *bytes = NULL;
    if (size >= (type == 'L' ? sizeof r->name : (size_t)1 << 20))
        return damaged(r, err, "a name is too long");
    if (smoe_tar_read(&bytes, r->path, r->at + BLOCK, (size_t)size, err)) return -1;
    int status = 0;
    if (type == 'L')
        snprintf(r->name, sizeof r->name, "%s", (char *)bytes);
    else
        status = take_pax(r, (char *)bytes, (size_t)size, err);
    free(bytes);
    return status;
}

static int visit_member(reader *r, const uint8_t *header, uint64_t size, smoe_tar_visit *visit,
                        void *user, smoe_err *err) {
    char own[NAME_SIZE + PREFIX_SIZE + 2];
    bool ustar = !memcmp(header + MAGIC, "ustar", 5) && header[MAGIC + 5] == '\0';
    int prefix = ustar ? (int)strnlen((const char *)header + PREFIX, PREFIX_SIZE) : 0;
    snprintf(own, sizeof own, "%.*s%s%.*s", prefix, (const char *)header + PREFIX,
             prefix ? "/" : "", NAME_SIZE, (const char *)header + NAME);
    const char *name = *r->name ? r->name : own;
    if (!*name || !smoe_text_printable(name))
        return damaged(r, err, "the name of a member is not printable");
    return visit(user, &(smoe_tar_member){name, r->at + BLOCK, size}, err);
}

/* 1: there is a next header, 0: the end. */
static int tar_next(reader *r, smoe_tar_visit *visit, void *user, smoe_err *err) {
    uint8_t header[BLOCK];
    uint64_t size;
    if (r->at == r->size) return 0; /* without the two empty blocks: many writers leave them out */
    ssize_t n = pread(r->file, header, BLOCK, (off_t)r->at);
    if (n > 0 && !r->at && smoe_file_is_pointer(header, (size_t)n))
        return smoe_fail(err, SMOE_DATA, "%s: " SMOE_FILE_POINTER, r->path);
    if (n > 1 && !r->at && header[0] == 0x1f && header[1] == 0x8b)
        return damaged(
            r, err,
            "gzip data; a tar that is read where it lies must be plain: gunzip makes it so");
    if (r->size - r->at < BLOCK || n != BLOCK)
        return damaged(r, err, "the archive ends in a header");
    if (is_zero(header)) return 0;
    if (!sum_is_right(header)) return damaged(r, err, "not a tar header (its checksum is wrong)");
    if (!tar_number(header + SIZE, SIZE_SIZE, &size))
        return damaged(r, err, "a size is not a number");
    uint8_t type = header[TYPE];
    bool extends = type == 'L' || type == 'x';
    if (r->sized && !extends) size = r->next_size;
    if (size > r->size - r->at - BLOCK) return damaged(r, err, "the archive ends in a member");
    if (extends) {
        if (take_extension(r, type, size, err)) return -1;
    } else {
        bool file = type == '0' || type == '\0';
        if (type == 'S') return damaged(r, err, SPARSE);
        if (file && visit_member(r, header, size, visit, user, err)) return -1;
        *r->name = '\0';
        r->sized = false;
    }
    uint64_t blocks = (size + BLOCK - 1) / BLOCK * BLOCK;
    r->at = blocks > r->size - r->at - BLOCK ? r->size : r->at + BLOCK + blocks;
    return 1;
}

int smoe_tar_index(const char *path, smoe_tar_visit *visit, void *user, smoe_err *err) {
    return smoe_tar_index_within(path, 0, UINT64_MAX, visit, user, err);
}

int smoe_tar_index_within(const char *path, uint64_t at, uint64_t size, smoe_tar_visit *visit,
                          void *user, smoe_err *err) {
    struct stat info;
    reader r = {.path = path, .file = open(path, O_RDONLY | O_CLOEXEC), .at = at};
    if (r.file < 0) return smoe_fail_errno(err, SMOE_DATA, "%s", path);
    int status = -1;
    if (fstat(r.file, &info))
        smoe_fail_errno(err, SMOE_DATA, "%s", path);
    else if (!S_ISREG(info.st_mode))
        smoe_fail(err, SMOE_DATA, "%s: no file", path);
    else {
        r.size = (uint64_t)info.st_size;
        if (at > r.size) at = r.size;
        if (size < r.size - at) r.size = at + size;
        do status = tar_next(&r, visit, user, err);
        while (status > 0);
    }
    close(r.file);
    return status;
}

static int read_bytes(uint8_t *out, const char *path, uint64_t at, size_t size, smoe_err *err) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return smoe_fail_errno(err, SMOE_DATA, "%s", path);
    int status = 0;
    for (size_t done = 0; !status && done < size;) {
        ssize_t n = pread(file, out + done, size - done, (off_t)at + (off_t)done);
        if (n < 0)
            status = smoe_fail_errno(err, SMOE_DATA, "%s", path);
        else if (!n)
            status = smoe_fail(err, SMOE_DATA, "%s: truncated: %zu bytes expected at %llu", path,
                               size, (unsigned long long)at);
        else
            done += (size_t)n;
    }
    close(file);
    return status;
}

int smoe_tar_read(uint8_t **bytes, const char *path, uint64_t at, size_t size, smoe_err *err) {
    uint8_t *out = *bytes = malloc(size + 1);
    if (!out) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory for %zu bytes", path, size);
    if (!read_bytes(out, path, at, size, err)) {
        out[size] = '\0';
        return 0;
    }
    free(out);
    *bytes = NULL;
    return -1;
}
