/*
 * The data for the scripts of the report, as one JSON object. Made to be small: columns of tables
 * whole, equal values counted, fractions to five digits; pictures as PNG, weights as bytes, both in
 * base64.
 *
 *   words    {NAME: what it is called}, the entries of words.def
 *   figures  the plots (plot.h) with something to draw:
 *            [{name, table, section, names: [column, column],
 *              scale: {label, stops: [[value, day, night], ...]} or null,
 *              panels: [{block, title, x, y, square, group, marks: [...]}]}]
 *            axis  {label, low, high, step, log, ticks: [[value, text], ...]}
 *            mark  {kind, name, colour: [day, night], dash, rows: [first, last],
 *                   same: [column, ...], x, y: [column, ...], z, error, each}
 *   frames   {NAME: {title, caption, rows, columns [names], data [columns]}}; a column is
 *            {"list": [..]} or {"runs": [value, times, ..]}, of text with "names" they index;
 *            data is missing where the table is left out
 *   samples  [{run, side, first, left, images [{index, name, className, predictedName,
 *            probability, png}], layers [{kind, block, experts, slots, tokens, images [..]}]}];
 *            weights of an image in a layer are {dispatch [S,T], dispatchMax [S], combine [T,S],
 *            combineMax [T]}, a byte being 255ths of the row's maximum, or
 *            {placements [[token, expert, weight]]}
 */
#include "base/json.h"
#include "draw/figures.h"
#include "draw/overlay.h"
#include "draw/page.h"
#include "draw/report.h"

/* Bytes of the page. The tables of a paper's S/16, six layers of 128 experts, come to 5 MB. */
enum { MOST_TABLES = 6000000, MOST_SAMPLES = 2500000 };

/* With so many digits; whole numbers, such as steps and images, with all of theirs. */
static json_t *data_number(double v, int digits) {
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, v);
    return smoe_json_of_number(v == rint(v) ? v : strtod(text, NULL));
}

static json_t *data_count(size_t n) {
    return json_integer((json_int_t)n);
}

static json_t *data_text(const char *text) {
    return text ? smoe_json_text(text) : json_null();
}

/* ---- figures --------------------------------------------------------------------------------- */

static json_t *names_json(const char *const *list) {
    json_t *names = json_array();
    for (; *list; list++) json_array_append_new(names, json_string(*list));
    return names;
}

static json_t *axis_json(const smoe_plot_axis *axis) {
    json_t *ticks = json_array();
    for (size_t i = 0; i < axis->ticks; i++)
        json_array_append_new(
            ticks, json_pack("[f, o]", axis->tick[i].at, smoe_json_text(axis->tick[i].text)));
    return json_pack("{s:i, s:o, s:f, s:f, s:f, s:o}", "log", axis->log, "label",
                     smoe_json_text(axis->label), "low", axis->low, "high", axis->high, "step",
                     axis->step, "ticks", ticks);
}

static json_t *mark_json(const smoe_mark *m) {
    static const char *const kinds[] = {[SMOE_MARK_LINE] = "line",
                                        [SMOE_MARK_STEPS] = "steps",
                                        [SMOE_MARK_HISTOGRAM] = "histogram",
                                        [SMOE_MARK_BAND] = "band",
                                        [SMOE_MARK_BAR] = "bar",
                                        [SMOE_MARK_CELLS] = "cells",
                                        [SMOE_MARK_POINTS] = "points"};
    char day[SMOE_COLOUR_TEXT], night[SMOE_COLOUR_TEXT];
    return json_pack("{s:s, s:[o, o], s:o, s:[s, s], s:o, s:o, s:s?, s:s?, s:s?, s:s?, s:o}",
                     "kind", kinds[m->kind], "rows", data_count(m->rows.first),
                     data_count(m->rows.last), "dash", data_count(m->dash), "colour",
                     smoe_colour_text(m->colour, false, day),
                     smoe_colour_text(m->colour, true, night), "same", names_json(m->rows.same),
                     "y", names_json(m->y), "x", m->x, "z", m->z, "error", m->error, "each",
                     m->each, "name", smoe_json_text(m->name));
}

static json_t *scale_json(const smoe_plot_scale *scale) {
    char day[SMOE_COLOUR_TEXT], night[SMOE_COLOUR_TEXT];
    json_t *stops = json_array();
    for (size_t i = 0; i < SMOE_SCALE_STOPS; i++)
        json_array_append_new(stops, json_pack("[f, s, s]", smoe_plot_stop(scale, i),
                                               smoe_scale_text(i, scale->diverging, false, day),
                                               smoe_scale_text(i, scale->diverging, true, night)));
    return json_pack("{s:o, s:o}", "label", smoe_json_text(scale->label), "stops", stops);
}

