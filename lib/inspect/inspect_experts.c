/*
 * Which experts serve which classes and which positions (V-MoE Fig. 8, 30, 31; Soft MoE Fig. 9
 * middle). The weight of expert e in token t is its combine weight: of all its slots in soft
 * routing, of the placement, or 0, in sparse routing.
 *
 * The information of an expert about a class, or a position: draw a token, then an expert in
 * proportion to its weight; with p the share of (c, e) in all weight, I = sum p(c,e) log2 p(c,e) /
 * (p(c) p(e)) bits, never below 0. The estimate from finitely many images is too large. So the same
 * is computed with the labels of the split permuted, and with the tokens of each image shuffled:
 * this is the value expected by chance. Labels drawn with replacement would leave out some classes,
 * and their information would be smaller than that of as many classes as there are.
 */
#include "inspect/inspect_view.h"
#include "math/stats.h"

enum { DRAWS = 8 }; /* comparisons with chance */

typedef struct experts {
    /* [1 + DRAWS, N, E] weight summed over the tokens of a class; then with labels permuted */
    smoe_exact *by_class;
    smoe_exact
        *by_position;   /* [1 + DRAWS, T, E] over images, by position; then with tokens shuffled */
    uint64_t *images;   /* [N] of each class */
    smoe_exact *weight; /* [T,E] of the image at hand */
    smoe_exact *image;  /* [E] their sums over tokens */
    uint32_t *order;    /* [T] */
    uint32_t *images_permuted; /* [images of the split] */
    uint64_t all;
} experts;

static smoe_rng chance(const smoe_inspection *r, size_t which, size_t draw, size_t image) {
    return smoe_rng_at(r->subject.spec->seed, SMOE_RNG_ANALYSIS, (uint32_t)which, draw, image);
}

static void experts_open(void *state, smoe_inspection *r, size_t l) {
    (void)l;
    experts *x = state;
    smoe_alloc_pool *pool = &r->memory;
    smoe_rng rng = chance(r, SMOE_DRAWS_CLASSES, 0, 0);
    x->by_class = smoe_inspect_exact(r, NULL, (1 + DRAWS) * r->N * r->E);
    x->by_position = smoe_inspect_exact(r, NULL, (1 + DRAWS) * r->T * r->E);
    x->images = smoe_inspect_counts(r, NULL, r->N);
    smoe_inspect_counts(r, &x->all, 1);
    x->weight = smoe_alloc_in(pool, r->T * r->E, sizeof *x->weight);
    x->image = smoe_alloc_in(pool, r->E, sizeof *x->image);
    x->order = smoe_alloc_in(pool, r->T, sizeof *x->order);
    x->images_permuted = smoe_alloc_in(pool, r->images, sizeof *x->images_permuted);
    smoe_rng_permutation(&rng, x->images_permuted, r->images);
}

static void experts_add(smoe_exact *to, const smoe_exact *from, size_t n) {
    for (size_t i = 0; i < n; i++) smoe_exact_add(&to[i], from[i]);
}

static void experts_image(void *state, const smoe_inspection *r, const smoe_inspect_view *view) {
    experts *x = state;
    size_t T = r->T, E = r->E;
    for (size_t e = 0; e < E; e++) x->image[e] = (smoe_exact){0};
    for (size_t i = 0; i < T * E; i++) x->weight[i] = smoe_exact_of(view->weight[i]);
    for (size_t t = 0; t < T; t++) experts_add(x->image, x->weight + t * E, E);
    experts_add(x->by_class + view->label * E, x->image, E);
    experts_add(x->by_position, x->weight, T * E);
    for (size_t draw = 1; draw <= DRAWS; draw++) {
        /* the labels of two draws are those of images far apart in one random order */
        size_t place = view->image + draw * (r->images / (1 + DRAWS) + 1);
        size_t label = smoe_dataset_label(r->subject.set, x->images_permuted[place % r->images]);
        experts_add(x->by_class + (draw * r->N + label) * E, x->image, E);
        smoe_rng rng = chance(r, SMOE_DRAWS_POSITIONS, draw, view->image);
        smoe_rng_permutation(&rng, x->order, T);
        for (size_t t = 0; t < T; t++)
            experts_add(x->by_position + (draw * T + x->order[t]) * E, x->weight + t * E, E);
    }
    x->images[view->label]++;
    x->all++;
}

