/* PNG files and overlays, against pixels worked out by hand. */
#include "base/file.h"
#include "approx.h"
#include "data/decode.h"
#include "draw/overlay.h"
#include "sample_tables.h"
#include "scratch.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_png(smoe_image *image, const char *path, size_t channels) {
    size_t size;
    char *bytes = scratch_read(path, &size);
    smoe_image_header header;
    smoe_err err = {0};
    assert_int_equal(smoe_decode_header(&header, (uint8_t *)bytes, size, &err), 0);
    assert_int_equal(
        smoe_decode(image, &(smoe_image_file){&header, (uint8_t *)bytes, size}, channels, 1, &err),
        0);
    free(bytes);
}

/* What is written is read back, grey and colour, for sizes that end within a byte. */
static void test_png(void **state) {
    scratch s;
    char path[SCRATCH_PATH];
    scratch_make(&s);
    for (size_t channels = 1; channels <= 3; channels += 2) {
        smoe_image in = {0}, out = {0};
        smoe_err err = {0};
        assert_int_equal(smoe_image_shape(&in, 7, 5, channels, &err), 0);
        for (size_t i = 0; i < 35 * channels; i++) in.pixel[i] = (uint8_t)(i * 37);
        assert_int_equal(smoe_encode_png_write(&in, scratch_path(&s, path, "a.png"), &err), 0);
        read_png(&out, path, channels);
        assert_int_equal(out.width, 7);
        assert_int_equal(out.height, 5);
        assert_memory_equal(out.pixel, in.pixel, 35 * channels);
        smoe_image_free(&in);
        smoe_image_free(&out);
    }
    smoe_err err = {0};
    smoe_image one = {.width = 1, .height = 1, .channels = 1, .pixel = (uint8_t[]){9}};
    assert_int_equal(smoe_encode_png_write(&one, "/nowhere/a.png", &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, "/nowhere/a.png"));
    scratch_remove(&s);
}

/* -1 is 0, 1 is 255, 0 is 127.5 rounded to even; values outside are clipped. */
static void test_picture(void **state) {
    float pixels[] = {-1, 0, 1, 3};
    smoe_sample s = {.channels = 1, .size = 2, .pixels = pixels};
    smoe_image image = {0};
    smoe_err err = {0};
    assert_int_equal(smoe_overlay_picture(&s, &image, &err), 0);
    assert_memory_equal(image.pixel, ((uint8_t[]){0, 128, 255, 255}), 4);
    smoe_image_free(&image);
}

/* exp of the entropy: n for n equal weights, 1 for one, 2^(3/2) for (1/2, 1/4, 1/4), whatever
 * the sum. */
static void test_effective(void **state) {
    float even[] = {3, 3, 3, 3}, one[] = {0, 7, 0}, mixed[] = {2, -9, 1, -9, 1, -9},
          none[] = {0, 0};
    assert_close(smoe_overlay_effective(even, 4, 1), 4, 1e-12);
    assert_close(smoe_overlay_effective(one, 3, 1), 1, 1e-12);
    assert_close(smoe_overlay_effective(mixed, 3, 2), 2 * sqrt(2), 1e-12);
    assert_close(smoe_overlay_effective(none, 2, 1), 0, 0);
}

/* ---- sheets ---------------------------------------------------------------------------------- */

typedef struct sheets {
    scratch scratch;
    smoe_frame tiles;
    smoe_overlays to;
    sample_tables *sample_tables;
} sheets;

static void make(sheets *s, sample_tables *d, size_t first, size_t count,
                 const smoe_overlay_units *units) {
    smoe_err err = {0};
    s->sample_tables = d;
    scratch_make(&s->scratch);
    smoe_overlays_frame(&s->tiles);
    s->to = (smoe_overlays){.folder = s->scratch.dir, .units = *units, .frame = &s->tiles};
    if (smoe_overlays_write(&s->to, d->sample + first, count, &err)) fail_msg("%s", err.text);
}

static void drop(sheets *s) {
    smoe_frame_free(&s->tiles);
    scratch_remove(&s->scratch);
}

/* "what unit" of the tiles of a file, separated by blanks. */
static const char *tiles_of(const sheets *s, const char *file, char *buf, size_t size) {
    size_t used = 0;
    buf[0] = '\0';
    for (size_t r = 0; r < s->tiles.rows; r++)
        if (!strcmp(smoe_frame_text_at(&s->tiles, r, 1), file))
            used += (size_t)snprintf(buf + used, size - used, "%s %g ",
                                     smoe_frame_text_at(&s->tiles, r, 5),
                                     smoe_frame_number_at(&s->tiles, r, 6));
    return buf;
}

/* A pixel of a sheet must be the image's pixel blended with the colour: v + opacity*(colour -
 * v). */
