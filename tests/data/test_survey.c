/* Statistics of a split against plain sums; near duplicates against images made so. */
#include "data/survey.h"
#include "base/threads.h"
#include "data/scan.h"
#include "folders.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDE = 32, IMAGES = 12 };

/* Blocks of 8 pixels of random colours, which remain visible in a thumbnail. */
static void blocks(uint8_t *pixel, unsigned seed) {
    smoe_rng rng = smoe_rng_at(seed, SMOE_RNG_TEST, 0, 0, 0);
    uint8_t colour[SIDE / 8][SIDE / 8][3];
    for (size_t i = 0; i < sizeof colour; i++)
        ((uint8_t *)colour)[i] = (uint8_t)smoe_rng_below(&rng, 256);
    for (size_t i = 0; i < (size_t)SIDE * SIDE * 3; i++)
        pixel[i] = colour[i / 3 / SIDE / 8][i / 3 % SIDE / 8][i % 3];
}

static void add_image(scratch *dir, const char *folder, const char *name, const uint8_t *pixel) {
    char path[SCRATCH_PATH];
    datafile file = {.name = name};
    file.bytes = datafiles_png(pixel, SIDE, SIDE, 3, &file.size);
    mkdir(scratch_path(dir, path, folder), 0777);
    datafiles_tree(path, &file, 1);
    free((void *)file.bytes);
}

static smoe_dataset *look(scratch *dir, const char *folder, const char *split, smoe_survey *s) {
    static char path[SCRATCH_PATH];
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, scratch_path(dir, path, folder), SIDE, 3);
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_survey_open(&set, &spec, split, NULL, &err) || smoe_survey_of(s, set, NULL, &err))
        fail_msg("%s", err.text);
    return set;
}

/* Mean and standard deviation of twelve images of the requested size; sizes, formats and modes. */
static void statistics(void **state) {
    uint8_t pixel[SIDE * SIDE * 3];
    double sum[3] = {0}, squares[3] = {0}, n = (double)IMAGES * SIDE * SIDE;
    char name[40];
    for (unsigned k = 0; k < IMAGES; k++) {
        blocks(pixel, k);
        for (size_t i = 0; i < sizeof pixel; i++) {
            sum[i % 3] += pixel[i] / 255.0;
            squares[i % 3] += pixel[i] / 255.0 * (pixel[i] / 255.0);
        }
        snprintf(name, sizeof name, "train/%c/%02u.png", 'a' + k % 2, k);
        add_image(*state, "data", name, pixel);
    }
    smoe_survey s;
    smoe_dataset *set = look(*state, "data", "train", &s);
    assert_int_equal(s.images, IMAGES);
    assert_int_equal(s.looked, IMAGES);
    for (size_t c = 0; c < 3; c++) {
        double mean = sum[c] / n;
        assert_true(fabs(s.mean[c] - mean) < 1e-12);
        assert_true(fabs(s.std[c] - sqrt(squares[c] / n - mean * mean)) < 1e-12);
    }
    assert_true(s.seconds > 0 && s.seconds < 1);
    assert_true(s.files);
    assert_int_equal(s.kind[SMOE_IMAGE_PNG], IMAGES);
    assert_int_equal(s.mode[SMOE_MODE_COLOUR], IMAGES);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(s.width[k], SIDE);
        assert_int_equal(s.height[k], SIDE);
    }
    smoe_survey_free(&s);
    smoe_dataset_free(set);
}

/* Of four test images one is also in train, one is brighter by one level of 255, one has noise
 * of a few levels, and one is mirrored, which makes it a different image. Images of a single
 * colour are near only if they are equal. */
