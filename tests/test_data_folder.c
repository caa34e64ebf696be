/* image-folder in directories and archives: what is read, in which order, and what is refused how.
 */
#include "data/dataset.h"
#include "datafiles.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { FILES = 9, SIDE = 16 };

/* The sample: two classes whose paths sort otherwise than their names ('-' comes before '/'), all
 * kinds of endings and sizes, and what must be passed over. */
typedef struct fixture {
    scratch dir;
    datafile file[FILES + 4];
    size_t count; /* of them, images and litter */
} fixture;

static datafile picture(const char *name, size_t width, size_t height, size_t channels,
                        unsigned seed) {
    uint8_t *pixel = malloc(width * height * channels);
    datafile file = {.name = name};
    assert_non_null(pixel);
    datafiles_picture(pixel, width, height, channels, seed);
    bool png = strstr(name, ".png") || strstr(name, ".PNG");
    file.bytes = png ? datafiles_png(pixel, width, height, channels, &file.size)
                     : datafiles_jpeg(pixel, width, height, channels, &file.size);
    free(pixel);
    return file;
}

static int setup(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    scratch_make(&f->dir);
    const datafile made[FILES] = {
        picture("train/a-b/2.jpg", SIDE, SIDE, 3, 1),  picture("train/a-b/1.PNG", SIDE, SIDE, 3, 2),
        picture("train/a-b/10.jpeg", 40, 23, 3, 3),    picture("train/a/x.png", SIDE, SIDE, 1, 4),
        picture("train/a/y.JPG", 21, 33, 1, 5),        picture("test/a/t.png", SIDE, SIDE, 3, 6),
        picture("test/a-b/t.png", SIDE, SIDE, 3, 7),   picture("test/a-b/u.jpg", SIDE, SIDE, 3, 8),
        picture("train/a/long name.png", 17, 16, 3, 9)};
    memcpy(f->file, made, sizeof made);
    f->file[FILES] = (datafile){"README", strdup("hello"), 5};
    f->file[FILES + 1] = (datafile){"train/a/.DS_Store", strdup("x"), 1};
    f->file[FILES + 2] = (datafile){"train/a/Thumbs.db", strdup("x"), 1};
    f->file[FILES + 3] = (datafile){"__MACOSX/train/a/x.png", strdup("x"), 1};
    f->count = FILES + 4;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    scratch_remove(&f->dir);
    for (size_t i = 0; i < f->count; i++) free((void *)f->file[i].bytes);
    free(f);
    return 0;
}

/* The sample as a directory or archive of that name, below `above` ("" or "name/"). */
static void lay_out(const fixture *f, char path[SCRATCH_PATH], const char *name,
                    const char *above) {
    datafile file[FILES + 4];
    char renamed[FILES + 4][64];
    for (size_t i = 0; i < f->count; i++) {
        snprintf(renamed[i], sizeof renamed[i], "%s%s", above, f->file[i].name);
        file[i] = (datafile){renamed[i], f->file[i].bytes, f->file[i].size};
    }
    scratch_path(&f->dir, path, name);
    if (strchr(name, '.')) {
        datafiles_archive(path, file, f->count);
    } else {
        assert_int_equal(mkdir(path, 0777), 0);
        datafiles_tree(path, file, f->count);
    }
}

static smoe_dataset *open_set(const smoe_spec *spec, const char *split) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, spec, split, &err)) fail_msg("%s", err.text);
    return set;
}

static void read_image(const smoe_dataset *set, size_t i, real *pixels, int64_t *label) {
    real target[64];
    smoe_err err = {0};
    if (smoe_dataset_image(set, i, false, pixels, target, label, &err)) fail_msg("%s", err.text);
}

