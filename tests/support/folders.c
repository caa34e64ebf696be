/* Sample image folders; see folders.h. */
#include "folders.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

datafile folders_picture(const char *name, size_t width, size_t height, size_t channels,
                         unsigned seed) {
    uint8_t *pixel = malloc(width * height * channels);
    datafile file = {.name = name};
    assert_non_null(pixel);
    datafiles_picture(pixel, width, height, channels, seed);
    bool png = strstr(name, ".png") || strstr(name, ".PNG");
    if (strstr(name, ".webp"))
        file.bytes = datafiles_webp(pixel, width, height, channels, &file.size);
    else
        file.bytes = png ? datafiles_png(pixel, width, height, channels, &file.size)
                         : datafiles_jpeg(pixel, width, height, channels, &file.size);
    free(pixel);
    return file;
}

int folders_setup(void **state) {
    folders *f = *state = calloc(1, sizeof *f);
    scratch_make(&f->dir);
    const datafile made[FOLDERS_FILES] = {
        folders_picture("train/a-b/2.jpg", FOLDERS_SIDE, FOLDERS_SIDE, 3, 1),
        folders_picture("train/a-b/1.PNG", FOLDERS_SIDE, FOLDERS_SIDE, 3, 2),
        folders_picture("train/a-b/10.jpeg", 40, 23, 3, 3),
        folders_picture("train/a/x.png", FOLDERS_SIDE, FOLDERS_SIDE, 1, 4),
        folders_picture("train/a/y.JPG", 21, 33, 1, 5),
        folders_picture("test/a/t.png", FOLDERS_SIDE, FOLDERS_SIDE, 3, 6),
        folders_picture("test/a-b/t.png", FOLDERS_SIDE, FOLDERS_SIDE, 3, 7),
        folders_picture("test/a-b/u.jpg", FOLDERS_SIDE, FOLDERS_SIDE, 3, 8),
        folders_picture("train/a/long name.png", 17, 16, 3, 9)};
    memcpy(f->file, made, sizeof made);
    f->file[FOLDERS_FILES] = (datafile){"README", strdup("hello"), 5};
    f->file[FOLDERS_FILES + 1] = (datafile){"train/a/.DS_Store", strdup("x"), 1};
    f->file[FOLDERS_FILES + 2] = (datafile){"train/a/Thumbs.db", strdup("x"), 1};
    f->file[FOLDERS_FILES + 3] = (datafile){"__MACOSX/train/a/x.png", strdup("x"), 1};
    f->count = FOLDERS_FILES + 4;
    return 0;
}

int folders_teardown(void **state) {
    folders *f = *state;
    scratch_remove(&f->dir);
    for (size_t i = 0; i < f->count; i++) free((void *)f->file[i].bytes);
    free(f);
    return 0;
}

void folders_lay_out(const folders *f, char path[SCRATCH_PATH], const char *name,
                     const char *above) {
    datafile file[FOLDERS_FILES + 4];
    char renamed[FOLDERS_FILES + 4][64];
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

smoe_dataset *folders_open(const smoe_spec *spec, const char *split) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, spec, split, NULL, &err)) fail_msg("%s", err.text);
    datafiles_listed(spec, split, set, NULL);
    return set;
}

void folders_image(const smoe_dataset *set, size_t i, real *pixels, int64_t *label) {
    real target[64];
    smoe_err err = {0};
    if (smoe_dataset_image(set, i, false, pixels, target, label, &err)) fail_msg("%s", err.text);
}

void folders_assert_equal(const smoe_dataset *a, const smoe_dataset *b) {
    size_t n = a->size * a->size * a->channels;
    real *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_int_equal(smoe_dataset_images(a), smoe_dataset_images(b));
    for (size_t i = 0; i < smoe_dataset_images(a); i++) {
        int64_t p, q;
        folders_image(a, i, x, &p);
        folders_image(b, i, y, &q);
        assert_int_equal(p, q);
        assert_memory_equal(x, y, n * sizeof *x);
    }
    free(x);
    free(y);
}
