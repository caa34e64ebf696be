/*
 * `cifar10`, `cifar100` and `cifar100-coarse`: the files of the binary version, or of the Python
 * version, which becomes the same. A record is one label byte (cifar100: a coarse,
 * then a fine label) and 3072 bytes of pixels, planes R, G, B of 32 x 32, rows top down.
 *   cifar10   train: data_batch_*.bin in the order of their names   test: test_batch.bin
 *   cifar100  train: train.bin                                      test: test.bin
 * without .bin in the Python version. Any number of records per file, plain or .gz, in a directory,
 * in an archive, or one file alone. There is no third split: val is refused.
 */
#include "data/binary.h"
#include "spec/sources.h"
#include "tensors/pickle.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, PIXELS = 3 * PLANE };

static const char cifar10_name[] = "airplane automobile bird cat deer dog frog horse ship truck";
static const char cifar100_name[] =
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
    "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch "
    "crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo "
    "keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse "
    "mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy "
    "porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
    "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television "
    "tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm";
static const char coarse_name[] =
    "aquatic_mammals fish flowers food_containers fruit_and_vegetables "
    "household_electrical_devices household_furniture insects large_carnivores "
    "large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores "
    "medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 "
    "vehicles_2";

/* ---- the Python version ---------------------------------------------------------------------- */

/* Converts characters below 256 from UTF-8 to bytes, in place; their number, or 0 if there are
 * others. */
static size_t cifar_narrow(uint8_t *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        bool two = (text[i] & 0xfe) == 0xc2 && i + 1 < n && (text[i + 1] & 0xc0) == 0x80;
        if (text[i] >= 0x80 && !two) return 0;
        text[count] = two ? (uint8_t)(text[i] << 6 | (text[i + 1] & 0x3f)) : text[i];
        i += 1 + two;
    }
    return count;
}

/* "[40, 32, 32, 3]" */
static char *shape_text(const smoe_pickle_bytes *array) {
    char text[SMOE_PICKLE_AXES * 24] = "";
    for (size_t k = 0; k < array->axes; k++)
        smoe_text_list(text, sizeof text, "%lld", (long long)array->axis[k]);
    return smoe_text_format("[%s]", text);
}

/* The pixels of the key data: planes of 3072 bytes for each image, as [images, 3072] or
 * [images, 3, 32, 32]. Another order of axes has as many bytes. */
static int take_pixels(smoe_pickle_bytes *data, const smoe_pickle *pickle, smoe_err *err) {
    if (!smoe_pickle_array(data, pickle, "data"))
        return smoe_fail(err, SMOE_DATA, "a pickle without an array data of bytes [images, 3072]");
    bool flat = data->axes == 2 && data->axis[1] == PIXELS;
    bool planes =
        data->axes == 4 && data->axis[1] == 3 && data->axis[2] == SIDE && data->axis[3] == SIDE;
    if (!flat && !planes) {
        SMOE_FREED char *shape = shape_text(data);
        bool last = data->axes == 4 && data->axis[3] == 3;
        return smoe_fail(err, SMOE_DATA,
                         "a pickle with an array data of shape %s, not [images, 3072]%s", shape,
                         last ? ": write data.transpose(0, 3, 1, 2)" : "");
    }
    if (data->letters) data->size = cifar_narrow((uint8_t *)data->text, data->size);
    if (data->size && !(data->size % PIXELS)) return 0;
    return smoe_fail(err, SMOE_DATA, "a pickle whose array data has not 3072 bytes for each image");
}

/* The labels of a list, in their byte of each record. */
static int take_labels(uint8_t *record, size_t images, size_t size, const smoe_pickle *pickle,
                       const char *key, smoe_err *err) {
    SMOE_FREED int64_t *number = smoe_alloc(images, sizeof *number);
    size_t count = smoe_pickle_numbers(pickle, key, number, images);
    if (!count) return smoe_fail(err, SMOE_DATA, "a pickle without a list %s of numbers", key);
    if (count != images)
        return smoe_fail(err, SMOE_DATA, "a pickle with %zu images, but %zu %s", images, count,
                         key);
    for (size_t i = 0; i < images; i++) {
        if (number[i] < 0 || number[i] > UINT8_MAX)
            return smoe_fail(err, SMOE_DATA, "%s: an item that is not a label", key);
        record[i * size] = (uint8_t)number[i];
    }
    return 0;
}

/* Replaces a pickle, as in cifar-10-batches-py and cifar-100-python, by the records of the binary
 * version: it is a dictionary with lists of labels and one array of pixels. */
