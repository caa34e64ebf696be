/* What the reader and the writer of safetensors share: the parts of a file. */
#pragma once

#include "base/digest.h"
#include "base/file.h"

#include <jansson.h>

enum { SMOE_SAFETENSORS_LENGTH = 8 }; /* bytes of the header's length, which a file begins with */
#define SMOE_SAFETENSORS_METADATA "__metadata__"

/* Keys of the metadata: the digest of all bytes of the file, with its digits as zeros; and the name
 * of that key, so that damage to the name is detected. */
#define SMOE_SAFETENSORS_DIGEST "smoe.xxh3"
#define SMOE_SAFETENSORS_HAS "smoe.digest"

/* The place of the digits in the header. The writer uses no blanks, and quotes inside JSON strings
 * are escaped, so no other text looks like this key. NULL: not found. */
const char *smoe_safetensors_digits(const char *header, size_t size);
