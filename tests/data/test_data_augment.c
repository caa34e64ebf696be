/* Augmentation: each operation of RandAugment on numbers worked by hand; crops and flips by
 * their laws. */
#include "data/augment.h"
#include "datafiles.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static smoe_image image_of(const uint8_t *pixel, size_t width, size_t height, size_t channels) {
    smoe_image image = {0};
    assert_int_equal(smoe_image_shape(&image, width, height, channels, NULL), 0);
    memcpy(image.pixel, pixel, width * height * channels);
    return image;
}

static size_t operation(const char *name) {
    for (size_t op = 0; smoe_randaugment_name(op); op++)
        if (!strcmp(smoe_randaugment_name(op), name)) return op;
    fail_msg("no operation %s", name);
    return 0;
}

/* Applies an operation to a grey row of n pixels (as an image n x 1) and compares. For an
 * operation with a random sign, streams are tried until one gives the wanted sign. */
static void check_row(const char *name, double m, bool negative, const uint8_t *row, size_t n,
                      const uint8_t *expected) {
    smoe_image work = {0};
    for (uint64_t sample = 0;; sample++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, sample), same = rng;
        if (smoe_rng_below(&same, 2) != negative) continue;
        smoe_image image = image_of(row, n, 1, 1);
        assert_int_equal(smoe_randaugment_apply(operation(name), m, &image, &work, &rng, NULL), 0);
        assert_memory_equal(image.pixel, expected, n);
        smoe_image_free(&image);
        break;
    }
    smoe_image_free(&work);
}

static void test_fourteen_operations(void **state) {
    size_t count = 0;
    while (smoe_randaugment_name(count)) count++;
    assert_int_equal(count, 14);
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < a; b++)
            assert_string_not_equal(smoe_randaugment_name(a), smoe_randaugment_name(b));
}

/* Magnitude 0 changes nothing, not even black and white; autocontrast and equalize have no
 * magnitude. */
static void test_magnitude_0(void **state) {
    uint8_t pixel[11 * 9 * 3];
    datafiles_picture(pixel, 11, 9, 3, 3);
    pixel[0] = 0; /* 0 and 255 occur in one channel each */
    pixel[4] = 255;
    smoe_image work = {0};
    for (size_t op = 0; smoe_randaugment_name(op); op++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, op);
        smoe_image image = image_of(pixel, 11, 9, 3);
        assert_int_equal(smoe_randaugment_apply(op, 0, &image, &work, &rng, NULL), 0);
        bool same = !memcmp(image.pixel, pixel, sizeof pixel);
        bool contrast = op == operation("autocontrast") || op == operation("equalize");
        if (same == contrast) fail_msg("%s", smoe_randaugment_name(op));
        smoe_image_free(&image);
    }
    smoe_image_free(&work);
}

#define ROW(...) ((uint8_t[]){__VA_ARGS__})

static void test_curves(void **state) {
    check_row("identity", 10, false, ROW(1, 2, 3), 3, ROW(1, 2, 3));
    /* 50 .. 150 becomes 0 .. 255: 75 is a quarter of the way, 63.75 */
    check_row("autocontrast", 3, false, ROW(50, 75, 100, 150), 4, ROW(0, 64, 128, 255));
    check_row("autocontrast", 3, false, ROW(7, 7, 7), 3, ROW(7, 7, 7));
    /* of the two pixels above the lowest value, one is at or below 20, two at or below 30 */
    check_row("equalize", 3, false, ROW(10, 30, 10, 20), 4, ROW(0, 255, 0, 128));
    check_row("equalize", 3, false, ROW(9, 9), 2, ROW(9, 9));
    check_row("solarize", 5, false, ROW(0, 127, 128, 255), 4, ROW(0, 127, 127, 0));
    check_row("solarize", 10, false, ROW(0, 100, 255), 3, ROW(255, 155, 0));
    check_row("posterize", 10, false, ROW(255, 31, 15, 16), 4, ROW(240, 16, 0, 16));
    check_row("posterize", 5, false, ROW(255, 7, 3, 4), 4, ROW(252, 4, 0, 4));
    check_row("posterize", 4, false, ROW(255, 3), 2, ROW(252, 0)); /* 1.6 bits are two */
    check_row("brightness", 10, false, ROW(0, 100, 200), 3, ROW(0, 190, 255)); /* times 1.9 */
    check_row("brightness", 10, true, ROW(0, 100, 200), 3, ROW(0, 10, 20));    /* times 0.1 */
    check_row("contrast", 10, true, ROW(50, 150), 2, ROW(95, 105)); /* about the mean, 100 */
    check_row("contrast", 5, false, ROW(80, 120), 2, ROW(71, 129)); /* 20 * 1.45 = 29 */
    check_row("color", 10, true, ROW(10, 20), 2, ROW(10, 20));      /* grey has no colour */
}

