/* cifar10, cifar100 and idx from files made here byte by byte. */
#include "data/binary.h"
#include "datafiles.h"
#include "spec/sources.h"
#include "scratch.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE };

static smoe_dataset *open_set(const smoe_spec *spec, const char *split) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, spec, split, NULL, &err)) fail_msg("%s", err.text);
    datafiles_listed(spec, split, set, NULL);
    return set;
}

/* The byte of channel c, pixel k of record i. */
static uint8_t byte_of(size_t i, size_t c, size_t k) {
    return (uint8_t)(i * 31 + c * 80 + k * 3);
}

/* Records first .. first+n-1, labels i mod `classes` in the last of `header` label bytes. */
static datafile records(const char *name, size_t first, size_t n, size_t header, size_t classes) {
    size_t record = header + 3 * PLANE;
    uint8_t *bytes = calloc(n, record);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) {
        uint8_t *r = bytes + i * record;
        if (header == 2) r[0] = (uint8_t)((first + i) % 20); /* the coarse label */
        r[header - 1] = (uint8_t)((first + i) % classes);
        for (size_t c = 0; c < 3; c++)
            for (size_t k = 0; k < PLANE; k++) r[header + c * PLANE + k] = byte_of(first + i, c, k);
    }
    return (datafile){name, bytes, n * record};
}

/* Image `at` of the set is record i. */
static void check_record(const smoe_dataset *set, size_t at, size_t i, size_t classes) {
    static real pixels[3 * PLANE], target[100];
    int64_t label;
    assert_int_equal(smoe_dataset_image(set, at, false, pixels, target, &label, NULL), 0);
    assert_int_equal(label, i % classes);
    for (size_t c = 0; c < 3; c++)
        for (size_t k = 0; k < PLANE; k++)
            assert_true(pixels[c * PLANE + k] == (real)byte_of(i, c, k) / (real)127.5 - 1);
}

/* ---- cifar ----------------------------------------------------------------------------------- */

/* Batches are read in the order of their names, whatever their order in the folder; other files
 * are ignored. */
static void test_cifar10(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH], buf[32];
    datafile file[] = {records("data_batch_2.bin", 3, 4, 1, 10),
                       records("data_batch_1.bin", 0, 3, 1, 10),
                       records("test_batch.bin", 7, 2, 1, 10),
                       {"batches.meta.txt", "airplane\n", 9}};
    datafiles_tree(s->dir, file, 4);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR10, s->dir, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 7);
    assert_int_equal(smoe_dataset_classes(set), 10);
    assert_int_equal(smoe_sources[SMOE_SOURCE_CIFAR10].classes, 10); /* known without the data */
    assert_string_equal(smoe_dataset_class_name(set, 9), "truck");
    assert_string_equal(smoe_dataset_image_name(set, 4, buf, sizeof buf), "train/4");
    for (size_t i = 0; i < 7; i++) check_record(set, i, i, 10);
    assert_int_equal(smoe_dataset_found(set)->remarks, 1);
    assert_non_null(
        strstr(smoe_dataset_found(set)->remark[0], "has 2 of the 5 files data_batch_*.bin"));
    smoe_dataset_free(set);
    set = open_set(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 2);
    check_record(set, 1, 8, 10);
    smoe_dataset_free(set);
    datafiles_refused(&spec, "val", SMOE_DATA, s->dir, "cifar10 has no split val", "train and test",
                      NULL);
    /* one file alone */
    spec.data.path = (char *)scratch_path(s, path, "test_batch.bin");
    set = open_set(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 2);
    smoe_dataset_free(set);
    /* as published: an archive that contains one folder */
    datafile inside[4];
    char name[4][64];
    for (int i = 0; i < 4; i++) {
        snprintf(name[i], sizeof name[i], "cifar-10-batches-bin/%s", file[i].name);
        inside[i] = (datafile){name[i], file[i].bytes, file[i].size};
    }
    static const char *const archive[] = {"a.tar", "a.tar.gz", "a.zip"};
    for (int k = 0; k < 3; k++) {
        datafiles_archive(scratch_path(s, path, archive[k]), inside, 4);
        set = open_set(&spec, "train");
        assert_int_equal(smoe_dataset_images(set), 7);
        for (size_t i = 0; i < 7; i++) check_record(set, i, i, 10);
        smoe_dataset_free(set);
    }
    for (int i = 0; i < 3; i++) free((void *)file[i].bytes);
}

