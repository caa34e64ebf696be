/*
 * JPEG files by libturbojpeg, see decode.h. Every warning is a failure, except about two faults
 * that change no pixel; the EXIF data have the orientation.
 */
#include "data/decode.h"

#include <turbojpeg.h>

static bool is_jpeg(const uint8_t *bytes, size_t size) {
    return size >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3);
}

/*
 * Copies a JPEG without two faults about which libjpeg warns although they change no pixel: bytes
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

/* The bytes of a JPEG or, if they have such faults, a corrected copy, *own. */
static const uint8_t *sound_jpeg(const uint8_t *bytes, size_t *size, uint8_t **own) {
    size_t faults, n = mend_jpeg(NULL, bytes, *size, &faults);
    if (!faults) return bytes;
    *own = smoe_alloc(n, 1);
    *size = mend_jpeg(*own, bytes, *size, &faults);
    return *own;
}

/* EXIF's tag Orientation, from 1 (as stored) to 8, of an APP1 segment of `size` bytes; 1 if it has
 * none. EXIF data are a TIFF file, whose first directory has the tag, as a short or a long; as in
 * Pillow, another type turns nothing. */
static unsigned orientation_in(const uint8_t *exif, size_t size) {
    enum { MARK = 6, HEADER = 8, ENTRY = 12, ORIENTATION = 0x0112, SHORT = 3, LONG = 4 };
    if (size < MARK + HEADER || memcmp(exif, "Exif\0", MARK)) return 1;
    const uint8_t *tiff = exif + MARK;
    bool little = tiff[0] == 'I';
    size -= MARK;
#define PAIR(at) (little ? tiff[at] | tiff[(at) + 1] << 8 : tiff[at] << 8 | tiff[(at) + 1])
    size_t first = (size_t)PAIR(little ? 4 : 6) | (size_t)PAIR(little ? 6 : 4) << 16;
    if (first > size || size - first < 2) return 1;
    size_t entries = (size_t)PAIR(first);
    for (size_t i = 0, at = first + 2; i < entries && size - at >= ENTRY; i++, at += ENTRY) {
        if (PAIR(at) != ORIENTATION) continue;
        bool whole = PAIR(at + 2) == LONG, known = whole || PAIR(at + 2) == SHORT;
        unsigned value = (unsigned)PAIR(at + (whole && !little ? 10 : 8));
        return known && value >= 1 && value <= 8 ? value : 1;
    }
#undef PAIR
    return 1;
}

/* The orientation that a segment before the first scan states; 1 if none does. */
static unsigned orientation_of(const uint8_t *bytes, size_t size) {
    enum { SCAN = 0xda, APP1 = 0xe1 };
    for (size_t at = 2; at + 4 <= size && bytes[at] == 0xff && bytes[at + 1] != SCAN;) {
        if (bytes[at + 1] == 0xff) { /* fills up */
            at++;
            continue;
        }
        size_t length = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (length < 2 || length + 2 > size - at) return 1;
        unsigned orientation =
            bytes[at + 1] == APP1 ? orientation_in(bytes + at + 4, length - 2) : 1;
        if (orientation > 1) return orientation;
        at += length + 2;
    }
    return 1;
}

static int jpeg_header(smoe_image_header *header, const uint8_t *bytes, size_t size,
                       smoe_err *err) {
    SMOE_FREED uint8_t *own = NULL;
    int width = 0, height = 0, sampling = 0, space = 0;
    bytes = sound_jpeg(bytes, &size, &own);
    tjhandle tj = tjInitDecompress();
    if (!tj) return smoe_fail(err, SMOE_RUNTIME, "cannot start the JPEG decoder");
    int failed = tjDecompressHeader3(tj, bytes, size, &width, &height, &sampling, &space);
    if (failed) smoe_fail(err, SMOE_DATA, "damaged JPEG header: %s", tjGetErrorStr2(tj));
    if (!failed && (width < 1 || height < 1)) { /* a file without a frame counts as tables alone */
        failed = 1;
        smoe_fail(err, SMOE_DATA, "damaged JPEG header: no frame in %zu bytes", size);
    }
    tjDestroy(tj);
    header->mode = space == TJCS_CMYK || space == TJCS_YCCK ? SMOE_MODE_INKS
                   : space == TJCS_GRAY                     ? SMOE_MODE_GREY
                                                            : SMOE_MODE_COLOUR;
    header->width = (size_t)width;
    header->height = (size_t)height;
    header->orientation = orientation_of(bytes, size);
    return failed ? -1 : 0;
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

/* All other warnings are failures, as about a truncated scan. The number of scans is limited: a
 * file of a few kilobytes can claim enough of them to keep a decoder busy for minutes. */
static int jpeg_image(smoe_image *image, const smoe_image_file *file, size_t channels,
                      size_t shrink, smoe_err *err) {
    SMOE_FREED uint8_t *own = NULL;
    const smoe_image_header *header = file->header;
    size_t size = file->size;
    size_t width = (header->width + shrink - 1) / shrink;
    size_t height = (header->height + shrink - 1) / shrink;
    bool inks = header->mode == SMOE_MODE_INKS;
    int format = inks ? TJPF_CMYK : channels == 1 ? TJPF_GRAY : TJPF_RGB;
    if (smoe_image_shape(image, width, height, inks ? 4 : channels, err)) return -1;
    const uint8_t *bytes = sound_jpeg(file->bytes, &size, &own);
    tjhandle tj = tjInitDecompress();
    if (!tj) return smoe_fail(err, SMOE_RUNTIME, "cannot start the JPEG decoder");
    int failed = tjDecompress2(tj, bytes, size, image->pixel, (int)width, 0, (int)height, format,
                               TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
    if (failed) smoe_fail(err, SMOE_DATA, "damaged JPEG image: %s", tjGetErrorStr2(tj));
    tjDestroy(tj);
    if (!failed && inks) inks_to_colour(image);
    return failed ? -1 : 0;
}

const smoe_decode_format smoe_decode_jpeg = {is_jpeg, jpeg_header, jpeg_image};
