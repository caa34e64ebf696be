/*
 * The tables of smoe inspect against slow, plain computations from the weights and placements of
 * every image. Those are checked in turn by test_inspect_dump.c.
 */
#include "approx.h"
#include "inspect_fixture.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 24 };

/* Sums of a few thousand doubles near 1. */
static const double EXACT = 1e-11;

static const char *const soft_kinds[] = {
    "model.moe.router=soft",
    "model.moe.router=soft-uniform",
    "model.moe.router=uniform-soft",
    "model.moe.router=uniform",
    "model.moe.router=soft model.moe.normalize=false model.head=token",
    "model.moe.router=soft model.moe.slots_per_expert=0 model.moe.capacity=[0.5,1.5]"};
enum { SOFT_KINDS = sizeof soft_kinds / sizeof *soft_kinds };

static const char *const sparse_kinds[] = {
    "model.moe.router=tokens-choice model.moe.k=2 model.moe.capacity=0.7 model.moe.group_images=4",
    "model.moe.router=tokens-choice model.moe.capacity=0.6 model.moe.priority=vanilla "
    "model.moe.skip_patch=0.8",
    "model.moe.router=experts-choice model.moe.capacity=0.8 model.moe.group_images=2 "
    "model.head=token",
    "model.moe.router=identity model.moe.slots_per_expert=6",
    "model.moe.router=tokens-choice model.moe.k=[1,2] model.moe.capacity=[0.5,1.2] "
    "model.moe.group_images=4",
    "model.moe.router=tokens-choice model.moe.k=2 model.moe.capacity=0.7 "
    "model.moe.priority=learnt",
    "model.moe.router=tokens-choice model.moe.skip_patch=0.2"};
enum { SPARSE_KINDS = sizeof sparse_kinds / sizeof *sparse_kinds };

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* sums [n] of n numbers at distance `stride`, largest first. */
static void cumulate(double *sums, const float *w, size_t n, size_t stride) {
    for (size_t i = 0; i < n; i++) sums[i] = -(double)w[i * stride];
    qsort(sums, n, sizeof *sums, rising);
    for (size_t i = 0; i < n; i++) sums[i] = (i ? sums[i - 1] : 0) - sums[i];
}

static double entropy(const double *w, size_t n) {
    double sum = 0, nats = 0;
    for (size_t i = 0; i < n; i++) sum += w[i];
    for (size_t i = 0; i < n; i++)
        if (w[i] > 0) nats -= w[i] / sum * log(w[i] / sum);
    return nats;
}

/* ---- soft family ----------------------------------------------------------------------------- */

static void check_means(const inspect_fixture *x, size_t l) {
    const smoe_frame *frame = inspect_fixture_frame(x, "routing");
    size_t row = inspect_fixture_row(frame, x, l, 1), T = x->T, S = x->sample->layer[l].S;
    double dispatch_max = 0, combine_max = 0, tokens_per_slot = 0, slots_per_token = 0;
    double *w = calloc(T + S, sizeof *w);
    for (size_t i = 0; i < x->images; i++) {
        const smoe_sample_layer *layer = inspect_fixture_layer(x, i, l);
        for (size_t s = 0; s < S; s++) {
            double most = 0;
            for (size_t t = 0; t < T; t++) w[t] = (double)layer->dispatch[t * S + s];
            for (size_t t = 0; t < T; t++) most = fmax(most, w[t]);
            dispatch_max += most;
            tokens_per_slot += exp(entropy(w, T));
        }
        for (size_t t = 0; t < T; t++) {
            double most = 0;
            for (size_t s = 0; s < S; s++) w[s] = (double)layer->combine[t * S + s];
            for (size_t s = 0; s < S; s++) most = fmax(most, w[s]);
            combine_max += most;
            slots_per_token += exp(entropy(w, S));
        }
    }
    double slots = (double)(x->images * S), tokens = (double)(x->images * T);
    assert_close(inspect_fixture_number(frame, row, "dispatch_max"), dispatch_max / slots, EXACT);
    assert_close(inspect_fixture_number(frame, row, "combine_max"), combine_max / tokens, EXACT);
    assert_close(inspect_fixture_number(frame, row, "tokens_per_slot"), tokens_per_slot / slots,
                 EXACT);
    assert_close(inspect_fixture_number(frame, row, "slots_per_token"), slots_per_token / tokens,
                 EXACT);
    assert_close(inspect_fixture_number(frame, row, "dropped"), 0, 0);
    free(w);
}

