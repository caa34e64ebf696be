/*
 * Makes the seeds of build/corpus/{image,idx,cifar,archive}. They are in the tree; this program
 * documents how they were made. From the top of the tree, after `make FLAVOUR=san fuzzers`:
 * build/release/tests/tools/seeds && tests/fuzz/pack.sh image idx cifar archive
 */
#include "datafiles.h"
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CORPUS "build/corpus/"

static void write_seed(const char *name, const uint8_t *bytes, size_t size) {
    char path[SCRATCH_PATH];
    snprintf(path, sizeof path, CORPUS "%s", name);
    scratch_write(path, bytes, size);
}

static datafile image(const char *name, size_t width, size_t height, size_t channels,
                      unsigned seed) {
    uint8_t *pixel = malloc(width * height * channels);
    datafile file = {.name = name};
    datafiles_picture(pixel, width, height, channels, seed);
    file.bytes = strstr(name, ".png") ? datafiles_png(pixel, width, height, channels, &file.size)
                                      : datafiles_jpeg(pixel, width, height, channels, &file.size);
    free(pixel);
    return file;
}

static void make_images(void) {
    const datafile file[] = {image("colour.png", 9, 7, 3, 1), image("grey.png", 8, 8, 1, 2),
                             image("clear.png", 6, 5, 4, 3), image("colour.jpg", 19, 17, 3, 4),
                             image("grey.jpg", 8, 8, 1, 5)};
    for (size_t i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "image/%s", file[i].name);
        write_seed(name, file[i].bytes, file[i].size);
    }
}

static void make_archives(void) {
    const datafile file[] = {image("train/a/1.png", 4, 4, 1, 1), image("train/b/2.jpg", 8, 8, 1, 2),
                             image("test/a/3.png", 4, 4, 1, 3), image("test/b/4.png", 5, 4, 1, 4)};
    datafiles_archive(CORPUS "archive/a.tar", file, 4);
    datafiles_archive(CORPUS "archive/a.tar.gz", file, 4);
    datafiles_archive(CORPUS "archive/a.zip", file, 4);
}

static void make_cifar(void) {
    uint8_t bytes[2 * 3073];
    size_t size;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i / 3073 + i % 3073 / 512);
    write_seed("cifar/two.bin", bytes, sizeof bytes);
    uint8_t *gz = datafiles_gzip(bytes, sizeof bytes, &size);
    write_seed("cifar/two.bin.gz", gz, size);
    uint8_t fine[3074] = {77, 99};
    write_seed("cifar/fine.bin", fine, sizeof fine);
}

static void make_idx(void) {
    uint8_t bytes[2 + 16 + 3 * 12 + 8 + 3] = {52, 0, 0, 0, 8, 3, 0, 0, 0,
                                              3,  0, 0, 0, 4, 0, 0, 0, 3};
    const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 4};
    for (size_t i = 0; i < 36; i++) bytes[18 + i] = (uint8_t)(7 * i);
    memcpy(bytes + 54, labels, sizeof labels);
    write_seed("idx/three", bytes, sizeof bytes);
}

int main(void) {
    static const char *const folder[] = {"image", "idx", "cifar", "archive"};
    for (size_t i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, CORPUS "%s", folder[i]);
        mkdir(path, 0777);
    }
    make_images();
    make_archives();
    make_cifar();
    make_idx();
    return 0;
}
