/* Tables and samples for tests of drawing; see drawn.h. Images are 4 pixels wide with 2 patches along an edge, blocks 1 and 3
 * have 2 experts: of 2 slots each in the soft run; the choice run has a class token, so 5 tokens. */
#include "sample_tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define NUMBERS(frame, ...)                            \
    smoe_frame_numbers(frame, (double[]){__VA_ARGS__}, \
                       sizeof(double[]){__VA_ARGS__} / sizeof(double))

/* Each row begins with the run and the block. */
static smoe_frame *row(smoe_frame *f, const char *run, size_t block) {
    smoe_frame_text(f, run);
    smoe_frame_number(f, (double)block);
    return f;
}

static void fill_runs(smoe_frame *f, const char *run, const char *router) {
    smoe_frame_text(f, run);
    smoe_frame_text(f, router);
    NUMBERS(f, 1234567, 0.625);
}

static void fill_soft(smoe_frame *frame, size_t block) {
    double b = (double)block;
    for (double rank = 1; rank <= 4; rank++) {
        row(&frame[3], SAMPLE_RUN, block);
        NUMBERS(&frame[3], rank, rank / 4);
        for (int i = 0; i < 11; i++) smoe_frame_number(&frame[3], rank / 4);
    }
    for (double slot = 0; slot < 4; slot++)
        for (double other = 0; other < 4; other++) {
            row(&frame[4], SAMPLE_RUN, block);
            NUMBERS(&frame[4], slot, other, slot == other ? 1 : -b / 8);
        }
}

static void fill_choice(smoe_frame *frame, size_t block) {
    for (double expert = 0; expert < 2; expert++) {
        row(&frame[5], "choice", block);
        NUMBERS(&frame[5], expert, 3 + expert, 2, 1 + expert, 0.5);
    }
}

static void fill_both(smoe_frame *frame, const char *run, size_t block) {
    NUMBERS(row(&frame[1], run, block), 0.5, 0.25, 3.5, 1.0 / 3, 0);
    for (double rank = 1; rank <= 2; rank++)
        NUMBERS(row(&frame[2], run, block), rank, 2 - rank, 0.5, 3 - rank, rank / 2);
    for (double class = 0; class < 2; class ++)
        for (double expert = 0; expert < 2; expert++) {
            NUMBERS(row(&frame[6], run, block), class);
            smoe_frame_text(&frame[6], class > 0 ? "dog" : "cat");
            NUMBERS(&frame[6], expert, 0.25 * (class + expert), 1, 2 - class, 1 + expert);
        }
    for (double step = 10; step <= 20; step += 10) {
        smoe_frame_text(&frame[7], run);
        NUMBERS(&frame[7], step, (double)block);
        smoe_frame_text(&frame[7], "dispatch_max");
        smoe_frame_number(&frame[7], step / 40);
        if (block > 1) continue;
        smoe_frame_text(&frame[7], run);
        NUMBERS(&frame[7], step, NAN);
        smoe_frame_text(&frame[7], "loss");
        smoe_frame_number(&frame[7], 1 / step);
    }
}

static void fill_frames(smoe_frame *frame) {
    static const char *const columns[SAMPLE_FRAMES][2] = {
        {"runs", "run$ router$ parameters precision_at_1"},
        {"routing", "run$ block dispatch_max combine_max tokens_per_slot slots_per_token dropped"},
        {"combine_expert", "run$ block rank expert weight times_least times_mean"},
        {"dispatch_bands", "run$ block rank mean p0.5 p2.5 p5 p10 p20 p50 p80 p90 p95 p97.5 p99.5"},
        {"slot_correlation", "run$ block slot other cosine"},
        {"expert_load", "run$ block expert chosen placed lost share"},
        {"class_expert", "run$ block class class_name$ expert weight lift class_rank expert_rank"},
        {"over_steps", "run$ step block metric$ value"},
    };
    for (size_t i = 0; i < SAMPLE_FRAMES; i++)
        smoe_frame_init(&frame[i], columns[i][0], columns[i][0], "What is measured", columns[i][1]);
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
}

/* Pixels: channel c of pixel i is -1 + (c + i)/16 ... of the first image, 1/8 more in the second. */
static void fill_pixels(smoe_sample *s) {
    s->pixels = malloc(3 * 16 * sizeof *s->pixels);
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < 16; i++)
            s->pixels[c * 16 + i] = -1 + (float)(c + i) / 16 + (float)s->image / 8;
}

/* Slot s takes half of its weight from token s and shares the rest among the others; slot 3 of block
 * 3 takes token 0 alone. Combine weights: token t gives slot s (1 + (s + t) mod 4)/10. */
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

/* Of the tokens 0 (class token) .. 4: 1 goes to expert 0, 2 to both, 4 to expert 1; 0 and 3 are
 * dropped. */
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