/* The fine label is the second byte, the coarse one the first. */
static void test_cifar100(void **state) {
    const scratch *s = *state;
    datafile file = records("train.bin", 95, 7, 2, 100);
    datafiles_tree(s->dir, &file, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR100, s->dir, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 7);
    assert_int_equal(smoe_dataset_classes(set), 100);
    assert_int_equal(smoe_sources[SMOE_SOURCE_CIFAR100].classes, 100);
    assert_string_equal(smoe_dataset_class_name(set, 0), "apple");
    assert_string_equal(smoe_dataset_class_name(set, 52), "oak_tree");
    assert_string_equal(smoe_dataset_class_name(set, 99), "worm");
    for (size_t k = 1; k < 100; k++) /* the published order is the alphabet's */
        assert_true(strcmp(smoe_dataset_class_name(set, k - 1), smoe_dataset_class_name(set, k)) <
                    0);
    for (size_t i = 0; i < 7; i++) check_record(set, i, 95 + i, 100);
    smoe_dataset_free(set);
    datafiles_refused(&spec, "test", SMOE_DATA, s->dir, "no test.bin", NULL);
    spec.data.source = SMOE_SOURCE_CIFAR100_COARSE;
    set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_classes(set), 20);
    assert_int_equal(smoe_sources[SMOE_SOURCE_CIFAR100_COARSE].classes, 20);
    assert_string_equal(smoe_dataset_class_name(set, 14), "people");
    for (size_t i = 0; i < 7; i++) check_record(set, i, 95 + i, 20);
    smoe_dataset_free(set);
    free((void *)file.bytes);
}

/* ---- the Python version ---------------------------------------------------------------------- */

typedef struct pickle {
    uint8_t bytes[4 * 3072];
    size_t size;
} pickle;

static void put(pickle *p, const char *bytes, size_t n) {
    memcpy(p->bytes + p->size, bytes, n);
    p->size += n;
}
#define PUT(p, text) put(p, text, sizeof(text) - 1)

/* ("K" label)* between a mark and an append. */
static void put_labels(pickle *p, const char *labels) {
    PUT(p, "]q\x05(");
    for (; *labels; labels++) put(p, (char[]){'K', *labels}, 2);
    PUT(p, "e");
}

static void put_pixels(pickle *p, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        for (size_t c = 0; c < 3; c++)
            for (size_t k = 0; k < PLANE; k++) p->bytes[p->size++] = byte_of(i, c, k);
}

/* As published, written by Python 2: three images with labels 3, 4 and 5. */
static pickle published(const char *labels) {
    pickle p = {.size = 0};
    PUT(&p, "\x80\x02}q\x01(U\x0b"
            "batch_labelq\x02U\x03one"
            "q\x03U\x06labelsq\x04");
    put_labels(&p, labels);
    PUT(&p, "U\x04"
            "dataq\x06"
            "cnumpy.core.multiarray\n_reconstruct\nq\x07"
            "cnumpy\nndarray\n"
            "q\x08K\x00\x85U\x01"
            "b\x87Rq\x09(K\x01K\x03M\x00\x0c\x86"
            "cnumpy\ndtype\n"
            "U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
            "\x89T\x00\x24\x00\x00");
    put_pixels(&p, 3, 3);
    PUT(&p, "tbU\x09"
            "filenames]q\x0a(U\x05"
            "a.pngU\x05"
            "b.pngeu.");
    return p;
}

/* The same with one image and label 3, written by Python 3 in the protocol of Python 2: bytes are
 * characters below 256 in UTF-8, which _codecs.encode makes bytes again. */
