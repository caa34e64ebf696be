/* image-folder in directories and archives: what is read, and in what order. */
#include "folders.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is read ---------------------------------------------------------------------------- */

static void test_order_and_labels(void **state) {
    static const struct {
        const char *name;
        int64_t label;
    } expected[] = {{"train/a/long name.png", 0}, {"train/a/x.png", 0},     {"train/a/y.JPG", 0},
                    {"train/a-b/1.PNG", 1},       {"train/a-b/10.jpeg", 1}, {"train/a-b/2.jpg", 1}};
    char path[SCRATCH_PATH], buf[64];
    folders_lay_out(*state, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 6);
    assert_int_equal(smoe_dataset_classes(set), 2);
    assert_false(smoe_dataset_endless(set));
    assert_string_equal(smoe_dataset_class_name(set, 0), "a");
    assert_string_equal(smoe_dataset_class_name(set, 1), "a-b");
    for (size_t i = 0; i < 6; i++) {
        real pixels[3 * FOLDERS_SIDE * FOLDERS_SIDE], target[2];
        int64_t label;
        assert_string_equal(smoe_dataset_image_name(set, i, buf, sizeof buf), expected[i].name);
        assert_int_equal(smoe_dataset_image(set, i, i % 2, pixels, target, &label, NULL), 0);
        assert_int_equal(label, expected[i].label);
        assert_true(target[label] == 1 && target[1 - label] == 0);
    }
    smoe_dataset_free(set);
}

static smoe_dataset *reopened(const smoe_spec *spec, smoe_scan *scan) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, spec, "train", scan, &err)) fail_msg("%s", err.text);
    return set;
}

/* With smoe_datasets a set that was freed is opened again without its files, as long as all
 * that says what it is is equal, and it was not changed. */
static void test_reuse(void **state) {
    char path[SCRATCH_PATH], away[SCRATCH_PATH + 16];
    real before[3 * FOLDERS_SIDE * FOLDERS_SIDE], after[3 * FOLDERS_SIDE * FOLDERS_SIDE];
    int64_t label;
    folders_lay_out(*state, path, "dir", "");
    snprintf(away, sizeof away, "%s/train/a/x.png", path);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_datasets kept = {0};
    smoe_scan scan = {.kept = &kept};
    smoe_dataset *set = reopened(&spec, &scan), *first = set;
    folders_image(set, 1, before, &label);
    smoe_dataset_free(set);
    assert_int_equal(unlink(away), 0);
    set = reopened(&spec, &scan);
    assert_ptr_equal(set, first);
    assert_int_equal(smoe_dataset_images(set), 6);
    folders_image(set, 1, after, &label);
    assert_memory_equal(before, after, sizeof before);
    smoe_dataset *second = reopened(&spec, &scan); /* the first one is in use */
    assert_ptr_not_equal(second, first);
    assert_int_equal(smoe_dataset_images(second), 5);
    smoe_dataset_free(second);
    smoe_dataset_free(set);
    assert_int_equal(smoe_dataset_list(&second, &spec, "train", &scan, NULL), 0);
    assert_int_equal(smoe_dataset_images(second), 5); /* a listing is none of them */
    smoe_dataset_free(second);
    set = reopened(&spec, &scan);
    assert_ptr_equal(set, first);
    smoe_dataset_free(set);
    for (int change = 0; change < 3; change++) {
        smoe_spec other = spec;
        if (change == 0) other.data.limit = 4;
        if (change == 1) other.data.resize = SMOE_RESIZE_BICUBIC;
        if (change == 2) other.data.augment.flip = true;
        smoe_dataset *changed = reopened(&other, &scan);
        assert_ptr_not_equal(changed, first);
        assert_int_equal(smoe_dataset_images(changed), change ? 5 : 4);
        smoe_dataset_free(changed);
    }
    set = reopened(&spec, &scan);
    char *others[] = {"a-b", "z"};
    assert_int_equal(smoe_dataset_align(set, others, 2, NULL), 0);
    smoe_dataset_free(set);
    set = reopened(&spec, &scan);
    assert_string_equal(smoe_dataset_class_name(set, 0), "a");
    smoe_dataset_free(set);
    smoe_datasets_close(&kept);
    set = reopened(&spec, NULL);
    assert_int_equal(smoe_dataset_images(set), 5);
    smoe_dataset_free(set);
}

