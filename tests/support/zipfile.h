/* Zip files in memory, stored without compression, for tests and fuzz targets of their readers. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct zipfile {
    unsigned char *bytes;
    size_t size, room;
    unsigned char *directory; /* entries of the members so far */
    size_t directory_size, directory_room;
    unsigned members;
} zipfile;

static inline void zipfile_bytes(unsigned char **to, size_t *size, size_t *room, const void *from,
                                 size_t n) {
    if (*size + n > *room) *to = realloc(*to, *room = 2 * (*size + n) + 64);
    if (!*to) abort();
    if (n) memcpy(*to + *size, from, n);
    *size += n;
}

static inline void zipfile_put(zipfile *z, const void *from, size_t n) {
    zipfile_bytes(&z->bytes, &z->size, &z->room, from, n);
}

static inline void zipfile_little(unsigned char *at, uint64_t number, size_t n) {
    for (size_t i = 0; i < n; i++) at[i] = (unsigned char)(number >> (8 * i));
}

static inline void zipfile_add(zipfile *z, const char *name, const void *data, size_t n) {
    unsigned char local[30] = {'P', 'K', 3, 4, 20}, entry[46] = {'P', 'K', 1, 2, 20, 0, 20};
    size_t letters = strlen(name), at = z->size;
    uint32_t crc = (uint32_t)crc32(0, data, (uInt)n);
    zipfile_little(local + 14, crc, 4);
    zipfile_little(local + 18, n, 4);
    zipfile_little(local + 22, n, 4);
    zipfile_little(local + 26, letters, 2);
    memcpy(entry + 16, local + 14, 14);
    zipfile_little(entry + 42, at, 4);
    zipfile_put(z, local, sizeof local);
    zipfile_put(z, name, letters);
    zipfile_put(z, data, n);
    zipfile_bytes(&z->directory, &z->directory_size, &z->directory_room, entry, sizeof entry);
    zipfile_bytes(&z->directory, &z->directory_size, &z->directory_room, name, letters);
    z->members++;
}

/* Completes the file in bytes[size]; zipfile_free frees it. */
static inline void zipfile_end(zipfile *z) {
    unsigned char end[22] = {'P', 'K', 5, 6};
    zipfile_little(end + 8, z->members, 2);
    zipfile_little(end + 10, z->members, 2);
    zipfile_little(end + 12, z->directory_size, 4);
    zipfile_little(end + 16, z->size, 4);
    zipfile_put(z, z->directory, z->directory_size);
    zipfile_put(z, end, sizeof end);
}

static inline void zipfile_free(zipfile *z) {
    free(z->bytes);
    free(z->directory);
    *z = (zipfile){0};
}