/* Every image and label of two sets alike. */
static void assert_sets_equal(const smoe_dataset *a, const smoe_dataset *b) {
    size_t n = a->size * a->size * a->channels;
    real *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_int_equal(smoe_dataset_images(a), smoe_dataset_images(b));
    for (size_t i = 0; i < smoe_dataset_images(a); i++) {
        int64_t p, q;
        read_image(a, i, x, &p);
        read_image(b, i, y, &q);
        assert_int_equal(p, q);
        assert_memory_equal(x, y, n * sizeof *x);
    }
    free(x);
    free(y);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void test_order_and_labels(void **state) {
    static const struct {
        const char *name;
        int64_t label;
    } expected[] = {{"train/a/long name.png", 0}, {"train/a/x.png", 0},     {"train/a/y.JPG", 0},
                    {"train/a-b/1.PNG", 1},       {"train/a-b/10.jpeg", 1}, {"train/a-b/2.jpg", 1}};
    char path[SCRATCH_PATH], buf[64];
    lay_out(*state, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 6);
    assert_int_equal(smoe_dataset_classes(set), 2);
    assert_false(smoe_dataset_endless(set));
    assert_string_equal(smoe_dataset_class_name(set, 0), "a");
    assert_string_equal(smoe_dataset_class_name(set, 1), "a-b");
    for (size_t i = 0; i < 6; i++) {
        real pixels[3 * SIDE * SIDE], target[2];
        int64_t label;
        assert_string_equal(smoe_dataset_image_name(set, i, buf, sizeof buf), expected[i].name);
        assert_int_equal(smoe_dataset_image(set, i, i % 2, pixels, target, &label, NULL), 0);
        assert_int_equal(label, expected[i].label);
        assert_true(target[label] == 1 && target[1 - label] == 0);
    }
    smoe_dataset_free(set);
}

/* train/a-b/1.PNG has the size asked for: its pixels come out as x/127.5 - 1, plane after plane. */
static void test_pixel_values(void **state) {
    char path[SCRATCH_PATH];
    uint8_t pixel[SIDE * SIDE * 3];
    real pixels[3 * SIDE * SIDE];
    int64_t label;
    lay_out(*state, path, "dir", "");
    datafiles_picture(pixel, SIDE, SIDE, 3, 2);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    read_image(set, 3, pixels, &label);
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < SIDE * SIDE; i++)
            assert_true(pixels[c * SIDE * SIDE + i] == (real)pixel[3 * i + c] / (real)127.5 - 1);
    smoe_dataset_free(set);
    spec.data.channels = 1; /* and as grey by luma */
    set = open_set(&spec, "train");
    read_image(set, 3, pixels, &label);
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        uint8_t grey = smoe_image_luma(pixel[3 * i], pixel[3 * i + 1], pixel[3 * i + 2]);
        assert_true(pixels[i] == (real)grey / (real)127.5 - 1);
    }
    smoe_dataset_free(set);
}

static void test_archives_equal_the_directory(void **state) {
    static const char *const name[] = {"a.tar", "a.tar.gz", "a.tgz", "a.zip",
                                       "b.tar", "c.zip",    "d.tar"};
    static const char *const above[] = {"", "", "", "", "./", "some-name/", "some-name/./"};
    char dir[SCRATCH_PATH], path[SCRATCH_PATH];
    lay_out(*state, dir, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, dir, SIDE, 3);
    for (int s = 0; s < 2; s++) {
        const char *split = s ? "test" : "train";
        smoe_dataset *from_dir = open_set(&spec, split);
        for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
            if (!s) lay_out(*state, path, name[k], above[k]);
            scratch_path(&((fixture *)*state)->dir, path, name[k]);
            smoe_spec other = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
            smoe_dataset *from_archive = open_set(&other, split);
            assert_sets_equal(from_dir, from_archive);
            smoe_dataset_free(from_archive);
        }
        smoe_dataset_free(from_dir);
    }
}

/* Names beyond ASCII, marked as UTF-8 in a .zip and a .tar of the pax kind, though the locale of
 * this program is C; those of what is passed over too. */
static void test_names_in_utf8(void **state) {
    static const char *const archive[] = {"u.zip", "u.tar", "u.tar.gz"};
    static const char one[] = "train/\u00e9t\u00e9/\u65e5\u672c.png";
    fixture *f = *state;
    char path[SCRATCH_PATH], buf[64];
    const datafile file[] = {{one, f->file[3].bytes, f->file[3].size},
                             {"train/a/x.png", f->file[3].bytes, f->file[3].size},
                             {"README-\u00fc.txt", "x", 1}};
    for (size_t k = 0; k < 3; k++) {
        datafiles_archive(scratch_path(&f->dir, path, archive[k]), file, 3);
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        smoe_dataset *set = open_set(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 2);
        assert_string_equal(smoe_dataset_image_name(set, 1, buf, sizeof buf), one);
        assert_string_equal(smoe_dataset_class_name(set, 1), "\u00e9t\u00e9");
        smoe_dataset_free(set);
    }
    size_t size; /* no UTF-8 any more, but still marked so */
    char *bytes = scratch_read(scratch_path(&f->dir, path, "u.zip"), &size);
    for (size_t i = 0; i + 1 < size; i++)
        if (!memcmp(bytes + i, "\u00e9", 2)) bytes[i + 1] = 't';
    scratch_write(path, bytes, size);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "member 0: its name is not the UTF-8", NULL);
    free(bytes);
}

