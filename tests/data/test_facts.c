/* The memory task: every picture follows its definition, checked against tables learnt from
 * other pictures; frequencies and places follow their stated laws. */
#include "approx.h"
#include "data/dataset_source.h"
#include "datafiles.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, CELLS = 16, CELL = 3 * 8 * 8, IMAGE = CELLS * CELL, ENTITIES = 60, CLASSES = 7 };

static smoe_spec facts_spec(void) {
    smoe_spec spec = datafiles_spec(SMOE_SOURCE_FACTS, NULL, SIDE, 3);
    spec.data.facts.cells = CELLS;
    spec.data.facts.entities = ENTITIES;
    spec.data.facts.classes = CLASSES;
    spec.data.facts.bits = 20;
    spec.data.facts.noise = 0;
    return spec;
}

static smoe_dataset *open_facts(const smoe_spec *spec, const char *split) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_open(&set, spec, split, NULL, &err)) fail_msg("%s", err.text);
    return set;
}

/* cell [CELLS, CELL] of image i, in units of 255; its label. */
static size_t read_cells(const smoe_dataset *set, size_t i, double *cell) {
    static real pixels[IMAGE], target[1000];
    int64_t label;
    assert_int_equal(smoe_dataset_image(set, i, true, pixels, target, &label, NULL), 0);
    for (size_t k = 0; k < smoe_dataset_classes(set); k++) /* one label, whatever is requested */
        assert_true(target[k] == (real)((int64_t)k == label));
    assert_int_equal(label, smoe_dataset_label(set, i));
    for (size_t k = 0; k < IMAGE; k++) {
        size_t x = k % SIDE, y = k / SIDE % SIDE, channel = k / SIDE / SIDE;
        cell[(y / 8 * 4 + x / 8) * CELL + channel * 64 + y % 8 * 8 + x % 8] =
            ((double)pixels[k] + 1) * 127.5;
    }
    return (size_t)label;
}

static bool is_empty(const double *cell) { /* 127.5 is rounded up */
    for (size_t k = 0; k < CELL; k++)
        if (fabs(cell[k] - 128) > 1e-3) return false;
    return true;
}

static double spread(const double *x, const double *y, size_t n) {
    double sum = 0, squares = 0;
    for (size_t k = 0; k < n; k++) {
        double v = x[k] - (y ? y[k] : 0);
        sum += v;
        squares += v * v;
    }
    return sqrt(squares / (double)n - sum / (double)n * sum / (double)n);
}

/* The marked cell of each entity, and its class, learnt from the images of a split. */
typedef struct known {
    double cell[ENTITIES][CELL];
    size_t label[ENTITIES];
    bool seen[ENTITIES];
} known;

/* Without noise one cell is filled, always the same way for an entity and differently for
 * others. The class follows from the entity; classes are equally frequent. Train and test agree,
 * whatever the run's seed; another data.seed has other facts. */
static void images_are_of_entities(void **state) {
    static known k;
    static double cell[IMAGE];
    smoe_spec spec = facts_spec();
    size_t each[CLASSES] = {0}, agree = 0, seen = 0;
    for (int s = 0; s < 4; s++) {
        spec.seed = (uint64_t)s;
        spec.data.seed = s == 3;
        smoe_dataset *set = open_facts(&spec, s == 1 ? "test" : "train");
        for (size_t i = 0; i < 800; i++) {
            smoe_fact fact = smoe_facts_at(set, i);
            size_t label = read_cells(set, i, cell), e = fact.entity;
            for (size_t c = 0; c < CELLS; c++)
                assert_int_equal(is_empty(cell + c * CELL), c != fact.cell);
            const double *marked = cell + fact.cell * CELL;
            if (!k.seen[e]) memcpy(k.cell[e], marked, sizeof k.cell[e]);
            if (!k.seen[e]) k.label[e] = label;
            k.seen[e] = true;
            bool same = !memcmp(k.cell[e], marked, sizeof k.cell[e]);
            assert_int_equal(same, s < 3);
            agree += k.label[e] == label;
        }
        if (s == 2) assert_int_equal(agree, 3 * 800);
        smoe_dataset_free(set);
    }
    assert_true(agree < 3 * 800 + 400); /* by chance a seventh, weighted by entity */
    for (size_t e = 0; e < ENTITIES; e++) {
        assert_true(k.seen[e]);
        each[k.label[e]]++;
        seen++;
        for (size_t o = 0; o < e; o++) assert_memory_not_equal(k.cell[e], k.cell[o], CELL);
    }
    for (size_t c = 0; c < CLASSES; c++)
        assert_in_range(each[c], seen / CLASSES, seen / CLASSES + 1);
}

