/*
 * `cifar10`, `cifar100` and `cifar100-coarse`: the files of the binary version, or of the Python
 * version, which becomes the same. A record is one label byte (cifar100: a coarse,
 * then a fine label) and 3072 bytes of pixels, planes R, G, B of 32 x 32, rows top down.
 *   cifar10   train: data_batch_*.bin in the order of their names   test: test_batch.bin
 *   cifar100  train: train.bin                                      test: test.bin
 * without .bin in the Python version. Any number of records per file, plain or .gz, in a directory,
 * in an archive, or one file alone. There is no third split: val is refused.
 */
#include "base/alloc.h"
#include "data/binary.h"

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

/* ---- the Python version ---------------------------------------------------------------------- */

/* cifar-10-batches-py, cifar-100-python: a pickle of a dictionary with the labels and one array of
 * pixels. It is not executed and no object of it is made: its instructions are passed over one by
 * one, and only numbers, texts and bytes are looked at. */
enum { LISTS = 2 };

/* What is looked for, and where it was found. */
typedef struct scan {
    uint8_t *data;
    size_t size, at;
    int key;                        /* the last key: a list, LISTS for the pixels, -1: another */
    const char *name[LISTS];        /* of the lists of labels, in the order of a record */
    uint8_t *label[LISTS];          /* [room] owned */
    size_t count[LISTS], room;      /* of labels */
    const uint8_t *pixels;          /* [images, 3072] */
    size_t images;                  /* with pixels */
    bool by_column, bytes_of_pixel; /* the order of the array; whether its type is u1 */
    bool truth;                     /* the last one read */
} scan;

static int unexpected(const scan *s, smoe_err *err, const char *what) {
    return smoe_fail(err, SMOE_DATA, "at byte %zu: %s", s->at, what);
}

/* A little-endian number of n bytes at the front of what is left; false where that is less. */
static bool cifar_number(scan *s, size_t n, uint64_t *value) {
    if (n > s->size - s->at) return false;
    *value = 0;
    for (size_t i = 0; i < n; i++) *value |= (uint64_t)s->data[s->at + i] << (8 * i);
    s->at += n;
    return true;
}

static bool is(const uint8_t *text, size_t n, const char *word) {
    return n == strlen(word) && !memcmp(text, word, n);
}

/* Bytes that Python 3 has written for Python 2: characters below 256, in UTF-8. Made bytes in
 * place; their number, or 0 if they are none. */
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

/* A text or bytes: a key, the type of the array, its order, or its elements. */
static void take_text(scan *s, const uint8_t *text, size_t n) {
    if (is(text, n, "latin1")) return; /* in which bytes were written for Python 2 */
    if (s->key == LISTS && is(text, n, "u1")) s->bytes_of_pixel = true;
    if (s->key == LISTS && is(text, n, "F")) s->by_column = true;
    if (s->key == LISTS && !s->pixels && n && n % PIXELS == 0) {
        s->pixels = text;
        s->images = n / PIXELS;
        s->by_column = s->truth;
        return;
    }
    int key = -1;
    for (int k = 0; k < LISTS; k++)
        if (s->name[k] && is(text, n, s->name[k])) key = k;
    if (is(text, n, "data")) {
        key = LISTS;
        s->truth = false;
    }
    if (key >= 0 || s->key != LISTS) s->key = key; /* the parts of an array are texts too */
}

static int take_number(scan *s, uint64_t value, smoe_err *err) {
    if (s->key < 0 || s->key == LISTS) return 0;
    if (value > UINT8_MAX) return unexpected(s, err, "a label above 255");
    if (s->count[s->key] == s->room) return unexpected(s, err, "more labels than bytes");
    s->label[s->key][s->count[s->key]++] = (uint8_t)value;
    return 0;
}

/* The bytes that follow an instruction: those of a length of n bytes and then so many. */
static bool sized(scan *s, size_t n, const uint8_t **text, uint64_t *length) {
    if (!cifar_number(s, n, length) || *length > s->size - s->at) return false;
    *text = s->data + s->at;
    s->at += (size_t)*length;
    return true;
}

/* Passes over so many lines. */
static bool lines(scan *s, int count) {
    for (; count; count--) {
        const uint8_t *end = memchr(s->data + s->at, '\n', s->size - s->at);
        if (!end) return false;
        s->at = (size_t)(end - s->data) + 1;
    }
    return true;
}

/* One instruction; 1 at the end. */
static int scan_step(scan *s, smoe_err *err) {
    static const char plain[] = "(]})Nuaets0bR\x81\x85\x86\x87\x90\x91\x93\x94";
    const uint8_t *text = NULL;
    uint64_t value = 0, code;
    bool there = true, numbered = false;
    if (!cifar_number(s, 1, &code)) return unexpected(s, err, "the pickle ends in the middle");
    switch (code) {
    case '.': return 1;
    case 0x80: there = cifar_number(s, 1, &value); break; /* version */
    case 0x95: there = cifar_number(s, 8, &value); break; /* frame */
    case 'q':
    case 'h': there = cifar_number(s, 1, &value); break; /* memory */
    case 'r':
    case 'j': there = cifar_number(s, 4, &value); break;
    case 'c': there = lines(s, 2); break; /* a name, not looked up */
    case 0x88:
    case 0x89: s->truth = code == 0x88; break;
    case 'K': there = numbered = cifar_number(s, 1, &value); break;
    case 'M': there = numbered = cifar_number(s, 2, &value); break;
    case 'J': there = numbered = cifar_number(s, 4, &value); break;
    case 0x8a:
        there = sized(s, 1, &text, &value);
        text = NULL;
        break;
    case 'U':
    case 'C':
    case 0x8c: there = sized(s, 1, &text, &value); break;
    case 'X':
        there = sized(s, 4, &text, &value);
        if (there && s->key == LISTS && value > PIXELS)
            value = cifar_narrow(s->data + (text - s->data), (size_t)value);
        break;
    case 'T':
    case 'B': there = sized(s, 4, &text, &value); break;
    case 0x8d:
    case 0x8e:
    case 0x96: there = sized(s, 8, &text, &value); break;
    default:
        if (!code || !memchr(plain, (int)code, sizeof plain - 1))
            return unexpected(s, err, "an instruction that the pickles of CIFAR do not have");
    }
    if (!there) return unexpected(s, err, "the pickle ends in the middle");
    if (text) take_text(s, text, (size_t)value);
    return numbered ? take_number(s, value, err) : 0;
}

