/* Image files in memory to pixels, see decode.h. */
#include "data/decode.h"

#include <png.h>
#include <string.h>
#include <strings.h>
#include <turbojpeg.h>

smoe_image_kind smoe_image_kind_of(const char *name) {
    const char *dot = strrchr(name, '.');
    if (!dot) return SMOE_IMAGE_NONE;
    if (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")) return SMOE_IMAGE_JPEG;
    return strcasecmp(dot, ".png") ? SMOE_IMAGE_NONE : SMOE_IMAGE_PNG;
}

static smoe_image_kind kind_of_bytes(const uint8_t *bytes, size_t size) {
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff},
                         png[] = {0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a};
    if (size >= sizeof jpeg && !memcmp(bytes, jpeg, sizeof jpeg)) return SMOE_IMAGE_JPEG;
    return size >= sizeof png && !memcmp(bytes, png, sizeof png) ? SMOE_IMAGE_PNG : SMOE_IMAGE_NONE;
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
    header->inks = !failed && (space == TJCS_CMYK || space == TJCS_YCCK);
    header->width = (size_t)width;
    header->height = (size_t)height;
    return failed ? -1 : 0;
}

static int png_header(smoe_image_header *header, const uint8_t *bytes, size_t size, smoe_err *err) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    bool good = png_image_begin_read_from_memory(&png, bytes, size) && !png.warning_or_error;
    if (!good) smoe_fail(err, SMOE_DATA, "damaged PNG header: %s", png.message);
    header->width = png.width;
    header->height = png.height;
    png_image_free(&png);
    return good ? 0 : -1;
}

int smoe_decode_header(smoe_image_header *header, smoe_image_kind promised, const uint8_t *bytes,
                       size_t size, smoe_err *err) {
    static const char *const name[] = {"no image", "a JPEG image", "a PNG image"};
    *header = (smoe_image_header){.kind = kind_of_bytes(bytes, size)};
    if (!size) return smoe_fail(err, SMOE_DATA, "an empty file");
    if (header->kind == SMOE_IMAGE_NONE)
        return smoe_fail(err, SMOE_DATA, "foreign file: neither a JPEG nor a PNG image");
    if (promised != header->kind)
        return smoe_fail(err, SMOE_DATA, "mislabelled: %s by its name, %s by its content",
                         name[promised], name[header->kind]);
    int status = header->kind == SMOE_IMAGE_JPEG ? jpeg_header(header, bytes, size, err)
                                                 : png_header(header, bytes, size, err);
    if (status) return -1;
    if (!header->width || !header->height || header->width > SMOE_MOST_PIXELS / header->height)
        return smoe_fail(err, SMOE_DATA, "claims %zu x %zu pixels, at most %d are accepted",
                         header->width, header->height, SMOE_MOST_PIXELS);
    return 0;
}

/* Four inks to colour, in place. JPEG files hold, as Adobe began it, what each ink lets through: of red
 * the light that cyan and black do. */
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

/* Warnings are failures (a truncated scan is one), and scans are limited: a file of a few kilobytes
 * can claim enough of them to keep a decoder busy for minutes. */
static int decode_jpeg(smoe_image *image, const smoe_image_header *header, size_t channels,
                       size_t shrink, const uint8_t *bytes, size_t size, smoe_err *err) {
    size_t width = (header->width + shrink - 1) / shrink;
    size_t height = (header->height + shrink - 1) / shrink;
    int format = header->inks ? TJPF_CMYK : channels == 1 ? TJPF_GRAY : TJPF_RGB;
    if (smoe_image_shape(image, width, height, header->inks ? 4 : channels, err)) return -1;
    tjhandle tj = tjInitDecompress();
    if (!tj) return smoe_fail(err, SMOE_RUNTIME, "cannot start the JPEG decoder");
    int failed = tjDecompress2(tj, bytes, size, image->pixel, (int)width, 0, (int)height, format,
                               TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
    if (failed) smoe_fail(err, SMOE_DATA, "damaged JPEG image: %s", tjGetErrorStr2(tj));
    tjDestroy(tj);
    if (failed || !header->inks) return failed ? -1 : 0;
    inks_to_colour(image);
    return smoe_image_convert(image, channels, err);
}

static int decode_png(smoe_image *image, size_t channels, const uint8_t *bytes, size_t size,
                      smoe_err *err) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    const png_color black = {0, 0, 0};
    bool good = png_image_begin_read_from_memory(&png, bytes, size);
    if (good) {
        size_t found = png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
        png.format = found == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
        png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* else 16-bit samples count as linear light */
        if (smoe_image_shape(image, png.width, png.height, found, err)) {
            png_image_free(&png);
            return -1;
        }
        good = png_image_finish_read(&png, &black, image->pixel, 0, NULL) && !png.warning_or_error;
    }
    if (!good) smoe_fail(err, SMOE_DATA, "damaged PNG image: %s", png.message);
    png_image_free(&png);
    return good ? smoe_image_convert(image, channels, err) : -1;
}

int smoe_decode(smoe_image *image, const smoe_image_header *header, size_t channels, size_t shrink,
                const uint8_t *bytes, size_t size, smoe_err *err) {
    return header->kind == SMOE_IMAGE_JPEG
               ? decode_jpeg(image, header, channels, shrink, bytes, size, err)
               : decode_png(image, channels, bytes, size, err);
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
    /* A pixel of the smaller image is `shrink` of the file's, the last of a row and column too, even
     * where part of it is padding. */
    double scale = 1 / (double)shrink;
    box = (smoe_box){box.x * scale, box.y * scale, box.width * scale, box.height * scale};
    return smoe_image_resize(out, side, work, box, err);
}
