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
#include "draw/script.h"
#include "draw/overlay.h"
#include "draw/encode_png.h"
#include "draw/report.h"
#include "draw/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the page. The tables of a paper's S/16, six layers of 128 experts, come to 5 MB. */
enum { MOST_TABLES = 6000000, MOST_SAMPLES = 2500000 };

/* The figures that have something to draw. */
static int put_figures(FILE *out, const smoe_report *report, smoe_err *err) {
    const smoe_figure_entry *entry;
    const char *comma = "";
    for (size_t i = 0; (entry = smoe_figure_at(i)); i++) {
        smoe_plot plot;
        int status = smoe_figure_plot(&plot, entry, report->frames, report->frame_count, err);
        if (!status && plot.panels) {
            fputs(comma, out);
            smoe_plot_page(&plot, out);
            comma = ",\n";
        }
        smoe_plot_free(&plot);
        if (status) return -1;
    }
    return 0;
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

static void put_values(FILE *out, const smoe_frame *f, size_t column, const size_t *index) {
    size_t stretches = f->rows > 0;
    for (size_t r = 1; r < f->rows; r++)
        stretches += !equal(cell(f, r, column, index), cell(f, r - 1, column, index));
    bool counted = 2 * stretches < f->rows;
    fputs(counted ? "\"runs\":[" : "\"list\":[", out);
    for (size_t r = 0, next; r < f->rows; r = next) {
        double v = cell(f, r, column, index);
        for (next = r + 1; counted && next < f->rows && equal(cell(f, next, column, index), v);)
            next++;
        if (r) fputc(',', out);
        smoe_script_number(out, v, 5);
        if (counted) fprintf(out, ",%zu", next - r);
    }
    fputc(']', out);
}

/* Fails when out of memory. */
static int put_column(FILE *out, const smoe_frame *f, size_t column) {
    size_t *index = NULL;
    fputc('{', out);
    if (f->column[column].text) {
        index = malloc(2 * (f->rows + 1) * sizeof *index);
        if (!index) return -1;
        size_t *first = index + f->rows + 1, names = index_names(f, column, index, first);
        fputs("\"names\":[", out);
        for (size_t i = 0; i < names; i++) {
            if (i) fputc(',', out);
            smoe_script_text(out, smoe_frame_text_at(f, first[i], column));
        }
        fputs("],", out);
    }
    put_values(out, f, column, index);
    fputc('}', out);
    free(index);
    return 0;
}

static int put_frame(FILE *out, const smoe_frame *f, size_t *left) {
    char *text = NULL;
    size_t size = 0;
    FILE *columns = open_memstream(&text, &size);
    int bad = !columns;
    for (size_t c = 0; c < f->columns && !bad; c++) {
        if (c) fputs(",\n", columns);
        bad = put_column(columns, f, c);
    }
    if (columns) {
        bad |= ferror(columns);
        bad |= fclose(columns);
    }
    smoe_script_text(out, f->name);
    fputs(":{\"title\":", out);
    smoe_script_text(out, f->title);
    smoe_script_text_member(out, "caption", f->caption);
    fprintf(out, ",\"rows\":%zu,\"columns\":[", f->rows);
    for (size_t c = 0; c < f->columns; c++) {
        if (c) fputc(',', out);
        smoe_script_text(out, f->column[c].name);
    }
    fputc(']', out);
    if (!bad && size <= *left) {
        fprintf(out, ",\"data\":[\n%s]", text);
        *left -= size;
    }
    fputc('}', out);
    free(text);
    return bad;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void put_base64(FILE *out, const uint8_t *bytes, size_t size) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t three = (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (n > 2 ? bytes[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            fputc(k <= n ? letters[three >> (18 - 6 * k) & 63] : '=', out);
    }
}

/* The pixels of a sample as 8-bit samples, then as PNG in base64. */
static int put_picture(FILE *out, const smoe_sample *s, smoe_err *err) {
    smoe_image image = {0};
    uint8_t *bytes = NULL;
    size_t size;
    int status = smoe_overlay_picture(s, &image, err);
    if (!status) status = smoe_encode_png(&image, &bytes, &size, err);
    if (!status) {
        fputs(",\"png\":\"", out);
        put_base64(out, bytes, size);
        fputc('"', out);
    }
    free(bytes);
    smoe_image_free(&image);
    return status;
}

/* A matrix as bytes, row by row, with each row's maximum: element (r, c) is at
 * w[r * row_step + c * column_step]. */
static int put_weights(FILE *out, const char *name, const float *w, size_t rows, size_t columns,
                       size_t row_step, size_t column_step, smoe_err *err) {
    uint8_t *byte = malloc(rows * columns + 1);
    if (!byte) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    fprintf(out, "\"%sMax\":[", name);
    for (size_t r = 0; r < rows; r++) {
        float most = 0;
        for (size_t c = 0; c < columns; c++) most = fmaxf(most, w[r * row_step + c * column_step]);
        for (size_t c = 0; c < columns; c++)
            byte[r * columns + c] =
                most > 0 ? (uint8_t)lrintf(255 * w[r * row_step + c * column_step] / most) : 0;
        if (r) fputc(',', out);
        smoe_script_number(out, (double)most, 4);
    }
    fprintf(out, "],\"%s\":\"", name);
    put_base64(out, byte, rows * columns);
    fputc('"', out);
    free(byte);
    return 0;
}

static int put_layer_image(FILE *out, const smoe_sample *s, const smoe_sample_layer *l,
                           smoe_err *err) {
    int status = 0;
    fputc('{', out);
    if (l->dispatch) {
        status = put_weights(out, "dispatch", l->dispatch, l->S, s->T, 1, l->S, err);
        fputc(',', out);
        if (!status) status = put_weights(out, "combine", l->combine, s->T, l->S, l->S, 1, err);
    } else {
        fputs("\"placements\":[", out);
        for (size_t i = 0; i < l->places; i++) {
            fprintf(out, "%s[%zu,%zu,", i ? "," : "", l->place[i].token, l->place[i].expert);
            smoe_script_number(out, (double)l->place[i].weight, 4);
            fputc(']', out);
        }
        fputc(']', out);
    }
    fputc('}', out);
    return status;
}

static int put_layer(FILE *out, const smoe_sample *samples, size_t images, size_t layer,
                     smoe_err *err) {
    const smoe_sample_layer *l = &samples->layer[layer];
    fprintf(out,
            "{\"kind\":\"%s\",\"block\":%zu,\"experts\":%zu,\"slots\":%zu,\"tokens\":%zu,"
            "\"images\":[",
            l->dispatch ? "soft" : "choice", l->block, l->E, l->S, samples->T);
    for (size_t i = 0; i < images; i++) {
        if (i) fputs(",\n", out);
        if (put_layer_image(out, &samples[i], &samples[i].layer[layer], err)) return -1;
    }
    fputs("]}", out);
    return 0;
}

/* The approximate size of the weights of a sample in the page. */
static size_t sample_bytes(const smoe_sample *s) {
    size_t bytes = s->channels * s->size * s->size * 4 / 3;
    for (size_t l = 0; l < s->layers; l++)
        bytes += s->layer[l].dispatch ? s->T * s->layer[l].S * 8 / 3 + (s->T + s->layer[l].S) * 8
                                      : s->layer[l].places * 16;
    return bytes;
}

static int put_run(FILE *out, const smoe_sample *samples, size_t all, size_t most, smoe_err *err) {
    size_t images = 0;
    for (size_t used = 0; images < all; images++) {
        used += sample_bytes(&samples[images]);
        if (used > most) break;
    }
    fputs("{\"run\":", out);
    smoe_script_text(out, samples->run);
    fprintf(out, ",\"side\":%zu,\"first\":%zu,\"left\":%zu,\"images\":[", samples->side,
            samples->first_patch, all - images);
    for (size_t i = 0; i < images; i++) {
        const smoe_sample *s = &samples[i];
        fprintf(out, "%s{\"index\":%zu", i ? ",\n" : "", s->image);
        smoe_script_text_member(out, "name", s->name);
        smoe_script_text_member(out, "className", s->label);
        smoe_script_text_member(out, "predictedName", s->prediction);
        fputs(",\"probability\":", out);
        smoe_script_number(out, s->probability, 4);
        if (put_picture(out, s, err)) return -1;
        fputc('}', out);
    }
    fputs("],\n\"layers\":[", out);
    for (size_t l = 0; l < samples->layers; l++) {
        if (l) fputs(",\n", out);
        if (put_layer(out, samples, images, l, err)) return -1;
    }
    fputs("]}", out);
    return 0;
}

/* Each run has an equal share of the space for samples. */
static int put_samples(FILE *out, const smoe_report *report, smoe_err *err) {
    const smoe_sample *s = report->samples;
    size_t runs = 0;
    for (size_t i = 0; i < report->sample_count; i++) runs += !i || strcmp(s[i].run, s[i - 1].run);
    for (size_t i = 0, next; i < report->sample_count; i = next) {
        for (next = i + 1; next < report->sample_count && !strcmp(s[next].run, s[i].run);) next++;
        if (i) fputs(",\n", out);
        if (put_run(out, &s[i], next - i, MOST_SAMPLES / runs, err)) return -1;
    }
    return 0;
}

static void put_all_words(FILE *out) {
    const char *name, *words;
    for (size_t i = 0; (name = smoe_words_at(i, &words)); i++) {
        fputs(i ? ",\n" : "", out);
        smoe_script_text(out, name);
        fputc(':', out);
        smoe_script_text(out, words);
    }
}

int smoe_report_data(const smoe_report *report, FILE *out, smoe_err *err) {
    size_t left = MOST_TABLES;
    fputs("{\"words\":{", out);
    put_all_words(out);
    fputs("},\n\"figures\":[", out);
    if (put_figures(out, report, err)) return -1;
    fputs("],\n\"frames\":{", out);
    for (size_t i = 0; i < report->frame_count; i++) {
        if (i) fputs(",\n", out);
        if (put_frame(out, &report->frames[i], &left))
            return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    fputs("},\n\"samples\":[", out);
    int status = put_samples(out, report, err);
    fputs("]}", out);
    return status;
}
