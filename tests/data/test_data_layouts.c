/* image-folder in common layouts: nested classes, one folder without splits, tars in tars,
 * tables of labels, WebP, files that are left out. */
#include "folders.h"
#include "data/survey.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = FOLDERS_SIDE, PIXELS = 3 * SIDE * SIDE };

/* Images with these names, number k drawn from the seed k, in a folder or an archive called
 * `as`. */
static smoe_spec lay_out(scratch *dir, char path[SCRATCH_PATH], const char *as,
                         const char *const *name, size_t count) {
    datafile file[64];
    for (size_t i = 0; i < count; i++)
        file[i] = folders_picture(name[i], SIDE, SIDE, 3, (unsigned)i);
    scratch_path(dir, path, as);
    if (strchr(as, '.')) {
        datafiles_archive(path, file, count);
    } else {
        mkdir(path, 0777);
        datafiles_tree(path, file, count);
    }
    for (size_t i = 0; i < count; i++) free((void *)file[i].bytes);
    return datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
}

static void assert_classes(const smoe_dataset *set, size_t count, const char *const *name) {
    assert_int_equal(smoe_dataset_classes(set), count);
    for (size_t k = 0; k < count; k++)
        assert_string_equal(smoe_dataset_class_name(set, k), name[k]);
}

static const char *image_name(const smoe_dataset *set, size_t i) {
    static char buf[256];
    return smoe_dataset_image_name(set, i, buf, sizeof buf);
}

/* A class is the whole path below the split; a last folder `images` is not part of it. */
static void nested_classes(void **state) {
    static const char *const name[] = {"train/animals/cat/1.png", "train/animals/dog/1.png",
                                       "train/car/images/1.png",  "train/car-old/1.png",
                                       "test/animals/cat/2.png",  "test/animals/dog/2.png",
                                       "test/car/images/2.png",   "test/car-old/2.png"};
    static const char *const expected[] = {"animals/cat", "animals/dog", "car", "car-old"};
    char path[SCRATCH_PATH];
    for (int k = 0; k < 2; k++) {
        smoe_spec spec = lay_out(*state, path, k ? "nested.zip" : "nested", name, 8);
        for (int s = 0; s < 2; s++) {
            smoe_dataset *set = folders_open(&spec, s ? "test" : "train");
            assert_int_equal(smoe_dataset_images(set), 4);
            assert_classes(set, 4, expected);
            for (size_t i = 0; i < 4; i++) assert_int_equal(smoe_dataset_label(set, i), i);
            smoe_dataset_free(set);
        }
    }
    scratch_path(*state, path, "nested");
    const datafile empty = {"train/zebra/", NULL, 0};
    datafiles_tree(path, &empty, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, "empty class: no images in train/zebra/", NULL);
}

/* Ten images of one class and three of another, without splits: 0.2 of each class is held out,
 * at least one image, the same ones for the same data.seed; the rest is for training. */
static void held_out(void **state) {
    static const char *const name[] = {"photos/ape/0.png", "photos/ape/1.png", "photos/ape/2.png",
                                       "photos/ape/3.png", "photos/ape/4.png", "photos/ape/5.png",
                                       "photos/ape/6.png", "photos/ape/7.png", "photos/ape/8.png",
                                       "photos/ape/9.png", "photos/bee/0.png", "photos/bee/1.png",
                                       "photos/bee/2.png"};
    static const char *const expected[] = {"ape", "bee"};
    char path[SCRATCH_PATH], first[4][256] = {{0}};
    for (int k = 0; k < 4; k++) {
        smoe_spec spec = lay_out(*state, path, k == 1 ? "one.tar.gz" : "one", name, 13);
        datafiles_refused(&spec, "train", SMOE_DATA, path, "expected train/CLASS/IMAGE",
                          "found photos/", "data.holdout=0.1", NULL);
        spec.data.holdout = 0.2;
        spec.data.seed = k == 3;
        if (k == 2) spec.data.cache_mb = 0;
        smoe_dataset *train = folders_open(&spec, "train"), *test = folders_open(&spec, "test");
        assert_int_equal(smoe_dataset_images(train), 8 + 2);
        assert_int_equal(smoe_dataset_images(test), 2 + 1);
        assert_classes(train, 2, expected);
        assert_classes(test, 2, expected);
        for (size_t i = 0; i < 10; i++) {
            char mine[256];
            snprintf(mine, sizeof mine, "%s", image_name(train, i));
            for (size_t j = 0; j < 3; j++) assert_string_not_equal(mine, image_name(test, j));
        }
        for (size_t j = 0; j < 3; j++) {
            strncat(first[k], image_name(test, j), sizeof first[k] - strlen(first[k]) - 1);
            assert_int_equal(smoe_dataset_label(test, j), j == 2);
        }
        smoe_dataset_free(train);
        smoe_dataset_free(test);
    }
    assert_string_equal(first[0], first[1]);
    assert_string_equal(first[0], first[2]);
    assert_string_not_equal(first[0], first[3]); /* one of 45 * 3 possible draws */
}

