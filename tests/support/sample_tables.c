/* Tables and samples for tests of drawing; see sample_tables.h. Images are 4 pixels wide with 2
 * x 2 patches; blocks 1 and 3 have 2 experts, in the soft run with 2 slots each. The choice run
 * has a class token, hence 5 tokens. */
#include "sample_tables.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row that starts with the run and the block. */
#define PUT(frame, who, where, ...) \
    smoe_frame_put(frame, {"run", .text = who}, {"block", .number = (double)(where)}, __VA_ARGS__)

static void fill_runs(smoe_frame *f, const char *run, const char *router) {
    smoe_frame_put(f, {"run", .text = run}, {"router", .text = router},
                   {"parameters", .number = 1234567}, {"precision_at_1", .number = 0.625});
}

/* A rank of the bands: all columns but the first three are a quarter of it. */
static void fill_bands(smoe_frame *f, size_t block, double rank) {
    smoe_column cell[15] = {
        {"run", .text = SAMPLE_RUN}, {"block", .number = (double)block}, {"rank", .number = rank}};
    assert_int_equal(f->columns, 15);
    for (size_t c = 3; c < 15; c++) cell[c] = (smoe_column){f->column[c].name, .number = rank / 4};
    smoe_frame_add(f, cell, 15);
    smoe_frame_end(f);
}

static void fill_soft(smoe_frame *frame, size_t block) {
    double b = (double)block;
    for (double rank = 1; rank <= 4; rank++) fill_bands(&frame[3], block, rank);
    for (double slot = 0; slot < 4; slot++)
        for (double other = 0; other < 4; other++)
            PUT(&frame[4], SAMPLE_RUN, block, {"slot", .number = slot}, {"other", .number = other},
                {"cosine", .number = slot == other ? 1 : -b / 8});
}

static void fill_choice(smoe_frame *frame, size_t block) {
    for (double expert = 0; expert < 2; expert++)
        PUT(&frame[5], "choice", block, {"expert", .number = expert},
            {"chosen", .number = 3 + expert}, {"placed", .number = 2},
            {"lost", .number = 1 + expert}, {"share", .number = 0.5});
}

static void fill_both(smoe_frame *frame, const char *run, size_t block) {
    PUT(&frame[1], run, block, {"dispatch_max", .number = 0.5}, {"combine_max", .number = 0.25},
        {"tokens_per_slot", .number = 3.5}, {"slots_per_token", .number = 1.0 / 3},
        {"dropped", .number = 0}, {"scale", .number = 1.5});
    for (double rank = 1; rank <= 2; rank++)
        PUT(&frame[2], run, block, {"rank", .number = rank}, {"expert", .number = 2 - rank},
            {"weight", .number = 0.5}, {"times_least", .number = 3 - rank},
            {"times_mean", .number = rank / 2});
    for (double class = 0; class < 2; class ++)
        for (double expert = 0; expert < 2; expert++)
            PUT(&frame[6], run, block, {"class", .number = class},
                {"class_name", .text = class > 0 ? "dog" : "cat"}, {"expert", .number = expert},
                {"weight", .number = 0.25 * (class + expert)}, {"lift", .number = 1},
                {"class_rank", .number = 2 - class}, {"expert_rank", .number = 1 + expert});
    for (double step = 10; step <= 20; step += 10) {
        smoe_frame_put(&frame[7], {"run", .text = run}, {"step", .number = step},
                       {"block", .number = (double)block}, {"metric", .text = "dispatch_max"},
                       {"value", .number = step / 40});
        if (block > 1) continue;
        smoe_frame_put(&frame[7], {"run", .text = run}, {"step", .number = step},
                       {"block", .number = NAN}, {"metric", .text = "loss"},
                       {"value", .number = 1 / step});
    }
}

/* The columns of the tables of smoe inspect. */
static const struct inspected_table {
    const char *name, *title, *caption;
    const char *columns;
} tables[] = {
#define FRAME(table, needs, per, ...) {.name = #table, __VA_ARGS__},
#include "inspect/inspect.def"
};

void sample_tables_init(smoe_frame *frame, const char *name) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!strcmp(tables[i].name, name)) {
            smoe_frame_init(frame, name, name, "What is measured", tables[i].columns);
            return;
        }
    fail_msg("no table %s", name);
}

