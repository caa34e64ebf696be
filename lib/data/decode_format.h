/*
 * A format of image files, of which each decode_*.c has one; the table of them is that of decode.c.
 * Leaves to others: what a name promises, the number of channels (decode.h).
 */
#ifndef SMOE_DATA_DECODE_FORMAT_H
#define SMOE_DATA_DECODE_FORMAT_H

#include "data/image.h"

enum { SMOE_MOST_PIXELS = 64 << 20, SMOE_MOST_IMAGE_BYTES = 64 << 20 };

typedef enum smoe_image_kind {
    SMOE_IMAGE_NONE,
    SMOE_IMAGE_JPEG,
    SMOE_IMAGE_PNG,
    SMOE_IMAGE_WEBP,
    SMOE_IMAGE_KINDS
} smoe_image_kind;

typedef struct smoe_image_header {
    smoe_image_kind kind;
    size_t width, height;
    smoe_image_mode mode;
    bool deep; /* 16 bits per sample */
    /* How a JPEG lies, by its EXIF data: 1, as it is to be seen, to 8 (smoe_image_turn); 1 where
     * they do not say, and of other files. Width and height are those of the file. */
    unsigned orientation;
} smoe_image_header;

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