/* If there is only train/, its images are divided into train and val. If there is test/ too, the
 * held-out images are val. If there is val/, nothing is held out. */
static void held_out_of_train(void **state) {
    static const char *const name[] = {"train/a/1.png", "train/a/2.png", "train/a/3.png",
                                       "train/b/1.png", "train/b/2.png", "test/a/1.png",
                                       "test/b/1.png",  "val/a/1.png"};
    char path[SCRATCH_PATH];
    smoe_spec spec = lay_out(*state, path, "alone", name, 5);
    datafiles_refused(&spec, "test", SMOE_DATA, "no images in test/ or val/; it has train/",
                      "data.holdout=0.1", NULL);
    spec.data.holdout = 0.1;
    for (int k = 0; k < 2; k++) {
        smoe_dataset *train = folders_open(&spec, "train");
        smoe_dataset *test = folders_open(&spec, "test"), *val = folders_open(&spec, "val");
        assert_int_equal(smoe_dataset_images(train), 3);
        assert_int_equal(smoe_dataset_images(val), 2);
        assert_int_equal(smoe_dataset_images(test), 2);
        assert_int_equal(!strncmp(image_name(test, 0), "test/", 5), k);
        assert_int_equal(strncmp(image_name(val, 0), "train/a/", 8), 0);
        smoe_dataset_free(train);
        smoe_dataset_free(test);
        smoe_dataset_free(val);
        if (!k) spec = lay_out(*state, path, "both", name, 7);
        spec.data.holdout = 0.1;
    }
    spec = lay_out(*state, path, "all", name, 8);
    spec.data.holdout = 0.1;
    datafiles_refused(&spec, "train", SMOE_USAGE, "has val/ already", NULL);
    static const char *const flat[] = {"1.png", "2.png"};
    spec = lay_out(*state, path, "flat", flat, 2);
    spec.data.holdout = 0.1;
    datafiles_refused(&spec, "train", SMOE_DATA, "not in a folder, so without a class",
                      "data.labels=FILE.csv", NULL);
    spec.data.holdout = 0;
    datafiles_refused(&spec, "train", SMOE_DATA, "no SPLIT/CLASS/ folders", "data.labels=FILE.csv",
                      NULL);
}

/* As ImageNet is distributed: a tar of tars for train, whose images are read in place; inside a
 * folder, as the data itself, and in another tar. The pixels are those of the same images in
 * folders. */
