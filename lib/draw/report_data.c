/*
 * The data for the scripts of the report, as one JSON object within a <script> element: characters
 * that mean something to HTML are escaped. Made to be small: columns of tables whole, equal values
 * counted, numbers to five digits; pictures as PNG, weights as bytes, both in base64.
 *
 *   words    {NAME: what it is called}, the entries of words.def
 *   figures  [plots, see plot.h]
 *   frames   {NAME: {title, caption, rows, columns [names], data [columns]}}; a column is
 *            {"list": [..]} or {"runs": [value, times, ..]}, of text with "names" they index;
 *            data is missing where the table is left out
 *   samples  [{run, side, first, left, images [{index, name, className, predictedName,
 *            probability, png}], layers [{kind, block, experts, slots, tokens, images [..]}]}];
 *            weights of an image in a layer are {dispatch [S,T], dispatchMax [S], combine [T,S],
 *            combineMax [T]}, a byte being 255ths of the row's maximum, or
 *            {placements [[token, expert, weight]]}
 */
#include "draw/figures.h"
#include "base/alloc.h"
#include "draw/overlay.h"
#include "draw/encode_png.h"
#include "draw/page.h"
#include "draw/report.h"
#include "draw/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the page. The tables of a paper's S/16, six layers of 128 experts, come to 5 MB. */
enum { MOST_TABLES = 6000000, MOST_SAMPLES = 2500000 };

