/*
 * What the sources with a few binary files share (cifar10, cifar100, idx): finding the files in a
 * directory, an archive or alone, plain or gzip; and images that all have one size, kept as they
 * are. Leaves to others: what the bytes mean.
 */
#pragma once

#include "data/archive.h"
#include "data/dataset_source.h"

typedef struct smoe_binary {
    char *name;     /* path inside the folder or archive, for messages */
    char *base;     /* the last component of it, without a .gz */
    uint8_t *bytes; /* inflated */
    size_t size;
} smoe_binary;

typedef struct smoe_binaries {
    smoe_place_kind kind;
    smoe_binary *file; /* sorted by name */
    size_t count;
} smoe_binaries;

/* Reads the files of set->path, at its top or one folder below, whose base fits an extended pattern
 * of fnmatch(3). Finding none is not an error; the split val is one, because these sources have
 * none. */
int smoe_binaries_read(smoe_binaries *files, smoe_dataset *set, const char *pattern,
                       smoe_err *err) SMOE_MUST_CHECK;
void smoe_binaries_free(smoe_binaries *files);

/* If *bytes is gzip, by its first two bytes, replaces it by the inflated data, of at most `most`
 * bytes. Messages have no file name: the caller adds it. */
int smoe_binary_inflate(uint8_t **bytes, size_t *size, size_t most, smoe_scan *scan,
                        smoe_err *err) SMOE_MUST_CHECK;

/* Fails with SMOE_DATA and "FILE: at byte OFFSET: problem". */
#define smoe_binary_fail(files, set, file, offset, err, ...) \
    (smoe_fail(err, SMOE_DATA, __VA_ARGS__), smoe_binary_prefix(files, set, file, offset, err))
int smoe_binary_prefix(const smoe_binaries *files, const smoe_dataset *set, const smoe_binary *file,
                       size_t offset, smoe_err *err);

/* ---- images of one size ---------------------------------------------------------------------- */

typedef struct smoe_binary_grid {
    size_t width, height, channels;
    uint8_t *pixel;  /* [images, height, width, channels] */
    uint64_t *place; /* [images] position in the files, for names */
} smoe_binary_grid;

/* Makes set->store a grid for the images that data.limit selects from n images with these labels;
 * fills set->images, set->label and place. The caller copies the pixels. Fails with SMOE_USAGE
 * where the images do not fit in data.cache_mb. */
int smoe_binary_grid_make(smoe_dataset *set, const uint32_t *label, size_t n, size_t width,
                          size_t height, size_t channels, smoe_err *err) SMOE_MUST_CHECK;

/* The verbs of a source whose store is a grid. */
int smoe_binary_grid_image(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                           smoe_image *work, smoe_image_header *header, smoe_err *err);
uint64_t smoe_binary_grid_contents(const smoe_dataset *set, uint64_t i);
void smoe_binary_grid_image_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size);
#define SMOE_BINARY_GRID_SOURCE(opens)                                                         \
    {                                                                                          \
        .open = opens, .image = smoe_binary_grid_image, .contents = smoe_binary_grid_contents, \
        .image_name = smoe_binary_grid_image_name                                              \
    }