static pickle published_again(void) {
    pickle p = {.size = 0}, pixels = {.size = 0};
    put_pixels(&pixels, 3, 1);
    size_t length = 3072;
    for (size_t i = 0; i < pixels.size; i++) length += pixels.bytes[i] >= 0x80;
    PUT(&p, "\x80\x02}q\x00(c_codecs\nencode\nq\x01X\x06\x00\x00\x00labelsq\x02X\x06\x00\x00\x00"
            "latin1q\x03\x86q\x04Rq\x05");
    put_labels(&p, "\3");
    PUT(&p,
        "h\x01X\x04\x00\x00\x00"
        "dataq\x06h\x03\x86Rq\x07"
        "cnumpy._core.multiarray\n_reconstruct\nq\x08"
        "cnumpy\nndarray\nK\x00\x85h\x01X\x01\x00\x00\x00"
        "bh\x03\x86R\x87R(K\x01K\x01M\x00\x0c\x86"
        "cnumpy\ndtype\nX\x02\x00\x00\x00u1\x89\x88\x87R(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff"
        "\xffJ\xff\xff\xff\xffK\x00tb\x89h\x01X");
    put(&p, (char[]){(char)(length & 0xff), (char)(length >> 8), 0, 0}, 4);
    for (size_t i = 0; i < pixels.size; i++) {
        uint8_t byte = pixels.bytes[i];
        if (byte >= 0x80) p.bytes[p.size++] = 0xc0 | byte >> 6;
        p.bytes[p.size++] = byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte;
    }
    PUT(&p, "h\x03\x86Rtbu.");
    return p;
}

/* Python 3, protocol 5: the array comes before its type, shape and order. */
static pickle protocol_5(const char *shape, size_t size) {
    pickle q = {.size = 0};
    PUT(&q, "\x80\x05\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x0b"
            "fine_labels\x94");
    put_labels(&q, "\x63\x07");
    PUT(&q, "\x8c\x0d"
            "coarse_labels\x94");
    put_labels(&q, "\x13\x01");
    PUT(&q, "\x8c\x04"
            "data\x94\x8c\x13numpy._core.numeric\x94\x8c\x0b_frombuffer\x94\x93\x94("
            "\x96\x00\x18\x00\x00\x00\x00\x00\x00");
    put_pixels(&q, 99, 2);
    PUT(&q, "\x94\x8c\x05numpy\x94\x8c\x05"
            "dtype\x94\x93\x94\x8c\x02u1\x94\x89\x88\x87\x94R\x94");
    put(&q, shape, size);
    PUT(&q, "\x94\x8c\x01"
            "C\x94t\x94R\x94u.");
    return q;
}

/* Arrays of other axes have as many bytes, in another order. */
static void test_python_axes(void **state) {
    static const struct {
        const char *shape, *refused;
    } cases[] = {{"(K\x02K\x03K\x20K\x20t", NULL},
                 {"(K\x02K\x20K\x20K\x03t", "of shape [2, 32, 32, 3], not [images, 3072]: write "
                                            "data.transpose(0, 3, 1, 2)"},
                 {"(K\x03K\x02K\x20K\x20t", "of shape [3, 2, 32, 32], not [images, 3072]"},
                 {"M\x01\x18\x85", "of shape [6145], not [images, 3072]"}};
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR100, s->dir, SIDE, 3);
    for (size_t i = 0; i < SMOE_COUNT(cases); i++) {
        pickle q = protocol_5(cases[i].shape, strlen(cases[i].shape));
        scratch_write(scratch_path(s, path, "train"), q.bytes, q.size);
        if (cases[i].refused) {
            datafiles_refused(&spec, "train", SMOE_DATA, path, cases[i].refused, NULL);
            continue;
        }
        smoe_dataset *set = open_set(&spec, "train");
        check_record(set, 0, 99, 100);
        smoe_dataset_free(set);
    }
}