static json_t *plot_json(const smoe_plot *plot) {
    bool cells = plot->panel->mark->kind == SMOE_MARK_CELLS;
    json_t *panels = json_array();
    for (size_t i = 0; i < plot->panels; i++) {
        const smoe_panel *p = &plot->panel[i];
        json_t *marks = json_array();
        for (size_t m = 0; m < p->marks; m++) json_array_append_new(marks, mark_json(&p->mark[m]));
        json_array_append_new(panels, json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "square",
                                                p->square, "group", data_count(p->group), "block",
                                                smoe_json_of_number(p->block), "title",
                                                smoe_json_text(p->title), "x", axis_json(&p->x),
                                                "y", axis_json(&p->y), "marks", marks));
    }
    return json_pack("{s:s, s:s, s:s, s:[s, s], s:o, s:o}", "name", plot->name, "table",
                     plot->table->name, "section", plot->section, "names",
                     plot->x_name ? plot->x_name : "", plot->y_name ? plot->y_name : "", "scale",
                     cells ? scale_json(&plot->scale) : json_null(), "panels", panels);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Text cells as indices [rows] into the distinct ones, in order of appearance, which become
 * `names`. */
static double *index_names(json_t *names, const smoe_frame *f, size_t column) {
    double *index = smoe_alloc(f->rows + 1, sizeof *index);
    SMOE_FREED size_t *first = smoe_alloc(f->rows + 1, sizeof *first); /* row of each name */
    size_t count = 0;
    for (size_t r = 0; r < f->rows; r++) {
        const char *text = smoe_frame_text_at(f, r, column);
        size_t i = count;
        if (r && !strcmp(smoe_frame_text_at(f, r - 1, column), text)) i = (size_t)index[r - 1] + 1;
        while (i && strcmp(smoe_frame_text_at(f, first[i - 1], column), text)) i--;
        if (!i) {
            first[count++] = r;
            json_array_append_new(names, smoe_json_text(text));
            i = count;
        }
        index[r] = (double)(i - 1);
    }
    return index;
}

static bool equal(double a, double b) {
    return a == b || (!isfinite(a) && !isfinite(b));
}

/* {"list"} or {"runs"}, whichever is shorter. */
static json_t *values_json(const double *value, size_t rows) {
    size_t stretches = rows > 0;
    json_t *list = json_array();
    for (size_t r = 1; r < rows; r++) stretches += !equal(value[r], value[r - 1]);
    bool counted = 2 * stretches < rows;
    for (size_t r = 0, next; r < rows; r = next) {
        for (next = r + 1; counted && next < rows && equal(value[next], value[r]);) next++;
        json_array_append_new(list, data_number(value[r], 5));
        if (counted) json_array_append_new(list, data_count(next - r));
    }
    return json_pack("{s:o}", counted ? "runs" : "list", list);
}

static json_t *packed_column(const smoe_frame *f, size_t column) {
    json_t *names = f->column[column].words ? json_array() : NULL;
    SMOE_FREED double *value =
        names ? index_names(names, f, column) : smoe_alloc(f->rows + 1, sizeof *value);
    for (size_t r = 0; !names && r < f->rows; r++) value[r] = smoe_frame_number_at(f, r, column);
    json_t *packed = values_json(value, f->rows);
    if (names) json_object_set_new(packed, "names", names);
    return packed;
}

/* *left: bytes that tables still may have. */
static json_t *table_json(const smoe_frame *f, size_t *left) {
    json_t *columns = json_array(), *data = json_array();
    for (size_t c = 0; c < f->columns; c++) {
        json_array_append_new(columns, data_text(f->column[c].name));
        json_array_append_new(data, packed_column(f, c));
    }
    json_t *table = json_pack("{s:o, s:o, s:o, s:o, s:o}", "title", data_text(f->title), "caption",
                              data_text(f->caption), "rows", data_count(f->rows), "columns",
                              columns, "data", data);
    size_t size = smoe_page_json_size(data);
    if (size <= *left)
        *left -= size;
    else
        json_object_del(table, "data");
    return table;
}

/* ---- samples --------------------------------------------------------------------------------- */

static json_t *base64_json(const uint8_t *bytes, size_t size) {
    SMOE_FREED char *text = smoe_page_base64(bytes, size);
    return json_string(text);
}

static json_t *image_json(const smoe_sample *s, smoe_err *err) {
    SMOE_FREED_BY(smoe_image_free) smoe_image image = {0};
    SMOE_FREED uint8_t *png = NULL;
    size_t size;
    if (smoe_overlay_picture(s, &image, err) || smoe_encode_png(&image, &png, &size, err))
        return NULL;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "index", data_count(s->image), "name",
                     smoe_json_text(s->name), "className", smoe_json_text(s->label),
                     "predictedName", smoe_json_text(s->prediction), "probability",
                     data_number(s->probability, 4), "png", base64_json(png, size));
}

/* Weights whose element (r, c) is at[r * row + c * column]. */
typedef struct weights {
    const float *at;
    size_t rows, columns, row, column;
} weights;

/* A matrix as bytes, row by row, as the member `name`, and each row's maximum as the member
 * `most`. */
