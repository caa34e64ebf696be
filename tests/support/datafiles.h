/* Data files for tests, made with the libraries of the formats: images, trees, archives. Every
 * failure fails the calling test. */
#pragma once

#include "data/dataset.h"

typedef struct datafile {
    const char *name; /* inside the tree, "train/cat/a.png"; a name ending in '/' is a folder */
    const void *bytes;
    size_t size;
} datafile;

/* A spec with the keys that lib/data reads; path is borrowed. 64 MiB of cache, no augmentation,
 * shapes as by default, and a small number of facts, all equally frequent. */
smoe_spec datafiles_spec(smoe_source source, const char *path, size_t image_size, size_t channels);

/* pixel [height, width, channels] encoded into newly allocated memory. Grey for 1 channel, RGB
 * for 3; for 4 RGBA, or in a JPEG the inks as stored. */
uint8_t *datafiles_png(const uint8_t *pixel, size_t width, size_t height, size_t channels,
                       size_t *size);
uint8_t *datafiles_jpeg(const uint8_t *pixel, size_t width, size_t height, size_t channels,
                        size_t *size);

/* The same as lossless WebP; 3 channels or 4. */
uint8_t *datafiles_webp(const uint8_t *pixel, size_t width, size_t height, size_t channels,
                        size_t *size);

/* Smooth but asymmetric pictures, different for every seed. */
void datafiles_picture(uint8_t *pixel, size_t width, size_t height, size_t channels, unsigned seed);

/* Writes the files below an existing folder. */
void datafiles_tree(const char *folder, const datafile *file, size_t count);

/* The same as an archive; its suffix gives the kind: .tar, .tar.gz, .tgz or .zip. */
void datafiles_archive(const char *path, const datafile *file, size_t count);

/* Bytes as gzip, in newly allocated memory. */
uint8_t *datafiles_gzip(const void *bytes, size_t n, size_t *size);

/* Listing must find what opening did; or it must fail alike, unless bytes of an image are at
 * fault. */
void datafiles_listed(const smoe_spec *spec, const char *split, const smoe_dataset *opened,
                      const smoe_err *refused);

/* Opening must fail with that code and a message that contains each of the words; NULL ends the
 * list. */
void datafiles_refused(const smoe_spec *spec, const char *split, smoe_code code, ...);