static void tar_of_tars(void **state) {
    static const char *const one[] = {"./n01_1.png", "n01_2.png", "n01_3.png"},
                             *const two[] = {"n02_1.png", "n02_2.png", "n02_3.png"},
                             *const plain[] = {"train/n01/n01_1.png", "train/n01/n01_2.png",
                                               "train/n01/n01_3.png", "train/n02/n02_1.png",
                                               "train/n02/n02_2.png", "train/n02/n02_3.png"};
    static const char *const expected[] = {"n01", "n02"};
    scratch *dir = *state;
    char path[SCRATCH_PATH], inner[2][SCRATCH_PATH], folder[SCRATCH_PATH], outer[SCRATCH_PATH];
    datafile tar[2] = {{.name = "n01.tar"}, {.name = "n02.tar"}};
    lay_out(dir, inner[0], "n01.tar", one, 3);
    lay_out(dir, inner[1], "n02.tar", two, 3);
    smoe_spec same = lay_out(dir, folder, "folder", plain, 6);
    for (int k = 0; k < 2; k++) tar[k].bytes = scratch_read(inner[k], &tar[k].size);
    datafiles_archive(scratch_path(dir, path, "ILSVRC2012_img_train.tar"), tar, 2);
    datafiles_archive(scratch_path(dir, outer, "compressed.tar.gz"), tar, 2);
    size_t size;
    char *whole = scratch_read(path, &size);
    const datafile as_train = {"ILSVRC2012_img_train.tar", whole, size};
    assert_int_equal(mkdir(scratch_path(dir, folder, "imagenet"), 0777), 0);
    datafiles_tree(folder, &as_train, 1);
    datafiles_archive(scratch_path(dir, inner[0], "all.tar"), &as_train, 1);
    const char *const place[] = {path, folder, inner[0]};
    for (size_t k = 0; k < 3; k++) {
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, place[k], SIDE, 3);
        spec.data.holdout = same.data.holdout = 0.34;
        spec.data.cache_mb = k == 2 ? 0 : 64;
        for (int s = 0; s < 2; s++) {
            smoe_dataset *set = folders_open(&spec, s ? "test" : "train");
            assert_int_equal(smoe_dataset_images(set), s ? 2 : 4);
            assert_classes(set, 2, expected);
            smoe_dataset_free(set);
        }
    }
    /* not divided: the same pixels */
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, folder, SIDE, 3);
    same.data.holdout = 0;
    spec.eval.split = same.eval.split = (char *)"train";
    smoe_dataset *a = folders_open(&spec, "train"), *b = folders_open(&same, "train");
    assert_int_equal(smoe_dataset_images(a), 6);
    for (size_t i = 0; i < 6; i++) {
        /* the seed of a picture is its number within n01 or n02 here, and within all in the
         * folder */
        real x[PIXELS], y[PIXELS], drawn[PIXELS];
        uint8_t pixel[PIXELS];
        int64_t label;
        folders_image(a, i, x, &label);
        assert_int_equal(label, i / 3);
        folders_image(b, i, y, &label);
        datafiles_picture(pixel, SIDE, SIDE, 3, (unsigned)(i % 3));
        for (size_t p = 0; p < PIXELS; p++)
            drawn[p % 3 * SIDE * SIDE + p / 3] = (real)pixel[p] / (real)127.5 - 1;
        assert_memory_equal(x, drawn, sizeof x);
    }
    smoe_dataset_free(a);
    smoe_dataset_free(b);
    spec.data.path = outer;
    spec.data.holdout = 0.34;
    datafiles_refused(&spec, "train", SMOE_DATA, outer, "tar files within a compressed archive",
                      NULL);
    memset(whole + 512 + 3, 'x', 60); /* the header of the first image in the first tar */
    scratch_write(path, whole, size);
    spec.data.path = path;
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte", NULL);
    for (int deep = 0; deep < 10; deep++) {
        const datafile within = {"train/t.tar", whole, size};
        datafiles_archive(path, &within, 1);
        free(whole);
        whole = scratch_read(path, &size);
    }
    datafiles_refused(&spec, "train", SMOE_DATA, path,
                      "tar files within tar files, more than 8 deep", NULL);
    free(whole);
    for (int k = 0; k < 2; k++) free((void *)tar[k].bytes);
}

static void write_text(scratch *dir, char path[SCRATCH_PATH], const char *name, const char *text) {
    scratch_write(scratch_path(dir, path, name), text, strlen(text));
}

/* A table with several classes per image and a column of splits; then one with a column per
 * class. */