/* train/a-b/1.PNG has the size requested: its pixels come out as x/127.5 - 1, plane after plane. */
static void test_pixel_values(void **state) {
    char path[SCRATCH_PATH];
    uint8_t pixel[FOLDERS_SIDE * FOLDERS_SIDE * 3];
    real pixels[3 * FOLDERS_SIDE * FOLDERS_SIDE];
    int64_t label;
    folders_lay_out(*state, path, "dir", "");
    datafiles_picture(pixel, FOLDERS_SIDE, FOLDERS_SIDE, 3, 2);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_dataset *set = folders_open(&spec, "train");
    folders_image(set, 3, pixels, &label);
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < FOLDERS_SIDE * FOLDERS_SIDE; i++)
            assert_true(pixels[c * FOLDERS_SIDE * FOLDERS_SIDE + i] ==
                        (real)pixel[3 * i + c] / (real)127.5 - 1);
    smoe_dataset_free(set);
    spec.data.channels = 1; /* and as grey, by luma */
    set = folders_open(&spec, "train");
    folders_image(set, 3, pixels, &label);
    for (size_t i = 0; i < FOLDERS_SIDE * FOLDERS_SIDE; i++) {
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
    folders_lay_out(*state, dir, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, dir, FOLDERS_SIDE, 3);
    for (int s = 0; s < 2; s++) {
        const char *split = s ? "test" : "train";
        smoe_dataset *from_dir = folders_open(&spec, split);
        for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
            if (!s) folders_lay_out(*state, path, name[k], above[k]);
            scratch_path(&((folders *)*state)->dir, path, name[k]);
            smoe_spec other = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
            smoe_dataset *from_archive = folders_open(&other, split);
            folders_assert_equal(from_dir, from_archive);
            smoe_dataset_free(from_archive);
        }
        smoe_dataset_free(from_dir);
    }
}

/* A comment of any length at the end of a zip, even one that looks like an end itself. */
static void test_zip_with_a_comment(void **state) {
    static const size_t length[] = {1, 16000, 17000, 65535};
    folders *f = *state;
    char dir[SCRATCH_PATH], path[SCRATCH_PATH];
    size_t size;
    folders_lay_out(f, dir, "dir", "");
    folders_lay_out(f, path, "a.zip", "");
    char *bytes = scratch_read(path, &size);
    bytes = realloc(bytes, size + 65535);
    assert_non_null(bytes);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, dir, FOLDERS_SIDE, 3);
    smoe_spec other = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_dataset *from_dir = folders_open(&spec, "train");
    for (size_t i = 0; i < 65535; i++) bytes[size + i] = "PK\5\6"[i % 4];
    for (size_t k = 0; k < sizeof length / sizeof *length; k++) {
        bytes[size - 2] = (char)(length[k] & 255);
        bytes[size - 1] = (char)(length[k] >> 8);
        scratch_write(path, bytes, size + length[k]);
        smoe_dataset *from_zip = folders_open(&other, "train");
        folders_assert_equal(from_dir, from_zip);
        smoe_dataset_free(from_zip);
    }
    smoe_dataset_free(from_dir);
    free(bytes);
}

/* No folder is too deep. */
static void test_deep_folders(void **state) {
    static const char deep[] = "train/a/2/3/4/5/6/7/8/9/10/11/12/x.png";
    folders *f = *state;
    char path[SCRATCH_PATH], buf[64];
    const datafile file[] = {{deep, f->file[3].bytes, f->file[3].size},
                             {"train/a/x.png", f->file[3].bytes, f->file[3].size}};
    for (int k = 0; k < 2; k++) {
        scratch_path(&f->dir, path, k ? "deep.tar" : "deep");
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
        if (k) datafiles_archive(path, file, 2);
        if (!k) assert_int_equal(mkdir(path, 0777), 0);
        if (!k) datafiles_tree(path, file, 2);
        smoe_dataset *set = folders_open(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 2);
        assert_string_equal(smoe_dataset_image_name(set, 1, buf, sizeof buf), deep);
        smoe_dataset_free(set);
    }
}