static void test_python(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    pickle p = published("\3\4\5");
    scratch_write(scratch_path(s, path, "data_batch_1"), p.bytes, p.size);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR10, s->dir, SIDE, 3);
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 3);
    for (size_t i = 0; i < 3; i++) check_record(set, i, 3 + i, 10);
    smoe_dataset_free(set);
    for (size_t n = 1; n < p.size; n += n < 300 ? 1 : 97) { /* no part of it is taken for it */
        scratch_write(path, p.bytes, n);
        datafiles_refused(&spec, "train", SMOE_DATA, path, NULL);
    }
    pickle again = published_again();
    scratch_write(path, again.bytes, again.size);
    set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 1);
    check_record(set, 0, 3, 10);
    smoe_dataset_free(set);
    pickle few = published("\3\4");
    scratch_write(path, few.bytes, few.size);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "3 images, but 2 labels", NULL);
    pickle wrong = published("\3\4\x0a");
    scratch_write(path, wrong.bytes, wrong.size);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "label 10, must be below 10", NULL);
    scratch_write(path, p.bytes, p.size);
    datafile binary = records("data_batch_2.bin", 0, 3, 1, 10);
    datafiles_tree(s->dir, &binary, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, "the binary and the Python version", NULL);
    free((void *)binary.bytes);
    pickle q = protocol_5("K\x02M\x00\x0c\x86", 6);
    scratch_write(scratch_path(s, path, "train"), q.bytes, q.size);
    for (int coarse = 0; coarse < 2; coarse++) {
        spec.data.source = coarse ? SMOE_SOURCE_CIFAR100_COARSE : SMOE_SOURCE_CIFAR100;
        set = open_set(&spec, "train");
        assert_int_equal(smoe_dataset_label(set, 0), coarse ? 19 : 99);
        assert_int_equal(smoe_dataset_label(set, 1), coarse ? 1 : 7);
        smoe_dataset_free(set);
    }
    q.bytes[q.size - 8] = 'F'; /* by columns */
    scratch_write(path, q.bytes, q.size);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "without an array data", NULL);
}

/* A limit of 4 over labels 0 1 2 0 1 2 0 (three classes present): 0 twice, 1 and 2 once. */
static void test_cifar_limit(void **state) {
    const scratch *s = *state;
    datafile file = records("data_batch_1.bin", 0, 7, 1, 3);
    datafiles_tree(s->dir, &file, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR10, s->dir, SIDE, 3);
    spec.data.limit = 4;
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_images(set), 4);
    for (size_t i = 0; i < 4; i++) check_record(set, i, i, 3);
    smoe_dataset_free(set);
    spec.data.limit = 0;
    spec.data.cache_mb = 0;
    datafiles_refused(&spec, "train", SMOE_USAGE, s->dir, "7 images", "data.cache_mb (0): raise it",
                      NULL);
    free((void *)file.bytes);
}

/* Another size, and grey: the same as resizing and luma give. */
static void test_cifar_resized(void **state) {
    const scratch *s = *state;
    datafile file = records("data_batch_1.bin", 0, 1, 1, 10);
    datafiles_tree(s->dir, &file, 1);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR10, s->dir, 12, 1);
    smoe_image stored = {0}, expected = {0};
    real pixels[144], target[10];
    int64_t label;
    assert_int_equal(smoe_image_shape(&stored, SIDE, SIDE, 3, NULL), 0);
    for (size_t i = 0; i < 3 * PLANE; i++) stored.pixel[i] = byte_of(0, i % 3, i / 3);
    assert_int_equal(smoe_image_fit(&expected, 12, &stored, NULL, SMOE_RESIZE_BILINEAR, NULL), 0);
    assert_int_equal(smoe_image_convert(&expected, 1, NULL), 0);
    smoe_dataset *set = open_set(&spec, "train");
    assert_int_equal(smoe_dataset_image(set, 0, false, pixels, target, &label, NULL), 0);
    for (size_t i = 0; i < 144; i++)
        assert_true(pixels[i] == (real)expected.pixel[i] / (real)127.5 - 1);
    smoe_dataset_free(set);
    smoe_image_free(&stored);
    smoe_image_free(&expected);
    free((void *)file.bytes);
}