static void table_of_labels(void **state) {
    static const char *const name[] = {"images/1.png", "images/2.png", "images/sub/3.png",
                                       "images/4.png"};
    static const char *const text[] = {
        "path,split,labels\n1.png,train,dog;cat\r\n\"2.png\",train,cat\n"
        "sub/3.png,test,\"a \"\"bird\"\"\"\nimages/4.png,val,dog\n",
        "\xef\xbb\xbf"
        "file,cat,dog,\"a "
        "\"\"bird\"\"\",split\n1.png,1,1,0,training\n2.png,1,0,,train\n3.png,0,0,1."
        "0,test\n4.png,0,1,0,valid\n"};
    static const char *const classes[] = {"a \"bird\"", "cat", "dog"};
    char path[SCRATCH_PATH], table[SCRATCH_PATH];
    for (int k = 0; k < 4; k++) {
        smoe_spec spec = lay_out(*state, path, k < 2 ? "labelled" : "labelled.tgz", name, 4);
        write_text(*state, table, "labels.csv", text[k % 2]);
        spec.data.labels = table;
        smoe_dataset *set = folders_open(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 2);
        assert_classes(set, 3, classes);
        real pixels[PIXELS], target[3];
        int64_t label;
        size_t all[3];
        assert_int_equal(smoe_dataset_image(set, 0, true, pixels, target, &label, NULL), 0);
        assert_int_equal(label, k % 2 ? 1 : 2); /* the first one named */
        assert_true(target[0] == 0 && target[1] == 1 && target[2] == 1);
        assert_int_equal(smoe_dataset_all_labels(set, 0, all, 3), 2);
        assert_int_equal(all[0] + all[1], 3);
        assert_int_equal(smoe_dataset_image(set, 0, false, pixels, target, &label, NULL), 0);
        assert_true(target[0] + target[1] + target[2] == 1);
        assert_int_equal(smoe_dataset_image(set, 1, true, pixels, target, &label, NULL), 0);
        assert_true(target[0] == 0 && target[1] == 1 && target[2] == 0);
        smoe_dataset_free(set);
        set = folders_open(&spec, "test");
        assert_int_equal(smoe_dataset_images(set), 1);
        assert_string_equal(image_name(set, 0), "images/sub/3.png");
        smoe_dataset_free(set);
    }
}

/* An image whose row names no split, beside rows that do, is in none, which is remarked. */
static void table_with_a_gap(void **state) {
    static const char *const name[] = {"a/1.png", "a/2.png", "a/3.png", "a/4.png"};
    char path[SCRATCH_PATH], table[SCRATCH_PATH];
    smoe_spec spec = lay_out(*state, path, "gap", name, 4);
    write_text(*state, table, "gap.csv",
               "path,split,labels\n1.png,train,cat\n2.png,train,dog\n3.png,,cat\n4.png, ,cat\n");
    spec.data.labels = table;
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 2);
    assert_int_equal(smoe_dataset_found(set)->remarks, 1);
    assert_string_equal(smoe_dataset_found(set)->remark[0],
                        "2 images of no split are left out: a/3.png, ...");
    smoe_dataset_free(set);
}

/* Images without a row have the class of their folder; a table without splits works with
 * data.holdout. */
static void table_beside_folders(void **state) {
    static const char *const name[] = {"train/cat/1.png", "train/cat/2.png", "train/dog/3.png",
                                       "train/dog/4.png", "val/5.png",       "val/6.png"};
    static const char *const classes[] = {"cat", "dog"};
    char path[SCRATCH_PATH], table[SCRATCH_PATH];
    smoe_spec spec = lay_out(*state, path, "imagenet", name, 6);
    write_text(*state, table, "val.csv", "name,label\n5.png,dog\n6.png,cat\n");
    datafiles_refused(&spec, "test", SMOE_DATA, "png: unexpected file: only images in SPLIT/CLASS/",
                      NULL);
    spec.data.labels = table;
    smoe_dataset *train = folders_open(&spec, "train"), *test = folders_open(&spec, "test");
    assert_classes(train, 2, classes);
    assert_int_equal(smoe_dataset_images(train), 4);
    assert_int_equal(smoe_dataset_label(train, 3), 1);
    assert_int_equal(smoe_dataset_images(test), 2);
    assert_int_equal(smoe_dataset_label(test, 0), 1);
    assert_int_equal(smoe_dataset_label(test, 1), 0);
    smoe_dataset_free(train);
    smoe_dataset_free(test);
    spec = lay_out(*state, path, "loose", name + 4, 2);
    write_text(*state, table, "two.csv", "name,label\n5.png,dog\n6.png,dog\n");
    spec.data.labels = table;
    spec.data.holdout = 0.5;
    for (int s = 0; s < 2; s++) { /* val/ is there */
        datafiles_refused(&spec, s ? "test" : "train", SMOE_USAGE, "has val/ already", NULL);
    }
}

