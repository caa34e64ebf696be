/*
 * Analyses of dense routing (Soft MoE section 5 and appendix G.1): how much a token gives to all
 * slots, and how many tokens a slot, or slots a token, is made of. Counts are exact; what is a
 * distribution is kept as a histogram of stated resolution. And slot vectors (appendix H).
 */
#include "inspect/inspect_view.h"

/* Weights are in single precision: a value this close to a bound counts as the bound. */
static const double ROUNDING = 1e-6;

/* ---- the dispatch weight of a token, summed over slots --------------------------------------- */

enum { SUM_BINS = 2001, BINS_A_MEAN = 100 }; /* bin i: within half a bin of i/100 of the mean S/T */

enum { TOKENS, LIGHT, HEAVY, UP_TO_QUARTER, ABOVE_2, GROUPS };

typedef struct token_sums {
    uint64_t *count; /* [SUM_BINS] the last one without an end */
    uint64_t of[GROUPS];
    smoe_exact total;
    double largest;
} token_sums;

static void sums_open(void *state, smoe_inspection *r, size_t l) {
    (void)l;
    token_sums *s = state;
    s->count = smoe_inspect_counts(r, NULL, SUM_BINS);
    smoe_inspect_counts(r, s->of, GROUPS);
    smoe_inspect_exact(r, &s->total, 1);
    smoe_inspect_largest(r, &s->largest, 1);
}

static void sums_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    token_sums *s = state;
    size_t S = smoe_inspect_slots(r, view->layer);
    double mean = (double)S / (double)r->T;
    for (size_t t = 0; t < r->T; t++) {
        double sum = 0;
        for (size_t k = 0; k < S; k++) sum += (double)view->disp[t * S + k];
        double bin = rint(sum / mean * BINS_A_MEAN);
        s->count[bin < SUM_BINS - 1 ? (size_t)bin : SUM_BINS - 1]++;
        s->of[TOKENS]++;
        smoe_exact_add(&s->total, smoe_exact_of(sum));
        s->of[LIGHT] += sum < mean / 4;
        s->of[HEAVY] += sum > 2 * mean;
        s->of[UP_TO_QUARTER] += sum <= 0.25 * (1 + ROUNDING);
        s->of[ABOVE_2] += sum > 2 * (1 + ROUNDING);
        if (sum > s->largest) s->largest = sum;
    }
}

const smoe_counter smoe_counter_token_sums = {.needs = SMOE_INSPECT_DENSE,
                                              .size = sizeof(token_sums),
                                              .open = sums_open,
                                              .image = sums_image};

void smoe_fill_dispatch_token_sum(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const token_sums *s = smoe_inspect_state(r, &smoe_counter_token_sums, l);
    double mean = (double)smoe_inspect_slots(r, l) / (double)r->T;
    uint64_t below = 0;
    for (size_t i = 0; i < SUM_BINS; i++) {
        double edge = ((double)i + 0.5) / BINS_A_MEAN * mean;
        if (!s->count[i]) continue;
        below += s->count[i];
        smoe_inspect_put(r, frame, l, {"sum", .number = i + 1 < SUM_BINS ? edge : s->largest},
                         {"tokens", .number = s->count[i]},
                         {"share", .number = (double)below / (double)s->of[TOKENS]});
    }
}

void smoe_fill_token_weight(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const token_sums *s = smoe_inspect_state(r, &smoe_counter_token_sums, l);
    double tokens = (double)s->of[TOKENS];
    smoe_inspect_put(r, frame, l, {"mean", .number = smoe_exact_value(s->total) / tokens},
                     {"light", .number = (double)s->of[LIGHT] / tokens},
                     {"heavy", .number = (double)s->of[HEAVY] / tokens},
                     {"largest", .number = s->largest},
                     {"share_up_to_quarter", .number = (double)s->of[UP_TO_QUARTER] / tokens},
                     {"share_above_2", .number = (double)s->of[ABOVE_2] / tokens});
}

/* ---- cumulative weights ---------------------------------------------------------------------- */

enum { RANKS = 256, STEPS = 1000 }; /* ranks kept at most; cumulative weights to the next 1/1000 */