static void check_token_sums(const inspect_fixture *x, size_t l) {
    const smoe_frame *shares = inspect_fixture_frame(x, "token_weight");
    const smoe_frame *bins = inspect_fixture_frame(x, "dispatch_token_sum");
    size_t tokens = x->images * x->T, row = inspect_fixture_row(shares, x, l, 1);
    size_t S = x->sample->layer[l].S;
    double *sum = calloc(tokens, sizeof *sum), mean = (double)S / (double)x->T, total = 0;
    size_t light = 0, heavy = 0, quarter = 0, two = 0;
    for (size_t i = 0; i < tokens; i++) {
        for (size_t s = 0; s < S; s++)
            sum[i] += (double)inspect_fixture_layer(x, i / x->T, l)->dispatch[i % x->T * S + s];
        total += sum[i];
        light += sum[i] < mean / 4;
        heavy += sum[i] > 2 * mean;
        quarter += sum[i] <= 0.25;
        two += sum[i] > 2;
    }
    qsort(sum, tokens, sizeof *sum, rising);
    double n = (double)tokens;
    assert_close(inspect_fixture_number(shares, row, "mean"), total / n, EXACT);
    assert_close(inspect_fixture_number(shares, row, "light"), (double)light / n, EXACT);
    assert_close(inspect_fixture_number(shares, row, "heavy"), (double)heavy / n, EXACT);
    assert_close(inspect_fixture_number(shares, row, "largest"), sum[tokens - 1], EXACT);
    assert_close(inspect_fixture_number(shares, row, "share_up_to_quarter"), (double)quarter / n,
                 EXACT);
    assert_close(inspect_fixture_number(shares, row, "share_above_2"), (double)two / n, EXACT);
    size_t before = 0;
    for (size_t r = 0; r < bins->rows; r++) {
        size_t below = 0;
        if (inspect_fixture_number(bins, r, "block") != (double)x->sample->layer[l].block) continue;
        double edge = inspect_fixture_number(bins, r, "sum");
        while (below < tokens && sum[below] <= edge) below++;
        assert_true(inspect_fixture_number(bins, r, "tokens") == (double)(below - before));
        assert_close(inspect_fixture_number(bins, r, "share"), (double)below / n, EXACT);
        assert_true(sum[below - 1] > edge - 0.01 * mean * (1 + EXACT)); /* the width of a bin */
        before = below;
    }
    assert_int_equal(before, tokens);
    free(sum);
}

/* Lists of n weights: cumulative sums at each rank, over all lists. */
static void check_bands(const inspect_fixture *x, size_t l, bool dispatch) {
    static const struct {
        const char *column;
        double share;
    } percentiles[] = {{"p0.5", 0.005}, {"p2.5", 0.025},  {"p5", 0.05},    {"p10", 0.1},
                       {"p20", 0.2},    {"p50", 0.5},     {"p80", 0.8},    {"p90", 0.9},
                       {"p95", 0.95},   {"p97.5", 0.975}, {"p99.5", 0.995}};
    const smoe_frame *frame =
        inspect_fixture_frame(x, dispatch ? "dispatch_bands" : "combine_bands");
    size_t S = x->sample->layer[l].S, n = dispatch ? x->T : S, each = dispatch ? S : x->T;
    size_t lists = x->images * each;
    size_t first = inspect_fixture_row(frame, x, l, n);
    double *sums = calloc(lists * n, sizeof *sums), *column = calloc(lists, sizeof *column);
    for (size_t i = 0; i < lists; i++) {
        const smoe_sample_layer *layer = inspect_fixture_layer(x, i / each, l);
        if (dispatch)
            cumulate(sums + i * n, layer->dispatch + i % each, n, S);
        else
            cumulate(sums + i * n, layer->combine + i % each * S, n, 1);
    }
    for (size_t k = 0; k < n; k++) {
        double mean = 0;
        for (size_t i = 0; i < lists; i++) mean += (column[i] = sums[i * n + k]) / (double)lists;
        qsort(column, lists, sizeof *column, rising);
        assert_true(inspect_fixture_number(frame, first + k, "rank") == (double)(k + 1));
        assert_close(inspect_fixture_number(frame, first + k, "mean"), mean, EXACT);
        for (size_t p = 0; p < sizeof percentiles / sizeof *percentiles; p++) {
            size_t at = (size_t)ceil(percentiles[p].share * (double)lists - 1e-9);
            /* rounded to 0.001 */
            assert_close(inspect_fixture_number(frame, first + k, percentiles[p].column),
                         column[at - 1], 0.0005 + 1e-6);
        }
    }
    free(sums);
    free(column);
}