/* Every mistake names the file and the line. */
static void bad_tables(void **state) {
    static const char *const name[] = {"x/1.png", "x/2.png", "y/1.png"};
    static const struct {
        const char *text, *words[2];
    } bad[] = {
        {"", {"labels.csv:1: empty"}},
        {"path\n1.png\n", {":1: no classes: expected the path"}},
        {"path,labels\n", {"no row below the heading"}},
        {"path,a,b,a\nx/1.png,1,0,0\n", {":1: two columns are 'a'"}},
        {"path,label,split,class\nx/1.png,1,train,a\n",
         {":1: columns 'label' and 'class': only one can list the classes"}},
        {"path,labels\nx/1.png,a,b\n", {":2: 3 columns, but the heading has 2"}},
        {"path,labels\nx/1.png,\n", {":2: x/1.png has no class"}},
        {"path,a,b\nx/1.png,1,2\n", {":2: column b: expected 0 or 1, found '2'"}},
        {"x/1.png,ape\nx/2.png,bee\n", {"'bee'; if these are names of classes, line 1 must be"}},
        {"path,labels\nx/1.png,\"a\n", {":2: a quote that is not closed"}},
        {"path,labels\nx/1.png,\"a\"b\n", {":2: text behind a closing quote"}},
        {"path,labels\nx/1.png,a\nx/1.png,b\n", {":3: x/1.png already has a row, line 2"}},
        {"path,labels\nx/1.png,a\n\nx/9.png,b\nx/2.png,a\ny/1.png,a\n",
         {":4: no image x/9.png", "labelled"}},
        {"path,labels\nx/1.png,a\ny/1.png,a\n", {"x/2.png: no row in"}},
        {"path,labels\n1.png,a\nx/2.png,a\n", {":2: 1.png is the end of two paths", "y/1.png"}},
        {"path,labels,split\nx/1.png,a,train\nx/2.png,a,dev\ny/1.png,a,other\n",
         {":4: no split 'other'"}},
        {"path,labels\nx/1.png,\x01\n", {":2: the name of a class is not printable"}},
    };
    char path[SCRATCH_PATH], table[SCRATCH_PATH];
    smoe_spec spec = lay_out(*state, path, "labelled", name, 3);
    spec.data.labels = table;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        write_text(*state, table, "labels.csv", bad[k].text);
        datafiles_refused(&spec, "train", SMOE_DATA, bad[k].words[0], bad[k].words[1], NULL);
    }
    write_text(*state, table, "labels.csv", "path,labels\nx/1.png,a\nx/2.png,b\ny/1.png,a\n");
    datafiles_refused(&spec, "train", SMOE_DATA, "no images in train/; it has no folders of splits",
                      NULL);
}

/* Lossless WebP: the pixels that were written; transparency is laid over black, as for PNG. A
 * file that is truncated anywhere is refused. */
