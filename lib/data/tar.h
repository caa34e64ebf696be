/*
 * The places of the files in a plain tar: ustar, with long names of GNU and pax. Reads only
 * headers, so that a large archive can be used in any order without unpacking it. Damaged headers
 * (their checksum, a number, a name, a size beyond the end) are SMOE_DATA naming archive and
 * offset; links, devices and folders are passed over.
 */
#ifndef SMOE_TAR_H
#define SMOE_TAR_H

#include "base/base.h"

typedef struct smoe_tar_member {
    const char *name;  /* valid during the visit only */
    uint64_t at, size; /* of its bytes in the archive */
} smoe_tar_member;

/* 0: go on; -1: stop, err is filled. */
typedef int smoe_tar_visit(void *user, const smoe_tar_member *member, smoe_err *err);

int smoe_tar_index(const char *path, smoe_tar_visit *visit, void *user,
                   smoe_err *err) SMOE_MUST_CHECK;

/* The same of a tar that is `size` bytes at `at` of a file, as a tar within a tar is. */
int smoe_tar_index_within(const char *path, uint64_t at, uint64_t size, smoe_tar_visit *visit,
                          void *user, smoe_err *err) SMOE_MUST_CHECK;

/* `size` bytes at `at` of a file, fresh, the caller's to free. */
int smoe_tar_read(uint8_t **bytes, const char *path, uint64_t at, size_t size,
                  smoe_err *err) SMOE_MUST_CHECK;

#endif