/* The figures that have something to draw. */
static void put_figures(smoe_page *page, const smoe_report *report) {
    const smoe_figure_entry *entry;
    for (size_t i = 0, put = 0; (entry = smoe_figure_at(i)); i++) {
        smoe_plot plot;
        smoe_figure_plot(&plot, entry, report->frames, report->frame_count);
        if (plot.panels) {
            if (put++) smoe_page_json(page, ",\n");
            smoe_plot_page(&plot, page);
        }
        smoe_plot_free(&plot);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Text cells as indices into the distinct ones, in order of appearance: index [rows], first [names]
 * the row where each appears. Returns how many. */
static size_t index_names(const smoe_frame *f, size_t column, size_t *index, size_t *first) {
    size_t names = 0;
    for (size_t r = 0; r < f->rows; r++) {
        const char *text = smoe_frame_text_at(f, r, column);
        size_t i = names;
        if (r && !strcmp(smoe_frame_text_at(f, r - 1, column), text)) i = index[r - 1] + 1;
        while (i && strcmp(smoe_frame_text_at(f, first[i - 1], column), text)) i--;
        if (!i) {
            first[names++] = r;
            i = names;
        }
        index[r] = i - 1;
    }
    return names;
}

static double cell(const smoe_frame *f, size_t r, size_t column, const size_t *index) {
    return index ? (double)index[r] : smoe_frame_number_at(f, r, column);
}

static bool equal(double a, double b) {
    return a == b || (!isfinite(a) && !isfinite(b));
}

static void put_values(smoe_page *page, const smoe_frame *f, size_t column, const size_t *index) {
    size_t stretches = f->rows > 0;
    for (size_t r = 1; r < f->rows; r++)
        stretches += !equal(cell(f, r, column, index), cell(f, r - 1, column, index));
    bool counted = 2 * stretches < f->rows;
    if (counted)
        smoe_page_json(page, "\"runs\":[");
    else
        smoe_page_json(page, "\"list\":[");
    for (size_t r = 0, next; r < f->rows; r = next) {
        double v = cell(f, r, column, index);
        for (next = r + 1; counted && next < f->rows && equal(cell(f, next, column, index), v);)
            next++;
        if (r) smoe_page_json(page, ",");
        smoe_page_json(page, "%.5g", v);
        if (counted) smoe_page_json(page, ",%zu", next - r);
    }
    smoe_page_json(page, "]");
}

static void put_column(smoe_page *page, const smoe_frame *f, size_t column) {
    size_t *index = NULL;
    smoe_page_json(page, "{");
    if (f->column[column].text) {
        index = smoe_alloc(2 * (f->rows + 1), sizeof *index);
        size_t *first = index + f->rows + 1, names = index_names(f, column, index, first);
        smoe_page_json(page, "\"names\":[");
        for (size_t i = 0; i < names; i++) {
            if (i) smoe_page_json(page, ",");
            smoe_page_json(page, "%s", smoe_frame_text_at(f, first[i], column));
        }
        smoe_page_json(page, "],");
    }
    put_values(page, f, column, index);
    smoe_page_json(page, "}");
    free(index);
}

static void put_frame(smoe_page *page, const smoe_frame *f, size_t *left) {
    smoe_page_json(page, "%s:{\"title\":%s,\"caption\":%s,\"rows\":%zu,\"columns\":[", f->name,
                   f->title, f->caption, f->rows);
    for (size_t c = 0; c < f->columns; c++) {
        if (c) smoe_page_json(page, ",");
        smoe_page_json(page, "%s", f->column[c].name);
    }
    smoe_page_json(page, "]");
    smoe_page_hold(page);
    smoe_page_json(page, ",\"data\":[\n");
    for (size_t c = 0; c < f->columns; c++) {
        if (c) smoe_page_json(page, ",\n");
        put_column(page, f, c);
    }
    smoe_page_json(page, "]");
    *left -= smoe_page_release(page, *left);
    smoe_page_json(page, "}");
}

/* ---- samples --------------------------------------------------------------------------------- */

/* The pixels of a sample as 8-bit samples, then as PNG in base64. */
static int put_picture(smoe_page *page, const smoe_sample *s, smoe_err *err) {
    smoe_image image = {0};
    uint8_t *bytes = NULL;
    size_t size;
    int status = smoe_overlay_picture(s, &image, err);
    if (!status) status = smoe_encode_png(&image, &bytes, &size, err);
    if (!status) {
        smoe_page_json(page, ",\"png\":");
        smoe_page_base64(page, bytes, size);
    }
    free(bytes);
    smoe_image_free(&image);
    return status;
}

/* A matrix as bytes, row by row, as the member `name`, and each row's maximum as the member `most`:
 * element (r, c) is at w[r * row_step + c * column_step]. */
static void put_weights(smoe_page *page, const char *name, const char *most, const float *w,
                        size_t rows, size_t columns, size_t row_step, size_t column_step) {
    uint8_t *byte = smoe_alloc(rows * columns + 1, 1);
    smoe_page_json(page, "%s:[", most);
    for (size_t r = 0; r < rows; r++) {
        float max = 0;
        for (size_t c = 0; c < columns; c++) max = fmaxf(max, w[r * row_step + c * column_step]);
        for (size_t c = 0; c < columns; c++)
            byte[r * columns + c] =
                max > 0 ? (uint8_t)lrintf(255 * w[r * row_step + c * column_step] / max) : 0;
        if (r) smoe_page_json(page, ",");
        smoe_page_json(page, "%.4g", (double)max);
    }
    smoe_page_json(page, "],%s:", name);
    smoe_page_base64(page, byte, rows * columns);
    free(byte);
}

static void put_layer_image(smoe_page *page, const smoe_sample *s, const smoe_sample_layer *l) {
    smoe_page_json(page, "{");
    if (l->dispatch) {
        put_weights(page, "dispatch", "dispatchMax", l->dispatch, l->S, s->T, 1, l->S);
        smoe_page_json(page, ",");
        put_weights(page, "combine", "combineMax", l->combine, s->T, l->S, l->S, 1);
    } else {
        smoe_page_json(page, "\"placements\":[");
        for (size_t i = 0; i < l->places; i++) {
            if (i) smoe_page_json(page, ",");
            smoe_page_json(page, "[%zu,%zu,%.4g]", l->place[i].token, l->place[i].expert,
                           (double)l->place[i].weight);
        }
        smoe_page_json(page, "]");
    }
    smoe_page_json(page, "}");
}

static void put_layer(smoe_page *page, const smoe_sample *samples, size_t images, size_t layer) {
    const smoe_sample_layer *l = &samples->layer[layer];
    smoe_page_json(page,
                   "{\"kind\":%s,\"block\":%zu,\"experts\":%zu,\"slots\":%zu,\"tokens\":%zu,"
                   "\"images\":[",
                   l->dispatch ? "soft" : "choice", l->block, l->E, l->S, samples->T);
    for (size_t i = 0; i < images; i++) {
        if (i) smoe_page_json(page, ",\n");
        put_layer_image(page, &samples[i], &samples[i].layer[layer]);
    }
    smoe_page_json(page, "]}");
}

/* The approximate size of the weights of a sample in the page. */
static size_t sample_bytes(const smoe_sample *s) {
    size_t bytes = s->channels * s->size * s->size * 4 / 3;
    for (size_t l = 0; l < s->layers; l++)
        bytes += s->layer[l].dispatch ? s->T * s->layer[l].S * 8 / 3 + (s->T + s->layer[l].S) * 8
                                      : s->layer[l].places * 16;
    return bytes;
}

static int put_run(smoe_page *page, const smoe_sample *samples, size_t all, size_t most,
                   smoe_err *err) {
    size_t images = 0;
    for (size_t used = 0; images < all; images++) {
        used += sample_bytes(&samples[images]);
        if (used > most) break;
    }
    smoe_page_json(page, "{\"run\":%s,\"side\":%zu,\"first\":%zu,\"left\":%zu,\"images\":[",
                   samples->run, samples->side, samples->first_patch, all - images);
    for (size_t i = 0; i < images; i++) {
        const smoe_sample *s = &samples[i];
        if (i) smoe_page_json(page, ",\n");
        smoe_page_json(page,
                       "{\"index\":%zu,\"name\":%s,\"className\":%s,\"predictedName\":%s,"
                       "\"probability\":%.4g",
                       s->image, s->name, s->label, s->prediction, s->probability);
        if (put_picture(page, s, err)) return -1;
        smoe_page_json(page, "}");
    }
    smoe_page_json(page, "],\n\"layers\":[");
    for (size_t l = 0; l < samples->layers; l++) {
        if (l) smoe_page_json(page, ",\n");
        put_layer(page, samples, images, l);
    }
    smoe_page_json(page, "]}");
    return 0;
}

/* Each run has an equal share of the space for samples. */
static int put_samples(smoe_page *page, const smoe_report *report, smoe_err *err) {
    const smoe_sample *s = report->samples;
    size_t runs = 0;
    for (size_t i = 0; i < report->sample_count; i++) runs += !i || strcmp(s[i].run, s[i - 1].run);
    for (size_t i = 0, next; i < report->sample_count; i = next) {
        for (next = i + 1; next < report->sample_count && !strcmp(s[next].run, s[i].run);) next++;
        if (i) smoe_page_json(page, ",\n");
        if (put_run(page, &s[i], next - i, MOST_SAMPLES / runs, err)) return -1;
    }
    return 0;
}

static void put_all_words(smoe_page *page) {
    const char *name, *words;
    for (size_t i = 0; (name = smoe_words_at(i, &words)); i++) {
        if (i) smoe_page_json(page, ",\n");
        smoe_page_json(page, "%s:%s", name, words);
    }
}

int smoe_report_data(const smoe_report *report, smoe_page *page, smoe_err *err) {
    size_t left = MOST_TABLES;
    smoe_page_json(page, "{\"words\":{");
    put_all_words(page);
    smoe_page_json(page, "},\n\"figures\":[");
    put_figures(page, report);
    smoe_page_json(page, "],\n\"frames\":{");
    for (size_t i = 0; i < report->frame_count; i++) {
        if (i) smoe_page_json(page, ",\n");
        put_frame(page, &report->frames[i], &left);
    }
    smoe_page_json(page, "},\n\"samples\":[");
    int status = put_samples(page, report, err);
    smoe_page_json(page, "]}");
    return status;
}