static void webp(void **state) {
    scratch *dir = *state;
    char path[SCRATCH_PATH];
    uint8_t pixel[SIDE * SIDE * 4];
    real x[PIXELS], y[PIXELS];
    int64_t label;
    size_t size, other;
    for (size_t channels = 3; channels <= 4; channels++) {
        datafiles_picture(pixel, SIDE, SIDE, channels, 3);
        uint8_t *lossless = datafiles_webp(pixel, SIDE, SIDE, channels, &size);
        uint8_t *png = datafiles_png(pixel, SIDE, SIDE, channels, &other);
        const datafile file[] = {{"train/a/1.webp", lossless, size}, {"train/b/1.png", png, other}};
        mkdir(scratch_path(dir, path, "webp"), 0777);
        datafiles_tree(path, file, 2);
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
        smoe_dataset *set = folders_open(&spec, "train");
        folders_image(set, 0, x, &label);
        folders_image(set, 1, y, &label);
        assert_memory_equal(x, y, sizeof x);
        smoe_dataset_free(set);
        for (size_t n = 1; n < size - 1; n += 7) {
            const datafile cut = {"train/a/1.webp", lossless, n};
            datafiles_tree(path, &cut, 1);
            datafiles_refused(&spec, "train", SMOE_DATA, "1.webp", NULL);
        }
        const datafile lie = {"train/a/1.webp", png, other};
        datafiles_tree(path, &lie, 1);
        set = folders_open(&spec, "train"); /* a PNG by its content, whatever its name */
        folders_image(set, 0, y, &label);
        assert_memory_equal(x, y, sizeof x);
        smoe_dataset_free(set);
        free(lossless);
        free(png);
    }
}

/* skip: of 200 images one truncated image and one text file are left out and named; three are
 * too many. */
static void left_out(void **state) {
    enum { MANY = 200 };
    scratch *dir = *state;
    char path[SCRATCH_PATH], name[32];
    datafile good = folders_picture("x.png", SIDE, SIDE, 3, 1);
    mkdir(scratch_path(dir, path, "skip"), 0777);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "train/%c/%03d.png", 'a' + i % 2, i);
        const datafile file = {name, good.bytes, i == 7 ? good.size - 20 : good.size};
        datafiles_tree(path, &file, 1);
    }
    const datafile note = {"train/a/notes.txt", "x", 1};
    datafiles_tree(path, &note, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, "notes.txt", NULL);
    spec.data.on_error = SMOE_ON_ERROR_SKIP;
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), MANY - 1);
    assert_int_equal(smoe_dataset_found(set)->left_out, 2);
    assert_non_null(strstr(smoe_dataset_found(set)->left[0], "train/a/notes.txt: unexpected file"));
    assert_non_null(strstr(smoe_dataset_found(set)->left[1], "train/b/007.png: damaged PNG"));
    for (size_t i = 0; i < MANY - 1; i++)
        assert_int_equal(smoe_dataset_label(set, i), image_name(set, i)[6] - 'a');
    smoe_dataset_free(set);
    const datafile more = {"train/b/empty.png", "", 0};
    datafiles_tree(path, &more, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, "3 of 202 images cannot be used", NULL);
    free((void *)good.bytes);
}

/* What folders of others have besides images: a link to nothing is left out, a link to a folder
 * above is not followed, and folders of network storage are not looked into; images in a class and
 * in a folder of it are two classes, which is remarked. */
static void links_and_litter(void **state) {
    static const char *const name[] = {"train/cat/1.png", "train/cat/2.png", "train/cat/more/3.png",
                                       "train/cat/@eaDir/4.png", "train/#recycle/5.png"};
    static const char *const expected[] = {"cat", "cat/more"};
    char path[SCRATCH_PATH], link[SCRATCH_PATH];
    smoe_spec spec = lay_out(*state, path, "brought", name, 5);
    assert_int_equal(symlink("..", scratch_path(*state, link, "brought/train/cat/up")), 0);
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 3);
    assert_classes(set, 2, expected);
    assert_int_equal(smoe_dataset_found(set)->remarks, 2);
    assert_non_null(
        strstr(smoe_dataset_found(set)->remark[0], "train/cat/up leads to a folder above it"));
    assert_non_null(strstr(smoe_dataset_found(set)->remark[1], "both in cat/ and in cat/more/"));
    smoe_dataset_free(set);
    assert_int_equal(symlink("nowhere", scratch_path(*state, link, "brought/train/cat/9.png")), 0);
    datafiles_refused(&spec, "train", SMOE_DATA, "cat/9.png: a link to a file that is not there",
                      "data.on_error=skip", NULL);
    spec.data.on_error = SMOE_ON_ERROR_SKIP;
    assert_int_equal(smoe_survey_open(&set, &spec, "train", NULL, NULL), 0);
    assert_int_equal(smoe_dataset_images(set), 3);
    assert_int_equal(smoe_dataset_found(set)->left_out, 1);
    smoe_dataset_free(set);
}