/* Red (255, 0, 0) has luma 76. A tenth of the colour is left: 76 +- a tenth of the distance. */
static void test_colour(void **state) {
    smoe_image work = {0};
    int seen[2] = {0};
    for (uint64_t sample = 0; sample < 20; sample++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, sample);
        smoe_image image = image_of(ROW(255, 0, 0), 1, 1, 3);
        assert_int_equal(smoe_randaugment_apply(operation("color"), 10, &image, &work, &rng, NULL),
                         0);
        bool less = image.pixel[0] < 255;
        seen[less]++;
        assert_memory_equal(image.pixel, less ? ROW(94, 68, 68) : ROW(255, 0, 0), 3);
        smoe_image_free(&image);
    }
    assert_true(seen[0] && seen[1]);
    smoe_image_free(&work);
}

/* A single bright pixel 130 in a surround of 0: blurred it is 5/13 of itself, 50. Sharpened by
 * 1.9 it becomes 50 + 1.9*80 = 202, softened by 0.1 58. Its neighbours lie on the border, which
 * does not change. */
static void test_sharpness(void **state) {
    smoe_image work = {0};
    for (uint64_t sample = 0; sample < 20; sample++) {
        uint8_t pixel[9] = {0, 0, 0, 0, 130, 0, 0, 0, 0};
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, sample), same = rng;
        pixel[4] = 130;
        smoe_image image = image_of(pixel, 3, 3, 1);
        assert_int_equal(
            smoe_randaugment_apply(operation("sharpness"), 10, &image, &work, &rng, NULL), 0);
        pixel[4] = smoe_rng_below(&same, 2) ? 58 : 202;
        assert_memory_equal(image.pixel, pixel, 9);
        smoe_image_free(&image);
    }
    smoe_image_free(&work);
}

/* Translation by 0.45 of 10 pixels, rounded: 5 (4.5 away from 0); grey comes in. */
static void test_translate(void **state) {
    const uint8_t row[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    enum { F = SMOE_FILL };
    check_row("translate-x", 10, false, row, 10, ROW(5, 6, 7, 8, 9, F, F, F, F, F));
    check_row("translate-x", 10, true, row, 10, ROW(F, F, F, F, F, 0, 1, 2, 3, 4));
    smoe_image work = {0}, image = image_of(row, 1, 10, 1);
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0), same = rng;
    bool negative = smoe_rng_below(&same, 2);
    assert_int_equal(
        smoe_randaugment_apply(operation("translate-y"), 10, &image, &work, &rng, NULL), 0);
    assert_memory_equal(
        image.pixel,
        negative ? ROW(F, F, F, F, F, 0, 1, 2, 3, 4) : ROW(5, 6, 7, 8, 9, F, F, F, F, F), 10);
    smoe_image_free(&image);
    smoe_image_free(&work);
}

/* The weights of four equal pixels sum to a little less than one: the result is rounded, not
 * truncated. */