static void check_fractions(const inspect_fixture *x, size_t l) {
    static const double fractions[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
    const smoe_frame *frame = inspect_fixture_frame(x, "tokens_to_fraction");
    size_t S = x->sample->layer[l].S, P = x->sample->layer[l].P;
    size_t row = inspect_fixture_row(frame, x, l, S * 11);
    double *sums = calloc(x->T, sizeof *sums);
    for (size_t s = 0; s < S; s++)
        for (size_t f = 0; f < 11; f++, row++) {
            double tokens = 0;
            for (size_t i = 0; i < x->images; i++) {
                size_t need = 1;
                cumulate(sums, inspect_fixture_layer(x, i, l)->dispatch + s, x->T, S);
                while (need < x->T && sums[need - 1] < fractions[f] - 1e-6) need++;
                tokens += (double)need;
            }
            assert_true(inspect_fixture_number(frame, row, "slot") == (double)s);
            assert_true(inspect_fixture_number(frame, row, "expert") == (double)(s / P));
            assert_true(inspect_fixture_number(frame, row, "fraction") == fractions[f]);
            assert_close(inspect_fixture_number(frame, row, "tokens"), tokens / (double)x->images,
                         EXACT);
        }
    free(sums);
}

static void soft_tables_are_what_the_weights_say(void **state) {
    for (size_t k = 0; k < SOFT_KINDS; k++) {
        inspect_fixture x;
        inspect_fixture_open(&x, soft_kinds[k], IMAGES, 7);
        if (k == 0) /* weights that differ */
            *inspect_fixture_tensor(&x, "blocks.1.mlp.router.scale", NULL) = 60;
        inspect_fixture_run(&x);
        const smoe_frame *tokens = inspect_fixture_frame(&x, "token_weight");
        assert_true(k || inspect_fixture_number(tokens, 1, "light") *
                                 inspect_fixture_number(tokens, 1, "heavy") >
                             0);
        if (k == 0) { /* the parameter itself */
            const smoe_frame *routing = inspect_fixture_frame(&x, "routing");
            assert_close(inspect_fixture_number(routing, 1, "scale"), 60, 0);
        }
        for (size_t l = 0; l < x.L; l++) {
            check_means(&x, l);
            check_token_sums(&x, l);
            check_bands(&x, l, true);
            check_bands(&x, l, false);
            check_fractions(&x, l);
        }
        inspect_fixture_free(&x);
    }
}

/* Uniform weights: every token has a total of S/T, which here equals the limits exactly; a
 * quarter includes its limit, two excludes it. */
static void limits_of_token_weights(void **state) {
    static const struct {
        const char *keys;
        double up_to_quarter, above_2;
    } rows[] = {{"model.moe.experts=2 model.moe.slots_per_expert=2", 1, 0},
                {"model.moe.experts=16 model.moe.slots_per_expert=2", 0, 0},
                {"model.moe.experts=3 model.moe.slots_per_expert=11", 0, 1}};
    for (size_t i = 0; i < 3; i++) {
        char keys[160];
        snprintf(keys, sizeof keys, "model.moe.router=uniform %s", rows[i].keys);
        inspect_fixture x;
        inspect_fixture_make(&x, keys, 2, 2);
        assert_int_equal(x.T, 16);
        const smoe_frame *frame = inspect_fixture_frame(&x, "token_weight");
        assert_close(inspect_fixture_number(frame, 0, "share_up_to_quarter"), rows[i].up_to_quarter,
                     0);
        assert_close(inspect_fixture_number(frame, 0, "share_above_2"), rows[i].above_2, 0);
        inspect_fixture_free(&x);
    }
}

/* Many ranks: 256 of 300 slots, evenly from the first to the last. */
static void long_lists_keep_256_ranks(void **state) {
    inspect_fixture x;
    inspect_fixture_make(
        &x, "model.moe.router=uniform model.moe.experts=300 model.moe.slots_per_expert=1", 2, 2);
    const smoe_frame *frame = inspect_fixture_frame(&x, "combine_bands");
    assert_int_equal(frame->rows, 256 * x.L);
    for (size_t i = 0; i < 256; i++) {
        double rank = inspect_fixture_number(frame, i, "rank");
        assert_true(rank == 1 + floor((double)i * 299 / 255));
        assert_close(inspect_fixture_number(frame, i, "mean"), rank / 300,
                     1e-6); /* of single precision */
    }
    inspect_fixture_free(&x);
}

/* If memory holds only one image at a time, a batch is processed in as many pieces: the same
 * tables, to the bit. */
static void batches_may_be_seen_in_pieces(void **state) {
    static const char *const kinds[] = {"model.moe.router=soft", "model.moe.router=tokens-choice"};
    for (size_t k = 0; k < 2; k++) {
        inspect_fixture whole, pieces;
        inspect_fixture_make(&whole, kinds[k], IMAGES, 8);
        inspect_fixture_open(&pieces, kinds[k], IMAGES, 8);
        pieces.memory = 1;
        inspect_fixture_run(&pieces);
        for (size_t f = 0; f < whole.frames; f++) {
            json_t *a = smoe_frame_json(&whole.frame[f]), *b = smoe_frame_json(&pieces.frame[f]);
            if (!json_equal(a, b)) fail_msg("%s is another one", whole.frame[f].name);
            json_decref(a);
            json_decref(b);
        }
        inspect_fixture_free(&whole);
        inspect_fixture_free(&pieces);
    }
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* The cosine of columns a and b of phi [d,S]. */
static double cosine(const real *phi, size_t d, size_t S, size_t a, size_t b) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < d; i++) {
        ab += (double)phi[i * S + a] * (double)phi[i * S + b];
        aa += (double)phi[i * S + a] * (double)phi[i * S + a];
        bb += (double)phi[i * S + b] * (double)phi[i * S + b];
    }
    return ab / sqrt(aa * bb);
}

