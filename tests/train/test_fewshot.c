/*
 * Few-shot evaluation: the regression against cases worked by hand and against Gaussian elimination
 * on the normal equations, one regularisation strength at a time; the draws; the whole method with
 * a model whose features the test computes separately.
 */
#include "approx.h"
#include "base/rng.h"
#include "math/ridge.h"
#include "train/fewshot.h"
#include "datafiles.h"
#include "scratch.h"
#include "specs.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an independent solution ----------------------------------------------------------------- */

/* A [n,n] x = B [n,m] by elimination with partial pivots; both are overwritten, B by x. */
static void eliminate(double *A, double *B, size_t n, size_t m) {
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t r = c + 1; r < n; r++)
            if (fabs(A[r * n + c]) > fabs(A[pivot * n + c])) pivot = r;
        for (size_t j = 0; j < n; j++) {
            double t = A[c * n + j];
            A[c * n + j] = A[pivot * n + j];
            A[pivot * n + j] = t;
        }
        for (size_t j = 0; j < m; j++) {
            double t = B[c * m + j];
            B[c * m + j] = B[pivot * m + j];
            B[pivot * m + j] = t;
        }
        for (size_t r = 0; r < n; r++) {
            if (r == c) continue;
            double f = A[r * n + c] / A[c * n + c];
            for (size_t j = 0; j < n; j++) A[r * n + j] -= f * A[c * n + j];
            for (size_t j = 0; j < m; j++) B[r * m + j] -= f * B[c * m + j];
        }
    }
    for (size_t c = 0; c < n; c++)
        for (size_t j = 0; j < m; j++) B[c * m + j] /= A[c * n + c];
}

/* W [D,N] = (X'X + l2)^-1 X'Y. */
static void normal_equations(double *W, const double *X, const double *Y, size_t n, size_t D,
                             size_t N, double l2) {
    double *A = calloc(D * D, sizeof *A);
    assert_non_null(A);
    for (size_t a = 0; a < D; a++) {
        for (size_t b = 0; b < D; b++)
            for (size_t i = 0; i < n; i++) A[a * D + b] += X[i * D + a] * X[i * D + b];
        A[a * D + a] += l2;
        for (size_t c = 0; c < N; c++) {
            W[a * N + c] = 0;
            for (size_t i = 0; i < n; i++) W[a * N + c] += X[i * D + a] * Y[i * N + c];
        }
    }
    eliminate(A, W, D, N);
    free(A);
}

static void fill(double *x, size_t n, uint64_t stream) {
    smoe_rng rng = smoe_rng_at(7, SMOE_RNG_TEST, 0, stream, 0);
    for (size_t i = 0; i < n; i++) x[i] = smoe_rng_normal(&rng);
}

/* ---- the regression -------------------------------------------------------------------------- */

/* X = (1, 2)', Y = (3, 5)': W = (1*3 + 2*5) / (1 + 4 + l2) = 13 / (5 + l2). */
static void one_input_by_hand(void **state) {
    const double X[] = {1, 2}, Y[] = {3, 5};
    smoe_ridge ridge;
    smoe_err err;
    assert_int_equal(smoe_ridge_create(&ridge, X, 2, 1, &err), 0);
    smoe_ridge_targets(&ridge, Y, 1);
    double w;
    smoe_ridge_weights(&ridge, 1.5, &w);
    assert_close(w, 2, 1e-14);
    smoe_ridge_weights(&ridge, 8, &w);
    assert_close(w, 1, 1e-14);
    smoe_ridge_free(&ridge);
}

/* One row, two inputs: the dual form. X = (3, 4), y = 2: W = X' y / (25 + l2). */
static void one_row_by_hand(void **state) {
    const double X[] = {3, 4}, Y[] = {2};
    smoe_ridge ridge;
    smoe_err err;
    assert_int_equal(smoe_ridge_create(&ridge, X, 1, 2, &err), 0);
    smoe_ridge_targets(&ridge, Y, 1);
    assert_int_equal(ridge.r, 1);
    double w[2];
    smoe_ridge_weights(&ridge, 7, w);
    assert_close(w[0], 3 * 2 / 32.0, 1e-14);
    assert_close(w[1], 4 * 2 / 32.0, 1e-14);
    smoe_ridge_free(&ridge);
}