/* The ways of keeping images do not show: decoded, as files in memory, and read again each time. */
static void test_ways_of_keeping(void **state) {
    char dir[SCRATCH_PATH], tar[SCRATCH_PATH];
    lay_out(*state, dir, "dir", "");
    lay_out(*state, tar, "a.tar", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, dir, 300, 3);
    smoe_dataset *decoded = open_set(&spec, "train"); /* 6 * 270 kB fit in 64 MiB */
    spec.data.cache_mb = 0;
    smoe_dataset *disk = open_set(&spec, "train");
    spec.data.cache_mb = 1; /* too little for the pixels, enough for the files */
    spec.data.path = tar;
    smoe_dataset *bytes = open_set(&spec, "train");
    assert_sets_equal(decoded, disk);
    assert_sets_equal(decoded, bytes);
    smoe_dataset_free(decoded);
    smoe_dataset_free(disk);
    smoe_dataset_free(bytes);
    spec.data.cache_mb = 0;
    datafiles_refused(&spec, "train", SMOE_USAGE, tar, "data.cache_mb (0)", "unpack", NULL);
}

/* val stands in for test, but not test for val; where both are there each is itself. */
static void test_split_names(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH], buf[64];
    lay_out(f, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    datafiles_refused(&spec, "val", SMOE_DATA, path, "no images in val/; it has train/, test/",
                      NULL);
    const datafile val[] = {{"val/a/v.png", f->file[5].bytes, f->file[5].size},
                            {"val/a-b/v.png", f->file[6].bytes, f->file[6].size}};
    datafiles_tree(path, val, 2);
    smoe_dataset *set = open_set(&spec, "val");
    assert_int_equal(smoe_dataset_images(set), 2);
    smoe_dataset_free(set);
    set = open_set(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 3);
    smoe_dataset_free(set);
    assert_int_equal(mkdir(scratch_path(&f->dir, path, "dir2"), 0777), 0);
    datafiles_tree(path, f->file, 5); /* train alone */
    datafiles_tree(path, val, 2);
    set = open_set(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 2);
    assert_string_equal(smoe_dataset_image_name(set, 0, buf, sizeof buf), "val/a/v.png");
    smoe_dataset_free(set);
    datafiles_refused(&spec, "valid", SMOE_USAGE, "no split 'valid'", NULL);
}

/* What is wrong with a split that nobody asked for is nobody's business: unlabelled images, another
 * class, files that are none. It is told when it is asked for. */