static void check_slots(const char *keys) {
    inspect_fixture x;
    inspect_fixture_make(&x, keys, 2, 2);
    const smoe_frame *pairs = inspect_fixture_frame(&x, "slot_correlation");
    const smoe_frame *means = inspect_fixture_frame(&x, "slot_alignment");
    size_t d = x.spec.model.width;
    for (size_t l = 0; l < x.L; l++) {
        const real *phi = inspect_fixture_tensor(
            &x, l ? "blocks.1.mlp.router.phi" : "blocks.0.mlp.router.phi", NULL);
        double sum[2] = {0}, square[2] = {0}, count[2] = {0};
        size_t S = x.sample->layer[l].S, P = x.sample->layer[l].P, shown = S < 128 ? S : 128;
        size_t row = inspect_fixture_row(pairs, &x, l, shown * shown);
        for (size_t a = 0; a < S; a++)
            for (size_t b = 0; b < S; b++) {
                double c = cosine(phi, d, S, a, b);
                bool across = a / P != b / P;
                if (a < shown && b < shown) {
                    assert_true(inspect_fixture_number(pairs, row, "slot") == (double)a);
                    assert_true(inspect_fixture_number(pairs, row, "other") == (double)b);
                    assert_close(inspect_fixture_number(pairs, row++, "cosine"), c, EXACT);
                }
                if (a == b) continue;
                sum[across] += c;
                square[across] += c * c;
                count[across]++;
            }
        row = inspect_fixture_row(means, &x, l, 1);
        assert_true(inspect_fixture_number(means, row, "slots") == (double)S);
        if (P > 1) {
            assert_close(inspect_fixture_number(means, row, "within_mean"), sum[0] / count[0],
                         EXACT);
            assert_close(inspect_fixture_number(means, row, "within_rms"),
                         sqrt(square[0] / count[0]), EXACT);
        } else
            assert_true(isnan(inspect_fixture_number(means, row, "within_mean")));
        assert_close(inspect_fixture_number(means, row, "across_mean"), sum[1] / count[1], EXACT);
        assert_close(inspect_fixture_number(means, row, "across_rms"), sqrt(square[1] / count[1]),
                     EXACT);
    }
    inspect_fixture_free(&x);
}

static void slot_vectors_are_compared(void **state) {
    check_slots("model.moe.router=soft");
    check_slots("model.moe.router=soft model.moe.slots_per_expert=0 model.moe.capacity=[1,2]");
    check_slots("model.moe.router=soft-uniform model.moe.slots_per_expert=1 model.moe.experts=5");
    check_slots("model.moe.router=soft model.moe.slots_per_expert=50"); /* 150 slots */
}

