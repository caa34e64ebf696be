/*
 * PNG files in memory to pixels, by libpng. Samples are taken as they are stored: gamma,
 * chromaticities and colour profiles are ignored. Of 16-bit samples the upper 8 bits count;
 * transparency,
 * of a channel or of one colour, is laid over black in the same values: sample * alpha / 255,
 * rounded.
 * Leaves to others: what a name promises, limits of size (decode.h).
 *
 * Warnings of libpng that concern pixels or their transparency are failures (SMOE_DATA); those
 * about anything else, such as a bad time or text, are ignored.
 */
#ifndef SMOE_DATA_DECODE_PNG_H
#define SMOE_DATA_DECODE_PNG_H

#include "data/image.h"

/* What comes before the pixels. */
int smoe_decode_png_header(size_t *width, size_t *height, smoe_image_mode *mode, bool *deep,
                           const uint8_t *bytes, size_t size, smoe_err *err) SMOE_MUST_CHECK;

/* All of the image, in the 1 or 3 channels that the file has. The caller has checked its size. */
int smoe_decode_png_image(smoe_image *image, const uint8_t *bytes, size_t size,
                          smoe_err *err) SMOE_MUST_CHECK;

#endif