static void test_other_splits(void **state) {
    fixture *f = *state;
    static const char *const name[] = {"dir", "a.zip"};
    char path[SCRATCH_PATH];
    for (size_t k = 0; k < 2; k++) {
        datafile file[] = {f->file[0],
                           f->file[3],
                           {"val/a/v.png", f->file[5].bytes, f->file[5].size},
                           {"val/a-b/v.png", f->file[6].bytes, f->file[6].size},
                           {"test/1.png", f->file[6].bytes, f->file[6].size},
                           {"test/zebra/notes.txt", "x", 1}};
        scratch_path(&f->dir, path, name[k]);
        if (k) {
            datafiles_archive(path, file, 6);
        } else {
            assert_int_equal(mkdir(path, 0777), 0);
            datafiles_tree(path, file, 6);
        }
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        spec.eval.split = "val";
        for (int split = 0; split < 2; split++) {
            smoe_dataset *set = open_set(&spec, split ? "val" : "train");
            assert_int_equal(smoe_dataset_images(set), 2);
            assert_int_equal(smoe_dataset_classes(set), 2);
            smoe_dataset_free(set);
        }
        datafiles_refused(&spec, "test", SMOE_DATA, path, "foreign f", NULL);
        spec.eval.split = "test";
        datafiles_refused(&spec, "train", SMOE_DATA, path, "zebra is in test/, but not in train/",
                          NULL);
    }
    /* the stand-in of a good split may be as bad; that of none may not */
    scratch_path(&f->dir, path, "dir2");
    assert_int_equal(mkdir(path, 0777), 0);
    const datafile good[] = {f->file[0], f->file[3], f->file[5], f->file[6]};
    const datafile bad = {"val/labels.txt", "x", 1};
    datafiles_tree(path, good, 4);
    datafiles_tree(path, &bad, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    smoe_dataset_free(open_set(&spec, "test"));
    scratch_path(&f->dir, path, "dir3");
    assert_int_equal(mkdir(path, 0777), 0);
    const datafile stand_in[] = {f->file[0],
                                 f->file[3],
                                 {"val/a/v.png", f->file[5].bytes, f->file[5].size},
                                 {"val/a-b/v.png", f->file[6].bytes, f->file[6].size},
                                 bad};
    datafiles_tree(path, stand_in, 5);
    spec.data.path = path;
    datafiles_refused(&spec, "test", SMOE_DATA, path, "val/labels.txt", "foreign file", NULL);
}

/* A class is named as text in every report; an image is shown there as far as it can be. */
static void test_names_that_are_no_text(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH], buf[64];
    lay_out(f, path, "dir", "");
    const datafile image = {"train/a/0\xff.png", f->file[3].bytes, f->file[3].size};
    datafiles_tree(path, &image, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    assert_string_equal(smoe_dataset_image_name(set, 0, buf, sizeof buf), "train/a/0?.png");
    smoe_dataset_free(set);
    const datafile class = {"train/b\xff\xfe/0.png", f->file[3].bytes, f->file[3].size};
    datafiles_tree(path, &class, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "the class b\\xff\\xfe is not printable",
                      NULL);
}

/* Links in the user's own directories are followed. */
static void test_links_in_directories(void **state) {
    char path[SCRATCH_PATH], link_path[SCRATCH_PATH];
    lay_out(*state, path, "dir", "");
    assert_int_equal(symlink(path, scratch_path(&((fixture *)*state)->dir, link_path, "link")), 0);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, link_path, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 6);
    smoe_dataset_free(set);
}

static void test_more_classes_than_there_are(void **state) {
    char path[SCRATCH_PATH];
    lay_out(*state, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    spec.data.classes = 7;
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_classes(set), 7);
    assert_string_equal(smoe_dataset_class_name(set, 6), "(unnamed)");
    smoe_dataset_free(set);
    spec.data.classes = 1;
    datafiles_refused(&spec, "train", SMOE_USAGE, "data.classes: 1", path, "2 classes", NULL);
}

/* ---- data.limit ------------------------------------------------------------------------------ */

/* Three classes of 5, 1 and 4 images in turns. A limit of 6: one each, then two of the classes with
 * more left have one more each, and the last goes to the first of them: 3, 1, 2. */
static void test_select(void **state) {
    (void)state;
    static const uint32_t label[] = {0, 1, 2, 0, 2, 0, 2, 0, 2, 0};
    static const struct {
        size_t limit;
        const char *keep;
    } cases[] = {{0, "1111111111"}, {10, "1111111111"}, {99, "1111111111"}, {6, "1111110000"},
                 {7, "1111111000"}, {3, "1110000000"},  {2, "1100000000"},  {1, "1000000000"},
                 {8, "1111111100"}, {9, "1111111110"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bool keep[10];
        char text[11] = "";
        assert_int_equal(smoe_dataset_select(keep, label, 10, 3, cases[k].limit, NULL), 0);
        for (int i = 0; i < 10; i++) text[i] = keep[i] ? '1' : '0';
        assert_string_equal(text, cases[k].keep);
    }
}

static void test_limit(void **state) {
    static const char *const expected[] = {"train/a/long name.png", "train/a/x.png",
                                           "train/a-b/1.PNG"};
    char path[SCRATCH_PATH], buf[64];
    for (int archive = 0; archive < 2; archive++) {
        lay_out(*state, path, archive ? "a.tgz" : "dir", "");
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        spec.data.limit = 3;
        smoe_dataset *set = open_set(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 3);
        for (size_t i = 0; i < 3; i++)
            assert_string_equal(smoe_dataset_image_name(set, i, buf, sizeof buf), expected[i]);
        smoe_dataset_free(set);
    }
}

/* ---- what is refused, and how ---------------------------------------------------------------- */

static void test_no_data(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH];
    smoe_spec spec =
        datafiles_spec(SMOE_SOURCE_FOLDER, scratch_path(&f->dir, path, "none"), SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
    spec.data.path = NULL;
    datafiles_refused(&spec, "train", SMOE_USAGE, "data.path", NULL);
    spec.data.path = path;
    assert_int_equal(mkdir(path, 0777), 0);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "no SPLIT/CLASS/ folders", NULL);
    datafiles_tree(path, &f->file[3], 1); /* train alone */
    datafiles_refused(&spec, "test", SMOE_DATA, path, "no images in test/ or val/; it has train/",
                      NULL);
    scratch_write(scratch_path(&f->dir, path, "plain.txt"), "x", 1);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "neither a directory nor an archive", NULL);
    scratch_write(scratch_path(&f->dir, path, "empty.tar"), "", 0);
    datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
    scratch_write(scratch_path(&f->dir, path, "text.zip"), "this is no archive", 18);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte", NULL);
}