static void test_turned_constant(void **state) {
    enum { S = 9 };
    uint8_t pixel[S * S];
    smoe_image work = {0};
    memset(pixel, 101, sizeof pixel);
    for (int m = 1; m <= 10; m++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
        smoe_image image = image_of(pixel, S, S, 1);
        assert_int_equal(smoe_randaugment_apply(operation("rotate"), m, &image, &work, &rng, NULL),
                         0);
        for (size_t y = 3; y < 6; y++) assert_memory_equal(image.pixel + y * S + 3, pixel, 3);
        smoe_image_free(&image);
    }
    smoe_image_free(&work);
}

/* Magnitude 30 is a quarter turn in either direction: pixels change places and none is lost. */
static void test_quarter_turn(void **state) {
    enum { S = 7 };
    uint8_t pixel[S * S], turned[2][S * S];
    datafiles_picture(pixel, S, S, 1, 2);
    for (int y = 0; y < S; y++)
        for (int x = 0; x < S; x++) {
            turned[0][y * S + x] = pixel[x * S + (S - 1 - y)];
            turned[1][y * S + x] = pixel[(S - 1 - x) * S + y];
        }
    smoe_image work = {0};
    int seen[2] = {0};
    for (uint64_t sample = 0; sample < 20; sample++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, sample);
        smoe_image image = image_of(pixel, S, S, 1);
        assert_int_equal(smoe_randaugment_apply(operation("rotate"), 30, &image, &work, &rng, NULL),
                         0);
        int which = memcmp(image.pixel, turned[0], S * S) != 0;
        assert_memory_equal(image.pixel, turned[which], S * S);
        seen[which]++;
        smoe_image_free(&image);
    }
    assert_true(seen[0] && seen[1]);
    smoe_image_free(&work);
}

/* Shears keep the middle row (column) in place and move the others by 0.3 per row: at magnitude
 * 10 the row 10 above the middle moves by 3 pixels. */
static void test_shear(void **state) {
    enum { S = 21 };
    uint8_t pixel[S * S];
    smoe_image work = {0};
    for (int axis = 0; axis < 2; axis++) {
        size_t line = axis ? 1 : S, along = axis ? S : 1; /* steps across rows and within one */
        for (size_t r = 0; r < S; r++)
            for (size_t i = 0; i < S; i++) pixel[r * line + i * along] = (uint8_t)(100 + 5 * i);
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0), same = rng;
        int sign = smoe_rng_below(&same, 2) ? -1 : 1;
        smoe_image image = image_of(pixel, S, S, 1);
        assert_int_equal(smoe_randaugment_apply(operation(axis ? "shear-y" : "shear-x"), 10, &image,
                                                &work, &rng, NULL),
                         0);
        for (int r = 0; r < S; r += 10)
            for (int i = 3; i < S - 3; i++)
                assert_int_equal(image.pixel[(size_t)r * line + (size_t)i * along],
                                 100 + 5 * (i + sign * 3 * (r - 10) / 10));
        smoe_image_free(&image);
    }
    smoe_image_free(&work);
}

/* ---- crop and flip --------------------------------------------------------------------------- */

/* Every window of a 16 x 16 image padded by 2 appears; it is the shifted image with grey around
 * it. */