/* Names beyond ASCII, marked as UTF-8 in a .zip and a pax .tar, although the locale of this
 * program is C; names of ignored files too. */
static void test_names_in_utf8(void **state) {
    static const char *const archive[] = {"u.zip", "u.tar", "u.tar.gz"};
    static const char one[] = "train/\u00e9t\u00e9/\u65e5\u672c.png";
    folders *f = *state;
    char path[SCRATCH_PATH], buf[64];
    const datafile file[] = {{one, f->file[3].bytes, f->file[3].size},
                             {"train/a/x.png", f->file[3].bytes, f->file[3].size},
                             {"README-\u00fc.txt", "x", 1}};
    for (size_t k = 0; k < 3; k++) {
        datafiles_archive(scratch_path(&f->dir, path, archive[k]), file, 3);
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
        smoe_dataset *set = folders_open(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 2);
        assert_string_equal(smoe_dataset_image_name(set, 1, buf, sizeof buf), one);
        assert_string_equal(smoe_dataset_class_name(set, 1), "\u00e9t\u00e9");
        smoe_dataset_free(set);
    }
    size_t size; /* no longer UTF-8, but still marked so */
    char *bytes = scratch_read(scratch_path(&f->dir, path, "u.zip"), &size);
    for (size_t i = 0; i + 1 < size; i++)
        if (!memcmp(bytes + i, "\u00e9", 2)) bytes[i + 1] = 't';
    scratch_write(path, bytes, size);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "member 0: its name is marked as UTF-8",
                      NULL);
    free(bytes);
}

/* The ways of keeping images give the same pixels: decoded, as files in memory, and read again
 * each time. */
static void test_ways_of_keeping(void **state) {
    char dir[SCRATCH_PATH], tar[SCRATCH_PATH];
    folders_lay_out(*state, dir, "dir", "");
    folders_lay_out(*state, tar, "a.tgz", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, dir, 300, 3);
    smoe_dataset *decoded = folders_open(&spec, "train"); /* 6 * 270 kB fit in 64 MiB */
    spec.data.cache_mb = 0;
    smoe_dataset *disk = folders_open(&spec, "train");
    spec.data.cache_mb = 1; /* too little for the pixels, enough for the files */
    spec.data.path = tar;
    smoe_dataset *bytes = folders_open(&spec, "train");
    folders_assert_equal(decoded, disk);
    folders_assert_equal(decoded, bytes);
    smoe_dataset_free(decoded);
    smoe_dataset_free(disk);
    smoe_dataset_free(bytes);
    spec.data.cache_mb = 0; /* members of a plain tar are read from their place in the file */
    folders_lay_out(*state, tar, "a.tar", "");
    bytes = folders_open(&spec, "train");
    disk = folders_open(&(smoe_spec){.data = (spec.data.path = dir, spec.data)}, "train");
    folders_assert_equal(bytes, disk);
    smoe_dataset_free(bytes);
    smoe_dataset_free(disk);
    folders_lay_out(*state, tar, "a.tgz", "");
    spec.data.path = tar;
    datafiles_refused(&spec, "train", SMOE_USAGE, tar, "data.cache_mb (0)", "unpack", NULL);
}

