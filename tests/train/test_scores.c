/* Accuracy per class, confusion and calibration against numbers worked by hand. */
#include "approx.h"
#include "specs.h"
#include "train/superclasses.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Six images of the first two of three classes, none of the last. */
static const smoe_prediction six[] = {{0, 0, 0.95, true}, {0, 0, 0.99, true}, {0, 1, 0.96, false},
                                      {1, 1, 0.5, true},  {1, 0, 0.5, false}, {0, 0, 1, true}};

/* Two bins have images: [14/15, 1] contains 0.95, 0.99, 0.96 and 1, three of them correct, so |3
 * - 3.9| = 0.9; [7/15, 8/15) contains both of 0.5, one correct, so |1 - 1| = 0. (0.9 + 0) / 6. */
static void calibration_by_hand(void **state) {
    assert_true(fabs(smoe_scores_calibration(six, 6) - 0.9 / 6) < 1e-12);
    assert_true(smoe_scores_calibration(six, 0) == 0);
    smoe_frame bins;
    smoe_scores_bins(&bins, six, 6);
    assert_int_equal(bins.rows, SMOE_CALIBRATION_BINS);
    size_t images = smoe_frame_find(&bins, "images"),
           share = smoe_frame_find(&bins, "precision_at_1");
    assert_true(smoe_frame_number_at(&bins, 7, images) == 2);
    assert_true(smoe_frame_number_at(&bins, 7, share) == 0.5);
    assert_true(smoe_frame_number_at(&bins, 14, images) == 4);
    assert_true(smoe_frame_number_at(&bins, 14, share) == 0.75);
    assert_true(isnan(smoe_frame_number_at(&bins, 0, share)));
    smoe_frame_free(&bins);
}

static void classes_by_hand(void **state) {
    double share[3];
    size_t images[3];
    smoe_scores_by_class(share, images, 3, six, 6);
    assert_true(images[0] == 4 && images[1] == 2 && images[2] == 0);
    assert_true(share[0] == 0.75 && share[1] == 0.5 && isnan(share[2]));
}

/*
 * Five classes, four images each. Shares: 0 takes 3 for half of its images, 3 takes 0 for a quarter:
 * alike 3/8. 1 and 4: a quarter one way, 1/8. Class 2 takes 1 for a half: 1/4.
 * Three super-classes of at most 2 classes: 0 and 3 merge first, then 1 and 2; 4 is left.
 * Two, of at most 3: then 4 with {1, 2}, (1/8 + 0)/2. One: all.
 */
