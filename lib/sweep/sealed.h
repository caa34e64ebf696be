/* Small files of JSON that hold a digest of themselves, so that a change by hand is seen. */
#ifndef SMOE_SEALED_H
#define SMOE_SEALED_H

#include "base/base.h"

#include <jansson.h>

/* A small file with an object that gets the member xxh3, the digest of the file with zeros for its
 * digits; and the object of such a file, fresh, NULL where it was changed (SMOE_DATA). *sealed: it
 * has a digest, which those of older versions lack. */
int smoe_sealed_write(const char *path, json_t *object, smoe_err *err) SMOE_MUST_CHECK;
json_t *smoe_sealed_parse(const char *text, size_t size, const char *path, bool *sealed,
                          smoe_err *err) SMOE_MUST_CHECK;

#endif