const smoe_counter smoe_counter_experts = {
    .size = sizeof(experts), .open = experts_open, .image = experts_image};

/* ---- tables ---------------------------------------------------------------------------------- */

/* An item to be sorted: larger keys first, among equals lower indices. */
typedef struct ranked {
    double key;
    size_t first, index; /* `first`: sorted by before the key, lower ones first */
} ranked;

static int experts_compare(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* rank [n]: place of each index once `list` is sorted; the list is in that order afterwards. */
static void rank(size_t *place, ranked *list, size_t n) {
    qsort(list, n, sizeof *list, experts_compare);
    for (size_t i = 0; i < n; i++) place[list[i].index] = i;
}

/* A table [rows, E] of mean weights, and the order of its rows and columns. */
typedef struct table {
    smoe_alloc_pool memory;
    size_t rows, E;
    double *weight;       /* [rows,E]; NAN where a row has no tokens */
    double *mean;         /* [E] over all tokens */
    size_t *row, *expert; /* [rows], [E] ranks, from 0 */
} table;

static double lift(const table *t, size_t row, size_t e) {
    return t->weight[row * t->E + e] / t->mean[e]; /* NAN of an expert without weight */
}

/* Experts by weight, largest first; rows by the expert of their largest lift, then by that lift. */
static void experts_order(table *t, ranked *list) {
    for (size_t e = 0; e < t->E; e++) list[e] = (ranked){t->mean[e], 0, e};
    rank(t->expert, list, t->E);
    for (size_t i = 0; i < t->rows; i++) {
        list[i] = (ranked){-1, t->E, i};
        for (size_t e = 0; e < t->E; e++) {
            double l = lift(t, i, e);
            if (!(l > list[i].key)) continue;
            list[i].key = l;
            list[i].first = t->expert[e];
        }
    }
    rank(t->row, list, t->rows);
}

/* From sums [rows,E] and the tokens behind each row. */
static void table_make(table *t, const smoe_exact *sums, const double *tokens, size_t rows,
                       size_t E) {
    SMOE_FREED ranked *list = smoe_alloc(rows + E, sizeof *list);
    double all = 0;
    *t = (table){.rows = rows, .E = E};
    t->weight = smoe_alloc_in(&t->memory, rows * E, sizeof *t->weight);
    t->mean = smoe_alloc_in(&t->memory, E, sizeof *t->mean);
    t->row = smoe_alloc_in(&t->memory, rows, sizeof *t->row);
    t->expert = smoe_alloc_in(&t->memory, E, sizeof *t->expert);
    for (size_t i = 0; i < rows; i++) {
        all += tokens[i];
        for (size_t e = 0; e < E; e++) {
            double sum = smoe_exact_value(sums[i * E + e]);
            t->weight[i * E + e] = sum / tokens[i];
            t->mean[e] += sum;
        }
    }
    for (size_t e = 0; e < E; e++) t->mean[e] /= all;
    experts_order(t, list);
}

static void table_of(table *t, const smoe_inspection *r, size_t l, int of) {
    const experts *x = smoe_inspect_state(r, &smoe_counter_experts, l);
    size_t rows = of == SMOE_DRAWS_CLASSES ? r->N : r->T;
    SMOE_FREED double *tokens = smoe_alloc(rows, sizeof *tokens);
    for (size_t i = 0; i < rows; i++)
        tokens[i] = (double)(of == SMOE_DRAWS_CLASSES ? x->images[i] * r->T : x->all);
    const smoe_exact *sums = of == SMOE_DRAWS_CLASSES ? x->by_class : x->by_position;
    table_make(t, sums, tokens, rows, r->E);
}

static void fill_table(const smoe_inspection *r, smoe_frame *frame, size_t l, int of) {
    table t;
    table_of(&t, r, l, of);
    for (size_t i = 0; i < t.rows * t.E; i++) {
        size_t row = i / t.E, e = i % t.E;
        bool class = of == SMOE_DRAWS_CLASSES;
        smoe_frame_cells(frame, {"run", .text = r->subject.run},
                         {"block", .number = smoe_inspect_block(r, l)},
                         {class ? "class" : "position", .number = row});
        if (class)
            smoe_cell_text(frame, "class_name", smoe_dataset_class_name(r->subject.set, row));
        else
            smoe_frame_cells(frame, {"row", .number = smoe_inspect_token_row(r, row)},
                             {"column", .number = smoe_inspect_token_column(r, row)});
        smoe_frame_put(frame, {"expert", .number = e}, {"weight", .number = t.weight[i]},
                       {"lift", .number = lift(&t, row, e)},
                       {class ? "class_rank" : "position_rank", .number = (double)t.row[row] + 1},
                       {"expert_rank", .number = (double)t.expert[e] + 1});
    }
    smoe_alloc_pool_free(&t.memory);
}

void smoe_fill_class_expert(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    fill_table(r, frame, l, SMOE_DRAWS_CLASSES);
}

void smoe_fill_position_expert(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    fill_table(r, frame, l, SMOE_DRAWS_POSITIONS);
}

void smoe_fill_combine_expert(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    table t;
    table_of(&t, r, l, SMOE_DRAWS_POSITIONS);
    double least = INFINITY, all = 0;
    for (size_t e = 0; e < r->E; e++) {
        least = fmin(least, t.mean[e]);
        all += t.mean[e];
    }
    for (size_t i = 0; i < r->E; i++) {
        size_t e = 0;
        while (t.expert[e] != i) e++;
        smoe_inspect_put(
            r, frame, l, {"rank", .number = (double)i + 1}, {"expert", .number = e},
            {"weight", .number = t.mean[e]},
            {"times_least", .number = t.mean[e] / least}, /* infinite where one has none */
            {"times_mean", .number = t.mean[e] / (all / (double)r->E)});
    }
    smoe_alloc_pool_free(&t.memory);
}

/* ---- information ----------------------------------------------------------------------------- */

static double entropy(const double *mass, size_t n, double all) {
    double bits = 0;
    for (size_t i = 0; i < n; i++)
        if (mass[i] > 0) bits -= mass[i] / all * log2(mass[i] / all);
    return bits;
}

/* I = H(row) + H(expert) - H(row, expert) of the masses [rows,E], and H(expert); row and expert are
 * scratch. */
static double information(const double *mass, size_t rows, size_t E, double *row, double *expert,
                          double *expert_entropy) {
    double all = 0;
    for (size_t e = 0; e < E; e++) expert[e] = 0;
    for (size_t i = 0; i < rows; i++) {
        row[i] = 0;
        for (size_t e = 0; e < E; e++) {
            row[i] += mass[i * E + e];
            expert[e] += mass[i * E + e];
        }
        all += row[i];
    }
    *expert_entropy = entropy(expert, E, all);
    double bits = entropy(row, rows, all) + *expert_entropy - entropy(mass, rows * E, all);
    return bits > 1e-12 ? bits : 0; /* rounding may leave less than 0 */
}

static void fill_information(const smoe_inspection *r, smoe_frame *frame, size_t l,
                             const char *about, const smoe_exact *sums, size_t rows) {
    size_t n = rows * r->E;
    SMOE_FREED double *row = smoe_alloc(rows, sizeof *row), *mass = smoe_alloc(n, sizeof *mass);
    SMOE_FREED double *expert = smoe_alloc(r->E, sizeof *expert);
    double bits[1 + DRAWS], own = 0, of_experts;
    for (size_t draw = 0; draw <= DRAWS; draw++) {
        for (size_t i = 0; i < n; i++) mass[i] = smoe_exact_value(sums[draw * n + i]);
        bits[draw] = information(mass, rows, r->E, row, expert, &of_experts);
        if (!draw) own = of_experts;
    }
    smoe_stats chances = smoe_stats_of(bits + 1, DRAWS);
    smoe_inspect_put(r, frame, l, {"about", .text = about}, {"bits", .number = bits[0]},
                     {"by_chance", .number = chances.mean}, {"chance_sd", .number = chances.sd},
                     {"expert_entropy", .number = own});
}

void smoe_fill_expert_information(const smoe_inspection *r, smoe_frame *frame, size_t l) {
    const experts *x = smoe_inspect_state(r, &smoe_counter_experts, l);
    fill_information(r, frame, l, "class", x->by_class, r->N);
    fill_information(r, frame, l, "position", x->by_position, r->T);
}
