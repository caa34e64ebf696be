/*
 * Pictures in memory: 8 bits per sample, rows top to bottom, samples of a pixel side by side.
 * Channel conversion, resizing of a box of a picture, and the two boxes that matter: the central
 * square (evaluation) and the random "inception" box (training). Leaves to others: where pictures
 * come from (decode.h, source_*.c), what is done to them afterwards (augment.h).
 */
#pragma once

#include "base/rng.h"
#include "data/scan.h"
#include "spec/spec.h"

typedef struct smoe_image {
    size_t width, height, channels;
    uint8_t *pixel; /* [height, width, channels]; owned, kept between uses */
    size_t room;    /* bytes behind pixel */
} smoe_image;

/* How the samples of a file are stored. */
typedef enum smoe_image_mode {
    SMOE_MODE_GREY,
    SMOE_MODE_COLOUR,
    SMOE_MODE_GREY_ALPHA, /* transparent, as the next one */
    SMOE_MODE_COLOUR_ALPHA,
    SMOE_MODE_PALETTE,
    SMOE_MODE_INKS, /* a JPEG of cyan, magenta, yellow and black */
    SMOE_IMAGE_MODES
} smoe_image_mode;

/* Gives the image that shape, contents undefined. Fails with SMOE_RUNTIME when out of memory. */
int smoe_image_shape(smoe_image *image, size_t width, size_t height, size_t channels,
                     smoe_err *err) SMOE_MUST_CHECK;
void smoe_image_free(smoe_image *image);

/* Calls `each` for i from 0 to n - 1 on all threads, with two scratch images of the thread, as a
 * part of the scan, whose progress says `what`. Of several failures the first in the order of i is
 * reported, whatever the threads. */
typedef int smoe_image_task(void *context, size_t i, smoe_image *image, smoe_image *work,
                            smoe_err *err);
int smoe_image_each(size_t n, smoe_image_task *each, void *context, smoe_scan *scan,
                    const char *what, smoe_err *err) SMOE_MUST_CHECK;

/* A grey sample of red, green and blue: the luma of ITU-R BT.601, which is also JPEG's Y. */
uint8_t smoe_image_luma(uint8_t red, uint8_t green, uint8_t blue);

/* Removes the last channel, which says how opaque pixels are: transparent parts become black,
 * sample times alpha / 255, rounded. In place. */
void smoe_image_over_black(smoe_image *image);

/* Puts the image into the middle of a black square. */
int smoe_image_border(smoe_image *image, smoe_err *err) SMOE_MUST_CHECK;

/* Grey to RGB by repetition, RGB to grey by luma, in place. channels is 1 or 3. */
int smoe_image_convert(smoe_image *image, size_t channels, smoe_err *err) SMOE_MUST_CHECK;

/* A part of an image, in pixels; corners may lie between pixels. */
typedef struct smoe_box {
    double x, y, width, height;
} smoe_box;

/* The central square, which gives the result of "resize the shorter side, crop the centre". */
smoe_box smoe_box_centre(size_t width, size_t height);

/* The same of "resize the shorter side, or with `squash` both, to side/share, crop the centre to
 * side", as timm and torchvision compute it: sizes rounded down, the corner half to even. */
smoe_box smoe_box_share(size_t width, size_t height, size_t side, double share, bool squash);

/* The random resized crop of Inception with the limits of vmoe: area uniform in 5% .. 100% of the
 * image, aspect ratio log-uniform in 3/4 .. 4/3; after ten misses the central square. */
smoe_box smoe_box_inception(smoe_rng *rng, size_t width, size_t height);

/*
 * out [size, size, channels of in] = the box of `in`, resized with a triangle filter, or with the
 * cubic one of Keys (a = -0.5), that is widened when shrinking (antialiasing, as in Pillow).
 * Samples beyond the box but inside the image take part; beyond the image the filter is cut and
 * renormalised. A box of size x size on whole pixels is copied.
 */
int smoe_image_resize(smoe_image *out, size_t size, const smoe_image *in, smoe_box box,
                      smoe_resize filter, smoe_err *err) SMOE_MUST_CHECK;

/* The box that `crop` draws (NULL: the central square), resized. */
int smoe_image_fit(smoe_image *out, size_t size, const smoe_image *in, smoe_rng *crop,
                   smoe_resize filter, smoe_err *err) SMOE_MUST_CHECK;

/*
 * Orientations of EXIF: the first row and the first column of the stored image are, in the upright
 * one, 1 top and left, 2 top and right, 3 bottom and right, 4 bottom and left, 5 left and top, 6
 * right and top, 7 right and bottom, 8 left and bottom.
 */
/* The size of the upright image, from the stored size. */
void smoe_image_turned_size(unsigned orientation, size_t *width, size_t *height);
/* Where a box of the upright image lies in the stored one, of that size. */
smoe_box smoe_box_stored(smoe_box seen, unsigned orientation, size_t width, size_t height);
/* Turns a stored square image upright, in place. */
void smoe_image_turn(smoe_image *image, unsigned orientation);

/* Shifts the image in place: what leaves it on the right or below returns on the other side. right
 * and down are less than its sides; `work` is scratch. */
int smoe_image_roll(smoe_image *image, smoe_image *work, size_t right, size_t down,
                    smoe_err *err) SMOE_MUST_CHECK;

/* Mirrors left and right, in place. */
void smoe_image_mirror(smoe_image *image);

/* What a model gets for each byte x of a channel: (x/255 - data.mean)/data.std, which is x/127.5 -
 * 1 with the defaults. */
enum { SMOE_IMAGE_CHANNELS = 3 };
typedef struct smoe_image_scale {
    real of[SMOE_IMAGE_CHANNELS][256];
} smoe_image_scale;
void smoe_image_scale_make(smoe_image_scale *scale, const smoe_data_spec *data);

/* pixels [channels, height, width] */
void smoe_image_pixels(real *pixels, const smoe_image *image, const smoe_image_scale *scale);

/* Such a value of a channel on the scale from -1, black, to 1, white. */
real smoe_image_shown(const smoe_data_spec *data, size_t channel, real x);