/* ---- sparse routers -------------------------------------------------------------------------- */

static size_t times_processed(const smoe_sample_layer *layer, size_t t) {
    size_t times = 0;
    for (size_t i = 0; i < layer->places; i++) times += layer->place[i].token == t;
    return times;
}

static size_t experts_used(const inspect_fixture *x, const smoe_sample_layer *layer) {
    size_t used = 0;
    for (size_t e = 0; e < x->E; e++) {
        bool here = false;
        for (size_t i = 0; i < layer->places; i++) here |= layer->place[i].expert == e;
        used += here;
    }
    return used;
}

/* The number of experts of a token that have a larger gate weight, or the same and a lower
 * index. */
static size_t place_of(const float *gate, size_t E, size_t e) {
    size_t before = 0;
    for (size_t i = 0; i < E; i++) before += gate[i] > gate[e] || (gate[i] == gate[e] && i < e);
    return before;
}

/* Whether skip_patch leaves a token in, where an image is a group: those with the largest gate
 * weights take part, of equal ones the first. */
static bool takes_part(const inspect_fixture *x, const float *gate, size_t t) {
    double share = x->spec.model.moe.choice.skip_patch;
    if (share >= 1) return true;
    assert_int_equal(x->spec.model.moe.choice.group_images, 1);
    size_t before = 0;
    float largest[2] = {0};
    for (size_t e = 0; e < x->E; e++) largest[0] = fmaxf(largest[0], gate[t * x->E + e]);
    for (size_t i = 0; i < x->T; i++) {
        largest[1] = 0;
        for (size_t e = 0; e < x->E; e++) largest[1] = fmaxf(largest[1], gate[i * x->E + e]);
        before += largest[1] > largest[0] || (largest[1] == largest[0] && i < t);
    }
    return before < (size_t)rint(share * (double)x->T);
}

/* The experts among the K best of any token that takes part. Gate weights are those that tokens
 * choose by. */
static size_t experts_selected(const inspect_fixture *x, const smoe_sample_layer *layer) {
    size_t selected = 0, K = smoe_moe_k(&x->spec.model.moe, layer->block);
    for (size_t e = 0; e < x->E; e++) {
        bool here = false;
        for (size_t t = 0; t < x->T; t++)
            here |= takes_part(x, layer->gate, t) && place_of(layer->gate + t * x->E, x->E, e) < K;
        selected += here;
    }
    return selected;
}

/* Rows of one layer with a number and its count: exactly those of `count` [0..n], and their
 * shares. */
static void check_counts(const inspect_fixture *x, size_t l, const char *name,
                         const char *count_column, const size_t *count, size_t n, double all) {
    const smoe_frame *frame = inspect_fixture_frame(x, name);
    size_t seen = 0, wanted = 0;
    for (size_t i = 0; i <= n; i++) wanted += count[i] > 0;
    for (size_t r = 0; r < frame->rows; r++) {
        if (inspect_fixture_number(frame, r, "block") != (double)x->sample->layer[l].block)
            continue;
        size_t i = (size_t)inspect_fixture_number(frame, r, "experts");
        assert_true(i <= n && count[i]);
        assert_true(inspect_fixture_number(frame, r, count_column) == (double)count[i]);
        assert_close(inspect_fixture_number(frame, r, "share"), (double)count[i] / all, EXACT);
        seen++;
    }
    assert_int_equal(seen, wanted);
}

