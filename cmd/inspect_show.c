/* Printing of smoe inspect; see inspect_show.h. Everything comes from the tables: runs has the
 * runs, routing the layers. */
#include "inspect_show.h"
#include "cmd.h"

#include <math.h>
#include <string.h>

typedef struct tables {
    const smoe_frame *frame; /* [count] */
    size_t count;
    const smoe_frame *runs, *routing;
} tables;

static const char *show_text_of(const smoe_frame *frame, size_t row, const char *column) {
    return smoe_frame_text_at(frame, row, smoe_frame_find(frame, column));
}

static double show_number_of(const smoe_frame *frame, size_t row, const char *column) {
    return smoe_frame_number_at(frame, row, smoe_frame_find(frame, column));
}

/* A column of a printed table, which has one line per layer: a number found by the run, the block
 * and perhaps one more column. */
typedef struct shown {
    const char *heading, *frame, *column;
    const char *about; /* text that the column `about` must have; NULL: none */
    size_t rank;       /* number that the column `rank` must have; 0: none */
} shown;

static const shown more[] = {
    {"heavy tokens", "token_weight", "heavy", NULL, 0},
    {"most/least expert", "combine_expert", "times_least", NULL, 1},
    {"slots within", "slot_alignment", "within_mean", NULL, 0},
    {"slots across", "slot_alignment", "across_mean", NULL, 0},
    {"class bits", "expert_information", "bits", "class", 0},
    {"class chance", "expert_information", "by_chance", "class", 0},
    {"position bits", "expert_information", "bits", "position", 0},
    {"position chance", "expert_information", "by_chance", "position", 0},
};

static bool is_of(const tables *t, size_t layer, const smoe_frame *frame, size_t row) {
    return !strcmp(show_text_of(frame, row, "run"), show_text_of(t->routing, layer, "run")) &&
           show_number_of(frame, row, "block") == show_number_of(t->routing, layer, "block");
}

/* The number for a layer (a row of `routing`); NAN where there is none. */
static double look_up(const tables *t, const shown *column, size_t layer) {
    const smoe_frame *frame = smoe_frames_find(t->frame, t->count, column->frame);
    for (size_t i = 0; i < frame->rows; i++)
        if (is_of(t, layer, frame, i) &&
            (!column->about || !strcmp(show_text_of(frame, i, "about"), column->about)) &&
            (!column->rank || show_number_of(frame, i, "rank") == (double)column->rank))
            return show_number_of(frame, i, column->column);
    return NAN;
}

/* The number of experts of a layer that have no weight in any token; NAN: none. */
static double unused(const tables *t, size_t layer) {
    const smoe_frame *frame = smoe_frames_find(t->frame, t->count, "combine_expert");
    size_t count = 0;
    for (size_t i = 0; i < frame->rows; i++)
        count += is_of(t, layer, frame, i) && show_number_of(frame, i, "weight") == 0;
    return count ? (double)count : NAN;
}

/* The layer of a row, with its run if there are several. */
static void add_layer(smoe_frame *table, const tables *t, size_t layer) {
    char name[32];
    snprintf(name, sizeof name, "blocks.%.0f", show_number_of(t->routing, layer, "block"));
    smoe_cell_text(table, "run", t->runs->rows > 1 ? show_text_of(t->routing, layer, "run") : NULL);
    smoe_cell_text(table, "layer", name);
}

/* The columns of `routing` behind run and block. */
static void add_means(smoe_result *result, const tables *t) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (size_t l = 0; l < t->routing->rows; l++) {
        add_layer(table, t, l);
        for (size_t c = 2; c < t->routing->columns; c++) {
            char heading[64];
            snprintf(heading, sizeof heading, "%s", t->routing->column[c].name);
            for (char *at = heading; (at = strchr(at, '_'));) *at = ' ';
            smoe_cell_number(table, heading, smoe_frame_number_at(t->routing, l, c),
                             .format = "%.4g");
        }
        smoe_frame_end(table);
    }
}

static void add_more(smoe_result *result, const tables *t) {
    smoe_frame *table = smoe_result_table(result, NULL, NULL);
    for (size_t l = 0; l < t->routing->rows; l++) {
        add_layer(table, t, l);
        for (size_t c = 0; c < sizeof more / sizeof *more; c++)
            smoe_cell_number(table, more[c].heading, look_up(t, &more[c], l), .format = "%.4g");
        smoe_cell_number(table, "unused experts", unused(t, l));
        smoe_frame_end(table);
    }
}

/* The members of a run: a row of `runs`, and its rows of `routing`. */
static void show_add_run(smoe_result *result, const tables *t, size_t row) {
    const smoe_frame *routing = t->routing;
    const char *run = show_text_of(t->runs, row, "run");
    smoe_fact_text(result, "run", run);
    smoe_fact_text(result, "checkpoint", show_text_of(t->runs, row, "checkpoint"));
    smoe_fact_text(result, "split", show_text_of(t->runs, row, "split"));
    smoe_fact_number(result, "images", show_number_of(t->runs, row, "images"));
    smoe_fact_text(result, "router", show_text_of(t->runs, row, "router"));
    smoe_frame *layers = smoe_result_records(result, "layers");
    for (size_t l = 0; l < routing->rows; l++) {
        if (strcmp(show_text_of(routing, l, "run"), run)) continue;
        smoe_cell_number(layers, "block", show_number_of(routing, l, "block"));
        for (size_t c = 2; c < routing->columns; c++)
            smoe_cell_number(layers, routing->column[c].name, smoe_frame_number_at(routing, l, c));
        smoe_frame_end(layers);
    }
}

int smoe_inspect_show(const smoe_frame *frames, size_t count, const smoe_options *options,
                      smoe_err *err) {
    tables t = {.frame = frames,
                .count = count,
                .runs = smoe_frames_find(frames, count, "runs"),
                .routing = smoe_frames_find(frames, count, "routing")};
    smoe_result result = {0};
    bool several = t.runs->rows > 1;
    json_t *all = json_object();
    for (size_t i = 0; i < t.runs->rows; i++)
        show_add_run(several ? smoe_result_part(&result, "runs") : &result, &t, i);
    for (size_t i = 0; i < t.runs->rows; i++)
        smoe_result_line(&result, NULL, "%s, %.0f images of %s, router %s",
                         show_text_of(t.runs, i, "checkpoint"), show_number_of(t.runs, i, "images"),
                         show_text_of(t.runs, i, "split"), show_text_of(t.runs, i, "router"));
    for (size_t i = 0; i < count; i++)
        if (frames[i].rows) json_object_set_new(all, frames[i].name, smoe_frame_json(&frames[i]));
    smoe_result_value(&result, "tables", all);
    add_means(&result, &t);
    add_more(&result, &t);
    return smoe_cmd_emit(&result, options, err);
}