static void superclasses_by_hand(void **state) {
    static const size_t top[5][4] = {
        {0, 0, 3, 3}, {1, 1, 1, 4}, {2, 2, 1, 1}, {3, 3, 3, 0}, {4, 4, 4, 4}};
    static const uint32_t expected[6][5] = {
        {0}, {0, 0, 0, 0, 0}, {0, 1, 1, 0, 1}, {0, 1, 1, 0, 2}, {0, 1, 2, 0, 3}, {0, 1, 2, 3, 4}};
    smoe_prediction prediction[20];
    smoe_err err = {0};
    uint32_t of[5];
    for (size_t i = 0; i < 20; i++)
        prediction[i] = (smoe_prediction){.label = (int64_t)(i / 4), .top = top[i / 4][i % 4]};
    for (size_t E = 1; E <= 5; E++) {
        assert_int_equal(smoe_superclasses(of, E, 5, prediction, 20, &err), 0);
        assert_memory_equal(of, expected[E], sizeof of);
    }
    assert_int_equal(smoe_superclasses(of, 6, 5, prediction, 20, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    /* Without any mistake, classes in order: {0, 1}, {2, 3}, 4. */
    static const uint32_t in_order[] = {0, 0, 1, 1, 2};
    for (size_t i = 0; i < 20; i++) prediction[i].top = i / 4;
    assert_int_equal(smoe_superclasses(of, 3, 5, prediction, 20, &err), 0);
    assert_memory_equal(of, in_order, sizeof of);
}

/* Classes 2k and 2k + 1 are taken for each other, and stay together. The work grows with the square
 * of the classes, not with the cube, which takes a minute here. */
static void superclasses_of_many(void **state) {
    enum { N = 4096, E = 2 };
    smoe_prediction *prediction = smoe_alloc(N, sizeof *prediction);
    uint32_t *of = smoe_alloc(N, sizeof *of);
    size_t second = 0;
    smoe_err err = {0};
    for (size_t i = 0; i < N; i++)
        prediction[i] = (smoe_prediction){.label = (int64_t)i, .top = i ^ 1};
    clock_t start = clock();
    assert_int_equal(smoe_superclasses(of, E, N, prediction, N, &err), 0);
    assert_true(clock() - start < 12 * CLOCKS_PER_SEC);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(of[i], of[i ^ 1]);
        second += of[i];
    }
    assert_int_equal(second, N / E);
    free(of);
    free(prediction);
}

/* Probabilities are those of the task: with equal logits the first class is the top one. */
static void said_of_logits(void **state) {
    const real logits[] = {0, 1, 1}, target[] = {0, 0, 1};
    smoe_prediction prediction =
        smoe_prediction_of(smoe_task_of(SMOE_LOSS_SOFTMAX), logits, target, 3, 2);
    assert_int_equal(prediction.top, 1);
    assert_int_equal(prediction.label, 2);
    assert_false(prediction.correct);
    assert_true(fabs(prediction.probability - exp(1) / (1 + 2 * exp(1))) < 1e-6);
    prediction = smoe_prediction_of(smoe_task_of(SMOE_LOSS_SIGMOID), logits, target, 3, 2);
    assert_true(fabs(prediction.probability - 1 / (1 + exp(-1))) < 1e-6);
}

/* Rows are the pairs that occur, in order; the shares of each class sum to 1. */
static void confusion_counts_pairs(void **state) {
    smoe_spec spec =
        specs_good("data: {source: shapes, image_size: 8, limit: 6}", NULL, NULL, NULL);
    smoe_dataset *set;
    smoe_err err;
    smoe_frame f;
    assert_int_equal(smoe_dataset_open(&set, &spec, "test", NULL, &err), 0);
    assert_int_equal(smoe_dataset_images(set), 6);
    smoe_scores_confusion(&f, six, set, "run");
    static const double want[][4] = {
        {0, 0, 3, 0.75}, {0, 1, 1, 0.25}, {1, 0, 1, 0.5}, {1, 1, 1, 0.5}};
    static const char *const column[] = {"class", "predicted", "images", "share"};
    assert_int_equal(f.rows, 100); /* for ten classes every pair */
    for (size_t r = 0; r < 4; r++)
        for (size_t c = 0; c < 4; c++)
            assert_true(smoe_frame_number_at(&f, 10 * (r / 2) + r % 2,
                                             smoe_frame_find(&f, column[c])) == want[r][c]);
    assert_true(smoe_frame_number_at(&f, 2, smoe_frame_find(&f, "share")) == 0);
    assert_true(isnan(smoe_frame_number_at(&f, 99, smoe_frame_find(&f, "share"))));
    smoe_frame_free(&f);
    smoe_scores_predictions(&f, six, set);
    assert_int_equal(f.rows, 6);
    assert_string_equal(smoe_frame_text_at(&f, 0, smoe_frame_find(&f, "path")), "shapes/test/0");
    smoe_frame_free(&f);
    smoe_scores_classes(&f, six, set);
    assert_true(smoe_frame_number_at(&f, 0, smoe_frame_find(&f, "predicted")) == 4);
    smoe_frame_free(&f);
    smoe_dataset_free(set);
    smoe_spec_free(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibration_by_hand),    cmocka_unit_test(classes_by_hand),
        cmocka_unit_test(said_of_logits),         cmocka_unit_test(superclasses_by_hand),
        cmocka_unit_test(confusion_counts_pairs), cmocka_unit_test(superclasses_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
