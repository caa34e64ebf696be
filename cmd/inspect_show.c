/* Printing of smoe inspect; see inspect_show.h. Everything comes from the tables: runs has the
 * runs, routing the layers. */
#include "inspect_show.h"
#include "cmd.h"
#include "table.h"
#include "store/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct tables {
    const smoe_frame *frame; /* [count] */
    size_t count;
    const smoe_frame *runs, *routing;
} tables;

static const char *text_of(const smoe_frame *frame, size_t row, const char *column) {
    return smoe_frame_text_at(frame, row, smoe_frame_find(frame, column));
}

static double number_of(const smoe_frame *frame, size_t row, const char *column) {
    return smoe_frame_number_at(frame, row, smoe_frame_find(frame, column));
}

/* ---- for people ------------------------------------------------------------------------------ */

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
    {"chance", "expert_information", "by_chance", "class", 0},
    {"position bits", "expert_information", "bits", "position", 0},
    {"chance", "expert_information", "by_chance", "position", 0},
};
enum { MORE = sizeof more / sizeof *more };

/* The number for a layer (a row of `routing`); NAN where there is none. */
static double look_up(const tables *t, const shown *column, size_t layer) {
    const smoe_frame *frame = smoe_frames_find(t->frame, t->count, column->frame);
    const char *run = text_of(t->routing, layer, "run");
    double block = number_of(t->routing, layer, "block");
    for (size_t i = 0; i < frame->rows; i++)
        if (!strcmp(text_of(frame, i, "run"), run) && number_of(frame, i, "block") == block &&
            (!column->about || !strcmp(text_of(frame, i, "about"), column->about)) &&
            (!column->rank || number_of(frame, i, "rank") == (double)column->rank))
            return number_of(frame, i, column->column);
    return NAN;
}

/* The number of experts of a layer that have no weight in any token. */
static size_t unused(const tables *t, size_t layer) {
    const smoe_frame *frame = smoe_frames_find(t->frame, t->count, "combine_expert");
    size_t count = 0;
    for (size_t i = 0; i < frame->rows; i++)
        count += !strcmp(text_of(frame, i, "run"), text_of(t->routing, layer, "run")) &&
                 number_of(frame, i, "block") == number_of(t->routing, layer, "block") &&
                 number_of(frame, i, "weight") == 0;
    return count;
}

/* One line per layer, with its run if there are several; columns without a number are left out. */
static int print_layers(const tables *t, const shown *column, size_t columns, bool bold,
                        smoe_err *err) {
    bool has[MORE] = {false}, several = t->runs->rows > 1;
    smoe_table table = {.columns = 1 + several};
    if (several) smoe_table_add(&table, "run");
    smoe_table_add(&table, "layer");
    for (size_t c = 0; c < columns; c++) {
        for (size_t l = 0; l < t->routing->rows; l++) has[c] |= !isnan(look_up(t, &column[c], l));
        if (!has[c]) continue;
        table.columns++;
        smoe_table_add(&table, "%s", column[c].heading);
    }
    for (size_t l = 0; l < t->routing->rows; l++) {
        if (several) smoe_table_add(&table, "%s", text_of(t->routing, l, "run"));
        smoe_table_add(&table, "blocks.%.0f", number_of(t->routing, l, "block"));
        for (size_t c = 0; c < columns; c++) {
            double value = look_up(t, &column[c], l);
            if (!has[c]) continue;
            if (isfinite(value))
                smoe_table_add(&table, "%.4g", value);
            else if (value > 0) /* times nothing */
                smoe_table_add(&table, "inf (%zu unused)", unused(t, l));
            else
                smoe_table_add(&table, "-");
        }
    }
    int status = smoe_table_print(&table, stdout, bold, err);
    smoe_table_free(&table);
    return status;
}

/* The columns of `routing` behind run and block. */
static int print_means(const tables *t, bool bold, smoe_err *err) {
    shown mean[MORE];
    char heading[MORE][32];
    size_t count = 0;
    for (size_t c = 2; c < t->routing->columns && count < MORE; c++, count++) {
        const char *name = t->routing->column[c].name;
        snprintf(heading[count], sizeof *heading, "%s", name);
        for (char *at = heading[count]; (at = strchr(at, '_'));) *at = ' ';
        mean[count] = (shown){.heading = heading[count], .frame = "routing", .column = name};
    }
    return print_layers(t, mean, count, bold, err);
}

static int print(const tables *t, const smoe_options *options, smoe_err *err) {
    bool bold = smoe_cmd_color(options, stdout);
    for (size_t i = 0; i < t->runs->rows; i++)
        smoe_cmd_print(stdout, "%s, %.0f images of %s, router %s\n",
                       text_of(t->runs, i, "checkpoint"), number_of(t->runs, i, "images"),
                       text_of(t->runs, i, "split"), text_of(t->runs, i, "router"));
    if (print_means(t, bold, err)) return -1;
    putchar('\n');
    return print_layers(t, more, MORE, bold, err);
}

/* ---- for programs ---------------------------------------------------------------------------- */

/* The members of a run: a row of `runs`, and its rows of `routing`. */
static json_t *run_json(const tables *t, size_t row) {
    const smoe_frame *routing = t->routing;
    json_t *layers = json_array();
    const char *run = text_of(t->runs, row, "run");
    for (size_t l = 0; l < routing->rows; l++) {
        if (strcmp(text_of(routing, l, "run"), run)) continue;
        json_t *layer = json_pack("{s:I}", "block", (json_int_t)number_of(routing, l, "block"));
        for (size_t c = 2; c < routing->columns; c++)
            json_object_set_new(layer, routing->column[c].name,
                                smoe_run_number(smoe_frame_number_at(routing, l, c)));
        json_array_append_new(layers, layer);
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:o}", "run", run, "checkpoint",
                     text_of(t->runs, row, "checkpoint"), "split", text_of(t->runs, row, "split"),
                     "images", (json_int_t)number_of(t->runs, row, "images"), "router",
                     text_of(t->runs, row, "router"), "layers", layers);
}

static int print_json(const tables *t, smoe_err *err) {
    json_t *result = NULL, *all = json_object(), *runs = json_array();
    for (size_t i = 0; i < t->count; i++)
        if (t->frame[i].rows)
            json_object_set_new(all, t->frame[i].name, smoe_frame_json(&t->frame[i]));
    if (t->runs->rows == 1)
        result = run_json(t, 0);
    else
        result = json_object();
    for (size_t i = 0; i < t->runs->rows; i++) json_array_append_new(runs, run_json(t, i));
    if (t->runs->rows > 1) json_object_set(result, "runs", runs);
    json_object_set_new(result, "tables", all);
    json_decref(runs);
    return smoe_cmd_json(result, err);
}

int smoe_inspect_show(const smoe_frame *frames, size_t count, const smoe_options *options,
                      smoe_err *err) {
    tables t = {.frame = frames,
                .count = count,
                .runs = smoe_frames_find(frames, count, "runs"),
                .routing = smoe_frames_find(frames, count, "routing")};
    return options->json ? print_json(&t, err) : print(&t, options, err);
}