static int scan_check(const scan *s, smoe_err *err) {
    if (!s->pixels || !s->bytes_of_pixel || s->by_column)
        return smoe_fail(err, SMOE_DATA, "a pickle without an array data of bytes [images, 3072]");
    for (int k = 0; k < LISTS && s->name[k]; k++)
        if (s->count[k] != s->images)
            return smoe_fail(err, SMOE_DATA, "a pickle with %zu images, but %zu %s", s->images,
                             s->count[k], s->name[k]);
    return 0;
}

/* Replaces a pickle by the records of the binary version. A failure says at which byte it is
 * something else. */
static int unpickle(smoe_binary *file, bool hundred, smoe_err *err) {
    scan s = {.data = file->bytes, .size = file->size, .key = -1, .room = file->size / PIXELS + 1};
    s.name[0] = hundred ? "coarse_labels" : "labels";
    s.name[1] = hundred ? "fine_labels" : NULL;
    int status = 0;
    for (int k = 0; k < LISTS; k++) s.label[k] = smoe_alloc(s.room, 1);
    while (!status) status = scan_step(&s, err);
    if (status > 0) status = scan_check(&s, err);
    size_t header = hundred ? 2 : 1, record = header + PIXELS;
    uint8_t *out = status ? NULL : malloc(s.images * record);
    if (!status && !out)
        status = smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu images", s.images);
    for (size_t i = 0; !status && i < s.images; i++) {
        for (size_t k = 0; k < header; k++) out[i * record + k] = s.label[k][i];
        memcpy(out + i * record + header, s.pixels + i * PIXELS, PIXELS);
    }
    for (int k = 0; k < LISTS; k++) free(s.label[k]);
    if (status) return -1;
    free(file->bytes);
    file->bytes = out;
    file->size = s.images * record;
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The differences between them. */
typedef struct layout {
    size_t header;  /* label bytes of a record */
    size_t counts;  /* which of them counts */
    size_t classes; /* of that */
    const char *const *name;
    const char *train, *test; /* file names; '*' stands for anything, and .bin may be missing */
    size_t parts;             /* how many files there are for training */
} layout;

static const layout ten = {1, 0, 10, cifar10_name, "data_batch_*.bin", "test_batch.bin", 5},
                    hundred = {2, 1, 100, cifar100_name, "train.bin", "test.bin", 1},
                    coarse = {2, 0, 20, coarse_name, "train.bin", "test.bin", 1};

typedef struct request {
    const layout *layout;
    const char *pattern;
} request;

static bool cifar_matches(const char *pattern, const char *name) {
    const char *star = strchr(pattern, '*');
    if (!star) return !strcmp(pattern, name);
    size_t before = (size_t)(star - pattern), after = strlen(star + 1), n = strlen(name);
    return n > before + after && !strncmp(pattern, name, before) &&
           !strcmp(star + 1, name + n - after);
}

static bool cifar_wanted(const void *user, const char *base) {
    const char *pattern = ((const request *)user)->pattern;
    char python[32];
    snprintf(python, sizeof python, "%.*s", (int)(strlen(pattern) - strlen(".bin")), pattern);
    const char *dot = strrchr(base, '.');
    return cifar_matches(pattern, base) || (!dot && cifar_matches(python, base));
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
    uint32_t *label = smoe_alloc(n, sizeof *label);
    for (size_t i = 0; i < n; i++) label[i] = record_at(files, record, i)[a->counts];
    int status = smoe_binary_grid_make(set, label, n, SIDE, SIDE, 3, err);
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
    SMOE_FREED_BY(smoe_binaries_free) smoe_binaries files = {0};
    size_t records = 0;
    smoe_dataset_name_classes(set, a->name, a->classes);
    if (smoe_spec_data_path(spec, &set->path, err) ||
        smoe_binaries_read(&files, set, cifar_wanted, &r, err))
        return -1;
    if (!files.count)
        return smoe_fail(err, SMOE_DATA,
                         "%s: no %s (or .gz, or without .bin) there, for the split %s of %s",
                         set->path, r.pattern, split, set->name);
    if (unpickle_all(&files, set, a, err)) return -1;
    for (size_t i = 0; i < files.count; i++)
        if (cifar_check_file(&files, set, &files.file[i], a, &records, err)) return -1;
    if (r.pattern == a->train && files.count < a->parts)
        smoe_dataset_remark_on(set, "%s has %zu of the %zu files %s", set->path, files.count,
                               a->parts, a->train);
    return take_records(set, &files, a, records, err);
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

const smoe_source_type smoe_source_cifar10 = SMOE_BINARY_GRID_SOURCE(cifar10_open);
const smoe_source_type smoe_source_cifar100 = SMOE_BINARY_GRID_SOURCE(cifar100_open);
const smoe_source_type smoe_source_cifar100_coarse = SMOE_BINARY_GRID_SOURCE(cifar100_coarse_open);