static int unpickle(smoe_binary *file, bool hundred, smoe_err *err) {
    SMOE_FREED_BY(smoe_pickle_freed) smoe_pickle *pickle = NULL;
    smoe_pickle_bytes data;
    size_t used, header = hundred ? 2 : 1, record = header + PIXELS;
    if (smoe_pickle_read(&pickle, file->bytes, file->size, &used, err) ||
        take_pixels(&data, pickle, err))
        return -1;
    size_t images = data.size / PIXELS;
    uint8_t *out = malloc(images * record);
    if (!out) return smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu images", images);
    for (size_t i = 0; i < images; i++)
        memcpy(out + i * record + header, data.text + i * PIXELS, PIXELS);
    if (take_labels(out, images, record, pickle, hundred ? "coarse_labels" : "labels", err) ||
        (hundred && take_labels(out + 1, images, record, pickle, "fine_labels", err))) {
        free(out);
        return -1;
    }
    free(file->bytes);
    file->bytes = out;
    file->size = images * record;
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The differences between them. */
typedef struct layout {
    size_t header;            /* label bytes of a record */
    size_t counts;            /* which of them counts */
    size_t classes;           /* of that */
    const char *name;         /* of those, separated by blanks */
    const char *train, *test; /* file names */
    /* Of the files of both versions, as patterns: those of the Python version have no ending. */
    const char *train_files, *test_files;
    size_t parts; /* how many files there are for training */
} layout;

static const layout layouts[SMOE_SOURCES] = {
    [SMOE_SOURCE_CIFAR10] = {1, 0, 10, cifar10_name, "data_batch_*.bin", "test_batch.bin",
                             "data_batch_@(*.bin|*([^.]))", "test_batch?(.bin)", 5},
    [SMOE_SOURCE_CIFAR100] = {2, 1, 100, cifar100_name, "train.bin", "test.bin", "train?(.bin)",
                              "test?(.bin)", 1},
    [SMOE_SOURCE_CIFAR100_COARSE] = {2, 0, 20, coarse_name, "train.bin", "test.bin", "train?(.bin)",
                                     "test?(.bin)", 1},
};

static void give_names(smoe_dataset *set, const layout *a) {
    enum { MOST = 100 };
    SMOE_FREED char *text = smoe_alloc_text(a->name);
    const char *name[MOST];
    char *rest = text;
    for (size_t i = 0; i < a->classes; i++) name[i] = strsep(&rest, " ");
    smoe_dataset_name_classes(set, name, a->classes);
}

/* Pickles become records; two versions of the same files would be read twice. */
static int unpickle_all(smoe_binaries *files, const smoe_dataset *set, const layout *a,
                        smoe_err *err) {
    size_t pickles = 0;
    for (size_t i = 0; i < files->count; i++) {
        smoe_binary *file = &files->file[i];
        if (!file->size || *file->bytes != 0x80) continue; /* which is no label */
        pickles++;
        if (unpickle(file, a->header == 2, err))
            return smoe_place_prefix(files->kind, set->path, file->name, err);
    }
    if (!pickles || pickles == files->count) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: has the binary and the Python version of %s; only one of them is allowed",
                     set->path, set->name);
}

/* Checks one file and counts its records. */
static int cifar_check_file(const smoe_binaries *files, const smoe_dataset *set,
                            const smoe_binary *file, const layout *a, size_t *records,
                            smoe_err *err) {
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
                        smoe_err *err) {
    size_t record = a->header + PIXELS;
    SMOE_FREED uint32_t *label = smoe_alloc(n, sizeof *label);
    for (size_t i = 0; i < n; i++) label[i] = record_at(files, record, i)[a->counts];
    if (smoe_binary_grid_make(set, label, n, SIDE, SIDE, 3, err)) return -1;
    const smoe_binary_grid *grid = set->store;
    for (size_t i = 0; i < set->images; i++) {
        const uint8_t *plane = record_at(files, record, grid->place[i]) + a->header;
        uint8_t *to = grid->pixel + i * PIXELS;
        for (size_t k = 0; k < PLANE; k++)
            for (size_t c = 0; c < 3; c++) to[3 * k + c] = plane[c * PLANE + k];
    }
    return 0;
}

static int cifar_open(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    const layout *a = &layouts[spec->data.source];
    SMOE_FREED_BY(smoe_binaries_free) smoe_binaries files = {0};
    size_t records = 0;
    give_names(set, a);
    if (smoe_spec_path(spec, "data.path", &set->path, err) ||
        smoe_binaries_read(&files, set, set->train ? a->train_files : a->test_files, err))
        return -1;
    if (!files.count)
        return smoe_fail(err, SMOE_DATA,
                         "%s: no %s (or .gz, or without .bin) there, for the split %s of %s",
                         set->path, set->train ? a->train : a->test, set->split, set->name);
    if (unpickle_all(&files, set, a, err)) return -1;
    for (size_t i = 0; i < files.count; i++)
        if (cifar_check_file(&files, set, &files.file[i], a, &records, err)) return -1;
    if (set->train && files.count < a->parts)
        smoe_dataset_remark_on(set, "%s has %zu of the %zu files %s", set->path, files.count,
                               a->parts, a->train);
    return take_records(set, &files, a, records, err);
}

const smoe_source_type smoe_source_cifar = SMOE_BINARY_GRID_SOURCE(cifar_open);