/* One more file makes the sample bad, as a directory and as an archive. */
static void refused_with(fixture *f, datafile extra, const char *word, const char *more) {
    static int number;
    char path[SCRATCH_PATH], name[32];
    f->file[f->count++] = extra;
    for (int k = 0; k < 2; k++) {
        snprintf(name, sizeof name, k ? "bad%d.zip" : "bad%d", number++);
        lay_out(f, path, name, "");
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        datafiles_refused(&spec, "train", SMOE_DATA, path, word, more, NULL);
    }
    f->count--;
}

static void test_foreign_files(void **state) {
    fixture *f = *state;
    f->count = FILES; /* room for one more; the litter has been tested */
    for (size_t i = FILES; i < FILES + 4; i++) free((void *)f->file[i].bytes);
    refused_with(f, (datafile){"train/a/notes.txt", "x", 1}, "train/a/notes.txt", "foreign file");
    refused_with(f, (datafile){"train/labels.png", "x", 1}, "train/labels.png", "foreign file");
    refused_with(f, (datafile){"train/a/deep/x.png", "x", 1}, "train/a/deep", "foreign f");
    refused_with(f, (datafile){"train/a/z.gif.jpg", "GIF89a..", 8}, "train/a/z.gif.jpg",
                 "foreign file: neither a JPEG nor a PNG");
    refused_with(f, (datafile){"train/a/zero.jpg", "", 0}, "train/a/zero.jpg", "an empty file");
    refused_with(f, (datafile){"train/a/lie.jpg", f->file[3].bytes, f->file[3].size},
                 "train/a/lie.jpg", "mislabelled");
    refused_with(f, (datafile){"train/a/lie.png", f->file[0].bytes, f->file[0].size},
                 "train/a/lie.png", "mislabelled");
    refused_with(f, (datafile){"train/a/cut.jpg", f->file[0].bytes, f->file[0].size - 40},
                 "train/a/cut.jpg", "damaged JPEG");
    refused_with(f, (datafile){"train/a/cut.png", f->file[3].bytes, f->file[3].size - 20},
                 "train/a/cut.png", "damaged PNG");
    refused_with(f, (datafile){"train/empty/", NULL, 0}, "train/empty/", "empty class");
    refused_with(f, (datafile){"test/zebra/z.png", f->file[3].bytes, f->file[3].size},
                 "the class zebra is in test/", "but not in train/");
    refused_with(f, (datafile){"more/train/a/x.png", f->file[3].bytes, f->file[3].size},
                 "more/train", "a second set of splits");
}

/* Of several bad files the first in file order is named, whatever the threads. */
static void test_first_failure_is_reported(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH];
    lay_out(f, path, "dir", "");
    const datafile bad[] = {
        {"train/a-b/0.png", "x", 1}, {"train/a-b/9.png", "x", 1}, {"train/a/zz.png", "x", 1}};
    datafiles_tree(path, bad, 3);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    for (int trial = 0; trial < 20; trial++)
        datafiles_refused(&spec, "train", SMOE_DATA, "train/a/zz.png", NULL);
}

typedef struct trick {
    const char *name;
    unsigned type;
    const char *link; /* hard link to, or symbolic link to */
    const char *word;
} trick;

