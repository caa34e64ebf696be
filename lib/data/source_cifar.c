/*
 * `cifar10`, `cifar100` and `cifar100-coarse`: the files of the binary version, or of the Python
 * version (cifar_python.h), which becomes the same. A record is one label byte (cifar100: a coarse,
 * then a fine label) and 3072 bytes of pixels, planes R, G, B of 32 x 32, rows top down.
 *   cifar10   train: data_batch_*.bin in the order of their names   test: test_batch.bin
 *   cifar100  train: train.bin                                      test: test.bin
 * without .bin in the Python version. Any number of records per file, plain or .gz, in a directory,
 * in an archive, or one file alone. There is no third split: val is refused.
 */
#include "data/binary.h"
#include "data/cifar_python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, PIXELS = 3 * PLANE };

static const char *const cifar10_name[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};
static const char *const cifar100_name[] = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm"};
static const char *const coarse_name[] = {"aquatic_mammals",
                                          "fish",
                                          "flowers",
                                          "food_containers",
                                          "fruit_and_vegetables",
                                          "household_electrical_devices",
                                          "household_furniture",
                                          "insects",
                                          "large_carnivores",
                                          "large_man-made_outdoor_things",
                                          "large_natural_outdoor_scenes",
                                          "large_omnivores_and_herbivores",
                                          "medium_mammals",
                                          "non-insect_invertebrates",
                                          "people",
                                          "reptiles",
                                          "small_mammals",
                                          "trees",
                                          "vehicles_1",
                                          "vehicles_2"};

/* The differences between them. */
typedef struct layout {
    size_t header;  /* label bytes of a record */
    size_t counts;  /* which of them counts */
    size_t classes; /* of that */
    const char *const *name;
    const char *train, *test; /* file names; '*' stands for anything, and .bin may be missing */
} layout;

static const layout ten = {1, 0, 10, cifar10_name, "data_batch_*.bin", "test_batch.bin"},
                    hundred = {2, 1, 100, cifar100_name, "train.bin", "test.bin"},
                    coarse = {2, 0, 20, coarse_name, "train.bin", "test.bin"};

typedef struct request {
    const layout *layout;
    const char *pattern;
} request;

static bool matches(const char *pattern, const char *name) {
    const char *star = strchr(pattern, '*');
    if (!star) return !strcmp(pattern, name);
    size_t before = (size_t)(star - pattern), after = strlen(star + 1), n = strlen(name);
    return n > before + after && !strncmp(pattern, name, before) &&
           !strcmp(star + 1, name + n - after);
}

static bool wanted(const void *user, const char *base) {
    const char *pattern = ((const request *)user)->pattern;
    char python[32];
    snprintf(python, sizeof python, "%.*s", (int)(strlen(pattern) - strlen(".bin")), pattern);
    const char *dot = strrchr(base, '.');
    return matches(pattern, base) || (!dot && matches(python, base));
}

/* Pickles become records; two versions of the same files would be read twice. */
static int unpickle(smoe_binaries *files, const smoe_dataset *set, const layout *a, smoe_err *err) {
    size_t pickles = 0;
    for (size_t i = 0; i < files->count; i++) {
        smoe_binary *file = &files->file[i];
        if (!smoe_cifar_is_pickle(file->bytes, file->size)) continue;
        pickles++;
        if (smoe_cifar_unpickle(&file->bytes, &file->size, a->header == 2, err))
            return smoe_place_prefix(files->kind, set->path, file->name, err);
    }
    if (!pickles || pickles == files->count) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: has the binary and the Python version of %s; only one of them is allowed",
                     set->path, set->name);
}

/* Checks one file and counts its records. */
static int check_file(const smoe_binaries *files, const smoe_dataset *set, const smoe_binary *file,
                      const layout *a, size_t *records, smoe_err *err) {
    size_t record = a->header + PIXELS, whole = file->size / record * record;
    if (!file->size) return smoe_binary_fail(files, set, file, 0, err, "an empty file");
    if (whole != file->size)
        return smoe_binary_fail(
            files, set, file, whole, err,
            "a record has %zu bytes, but only %zu are left: truncated, or not %s", record,
            file->size - whole, set->name);
    for (size_t at = a->counts; at < file->size; at += record)
        if (file->bytes[at] >= a->classes)
            return smoe_binary_fail(files, set, file, at, err, "label %u, must be below %zu",
                                    file->bytes[at], a->classes);
    *records += file->size / record;
    return 0;
}