static void check_pixel(const smoe_image *sheet, size_t x, size_t y, const smoe_sample *s,
                        size_t pixel, double opacity, const double colour[3]) {
    for (size_t c = 0; c < 3; c++) {
        double v = rint(((double)s->pixels[c * 16 + pixel] + 1) * 127.5);
        double want = v + opacity * (colour[c] - v);
        /* half a step of rounding, in float */
        assert_close(sheet->pixel[(y * sheet->width + x) * 3 + c], want, 0.501);
    }
}

/* Slots 0 to 2 have weights 1/2 and 1/6: 1/3 of the largest is dark by 0.92*(2/3). Tiles are 4
 * pixels wide with gaps of 2; the first is the image, the second the map of which unit each
 * patch belongs to (who), then the units. */
static void test_soft(void **state) {
    const double dark[3] = {8, 10, 14};
    sheets s;
    char path[SCRATCH_PATH];
    make(&s, *state, 0, 2, &(smoe_overlay_units){(size_t[]){2, 3}, 2});
    smoe_image sheet = {0};
    read_png(&sheet, scratch_path(&s.scratch, path, "overlays/image0-blocks1.png"), 3);
    const smoe_sample *sample = &s.sample_tables->sample[0];
    assert_int_equal(sheet.width, 4 * 6 + 2);
    assert_int_equal(sheet.height, 8);
    assert_memory_equal(sheet.pixel, ((uint8_t[]){255, 255, 255}), 3);
    for (size_t y = 0; y < 4; y++)
        for (size_t x = 0; x < 4; x++) {
            size_t patch = y / 2 * 2 + x / 2;
            check_pixel(&sheet, 2 + x, 2 + y, sample, y * 4 + x, 0, dark);
            check_pixel(&sheet, 14 + x, 2 + y, sample, y * 4 + x, patch == 2 ? 0 : 0.92 * 2 / 3,
                        dark);
        }
    smoe_image_free(&sheet);
    /* Slot 3 of block 3 takes only patch 0. */
    read_png(&sheet, scratch_path(&s.scratch, path, "overlays/image1-blocks3.png"), 3);
    check_pixel(&sheet, 20, 2, &s.sample_tables->sample[1], 0, 0, dark);
    check_pixel(&sheet, 23, 5, &s.sample_tables->sample[1], 15, 0.92, dark);
    smoe_image_free(&sheet);
    /* The enlarged image: 144/4 = 36 times, gaps of 14, and 21 above rows (1.7 letters of 12
     * pixels); the pixel in the middle of pixel 15. */
    read_png(&sheet, scratch_path(&s.scratch, path, "overlays/image1-blocks3-large.png"), 3);
    assert_int_equal(sheet.width, 4 * (144 + 14) + 14);
    check_pixel(&sheet, 3 * 158 + 14 + 126, 21 + 126, &s.sample_tables->sample[1], 15, 0.92, dark);
    check_pixel(&sheet, 3 * 158 + 14 + 143, 21 + 143, &s.sample_tables->sample[1], 15, 0.92, dark);
    smoe_image_free(&sheet);
    drop(&s);
}

/* Nearly uniform weights, 0.2 and 0.4: the least is as dark as 0 would be, and the bar says so. */
static void test_stretched(void **state) {
    const double dark[3] = {8, 10, 14};
    sheets s;
    char path[SCRATCH_PATH];
    sample_tables *d = *state;
    const smoe_sample *sample = d->sample;
    smoe_sample_layer *l = &sample->layer[0];
    size_t bytes = sample->T * l->S * sizeof *l->dispatch;
    float *before = malloc(bytes);
    memcpy(before, l->dispatch, bytes);
    for (size_t t = 0; t < sample->T; t++)
        for (size_t u = 0; u < l->S; u++)
            l->dispatch[t * l->S + u] = t == sample->first_patch + u % 4 ? 0.4f : 0.2f;
    make(&s, d, 0, 1, &(smoe_overlay_units){(size_t[]){2}, 1});
    smoe_image sheet = {0};
    read_png(&sheet, scratch_path(&s.scratch, path, "overlays/image0-blocks1.png"), 3);
    for (size_t y = 0; y < 4; y++)
        for (size_t x = 0; x < 4; x++)
            check_pixel(&sheet, 14 + x, 2 + y, sample, y * 4 + x, y / 2 * 2 + x / 2 == 2 ? 0 : 0.92,
                        dark);
    smoe_image_free(&sheet);
    char *text = scratch_read(scratch_path(&s.scratch, path, "overlays/image0-blocks1.gp"), NULL);
    assert_non_null(strstr(text, "set cbtics ('least' 0, 'largest' 1)"));
    assert_non_null(strstr(text, "set cblabel 'weight of the slot, nearly uniform'"));
    free(text);
    size_t at = smoe_frame_find(&s.tiles, "darkest_weight");
    assert_close(smoe_frame_number_at(&s.tiles, 2, at), 0.2, 1e-7);
    drop(&s);
    memcpy(l->dispatch, before, bytes);
    free(before);
}