static void check_tokens(const inspect_fixture *x, size_t l) {
    const smoe_frame *frame = inspect_fixture_frame(x, "dropped_by_position");
    size_t row = inspect_fixture_row(frame, x, l, x->T), *times = calloc(x->E + 1, sizeof *times);
    size_t *used = calloc(x->E + 1, sizeof *used), dropped = 0;
    size_t *selected = calloc(x->E + 1, sizeof *selected);
    for (size_t t = 0; t < x->T; t++) {
        size_t lost = 0;
        for (size_t i = 0; i < x->images; i++) {
            size_t n = times_processed(inspect_fixture_layer(x, i, l), t);
            times[n]++;
            lost += !n;
        }
        double patch = (double)t - (double)x->sample->first_patch, side = (double)x->sample->side;
        assert_true(inspect_fixture_number(frame, row + t, "position") == (double)t);
        if (patch < 0) { /* the class token */
            assert_true(isnan(inspect_fixture_number(frame, row + t, "row")));
            assert_true(isnan(inspect_fixture_number(frame, row + t, "column")));
        } else {
            assert_true(inspect_fixture_number(frame, row + t, "row") == floor(patch / side));
            assert_true(inspect_fixture_number(frame, row + t, "column") == fmod(patch, side));
        }
        assert_close(inspect_fixture_number(frame, row + t, "dropped"),
                     (double)lost / (double)x->images, EXACT);
        dropped += lost;
    }
    for (size_t i = 0; i < x->images; i++) used[experts_used(x, inspect_fixture_layer(x, i, l))]++;
    bool choose = !strcmp(x->spec.model.moe.router, "tokens-choice");
    for (size_t i = 0; i < x->images && choose; i++)
        selected[experts_selected(x, inspect_fixture_layer(x, i, l))]++;
    if (choose) check_counts(x, l, "experts_selected", "images", selected, x->E, (double)x->images);
    check_counts(x, l, "processed_times", "tokens", times, x->E, (double)(x->images * x->T));
    check_counts(x, l, "experts_per_image", "images", used, x->E, (double)x->images);
    frame = inspect_fixture_frame(x, "routing");
    assert_close(inspect_fixture_number(frame, inspect_fixture_row(frame, x, l, 1), "dropped"),
                 (double)dropped / (double)(x->images * x->T), EXACT);
    free(times);
    free(used);
    free(selected);
}

/* A learnt priority makes weights negative: their absolute values count. */
static void check_weights(const inspect_fixture *x, size_t l) {
    const smoe_frame *frame = inspect_fixture_frame(x, "routing");
    size_t row = inspect_fixture_row(frame, x, l, 1);
    double most = 0, slots = 0, tokens = (double)(x->images * x->T), mean[16] = {0};
    assert_true(x->E <= 16);
    for (size_t i = 0; i < x->images; i++) {
        const smoe_sample_layer *layer = inspect_fixture_layer(x, i, l);
        for (size_t t = 0; t < x->T; t++) {
            double weight[16] = {0}, largest = 0;
            for (size_t k = 0; k < layer->places; k++)
                if (layer->place[k].token == t)
                    weight[layer->place[k].expert] = fabs((double)layer->place[k].weight);
            for (size_t e = 0; e < x->E; e++) {
                largest = fmax(largest, weight[e]);
                mean[e] += weight[e] / tokens;
            }
            most += largest;
            slots += largest > 0 ? exp(entropy(weight, x->E)) : 0;
        }
    }
    assert_close(inspect_fixture_number(frame, row, "combine_max"), most / tokens, EXACT);
    assert_close(inspect_fixture_number(frame, row, "slots_per_token"), slots / tokens, EXACT);
    frame = inspect_fixture_frame(x, "combine_expert");
    row = inspect_fixture_row(frame, x, l, x->E);
    for (size_t e = 0; e < x->E; e++, row++) {
        size_t expert = (size_t)inspect_fixture_number(frame, row, "expert");
        assert_close(inspect_fixture_number(frame, row, "weight"), mean[expert], EXACT);
    }
}

/* Choices: for tokens, their k best experts, unless the token is skipped; for experts, the
 * tokens they took. */
static void check_load(const inspect_fixture *x, size_t l) {
    const smoe_frame *frame = inspect_fixture_frame(x, "expert_load");
    size_t row = inspect_fixture_row(frame, x, l, x->E), all = 0, made = 0;
    const smoe_moe_spec *moe = &x->spec.model.moe;
    size_t block = x->sample->layer[l].block;
    bool tokens = !strcmp(moe->router, "tokens-choice"),
         gate = inspect_fixture_layer(x, 0, l)->gate;
    for (size_t i = 0; i < x->images; i++) all += inspect_fixture_layer(x, i, l)->places;
    for (size_t e = 0; e < x->E; e++, row++) {
        size_t chosen = 0, placed = 0;
        for (size_t i = 0; i < x->images; i++) {
            const smoe_sample_layer *layer = inspect_fixture_layer(x, i, l);
            for (size_t k = 0; k < layer->places; k++) placed += layer->place[k].expert == e;
            for (size_t t = 0; gate && t < x->T; t++)
                chosen += place_of(layer->gate + t * x->E, x->E, e) < smoe_moe_k(moe, block);
        }
        assert_true(inspect_fixture_number(frame, row, "expert") == (double)e);
        assert_true(inspect_fixture_number(frame, row, "placed") == (double)placed);
        assert_close(inspect_fixture_number(frame, row, "share"), (double)placed / (double)all,
                     EXACT);
        if (!gate) {
            assert_true(isnan(inspect_fixture_number(frame, row, "chosen")));
            assert_true(isnan(inspect_fixture_number(frame, row, "lost")));
            continue;
        }
        if (!tokens) chosen = placed;
        double said = inspect_fixture_number(frame, row, "chosen");
        if (moe->choice.skip_patch == 1) assert_true(said == (double)chosen);
        made += (size_t)said;
        assert_true(inspect_fixture_number(frame, row, "lost") == said - (double)placed);
    }
    double group = (double)(moe->choice.group_images * x->T),
           groups = (double)(x->images / moe->choice.group_images);
    if (tokens)
        assert_true((double)made ==
                    groups * rint(moe->choice.skip_patch * group) * (double)smoe_moe_k(moe, block));
}