/* Tables as other programs write them: without the endings of files, with numbers of rows before
 * the columns, with the slashes of another system; and what is said where no row fits. */
static void foreign_tables(void **state) {
    static const char *const name[] = {"in/1.png", "in/2.jpeg", "in/3.jfif", "in/4.png"};
    static const struct {
        const char *text, *refused;
    } table[] = {{"id,label\n1,a\n2,b\n3,b\n4,a\n", NULL},
                 {",path,label\n0,1.png,a\n1,2.jpeg,b\n2,3,b\n3,in/4.png,a\n", NULL},
                 {"path,label\nin\\1.png,a\nin\\2,b\n.\\in\\3,b\n4,a\n", NULL},
                 {"path,label\n/home/in/1.png,a\n", "not absolute ones"},
                 {"path,label\nother/1.png,a\n", "with its folders or without any"},
                 {"x,label\nfirst,a\n", "the first column must be the name of the file"}};
    char path[SCRATCH_PATH], labels[SCRATCH_PATH];
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        smoe_spec spec = lay_out(*state, path, "in", name, 4);
        write_text(*state, labels, "labels.csv", table[k].text);
        spec.data.labels = labels;
        datafiles_refused(&spec, "train", SMOE_DATA,
                          table[k].refused ? table[k].refused : "add a column split to", NULL);
        spec.data.holdout = 0.5;
        if (table[k].refused) continue;
        size_t b = 0;
        for (int s = 0; s < 2; s++) {
            smoe_dataset *set = folders_open(&spec, s ? "test" : "train");
            assert_int_equal(smoe_dataset_images(set), 2);
            for (size_t i = 0; i < 2; i++) b += smoe_dataset_label(set, i);
            smoe_dataset_free(set);
        }
        assert_int_equal(b, 2);
    }
}

/* Folders of images in formats that are not read, files that are only pointers, and one class. */
static void what_is_said(void **state) {
    static const char *const name[] = {"a/1.tif", "a/2.tif", "b/1.bmp"};
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    char path[SCRATCH_PATH];
    smoe_spec spec = lay_out(*state, path, "formats", name, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, "no file there is of a type that is read", ".jfif",
                      "1 .bmp, 2 .tif", NULL);
    const datafile lfs = {"train/a/1.png", pointer, sizeof pointer - 1};
    mkdir(scratch_path(*state, path, "pointers"), 0777);
    datafiles_tree(path, &lfs, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, "a/1.png: a Git LFS pointer, not the file", NULL);
    write_text(*state, path, "pointer.tar", pointer);
    datafiles_refused(&spec, "train", SMOE_DATA, "pointer.tar: a Git LFS pointer", NULL);
    static const char *const one[] = {"train/a/1.png", "train/a/2.png"};
    spec = lay_out(*state, path, "alone", one, 2);
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_found(set)->remarks, 1);
    assert_non_null(strstr(smoe_dataset_found(set)->remark[0], "has only one class"));
    smoe_dataset_free(set);
    spec.trained = true; /* the model may have more */
    set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_found(set)->remarks, 0);
    smoe_dataset_free(set);
}

int main(void) {
#define CASE(f) unit_test_with(f, scratch)
    const struct CMUnitTest tests[] = {
        CASE(nested_classes),
        CASE(held_out),
        CASE(held_out_of_train),
        CASE(tar_of_tars),
        CASE(webp),
        CASE(table_of_labels),
        CASE(table_with_a_gap),
        CASE(table_beside_folders),
        CASE(bad_tables),
        CASE(left_out),
        CASE(links_and_litter),
        CASE(foreign_tables),
        CASE(what_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
