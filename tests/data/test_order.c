/*
 * The order of images carries no information about labels. Given its place in the batch and its
 * neighbours, a label has its usual distribution, for every source, in training and in evaluation.
 * Otherwise a router whose groups are formed along the batch could read labels from it, or images
 * of one class would compete for the same experts.
 *
 * The test counts contingency tables: label by place in a group of eight, and label by label of the
 * image before, two before ... seven before. Each is judged by chi square,
 *   sum (seen - expected)^2 / expected,  expected = row sum * column sum / all,
 * with (rows - 1)(columns - 1) degrees of freedom, transformed into a normal deviate (Wilson and
 * Hilferty), which must stay below 4.75: one table in a million exceeds that by chance. Fewer than
 * four hundred tables are made here, so there is one false alarm in 2,500 choices of the seeds,
 * which are fixed.
 * The test of the method itself: it must refuse labels in cyclic order, classes one after another,
 * and classes in pairs, and must accept independent labels.
 */
#include "base/rng.h"
#include "data/dataset_source.h"
#include "datafiles.h"
#include "scratch.h"
#include "spec/sources.h"
#include "data/loader.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 8, MOST = 16 }; /* images per group; largest number of classes */
static const double false_alarm = 4.75;

/* ---- the method ------------------------------------------------------------------------------ */

/* The deviate of a table [rows, columns]; empty rows and columns do not count. */
static double deviate(const size_t *table, size_t rows, size_t columns) {
    double row[MOST] = {0}, column[MOST] = {0}, all = 0, chi = 0;
    size_t r = 0, c = 0;
    for (size_t i = 0; i < rows * columns; i++) {
        row[i / columns] += (double)table[i];
        column[i % columns] += (double)table[i];
        all += (double)table[i];
    }
    for (size_t i = 0; i < rows; i++) r += row[i] > 0;
    for (size_t i = 0; i < columns; i++) c += column[i] > 0;
    for (size_t i = 0; i < rows * columns; i++) {
        double expected = row[i / columns] * column[i % columns] / all;
        if (expected <= 0) continue;
        assert_true(expected > 5); /* enough for chi square to be a good approximation */
        chi += ((double)table[i] - expected) * ((double)table[i] - expected) / expected;
    }
    assert_true(r > 1 && c > 1);
    double df = (double)((r - 1) * (c - 1)), ninth = 2 / (9 * df);
    return (cbrt(chi / df) - (1 - ninth)) / sqrt(ninth);
}

/* The largest deviate of the labels [n] of consecutive batches, in groups of GROUP. */
static double worst_deviate(const size_t *label, size_t n) {
    size_t table[MOST * MOST] = {0}, classes = 0;
    for (size_t i = 0; i < n; i++) classes = label[i] < classes ? classes : label[i] + 1;
    assert_true(classes <= MOST);
    for (size_t i = 0; i < n; i++) table[label[i] * GROUP + i % GROUP]++;
    double worst = deviate(table, classes, GROUP);
    for (size_t lag = 1; lag < GROUP; lag++) {
        memset(table, 0, sizeof table);
        for (size_t i = lag; i < n; i++)
            if (i % GROUP >= lag) table[label[i] * classes + label[i - lag]]++;
        worst = fmax(worst, deviate(table, classes, classes));
    }
    return worst;
}

enum { JUDGED = 8000 };

static size_t go_round(size_t i) {
    return i % 10;
}
static size_t class_by_class(size_t i) {
    return i * 10 / JUDGED;
}
/* Independent, except that every eighth image has the class of the one before. */
static size_t in_pairs(size_t i) {
    smoe_rng rng = smoe_rng_at(4, SMOE_RNG_TEST, 0, 0, i - (i % GROUP == 5));
    return smoe_rng_below(&rng, 10);
}
static size_t independent(size_t i) {
    smoe_rng rng = smoe_rng_at(5, SMOE_RNG_TEST, 0, 0, i);
    return smoe_rng_below(&rng, 10);
}

static void chi_square_refuses_ordered_labels(void **state) {
    static const struct {
        size_t (*label)(size_t i);
        bool refused;
    } order[] = {{go_round, true}, {class_by_class, true}, {in_pairs, true}, {independent, false}};
    static size_t label[JUDGED];
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        for (size_t i = 0; i < JUDGED; i++) label[i] = order[k].label(i);
        assert_int_equal(worst_deviate(label, JUDGED) > false_alarm, order[k].refused);
    }
}