/* In block 3, slot 3 mixes one token and comes first; the others are equal and follow in order. */
static void test_rule(void **state) {
    sheets s;
    char text[300];
    make(&s, *state, 0, 3, &(smoe_overlay_units){NULL, 0});
    assert_string_equal(tiles_of(&s, "overlays/run1-image0-blocks1.png", text, sizeof text),
                        "image nan who nan slot 0 slot 1 slot 2 slot 3 ");
    assert_string_equal(tiles_of(&s, "overlays/run1-image1-blocks3.png", text, sizeof text),
                        "image nan who nan slot 3 slot 0 slot 1 slot 2 ");
    assert_string_equal(tiles_of(&s, "overlays/run2-image0-blocks3.png", text, sizeof text),
                        "image nan dropped nan who nan expert 0 expert 1 ");
    drop(&s);
}

/* The figure of a sheet has a name above the middle of each tile and a bar of shades. For a paper
 * it has the requested width, with more room above the tiles, which are smaller, and as many side
 * by side as the names have room. */
static void test_figure(void **state) {
    sheets s;
    char path[SCRATCH_PATH];
    make(&s, *state, 1, 1, &(smoe_overlay_units){NULL, 0});
    char *text = scratch_read(scratch_path(&s.scratch, path, "overlays/image1-blocks3.gp"), NULL);
    assert_non_null(strstr(text, "set label 'image' at first 86,"));
    assert_non_null(strstr(text, "set label 'top slot' at first 244,"));
    assert_non_null(strstr(text, "set label 'slot 3' at first 402,"));
    assert_non_null(strstr(text, "set cblabel 'weight, as a share of the slot''s largest'"));
    assert_non_null(strstr(text, "svg size 962,"));
    free(text);
    smoe_err err = {0};
    s.to.units = (smoe_overlay_units){NULL, 0};
    s.to.width = 3.25;
    assert_int_equal(smoe_overlays_write(&s.to, s.sample_tables->sample + 1, 1, &err), 0);
    text = scratch_read(scratch_path(&s.scratch, path, "overlays/image1-blocks3.gp"), NULL);
    assert_non_null(strstr(text, "pdfcairo size 3.250in,"));
    free(text);
    smoe_image sheet = {0};
    read_png(&sheet, scratch_path(&s.scratch, path, "overlays/image1-blocks3-large.png"), 3);
    /* "top slot" and two letters between names, of 6 pixels each, are 60 of 312: 5 tiles in a row.
     * 1.7 letters of 10 pixels, where 312 pixels of the figure are 804 of the sheet: 44. */
    assert_int_equal(sheet.width, 5 * (144 + 14) + 14);
    assert_int_equal(sheet.height, 2 * (144 + 44) + 14);
    smoe_image_free(&sheet);
    drop(&s);
}

/* Tokens 1 .. 4 are patches 0 .. 3. Token 3, patch 2, is dropped, hence magenta. Expert 0 gives
 * patch 1 a third of the weight of patch 0 and none to patch 3. */
static void test_choice(void **state) {
    const double dark[3] = {8, 10, 14}, magenta[3] = {230, 0, 126};
    sheets s;
    char path[SCRATCH_PATH];
    make(&s, *state, 2, 1, &(smoe_overlay_units){(size_t[]){0}, 1});
    const smoe_sample *sample = &s.sample_tables->sample[2];
    smoe_image sheet = {0};
    read_png(&sheet, scratch_path(&s.scratch, path, "overlays/image0-blocks1.png"), 3);
    check_pixel(&sheet, 8, 2, sample, 0, 0, magenta);
    check_pixel(&sheet, 8, 4, sample, 8, 1, magenta);
    check_pixel(&sheet, 10, 4, sample, 10, 0, magenta);
    check_pixel(&sheet, 14, 4, sample, 8, 0.92, dark); /* who: no expert */
    check_pixel(&sheet, 20, 2, sample, 0, 0, dark);
    check_pixel(&sheet, 22, 2, sample, 2, 0.92 * 2 / 3, dark);
    check_pixel(&sheet, 22, 4, sample, 10, 0.92, dark);
    /* who: patch 1 has more weight in expert 1 than in expert 0, so it has the colour of patch
     * 3. */
    const uint8_t *one = sheet.pixel + (2 * sheet.width + 16) * 3;
    const uint8_t *three = sheet.pixel + (4 * sheet.width + 16) * 3;
    for (size_t c = 0; c < 3; c++) {
        double from_one = rint(((double)sample->pixels[c * 16 + 2] + 1) * 127.5);
        double from_three = rint(((double)sample->pixels[c * 16 + 10] + 1) * 127.5);
        /* the same colour at 0.72 over different pixels; two roundings */
        assert_close(one[c] - 0.28 * from_one, three[c] - 0.28 * from_three, 1.01);
    }
    smoe_image_free(&sheet);
    drop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_picture),
        cmocka_unit_test(test_effective),
        unit_test_with(test_soft, sample_tables),
        unit_test_with(test_stretched, sample_tables),
        unit_test_with(test_rule, sample_tables),
        unit_test_with(test_figure, sample_tables),
        unit_test_with(test_choice, sample_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
