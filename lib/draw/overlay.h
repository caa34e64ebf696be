/*
 * Overlays: pictures of what routers do with an image (S Fig. 10, V Fig. 5). A sheet for each image
 * and layer shows side by side
 *   the image itself
 *   choice routers: the image with the patches no expert processes in magenta
 *   who: each patch in the colour of the slot or expert whose combine weight is largest
 *   units: for some slots (choice routers: experts), the image darkened where a patch has little
 *   weight, in proportion to the unit's largest; grey where it takes none. Where most units have
 *   nearly equal weights, the darkest is the unit's least weight instead of 0
 */
#pragma once

#include "base/frame.h"
#include "data/image.h"
#include "draw/sample.h"

/* The image of a sample, 8 bits per channel. */
int smoe_overlay_picture(const smoe_sample *sample, smoe_image *image,
                         smoe_err *err) SMOE_MUST_CHECK;

/* exp of the entropy of weights divided by their sum: how many count. w[i * step], i < n; 0 where
 * all are 0. */
double smoe_overlay_effective(const float *w, size_t n, size_t step);

/* Which units a sheet shows. Chosen by the caller, or by rule: of slots, the four that mix the
 * fewest effective tokens, then the four others that give most combine weight; of experts, the
 * eight that take the most tokens. Ties: the lower number first. */
typedef struct smoe_overlay_units {
    const size_t *unit; /* that every layer has; NULL: by rule */
    size_t count;
} smoe_overlay_units;

/* The empty table of smoe_overlays_write. */
void smoe_overlays_frame(smoe_frame *frame);

/* Removes the sheets of an earlier call from FOLDER/overlays, known by their names; other files
 * stay. No such folder: nothing. */
int smoe_overlays_remove(const char *folder, smoe_err *err) SMOE_MUST_CHECK;

/* The sheet of a layer at least 144 pixels per picture, without names, as PNG in fresh memory, with
 * its sizes in pixels. */
int smoe_overlay_encode(uint8_t **png, size_t *size, size_t *width, size_t *height,
                        const smoe_sample *sample, size_t layer, smoe_err *err) SMOE_MUST_CHECK;

/* The sheets of a call. */
typedef struct smoe_overlays {
    const char *folder; /* they are in FOLDER/overlays */
    smoe_overlay_units units;
    double width;      /* inches of a paper that figures are for, or 0 */
    smoe_frame *frame; /* gets a row for every tile */
    bool drawn;        /* out: gnuplot drew all of the figures */
} smoe_overlays;

/* Writes overlays/imageN-blocksM.png, at the size of the image, for every sample and MoE layer, and
 * -large.png, magnified to be legible; of that a figure with names and a bar of shades, .gp and
 * .svg (.pdf for a paper). With several runs their names begin with runK- in the order of the
 * samples. A unit that a layer does not have is SMOE_USAGE. */
int smoe_overlays_write(smoe_overlays *sheets, const smoe_sample *samples, size_t count,
                        smoe_err *err) SMOE_MUST_CHECK;

/* ---- PNG files: grey or RGB, 8 bits per channel ---------------------------------------------- */

/* The bytes of a PNG file in fresh memory. Fails with SMOE_RUNTIME. */
int smoe_encode_png(const smoe_image *image, uint8_t **bytes, size_t *size,
                    smoe_err *err) SMOE_MUST_CHECK;

/* Writes the file at path, completely or not at all. */
int smoe_encode_png_write(const smoe_image *image, const char *path, smoe_err *err) SMOE_MUST_CHECK;