static void check_gate(const inspect_fixture *x, size_t l) {
    const smoe_frame *frame = inspect_fixture_frame(x, "gate_weights");
    size_t best = 2, tokens = 0; /* no layer has a larger K */
    for (size_t r = 0; r < frame->rows; r++) {
        if (inspect_fixture_number(frame, r, "block") != (double)x->sample->layer[l].block)
            continue;
        double weight = inspect_fixture_number(frame, r, "weight");
        size_t choice = (size_t)inspect_fixture_number(frame, r, "choice"), count = 0;
        assert_true(choice >= 1 && choice <= best);
        for (size_t i = 0; i < x->images * x->T * x->E; i++) {
            const float *gate =
                inspect_fixture_layer(x, i / x->T / x->E, l)->gate + i / x->E % x->T * x->E;
            size_t e = i % x->E;
            count += place_of(gate, x->E, e) + 1 == choice &&
                     rint((double)gate[e] * 100) == rint(weight * 100);
        }
        assert_true(inspect_fixture_number(frame, r, "tokens") == (double)count);
        assert_close(inspect_fixture_number(frame, r, "share"),
                     (double)count / (double)(x->images * x->T), EXACT);
        tokens += count;
    }
    assert_int_equal(tokens, best * x->images * x->T);
}

static void sparse_tables_are_what_the_placements_say(void **state) {
    for (size_t k = 0; k < SPARSE_KINDS; k++) {
        inspect_fixture x;
        inspect_fixture_make(&x, sparse_kinds[k], IMAGES, 8);
        for (size_t l = 0; l < x.L; l++) {
            check_tokens(&x, l);
            check_load(&x, l);
            check_weights(&x, l);
            if (inspect_fixture_layer(&x, 0, l)->gate) check_gate(&x, l);
        }
        inspect_fixture_free(&x);
    }
}

/* The difference of the scores of two experts, from what the gate makes of them. */
static double gap_of(const float gate[2], bool sigmoid) {
    double a = (double)gate[0], b = (double)gate[1];
    return sigmoid ? fabs(log(a / (1 - a)) - log(b / (1 - b))) : fabs(log(a / b));
}

/* With two experts whose scores differ by `gap`, the best is replaced if the difference of two
 * normal numbers exceeds it: with probability erfc(gap / (2 deviation)) / 2. A count over n
 * choices, of tokens or of images, is within 5 standard deviations, at most 5 / (2 sqrt(n)), of the
 * sum of these. */
static void noise_changes_choices_as_often_as_predicted(void **state) {
    static const struct {
        const char *keys;
        bool sigmoid, whole;
    } kind[] = {
        {"model.moe.router=tokens-choice model.moe.experts=2", false, false},
        {"model.moe.router=tokens-choice model.moe.experts=2 model.moe.gate=sigmoid", true, false},
        {"model.moe.router=images-choice model.moe.experts=2", false, true}};
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        inspect_fixture x;
        inspect_fixture_make(&x, kind[i].keys, 128, 16);
        const smoe_frame *frame = inspect_fixture_frame(&x, "noise_decisions");
        assert_int_equal(frame->rows, x.L * 4 * 2); /* levels of noise, numbers of choices */
        size_t unit = kind[i].whole ? x.T : 1, n = x.images * x.T / unit;
        double changed = 0;
        for (size_t r = 0; r < frame->rows; r++) {
            double said = inspect_fixture_number(frame, r, "tokens_changed"), expected = 0;
            assert_true(said == inspect_fixture_number(frame, r, "choices_changed"));
            assert_close(said * (double)n, rint(said * (double)n), 1e-9);
            size_t l =
                inspect_fixture_number(frame, r, "block") == (double)x.sample->layer[1].block;
            double deviation = inspect_fixture_number(frame, r, "noise") / 2;
            bool first = inspect_fixture_number(frame, r, "choices") == 1;
            for (size_t t = 0; first && t < x.images * x.T; t += unit) {
                const float *gate = inspect_fixture_layer(&x, t / x.T, l)->gate + t % x.T * 2;
                expected += erfc(gap_of(gate, kind[i].sigmoid) / (2 * deviation)) / 2;
            }
            /* both experts are always chosen */
            assert_close(said, expected / (double)n, first ? 2.5 / sqrt((double)n) : 0);
            changed += said;
        }
        assert_true(changed > 0.01);
        inspect_fixture_free(&x);
    }
}