/* Record i of all files together. */
static const uint8_t *record_at(const smoe_binaries *files, size_t record, uint64_t i) {
    const smoe_binary *file = files->file;
    for (; i >= file->size / record; file++) i -= file->size / record;
    return file->bytes + i * record;
}

static int take_records(smoe_dataset *set, const smoe_binaries *files, const layout *a, size_t n,
                        size_t limit, smoe_err *err) {
    size_t record = a->header + PIXELS;
    uint32_t *label = malloc((n + 1) * sizeof *label);
    if (!label) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", set->path);
    for (size_t i = 0; i < n; i++) label[i] = record_at(files, record, i)[a->counts];
    int status = smoe_binary_grid_make(set, label, n, SIDE, SIDE, 3, limit, err);
    free(label);
    if (status) return -1;
    const smoe_binary_grid *grid = set->store;
    for (size_t i = 0; i < set->images; i++) {
        const uint8_t *plane = record_at(files, record, grid->place[i]) + a->header;
        uint8_t *to = grid->pixel + i * PIXELS;
        for (size_t k = 0; k < PLANE; k++)
            for (size_t c = 0; c < 3; c++) to[3 * k + c] = plane[c * PLANE + k];
    }
    return 0;
}

static int open_as(smoe_dataset *set, const layout *a, const smoe_spec *spec, const char *split,
                   smoe_err *err) {
    request r = {a, strcmp(split, "train") ? a->test : a->train};
    smoe_binaries files = {0};
    size_t records = 0;
    int status = -1;
    smoe_dataset_name_classes(set, a->name, a->classes);
    if (smoe_spec_data_path(spec, &set->path, err) ||
        smoe_binaries_read(&files, set, wanted, &r, err))
        goto out;
    if (!files.count) {
        smoe_fail(err, SMOE_DATA,
                  "%s: no %s (or .gz, or without .bin) there, for the split %s of %s", set->path,
                  r.pattern, split, set->name);
        goto out;
    }
    if (unpickle(&files, set, a, err)) goto out;
    for (size_t i = 0; i < files.count; i++)
        if (check_file(&files, set, &files.file[i], a, &records, err)) goto out;
    status = take_records(set, &files, a, records, set->data.limit, err);
out:
    smoe_binaries_free(&files);
    return status;
}

static int cifar10_open(smoe_dataset *set, const smoe_spec *spec, const char *split,
                        smoe_err *err) {
    return open_as(set, &ten, spec, split, err);
}

static int cifar100_open(smoe_dataset *set, const smoe_spec *spec, const char *split,
                         smoe_err *err) {
    return open_as(set, &hundred, spec, split, err);
}

static int cifar100_coarse_open(smoe_dataset *set, const smoe_spec *spec, const char *split,
                                smoe_err *err) {
    return open_as(set, &coarse, spec, split, err);
}

const smoe_source_type smoe_source_cifar10 = {
    .open = cifar10_open,
    .image = smoe_binary_grid_image,
    .label = smoe_dataset_table_label,
    .image_name = smoe_binary_grid_image_name,
    .close = smoe_binary_grid_close,
};

const smoe_source_type smoe_source_cifar100 = {
    .open = cifar100_open,
    .image = smoe_binary_grid_image,
    .label = smoe_dataset_table_label,
    .image_name = smoe_binary_grid_image_name,
    .close = smoe_binary_grid_close,
};

const smoe_source_type smoe_source_cifar100_coarse = {
    .open = cifar100_coarse_open,
    .image = smoe_binary_grid_image,
    .label = smoe_dataset_table_label,
    .image_name = smoe_binary_grid_image_name,
    .close = smoe_binary_grid_close,
};