static const double fractions[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
enum { FRACTIONS = SMOE_COUNT(fractions) };

static const struct {
    const char *column;
    uint64_t permille;
} percentiles[] = {{"p0.5", 5},  {"p2.5", 25},   {"p5", 50},    {"p10", 100},
                   {"p20", 200}, {"p50", 500},   {"p80", 800},  {"p90", 900},
                   {"p95", 950}, {"p97.5", 975}, {"p99.5", 995}};

/* Of lists of n weights in falling order: for each kept rank, the sum so far and its histogram; for
 * each of `lists_an_image` lists, the ranks at which fractions are reached. */
typedef struct cumulative {
    size_t n, ranks, lists_an_image;
    uint64_t lists, images;
    smoe_exact *total; /* [ranks] */
    uint64_t *count;   /* [ranks, STEPS + 1] */
    uint64_t *needed;  /* [lists_an_image, FRACTIONS] summed over images */
} cumulative;

/* All ranks of a list of n, or RANKS of them evenly from the first to the last; counted from 0. */
static size_t rank_at(const cumulative *c, size_t i) {
    return c->ranks < c->n ? i * (c->n - 1) / (RANKS - 1) : i;
}

static void cumulative_open(cumulative *c, smoe_inspection *r, size_t n, size_t lists) {
    c->n = n;
    c->ranks = n < RANKS ? n : RANKS;
    c->lists_an_image = lists;
    smoe_inspect_counts(r, &c->lists, 1);
    smoe_inspect_counts(r, &c->images, 1);
    c->total = smoe_inspect_exact(r, NULL, c->ranks);
    c->count = smoe_inspect_counts(r, NULL, c->ranks * (STEPS + 1));
    c->needed = smoe_inspect_counts(r, NULL, lists * FRACTIONS);
}

static void cumulative_image(cumulative *c, const double *sums) {
    for (size_t i = 0; i < c->lists_an_image; i++, sums += c->n) {
        for (size_t k = 0; k < c->ranks; k++) {
            double sum = sums[rank_at(c, k)], step = rint(sum * STEPS);
            smoe_exact_add(&c->total[k], smoe_exact_of(sum));
            c->count[k * (STEPS + 1) + (step < STEPS ? (size_t)step : STEPS)]++;
        }
        size_t rank = 0;
        for (size_t f = 0; f < FRACTIONS; f++) {
            while (rank + 1 < c->n && sums[rank] < fractions[f] - ROUNDING) rank++;
            c->needed[i * FRACTIONS + f] += rank + 1;
        }
    }
    c->lists += c->lists_an_image;
    c->images++;
}

/* The least step that at least the share `permille` of the lists does not exceed. */
static double percentile(const cumulative *c, size_t k, uint64_t share) {
    uint64_t below = 0;
    size_t step = 0;
    for (; step < STEPS; step++)
        if (1000 * (below += c->count[k * (STEPS + 1) + step]) >= share * c->lists) break;
    return (double)step / STEPS;
}

static void fill_bands(const smoe_inspection *r, smoe_frame *frame, size_t l,
                       const smoe_counter *counter) {
    const cumulative *c = smoe_inspect_state(r, counter, l);
    for (size_t k = 0; k < c->ranks; k++) {
        smoe_frame_cells(frame, {"run", .text = r->subject.run},
                         {"block", .number = smoe_inspect_block(r, l)},
                         {"rank", .number = rank_at(c, k) + 1},
                         {"mean", .number = smoe_exact_value(c->total[k]) / (double)c->lists});
        for (size_t p = 0; p < SMOE_COUNT(percentiles); p++)
            smoe_cell_number(frame, percentiles[p].column,
                             percentile(c, k, percentiles[p].permille));
        smoe_frame_end(frame);
    }
}

static void dispatch_open(void *state, smoe_inspection *r, size_t l) {
    cumulative_open(state, r, r->T, smoe_inspect_slots(r, l));
}
static void dispatch_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    (void)r;
    cumulative_image(state, view->disp_sums);
}
static void combine_open(void *state, smoe_inspection *r, size_t l) {
    cumulative_open(state, r, smoe_inspect_slots(r, l), r->T);
}
static void combine_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    (void)r;
    cumulative_image(state, view->comb_sums);
}

const smoe_counter smoe_counter_dispatch_sums = {.needs = SMOE_INSPECT_DENSE,
                                                 .size = sizeof(cumulative),
                                                 .open = dispatch_open,
                                                 .image = dispatch_image};
const smoe_counter smoe_counter_combine_sums = {.needs = SMOE_INSPECT_DENSE,
                                                .size = sizeof(cumulative),
                                                .open = combine_open,
                                                .image = combine_image};

void smoe_fill_dispatch_bands(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    fill_bands(r, frame, l, &smoe_counter_dispatch_sums);
}

void smoe_fill_combine_bands(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    fill_bands(r, frame, l, &smoe_counter_combine_sums);
}

