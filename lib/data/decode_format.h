/*
 * Internal to decode.c: a format of image files, of which each decode_*.c has one. Leaves to
 * others: limits of size, what a name promises, the number of channels (decode.h).
 */
#ifndef SMOE_DATA_DECODE_FORMAT_H
#define SMOE_DATA_DECODE_FORMAT_H

#include "data/decode.h"

typedef struct smoe_decode_format {
    /* Whether bytes begin as its files do. */
    bool (*begins)(const uint8_t *bytes, size_t size);
    /* What comes before the pixels; fills all but the kind. */
    int (*header)(smoe_image_header *header, const uint8_t *bytes, size_t size, smoe_err *err);
    /* All of the image, in the 1 or 3 channels that are wanted or that the file has; a JPEG at the
     * fraction 1/shrink. */
    int (*image)(smoe_image *image, const smoe_image_header *header, size_t channels, size_t shrink,
                 const uint8_t *bytes, size_t size, smoe_err *err);
} smoe_decode_format;

extern const smoe_decode_format smoe_decode_jpeg, smoe_decode_png, smoe_decode_webp;

#endif