/* More rows than inputs, fewer, equally many: the same as the normal equations at every
 * strength. */
static void agrees_with_the_normal_equations(void **state) {
    static const size_t shape[][3] = {{30, 7, 4}, {6, 19, 3}, {11, 11, 2}, {2, 40, 5}};
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        size_t n = shape[s][0], D = shape[s][1], N = shape[s][2];
        double *X = calloc(n * D, sizeof *X), *Y = calloc(n * N, sizeof *Y),
               *W = calloc(D * N, sizeof *W), *other = calloc(D * N, sizeof *other);
        fill(X, n * D, s);
        fill(Y, n * N, 100 + s);
        smoe_ridge ridge;
        smoe_err err;
        assert_int_equal(smoe_ridge_create(&ridge, X, n, D, &err), 0);
        smoe_ridge_targets(&ridge, Y, N);
        for (int p = -10; p <= 19; p++) {
            smoe_ridge_weights(&ridge, ldexp(1, p), W);
            normal_equations(other, X, Y, n, D, N, ldexp(1, p));
            double scale = 0;
            for (size_t i = 0; i < D * N; i++) scale = fmax(scale, fabs(other[i]));
            assert_true(scale > 0);
            /* condition number at l2 = 2^-10: up to 1e5, times 1e-16, with a margin */
            for (size_t i = 0; i < D * N; i++) assert_close(W[i], other[i], 1e-9 * scale);
        }
        smoe_ridge_free(&ridge);
        free(X);
        free(Y);
        free(W);
        free(other);
    }
}

/* The whole method again, by elimination: whitening, bias, targets, argmax. */
static void reference(size_t *correct, const real *x, const int64_t *label, size_t n, const real *q,
                      const int64_t *asked, size_t queries, size_t d, size_t N) {
    size_t D = d + 1;
    double *X = calloc((n + queries) * D, sizeof *X), *Y = calloc(n * N, sizeof *Y),
           *W = calloc(D * N, sizeof *W), *Q = X + n * D;
    for (size_t j = 0; j < d; j++) {
        double mean = 0, var = 0;
        for (size_t i = 0; i < n; i++) mean += (double)x[i * d + j] / (double)n;
        for (size_t i = 0; i < n; i++) var += pow((double)x[i * d + j] - mean, 2) / (double)n;
        for (size_t i = 0; i < n; i++)
            X[i * D + j] = ((double)x[i * d + j] - mean) / (sqrt(var) + 1e-5);
        for (size_t i = 0; i < queries; i++)
            Q[i * D + j] = ((double)q[i * d + j] - mean) / (sqrt(var) + 1e-5);
    }
    for (size_t i = 0; i < n + queries; i++) X[i * D + d] = 100;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < N; c++) Y[i * N + c] = label[i] == (int64_t)c ? 1 : -1;
    for (int l = 0; l < 30; l++) {
        normal_equations(W, X, Y, n, D, N, ldexp(1, l - 10));
        correct[l] = 0;
        for (size_t i = 0; i < queries; i++) {
            double best = -1e300;
            int64_t which = -1;
            for (size_t c = 0; c < N; c++) {
                double score = 0;
                for (size_t j = 0; j < D; j++) score += Q[i * D + j] * W[j * N + c];
                if (score > best) {
                    best = score;
                    which = (int64_t)c;
                }
            }
            correct[l] += which == asked[i];
        }
    }
    free(X);
    free(Y);
    free(W);
}