void smoe_fill_tokens_to_fraction(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const cumulative *c = smoe_inspect_state(r, &smoe_counter_dispatch_sums, l);
    size_t P = smoe_inspect_slots_per_expert(r, l);
    for (size_t i = 0; i < c->lists_an_image * FRACTIONS; i++) {
        size_t slot = i / FRACTIONS;
        smoe_inspect_put(r, frame, l, {"slot", .number = slot},
                         {"expert", .number = (double)(slot / P)},
                         {"fraction", .number = fractions[i % FRACTIONS]},
                         {"tokens", .number = (double)c->needed[i] / (double)c->images});
    }
}

/* ---- slot correlation ------------------------------------------------------------------------ */

/* Inner products of the slot vectors, columns of Phi [d,E,P], each made of length one. Slots of one
 * expert are next to each other. */

enum { MOST_SLOTS = 128 }; /* of the table of single pairs; means are over all of them */

/* Fresh [S,d]: the slot vectors of layer l, of length one; a zero vector stays zero. */
static double *unit_slots(const smoe_inspection *r, size_t l) {
    const smoe_router *router = smoe_model_router(r->subject.model, l);
    size_t S = smoe_inspect_slots(r, l), d = router->d;
    char name[64];
    snprintf(name, sizeof name, "%s.phi", router->prefix);
    const smoe_param *param = smoe_params_find(router->params, name);
    const real *phi = smoe_weight(router->params, (size_t)(param - router->params->param));
    double *unit = smoe_alloc(S * d, sizeof *unit);
    for (size_t s = 0; s < S; s++) {
        double square = 0;
        for (size_t i = 0; i < d; i++) square += (double)phi[i * S + s] * (double)phi[i * S + s];
        for (size_t i = 0; i < d; i++)
            unit[s * d + i] = square > 0 ? (double)phi[i * S + s] / sqrt(square) : 0;
    }
    return unit;
}

static double inner(const double *a, const double *b, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++) sum += a[i] * b[i];
    return sum;
}

void smoe_fill_slot_correlation(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    size_t S = smoe_inspect_slots(r, l), slots = S < MOST_SLOTS ? S : MOST_SLOTS;
    size_t d = smoe_model_router(r->subject.model, l)->d;
    SMOE_FREED double *unit = unit_slots(r, l);
    for (size_t a = 0; a < slots; a++)
        for (size_t b = 0; b < slots; b++) {
            smoe_inspect_put(r, frame, l, {"slot", .number = a}, {"other", .number = b},
                             {"cosine", .number = inner(unit + a * d, unit + b * d, d)});
        }
}

/* Of the pairs of slot a with every later one: their number, sum and sum of squares, [2] within its
 * expert and across. */
typedef struct pairs {
    double count[2], sum[2], square[2];
} pairs;

static void count_pairs(pairs *p, const double *unit, size_t a, size_t S, size_t P, size_t d) {
    for (size_t b = a + 1; b < S; b++) {
        double cosine = inner(unit + a * d, unit + b * d, d);
        bool across = a / P != b / P;
        p->count[across]++;
        p->sum[across] += cosine;
        p->square[across] += cosine * cosine;
    }
}

void smoe_fill_slot_alignment(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    size_t S = smoe_inspect_slots(r, l), P = smoe_inspect_slots_per_expert(r, l);
    size_t d = smoe_model_router(r->subject.model, l)->d;
    SMOE_FREED double *unit = unit_slots(r, l);
    SMOE_FREED pairs *of = smoe_alloc(S, sizeof *of);
    pairs all = {0};
#pragma omp parallel for schedule(dynamic)
    for (size_t a = 0; a < S; a++) count_pairs(&of[a], unit, a, S, P, d);
    for (size_t a = 0; a < S; a++)
        for (size_t k = 0; k < 2; k++) {
            all.count[k] += of[a].count[k];
            all.sum[k] += of[a].sum[k];
            all.square[k] += of[a].square[k];
        }
    double mean[2], rms[2];
    for (size_t k = 0; k < 2; k++) { /* 0/0, no such pair, is NAN */
        mean[k] = all.sum[k] / all.count[k];
        rms[k] = sqrt(all.square[k] / all.count[k]);
    }
    smoe_inspect_put(r, frame, l, {"slots", .number = S}, {"within_mean", .number = mean[0]},
                     {"within_rms", .number = rms[0]}, {"across_mean", .number = mean[1]},
                     {"across_rms", .number = rms[1]});
}
