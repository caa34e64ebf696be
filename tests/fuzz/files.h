/* A temporary folder for fuzz targets of parsers that read files by name, and a function that
 * reads a whole data set. */
#pragma once

#include "data/dataset.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Kept until the process ends, since creating folders takes longer than many a parser. */
static char fuzz_folder[64];

static inline void fuzz_end(void) {
    rmdir(fuzz_folder);
}

/* The folder, which is created on first use. */
static inline const char *fuzz_place(void) {
    if (fuzz_folder[0]) return fuzz_folder;
    /* in memory, if the system has such a place */
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s/smoe-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(fuzz_folder) || atexit(fuzz_end)) abort();
    return fuzz_folder;
}

/* Writes a file into the folder. */
static inline void fuzz_write(const char *name, const void *bytes, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_place(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd)) abort();
}

static inline void fuzz_remove(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    unlink(path);
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

/* Opens a split and reads every image of an accepted data set; a refusal must have a message. */
static inline void fuzz_read(smoe_source source, const char *path, const char *split,
                             size_t image_size, size_t channels) {
    smoe_spec spec = fuzz_data(source, path, image_size, channels);
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, &spec, split, NULL, &err)) {
        if (!err.text[0] || err.code == SMOE_OK || set) __builtin_trap();
        return;
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
