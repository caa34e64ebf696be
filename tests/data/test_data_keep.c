/* data.shift, data.exclude, and the classes of a model in the place of those of the data. */
#include "data/dataset_source.h"
#include "data/scan.h"
#include "folders.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = FOLDERS_SIDE };

static smoe_spec folder_of(const scratch *dir, const char *const *name, size_t count) {
    for (size_t i = 0; i < count; i++) {
        datafile file = folders_picture(name[i], SIDE, SIDE, 3, (unsigned)i);
        datafiles_tree(dir->dir, &file, 1);
        free((void *)file.bytes);
    }
    return datafiles_spec(SMOE_SOURCE_FOLDER, dir->dir, SIDE, 3);
}

static char *write_text(const scratch *dir, char path[SCRATCH_PATH], const char *name,
                        const char *text) {
    scratch_write(scratch_path(dir, path, name), text, strlen(text));
    return path;
}

static const char *name_of(const smoe_dataset *set, size_t i) {
    static char buf[256];
    return smoe_dataset_image_name(set, i, buf, sizeof buf);
}

/* data.shift moves each image by its own pixels, the same ones at any time, in memory and not. */
static void shifted(void **state) {
    enum { ALL = SIDE * SIDE, IMAGES = 4 };
    static const char *const name[] = {"train/a/1.png", "train/a/2.png", "train/b/3.png",
                                       "train/b/4.png"};
    const scratch *dir = *state;
    smoe_spec spec = folder_of(dir, name, IMAGES);
    smoe_dataset *still = folders_open(&spec, "train");
    spec.data.shift = true;
    smoe_dataset *moved = folders_open(&spec, "train");
    size_t place[IMAGES];
    for (size_t i = 0; i < IMAGES; i++) {
        real x[3 * ALL], y[3 * ALL], again[3 * ALL];
        int64_t a, b;
        folders_image(still, i, x, &a);
        folders_image(moved, i, y, &b);
        folders_image(moved, i, again, &b);
        assert_int_equal(a, b);
        assert_memory_equal(y, again, sizeof y);
        size_t found = 0;
        for (size_t by = 0; by < ALL; by++) {
            bool same = true;
            for (size_t k = 0; k < 3 * ALL && same; k++) {
                size_t r = k % ALL / SIDE, c = k % SIDE;
                size_t to = (r + by / SIDE) % SIDE * SIDE + (c + by % SIDE) % SIDE;
                same = x[k] == y[k / ALL * ALL + to];
            }
            if (same) place[i] = by, found++;
        }
        assert_int_equal(found, 1); /* no picture of the folder repeats itself */
    }
    assert_false(place[0] == place[1] && place[1] == place[2] && place[2] == place[3]);
    smoe_dataset_free(still);
    smoe_dataset_free(moved);
}

/* Images that the list names are passed over, and the others keep names, labels and pixels. */
static void excluded(void **state) {
    static const char *const name[] = {"train/a/1.png", "train/a/2.png", "train/b/3.png",
                                       "train/b/4.png", "test/a/5.png",  "test/b/6.png"};
    const scratch *dir = *state;
    char list[SCRATCH_PATH];
    smoe_spec spec = folder_of(dir, name, 6);
    smoe_dataset *whole = folders_open(&spec, "train");
    spec.data.exclude =
        write_text(dir, list, "list.txt", "\xef\xbb\xbf# near\ntrain/b/3.png\r\ntest/a/5.png\n\n");
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 3);
    static const size_t place[] = {0, 1, 3};
    for (size_t i = 0; i < 3; i++) {
        real x[3 * SIDE * SIDE], y[3 * SIDE * SIDE];
        int64_t a, b;
        assert_string_equal(name_of(set, i), name[place[i]]);
        folders_image(set, i, x, &a);
        folders_image(whole, place[i], y, &b);
        assert_memory_equal(x, y, sizeof x);
        assert_int_equal(a, b);
        assert_int_equal(smoe_dataset_label(set, i), place[i] > 1);
    }
    assert_non_null(
        strstr(smoe_dataset_found(set)->remark[0], "1 image of train is left out, of the 2"));
    smoe_dataset_free(set);
    smoe_dataset_free(whole);
    write_text(dir, list, "list.txt", "train/b/3.png\nelsewhere\n");
    datafiles_refused(&spec, "train", SMOE_DATA, "list.txt: no image elsewhere in ", NULL);
    smoe_dataset_free(folders_open(&spec, "test")); /* a run may be evaluated on other data */
    spec.data.on_error = SMOE_ON_ERROR_SKIP;
    smoe_dataset_free(folders_open(&spec, "train"));
    spec.data.on_error = SMOE_ON_ERROR_STOP;
    write_text(dir, list, "list.txt", "test/a/5.png\ntest/b/6.png\n");
    datafiles_refused(&spec, "test", SMOE_DATA,
                      "list.txt: names all images of test, so none is left", NULL);
    scratch_write(scratch_path(dir, list, "list.txt"), "a\0b\n", 4);
    datafiles_refused(&spec, "test", SMOE_DATA, "list.txt: not a text file: byte 1 is zero", NULL);
    spec.data.exclude = (char *)scratch_path(dir, list, "none.txt");
    datafiles_refused(&spec, "test", SMOE_DATA, "none.txt", NULL);
}