static void test_tricks_in_archives(void **state) {
    static const trick tricks[] = {
        {"../train/a/x.png", AE_IFREG, NULL, "'..' in the name"},
        {"train/../../x.png", AE_IFREG, NULL, "'..' in the name"},
        {"/train/a/x.png", AE_IFREG, NULL, "an absolute name"},
        {"train/a/x\n.png", AE_IFREG, NULL, "a control character in the name"},
        {"train//x.png", AE_IFREG, NULL, "an empty folder name"},
        {"train/a/x.png", AE_IFLNK, "/etc/passwd", "a link or device"},
        {"train/a/x.png", AE_IFIFO, NULL, "a link or device"},
        {"train/a/x.png", AE_IFREG, "train/a/y.png", "a hard link"},
    };
    fixture *f = *state;
    char path[SCRATCH_PATH];
    scratch_path(&f->dir, path, "t.tar");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    for (size_t k = 0; k < sizeof tricks / sizeof *tricks; k++) {
        const trick *t = &tricks[k];
        struct archive *a = archive_write_new();
        struct archive_entry *entry = archive_entry_new();
        archive_write_set_format_ustar(a);
        assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
        archive_entry_set_pathname(entry, t->name);
        archive_entry_set_filetype(entry, t->type);
        archive_entry_set_size(entry, 0);
        if (t->link && t->type == AE_IFLNK) archive_entry_set_symlink(entry, t->link);
        if (t->link && t->type == AE_IFREG) archive_entry_set_hardlink(entry, t->link);
        assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
        archive_entry_free(entry);
        archive_write_close(a);
        archive_write_free(a);
        datafiles_refused(&spec, "train", SMOE_DATA, path, t->word, NULL);
    }
}

/* A tar header written by hand that claims 64 MiB and a byte, with nothing behind it. */
static void test_huge_member(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH], header[1536] = "train/a/x.png";
    unsigned sum = 0;
    memcpy(header + 100, "0000644", 8);
    memcpy(header + 108, "0000000\0000000000", 16);
    snprintf(header + 124, 12, "%011o", (64u << 20) + 1);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    scratch_write(scratch_path(&f->dir, path, "huge.tar"), header, sizeof header);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    spec.data.cache_mb = 1024;
    datafiles_refused(&spec, "train", SMOE_DATA, path, "train/a/x.png",
                      "claims 67108865 bytes, at most 67108864", NULL);
}

static void test_twice_in_the_archive(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH];
    const datafile twice[] = {f->file[3], f->file[4], f->file[3]};
    datafiles_archive(scratch_path(&f->dir, path, "twice.tar"), twice, 3);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "train/a/x.png: twice", NULL);
}

/* Cut anywhere, an archive is refused, naming it. A plain tar cut between two members looks whole
 * to every reader up to there: it may be accepted only with fewer images. */
static void test_cut_archives(void **state) {
    static const char *const name[] = {"a.tar", "a.tar.gz", "a.zip"};
    fixture *f = *state;
    for (size_t k = 0; k < 3; k++) {
        char path[SCRATCH_PATH];
        size_t size, accepted = 0;
        lay_out(f, path, name[k], "");
        char *whole = scratch_read(path, &size);
        size_t end = k ? size - 1 : size - 10240; /* a tar's end is filled up with zeros */
        for (size_t n = 1; n < end; n += 97) {
            scratch_write(path, whole, n);
            smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
            smoe_dataset *set;
            smoe_err err = {0};
            if (!smoe_dataset_open(&set, &spec, "train", &err)) {
                assert_int_equal(k, 0);
                assert_int_equal(n % 512, 0);
                accepted++;
            } else {
                assert_int_equal(err.code, SMOE_DATA);
                assert_non_null(strstr(err.text, path));
            }
            smoe_dataset_free(set);
        }
        assert_in_range(accepted, 0, 8);
        free(whole);
    }
}

/* One bit anywhere in the data of a .tar.gz, its checksum and length included: refused, though most
 * such bits leave a readable tar, of other images or fewer. The header before it may hold a name
 * and a time that mean nothing. */
static void test_flipped_gzip(void **state) {
    enum { GZIP_HEADER = 10 };
    fixture *f = *state;
    char path[SCRATCH_PATH];
    size_t size;
    lay_out(f, path, "a.tar.gz", "");
    char *bytes = scratch_read(path, &size);
    for (size_t n = GZIP_HEADER; n < size; n += n < size - 8 ? 31 : 1) {
        bytes[n] ^= (char)(1 << n % 8);
        scratch_write(path, bytes, size);
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
        bytes[n] ^= (char)(1 << n % 8);
    }
    bytes[size - 8] ^= 1;
    scratch_write(path, bytes, size);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "damaged gzip data near byte",
                      "incorrect data check", NULL);
    free(bytes);
}

/* What cannot be known at opening reaches the caller of the loader, with the file's name, each time
 * it asks. */
