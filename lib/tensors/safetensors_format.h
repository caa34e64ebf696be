/* What reading and writing safetensors share: sizes and keys of the format. For safetensors.c and
 * safetensors_write.c alone. */
#ifndef SMOE_SAFETENSORS_FORMAT_H
#define SMOE_SAFETENSORS_FORMAT_H

#include <stddef.h>

enum { SMOE_ST_LENGTH = 8 }; /* bytes of the header's length, which the file begins with */
#define SMOE_ST_METADATA "__metadata__"

/* Keys of the metadata: the digest of all bytes of the file, with its digits as zeros; and the name
 * of that key, so that damage to the name is detected. */
#define SMOE_ST_DIGEST "smoe.xxh3"
#define SMOE_ST_NO_DIGEST "0000000000000000"
#define SMOE_ST_HAS_DIGEST "smoe.digest"

/* The place of the digits in the header. The writer uses no blanks, and quotes inside JSON strings
 * are escaped, so no other text looks like this key. NULL: not found. */
const char *smoe_safetensors_digest_place(const char *header, size_t size);

#endif