/* val is used if test is missing, but not test if val is missing; if both exist each is itself. */
static void test_split_names(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH], buf[64];
    folders_lay_out(f, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    datafiles_refused(&spec, "val", SMOE_DATA, path, "no images in val/; it has train/, test/",
                      NULL);
    const datafile val[] = {{"val/a/v.png", f->file[5].bytes, f->file[5].size},
                            {"val/a-b/v.png", f->file[6].bytes, f->file[6].size}};
    datafiles_tree(path, val, 2);
    smoe_dataset *set = folders_open(&spec, "val");
    assert_int_equal(smoe_dataset_images(set), 2);
    smoe_dataset_free(set);
    set = folders_open(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 3);
    smoe_dataset_free(set);
    assert_int_equal(mkdir(scratch_path(&f->dir, path, "dir2"), 0777), 0);
    datafiles_tree(path, f->file, 5); /* train only */
    datafiles_tree(path, val, 2);
    set = folders_open(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 2);
    assert_string_equal(smoe_dataset_image_name(set, 0, buf, sizeof buf), "val/a/v.png");
    smoe_dataset_free(set);
    datafiles_refused(&spec, "valid", SMOE_USAGE, "no split 'valid'", NULL);
}

/* Other common words for a split name that split; two folders for one split are refused. */
static void test_split_spellings(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH], buf[64];
    const datafile *a = &f->file[5], *b = &f->file[6];
    const datafile tree[] = {{"training/a/1.png", a->bytes, a->size},
                             {"training/b/2.png", b->bytes, b->size},
                             {"valid/a/3.png", b->bytes, b->size},
                             {"valid/b/4.png", a->bytes, a->size},
                             {"validation/a/5.png", a->bytes, a->size}};
    assert_int_equal(mkdir(scratch_path(&f->dir, path, "words"), 0777), 0);
    datafiles_tree(path, tree, 4);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    static const char *const split[] = {"train", "test", "val"};
    for (size_t k = 0; k < 3; k++) {
        smoe_dataset *set = folders_open(&spec, split[k]);
        assert_int_equal(smoe_dataset_images(set), 2);
        assert_string_equal(smoe_dataset_image_name(set, 1, buf, sizeof buf),
                            k ? "valid/b/4.png" : "training/b/2.png");
        smoe_dataset_free(set);
    }
    datafiles_tree(path, tree + 4, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "a second folder for the split val", NULL);
    /* an unknown layout: the message names what was found and what was expected */
    const datafile flat[] = {{"cats/1.png", a->bytes, a->size}, {"dogs/2.png", b->bytes, b->size}};
    assert_int_equal(mkdir(scratch_path(&f->dir, path, "flat"), 0777), 0);
    datafiles_tree(path, flat, 2);
    datafiles_refused(&spec, "train", SMOE_DATA, path,
                      "expected train/CLASS/IMAGE and test/CLASS/IMAGE", "found cats", "dogs",
                      NULL);
}

/* Mistakes in a split that is not used do not matter: unlabelled images, another class, files
 * that are not images. They are reported when the split is used. */
static void test_other_splits(void **state) {
    folders *f = *state;
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
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
        spec.eval.split = "val";
        for (int split = 0; split < 2; split++) {
            smoe_dataset *set = folders_open(&spec, split ? "val" : "train");
            assert_int_equal(smoe_dataset_images(set), 2);
            assert_int_equal(smoe_dataset_classes(set), 2);
            smoe_dataset_free(set);
        }
        datafiles_refused(&spec, "test", SMOE_DATA, path, "unexpected f", NULL);
        spec.eval.split = "test";
        datafiles_refused(&spec, "train", SMOE_DATA, path, "zebra is in test/, but not in train/",
                          NULL);
    }
    /* if test/ is good, a bad val/ does no harm; if val/ replaces a missing test/, it does */
    scratch_path(&f->dir, path, "dir2");
    assert_int_equal(mkdir(path, 0777), 0);
    const datafile good[] = {f->file[0], f->file[3], f->file[5], f->file[6]};
    const datafile bad = {"val/labels.txt", "x", 1};
    datafiles_tree(path, good, 4);
    datafiles_tree(path, &bad, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_dataset_free(folders_open(&spec, "test"));
    scratch_path(&f->dir, path, "dir3");
    assert_int_equal(mkdir(path, 0777), 0);
    const datafile stand_in[] = {f->file[0],
                                 f->file[3],
                                 {"val/a/v.png", f->file[5].bytes, f->file[5].size},
                                 {"val/a-b/v.png", f->file[6].bytes, f->file[6].size},
                                 bad};
    datafiles_tree(path, stand_in, 5);
    spec.data.path = path;
    datafiles_refused(&spec, "test", SMOE_DATA, path, "val/labels.txt", "unexpected file", NULL);
}