/* With distractors, that many cells are filled. A texture without the marker has a standard
 * deviation of 40; the marker, the difference of a marked cell and the same texture elsewhere,
 * one of 20. The means are over 1,000 cells, but of only 60 textures of 192 numbers and of one
 * marker: the standard errors are 0.3 and 1. Clipping at 0 and 255 accounts for less than 0.5%. */
static void distractors_are_others_without_the_marker(void **state) {
    static known k;
    static double cell[IMAGE], marker[CELL];
    smoe_spec spec = facts_spec();
    size_t distractors = 0, matched = 0;
    double texture = 0, mark = 0;
    smoe_dataset *set = open_facts(&spec, "train");
    for (size_t i = 0; i < 800; i++) {
        smoe_fact fact = smoe_facts_at(set, i);
        k.label[fact.entity] = read_cells(set, i, cell);
        memcpy(k.cell[fact.entity], cell + fact.cell * CELL, CELL * sizeof *cell);
    }
    smoe_dataset_free(set);
    spec.data.facts.distractors = 5;
    set = open_facts(&spec, "test");
    for (size_t i = 0; i < 200; i++) {
        smoe_fact fact = smoe_facts_at(set, i);
        size_t filled = 0;
        assert_int_equal(read_cells(set, i, cell), k.label[fact.entity]);
        assert_memory_equal(cell + fact.cell * CELL, k.cell[fact.entity], CELL * sizeof *cell);
        for (size_t c = 0; c < CELLS; c++) {
            const double *x = cell + c * CELL;
            if (is_empty(x) || c == fact.cell) continue;
            filled++;
            texture += spread(x, NULL, CELL);
            /* the entity whose marked cell differs least has the same texture: the difference is
             * the marker */
            double least = INFINITY;
            size_t nearest = 0;
            for (size_t e = 0; e < ENTITIES; e++) {
                double off = spread(k.cell[e], x, CELL);
                if (off < least) least = off, nearest = e;
            }
            assert_true(nearest != fact.entity);
            mark += least;
            for (size_t j = 0; !distractors && j < CELL; j++) marker[j] = k.cell[nearest][j] - x[j];
            for (size_t j = 0; j < CELL; j++) /* the same for all, up to rounding and clipping */
                matched += fabs(k.cell[nearest][j] - x[j] - marker[j]) <= 2.001;
            distractors++;
        }
        assert_int_equal(filled, 5);
    }
    smoe_dataset_free(set);
    assert_true(fabs(texture / (double)distractors - 40) < 3);
    assert_true(fabs(mark / (double)distractors - 20) < 4);
    assert_true((double)matched > .99 * (double)distractors * CELL);
}

/* Entities follow Zipf's law: of 40,000 images each rank has its expected count, within 4.5
 * standard deviations (60 ranks and 16 cells: one false alarm in 2,000 choices of the seed).
 * Cells likewise. */
static void frequencies(void **state) {
    static const double law[][2] = {{1, 5}, {0, 0}, {2, 0}};
    enum { SAMPLE = 40000 };
    for (size_t k = 0; k < 3; k++) {
        smoe_spec spec = facts_spec();
        spec.data.facts.exponent = law[k][0];
        spec.data.facts.offset = law[k][1];
        smoe_dataset *set = open_facts(&spec, "train");
        size_t entity[ENTITIES] = {0}, cell[CELLS] = {0};
        double all = 0;
        for (size_t i = 0; i < SAMPLE; i++) {
            smoe_fact fact = smoe_facts_at(set, i);
            entity[fact.entity]++;
            cell[fact.cell]++;
        }
        for (size_t e = 0; e < ENTITIES; e++) all += pow((double)(e + 1) + law[k][1], -law[k][0]);
        for (size_t e = 0; e < ENTITIES; e++) {
            double p = pow((double)(e + 1) + law[k][1], -law[k][0]) / all;
            double sd = sqrt(SAMPLE * p * (1 - p));
            assert_true(fabs((double)entity[e] - SAMPLE * p) < 4.5 * sd);
        }
        double sd = sqrt(SAMPLE * (1. / CELLS) * (1 - 1. / CELLS));
        for (size_t c = 0; c < CELLS; c++)
            assert_true(fabs((double)cell[c] - (double)SAMPLE / CELLS) < 4.5 * sd);
        smoe_dataset_free(set);
    }
}