typedef struct scanned {
    size_t most, until; /* files found; a request to stop comes after so many */
    volatile sig_atomic_t stop;
} scanned;

static void on_scanned(void *user, size_t done, size_t all, const char *what) {
    scanned *s = user;
    (void)what;
    if (all) return;
    if (done > s->most) s->most = done;
    s->stop = done > s->until;
}

/* A request to stop, while other splits are searched for a name, is no wrong name. */
static void excluded_stopped(void **state) {
    static const char *const name[] = {"train/a/1.png", "train/b/2.png", "test/a/3.png"};
    const scratch *dir = *state;
    char list[SCRATCH_PATH];
    scanned s = {.until = SIZE_MAX};
    smoe_spec spec = folder_of(dir, name, 3);
    spec.data.exclude = write_text(dir, list, "list.txt", "train/a/1.png\n");
    smoe_scan scan = {.stop = &s.stop, .show = on_scanned, .user = &s};
    smoe_dataset *set = NULL;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, &spec, "train", &scan, &err)) fail_msg("%s", err.text);
    smoe_dataset_free(set);
    s.until = s.most;
    write_text(dir, list, "list.txt", "test/a/3.png\n");
    assert_int_equal(smoe_dataset_open(&set, &spec, "train", &scan, &err), -1);
    assert_int_equal(err.code, SMOE_STOPPED);
    assert_non_null(strstr(err.text, "stopped on request"));
    assert_true(s.most > s.until);
}

/* Names of classes and files may have 255 bytes each, in folders with longer names. */
static void excluded_long(void **state) {
    const scratch *dir = *state;
    char path[SCRATCH_PATH], list[SCRATCH_PATH], name[2][800], text[800];
    datafile file[2];
    for (int i = 0; i < 2; i++) {
        snprintf(name[i], sizeof name[i], "%0250d/test/%0250d/%0245d.png", 0, 7, i);
        file[i] = folders_picture(name[i], SIDE, SIDE, 3, (unsigned)i);
    }
    datafiles_archive(scratch_path(dir, path, "a.tar"), file, 2);
    for (int i = 0; i < 2; i++) free((void *)file[i].bytes);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FOLDER, path, SIDE, 3);
    smoe_dataset *set = folders_open(&spec, "test");
    snprintf(text, sizeof text, "%s\n", smoe_dataset_image_name(set, 1, name[0], sizeof name[0]));
    assert_true(strlen(text) > 512);
    smoe_dataset_free(set);
    spec.data.exclude = write_text(dir, list, "list.txt", text);
    set = folders_open(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 1);
    smoe_dataset_free(set);
}

/* The parts of a pass are those of the images that are left. */
static void excluded_of_shards(void **state) {
    const scratch *dir = *state;
    char path[SCRATCH_PATH], list[SCRATCH_PATH];
    datafile png = folders_picture("x.png", SIDE, SIDE, 3, 1);
    for (int p = 0; p < 2; p++) {
        char name[3][8], shard[24];
        datafile file[3];
        for (int i = 0; i < 3; i++) {
            snprintf(name[i], sizeof name[i], "%d.png", 3 * p + i);
            file[i] = (datafile){name[i], png.bytes, png.size};
        }
        snprintf(shard, sizeof shard, "%d.tar", p);
        datafiles_archive(scratch_path(dir, path, shard), file, 3);
    }
    free((void *)png.bytes);
    smoe_spec spec =
        datafiles_spec(SMOE_SOURCE_WEBDATASET, scratch_path(dir, path, "{0..1}.tar"), SIDE, 3);
    spec.data.exclude = write_text(dir, list, "list.txt", "1\n");
    smoe_dataset *set = folders_open(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 5);
    assert_string_equal(name_of(set, 1), "2");
    assert_int_equal(set->parts, 2);
    assert_int_equal(set->part_at[1], 2);
    assert_int_equal(set->part_at[2], 5);
    smoe_dataset_free(set);
}

