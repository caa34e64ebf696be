/* Pictures as PNG files: grey or RGB, 8 bits per channel. */
#pragma once

#include "data/image.h"

/* The bytes of a PNG file in fresh memory. Fails with SMOE_RUNTIME. */
int smoe_encode_png(const smoe_image *image, uint8_t **bytes, size_t *size,
                    smoe_err *err) SMOE_MUST_CHECK;

/* Writes the file at path, completely or not at all. */
int smoe_encode_png_write(const smoe_image *image, const char *path, smoe_err *err) SMOE_MUST_CHECK;
