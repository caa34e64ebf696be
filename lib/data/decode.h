/*
 * Image files in memory to pixels: JPEG, PNG and WebP. Leaves to others: where
 * the bytes come from; messages name no file, the caller puts it before them.
 *
 * The format is that of the bytes, whatever the name: collections have images with the ending of
 * another format, ImageNet one of them.
 *
 * All failures are SMOE_DATA: bytes that are no image, dimensions beyond 64 megapixels, anything
 * the decoders complain about, and warnings where pixels may depend on what is warned of.
 */
#pragma once

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
    /* The orientation of a JPEG by its EXIF data: 1 (upright) to 8, see smoe_image_turn; 1 if they
     * do not say, and for other files. Width and height are as stored. */
    unsigned orientation;
} smoe_image_header;

/* Whether a file's name ends like that of an image: .jpg, .jpeg, .jpe, .jfif, .png or .webp, in
 * upper or lower case. */
#define SMOE_IMAGE_ENDINGS ".jpg, .jpeg, .jpe, .jfif, .png, .webp"
bool smoe_decode_is_image(const char *name);

/* The name of a format that cannot be read, such as "HEIC", from the first bytes of a file; NULL:
 * not known. */
const char *smoe_decode_foreign(const uint8_t *bytes, size_t size);

/* Reads the header only; checks format and dimensions. */
int smoe_decode_header(smoe_image_header *header, const uint8_t *bytes, size_t size,
                       smoe_err *err) SMOE_MUST_CHECK;

/* A file in memory whose header was read. */
typedef struct smoe_image_file {
    const smoe_image_header *header;
    const uint8_t *bytes;
    size_t size;
} smoe_image_file;

/*
 * The whole image. With `shrink` 2, 4 or 8 a JPEG may be decoded at that fraction of its size
 * (rounded up), which is much faster; other formats never are. channels is 1 or 3; colour to grey
 * is luma, transparency is laid over black.
 */
int smoe_decode(smoe_image *image, const smoe_image_file *file, size_t channels, size_t shrink,
                smoe_err *err) SMOE_MUST_CHECK;

/* Header (NULL: it is not wanted), box (central square, or drawn from `crop`), decoding no larger
 * than needed, resizing to data.image_size, and with data.orientation apply turning. */
int smoe_decode_fit(smoe_image *out, const smoe_data_spec *data, const uint8_t *bytes, size_t size,
                    smoe_rng *crop, smoe_image *work, smoe_image_header *header,
                    smoe_err *err) SMOE_MUST_CHECK;

/* A format of image files; each decode_*.c has one, and decode.c the table of them. */
typedef struct smoe_decode_format {
    /* Whether bytes begin like a file of this format. */
    bool (*begins)(const uint8_t *bytes, size_t size);
    /* Reads the header, and fills everything but the kind. */
    int (*header)(smoe_image_header *header, const uint8_t *bytes, size_t size, smoe_err *err);
    /* All of the image, in the 1 or 3 channels that are wanted or that the file has; a JPEG at the
     * fraction 1/shrink. */
    int (*image)(smoe_image *image, const smoe_image_file *file, size_t channels, size_t shrink,
                 smoe_err *err);
} smoe_decode_format;

extern const smoe_decode_format smoe_decode_jpeg, smoe_decode_png, smoe_decode_webp;