/* A class name must be text, as reports show it; an image name is shown as far as possible. */
static void test_names_that_are_no_text(void **state) {
    folders *f = *state;
    char path[SCRATCH_PATH], buf[64];
    folders_lay_out(f, path, "dir", "");
    const datafile image = {"train/a/0\xff.png", f->file[3].bytes, f->file[3].size};
    datafiles_tree(path, &image, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    smoe_dataset *set = folders_open(&spec, "train");
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
    folders_lay_out(*state, path, "dir", "");
    assert_int_equal(symlink(path, scratch_path(&((folders *)*state)->dir, link_path, "link")), 0);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, link_path, FOLDERS_SIDE, 3);
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 6);
    smoe_dataset_free(set);
}

static void test_more_classes_than_there_are(void **state) {
    char path[SCRATCH_PATH];
    folders_lay_out(*state, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
    spec.data.classes = 7;
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_classes(set), 7);
    assert_string_equal(smoe_dataset_class_name(set, 6), "(unnamed)");
    smoe_dataset_free(set);
    spec.data.classes = 1;
    datafiles_refused(&spec, "train", SMOE_USAGE, "data.classes: 1", path, "2 classes", NULL);
}

/* ---- data.limit ------------------------------------------------------------------------------ */

/* Three classes of 5, 1 and 4 images. A limit of 6: first one each; then each of the two classes
 * with more images has one more; the last goes to the first of them: 3, 1, 2. */
static void test_select(void **state) {
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
        smoe_dataset_select(keep, label, 10, 3, cases[k].limit);
        for (int i = 0; i < 10; i++) text[i] = keep[i] ? '1' : '0';
        assert_string_equal(text, cases[k].keep);
    }
}

static void test_limit(void **state) {
    static const char *const expected[] = {"train/a/long name.png", "train/a/x.png",
                                           "train/a-b/1.PNG"};
    char path[SCRATCH_PATH], buf[64];
    for (int archive = 0; archive < 2; archive++) {
        folders_lay_out(*state, path, archive ? "a.tgz" : "dir", "");
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, FOLDERS_SIDE, 3);
        spec.data.limit = 3;
        smoe_dataset *set = folders_open(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 3);
        for (size_t i = 0; i < 3; i++)
            assert_string_equal(smoe_dataset_image_name(set, i, buf, sizeof buf), expected[i]);
        smoe_dataset_free(set);
    }
}

/* Random boxes need the originals. Originals larger than image_size are kept as files, and boxes
 * are the same from memory and from disk; originals of exactly that size are kept decoded. Boxes
 * do not depend on which was done. */
static void test_random_boxes(void **state) {
    char path[SCRATCH_PATH];
    folders_lay_out(*state, path, "dir", "");
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, 12, 3);
    spec.data.augment.crop = SMOE_CROP_INCEPTION;
    smoe_dataset *memory = folders_open(&spec, "train");
    spec.data.cache_mb = 0;
    smoe_dataset *disk = folders_open(&spec, "train");
    smoe_image a = {0}, b = {0}, work = {0};
    size_t differ = 0;
    for (uint64_t k = 0; k < 60; k++) {
        smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, k), same = rng;
        assert_int_equal(memory->type->image(memory, k % 6, &rng, &a, &work, NULL, NULL), 0);
        assert_int_equal(disk->type->image(disk, k % 6, &same, &b, &work, NULL, NULL), 0);
        assert_memory_equal(a.pixel, b.pixel, 12 * 12 * 3);
        assert_int_equal(disk->type->image(disk, k % 6, NULL, &b, &work, NULL, NULL), 0);
        differ += memcmp(a.pixel, b.pixel, 12 * 12 * 3) != 0;
    }
    assert_true(differ > 55); /* random boxes, not the central square */
    smoe_image_free(&a);
    smoe_image_free(&b);
    smoe_image_free(&work);
    smoe_dataset_free(memory);
    smoe_dataset_free(disk);
}