/* Weights that are renormalised follow the same scores; in the first layer these are the same. */
static void noise_does_not_depend_on_weights(void **state) {
    const char *const keys = "model.moe.router=tokens-choice model.moe.k=2";
    const char *const other = "model.moe.router=tokens-choice model.moe.k=2 "
                              "model.moe.renormalize=true";
    inspect_fixture a, b;
    inspect_fixture_make(&a, keys, IMAGES, 8);
    inspect_fixture_make(&b, other, IMAGES, 8);
    const smoe_frame *one = inspect_fixture_frame(&a, "noise_decisions");
    const smoe_frame *two = inspect_fixture_frame(&b, "noise_decisions");
    double changed = 0;
    assert_int_equal(one->rows, two->rows);
    for (size_t r = 0; r < one->rows / a.L; r++) {
        double said = inspect_fixture_number(one, r, "tokens_changed");
        assert_true(said == inspect_fixture_number(two, r, "tokens_changed"));
        changed += said;
    }
    assert_true(changed > 0);
    inspect_fixture_free(&a);
    inspect_fixture_free(&b);
}

/* The first images of the evaluation's order by themselves have the routing that they have in a
 * whole pass, and no batch is evaluated behind them. */
static void some_images(void **state) {
    static const char *const keys[] = {"model.moe.router=soft",
                                       "model.moe.router=experts-choice model.moe.group_images=2"};
    for (size_t k = 0; k < 2; k++) {
        inspect_fixture x;
        smoe_inspection *some;
        smoe_err err = {0};
        size_t count;
        inspect_fixture_make(&x, keys[k], 8, 4);
        const smoe_inspect_subject subject = {.run = "mine",
                                              .checkpoint = "mine",
                                              .spec = &x.spec,
                                              .set = x.set,
                                              .model = x.model,
                                              .batch = x.batch,
                                              .images = 3};
        uint32_t order[8];
        assert_int_equal(smoe_dataset_images(x.set), 8);
        smoe_dataset_order(order, 8, &x.spec);
        if (smoe_inspect_some(&some, &subject, &err)) fail_msg("%s", err.text);
        const smoe_sample *s = smoe_inspect_samples(some, &count);
        assert_int_equal(count, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(s[i].image, order[i]);
            for (size_t l = 0; l < x.L; l++) {
                const smoe_sample_layer *a = &s[i].layer[l];
                const smoe_sample_layer *b = &x.sample[s[i].image].layer[l];
                assert_int_equal(a->places, b->places);
                if (a->dispatch)
                    assert_memory_equal(a->dispatch, b->dispatch, x.T * x.S * sizeof *a->dispatch);
                for (size_t p = 0; p < a->places; p++)
                    assert_true(a->place[p].token == b->place[p].token &&
                                a->place[p].weight == b->place[p].weight);
            }
        }
        smoe_inspect_free(some);
        inspect_fixture_free(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_images),
        cmocka_unit_test(soft_tables_are_what_the_weights_say),
        cmocka_unit_test(limits_of_token_weights),
        cmocka_unit_test(long_lists_keep_256_ranks),
        cmocka_unit_test(batches_may_be_seen_in_pieces),
        cmocka_unit_test(slot_vectors_are_compared),
        cmocka_unit_test(sparse_tables_are_what_the_placements_say),
        cmocka_unit_test(noise_changes_choices_as_often_as_predicted),
        cmocka_unit_test(noise_does_not_depend_on_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