/* dog is class 0 of the data and class 1 of the model, which does not know wolf. */
static void classes_by_name(void **state) {
    static const char *const name[] = {"test/dog/1.png", "test/dog/2.png", "test/wolf/3.png"};
    static char *const model[] = {"cat", "dog", "emu"}, *const numbers[] = {"0", "1"},
                       *const others[] = {"ant", "bee"}, *const same[] = {"dog", "wolf", "yak"},
                       *const turned[] = {"wolf", "dog"}, *const twice[] = {"dog", "dog"};
    const scratch *dir = *state;
    smoe_err err = {0};
    smoe_spec spec = folder_of(dir, name, 3);
    smoe_dataset *set = folders_open(&spec, "test");
    uint32_t *order;
    assert_true(smoe_dataset_other_classes(set, model, 3, &order));
    assert_true(smoe_dataset_other_classes(set, twice, 2, &order));
    assert_null(order);
    assert_false(smoe_dataset_other_classes(set, numbers, 2, &order));
    assert_null(order);
    assert_false(smoe_dataset_other_classes(set, same, 2, &order));
    assert_null(order);
    assert_false(smoe_dataset_other_classes(set, turned, 2, &order));
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 0);
    free(order);
    assert_int_equal(smoe_dataset_align(set, same, 3, &err), 0); /* one class more */
    assert_int_equal(smoe_dataset_classes(set), 3);
    assert_int_equal(smoe_dataset_found(set)->remarks, 0);
    assert_int_equal(smoe_dataset_align(set, numbers, 2, &err), 0); /* not as many: stays */
    assert_int_equal(smoe_dataset_classes(set), 3);
    assert_int_equal(smoe_dataset_align(set, others, 2, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "none of its classes (dog, ...) is one of the model (ant"));
    assert_int_equal(smoe_dataset_align(set, model, 3, &err), 0);
    assert_int_equal(smoe_dataset_images(set), 2);
    assert_int_equal(smoe_dataset_classes(set), 3);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(smoe_dataset_label(set, i), 1);
        assert_string_equal(name_of(set, i), name[i]);
    }
    assert_string_equal(smoe_dataset_class_name(set, 1), "dog");
    assert_non_null(strstr(smoe_dataset_found(set)->remark[0], "wolf"));
    assert_non_null(strstr(smoe_dataset_found(set)->remark[0], "1 image is left out, and 2 used"));
    smoe_dataset_free(set);
    set = folders_open(&spec, "test");
    assert_int_equal(smoe_dataset_align(set, numbers, 2, &err), 0);
    assert_int_equal(smoe_dataset_label(set, 2), 1);
    assert_non_null(strstr(smoe_dataset_found(set)->remark[0], "matched by their numbers"));
    smoe_dataset_free(set);
}