/* Noise of standard deviation 8 around grey: over 200 images of 15 empty cells and 192 samples,
 * 576,000 in all, its mean is known to 0.01 and its standard deviation to 0.008; rounding adds a
 * variance of 1/12. Neighbours are not correlated (0.0013 is one standard error). */
static void noise(void **state) {
    static double cell[IMAGE];
    smoe_spec spec = facts_spec();
    spec.data.facts.noise = 8;
    smoe_dataset *set = open_facts(&spec, "val");
    double sum = 0, squares = 0, beside = 0, n = 0;
    for (size_t i = 0; i < 200; i++) {
        smoe_fact fact = smoe_facts_at(set, i);
        read_cells(set, i, cell);
        for (size_t k = 0; k < IMAGE; k++) {
            if (k / CELL == fact.cell) continue;
            double v = cell[k] - 127.5;
            sum += v;
            squares += v * v;
            if (k % 8) beside += v * (cell[k - 1] - 127.5);
            n++;
        }
    }
    smoe_dataset_free(set);
    assert_true(fabs(sum / n) < .05);
    assert_true(fabs(sqrt(squares / n - 1. / 12) - 8) < .04);
    assert_true(fabs(beside / n) < .006 * 64);
}

/* Codes remain distinct if there are only as many as entities; one channel is enough. */
static void as_many_entities_as_codes(void **state) {
    smoe_spec spec = facts_spec();
    static real pixels[32][SIDE * SIDE], target[4];
    bool seen[32] = {false};
    spec.data.channels = 1;
    spec.data.facts.cells = 1;
    spec.data.facts.entities = 32;
    spec.data.facts.classes = 4;
    spec.data.facts.bits = 5;
    smoe_dataset *set = open_facts(&spec, "train");
    for (size_t i = 0; i < 800; i++) {
        int64_t label;
        size_t e = smoe_facts_at(set, i).entity;
        seen[e] = true;
        assert_int_equal(smoe_dataset_image(set, i, false, pixels[e], target, &label, NULL), 0);
    }
    for (size_t e = 0; e < 32; e++) {
        assert_true(seen[e]);
        for (size_t o = 0; o < e; o++)
            assert_memory_not_equal(pixels[e], pixels[o], sizeof *pixels);
    }
    smoe_dataset_free(set);
}

static void sizes_and_names(void **state) {
    smoe_spec spec = facts_spec();
    char name[64];
    smoe_dataset *set = open_facts(&spec, "train");
    assert_true(smoe_dataset_endless(set));
    assert_int_equal(smoe_dataset_images(set), 150000);
    assert_int_equal(smoe_dataset_classes(set), CLASSES);
    assert_string_equal(smoe_dataset_class_name(set, 3), "3");
    assert_string_equal(smoe_dataset_image_name(set, 17, name, sizeof name), "facts/train/17");
    smoe_dataset_free(set);
    spec.data.limit = 3000;
    set = open_facts(&spec, "train");
    assert_false(smoe_dataset_endless(set));
    assert_int_equal(smoe_dataset_images(set), 3000);
    smoe_dataset_free(set);
    spec.data.limit = 0;
    set = open_facts(&spec, "test");
    assert_int_equal(smoe_dataset_images(set), 10000);
    smoe_dataset_free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_of_entities),
        cmocka_unit_test(distractors_are_others_without_the_marker),
        cmocka_unit_test(frequencies),
        cmocka_unit_test(noise),
        cmocka_unit_test(as_many_entities_as_codes),
        cmocka_unit_test(sizes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
