/* safetensors files assembled by hand. */
#pragma once

#include <stddef.h>

/* Length, header, data, to be freed. The memory has exactly the file's size, so that a sanitizer
 * detects every read beyond it. */
char *raw_safetensors_file(const char *header, const void *data, size_t data_size, size_t *size);