/* Classes as clouds around their centres, close enough that some images are misclassified. */
static void clouds(real *x, int64_t *label, size_t n, size_t d, size_t N, uint64_t stream) {
    smoe_rng centres = smoe_rng_at(3, SMOE_RNG_TEST, 1, 0, 0);
    smoe_rng rng = smoe_rng_at(3, SMOE_RNG_TEST, 1, 1 + stream, 0);
    double *centre = calloc(N * d, sizeof *centre);
    for (size_t i = 0; i < N * d; i++) centre[i] = smoe_rng_normal(&centres);
    for (size_t i = 0; i < n; i++) {
        label[i] = (int64_t)(i % N);
        for (size_t j = 0; j < d; j++)
            x[i * d + j] =
                (real)(5 + centre[(i % N) * d + j] * (double)(j + 1) + 5 * smoe_rng_normal(&rng));
        x[i * d + d - 1] *= (real)1e-5; /* as small as what is added to its deviation */
    }
    free(centre);
}

static void solving_agrees_with_elimination(void **state) {
    static const size_t shape[][3] = {{24, 5, 4}, {8, 12, 4}, {140, 24, 70}}; /* 70: two tiles */
    for (size_t s = 0; s < 3; s++) {
        size_t n = shape[s][0], d = shape[s][1], N = shape[s][2], q = 200, ours[30], theirs[30];
        real *x = calloc(n * d, sizeof *x), *query = calloc(q * d, sizeof *query);
        int64_t *label = calloc(n, sizeof *label), *asked = calloc(q, sizeof *asked);
        clouds(x, label, n, d, N, 0);
        clouds(query, asked, q, d, N, 1);
        smoe_err err;
        const smoe_features shots = {x, label, n}, queries = {query, asked, q};
        assert_int_equal(smoe_fewshot_solve(ours, &shots, &queries, d, N, &err), 0);
        reference(theirs, x, label, n, query, asked, q, d, N);
        for (size_t l = 0; l < 30; l++) assert_int_equal(ours[l], theirs[l]);
        assert_true(ours[10] > q / 2 && ours[10] < q); /* neither hopeless nor trivial */
        free(x);
        free(query);
        free(label);
        free(asked);
    }
}

/* Two classes on a line at -1 and 1, one shot each: whitened to -1 and 1 (mean 0, std 1). The
 * bias column is orthogonal to the feature's, targets are (1,-1) and (-1,1), so the sign of the
 * feature decides at every strength. */
static void two_points_by_hand(void **state) {
    real x[] = {-1, 1}, query[] = {(real)-0.1, (real)0.1, -7, 30};
    int64_t label[] = {0, 1}, asked[] = {0, 1, 0, 1}, wrong[] = {1, 0, 1, 0};
    const smoe_features shots = {x, label, 2}, right = {query, asked, 4}, not = {query, wrong, 4};
    size_t correct[30];
    smoe_err err;
    assert_int_equal(smoe_fewshot_solve(correct, &shots, &right, 1, 2, &err), 0);
    for (size_t l = 0; l < 30; l++) assert_int_equal(correct[l], 4);
    assert_int_equal(smoe_fewshot_solve(correct, &shots, &not, 1, 2, &err), 0);
    for (size_t l = 0; l < 30; l++) assert_int_equal(correct[l], 0);
}

/* Both classes at the same points: targets cancel exactly, and all scores are 0. The lower index
 * wins. */
static void equal_scores(void **state) {
    real x[] = {-1, -1, 1, 1}, query[] = {-1, 0, 3};
    int64_t label[] = {0, 1, 0, 1}, asked[] = {0, 0, 0};
    const smoe_features shots = {x, label, 4}, queries = {query, asked, 3};
    size_t correct[30];
    smoe_err err;
    assert_int_equal(smoe_fewshot_solve(correct, &shots, &queries, 1, 2, &err), 0);
    for (size_t l = 0; l < 30; l++) assert_int_equal(correct[l], 3);
}

static void features_without_values_fail(void **state) {
    real x[] = {NAN, 1}, query[] = {0};
    int64_t label[] = {0, 1}, asked[] = {0};
    const smoe_features shots = {x, label, 2}, queries = {query, asked, 1};
    size_t correct[30];
    smoe_err err = {0};
    assert_int_equal(smoe_fewshot_solve(correct, &shots, &queries, 1, 2, &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, "are the features finite?"));
}

