/* See raw_safetensors.h. */
#include "raw_safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char *raw_safetensors_file(const char *header, const void *data, size_t data_size, size_t *size) {
    uint64_t length = strlen(header);
    *size = 8 + length + data_size;
    char *bytes = malloc(*size);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> 8 * i & 0xff);
    memcpy(bytes + 8, header, length);
    if (data_size) memcpy(bytes + 8 + length, data, data_size);
    return bytes;
}