/* Images that have the size of the model are kept decoded; a random box of them has the same
 * pixels, with either filter, as one of an image that is read again. */
static void test_random_boxes_of_kept(void **state) {
    enum { SIDE = 16, BYTES = SIDE * SIDE * 3 };
    folders *f = *state;
    char path[SCRATCH_PATH];
    uint8_t pixel[BYTES];
    size_t size;
    datafiles_picture(pixel, SIDE, SIDE, 3, 5);
    uint8_t *png = datafiles_png(pixel, SIDE, SIDE, 3, &size);
    assert_int_equal(mkdir(scratch_path(&f->dir, path, "exact"), 0777), 0);
    datafiles_tree(path, &(const datafile){"train/a/1.png", png, size}, 1);
    free(png);
    smoe_image a = {0}, b = {0}, work = {0};
    for (int filter = SMOE_RESIZE_BILINEAR; filter <= SMOE_RESIZE_BICUBIC; filter++) {
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        spec.data.augment.crop = SMOE_CROP_INCEPTION;
        spec.data.resize = (smoe_resize)filter;
        smoe_dataset *kept = folders_open(&spec, "train");
        spec.data.cache_mb = 0;
        smoe_dataset *disk = folders_open(&spec, "train");
        for (uint64_t k = 0; k < 20; k++) {
            smoe_rng rng = smoe_rng_at(1, SMOE_RNG_TEST, 0, 0, k), same = rng;
            assert_int_equal(smoe_dataset_decode(kept, 0, &rng, &a, &work, NULL), 0);
            assert_int_equal(smoe_dataset_decode(disk, 0, &same, &b, &work, NULL), 0);
            assert_memory_equal(a.pixel, b.pixel, BYTES);
        }
        smoe_dataset_free(kept);
        smoe_dataset_free(disk);
    }
    smoe_image_free(&a);
    smoe_image_free(&b);
    smoe_image_free(&work);
}

/* The real archive, if it is there. */
static void test_cifar10_jpeg(void **state) {
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, "cifar10-jpeg.tar.gz", 32, 3);
    char *path = NULL;
    if (smoe_spec_path(&spec, "data.path", &path, NULL)) {
        print_message("cifar10-jpeg.tar.gz is in no folder of SMOE_DATA: not tried\n");
        skip();
    }
    free(path);
    smoe_dataset *set = folders_open(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 10000);
    assert_int_equal(smoe_dataset_classes(set), 10);
    assert_string_equal(smoe_dataset_class_name(set, 6), "frog");
    for (size_t i = 0; i < 10000; i++) assert_int_equal(smoe_dataset_label(set, i), i / 1000);
    smoe_dataset_free(set);
}

int main(void) {
#define CASE(f) unit_test_with(f, folders)
    const struct CMUnitTest tests[] = {
        CASE(test_reuse),
        CASE(test_order_and_labels),
        CASE(test_pixel_values),
        CASE(test_archives_equal_the_directory),
        CASE(test_zip_with_a_comment),
        CASE(test_deep_folders),
        CASE(test_names_in_utf8),
        CASE(test_ways_of_keeping),
        CASE(test_split_names),
        CASE(test_split_spellings),
        CASE(test_other_splits),
        CASE(test_names_that_are_no_text),
        CASE(test_links_in_directories),
        CASE(test_more_classes_than_there_are),
        CASE(test_select),
        CASE(test_limit),
        CASE(test_random_boxes),
        CASE(test_random_boxes_of_kept),
        cmocka_unit_test(test_cifar10_jpeg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