/* ---- draws ----------------------------------------------------------------------------------- */

static void draws_are_balanced_seeded_and_nested(void **state) {
    smoe_spec spec = specs_good("data: {source: shapes, image_size: 8}", NULL, NULL, NULL);
    smoe_dataset *set;
    smoe_err err;
    assert_int_equal(smoe_dataset_open(&set, &spec, "train", NULL, &err), 0);
    size_t N = smoe_dataset_classes(set), count, again;
    uint32_t ten[10 * 64], same[10 * 64], other[10 * 64], three[3 * 64];
    assert_true(N <= 64);
    assert_int_equal(smoe_fewshot_draw(ten, &count, set, 10, 5, 0, &err), 0);
    assert_int_equal(count, 10 * N);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(smoe_dataset_label(set, ten[i]), i / 10);
        for (size_t j = 0; j < i; j++) assert_int_not_equal(ten[i], ten[j]);
    }
    assert_int_equal(smoe_fewshot_draw(same, &again, set, 10, 5, 0, &err), 0);
    assert_memory_equal(ten, same, count * sizeof *ten);
    assert_int_equal(smoe_fewshot_draw(other, &again, set, 10, 5, 1, &err), 0);
    assert_memory_not_equal(ten, other, count * sizeof *ten);
    assert_int_equal(smoe_fewshot_draw(other, &again, set, 10, 6, 0, &err), 0);
    assert_memory_not_equal(ten, other, count * sizeof *ten);
    /* fewer shots are the first ones of more: take_first relies on this */
    assert_int_equal(smoe_fewshot_draw(three, &again, set, 3, 5, 0, &err), 0);
    for (size_t c = 0; c < N; c++)
        assert_memory_equal(three + 3 * c, ten + 10 * c, 3 * sizeof *ten);
    smoe_dataset_free(set);
    smoe_spec_free(&spec);
}

/* A class without images is left out. */
static void empty_classes_are_left_out(void **state) {
    smoe_spec spec = specs_good("data: {image_size: 8, classes: 11}", NULL, NULL, NULL);
    smoe_dataset *set;
    smoe_err err;
    uint32_t image[11 * 3];
    size_t count;
    assert_int_equal(smoe_dataset_open(&set, &spec, "train", NULL, &err), 0);
    assert_int_equal(smoe_dataset_classes(set), 11);
    if (smoe_fewshot_draw(image, &count, set, 3, 5, 0, &err)) fail_msg("%s", err.text);
    assert_int_equal(count, 10 * 3);
    for (size_t i = 0; i < count; i++) assert_int_equal(smoe_dataset_label(set, image[i]), i / 3);
    smoe_dataset_free(set);
    smoe_spec_free(&spec);
}

