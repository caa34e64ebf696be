/*
 * WebP files in memory to pixels, by libwebp: lossy and lossless, one image; transparency is laid
 * over black. Animations are refused.
 * Leaves to others: what a name promises, limits of size (decode.h).
 *
 * Failures are SMOE_DATA: a damaged or truncated file.
 */
#ifndef SMOE_DATA_DECODE_WEBP_H
#define SMOE_DATA_DECODE_WEBP_H

#include "data/image.h"

/* Whether bytes begin as WebP does. */
bool smoe_decode_is_webp(const uint8_t *bytes, size_t size);

int smoe_decode_webp_header(size_t *width, size_t *height, smoe_image_mode *mode,
                            const uint8_t *bytes, size_t size, smoe_err *err) SMOE_MUST_CHECK;

/* All of the image, [height, width, 3], of the size that the header has and the caller checked. */
int smoe_decode_webp_image(smoe_image *image, size_t width, size_t height, const uint8_t *bytes,
                           size_t size, smoe_err *err) SMOE_MUST_CHECK;

#endif