/* Folders called 0, 1, 10, 2 are in the order of texts; shards have the classes 0 .. 10. */
static void classes_by_number(void **state) {
    static const char *const name[] = {"test/0/a.png", "test/1/a.png", "test/2/a.png",
                                       "test/10/a.png"};
    static char *const to_10[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"},
                       *const texts[] = {"0", "1", "10", "2"}, *const from_2[] = {"2", "3", "4"},
                       *const from_1[] = {"1", "10", "2"},
                       *const unseen[] = {"0",         "1",         "2",         "3",
                                          "(unnamed)", "(unnamed)", "(unnamed)", "(unnamed)",
                                          "(unnamed)", "(unnamed)", "(unnamed)"};
    static const size_t place[] = {0, 1, 3}, number[] = {0, 1, 10, 2};
    const scratch *dir = *state;
    uint32_t *order;
    smoe_err err;
    smoe_spec spec = folder_of(dir, name, 3);
    smoe_dataset *set = folders_open(&spec, "test");
    assert_null(smoe_dataset_sorted_as_texts(set));
    assert_int_equal(smoe_dataset_align(set, from_1, 3, &err), -1); /* of folders called 1, 10, 2 */
    assert_non_null(strstr(err.text, "(0, ...) and those of the model (1, ...) are numbers"));
    assert_int_equal(smoe_dataset_align(set, from_2, 3, NULL), 0);
    assert_non_null(strstr(smoe_dataset_found(set)->remark[0], "matched by their numbers"));
    assert_int_equal(smoe_dataset_align(set, texts, 4, NULL), 0);
    for (size_t i = 0; i < 3; i++) assert_int_equal(smoe_dataset_label(set, i), place[i]);
    smoe_dataset_free(set);
    spec = folder_of(dir, name, 4);
    set = folders_open(&spec, "test");
    char *text = smoe_dataset_sorted_as_texts(set);
    assert_non_null(strstr(text, "2 comes after 10, in place 3"));
    free(text);
    assert_true(smoe_dataset_other_classes(set, to_10, 11, &order));
    assert_int_equal(smoe_dataset_align(set, to_10, 11, NULL), 0);
    for (size_t i = 0; i < 4; i++) assert_int_equal(smoe_dataset_label(set, i), number[i]);
    assert_string_equal(smoe_dataset_class_name(set, 10), "10");
    assert_int_equal(smoe_dataset_found(set)->remarks, 0);
    assert_null(smoe_dataset_sorted_as_texts(set));
    smoe_dataset_free(set);
    set = folders_open(&spec, "test"); /* data.classes=11 of images of 0 .. 3 */
    assert_int_equal(smoe_dataset_align(set, unseen, 11, NULL), 0);
    for (size_t i = 0; i < 4; i++) assert_int_equal(smoe_dataset_label(set, i), number[i]);
    smoe_dataset_free(set);
    set = folders_open(&spec, "test"); /* 10 may be the last class of a model that counts from 0 */
    assert_true(smoe_dataset_other_classes(set, to_10, 4, &order));
    assert_null(order);
    assert_int_equal(smoe_dataset_align(set, to_10, 4, &err), -1);
    assert_non_null(strstr(err.text, "some in the order of texts (1, 10, 2)"));
    smoe_dataset_free(set);
}

/* Of several classes those stay that the model knows, and the first of them is the main one. */
static void several_classes_by_name(void **state) {
    static const char *const name[] = {"test/1.png", "test/2.png", "test/3.png"};
    static char *const model[] = {"cat", "bird"};
    const scratch *dir = *state;
    char table[SCRATCH_PATH];
    size_t class[3];
    smoe_spec spec = folder_of(dir, name, 3);
    spec.data.labels = write_text(dir, table, "t.csv",
                                  "name,labels\n1.png,wolf;bird;cat\n2.png,wolf\n3.png,cat;wolf\n");
    smoe_dataset *set = folders_open(&spec, "test");
    assert_int_equal(smoe_dataset_align(set, model, 2, NULL), 0);
    assert_int_equal(smoe_dataset_images(set), 2);
    assert_int_equal(smoe_dataset_label(set, 0), 1);
    assert_int_equal(smoe_dataset_all_labels(set, 0, class, 3), 2);
    assert_true(class[0] == 1 && class[1] == 0);
    assert_int_equal(smoe_dataset_label(set, 1), 0);
    assert_int_equal(smoe_dataset_all_labels(set, 1, class, 3), 1);
    assert_string_equal(name_of(set, 1), "test/3.png");
    smoe_dataset_free(set);
}

/* Labels that a source computes: the names in reverse. */
static void generated_classes_by_name(void **state) {
    char *name[64];
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_SHAPES, NULL, SIDE, 3);
    spec.data.test_size = 50;
    smoe_dataset *set = folders_open(&spec, "test"), *plain = folders_open(&spec, "test");
    size_t N = smoe_dataset_classes(set);
    for (size_t k = 0; k < N; k++) name[k] = strdup(smoe_dataset_class_name(set, N - 1 - k));
    assert_int_equal(smoe_dataset_align(set, name, N, NULL), 0);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(smoe_dataset_label(set, i), N - 1 - smoe_dataset_label(plain, i));
    for (size_t k = 0; k < N; k++) free(name[k]);
    smoe_dataset_free(set);
    smoe_dataset_free(plain);
}

int main(void) {
#define CASE(f) unit_test_with(f, scratch)
    const struct CMUnitTest tests[] = {
        CASE(shifted),
        CASE(excluded),
        CASE(excluded_stopped),
        CASE(excluded_long),
        CASE(excluded_of_shards),
        CASE(classes_by_name),
        CASE(classes_by_number),
        CASE(several_classes_by_name),
        CASE(generated_classes_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