static void test_damage_found_late(void **state) {
    fixture *f = *state;
    char path[SCRATCH_PATH];
    lay_out(f, path, "dir", "");
    const datafile cut = {"train/a/cut.png", f->file[3].bytes, f->file[3].size - 20};
    datafiles_tree(path, &cut, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    spec.data.cache_mb = 0; /* headers are checked, pixels are not */
    smoe_dataset *set = open_set(&spec, "train");
    for (int train = 0; train < 2; train++) {
        smoe_loader_options options = {.batch_size = 2, .train = train};
        smoe_loader *loader;
        smoe_batch batch;
        smoe_err err = {0};
        int status = 1;
        assert_int_equal(smoe_loader_open(&loader, set, &spec, &options, &err), 0);
        for (int i = 0; i < 20 && status == 1; i++) status = smoe_loader_next(loader, &batch, &err);
        assert_int_equal(status, -1);
        assert_int_equal(err.code, SMOE_DATA);
        assert_non_null(strstr(err.text, "dir/train/a/cut.png: damaged PNG image"));
        memset(&err, 0, sizeof err);
        assert_int_equal(smoe_loader_next(loader, &batch, &err), -1);
        assert_non_null(strstr(err.text, "train/a/cut.png"));
        smoe_loader_free(loader);
    }
    smoe_dataset_free(set);
}

/* Random boxes want the originals: those larger than image_size stay as files, and boxes come out
 * the same from memory and from disk; originals of the very size are kept decoded. Neither shows in
 * what a box is. */
static void test_random_boxes(void **state) {
    char path[SCRATCH_PATH];
    lay_out(*state, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, 12, 3);
    spec.data.augment.crop = SMOE_CROP_INCEPTION;
    smoe_dataset *memory = open_set(&spec, "train");
    spec.data.cache_mb = 0;
    smoe_dataset *disk = open_set(&spec, "train");
    smoe_image a = {0}, b = {0}, work = {0};
    size_t differ = 0;
    for (uint64_t k = 0; k < 60; k++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, k), same = rng;
        assert_int_equal(memory->type->image(memory, k % 6, &rng, &a, &work, NULL), 0);
        assert_int_equal(disk->type->image(disk, k % 6, &same, &b, &work, NULL), 0);
        assert_memory_equal(a.pixel, b.pixel, 12 * 12 * 3);
        assert_int_equal(disk->type->image(disk, k % 6, NULL, &b, &work, NULL), 0);
        differ += memcmp(a.pixel, b.pixel, 12 * 12 * 3) != 0;
    }
    assert_true(differ > 55); /* boxes they are, not the central square */
    smoe_image_free(&a);
    smoe_image_free(&b);
    smoe_image_free(&work);
    smoe_dataset_free(memory);
    smoe_dataset_free(disk);
}

/* The real archive, where it is at hand. */
static void test_cifar10_jpeg(void **state) {
    (void)state;
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, "cifar10-jpeg.tar.gz", 32, 3);
    char *path = NULL;
    if (smoe_spec_data_path(&spec, &path, NULL)) {
        print_message("cifar10-jpeg.tar.gz is in no folder of SMOE_DATA: not tried\n");
        skip();
    }
    free(path);
    smoe_dataset *set = open_set(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 10000);
    assert_int_equal(smoe_dataset_classes(set), 10);
    assert_string_equal(smoe_dataset_class_name(set, 6), "frog");
    for (size_t i = 0; i < 10000; i++) assert_int_equal(smoe_dataset_label(set, i), i / 1000);
    smoe_dataset_free(set);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_order_and_labels),
        CASE(test_pixel_values),
        CASE(test_archives_equal_the_directory),
        CASE(test_names_in_utf8),
        CASE(test_ways_of_keeping),
        CASE(test_split_names),
        CASE(test_other_splits),
        CASE(test_names_that_are_no_text),
        CASE(test_links_in_directories),
        CASE(test_more_classes_than_there_are),
        CASE(test_select),
        CASE(test_limit),
        CASE(test_no_data),
        CASE(test_foreign_files),
        CASE(test_first_failure_is_reported),
        CASE(test_tricks_in_archives),
        CASE(test_huge_member),
        CASE(test_twice_in_the_archive),
        CASE(test_cut_archives),
        CASE(test_flipped_gzip),
        CASE(test_damage_found_late),
        CASE(test_random_boxes),
        cmocka_unit_test(test_cifar10_jpeg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
