/* Tables of experts by classes and positions, and the information experts carry about them,
 * against slow, plain computations from the weights and placements of every image. */
#include "approx.h"
#include "inspect_fixture.h"
#include "base/rng.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 24 };

/* Sums of a few thousand doubles near 1. */
static const double EXACT = 1e-11;

/* The weight of expert e in token t of an image. */
static double expert_weight(const inspect_fixture *x, size_t image, size_t l, size_t t, size_t e) {
    const smoe_sample_layer *layer = inspect_fixture_layer(x, image, l);
    double sum = 0;
    for (size_t p = 0; layer->combine && p < x->P; p++)
        sum += (double)layer->combine[t * x->S + e * x->P + p];
    for (size_t i = 0; i < layer->places; i++)
        if (layer->place[i].token == t && layer->place[i].expert == e)
            sum += (double)layer->place[i].weight;
    return sum;
}

/* sum [rows,E] of the weights of experts over tokens; group[i * T + t] is the row for token t of
 * image i. */
static void sum_weights(double *sum, const inspect_fixture *x, size_t l, const size_t *group,
                        size_t rows) {
    memset(sum, 0, rows * x->E * sizeof *sum);
    for (size_t i = 0; i < x->images * x->T; i++)
        for (size_t e = 0; e < x->E; e++)
            sum[group[i] * x->E + e] += expert_weight(x, i / x->T, l, i % x->T, e);
}

/* sum p log2 p/(p p), and the entropy of the experts. */
static double information(const double *sum, size_t rows, size_t E, double *bits_of_experts) {
    double all = 0, bits = 0;
    double *expert = calloc(E, sizeof *expert), *row = calloc(rows, sizeof *row);
    for (size_t i = 0; i < rows * E; i++) {
        all += sum[i];
        row[i / E] += sum[i];
        expert[i % E] += sum[i];
    }
    for (size_t i = 0; i < rows * E; i++)
        if (sum[i] > 0) bits += sum[i] / all * log2(sum[i] * all / (row[i / E] * expert[i % E]));
    *bits_of_experts = 0;
    for (size_t e = 0; e < E; e++)
        if (expert[e] > 0) *bits_of_experts -= expert[e] / all * log2(expert[e] / all);
    free(expert);
    free(row);
    return bits;
}

/* Mean weights of groups of tokens; ranks by the stated rule. */
static void check_table(const inspect_fixture *x, size_t l, const char *name,
                        const char *group_column, const double *sum, const size_t *tokens,
                        size_t rows) {
    const smoe_frame *frame = inspect_fixture_frame(x, name);
    size_t first = inspect_fixture_row(frame, x, l, rows * x->E), E = x->E;
    double *mean = calloc(E, sizeof *mean), *best = calloc(rows, sizeof *best);
    size_t *home = calloc(rows, sizeof *home);
    for (size_t i = 0; i < rows * E; i++) mean[i % E] += sum[i] / (double)(x->images * x->T);
    for (size_t i = 0; i < rows * E; i++) {
        size_t row = first + i, g = i / E, e = i % E, rank = 1;
        double weight = sum[i] / (double)tokens[g], lift = weight / mean[e];
        assert_true(inspect_fixture_number(frame, row, group_column) == (double)g);
        assert_true(inspect_fixture_number(frame, row, "expert") == (double)e);
        assert_close(inspect_fixture_number(frame, row, "weight"), weight, EXACT);
        assert_close(inspect_fixture_number(frame, row, "lift"), lift,
                     1e-9); /* divided by about 1e-2 */
        for (size_t o = 0; o < E; o++) rank += mean[o] > mean[e];
        assert_true(inspect_fixture_number(frame, row, "expert_rank") == (double)rank);
        if (!e || lift > best[g] * (1 + 1e-12)) {
            best[g] = lift;
            home[g] = (size_t)inspect_fixture_number(frame, row, "expert_rank");
        }
    }
    char rank_column[32];
    snprintf(rank_column, sizeof rank_column, "%s_rank", group_column);
    for (size_t a = 0; a < rows; a++)
        for (size_t b = 0; b < rows; b++) {
            double one = inspect_fixture_number(frame, first + a * E, rank_column);
            double other = inspect_fixture_number(frame, first + b * E, rank_column);
            if (a != b) assert_true(one != other);
            if (home[a] < home[b] || (home[a] == home[b] && best[a] > best[b] * (1 + 1e-9)))
                assert_true(one < other);
        }
    free(mean);
    free(best);
    free(home);
}

