/* Resizing, boxes, channel conversion and decoding against numbers worked by hand and against the
 * format libraries used directly. */
#include "data/decode.h"
#include "datafiles.h"
#include "unit.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <zlib.h>

static smoe_image image_of(const uint8_t *pixel, size_t width, size_t height, size_t channels) {
    smoe_image image = {0};
    assert_int_equal(smoe_image_shape(&image, width, height, channels, NULL), 0);
    memcpy(image.pixel, pixel, width * height * channels);
    return image;
}

/* ---- resizing -------------------------------------------------------------------------------- */

/* Halving: the filter is 2 pixels wide on either side. The centre of output 0 is at 0.5: inputs
 * 0, 1, 2 weigh .75, .75, .25 of 1.75 (the fourth lies outside), so (3*0 + 3*70 + 140)/7 = 50;
 * output 1 by symmetry (70 + 3*140 + 3*210)/7 = 160. All rows are equal, hence those of the
 * result too. */
static void test_halved(void **state) {
    uint8_t row[4] = {0, 70, 140, 210}, pixel[16];
    for (int i = 0; i < 16; i++) pixel[i] = row[i % 4];
    smoe_image in = image_of(pixel, 4, 4, 1), out = {0};
    assert_int_equal(smoe_image_fit(&out, 2, &in, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_memory_equal(out.pixel, ((uint8_t[]){50, 160, 50, 160}), 4);
    for (int i = 0; i < 16; i++) in.pixel[i] = row[i / 4];
    assert_int_equal(smoe_image_fit(&out, 2, &in, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_memory_equal(out.pixel, ((uint8_t[]){50, 50, 160, 160}), 4);
    smoe_image_free(&in);
    smoe_image_free(&out);
}

/* Doubling: centres at -.25, .25, .75, 1.25 of two pixels 0 and 100; beyond the edge only the
 * nearest pixel counts. */
static void test_doubled(void **state) {
    smoe_image in = image_of((uint8_t[]){0, 100, 0, 100}, 2, 2, 1), out = {0};
    assert_int_equal(smoe_image_fit(&out, 4, &in, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    for (int y = 0; y < 4; y++)
        assert_memory_equal(out.pixel + 4 * y, ((uint8_t[]){0, 25, 75, 100}), 4);
    smoe_image_free(&in);
    smoe_image_free(&out);
}

/* Against numbers of Pillow: the shorter side resized to side / share, and the centre cut out.
 * Pillow rounds to bytes between columns and rows: up to 1 off. */
static void test_as_pillow(void **state) {
    static const struct {
        size_t width, height, side;
        double share;
        smoe_resize filter;
        uint8_t want[49];
        bool squash;
    } rows[] = {
        {21,
         11,
         6,
         0.8,
         SMOE_RESIZE_BICUBIC,
         {83,  141, 115, 111, 140, 91,  157, 143, 144, 121, 142, 133, 115, 141, 127, 120, 154, 144,
          118, 144, 140, 127, 157, 138, 135, 173, 166, 146, 178, 169, 163, 108, 122, 153, 101, 118},
         .squash = true},
        {23, 17, 6, 0.8, SMOE_RESIZE_BICUBIC, {138, 109, 139, 121, 112, 138, 129, 136, 121,
                                               150, 145, 100, 147, 151, 127, 178, 148, 141,
                                               134, 132, 152, 110, 141, 138, 118, 110, 125,
                                               92,  139, 142, 117, 133, 116, 126, 131, 120}},
        {9, 14, 5, 0.9, SMOE_RESIZE_BILINEAR, {130, 143, 144, 136, 127, 119, 125, 152, 125,
                                               148, 135, 140, 165, 153, 157, 145, 145, 99,
                                               130, 102, 134, 116, 106, 117, 128}},
        {5, 4, 7, 0.95, SMOE_RESIZE_BICUBIC, {0,   5,   31,  53,  76,  98,  136, 23,  38,  67,
                                              99,  131, 155, 129, 80,  100, 136, 172, 214, 243,
                                              119, 148, 179, 207, 143, 133, 178, 138, 172, 212,
                                              237, 102, 55,  113, 156, 65,  100, 145, 129, 150,
                                              201, 146, 0,   29,  87,  148, 213, 255, 139}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t pixel[23 * 17];
        size_t w = rows[i].width, h = rows[i].height, side = rows[i].side;
        for (size_t k = 0; k < w * h; k++)
            pixel[k] = (uint8_t)(37 * (k % w) + 91 * (k / w) + 13 * (k % w) * (k / w));
        smoe_image in = image_of(pixel, w, h, 1), out = {0};
        smoe_box box = smoe_box_share(w, h, side, rows[i].share, rows[i].squash);
        assert_int_equal(smoe_image_resize(&out, side, &in, box, rows[i].filter, NULL), 0);
        for (size_t k = 0; k < side * side; k++)
            if (abs(out.pixel[k] - rows[i].want[k]) > 1)
                fail_msg("row %zu: pixel %zu is %d, not %d", i, k, out.pixel[k], rows[i].want[k]);
        smoe_image_free(&in);
        smoe_image_free(&out);
    }
    const smoe_box all = smoe_box_share(7, 4, 2, 1, false), centre = smoe_box_centre(7, 4);
    assert_memory_equal(&all, &centre, sizeof all);
}

/* 6 x 2 to 2: the central square is columns 2 and 3, copied; both orders of channels are kept. */
static void test_centre_is_copied(void **state) {
    uint8_t pixel[6 * 2 * 3];
    for (int i = 0; i < 36; i++) pixel[i] = (uint8_t)(i * 7);
    smoe_image in = image_of(pixel, 6, 2, 3), out = {0};
    assert_int_equal(smoe_image_fit(&out, 2, &in, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_memory_equal(out.pixel, pixel + 6, 6);
    assert_memory_equal(out.pixel + 6, pixel + 24, 6);
    smoe_image_free(&in);
    smoe_image_free(&out);
}

/* Pixels beside the box contribute, as if the whole image had been resized before it was
 * cropped: 4 x 2 to 1. Box columns 1..2, centre 1.5, filter 2 wide: columns 0..3 weigh .25, .75,
 * .75, .25 of 2; rows .75 of 1.5. */
static void test_neighbours_take_part(void **state) {
    smoe_image in = image_of((uint8_t[]){80, 0, 0, 0, 80, 0, 0, 0}, 4, 2, 1), out = {0};
    assert_int_equal(smoe_image_fit(&out, 1, &in, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_int_equal(out.pixel[0], 10);
    smoe_image_free(&in);
    smoe_image_free(&out);
}

/* A constant image stays constant, whatever the sizes and the box: the weights sum to 1. */
static void test_constant_stays(void **state) {
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
    smoe_image in = {0}, out = {0};
    for (int trial = 0; trial < 200; trial++) {
        size_t w = 1 + smoe_rng_below(&rng, 90), h = 1 + smoe_rng_below(&rng, 90);
        size_t size = 1 + smoe_rng_below(&rng, 50);
        int value = (int)smoe_rng_below(&rng, 256);
        assert_int_equal(smoe_image_shape(&in, w, h, 3, NULL), 0);
        memset(in.pixel, value, w * h * 3);
        assert_int_equal(
            smoe_image_fit(&out, size, &in, trial % 2 ? &rng : NULL, SMOE_RESIZE_BILINEAR, NULL),
            0);
        for (size_t i = 0; i < size * size * 3; i++) assert_int_equal(out.pixel[i], value);
    }
    smoe_image_free(&in);
    smoe_image_free(&out);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static void test_inception_box(void **state) {
    smoe_rng rng = smoe_rng_at(2, SMOE_RNG_TEST, 0, 0, 0);
    double area = 0, least = 1, most = 0;
    enum { TRIALS = 4000 };
    for (int i = 0; i < TRIALS; i++) {
        smoe_box b = smoe_box_inception(&rng, 500, 500);
        double share = b.width * b.height / (500.0 * 500), ratio = b.width / b.height;
        assert_true(b.x >= 0 && b.y >= 0 && b.x + b.width <= 500 && b.y + b.height <= 500);
        assert_true(ratio > .74 && ratio < 1.35); /* 3/4 .. 4/3 and rounding to pixels */
        area += share / TRIALS;
        least = share < least ? share : least;
        most = share > most ? share : most;
    }
    assert_true(least > .049 && least < .07); /* 5% is the limit; some draws are close to it */
    assert_true(most > .95);
    /* Area a, uniform in .05 .. 1, fits a square when |log ratio| <= -log a: always up to 3/4,
     * then with probability -ln(a) / ln(4/3). The mean of the areas that fit is .3789 / .8190 =
     * .4627; one standard deviation of the mean of 4000 is .004. */
    assert_true(fabs(area - .4627) < .016);
    /* An image too narrow for any box gives the central square. */
    smoe_box b = smoe_box_inception(&rng, 1, 1000);
    assert_true(b.width == b.height && b.width == 1);
    b = smoe_box_centre(7, 4); /* if the rest is odd, the larger part is on the right, or below */
    assert_true(b.x == 1 && b.y == 0 && b.width == 4 && b.height == 4);
    b = smoe_box_centre(4, 9);
    assert_true(b.x == 0 && b.y == 2 && b.width == 4 && b.height == 4);
}

/* ---- channels -------------------------------------------------------------------------------- */

static void test_channels(void **state) {
    /* .299 R + .587 G + .114 B: 76.245, 149.685, 29.07, 255 and 0 */
    uint8_t colour[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0};
    smoe_image image = image_of(colour, 5, 1, 3);
    assert_int_equal(smoe_image_convert(&image, 1, NULL), 0);
    assert_memory_equal(image.pixel, ((uint8_t[]){76, 150, 29, 255, 0}), 5);
    assert_int_equal(smoe_image_convert(&image, 3, NULL), 0);
    assert_memory_equal(image.pixel, ((uint8_t[]){76, 76, 76, 150, 150, 150}), 6);
    smoe_image_free(&image);
}

/* ---- decoding -------------------------------------------------------------------------------- */

static void decode(smoe_image *image, const uint8_t *bytes, size_t size, smoe_image_kind kind,
                   size_t channels, size_t shrink) {
    smoe_image_header header;
    smoe_err err = {0};
    if (smoe_decode_header(&header, bytes, size, &err) ||
        smoe_decode(image, &(smoe_image_file){&header, bytes, size}, channels, shrink, &err))
        fail_msg("%s", err.text);
    assert_int_equal(header.kind, kind);
}

static void refused(const uint8_t *bytes, size_t size, const char *word) {
    smoe_image_header header;
    smoe_image image = {0};
    smoe_err err = {0};
    int status = smoe_decode_header(&header, bytes, size, &err);
    if (!status) status = smoe_decode(&image, &(smoe_image_file){&header, bytes, size}, 3, 1, &err);
    smoe_image_free(&image);
    assert_int_equal(status, -1);
    assert_int_equal(err.code, SMOE_DATA);
    if (!strstr(err.text, word)) fail_msg("no '%s' in: %s", word, err.text);
}

static void test_png_exact(void **state) {
    uint8_t pixel[13 * 9 * 3];
    for (size_t channels = 1; channels <= 3; channels += 2) {
        size_t size;
        datafiles_picture(pixel, 13, 9, channels, 4);
        uint8_t *png = datafiles_png(pixel, 13, 9, channels, &size);
        smoe_image image = {0};
        decode(&image, png, size, SMOE_IMAGE_PNG, channels, 1);
        assert_int_equal(image.width, 13);
        assert_int_equal(image.height, 9);
        assert_memory_equal(image.pixel, pixel, 13 * 9 * channels);
        decode(&image, png, size, SMOE_IMAGE_PNG, 4 - channels,
               1); /* the other number of channels */
        for (size_t i = 0; i < 13 * 9; i++) {
            const uint8_t *p = pixel + i * channels;
            if (channels == 1)
                for (size_t c = 0; c < 3; c++) assert_int_equal(image.pixel[3 * i + c], p[0]);
            else
                assert_int_equal(image.pixel[i], smoe_image_luma(p[0], p[1], p[2]));
        }
        smoe_image_free(&image);
        free(png);
    }
}

/* Full transparency shows the black below, no transparency the colour, half of it half of the
 * stored value: 200 * 128 / 255 = 100.4, 100 * 128 / 255 = 50.2, 50 * 128 / 255 = 25.1. */
static void test_png_alpha(void **state) {
    uint8_t pixel[] = {200, 100, 50, 255, 200, 100, 50, 0, 200, 100, 50, 128};
    size_t size;
    uint8_t *png = datafiles_png(pixel, 3, 1, 4, &size);
    smoe_image image = {0};
    decode(&image, png, size, SMOE_IMAGE_PNG, 3, 1);
    assert_memory_equal(image.pixel, ((uint8_t[]){200, 100, 50, 0, 0, 0, 100, 50, 25}), 9);
    smoe_image_free(&image);
    free(png);
}

/* Every sample with every alpha, as Pillow pastes an image onto black: with t = sample alpha + 128,
 * (t + t/256)/256. */
static void test_alpha_as_pillow(void **state) {
    enum { ALL = 256 };
    uint8_t *pixel = malloc(2 * ALL * ALL);
    for (size_t i = 0; i < (size_t)ALL * ALL; i++) {
        pixel[2 * i] = (uint8_t)(i % ALL);
        pixel[2 * i + 1] = (uint8_t)(i / ALL);
    }
    smoe_image image = {ALL, ALL, 2, pixel, 0};
    smoe_image_over_black(&image);
    assert_int_equal(image.channels, 1);
    for (size_t i = 0; i < (size_t)ALL * ALL; i++) {
        size_t t = i % ALL * (i / ALL) + 128;
        assert_int_equal(pixel[i], (t + (t >> 8)) >> 8);
    }
    free(pixel);
}

typedef struct memory {
    uint8_t bytes[4096];
    size_t size;
} memory;

static void append(png_structp png, png_bytep data, size_t n) {
    memory *m = png_get_io_ptr(png);
    assert_true(m->size + n <= sizeof m->bytes);
    memcpy(m->bytes + m->size, data, n);
    m->size += n;
}

static void flush_nothing(png_structp png) {
    (void)png;
}

/* A grey PNG by libpng's ordinary interface. */
static memory write_png(const uint8_t *row, png_uint_32 width, png_uint_32 height, int bits,
                        int interlace) {
    memory m = {.size = 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &m, append, flush_nothing);
    png_set_IHDR(png, info, width, height, bits, PNG_COLOR_TYPE_GRAY, interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int pass = png_set_interlace_handling(png); pass > 0; pass--)
        for (size_t y = 0; y < height; y++) png_write_row(png, row + y * width * (size_t)bits / 8);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return m;
}

/* 16 bits per sample mean the same as 8, not linear light: the upper 8 bits count. */
static void test_png_16_bits(void **state) {
    memory m =
        write_png((uint8_t[]){0, 255, 50, 50, 128, 200, 255, 255}, 4, 1, 16, PNG_INTERLACE_NONE);
    smoe_image image = {0};
    decode(&image, m.bytes, m.size, SMOE_IMAGE_PNG, 1, 1);
    assert_memory_equal(image.pixel, ((uint8_t[]){0, 50, 128, 255}), 4);
    smoe_image_free(&image);
}

static void test_png_interlaced(void **state) {
    uint8_t pixel[13 * 9];
    datafiles_picture(pixel, 13, 9, 1, 8);
    memory m = write_png(pixel, 13, 9, 8, PNG_INTERLACE_ADAM7);
    smoe_image image = {0};
    decode(&image, m.bytes, m.size, SMOE_IMAGE_PNG, 1, 1);
    assert_memory_equal(image.pixel, pixel, sizeof pixel);
    smoe_image_free(&image);
}

/* A copy of a PNG with one more chunk, directly after its header. */
static uint8_t *with_chunk(const uint8_t *png, size_t *size, const char *type, const void *data,
                           size_t n) {
    enum { HEADER = 33, FRAME = 12 };
    uint8_t *more = malloc(*size + n + FRAME), *chunk = more + HEADER;
    memcpy(more, png, HEADER);
    memcpy(chunk, (uint8_t[]){0, 0, (uint8_t)(n >> 8), (uint8_t)n}, 4);
    memcpy(chunk + 4, type, 4);
    memcpy(chunk + 8, data, n);
    uLong crc = crc32(0, chunk + 4, (uInt)n + 4);
    for (int b = 0; b < 4; b++) chunk[8 + n + (size_t)b] = (uint8_t)(crc >> (24 - 8 * b));
    memcpy(chunk + n + FRAME, png + HEADER, *size - HEADER);
    *size += n + FRAME;
    return more;
}

/* Chunks about colours, and invalid chunks about anything but pixels, change no pixel. */
static void test_png_as_stored(void **state) {
    static const struct {
        const char *type, *data;
        size_t size;
    } rows[] = {{"gAMA", "\0\1\x86\xa0", 4},      /* linear light */
                {"gAMA", "\0\0\0\0", 4},          /* an impossible value */
                {"sRGB", "\0", 1},                /* in addition to the one that libpng writes */
                {"iCCP", "x\0\0nonsense", 11},    /* whether grey or not */
                {"tIME", "\0\0", 2},              /* too short */
                {"bKGD", "\0\0\0\0\0\0\0", 7},    /* too long */
                {"cHRM", "\0\0\0\0\0\0\0\0", 8}}; /* too short */
    uint8_t pixel[13 * 9 * 4];
    smoe_image image = {0};
    for (size_t channels = 1; channels <= 3; channels += 2)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            size_t size;
            datafiles_picture(pixel, 13, 9, channels, 4);
            uint8_t *png = datafiles_png(pixel, 13, 9, channels, &size);
            uint8_t *more = with_chunk(png, &size, rows[k].type, rows[k].data, rows[k].size);
            decode(&image, more, size, SMOE_IMAGE_PNG, channels, 1);
            assert_memory_equal(image.pixel, pixel, 13 * 9 * channels);
            free(more);
            free(png);
        }
    smoe_image_free(&image);
}

/* One colour is transparent: 7 of 0, 7 and 8. And a chunk that does not say which colour. */
static void test_png_transparent_colour(void **state) {
    size_t size, n;
    uint8_t pixel[] = {0, 7, 8}, *png = datafiles_png(pixel, 3, 1, 1, &size);
    smoe_image image = {0};
    uint8_t *more = with_chunk(png, (n = size, &n), "tRNS", "\0\7", 2);
    decode(&image, more, n, SMOE_IMAGE_PNG, 1, 1);
    assert_memory_equal(image.pixel, ((uint8_t[]){0, 0, 8}), 3);
    free(more);
    more = with_chunk(png, (n = size, &n), "tRNS", "\7", 1);
    refused(more, n, "damaged PNG header: tRNS");
    free(more);
    free(png);
    smoe_image_free(&image);
}

/* A JPEG with EXIF data as cameras write them: a directory with one other tag and the orientation,
 * in one order of bytes or the other. Fresh. */
enum { EXIF_VALUE = 4 + 6 + 8 + 2 + 12 + 8, EXIF_ENTRIES = 4 + 6 + 8, EXIF_SIZE = EXIF_VALUE + 8 };
static uint8_t *with_orientation(const uint8_t *jpeg, size_t *size, bool big, unsigned value) {
    enum { W = 16, SIZE = EXIF_SIZE - 4 };
    static const uint8_t exif[2][EXIF_SIZE] = {
        {0xff, 0xe1, 0, 2 + SIZE, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42,   0,    8, 0, 0, 0, 2, 0,
         0x00, 0x01, 4, 0,        1,   0,   0,   0,   W, 0, 0,   0,   0x12, 0x01, 3, 0, 1, 0, 0, 0},
        {0xff, 0xe1, 0, 2 + SIZE, 'E',  'x',  'i',  'f',  0, 0, 'M', 'M', 0, 42,
         0,    0,    0, 8,        0,    2,    0x01, 0x00, 0, 4, 0,   0,   0, 1,
         0,    0,    0, W,        0x01, 0x12, 0,    3,    0, 0, 0,   1}};
    uint8_t *with = malloc(*size + EXIF_SIZE);
    memcpy(with, jpeg, 2);
    memcpy(with + 2, exif[big], EXIF_SIZE);
    memcpy(with + 2 + EXIF_SIZE, jpeg + 2, *size - 2);
    with[2 + EXIF_VALUE + big] = (uint8_t)value;
    *size += EXIF_SIZE;
    return with;
}

/* Whatever is cut off or wrong means that nothing is to be turned. */
static void test_jpeg_orientation(void **state) {
    enum { W = 16, H = 8 };
    uint8_t pixel[W * H * 3] = {0};
    size_t size, n;
    uint8_t *jpeg = datafiles_jpeg(pixel, W, H, 3, &size);
    for (unsigned big = 0; big < 2; big++)
        for (unsigned value = 0; value <= 9; value++) {
            smoe_image_header header;
            uint8_t *with = with_orientation(jpeg, (n = size, &n), big, value);
            assert_int_equal(smoe_decode_header(&header, with, n, NULL), 0);
            assert_int_equal(header.orientation, value >= 2 && value <= 8 ? value : 1);
            assert_true(header.width == W && header.height == H);
            uint8_t *filled = malloc(n + 2); /* bytes 0xff may stand before any marker */
            memcpy(filled, with, 2);
            memset(filled + 2, 0xff, 2);
            memcpy(filled + 4, with + 2, n - 2);
            assert_int_equal(smoe_decode_header(&header, filled, n + 2, NULL), 0);
            assert_int_equal(header.orientation, value >= 2 && value <= 8 ? value : 1);
            free(filled);
            for (unsigned type = 1; type <= 4; type += 3) { /* a byte turns nothing, a long does */
                with[2 + EXIF_VALUE - 6 + big] = (uint8_t)type;
                memset(with + 2 + EXIF_VALUE, 0, 4);
                with[2 + EXIF_VALUE + (big ? type - 1 : 0)] = (uint8_t)value;
                assert_int_equal(smoe_decode_header(&header, with, n, NULL), 0);
                assert_int_equal(header.orientation,
                                 type == 4 && value >= 2 && value <= 8 ? value : 1);
            }
            with[2 + EXIF_ENTRIES + big] = 1; /* the orientation is beyond the directory */
            assert_int_equal(smoe_decode_header(&header, with, n, NULL), 0);
            assert_int_equal(header.orientation, 1);
            free(with);
        }
    free(jpeg);
}

/* Seen pixel (x, y) of a stored image of w x h, written out for each orientation as EXIF 2.3 has
 * them: 3 is half a turn, 6 and 8 a quarter clockwise and back, 2, 4, 5 and 7 their mirrorings. */
static size_t stored_at(unsigned orientation, size_t x, size_t y, size_t w, size_t h) {
    switch (orientation) {
    case 2: return y * w + (w - 1 - x);
    case 3: return (h - 1 - y) * w + (w - 1 - x);
    case 4: return (h - 1 - y) * w + x;
    case 5: return x * w + y;
    case 6: return (h - 1 - x) * w + y;
    case 7: return (h - 1 - x) * w + (w - 1 - y);
    case 8: return x * w + (w - 1 - y);
    default: return y * w + x;
    }
}

/* Fitting a JPEG with an orientation is fitting the image that was turned before: the central
 * square, and a random box, which is off the centre. */
/* A wide image, 40 y + x, at (x, y): its central square is columns 2 to 5; squashed, rows stay and
 * neighbours in a row are averaged; with a border it lies in rows 2 to 5 of a black square. */
static void test_fits(void **state) {
    enum { W = 8, H = 4 };
    uint8_t pixel[W * H];
    for (size_t i = 0; i < W * H; i++) pixel[i] = (uint8_t)(40 * (i / W) + i % W);
    size_t size;
    uint8_t *png = datafiles_png(pixel, W, H, 1, &size);
    smoe_data_spec data = {.crop_pct = 1, .image_size = H, .channels = 1};
    smoe_image work = {0}, got = {0};
    assert_int_equal(smoe_decode_fit(&got, &data, png, size, NULL, &work, NULL, NULL), 0);
    for (size_t i = 0; i < H * H; i++) assert_int_equal(got.pixel[i], pixel[i / H * W + 2 + i % H]);
    data.fit = SMOE_IMAGE_SQUASH;
    assert_int_equal(smoe_decode_fit(&got, &data, png, size, NULL, &work, NULL, NULL), 0);
    for (size_t i = 0; i < H * H; i++) {
        double middle = 40 * (double)(i / H) + 2 * (double)(i % H) + 0.5;
        assert_true(fabs(got.pixel[i] - middle) <= 1);
    }
    data.fit = SMOE_IMAGE_BORDER;
    data.image_size = W;
    assert_int_equal(smoe_decode_fit(&got, &data, png, size, NULL, &work, NULL, NULL), 0);
    for (size_t y = 0; y < W; y++)
        for (size_t x = 0; x < W; x++) {
            int want = y < 2 || y > 5 ? 0 : pixel[(y - 2) * W + x];
            assert_int_equal(got.pixel[y * W + x], want);
        }
    free(png);

    /* A white JPEG of 64 x 40 in a square of 8 x 8 is 5 rows high: half of rows 1 and 6 is black.
     * At an eighth of its size its 5 rows would not have the same distance from both ends. */
    enum { WIDE = 64, HIGH = 40 };
    uint8_t white[WIDE * HIGH];
    memset(white, 255, sizeof white);
    uint8_t *jpeg = datafiles_jpeg(white, WIDE, HIGH, 1, &size);
    assert_int_equal(smoe_decode_fit(&got, &data, jpeg, size, NULL, &work, NULL, NULL), 0);
    for (size_t y = 0; y < W; y++)
        assert_in_range(got.pixel[y * W] + 1 - got.pixel[(W - 1 - y) * W], 0, 2);
    assert_in_range(got.pixel[W], 127, 128);
    free(jpeg);
    smoe_image_free(&work);
    smoe_image_free(&got);
}

static void test_orientation_is_applied(void **state) {
    enum { W = 40, H = 24, SIDE = 13 }; /* too large for a fraction of the size */
    uint8_t pixel[W * H * 3], turned[W * H * 3];
    size_t size, n;
    datafiles_picture(pixel, W, H, 3, 5);
    uint8_t *jpeg = datafiles_jpeg(pixel, W, H, 3, &size);
    smoe_data_spec data = {
        .crop_pct = 1, .image_size = SIDE, .channels = 3, .orientation = SMOE_ORIENTATION_APPLY};
    smoe_image stored = {0}, work = {0}, got = {0}, want = {0};
    decode(&stored, jpeg, size, SMOE_IMAGE_JPEG, 3, 1);
    for (unsigned k = 1; k <= 8; k++)
        for (unsigned random = 0; random < 2; random++) {
            size_t w = k < 5 ? W : H, h = k < 5 ? H : W;
            smoe_rng a = smoe_rng_at(k, SMOE_RNG_TEST, 0, 0, 0), b = a;
            uint8_t *with = with_orientation(jpeg, (n = size, &n), k % 2, k);
            for (size_t p = 0; p < w * h; p++)
                memcpy(turned + 3 * p, stored.pixel + 3 * stored_at(k, p % w, p / w, W, H), 3);
            smoe_image whole = image_of(turned, w, h, 3);
            assert_int_equal(
                smoe_image_fit(&want, SIDE, &whole, random ? &a : NULL, SMOE_RESIZE_BILINEAR, NULL),
                0);
            assert_int_equal(
                smoe_decode_fit(&got, &data, with, n, random ? &b : NULL, &work, NULL, NULL), 0);
            for (size_t i = 0; work.width == W && i < SIDE * SIDE * 3;
                 i++) /* sums in other order */
                assert_in_range(got.pixel[i] + 1 - want.pixel[i], 0, 2);
            smoe_image_free(&whole);
            free(with);
        }
    data.orientation = SMOE_ORIENTATION_IGNORE;
    uint8_t *with = with_orientation(jpeg, (n = size, &n), false, 6);
    assert_int_equal(smoe_decode_fit(&got, &data, with, n, NULL, &work, NULL, NULL), 0);
    assert_int_equal(smoe_decode_fit(&want, &data, jpeg, size, NULL, &work, NULL, NULL), 0);
    assert_memory_equal(got.pixel, want.pixel, SIDE * SIDE * 3);
    free(with);
    smoe_image_free(&stored);
    smoe_image_free(&work);
    smoe_image_free(&got);
    smoe_image_free(&want);
    free(jpeg);
}

/* Extra bytes between the segments of the header and a JFIF of revision 2 make libjpeg warn, but
 * do not change pixels; damage in the scan is still detected. */
static void test_jpeg_harmless_faults(void **state) {
    enum { W = 37, H = 29, START = 20, REVISION = 11, STRAY = 5 };
    uint8_t pixel[W * H * 3], *bad;
    size_t size;
    smoe_image image = {0}, other = {0};
    datafiles_picture(pixel, W, H, 3, 5);
    uint8_t *jpeg = datafiles_jpeg(pixel, W, H, 3, &size);
    assert_memory_equal(jpeg + 6, "JFIF\0\1", 6); /* a segment of 18 bytes after the first two */
    decode(&image, jpeg, size, SMOE_IMAGE_JPEG, 3, 1);
    bad = malloc(size + STRAY);
    memcpy(bad, jpeg, START);
    memcpy(bad + START, "\0\1\xff\0\xff", STRAY);
    memcpy(bad + START + STRAY, jpeg + START, size - START);
    for (int k = 0; k < 2; k++) {
        decode(&other, bad, size + STRAY, SMOE_IMAGE_JPEG, 3, 1);
        assert_memory_equal(image.pixel, other.pixel, W * H * 3);
        bad[REVISION] = 2;
    }
    refused(bad, size + STRAY - 40, "damaged JPEG image: Premature end");
    for (size_t n = 3; n < size; n += 7) refused(bad, n, "damaged JPEG");
    free(bad);
    free(jpeg);
    smoe_image_free(&image);
    smoe_image_free(&other);
}

static void test_jpeg_as_turbojpeg(void **state) {
    enum { W = 37, H = 29 };
    uint8_t pixel[W * H * 3], expected[W * H * 3];
    size_t size;
    datafiles_picture(pixel, W, H, 3, 5);
    uint8_t *jpeg = datafiles_jpeg(pixel, W, H, 3, &size);
    smoe_image image = {0};
    for (size_t channels = 1; channels <= 3; channels += 2)
        for (size_t shrink = 1; shrink <= 8; shrink *= 2) {
            size_t w = (W + shrink - 1) / shrink, h = (H + shrink - 1) / shrink;
            tjhandle tj = tjInitDecompress();
            assert_int_equal(tjDecompress2(tj, jpeg, size, expected, (int)w, 0, (int)h,
                                           channels == 1 ? TJPF_GRAY : TJPF_RGB,
                                           TJFLAG_ACCURATEDCT),
                             0);
            tjDestroy(tj);
            decode(&image, jpeg, size, SMOE_IMAGE_JPEG, channels, shrink);
            assert_int_equal(image.width, w);
            assert_int_equal(image.height, h);
            assert_memory_equal(image.pixel, expected, w * h * channels);
        }
    smoe_image_free(&image);
    free(jpeg);
}

/* Four inks: the light that two of them let through. 200/255 of red through cyan, half of that
 * through black: 100. The JPEG of a single colour is off by at most 2, in YCCK at quality 90. */
static void test_jpeg_of_inks(void **state) {
    static const struct {
        uint8_t ink[4], colour[3];
    } rows[] = {{{200, 100, 40, 255}, {200, 100, 40}},
                {{200, 100, 40, 128}, {100, 50, 20}},
                {{255, 255, 255, 0}, {0, 0, 0}}};
    uint8_t pixel[16 * 16 * 4];
    smoe_image image = {0};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t size;
        for (size_t i = 0; i < sizeof pixel; i++) pixel[i] = rows[r].ink[i % 4];
        uint8_t *jpeg = datafiles_jpeg(pixel, 16, 16, 4, &size);
        decode(&image, jpeg, size, SMOE_IMAGE_JPEG, 3, 1);
        for (size_t i = 0; i < 16 * 16 * 3; i++)
            assert_in_range(image.pixel[i] + 2, rows[r].colour[i % 3], rows[r].colour[i % 3] + 4);
        uint8_t luma = smoe_image_luma(image.pixel[0], image.pixel[1], image.pixel[2]);
        decode(&image, jpeg, size, SMOE_IMAGE_JPEG, 1, 2);
        assert_int_equal(image.channels, 1);
        assert_int_equal(image.width, 8);
        for (size_t i = 0; i < 8 * 8; i++) assert_int_equal(image.pixel[i], luma);
        free(jpeg);
    }
    smoe_image_free(&image);
}

/* Decoding at a fraction of the size and then resizing is close to resizing the whole image: for
 * smooth pictures within a few levels. */
static void test_shrinking_is_close(void **state) {
    enum { W = 160, H = 130, SIDE = 24 };
    uint8_t *pixel = malloc(W * H * 3);
    size_t size;
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++)
            for (size_t c = 0; c < 3; c++)
                pixel[(y * W + x) * 3 + c] = (uint8_t)(c == 0 ? x : c == 1 ? y : (x + y) / 2);
    uint8_t *jpeg = datafiles_jpeg(pixel, W, H, 3, &size);
    smoe_image whole = {0}, work = {0}, shrunk = {0}, full = {0};
    decode(&whole, jpeg, size, SMOE_IMAGE_JPEG, 3, 1);
    assert_int_equal(smoe_image_fit(&full, SIDE, &whole, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_int_equal(
        smoe_decode_fit(&shrunk,
                        &(smoe_data_spec){.crop_pct = 1, .image_size = SIDE, .channels = 3}, jpeg,
                        size, NULL, &work, NULL, NULL),
        0);
    assert_int_equal(work.height, 33);           /* 130 / 4: the smallest that is not below 24 */
    for (size_t i = 0; i < SIDE * SIDE * 3; i++) /* measured: 1 */
        assert_in_range(shrunk.pixel[i] + 3 - full.pixel[i], 0, 6);
    smoe_image_free(&whole);
    smoe_image_free(&work);
    smoe_image_free(&shrunk);
    smoe_image_free(&full);
    free(jpeg);
    free(pixel);
}

/* The same if the side is not a multiple of the fraction: the last pixel of the smaller image is
 * partly padding, and must not shift the others. The waves rise by up to 50 * 6 pi / side per
 * pixel, so squeezing the image by the 7 pixels that 257 and 265 lack to a multiple of 8 would
 * show as 25 levels. */
static void test_shrinking_keeps_places(void **state) {
    static const size_t sides[] = {257, 265, 264, 513, 131};
    enum { MOST = 513, SIDE = 32 };
    uint8_t *pixel = malloc(MOST * MOST);
    smoe_image whole = {0}, work = {0}, shrunk = {0}, full = {0};
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
        size_t n = sides[k], size;
        double turn = 6 * acos(-1) / (double)n;
        for (size_t y = 0; y < n; y++)
            for (size_t x = 0; x < n; x++)
                pixel[y * n + x] =
                    (uint8_t)(128 + 50 * sin(turn * (double)x) + 50 * sin(turn * (double)y));
        uint8_t *jpeg = datafiles_jpeg(pixel, n, n, 1, &size);
        decode(&whole, jpeg, size, SMOE_IMAGE_JPEG, 1, 1);
        assert_int_equal(smoe_image_fit(&full, SIDE, &whole, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
        assert_int_equal(
            smoe_decode_fit(&shrunk,
                            &(smoe_data_spec){.crop_pct = 1, .image_size = SIDE, .channels = 1},
                            jpeg, size, NULL, &work, NULL, NULL),
            0);
        assert_true(work.width < n / 2);
        for (size_t i = 0; i < SIDE * SIDE; i++) /* measured: 6, from two filters */
            assert_in_range(shrunk.pixel[i] + 8 - full.pixel[i], 0, 16);
        free(jpeg);
    }
    smoe_image_free(&whole);
    smoe_image_free(&work);
    smoe_image_free(&shrunk);
    smoe_image_free(&full);
    free(pixel);
}

/* A PNG is decoded at full size, and then resized. */
static void test_png_is_not_shrunk(void **state) {
    enum { W = 160, H = 131, SIDE = 13 };
    uint8_t *pixel = malloc(W * H * 3);
    size_t size;
    datafiles_picture(pixel, W, H, 3, 7);
    uint8_t *png = datafiles_png(pixel, W, H, 3, &size);
    smoe_image whole = image_of(pixel, W, H, 3), work = {0}, fitted = {0}, full = {0};
    assert_int_equal(smoe_image_fit(&full, SIDE, &whole, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_int_equal(
        smoe_decode_fit(&fitted,
                        &(smoe_data_spec){.crop_pct = 1, .image_size = SIDE, .channels = 3}, png,
                        size, NULL, &work, NULL, NULL),
        0);
    assert_memory_equal(fitted.pixel, full.pixel, SIDE * SIDE * 3);
    smoe_image_free(&whole);
    smoe_image_free(&work);
    smoe_image_free(&fitted);
    smoe_image_free(&full);
    free(png);
    free(pixel);
}

/* ---- bytes that must be refused -------------------------------------------------------------- */

static void test_refused(void **state) {
    uint8_t pixel[40 * 30 * 3];
    size_t jn, pn;
    datafiles_picture(pixel, 40, 30, 3, 6);
    uint8_t *jpeg = datafiles_jpeg(pixel, 40, 30, 3, &jn),
            *png = datafiles_png(pixel, 40, 30, 3, &pn);
    refused(jpeg, 0, "empty file");
    refused((const uint8_t *)"GIF89a......", 12, "GIF image, but only");
    refused((const uint8_t *)"MM\0*........", 12, "TIFF image, but only");
    refused((const uint8_t *)"....ftypheix", 12, "HEIC image, but only");
    refused((const uint8_t *)"....ftypheix", 11, "unknown format");
    refused((const uint8_t *)"............", 12, "unknown format");
    for (size_t n = 3; n < jn - 2; n += 7) refused(jpeg, n, "damaged JPEG");
    for (size_t n = 8; n < pn - 12; n += 7) refused(png, n, "damaged PNG");
    png[pn / 2] ^= 0x10; /* within the pixel data: the checksum detects it */
    refused(png, pn, "damaged PNG image");
    free(jpeg);
    free(png);
}

/* Headers that claim more pixels than are accepted, in files of a few bytes. */
static void test_huge_claims(void **state) {
    uint8_t pixel[16 * 16 * 3] = {0};
    size_t jn, pn;
    uint8_t *jpeg = datafiles_jpeg(pixel, 16, 16, 3, &jn),
            *png = datafiles_png(pixel, 16, 16, 3, &pn);
    size_t at = 2; /* the frame header FF C0: length, precision, height, width */
    while (at + 9 < jn && (jpeg[at] != 0xff || jpeg[at + 1] != 0xc0)) at++;
    memcpy(jpeg + at + 5, "\xff\xdc\xff\xdc", 4);
    refused(jpeg, jn, "claims 65500 x 65500 pixels, at most 67108864");
    memcpy(png + 16, "\x00\x00\x80\x00\x00\x00\x80\x00", 8); /* IHDR: 32768 x 32768 */
    uint32_t crc = 0xffffffff; /* CRC-32 of "IHDR" and its 13 bytes, bit by bit */
    for (size_t i = 12; i < 29; i++) {
        crc ^= png[i];
        for (int b = 0; b < 8; b++) crc = crc >> 1 ^ (0xedb88320 & -(crc & 1));
    }
    crc = ~crc;
    for (int b = 0; b < 4; b++) png[29 + b] = (uint8_t)(crc >> (24 - 8 * b));
    refused(png, pn, "claims 32768 x 32768 pixels");
    free(jpeg);
    free(png);
}

/* With the defaults x/127.5 - 1 to the bit; otherwise (x/255 - mean)/std per channel, and the
 * inverse for figures: with mean 0.2 and std 0.4, white is 2 and black -0.5. */
static void pixels_are_scaled(void **state) {
    uint8_t bytes[3 * 256];
    smoe_image image = {.pixel = bytes, .width = 256, .height = 1, .channels = 3};
    smoe_data_spec data = {.channels = 3, .mean = {.item = {0.5}}, .std = {.item = {0.5}}};
    smoe_image_scale scale;
    real pixels[3 * 256];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i / 3);
    smoe_image_scale_make(&scale, &data);
    smoe_image_pixels(pixels, &image, &scale);
    for (size_t i = 0; i < 256; i++) {
        assert_true(pixels[i] == (real)i / (real)127.5 - 1);
        assert_true(fabs((double)(smoe_image_shown(&data, 1, pixels[i]) - pixels[i])) < 1e-6);
    }
    data.mean = (smoe_series){.item = {0.5, 0.2, 0.5}, .listed = 3};
    data.std = (smoe_series){.item = {0.5, 0.4, 0.5}, .listed = 3};
    smoe_image_scale_make(&scale, &data);
    smoe_image_pixels(pixels, &image, &scale);
    assert_true(pixels[255] == 1 && pixels[512 + 255] == 1);
    const double ends[] = {-0.5, 2};
    for (size_t i = 0; i < 2; i++) {
        real x = pixels[256 + 255 * i];
        assert_true(fabs((double)x - ends[i]) < 1e-6);
        assert_true(fabs((double)smoe_image_shown(&data, 1, x) - (i ? 1 : -1)) < 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halved),
        cmocka_unit_test(test_as_pillow),
        cmocka_unit_test(test_doubled),
        cmocka_unit_test(test_centre_is_copied),
        cmocka_unit_test(test_neighbours_take_part),
        cmocka_unit_test(test_constant_stays),
        cmocka_unit_test(test_inception_box),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_png_exact),
        cmocka_unit_test(test_png_alpha),
        cmocka_unit_test(test_alpha_as_pillow),
        cmocka_unit_test(test_png_16_bits),
        cmocka_unit_test(test_png_interlaced),
        cmocka_unit_test(test_png_as_stored),
        cmocka_unit_test(test_png_transparent_colour),
        cmocka_unit_test(test_jpeg_orientation),
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_orientation_is_applied),
        cmocka_unit_test(test_jpeg_harmless_faults),
        cmocka_unit_test(test_jpeg_as_turbojpeg),
        cmocka_unit_test(test_jpeg_of_inks),
        cmocka_unit_test(test_shrinking_is_close),
        cmocka_unit_test(test_shrinking_keeps_places),
        cmocka_unit_test(test_png_is_not_shrunk),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_huge_claims),
        cmocka_unit_test(pixels_are_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
