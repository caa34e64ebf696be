/* safetensors files put together by hand. */
#ifndef SMOE_TEST_HANDMADE_H
#define SMOE_TEST_HANDMADE_H

#include <stddef.h>

/* Length, header, data, to be freed: in exactly as many bytes, so that a sanitizer sees every byte read
 * beyond. */
char *raw_safetensors_file(const char *header, const void *data, size_t data_size, size_t *size);

#endif
