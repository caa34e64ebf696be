/*
 * PNG files by libpng, see decode.h. Samples are taken as they are stored: gamma,
 * chromaticities and colour profiles are ignored. Of 16-bit samples the upper 8 bits count;
 * transparency, of a channel or of one colour, is laid over black in the same values: sample *
 * alpha / 255, rounded.
 *
 * Warnings of libpng that concern pixels or their transparency are failures; those about anything
 * else, such as a bad time or text, are ignored.
 */
#include "data/decode.h"

#include <png.h>
#include <setjmp.h>

typedef struct reader {
    png_structp png;
    png_infop info;
    const uint8_t *at; /* what is not read yet */
    size_t left;
    smoe_image *image; /* for read_pixels */
    bool damaged;      /* by a warning; errors jump */
    char why[128];
} reader;

static void read_bytes(png_structp png, png_bytep to, size_t n) {
    reader *r = png_get_io_ptr(png);
    if (n > r->left) png_error(png, "the file ends early");
    memcpy(to, r->at, n);
    r->at += n;
    r->left -= n;
}

static void keep_message(reader *r, const char *message) {
    if (!r->why[0]) snprintf(r->why, sizeof r->why, "%s", message);
}

static _Noreturn void on_error(png_structp png, png_const_charp message) {
    keep_message(png_get_error_ptr(png), message);
    png_longjmp(png, 1);
}

/* Messages of libpng begin with the name of the chunk. Data after the last row is harmless, and
 * tRNS is ignored if the image has an alpha channel. */
static bool concerns_pixels(const reader *r, const char *message) {
    if (!strncmp(message, "tRNS", 4))
        return !(png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_ALPHA);
    return !strncmp(message, "IDAT", 4) && !strstr(message, "Too m") && !strstr(message, "Extra");
}

static void on_warning(png_structp png, png_const_charp message) {
    reader *r = png_get_error_ptr(png);
    if (!r->info || !concerns_pixels(r, message)) return;
    r->damaged = true;
    keep_message(r, message);
}

/* reader_close must be called after a failure too. */
static int reader_open(reader *r, const uint8_t *bytes, size_t size, smoe_err *err) {
    *r = (reader){.at = bytes, .left = size};
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
    if (r->png) r->info = png_create_info_struct(r->png);
    return r->info ? 0 : smoe_fail(err, SMOE_RUNTIME, "cannot start the PNG decoder");
}

static void reader_close(reader *r) {
    if (r->png) png_destroy_read_struct(&r->png, &r->info, NULL);
}

/* Reads up to the pixels. Of the chunks before them only the palette and tRNS matter. */
static void png_read_header(reader *r) {
    png_set_read_fn(r->png, r, read_bytes);
    png_set_benign_errors(r->png, 1); /* such are warnings */
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(r->png, r->info);
}

/* To 8 bits, palettes to colours, tRNS to a channel. */
static void set_form(reader *r) {
    png_set_expand(r->png);
    png_set_strip_16(r->png);
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
}

static void read_pixels(reader *r) {
    size_t row = r->image->width * r->image->channels;
    int passes = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_NONE
                     ? 1
                     : PNG_INTERLACE_ADAM7_PASSES;
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < r->image->height; y++)
            png_read_row(r->png, r->image->pixel + y * row, NULL);
}

/* Runs the part that libpng may leave by longjmp: no local variable changes between setjmp and
 * here. */
static int guard(reader *r, void (*read)(reader *), const char *what, smoe_err *err) {
    if (!setjmp(png_jmpbuf(r->png))) {
        read(r);
        if (!r->damaged) return 0;
    }
    return smoe_fail(err, SMOE_DATA, "damaged PNG %s: %s", what, r->why);
}

static smoe_image_mode png_mode_of(png_byte colour) {
    switch (colour) {
    case PNG_COLOR_TYPE_GRAY: return SMOE_MODE_GREY;
    case PNG_COLOR_TYPE_GRAY_ALPHA: return SMOE_MODE_GREY_ALPHA;
    case PNG_COLOR_TYPE_RGB_ALPHA: return SMOE_MODE_COLOUR_ALPHA;
    case PNG_COLOR_TYPE_PALETTE: return SMOE_MODE_PALETTE;
    default: return SMOE_MODE_COLOUR;
    }
}

static int read_png_header(smoe_image_header *header, const uint8_t *bytes, size_t size,
                           smoe_err *err) {
    SMOE_FREED_BY(reader_close) reader r;
    if (reader_open(&r, bytes, size, err) || guard(&r, png_read_header, "header", err)) return -1;
    header->width = png_get_image_width(r.png, r.info);
    header->height = png_get_image_height(r.png, r.info);
    header->mode = png_mode_of(png_get_color_type(r.png, r.info));
    header->deep = png_get_bit_depth(r.png, r.info) == 16;
    return 0;
}

static int read_png_image(smoe_image *image, const smoe_image_file *file, size_t channels,
                          size_t shrink, smoe_err *err) {
    SMOE_FREED_BY(reader_close) reader r;
    (void)channels, (void)shrink;
    if (reader_open(&r, file->bytes, file->size, err) ||
        guard(&r, png_read_header, "header", err) || guard(&r, set_form, "header", err) ||
        smoe_image_shape(image, png_get_image_width(r.png, r.info),
                         png_get_image_height(r.png, r.info), png_get_channels(r.png, r.info), err))
        return -1;
    r.image = image;
    int status = guard(&r, read_pixels, "image", err);
    if (!status && image->channels % 2 == 0) smoe_image_over_black(image);
    return status;
}

static bool is_png(const uint8_t *bytes, size_t size) {
    return size >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8);
}

const smoe_decode_format smoe_decode_png = {is_png, read_png_header, read_png_image};