static void test_cifar_refused(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH];
    datafile file = records("data_batch_1.bin", 0, 3, 1, 10);
    uint8_t *bytes = (uint8_t *)file.bytes;
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR10, s->dir, SIDE, 3);
    datafiles_refused(&spec, "train", SMOE_DATA, s->dir, "no data_batch_*.bin", "cifar10", NULL);
    scratch_path(s, path, "data_batch_1.bin");
    scratch_write(path, "", 0);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte 0: an empty file", NULL);
    scratch_write(path, bytes, 3 * RECORD - 1); /* the third record begins at 6146 */
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte 6146", "only 3072 are left", NULL);
    bytes[RECORD] = 10; /* the second record's label */
    scratch_write(path, bytes, 3 * RECORD);
    datafiles_refused(&spec, "train", SMOE_DATA, path, "at byte 3073: label 10, must be below 10",
                      NULL);
    bytes[RECORD] = 9;
    scratch_write(path, bytes, 3 * RECORD);
    smoe_dataset_free(open_set(&spec, "train")); /* valid again */
    scratch_write(scratch_path(s, path, "data_batch_1.bin.gz"), bytes, 3 * RECORD);
    datafiles_refused(&spec, "train", SMOE_DATA, "data_batch_1.bin", "data_batch_1.bin.gz",
                      "only one of them", NULL);
    spec.data.source = SMOE_SOURCE_CIFAR100;
    datafiles_refused(&spec, "train", SMOE_DATA, "no train.bin", NULL);
    free(bytes);
}

/* ---- gzip ------------------------------------------------------------------------------------ */

static void test_gzip(void **state) {
    const scratch *s = *state;
    char path[SCRATCH_PATH], at[64];
    datafile file = records("x", 0, 3, 1, 10);
    size_t size, first, second;
    uint8_t *gz = datafiles_gzip(file.bytes, file.size, &size);
    uint8_t *a = datafiles_gzip(file.bytes, 100, &first);
    uint8_t *b = datafiles_gzip((const uint8_t *)file.bytes + 100, file.size - 100, &second);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_CIFAR10, s->dir, SIDE, 3);
    scratch_write(scratch_path(s, path, "test_batch.bin.gz"), gz, size);
    smoe_dataset *set = open_set(&spec, "test");
    for (size_t i = 0; i < 3; i++) check_record(set, i, i, 10);
    smoe_dataset_free(set);

    uint8_t *both = malloc(first + second); /* two gzip members are one file */
    memcpy(both, a, first);
    memcpy(both + first, b, second);
    scratch_write(path, both, first + second);
    set = open_set(&spec, "test");
    for (size_t i = 0; i < 3; i++) check_record(set, i, i, 10);
    smoe_dataset_free(set);

    uint8_t *padded = calloc(size + 512, 1); /* trailing zeros are ignored */
    memcpy(padded, gz, size);
    scratch_write(path, padded, size + 512);
    set = open_set(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 3);
    smoe_dataset_free(set);
    padded[size + 511] = 1;
    scratch_write(path, padded, size + 512);
    datafiles_refused(&spec, "test", SMOE_DATA, path, "damaged gzip data near byte", NULL);
    free(padded);

    for (size_t n = 2; n < size; n += 211) {
        scratch_write(path, gz, n);
        snprintf(at, sizeof at, "gzip data is truncated at byte %zu", n);
        datafiles_refused(&spec, "test", SMOE_DATA, path, at, NULL);
    }
    gz[size - 6] ^= 1; /* the checksum at the end */
    scratch_write(path, gz, size);
    datafiles_refused(&spec, "test", SMOE_DATA, path, "damaged gzip data near byte", NULL);
    free(gz);
    free(a);
    free(b);
    free(both);
    free((void *)file.bytes);
}

