/* A temporary folder for fuzz targets of parsers that read files by name, and a function that
 * reads a whole data set. */
#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes a file into the folder, which is created on first use. */
static inline void fuzz_write(char folder[64], const char *name, const void *bytes, size_t size) {
    char path[128];
    if (!folder[0]) {
        /* Files in memory, if the system has such a place: creating them is most of the work. */
        snprintf(folder, 64, "%s/smoe-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder)) abort();
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) abort();
}

static inline void fuzz_remove(char folder[64], const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    rmdir(folder); /* together with the last file in it */
    if (access(folder, F_OK)) folder[0] = 0;
}

/* The keys that lib/data reads; path is borrowed. */
static inline smoe_spec fuzz_data(smoe_source source, const char *path, size_t image_size,
                                  size_t channels) {
    smoe_spec spec = {0};
    spec.data.source = source;
    spec.data.path = (char *)path;
    spec.data.image_size = image_size;
    spec.data.channels = channels;
    spec.data.mean.item[0] = spec.data.std.item[0] = 0.5;
    spec.data.cache_mb = 4;
    return spec;
}

/* Opens train and test and reads every image of an accepted data set; a refusal must have a
 * message. */
static inline void fuzz_read_all(smoe_source source, const char *path, size_t image_size,
                                 size_t channels) {
    smoe_spec spec = fuzz_data(source, path, image_size, channels);
    for (int test = 0; test < 2; test++) {
        smoe_dataset *set;
        smoe_err err = {0};
        if (smoe_dataset_open(&set, &spec, test ? "test" : "train", &err)) {
            if (!err.text[0] || err.code == SMOE_OK || set) __builtin_trap();
            continue;
        }
        size_t n = channels * image_size * image_size;
        real *pixels = malloc(n * sizeof *pixels);
        real *target = malloc(smoe_dataset_classes(set) * sizeof *target);
        for (size_t i = 0; pixels && target && i < smoe_dataset_images(set); i++) {
            int64_t label;
            if (smoe_dataset_image(set, i, true, pixels, target, &label, &err)) continue;
            if (label < 0 || (size_t)label >= smoe_dataset_classes(set)) __builtin_trap();
            for (size_t k = 0; k < n; k++)
                if (!(pixels[k] >= -1 && pixels[k] <= 1)) __builtin_trap();
        }
        free(pixels);
        free(target);
        smoe_dataset_free(set);
    }
}

#endif
