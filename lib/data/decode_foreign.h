/* Image files of formats that are not read, by their first bytes: messages can name them. */
#ifndef SMOE_DATA_DECODE_FOREIGN_H
#define SMOE_DATA_DECODE_FOREIGN_H

#include "base/base.h"

/* The name of the format, such as "HEIC"; NULL: none that is known. */
const char *smoe_decode_foreign(const uint8_t *bytes, size_t size);

#endif