static void too_few_images_are_named(void **state) {
    smoe_spec spec =
        specs_good("data: {limit: 20, image_size: 8}\neval: {fewshot: {shots: [5000]}}",
                   "data.limit=20", NULL, NULL);
    smoe_fewshot *fewshot;
    smoe_err err = {0};
    spec.eval.fewshot.shots[0] = 100000;
    assert_int_equal(smoe_fewshot_open(&fewshot, &spec, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_non_null(
        strstr(err.text, "eval.fewshot.shots: 100000 images per class needed, but class '"));
    assert_non_null(strstr(err.text, "\ndata.limit is 20: raise it, or give"));
    assert_null(fewshot);
    spec.data.limit = 0; /* now the data has too few */
    assert_int_equal(smoe_fewshot_open(&fewshot, &spec, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_int_equal(err.lines, 1);
    assert_null(fewshot);
    smoe_spec_free(&spec);
}

static void no_shots_no_evaluation(void **state) {
    smoe_spec spec = specs_good("{}", NULL, NULL, NULL);
    smoe_fewshot *fewshot;
    smoe_err err;
    assert_int_equal(smoe_fewshot_open(&fewshot, &spec, NULL, &err), 0);
    assert_null(fewshot);
    smoe_fewshot_free(fewshot);
    smoe_spec_free(&spec);
}

/* ---- the whole method ------------------------------------------------------------------------ */

#define TINY                                                               \
    "model: {width: 8, depth: 1, mlp: 8, heads: 1, moe: {layers: none}}\n" \
    "eval: {fewshot: {shots: [1, 4], seeds: 3}}\n"
static const char tiny[] = "data: {image_size: 8, limit: 60}\n" TINY;

/* Pictures in five colour tones, twelve of each in each split: features of any model separate
 * most of them. */
static void tinted_pictures(const scratch *folder) {
    enum { TINTS = 5, EACH = 12, BYTES = 8 * 8 * 3 };
    datafile file[2 * TINTS * EACH];
    char name[2 * TINTS * EACH][32];
    for (unsigned i = 0; i < 2 * TINTS * EACH; i++) {
        uint8_t pixel[BYTES];
        unsigned tint = i % TINTS;
        datafiles_picture(pixel, 8, 8, 3, i);
        for (unsigned k = 0; k < BYTES; k++)
            pixel[k] = (uint8_t)(pixel[k] / 2 + 40 * ((tint + 1) >> k % 3 & 1));
        snprintf(name[i], sizeof name[i], "%s/%u/%u.png", i % 2 ? "train" : "test", tint, i);
        file[i].name = name[i];
        file[i].bytes = datafiles_png(pixel, 8, 8, 3, &file[i].size);
    }
    datafiles_tree(folder->dir, file, 2 * TINTS * EACH);
    for (unsigned i = 0; i < 2 * TINTS * EACH; i++) free((void *)file[i].bytes);
}

typedef struct subject {
    smoe_spec spec;
    smoe_model *model;
    smoe_dataset *train, *test;
} subject;

/* A model of that spec with its initial weights, and its data. */
static subject subject_make(const char *text, const char *path) {
    subject s = {.spec = specs_good(text, path, NULL, NULL)};
    smoe_err err;
    assert_int_equal(smoe_dataset_open(&s.train, &s.spec, "train", NULL, &err), 0);
    assert_int_equal(smoe_dataset_open(&s.test, &s.spec, "test", NULL, &err), 0);
    assert_int_equal(smoe_model_create(&s.model, &s.spec, smoe_dataset_classes(s.train), &err), 0);
    assert_int_equal(smoe_params_allocate(smoe_model_params(s.model), 1, &err), 0);
    smoe_params_init(smoe_model_params(s.model), 11);
    assert_int_equal(smoe_model_reserve(s.model, 7, false, &err), 0);
    return s;
}

static void subject_free(subject *s) {
    smoe_model_free(s->model);
    smoe_dataset_free(s->train);
    smoe_dataset_free(s->test);
    smoe_spec_free(&s->spec);
}

/* Features of n images (NULL: the first n), in batches in the order of evaluation. */
static void features(subject *s, const smoe_dataset *set, const uint32_t *image, size_t n,
                     size_t batch, real *x, int64_t *label) {
    enum { PIXELS = 3 * 8 * 8 };
    real pixels[7 * PIXELS], target[64];
    uint32_t *order = calloc(n, sizeof *order);
    smoe_err err;
    smoe_dataset_order(order, n, &s->spec);
    for (size_t from = 0; from < n; from += batch) {
        size_t images = n - from < batch ? n - from : batch;
        for (size_t b = 0; b < images; b++) {
            size_t i = order[from + b];
            assert_int_equal(smoe_dataset_image(set, image ? image[i] : i, false,
                                                pixels + b * PIXELS, target, label + i, &err),
                             0);
        }
        smoe_model_forward(s->model, pixels, &(smoe_pass){.images = images});
        for (size_t b = 0; b < images; b++)
            memcpy(x + 8 * order[from + b], smoe_model_features(s->model) + 8 * b, 8 * sizeof *x);
    }
    free(order);
}

/* The best strength over the draws, by elimination: with the first `shots` of the `most` images
 * drawn. */
static smoe_fewshot_score expected(subject *s, size_t shots, size_t most, size_t batch) {
    size_t N = smoe_dataset_classes(s->train), q = smoe_dataset_images(s->test), n, sum[30] = {0},
           correct[3][30], best = 0;
    uint32_t image[64 * 4];
    smoe_err err;
    real *x = calloc(N * most * 8, sizeof *x), *query = calloc(q * 8, sizeof *query);
    int64_t *label = calloc(N * most, sizeof *label), *asked = calloc(q, sizeof *asked);
    features(s, s->test, NULL, q, batch, query, asked);
    for (size_t draw = 0; draw < 3; draw++) {
        assert_int_equal(smoe_fewshot_draw(image, &n, s->train, most, s->spec.seed, draw, &err), 0);
        features(s, s->train, image, n, batch, x, label);
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) { /* the first of each class */
            if (i % most >= shots) continue;
            memmove(x + 8 * kept, x + 8 * i, 8 * sizeof *x);
            label[kept++] = label[i];
        }
        n = kept;
        reference(correct[draw], x, label, n, query, asked, q, 8, N);
        for (size_t l = 0; l < 30; l++) sum[l] += correct[draw][l];
    }
    for (size_t l = 0; l < 30; l++)
        if (sum[l] > sum[best]) best = l;
    free(x);
    free(query);
    free(label);
    free(asked);
    double mean = (double)sum[best] / 3 / (double)q, squares = 0;
    for (size_t i = 0; i < 3; i++) squares += pow((double)correct[i][best] / (double)q - mean, 2);
    return (smoe_fewshot_score){shots, mean, sqrt(squares / 2), ldexp(1, (int)best - 10)};
}

/* An image has the same features in any batch (test_model.c), or the batches are the same, so
 * whole numbers of images are compared: no tolerance except the last bit of a mean. */
static void measured_as_defined(const char *text, size_t batch) {
    scratch folder;
    char path[SCRATCH_PATH];
    scratch_make(&folder);
    tinted_pictures(&folder);
    snprintf(path, sizeof path, "data.path=%s", folder.dir);
    subject s = subject_make(text, path);
    smoe_fewshot *fewshot;
    smoe_fewshot_score score[2];
    smoe_err err;
    assert_int_equal(smoe_fewshot_open(&fewshot, &s.spec, NULL, &err), 0);
    assert_int_equal(smoe_fewshot_measure(fewshot, s.model, 7, NULL, NULL, score, &err), 0);
    json_t *record = json_object();
    char *line, right_line[96];
    assert_int_equal(smoe_fewshot_record(fewshot, s.model, 7, NULL, record, &line, &err), 0);
    snprintf(right_line, sizeof right_line,
             "few-shot accuracy, by images per class: 1: %.4f, 4: %.4f", score[0].mean,
             score[1].mean);
    assert_string_equal(line, right_line);
    free(line);
    for (size_t k = 0; k < 2; k++) {
        smoe_fewshot_score right = expected(&s, k ? 4 : 1, 4, batch);
        assert_int_equal(score[k].shots, right.shots);
        assert_true(right.mean >= 0.4 && right.mean < 1 && right.sd > 0); /* chance: 0.2 */
        assert_close(score[k].mean, right.mean, 1e-15);
        assert_close(score[k].sd, right.sd, 1e-15);
        assert_close(score[k].l2, right.l2, 0);
        const char *key = k ? "test/fewshot_4" : "test/fewshot_1";
        assert_close(json_real_value(json_object_get(record, key)), score[k].mean, 0);
    }
    assert_int_equal(json_object_size(record), 6);
    json_decref(record);
    smoe_fewshot_free(fewshot);
    subject_free(&s);
    scratch_remove(&folder);
}

#define FOLDER "data: {source: image-folder, image_size: 8}\n"

static void a_model_is_measured_as_defined(void **state) {
    measured_as_defined(FOLDER TINY, 1);
}

/* Images share a group if they are neighbours in the order of evaluation, both in the split and
 * among the shots, which are drawn class by class. */
static void groups_are_formed_along_the_order(void **state) {
    static const char choice[] =
        FOLDER "model: {width: 8, depth: 1, mlp: 8, heads: 1, patch_size: 2,\n"
               "  moe: {layers: all, router: experts-choice, experts: 4, capacity: 0.5,\n"
               "        group_images: 4}}\n"
               "train: {batch_size: 8}\n"
               "eval: {order: %s, fewshot: {shots: [1, 4], seeds: 3}}\n";
    char text[512];
    for (int k = 0; k < 2; k++) {
        snprintf(text, sizeof text, choice, k ? "file" : "shuffled");
        measured_as_defined(text, 7);
    }
}

/* A data set other than that of training: the same numbers as if it had been named in `data`,
 * whose own limit and classes are ignored. */
static void other_data_is_what_data_would_be(void **state) {
    subject s = subject_make(tiny, NULL);
    smoe_err err;
    smoe_fewshot *fewshot;
    smoe_fewshot_score here[2], there[2];
    assert_int_equal(smoe_fewshot_open(&fewshot, &s.spec, NULL, &err), 0);
    assert_int_equal(smoe_fewshot_measure(fewshot, s.model, 7, NULL, NULL, here, &err), 0);
    smoe_fewshot_free(fewshot);
    smoe_spec view,
        other = specs_good("data: {source: cifar10, path: /nowhere, image_size: 8, limit: 40, "
                           "classes: 20}\n" TINY,
                           "eval.fewshot.data={source: shapes, limit: 60}", NULL, NULL);
    assert_int_equal(smoe_spec_fewshot_data(&other, &view, &err), 0);
    assert_int_equal(view.data.classes, 0);
    assert_int_equal(smoe_fewshot_open(&fewshot, &other, NULL, &err), 0);
    assert_int_equal(smoe_fewshot_measure(fewshot, s.model, 7, NULL, NULL, there, &err), 0);
    for (size_t k = 0; k < 2; k++) {
        assert_close(here[k].mean, there[k].mean, 0);
        assert_close(here[k].l2, there[k].l2, 0);
    }
    smoe_fewshot_free(fewshot);
    smoe_spec_free(&other);
    subject_free(&s);
}

static void other_data_needs_a_path(void **state) {
    specs_wrong("eval: {fewshot: {data: {source: cifar10}}}", NULL,
                "t:1:33: eval.fewshot.data.source: eval.fewshot.data.path must say where this data "
                "is (a folder or archive)");
    smoe_spec spec = specs_good("eval: {fewshot: {shots: 1, data: {source: idx, path: nowhere}}}",
                                NULL, NULL, NULL);
    smoe_fewshot *fewshot;
    smoe_err err = {0};
    assert_int_equal(smoe_fewshot_open(&fewshot, &spec, NULL, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "eval.fewshot.data.path: nowhere was not found; tried"));
    smoe_spec_free(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_input_by_hand),
        cmocka_unit_test(one_row_by_hand),
        cmocka_unit_test(agrees_with_the_normal_equations),
        cmocka_unit_test(solving_agrees_with_elimination),
        cmocka_unit_test(two_points_by_hand),
        cmocka_unit_test(equal_scores),
        cmocka_unit_test(features_without_values_fail),
        cmocka_unit_test(draws_are_balanced_seeded_and_nested),
        cmocka_unit_test(empty_classes_are_left_out),
        cmocka_unit_test(too_few_images_are_named),
        cmocka_unit_test(no_shots_no_evaluation),
        cmocka_unit_test(a_model_is_measured_as_defined),
        cmocka_unit_test(groups_are_formed_along_the_order),
        cmocka_unit_test(other_data_is_what_data_would_be),
        cmocka_unit_test(other_data_needs_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