static void fill_frames(smoe_frame *frame) {
    static const char *const names[SAMPLE_FRAMES] = {
        "runs",        "routing",      "combine_expert", "dispatch_bands", "slot_correlation",
        "expert_load", "class_expert", "over_steps"};
    /* for the runs some of the columns suffice */
    smoe_frame_init(&frame[0], names[0], names[0], "What is measured",
                    "run* router* parameters precision_at_1");
    for (size_t i = 1; i < SAMPLE_FRAMES; i++) sample_tables_init(&frame[i], names[i]);
    fill_runs(&frame[0], SAMPLE_RUN, "soft");
    fill_runs(&frame[0], "choice", "tokens-choice");
    for (int choice = 0; choice < 2; choice++)
        for (size_t block = 1; block <= 3; block += 2) {
            fill_both(frame, choice ? "choice" : SAMPLE_RUN, block);
            if (choice)
                fill_choice(frame, block);
            else
                fill_soft(frame, block);
        }
    smoe_err err = {0};
    for (size_t i = 0; i < SAMPLE_FRAMES; i++)
        if (smoe_frame_check(&frame[i], &err)) fail_msg("%s", err.text);
}

/* Pixels: channel c of pixel i is -1 + (c + i)/16 in the first image, and 1/8 more in the
 * second. */
static void fill_pixels(smoe_sample *s) {
    s->pixels = malloc(3 * 16 * sizeof *s->pixels);
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < 16; i++)
            s->pixels[c * 16 + i] = -1 + (float)(c + i) / 16 + (float)s->image / 8;
}

/* Slot s takes half of its weight from token s and the rest evenly from the others; slot 3 of
 * block 3 takes only token 0. Combine weights: token t gives slot s (1 + (s + t) mod 4)/10. */
static void fill_dense(smoe_sample_layer *l, size_t block) {
    *l = (smoe_sample_layer){.block = block, .E = 2, .P = 2, .S = 4};
    l->dispatch = malloc(16 * sizeof *l->dispatch);
    l->combine = malloc(16 * sizeof *l->combine);
    for (size_t t = 0; t < 4; t++)
        for (size_t s = 0; s < 4; s++) {
            l->dispatch[t * 4 + s] = s == t ? 0.5f : 0.5f / 3;
            if (block == 3 && s == 3) l->dispatch[t * 4 + s] = t == 0;
            l->combine[t * 4 + s] = (float)(1 + (s + t) % 4) / 10;
        }
}

/* Of the tokens 0 (class token) .. 4, token 1 goes to expert 0, 2 to both, 4 to expert 1; 0 and
 * 3 are dropped. */
static void fill_sparse(smoe_sample_layer *l, size_t block) {
    static const smoe_sample_place place[] = {
        {1, 0, 0, 0.75f}, {2, 0, 1, 0.25f}, {2, 1, 0, 0.5f}, {4, 1, 1, 0.125f}};
    *l = (smoe_sample_layer){.block = block, .E = 2, .P = 2, .S = 4, .places = 4};
    l->place = malloc(sizeof place);
    memcpy(l->place, place, sizeof place);
}

int sample_tables_setup(void **state) {
    sample_tables *d = calloc(1, sizeof *d);
    if (!d) return -1;
    fill_frames(d->frame);
    for (size_t i = 0; i < SAMPLE_SAMPLES; i++) {
        bool choice = i == 2;
        d->sample[i] = (smoe_sample){.run = choice ? "choice" : SAMPLE_RUN,
                                     .image = choice ? 0 : i,
                                     .name = "shapes/test/<0>",
                                     .label = "cat",
                                     .prediction = i ? "dog" : "cat",
                                     .probability = 0.5,
                                     .channels = 3,
                                     .size = 4,
                                     .side = 2,
                                     .T = choice ? 5 : 4,
                                     .first_patch = choice,
                                     .layers = 2};
        fill_pixels(&d->sample[i]);
        d->sample[i].layer = calloc(2, sizeof *d->sample[i].layer);
        for (size_t l = 0; l < 2; l++)
            (choice ? fill_sparse : fill_dense)(&d->sample[i].layer[l], 1 + 2 * l);
    }
    *state = d;
    return 0;
}

int sample_tables_teardown(void **state) {
    sample_tables *d = *state;
    for (size_t i = 0; i < SAMPLE_FRAMES; i++) smoe_frame_free(&d->frame[i]);
    for (size_t i = 0; i < SAMPLE_SAMPLES; i++) {
        for (size_t l = 0; l < 2; l++) {
            free(d->sample[i].layer[l].dispatch);
            free(d->sample[i].layer[l].combine);
            free(d->sample[i].layer[l].place);
        }
        free(d->sample[i].layer);
        free(d->sample[i].pixels);
    }
    free(d);
    return 0;
}

const smoe_frame *sample_tables_frame(const sample_tables *d, const char *name) {
    for (size_t i = 0; i < SAMPLE_FRAMES; i++)
        if (!strcmp(d->frame[i].name, name)) return &d->frame[i];
    fail_msg("no frame %s", name);
    return NULL;
}