/* 3 MB of zeros in 3 kB: refused when the accepted size is reached, not after decompression. */
static void test_gzip_limit(void **state) {
    size_t size;
    uint8_t *zeros = calloc(3000000, 1), *gz = datafiles_gzip(zeros, 3000000, &size);
    smoe_err err = {0};
    size_t n = size;
    assert_int_equal(smoe_binary_inflate(&gz, &n, 2999999, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "2999999"));
    assert_int_equal(n, size); /* unchanged */
    assert_int_equal(smoe_binary_inflate(&gz, &n, 3000000, NULL, &err), 0);
    assert_int_equal(n, 3000000);
    assert_memory_equal(gz, zeros, 3000000);
    assert_int_equal(smoe_binary_inflate(&gz, &n, 1, NULL, &err), 0); /* not gzip: unchanged */
    assert_int_equal(n, 3000000);
    free(gz);
    free(zeros);
}

/* ---- idx ------------------------------------------------------------------------------------- */

enum { N = 5, ROWS = 4, COLUMNS = 6 };

static const uint8_t image_header[] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, ROWS, 0, 0, 0, COLUMNS};
static const uint8_t train_labels[] = {0, 0, 8, 1, 0, 0, 0, N, 3, 0, 3, 1, 2};
static const uint8_t test_labels[] = {0, 0, 8, 1, 0, 0, 0, N, 6, 0, 1, 1, 2};

typedef struct idx_images {
    uint8_t bytes[16 + N * ROWS * COLUMNS];
} idx_images;

static idx_images make_images(void) {
    idx_images x;
    memcpy(x.bytes, image_header, 16);
    for (size_t i = 0; i < N * ROWS * COLUMNS; i++) x.bytes[16 + i] = (uint8_t)(2 * i);
    return x;
}

/* Dash and dot, plain and gzip, t10k and test, in a folder and in an archive. The classes are
 * those of both splits: 0 .. 6. Stored as 4 x 6, requested as 4 x 4: columns 1 .. 4 unchanged,
 * the same in all three channels. */
static void test_idx(void **state) {
    static const char *const names[][4] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
         "t10k-labels-idx1-ubyte"},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "test-images.idx3-ubyte",
         "test-labels.idx1-ubyte"},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
         "t10k-labels-idx1-ubyte.gz"}};
    const scratch *s = *state;
    idx_images images = make_images();
    const datafile plain[] = {{"", images.bytes, sizeof images.bytes},
                              {"", train_labels, sizeof train_labels},
                              {"", images.bytes, sizeof images.bytes},
                              {"", test_labels, sizeof test_labels}};
    for (size_t k = 0; k < 6; k++) {
        char path[SCRATCH_PATH], name[32];
        datafile file[4];
        bool gz = k % 3 == 2;
        for (size_t i = 0; i < 4; i++) {
            file[i] = (datafile){names[k % 3][i], plain[i].bytes, plain[i].size};
            if (gz) file[i].bytes = datafiles_gzip(plain[i].bytes, plain[i].size, &file[i].size);
        }
        snprintf(name, sizeof name, k < 3 ? "dir%zu" : "a%zu.zip", k);
        scratch_path(s, path, name);
        if (k < 3)
            mkdir(path, 0777), datafiles_tree(path, file, 4);
        else
            datafiles_archive(path, file, 4);
        smoe_spec spec = datafiles_spec(SMOE_SOURCE_IDX, path, 4, 3);
        for (int split = 0; split < 2; split++) {
            smoe_dataset *set = open_set(&spec, split ? "test" : "train");
            assert_int_equal(smoe_dataset_images(set), N);
            assert_int_equal(smoe_dataset_classes(set), 7);
            assert_string_equal(smoe_dataset_class_name(set, 6), "6");
            for (size_t i = 0; i < N; i++) {
                real pixels[48], target[7];
                int64_t label;
                assert_int_equal(smoe_dataset_image(set, i, true, pixels, target, &label, NULL), 0);
                assert_int_equal(label, (split ? test_labels : train_labels)[8 + i]);
                for (size_t p = 0; p < 48; p++) {
                    size_t y = p % 16 / 4, x = 1 + p % 4;
                    uint8_t byte = (uint8_t)(2 * (i * 24 + y * 6 + x));
                    assert_true(pixels[p] == (real)byte / (real)127.5 - 1);
                }
            }
            smoe_dataset_free(set);
        }
        for (size_t i = 0; gz && i < 4; i++) free((void *)file[i].bytes);
    }
}

