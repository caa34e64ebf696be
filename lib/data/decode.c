/* Image files in memory to pixels, see decode.h. */
#include "data/decode.h"
#include "data/decode_png.h"
#include "data/decode_webp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <turbojpeg.h>

smoe_image_kind smoe_decode_kind_of(const char *name) {
    const char *dot = strrchr(name, '.');
    if (!dot) return SMOE_IMAGE_NONE;
    if (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")) return SMOE_IMAGE_JPEG;
    if (!strcasecmp(dot, ".webp")) return SMOE_IMAGE_WEBP;
    return strcasecmp(dot, ".png") ? SMOE_IMAGE_NONE : SMOE_IMAGE_PNG;
}

smoe_image_kind smoe_decode_kind_in(const uint8_t *bytes, size_t size) {
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff},
                         png[] = {0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a};
    if (smoe_decode_is_webp(bytes, size)) return SMOE_IMAGE_WEBP;
    if (size >= sizeof jpeg && !memcmp(bytes, jpeg, sizeof jpeg)) return SMOE_IMAGE_JPEG;
    return size >= sizeof png && !memcmp(bytes, png, sizeof png) ? SMOE_IMAGE_PNG : SMOE_IMAGE_NONE;
}

/*
 * Copies a JPEG without two faults of which libjpeg warns although no pixel depends on them: bytes
 * before the first scan that belong to no segment, and a revision of JFIF other than 1. Returns the
 * size of the copy; with `to` NULL nothing is copied. *faults counts what was left out or changed.
 * From the first scan on nothing is changed, because surplus bytes there mean that a scan is
 * damaged.
 */
static size_t mend_jpeg(uint8_t *to, const uint8_t *bytes, size_t size, size_t *faults) {
    enum { ESCAPED = 0x00, ALONE = 0x01, SCAN = 0xda, APP0 = 0xe0, JFIF_LENGTH = 16, MAJOR = 9 };
    size_t at = 2, used = 2; /* the start of the image is there */
    if (to) memcpy(to, bytes, 2);
    *faults = 0;
    while (at + 4 <= size) {
        const uint8_t *p = bytes + at;
        if (p[0] != 0xff || p[1] == ESCAPED || p[1] == 0xff) {
            *faults += p[0] != 0xff || p[1] == ESCAPED; /* 0xff again fills up, and may */
            at += p[0] == 0xff && p[1] == ESCAPED ? 2 : 1;
            continue;
        }
        size_t length = (size_t)p[2] << 8 | p[3];
        bool alone = p[1] == ALONE || (p[1] >= 0xd0 && p[1] <= 0xd9); /* has no length */
        if (alone || p[1] == SCAN || length < 2 || length + 2 > size - at) break;
        bool revised =
            p[1] == APP0 && length >= JFIF_LENGTH && !memcmp(p + 4, "JFIF", 5) && p[MAJOR] != 1;
        if (to) memcpy(to + used, p, length + 2);
        if (to && revised) to[used + MAJOR] = 1;
        *faults += revised;
        used += length + 2;
        at += length + 2;
    }
    if (to) memcpy(to + used, bytes + at, size - at);
    return used + (size - at);
}

/* The bytes of a JPEG or, if they have such faults, a corrected copy, *own, which the caller frees.
 * NULL when out of memory. */
static const uint8_t *sound_jpeg(const uint8_t *bytes, size_t *size, uint8_t **own, smoe_err *err) {
    size_t faults, n = mend_jpeg(NULL, bytes, *size, &faults);
    *own = NULL;
    if (!faults) return bytes;
    *own = malloc(n);
    if (!*own) {
        smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu bytes", n);
        return NULL;
    }
    *size = mend_jpeg(*own, bytes, *size, &faults);
    return *own;
}

static int jpeg_header(smoe_image_header *header, const uint8_t *bytes, size_t size,
                       smoe_err *err) {
    int width = 0, height = 0, sampling = 0, space = 0;
    tjhandle tj = tjInitDecompress();
    if (!tj) return smoe_fail(err, SMOE_RUNTIME, "cannot start the JPEG decoder");
    int failed = tjDecompressHeader3(tj, bytes, size, &width, &height, &sampling, &space);
    if (failed) smoe_fail(err, SMOE_DATA, "damaged JPEG header: %s", tjGetErrorStr2(tj));
    if (!failed &&
        (width < 1 || height < 1)) { /* libturbojpeg takes a lack of a frame for tables alone */
        failed = 1;
        smoe_fail(err, SMOE_DATA, "damaged JPEG header: no frame in %zu bytes", size);
    }
    tjDestroy(tj);
    header->mode = space == TJCS_CMYK || space == TJCS_YCCK ? SMOE_MODE_INKS
                   : space == TJCS_GRAY                     ? SMOE_MODE_GREY
                                                            : SMOE_MODE_COLOUR;
    header->width = (size_t)width;
    header->height = (size_t)height;
    return failed ? -1 : 0;
}