static void near_duplicates(void **state) {
    uint8_t pixel[SIDE * SIDE * 3];
    char name[40];
    for (unsigned k = 0; k < IMAGES; k++) {
        blocks(pixel, k);
        snprintf(name, sizeof name, "train/a/%02u.png", k);
        add_image(*state, "data", name, pixel);
    }
    memset(pixel, 100, sizeof pixel);
    add_image(*state, "data", "train/a/flat.png", pixel);
    add_image(*state, "data", "test/a/e.png", pixel);
    memset(pixel, 101, sizeof pixel);
    add_image(*state, "data", "test/a/f.png", pixel);
    for (unsigned k = 0; k < 4; k++) {
        blocks(pixel, 3 * k);
        smoe_rng rng = smoe_rng_at(k, SMOE_RNG_TEST, 1, 0, 0);
        for (size_t i = 0; i < sizeof pixel && k; i++) {
            int more = k == 1   ? 1
                       : k == 2 ? (int)smoe_rng_below(&rng, 5) - 2
                                : 0,
                x = pixel[i] + more;
            pixel[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
        }
        for (size_t y = 0; y < SIDE && k == 3; y++)
            for (size_t x = 0; x < SIDE / 2; x++)
                for (size_t c = 0; c < 3; c++) {
                    uint8_t *a = &pixel[(y * SIDE + x) * 3 + c];
                    uint8_t *b = &pixel[(y * SIDE + SIDE - 1 - x) * 3 + c], swap = *a;
                    *a = *b;
                    *b = swap;
                }
        snprintf(name, sizeof name, "test/a/%c.png", 'a' + k);
        add_image(*state, "data", name, pixel);
    }
    smoe_survey a, b;
    smoe_dataset *train = look(*state, "data", "train", &a),
                 *test = look(*state, "data", "test", &b);
    size_t count;
    smoe_near *pair = smoe_survey_near(&count, &a, &b);
    assert_int_equal(count, 4);
    static const uint32_t expected[4][2] = {{0, 0}, {3, 1}, {6, 2}, {12, 4}};
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(pair[k].a, expected[k][0]);
        assert_int_equal(pair[k].b, expected[k][1]);
    }
    assert_true(pair[0].difference == 0 && pair[3].difference == 0);
    assert_true(pair[1].difference > 0.5 && pair[1].difference <= 1);
    free(pair);
    smoe_survey_free(&a);
    smoe_survey_free(&b);
    smoe_dataset_free(train);
    smoe_dataset_free(test);
}

/* However many images are damaged, the others are reported. */
static void damage(void **state) {
    uint8_t pixel[SIDE * SIDE * 3];
    char path[SCRATCH_PATH];
    blocks(pixel, 1);
    add_image(*state, "data", "train/a/1.png", pixel);
    add_image(*state, "data", "train/b/1.png", pixel);
    const datafile bad[] = {{"train/a/2.png", "x", 1}, {"train/b/2.jpg", "", 0}};
    datafiles_tree(scratch_path(*state, path, "data"), bad, 2);
    smoe_survey s;
    smoe_dataset *set = look(*state, "data", "train", &s);
    assert_int_equal(s.images, 2);
    assert_int_equal(smoe_dataset_found(set)->left_out, 2);
    smoe_survey_free(&s);
    smoe_dataset_free(set);
}

enum { PASSES = 8 };

typedef struct heard {
    const char *what[PASSES];
    size_t passes, last;
} heard;

static void on_image(void *user, size_t done, size_t all, const char *what) {
    heard *h = user;
    if (!all) return;
    if (h->passes < PASSES && done <= h->last) h->what[h->passes++] = what;
    h->last = done < all ? done : SIZE_MAX;
}

/* The images of a split are gone through more than once: each time the progress has other words. */
static void passes(void **state) {
    uint8_t pixel[SIDE * SIDE * 3];
    char path[SCRATCH_PATH];
    heard h = {.last = SIZE_MAX};
    smoe_scan scan = {.show = on_image, .user = &h};
    smoe_dataset *set;
    smoe_survey s;
    int threads = smoe_threads();
    blocks(pixel, 1);
    add_image(*state, "data", "train/a/1.png", pixel);
    add_image(*state, "data", "train/b/1.png", pixel);
    smoe_spec spec =
        datafiles_spec(SMOE_SOURCE_FOLDER, scratch_path(*state, path, "data"), SIDE, 3);
    smoe_threads_set(1); /* the one that reports */
    assert_int_equal(smoe_survey_open(&set, &spec, "train", &scan, NULL), 0);
    assert_int_equal(smoe_survey_of(&s, set, &scan, NULL), 0);
    smoe_threads_set(threads);
    assert_in_range(h.passes, 2, PASSES - 1);
    for (size_t i = 0; i < h.passes; i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(h.what[i], h.what[k]);
    smoe_survey_free(&s);
    smoe_dataset_free(set);
}

int main(void) {
#define CASE(f) unit_test_with(f, scratch)
    const struct CMUnitTest tests[] = {CASE(statistics), CASE(near_duplicates), CASE(damage),
                                       CASE(passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