static void check_information(const inspect_fixture *x, size_t l, size_t which, const size_t *own,
                              size_t rows) {
    const smoe_frame *frame = inspect_fixture_frame(x, "expert_information");
    size_t row = inspect_fixture_row(frame, x, l, 2) + which,
           *sample_tables = calloc(x->images * x->T, sizeof *sample_tables);
    double *sum = calloc(rows * x->E, sizeof *sum), bits, other, mean = 0, square = 0;
    uint32_t *order = calloc(x->T, sizeof *order), *images = calloc(x->images, sizeof *images);
    smoe_rng permuting = smoe_rng_at(x->spec.seed, SMOE_RNG_ANALYSIS, 0, 0, 0);
    smoe_rng_permutation(&permuting, images, x->images);
    assert_string_equal(smoe_frame_text_at(frame, row, smoe_frame_find(frame, "about")),
                        which ? "position" : "class");
    sum_weights(sum, x, l, own, rows);
    /* differences of entropies of up to 8 bits, rounded in the last place */
    assert_close(inspect_fixture_number(frame, row, "bits"), information(sum, rows, x->E, &bits),
                 1e-13);
    assert_close(inspect_fixture_number(frame, row, "expert_entropy"), bits, EXACT);
    for (size_t draw = 1; draw <= 8; draw++) {
        for (size_t i = 0; i < x->images; i++) {
            smoe_rng rng = smoe_rng_at(x->spec.seed, SMOE_RNG_ANALYSIS, (uint32_t)which, draw, i);
            size_t from = images[(i + draw * (x->images / 9 + 1)) % x->images];
            size_t label = which ? 0 : smoe_dataset_label(x->set, from);
            if (which) smoe_rng_permutation(&rng, order, x->T);
            for (size_t t = 0; t < x->T; t++)
                sample_tables[i * x->T + t] = which ? order[t] : label;
        }
        sum_weights(sum, x, l, sample_tables, rows);
        double chance = information(sum, rows, x->E, &other);
        mean += chance / 8;
        square += chance * chance / 8;
    }
    assert_close(inspect_fixture_number(frame, row, "by_chance"), mean, 1e-13);
    /* the standard deviation is a root: 1e-13 / 1e-7 before it */
    assert_close(inspect_fixture_number(frame, row, "chance_sd"),
                 sqrt(fmax(0, square - mean * mean) * 8 / 7), 3e-7);
    free(sample_tables);
    free(sum);
    free(order);
    free(images);
}

static void check_experts(const inspect_fixture *x, size_t l) {
    const smoe_frame *frame = inspect_fixture_frame(x, "combine_expert");
    size_t n = x->images * x->T, rows = x->N > x->T ? x->N : x->T,
           first = inspect_fixture_row(frame, x, l, x->E);
    size_t *class = calloc(n, sizeof *class), *position = calloc(n, sizeof *position);
    size_t *tokens = calloc(rows, sizeof *tokens);
    double *sum = calloc(rows * x->E, sizeof *sum), before = INFINITY;
    for (size_t i = 0; i < n; i++) {
        class[i] = smoe_dataset_label(x->set, i / x->T);
        position[i] = i % x->T;
        tokens[class[i]]++;
    }
    sum_weights(sum, x, l, class, x->N);
    for (size_t c = 0; c < x->N; c++) assert_true(tokens[c] > 0);
    check_table(x, l, "class_expert", "class", sum, tokens, x->N);
    for (size_t t = 0; t < x->T; t++) tokens[t] = x->images;
    sum_weights(sum, x, l, position, x->T);
    check_table(x, l, "position_expert", "position", sum, tokens, x->T);
    for (size_t r = first; r < first + x->E; r++) {
        size_t e = (size_t)inspect_fixture_number(frame, r, "expert");
        double weight = 0, here = inspect_fixture_number(frame, r, "weight");
        double least = inspect_fixture_number(frame, first + x->E - 1, "weight"), all = 0;
        for (size_t i = 0; i < x->E; i++) all += inspect_fixture_number(frame, first + i, "weight");
        for (size_t t = 0; t < x->T; t++) weight += sum[t * x->E + e] / (double)n;
        assert_close(here, weight, EXACT);
        assert_close(inspect_fixture_number(frame, r, "times_least"), weight / least, 1e-9);
        assert_close(inspect_fixture_number(frame, r, "times_mean"), weight / all * (double)x->E,
                     1e-9);
        assert_true(inspect_fixture_number(frame, r, "rank") == (double)(r - first + 1) &&
                    here <= before);
        before = here;
    }
    check_information(x, l, 0, class, x->N);
    check_information(x, l, 1, position, x->T);
    free(class);
    free(position);
    free(tokens);
    free(sum);
}

static void experts_by_class_and_position(void **state) {
    static const char *const kinds[] = {"model.moe.router=soft",
                                        "model.moe.router=tokens-choice model.moe.capacity=0.7",
                                        "model.moe.router=experts-choice model.moe.group_images=2"};
    for (size_t k = 0; k < 3; k++) {
        inspect_fixture x;
        inspect_fixture_make(&x, kinds[k], IMAGES, 8);
        for (size_t l = 0; l < x.L; l++) check_experts(&x, l);
        inspect_fixture_free(&x);
    }
}

/* Classes without an image in the split: no weight, and the last ranks. */
static void classes_without_images(void **state) {
    inspect_fixture x;
    inspect_fixture_make(&x, "model.moe.router=soft data.classes=12", 10, 5);
    const smoe_frame *frame = inspect_fixture_frame(&x, "class_expert");
    size_t images[12] = {0}, last[12], some = 0;
    for (size_t i = 0; i < 10; i++) images[smoe_dataset_label(x.set, i)]++;
    for (size_t c = 0; c < 12; c++) some += images[c] > 0;
    for (size_t c = 0, n = some; c < 12; c++) last[c] = images[c] ? 0 : ++n;
    assert_true(some < 10); /* beside the two unused classes, one of the ten has none */
    assert_int_equal(frame->rows, x.L * 12 * x.E);
    for (size_t r = 0; r < frame->rows; r++) {
        size_t class = (size_t)inspect_fixture_number(frame, r, "class");
        bool none = isnan(inspect_fixture_number(frame, r, "weight"));
        assert_true(none == !images[class]);
        assert_true(isnan(inspect_fixture_number(frame, r, "lift")) == none);
        if (none)
            assert_true(inspect_fixture_number(frame, r, "class_rank") == (double)last[class]);
    }
    inspect_fixture_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_by_class_and_position),
        cmocka_unit_test(classes_without_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