/* By hand: for (10 20 | 30 10), the expected counts are 17.142857 12.857143 | 22.857143
 * 17.142857, chi square is 12.152778; its cube root 2.299103, less 1 - 2/9 and divided by the
 * root of 2/9, is 3.227219. */
static void chi_square_by_hand(void **state) {
    assert_true(fabs(deviate((size_t[]){10, 20, 30, 10}, 2, 2) - 3.227219) < 1e-5);
}

/* ---- data of every source -------------------------------------------------------------------- */

/* Files have `CLASSES` classes of `EACH` images, in order of class, in both splits. */
enum { CLASSES = 4, EACH = 400, SIDE = 8 };

static void make_idx(char *path, const scratch *dir) {
    static uint8_t bytes[16 + CLASSES * EACH * SIDE * SIDE];
    static const char *const split[] = {"train", "t10k"};
    const size_t n = CLASSES * EACH;
    char file[SCRATCH_PATH];
    for (int s = 0; s < 2; s++) {
        memcpy(
            bytes,
            (uint8_t[]){0, 0, 8, 3, 0, 0, (uint8_t)(n >> 8), n & 255, 0, 0, 0, SIDE, 0, 0, 0, SIDE},
            16);
        snprintf(file, sizeof file, "%s/%s-images-idx3-ubyte", dir->dir, split[s]);
        scratch_write(file, bytes, sizeof bytes);
        bytes[3] = 1;
        for (size_t i = 0; i < n; i++) bytes[8 + i] = (uint8_t)(i / EACH);
        snprintf(file, sizeof file, "%s/%s-labels-idx1-ubyte", dir->dir, split[s]);
        scratch_write(file, bytes, 8 + n);
    }
    snprintf(path, SCRATCH_PATH, "%s", dir->dir);
}

/* `labels` bytes before the pixels of a record, the last of them the class. */
static void make_cifar(char *path, const scratch *dir, size_t labels, const char *train,
                       const char *test) {
    static uint8_t bytes[CLASSES * EACH * (2 + 3072)];
    const char *const name[] = {train, test};
    size_t record = labels + 3072;
    char file[SCRATCH_PATH];
    for (size_t i = 0; i < CLASSES * EACH; i++)
        bytes[i * record + labels - 1] = (uint8_t)(i / EACH);
    for (int s = 0; s < 2; s++) {
        snprintf(file, sizeof file, "%s/%s", dir->dir, name[s]);
        scratch_write(file, bytes, CLASSES * EACH * record);
    }
    snprintf(path, SCRATCH_PATH, "%s", dir->dir);
}

static void make_cifar10(char *path, const scratch *dir) {
    make_cifar(path, dir, 1, "data_batch_1.bin", "test_batch.bin");
}
static void make_cifar100(char *path, const scratch *dir) {
    make_cifar(path, dir, 2, "train.bin", "test.bin");
}

static void make_coarse(char *path, const scratch *dir) {
    static uint8_t bytes[CLASSES * EACH * (2 + 3072)];
    char file[SCRATCH_PATH];
    for (size_t i = 0; i < CLASSES * EACH; i++) bytes[i * (2 + 3072)] = (uint8_t)(i / EACH);
    scratch_write(scratch_path(dir, file, "train.bin"), bytes, sizeof bytes);
    scratch_write(scratch_path(dir, file, "test.bin"), bytes, sizeof bytes);
    snprintf(path, SCRATCH_PATH, "%s", dir->dir);
}

static void make_folder(char *path, const scratch *dir) {
    static datafile file[2 * CLASSES * EACH];
    static char name[2 * CLASSES * EACH][40];
    uint8_t pixel[SIDE * SIDE];
    size_t size;
    datafiles_picture(pixel, SIDE, SIDE, 1, 1);
    uint8_t *png = datafiles_png(pixel, SIDE, SIDE, 1, &size);
    for (size_t i = 0; i < 2 * CLASSES * EACH; i++) {
        snprintf(name[i], sizeof name[i], "%s/%c/%03zu.png", i % 2 ? "test" : "train",
                 (char)('a' + (int)(i / 2 / EACH)), i / 2 % EACH);
        file[i] = (datafile){name[i], png, size};
    }
    snprintf(path, SCRATCH_PATH, "%s/all.tar", dir->dir);
    datafiles_archive(path, file, 2 * CLASSES * EACH);
    free(png);
}