static void test_pad_crop(void **state) {
    enum { S = 16 };
    uint8_t pixel[S * S * 3];
    int seen[5][5] = {{0}};
    datafiles_picture(pixel, S, S, 3, 1);
    for (int i = 0; i < S * S * 3; i++) pixel[i] |= 1; /* never 128, the value of the padding */
    smoe_data_spec data = {.augment.crop = SMOE_CROP_PAD};
    smoe_image work = {0};
    for (uint64_t sample = 0; sample < 500; sample++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, sample);
        smoe_image image = image_of(pixel, S, S, 3);
        assert_int_equal(smoe_augment(&data, &image, &work, &rng, NULL), 0);
        int found = 0;
        for (int dy = -2; dy <= 2; dy++)
            for (int dx = -2; dx <= 2; dx++) {
                bool same = true;
                for (int y = 0; same && y < S; y++)
                    for (int x = 0; same && x < S; x++)
                        for (int c = 0; c < 3; c++) {
                            int sy = y + dy, sx = x + dx;
                            bool inside = sy >= 0 && sx >= 0 && sy < S && sx < S;
                            uint8_t expected = inside ? pixel[(sy * S + sx) * 3 + c] : SMOE_FILL;
                            same = same && image.pixel[(y * S + x) * 3 + c] == expected;
                        }
                found += same;
                seen[dy + 2][dx + 2] += same;
            }
        assert_int_equal(found, 1);
        smoe_image_free(&image);
    }
    for (int k = 0; k < 25; k++) /* 20 expected; 3 is four standard deviations below */
        assert_in_range(seen[k / 5][k % 5], 3, 45);
    smoe_image_free(&work);
}

static void test_flip(void **state) {
    smoe_data_spec data = {.augment.flip = true};
    smoe_image work = {0};
    int flipped = 0;
    for (uint64_t sample = 0; sample < 1000; sample++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, sample);
        smoe_image image = image_of(ROW(1, 2, 3, 4, 5, 6, 7, 8, 9), 3, 1, 3);
        assert_int_equal(smoe_augment(&data, &image, &work, &rng, NULL), 0);
        bool turned = image.pixel[0] != 1;
        assert_memory_equal(
            image.pixel, turned ? ROW(7, 8, 9, 4, 5, 6, 1, 2, 3) : ROW(1, 2, 3, 4, 5, 6, 7, 8, 9),
            9);
        flipped += turned;
        smoe_image_free(&image);
    }
    assert_in_range(flipped, 430, 570); /* 500, standard deviation 16 */
    smoe_image_free(&work);
}

/* With all keys off nothing changes. The largest magnitudes of the schema work on images down to
 * 1 x 1. */
static void test_extremes(void **state) {
    smoe_data_spec data = {0};
    smoe_image work = {0};
    uint8_t pixel[9 * 9 * 3];
    datafiles_picture(pixel, 9, 9, 3, 1);
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
    smoe_image image = image_of(pixel, 9, 9, 3);
    assert_int_equal(smoe_augment(&data, &image, &work, &rng, NULL), 0);
    assert_memory_equal(image.pixel, pixel, sizeof pixel);
    smoe_image_free(&image);
    data.augment.crop = SMOE_CROP_PAD;
    data.augment.randaugment.n = 16;
    data.augment.randaugment.m = 30;
    for (size_t size = 1; size <= 9; size++)
        for (size_t channels = 1; channels <= 3; channels += 2) {
            image = image_of(pixel, size, size, channels);
            for (int i = 0; i < 20; i++)
                assert_int_equal(smoe_augment(&data, &image, &work, &rng, NULL), 0);
            smoe_image_free(&image);
        }
    smoe_image_free(&work);
}

/* With a tiny a, Beta(a, a) is nearly 0 or nearly 1, each with probability 1/2: the box of CutMix is
 * nearly the whole image, or nothing. */
static void test_cutmix_extremes(void **state) {
    smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, 0);
    int whole = 0;
    for (int i = 0; i < 1000; i++) {
        smoe_cut box = smoe_cutmix_cut(&rng, 1e-5, 8);
        whole += box.right > box.left;
    }
    assert_in_range(whole, 500 - 95, 500 + 95); /* six standard deviations of sqrt(1000)/2 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fourteen_operations),
        cmocka_unit_test(test_magnitude_0),
        cmocka_unit_test(test_curves),
        cmocka_unit_test(test_colour),
        cmocka_unit_test(test_sharpness),
        cmocka_unit_test(test_translate),
        cmocka_unit_test(test_turned_constant),
        cmocka_unit_test(test_quarter_turn),
        cmocka_unit_test(test_shear),
        cmocka_unit_test(test_pad_crop),
        cmocka_unit_test(test_flip),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_cutmix_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
