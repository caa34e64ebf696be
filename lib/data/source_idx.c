/*
 * `idx`: pairs of files as MNIST has them. All numbers are big-endian.
 *   images  00 00 08 03  n  rows  columns   then n*rows*columns bytes of grey
 *   labels  00 00 08 01  n                  then n bytes
 * Names: train-images-idx3-ubyte and train-labels-idx1-ubyte, t10k-... for test (test-... too), a
 * dot allowed before "idx", plain or .gz, in a directory or an archive. Classes are the
 * numbers 0 .. the largest label of either split, so that both splits agree.
 */
#include "data/binary.h"

enum { IMAGE_HEADER = 16, LABEL_HEADER = 8, MOST_SIDE = 4096 };

/* The files of one split and the labels of the other, as extended patterns. */
#define LABELS "-labels[-.]idx1-ubyte"
static const char train_files[] = "@(train-images[-.]idx3-ubyte|@(train|t10k|test)" LABELS ")";
static const char test_files[] =
    "@(@(t10k|test)-images[-.]idx3-ubyte|@(train|t10k|test)" LABELS ")";

static size_t big_endian(const uint8_t *p) {
    return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

/* Magic number, dimensions and length agree. */
static int idx_check_file(const smoe_binaries *files, const smoe_dataset *set,
                          const smoe_binary *file, bool images, smoe_err *err) {
    size_t header = images ? IMAGE_HEADER : LABEL_HEADER, magic = images ? 0x803 : 0x801;
    if (file->size < header)
        return smoe_binary_fail(files, set, file, file->size, err,
                                "the header of %zu bytes ends early", header);
    if (big_endian(file->bytes) != magic)
        return smoe_binary_fail(files, set, file, 0, err,
                                "magic number 0x%08zx, must be 0x%08zx (unsigned bytes, %d axes)",
                                big_endian(file->bytes), magic, images ? 3 : 1);
    size_t n = big_endian(file->bytes + 4), each = 1;
    if (!n) return smoe_binary_fail(files, set, file, 4, err, "no items");
    if (images) {
        size_t rows = big_endian(file->bytes + 8), columns = big_endian(file->bytes + 12);
        if (!rows || rows > MOST_SIDE)
            return smoe_binary_fail(files, set, file, 8, err, "%zu rows, must be 1 .. %d", rows,
                                    MOST_SIDE);
        if (!columns || columns > MOST_SIDE)
            return smoe_binary_fail(files, set, file, 12, err, "%zu columns, must be 1 .. %d",
                                    columns, MOST_SIDE);
        each = rows * columns; /* at most 2^24, and n below 2^32: no overflow */
    }
    size_t needed = header + n * each;
    if (file->size < needed)
        return smoe_binary_fail(files, set, file, file->size, err,
                                "truncated: the header claims %zu bytes", needed);
    if (file->size > needed)
        return smoe_binary_fail(files, set, file, needed, err, "%zu bytes too many",
                                file->size - needed);
    return 0;
}

typedef struct found {
    const smoe_binary *images, *labels, *other; /* other: the labels of the other split, or NULL */
} found;

static int sort_roles(found *f, const smoe_binaries *files, const smoe_dataset *set,
                      smoe_err *err) {
    *f = (found){0};
    for (size_t i = 0; i < files->count; i++) {
        const smoe_binary *file = &files->file[i];
        bool own = set->train == !strncmp(file->base, "train", 5);
        bool images = strstr(file->base, "-images");
        const smoe_binary **to = !own ? &f->other : images ? &f->images : &f->labels;
        if (*to)
            return smoe_fail(err, SMOE_DATA, "%s: has both %s and %s; only one of them is allowed",
                             set->path, (*to)->name, file->name);
        *to = file;
        if (idx_check_file(files, set, file, images, err)) return -1;
    }
    if (!f->images || !f->labels)
        return smoe_fail(err, SMOE_DATA, "%s: no %s-%s-ubyte (or .gz) there", set->path,
                         set->train ? "train" : "t10k", f->images ? "labels-idx1" : "images-idx3");
    size_t images = big_endian(f->images->bytes + 4), labels = big_endian(f->labels->bytes + 4);
    if (images == labels) return 0;
    return smoe_binary_fail(files, set, f->labels, 4, err, "%zu labels, but %s has %zu images",
                            labels, f->images->name, images);
}

static size_t count_classes(const smoe_binary *labels) {
    size_t most = 0;
    for (size_t i = LABEL_HEADER; labels && i < labels->size; i++)
        if (labels->bytes[i] >= most) most = labels->bytes[i] + 1u;
    return most;
}

static int take_images(smoe_dataset *set, const found *f, smoe_err *err) {
    size_t n = big_endian(f->images->bytes + 4);
    size_t rows = big_endian(f->images->bytes + 8), columns = big_endian(f->images->bytes + 12);
    size_t each = rows * columns;
    SMOE_FREED uint32_t *label = smoe_alloc(n, sizeof *label);
    for (size_t i = 0; i < n; i++) label[i] = f->labels->bytes[LABEL_HEADER + i];
    if (smoe_binary_grid_make(set, label, n, columns, rows, 1, err)) return -1;
    const smoe_binary_grid *grid = set->store;
    for (size_t i = 0; i < set->images; i++)
        memcpy(grid->pixel + i * each, f->images->bytes + IMAGE_HEADER + grid->place[i] * each,
               each);
    return 0;
}

static int idx_open(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    SMOE_FREED_BY(smoe_binaries_free) smoe_binaries files = {0};
    found f;
    if (smoe_spec_path(spec, "data.path", &set->path, err) ||
        smoe_binaries_read(&files, set, set->train ? train_files : test_files, err) ||
        sort_roles(&f, &files, set, err))
        return -1;
    size_t classes = count_classes(f.labels), other = count_classes(f.other);
    smoe_dataset_name_classes(set, NULL, classes > other ? classes : other);
    return take_images(set, &f, err);
}

const smoe_source_type smoe_source_idx = SMOE_BINARY_GRID_SOURCE(idx_open);