/* A shard of each split, class by class. */
static void make_webdataset(char *path, const scratch *dir) {
    static datafile file[2 * CLASSES * EACH];
    static char name[2 * CLASSES * EACH][40], label[CLASSES][4];
    uint8_t pixel[SIDE * SIDE];
    size_t size;
    datafiles_picture(pixel, SIDE, SIDE, 1, 1);
    uint8_t *png = datafiles_png(pixel, SIDE, SIDE, 1, &size);
    for (size_t i = 0; i < CLASSES * EACH; i++) {
        size_t class = i / EACH;
        snprintf(label[class], sizeof label[class], "%zu", class);
        snprintf(name[2 * i], sizeof *name, "%05zu.png", i);
        snprintf(name[2 * i + 1], sizeof *name, "%05zu.cls", i);
        file[2 * i] = (datafile){name[2 * i], png, size};
        file[2 * i + 1] = (datafile){name[2 * i + 1], label[class], strlen(label[class])};
    }
    for (int test = 0; test < 2; test++) {
        snprintf(path, SCRATCH_PATH, "%s/%s-00.tar", dir->dir, test ? "test" : "train");
        datafiles_archive(path, file, 2 * CLASSES * EACH);
    }
    snprintf(path, SCRATCH_PATH, "%s/{split}-{00..00}.tar", dir->dir);
    free(png);
}

/* NULL: a generated source. Every source of sources.def that reads files has a function. */
static void (*const make[SMOE_SOURCES])(char *path, const scratch *dir) = {
    [SMOE_SOURCE_FOLDER] = make_folder,         [SMOE_SOURCE_CIFAR10] = make_cifar10,
    [SMOE_SOURCE_CIFAR100] = make_cifar100,     [SMOE_SOURCE_IDX] = make_idx,
    [SMOE_SOURCE_WEBDATASET] = make_webdataset, [SMOE_SOURCE_CIFAR100_COARSE] = make_coarse,
};

/* ---- the law --------------------------------------------------------------------------------- */

/* The deviate of the labels of as many batches as have about 8,000 images, or of the whole pass. */
static double batches_deviate(const smoe_spec *spec, const char *split, bool train) {
    static size_t label[JUDGED];
    smoe_dataset *set;
    smoe_loader *loader;
    smoe_batch batch;
    smoe_err err = {0};
    size_t n = 0;
    int more = 1;
    smoe_loader_options options = {.batch_size = 8 * GROUP, .train = train, .seed = spec->seed};
    if (smoe_dataset_open(&set, spec, split, NULL, &err)) fail_msg("%s", err.text);
    if (smoe_loader_open(&loader, set, spec, &options, &err)) fail_msg("%s", err.text);
    while (n + options.batch_size <= JUDGED && (more = smoe_loader_next(loader, &batch, &err)) > 0)
        for (size_t b = 0; b < batch.images; b++) label[n++] = (size_t)batch.label[b];
    assert_true(more >= 0);
    double worst = worst_deviate(label, n);
    smoe_loader_free(loader);
    smoe_dataset_free(set);
    return worst;
}

/* The order of files does carry information, and is detected where it can still be chosen. */
static void order_does_not_predict_labels(void **state) {
    for (size_t source = 0; source < SMOE_SOURCES; source++) {
        scratch dir;
        char path[SCRATCH_PATH] = "";
        bool generated = smoe_sources[source].generated;
        scratch_make(&dir);
        assert_int_equal(make[source] == NULL, generated);
        if (!generated) make[source](path, &dir);
        for (uint64_t seed = 0; seed < 2; seed++) {
            smoe_spec spec = datafiles_spec((smoe_source)source, generated ? NULL : path, SIDE, 1);
            spec.seed = spec.data.seed = seed;
            spec.data.test_size = JUDGED; /* of generated images */
            double train = batches_deviate(&spec, "train", true);
            double test = batches_deviate(&spec, "test", false);
            spec.data.limit = 600; /* balanced over classes of files; a training set of its own */
            double limited = batches_deviate(&spec, "train", true);
            spec.data.limit = 0;
            spec.eval.order = SMOE_ORDER_FILE;
            double file = batches_deviate(&spec, "test", false);
            print_message("%s: train %.2f, limited %.2f, test %.2f, in file order %.2f\n",
                          smoe_sources[source].name, train, limited, test, file);
            assert_true(train < false_alarm && limited < false_alarm && test < false_alarm);
            assert_int_equal(file > false_alarm, !generated);
        }
        scratch_remove(&dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chi_square_by_hand),
        cmocka_unit_test(chi_square_refuses_ordered_labels),
        cmocka_unit_test(order_does_not_predict_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