int smoe_decode_header(smoe_image_header *header, smoe_image_kind promised, const uint8_t *bytes,
                       size_t size, smoe_err *err) {
    static const char *const name[] = {"no image", "a JPEG image", "a PNG image", "a WebP image"};
    *header = (smoe_image_header){.kind = smoe_decode_kind_in(bytes, size)};
    if (!size) return smoe_fail(err, SMOE_DATA, "an empty file");
    if (header->kind == SMOE_IMAGE_NONE)
        return smoe_fail(err, SMOE_DATA, "unknown format: neither a JPEG, a PNG nor a WebP image");
    if (promised != header->kind)
        return smoe_fail(err, SMOE_DATA, "mislabelled: %s by its name, %s by its content",
                         name[promised], name[header->kind]);
    uint8_t *own = NULL;
    int status = -1;
    if (header->kind == SMOE_IMAGE_PNG)
        status = smoe_decode_png_header(&header->width, &header->height, &header->mode,
                                        &header->deep, bytes, size, err);
    else if (header->kind == SMOE_IMAGE_WEBP)
        status = smoe_decode_webp_header(&header->width, &header->height, &header->mode, bytes,
                                         size, err);
    else if ((bytes = sound_jpeg(bytes, &size, &own, err)))
        status = jpeg_header(header, bytes, size, err);
    free(own);
    if (status) return -1;
    if (!header->width || !header->height || header->width > SMOE_MOST_PIXELS / header->height)
        return smoe_fail(err, SMOE_DATA, "claims %zu x %zu pixels, at most %d are accepted",
                         header->width, header->height, SMOE_MOST_PIXELS);
    return 0;
}

/* CMYK to RGB, in place. JPEG files follow Adobe in storing inverted values: what each ink lets
 * through, so that red = cyan * black. */
static void inks_to_colour(smoe_image *image) {
    size_t pixels = image->width * image->height;
    for (size_t i = 0; i < pixels; i++) {
        const uint8_t *ink = image->pixel + 4 * i;
        unsigned black = ink[3];
        for (size_t k = 0; k < 3; k++)
            image->pixel[3 * i + k] = (uint8_t)((ink[k] * black + 127) / 255);
    }
    image->channels = 3;
}

/* Warnings that are left are failures (a truncated scan is one), and scans are limited: a file of a
 * few kilobytes can claim enough of them to keep a decoder busy for minutes. */
static int decode_jpeg(smoe_image *image, const smoe_image_header *header, size_t channels,
                       size_t shrink, const uint8_t *bytes, size_t size, smoe_err *err) {
    size_t width = (header->width + shrink - 1) / shrink;
    size_t height = (header->height + shrink - 1) / shrink;
    bool inks = header->mode == SMOE_MODE_INKS;
    int format = inks ? TJPF_CMYK : channels == 1 ? TJPF_GRAY : TJPF_RGB;
    if (smoe_image_shape(image, width, height, inks ? 4 : channels, err)) return -1;
    tjhandle tj = tjInitDecompress();
    if (!tj) return smoe_fail(err, SMOE_RUNTIME, "cannot start the JPEG decoder");
    int failed = tjDecompress2(tj, bytes, size, image->pixel, (int)width, 0, (int)height, format,
                               TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
    if (failed) smoe_fail(err, SMOE_DATA, "damaged JPEG image: %s", tjGetErrorStr2(tj));
    tjDestroy(tj);
    if (failed || !inks) return failed ? -1 : 0;
    inks_to_colour(image);
    return smoe_image_convert(image, channels, err);
}

int smoe_decode(smoe_image *image, const smoe_image_header *header, size_t channels, size_t shrink,
                const uint8_t *bytes, size_t size, smoe_err *err) {
    if (header->kind == SMOE_IMAGE_PNG)
        return smoe_decode_png_image(image, bytes, size, err)
                   ? -1
                   : smoe_image_convert(image, channels, err);
    if (header->kind == SMOE_IMAGE_WEBP)
        return smoe_decode_webp_image(image, header->width, header->height, bytes, size, err)
                   ? -1
                   : smoe_image_convert(image, channels, err);
    uint8_t *own;
    bytes = sound_jpeg(bytes, &size, &own, err);
    int status = bytes ? decode_jpeg(image, header, channels, shrink, bytes, size, err) : -1;
    free(own);
    return status;
}

int smoe_decode_fit(smoe_image *out, size_t side, size_t channels, smoe_image_kind promised,
                    const uint8_t *bytes, size_t size, smoe_rng *crop, smoe_image *work,
                    smoe_err *err) {
    smoe_image_header header;
    if (smoe_decode_header(&header, promised, bytes, size, err)) return -1;
    smoe_box box = crop ? smoe_box_inception(crop, header.width, header.height)
                        : smoe_box_centre(header.width, header.height);
    double least = box.width < box.height ? box.width : box.height;
    size_t shrink = header.kind == SMOE_IMAGE_JPEG ? 8 : 1;
    while (shrink > 1 && least / (double)shrink < (double)side) shrink /= 2;
    if (smoe_decode(work, &header, channels, shrink, bytes, size, err)) return -1;
    /* A pixel of the smaller image is `shrink` of the file's, the last of a row and column too,
     * even where part of it is padding. */
    double scale = 1 / (double)shrink;
    box = (smoe_box){box.x * scale, box.y * scale, box.width * scale, box.height * scale};
    return smoe_image_resize(out, side, work, box, err);
}