/* Bytes of one of the two files changed, removed or added. */
static void refused_idx(const scratch *s, const char *images_name, const void *images, size_t in,
                        const void *labels, size_t ln, const char *file, const char *word) {
    const datafile pair[] = {{images_name, images, in}, {"train-labels-idx1-ubyte", labels, ln}};
    datafiles_tree(s->dir, pair, 2);
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_IDX, s->dir, 4, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, s->dir, file, word, NULL);
}

static void test_idx_refused(void **state) {
    const scratch *s = *state;
    static const char name[] = "train-images-idx3-ubyte", labels[] = "train-labels-idx1-ubyte";
    idx_images x = make_images();
    size_t n = sizeof x.bytes, ln = sizeof train_labels;
    uint8_t changed[sizeof train_labels];
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_IDX, s->dir, 4, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, s->dir, "no train-images-idx3-ubyte", NULL);
    datafiles_refused(&spec, "test", SMOE_DATA, s->dir, "no t10k-images-idx3-ubyte", NULL);
    refused_idx(s, name, x.bytes, 15, train_labels, ln, name, "at byte 15: the header of 16 bytes");
    refused_idx(s, name, x.bytes, n - 1, train_labels, ln, name,
                "at byte 135: truncated: the header claims 136 bytes");
    refused_idx(s, name, train_labels, ln, train_labels, ln, name, "at byte 13: the header");
    refused_idx(s, name, x.bytes, n, train_labels, ln - 1, labels,
                "at byte 12: truncated: the header claims 13");
    refused_idx(s, name, x.bytes, n, x.bytes, n, labels, "at byte 0: magic number 0x00000803");
    x.bytes[7]--;
    refused_idx(s, name, x.bytes, n, train_labels, ln, name, "at byte 112: 24 bytes too many");
    refused_idx(s, name, x.bytes, n - 24, train_labels, ln, labels, "at byte 4: 5 labels");
    x = make_images();
    memset(x.bytes + 4, 0xff, 12); /* claims 2^96 bytes */
    refused_idx(s, name, x.bytes, n, train_labels, ln, name, "at byte 8: 4294967295 rows");
    memcpy(x.bytes + 8, "\0\0\x10\0\0\0\x10\0", 8); /* 2^32-1 images of 2^24 bytes */
    refused_idx(s, name, x.bytes, n, train_labels, ln, name,
                "the header claims 72057594021150736 bytes");
    memcpy(x.bytes + 12, "\0\0\0\0", 4);
    refused_idx(s, name, x.bytes, n, train_labels, ln, name, "at byte 12: 0 columns");
    x = make_images();
    memcpy(changed, train_labels, sizeof changed);
    memset(changed + 4, 0, 4);
    refused_idx(s, name, x.bytes, n, changed, 8, labels, "at byte 4: no items");
    const datafile twin = {"train-images.idx3-ubyte", x.bytes, n};
    const datafile good[] = {{name, x.bytes, n}, {labels, train_labels, ln}};
    datafiles_tree(s->dir, good, 2);
    smoe_dataset_free(open_set(&spec, "train"));
    datafiles_tree(s->dir, &twin, 1);
    datafiles_refused(&spec, "train", SMOE_DATA, name, twin.name, "only one of them", NULL);
}

int main(void) {
#define CASE(f) unit_test_with(f, scratch)
    const struct CMUnitTest tests[] = {
        CASE(test_cifar10),       CASE(test_cifar100),    CASE(test_python),
        CASE(test_python_axes),   CASE(test_cifar_limit), CASE(test_cifar_resized),
        CASE(test_cifar_refused), CASE(test_gzip),        CASE(test_gzip_limit),
        CASE(test_idx),           CASE(test_idx_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