static void set_weights(json_t *object, const char *name, const char *most, weights w) {
    const size_t rows = w.rows, columns = w.columns;
    SMOE_FREED uint8_t *byte = smoe_alloc(rows * columns + 1, 1);
    json_t *largest = json_array();
    for (size_t r = 0; r < rows; r++) {
        const float *row = w.at + r * w.row;
        float max = 0;
        for (size_t c = 0; c < columns; c++) max = fmaxf(max, row[c * w.column]);
        for (size_t c = 0; c < columns; c++)
            byte[r * columns + c] = max > 0 ? (uint8_t)lrintf(255 * row[c * w.column] / max) : 0;
        json_array_append_new(largest, data_number((double)max, 4));
    }
    json_object_set_new(object, most, largest);
    json_object_set_new(object, name, base64_json(byte, rows * columns));
}

static json_t *weights_json(const smoe_sample *s, const smoe_sample_layer *l) {
    json_t *object = json_object(), *list;
    if (l->dispatch) {
        set_weights(
            object, "dispatch", "dispatchMax",
            (weights){l->dispatch, .rows = l->S, .columns = s->T, .row = 1, .column = l->S});
        set_weights(object, "combine", "combineMax",
                    (weights){l->combine, .rows = s->T, .columns = l->S, .row = l->S, .column = 1});
        return object;
    }
    list = json_array();
    for (size_t i = 0; i < l->places; i++)
        json_array_append_new(list, json_pack("[o, o, o]", data_count(l->place[i].token),
                                              data_count(l->place[i].expert),
                                              data_number((double)l->place[i].weight, 4)));
    json_object_set_new(object, "placements", list);
    return object;
}

/* The samples of a run, as many of `all` as have room in `most` bytes; NULL with err. */
static json_t *run_json(const smoe_sample *samples, size_t all, size_t most, smoe_err *err) {
    json_t *images = json_array(), *layers = json_array();
    size_t count = 0;
    for (size_t used = 0; count < all; count++) {
        const smoe_sample *s = &samples[count]; /* of which the weights' size is approximate: */
        used += s->channels * s->size * s->size * 4 / 3;
        for (size_t l = 0; l < s->layers; l++)
            used += s->layer[l].dispatch ? s->T * s->layer[l].S * 8 / 3 + (s->T + s->layer[l].S) * 8
                                         : s->layer[l].places * 16;
        if (used > most) break;
    }
    json_t *run =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "run", smoe_json_text(samples->run), "side",
                  data_count(samples->side), "first", data_count(samples->first_patch), "left",
                  data_count(all - count), "images", images, "layers", layers);
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(images, image_json(&samples[i], err))) {
            json_decref(run);
            return NULL;
        }
    for (size_t k = 0; k < samples->layers; k++) {
        const smoe_sample_layer *l = &samples->layer[k];
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, weights_json(&samples[i], &samples[i].layer[k]));
        json_array_append_new(layers, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "kind",
                                                l->dispatch ? "soft" : "choice", "block",
                                                data_count(l->block), "experts", data_count(l->E),
                                                "slots", data_count(l->S), "tokens",
                                                data_count(samples->T), "images", list));
    }
    return run;
}

/* Each run has an equal share of the space for samples. */
static int add_samples(json_t *list, const smoe_report *report, smoe_err *err) {
    const smoe_sample *s = report->samples;
    size_t runs = 0;
    for (size_t i = 0; i < report->sample_count; i++) runs += !i || strcmp(s[i].run, s[i - 1].run);
    for (size_t i = 0, next; i < report->sample_count; i = next) {
        for (next = i + 1; next < report->sample_count && !strcmp(s[next].run, s[i].run);) next++;
        if (json_array_append_new(list, run_json(&s[i], next - i, MOST_SAMPLES / runs, err)))
            return -1;
    }
    return 0;
}

json_t *smoe_report_data(const smoe_report *report, smoe_err *err) {
    json_t *said = json_object(), *tables = json_object(), *samples = json_array();
    size_t left = MOST_TABLES;
    const char *name, *words;
    const smoe_figure_entry *entry;
    json_t *figures = json_array();
    json_t *data = json_pack("{s:o, s:o, s:o, s:o}", "words", said, "figures", figures, "frames",
                             tables, "samples", samples);
    for (size_t i = 0; (entry = smoe_figure_at(i)); i++) {
        SMOE_FREED_BY(smoe_plot_free) smoe_plot plot;
        smoe_figure_plot(&plot, entry, report->frames, report->frame_count);
        if (plot.panels) json_array_append_new(figures, plot_json(&plot));
    }
    for (size_t i = 0; (name = smoe_words_at(i, &words)); i++)
        json_object_set_new(said, name, json_string(words));
    for (size_t i = 0; i < report->frame_count; i++)
        json_object_set_new(tables, report->frames[i].name, table_json(&report->frames[i], &left));
    if (!add_samples(samples, report, err)) return data;
    json_decref(data);
    return NULL;
}
