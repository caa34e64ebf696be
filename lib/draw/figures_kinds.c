/* How gnuplot draws the marks of each kind of figure; see figures_view.h. */
#include "draw/figures_view.h"
#include "draw/gnuplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is in a script --------------------------------------------------------------------- */

/* Safe to tell apart; Okabe and Ito's colours for lines, a ramp for ordered ones. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9"};
static const unsigned char ramp[][3] = {{0x3f, 0x2c, 0x73}, {0x3f, 0x4b, 0x8c}, {0x34, 0x68, 0x8e},
                                        {0x28, 0x83, 0x8e}, {0x21, 0x9a, 0x84}, {0x45, 0xa8, 0x69},
                                        {0x7f, 0xae, 0x45}, {0xbd, 0xa4, 0x28}};
static const char ink[] = "#1c2126"; /* of the line that belongs to no block */

/* Of the i-th of n lines. Ordered ones are evenly along the ramp, between its colours where they
 * are more. */
static const char *colour_of(size_t i, size_t n, bool ordered, char buf[8]) {
    if (!ordered || n < 2) return colours[i % 6];
    size_t below = i * 7 / (n - 1), above = below < 7 ? below + 1 : 7;
    double part = (double)(i * 7 % (n - 1)) / (double)(n - 1);
    unsigned mixed[3];
    for (size_t k = 0; k < 3; k++)
        mixed[k] = (unsigned)lrint((1 - part) * ramp[below][k] + part * ramp[above][k]);
    snprintf(buf, 8, "#%02x%02x%02x", mixed[0] & 0xFF, mixed[1] & 0xFF, mixed[2] & 0xFF);
    return buf;
}

/* What a row must have to be one of some rows, true where nothing; not the run. */
static void put_condition(FILE *out, const smoe_frame *f, const char *list, size_t row) {
    char name[SMOE_DRAWING_NAME];
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++) {
        size_t column = smoe_frame_find(f, name);
        if (!strcmp(name, "run")) continue;
        if (f->column[column].text) {
            fprintf(out, "strcol(\"%s\") eq ", name);
            smoe_gnuplot_text(out, smoe_frame_text_at(f, row, column));
        } else if (isfinite(smoe_frame_number_at(f, row, column))) {
            fprintf(out, "column(\"%s\") == %.17g", name, smoe_frame_number_at(f, row, column));
        } else {
            fprintf(out, "strcol(\"%s\") eq ''", name);
        }
        fputs(" && ", out);
    }
}

void smoe_drawing_put_rows(FILE *out, const smoe_drawing *d, const smoe_span *rows) {
    fprintf(out, "'%s.csv' every ::%zu::%zu using (", d->f->name, rows->first, rows->last);
    if (!rows->whole) {
        put_condition(out, d->f, d->row->panel, rows->first);
        put_condition(out, d->f, d->z, rows->first);
        fputs("1 ? ", out);
    }
    fprintf(out, "column(\"%s\")%s)", d->row->x, rows->whole ? "" : " : NaN");
}

void smoe_drawing_say_row(const smoe_frame *f, const char *list, size_t row, size_t most,
                          char text[SMOE_DRAWING_LABEL]) {
    char name[SMOE_DRAWING_NAME], buf[SMOE_DRAWING_LABEL];
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name) && used < SMOE_DRAWING_LABEL;
         i++) {
        size_t column = smoe_frame_find(f, name);
        const char *comma = i ? ", " : "";
        double number = f->column[column].text ? 0 : smoe_frame_number_at(f, row, column);
        if (f->column[column].text) {
            const char *cell = smoe_frame_text_at(f, row, column), *dots = "";
            size_t length = strlen(cell);
            if (strcmp(name, "run")) {
                cell = smoe_figure_say(cell, buf, sizeof buf);
            } else if (length > most) {
                cell += length - most;
                while ((*cell & 0xC0) == 0x80) cell++; /* within a letter */
                dots = "\xe2\x80\xa6";
            }
            used += (size_t)snprintf(text + used, SMOE_DRAWING_LABEL - used, "%s%s%s", comma, dots,
                                     cell);
        } else if (isfinite(number)) {
            used += (size_t)snprintf(text + used, SMOE_DRAWING_LABEL - used, "%s%s %g", comma, name,
                                     number);
        } else {
            used +=
                (size_t)snprintf(text + used, SMOE_DRAWING_LABEL - used, "%swhole model", comma);
        }
    }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void put_y(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m) {
    char y[SMOE_DRAWING_NAME];
    smoe_drawing_put_rows(out, d, rows);
    fprintf(out, ":(column(\"%s\"))", smoe_drawing_y(d, m % d->each, y));
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The share of values that are at most x, from 0 at the least x of the figure to 1 at the largest.
 * gnuplot's own sums leave out the step at the least value: a line of equal ones is a point. */
static void put_shares(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m) {
    double low, high;
    size_t n = 0;
    smoe_drawing_range(d, d->row->x, NULL, &low, &high);
    for (size_t r = rows->first; r <= rows->last; r++)
        if (smoe_drawing_has(d, rows->first, rows->first, r) &&
            isfinite(smoe_drawing_number(d, r, d->row->x)))
            d->value[n++] = smoe_drawing_number(d, r, d->row->x);
    qsort(d->value, n, sizeof *d->value, rising);
    fprintf(out, "$share%zu << EOD\n%s,share\n%.17g,0\n", m, d->row->x, low);
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || d->value[i + 1] > d->value[i])
            fprintf(out, "%.17g,%.17g\n", d->value[i], (double)(i + 1) / (double)n);
    fprintf(out, "%.17g,1\nEOD\n", high);
}

static void put_share(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m) {
    (void)d;
    (void)rows;
    fprintf(out, "$share%zu using 1:2", m);
}

/* How many different values the first or the last column of z has before that of this line. */
static size_t place_in(const smoe_drawing *d, size_t line, bool last) {
    char name[SMOE_DRAWING_NAME], next[SMOE_DRAWING_NAME];
    size_t place = 0;
    smoe_figure_word(d->z, 0, name, sizeof name);
    for (size_t i = 1; last && smoe_figure_word(d->z, i, next, sizeof next); i++)
        memcpy(name, next, sizeof name);
    size_t column = smoe_frame_find(d->f, name);
    for (size_t i = 0; i < line; i++) {
        if (smoe_cells_agree(d->f, column, d->line[i], d->line[line])) break;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = smoe_cells_agree(d->f, column, d->line[k], d->line[i]);
        place += !seen;
    }
    return place;
}

/* Of lines that differ in one column, by its order. In two: the colour is of the first, the dashes
 * are of the second. Of one line, or the second of two columns of y: of the column. */
static void put_line(FILE *out, const smoe_drawing *d, size_t m) {
    size_t i = m / d->each, k = m % d->each, dashes = k;
    const char *colour = colours[k % 6];
    char buf[8];
    if (strchr(d->z, ' ')) {
        colour = colours[place_in(d, i, false) % 6];
        dashes = place_in(d, i, true);
    } else if (*d->z) {
        size_t z = smoe_frame_find(d->f, d->z);
        bool text = d->f->column[z].text;
        bool none = !text && !isfinite(smoe_frame_number_at(d->f, d->line[i], z));
        colour = none ? ink : colour_of(i, d->lines, !text, buf);
    } else {
        dashes = 0;
    }
    fprintf(out, " with %s lw 2 lc rgb '%s'", d->kind->style, colour);
    if (dashes) fprintf(out, " dt %zu", dashes % 5 + 1);
}

static void say_line(const smoe_drawing *d, size_t m, char text[SMOE_DRAWING_LABEL]) {
    char y[SMOE_DRAWING_NAME], buf[SMOE_DRAWING_NAME];
    *text = '\0';
    if (*d->z) smoe_drawing_say_row(d->f, d->z, d->line[m / d->each], 60, text);
    if (d->each == 1) return;
    size_t used = strlen(text);
    snprintf(text + used, SMOE_DRAWING_LABEL - used, "%s%s", used ? ", " : "",
             smoe_figure_say(smoe_drawing_y(d, m % d->each, y), buf, sizeof buf));
}

/* The widest is drawn first; the mean is the last. */
static const char *const bands[][3] = {{"p0.5", "p99.5", "central 99%"},
                                       {"p2.5", "p97.5", "95%"},
                                       {"p5", "p95", "90%"},
                                       {"p10", "p90", "80%"},
                                       {"p20", "p80", "60%"}};
static const char *const band_colours[] = {"#dceaf5", "#b7d5ea", "#8dbcde", "#5f9fcc", "#3a82b6"};
enum { BANDS = sizeof bands / sizeof *bands };

static void put_band(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m) {
    smoe_drawing_put_rows(out, d, rows);
    if (m < BANDS)
        fprintf(out, ":(column(\"%s\")):(column(\"%s\"))", bands[m][0], bands[m][1]);
    else
        fprintf(out, ":(column(\"%s\"))", d->row->y);
}

static void put_band_style(FILE *out, const smoe_drawing *d, size_t m) {
    (void)d;
    if (m < BANDS)
        fprintf(out, " with filledcurves fc rgb '%s' fs solid noborder", band_colours[m]);
    else
        fprintf(out, " with lines lw 2 lc rgb '%s'", ink);
}

static void say_band(const smoe_drawing *d, size_t m, char text[SMOE_DRAWING_LABEL]) {
    (void)d;
    snprintf(text, SMOE_DRAWING_LABEL, "%s", m < BANDS ? bands[m][2] : "mean");
}

/* Bars upon one another are drawn from the tallest, the sum of all, down. */
static void put_bars(FILE *out, const smoe_drawing *d, const smoe_span *rows, size_t m) {
    char y[SMOE_DRAWING_NAME];
    smoe_drawing_put_rows(out, d, rows);
    fputs(":(", out);
    for (size_t k = 0; k < d->each - m; k++)
        fprintf(out, "%scolumn(\"%s\")", k ? " + " : "", smoe_drawing_y(d, k, y));
    fputc(')', out);
}

static void put_bar_style(FILE *out, const smoe_drawing *d, size_t m) {
    fprintf(out, " with boxes fs solid noborder lc rgb '%s'", colours[(d->each - 1 - m) % 6]);
}

static void say_bar(const smoe_drawing *d, size_t m, char text[SMOE_DRAWING_LABEL]) {
    char y[SMOE_DRAWING_NAME], buf[SMOE_DRAWING_NAME];
    *text = '\0';
    if (d->each > 1)
        snprintf(text, SMOE_DRAWING_LABEL, "%s",
                 smoe_figure_say(smoe_drawing_y(d, d->each - 1 - m, y), buf, sizeof buf));
}

const smoe_mark_kind smoe_mark_kinds[] = {
    [SMOE_FIGURE_LINES] = {"lines", "linespoints pt 7 ps 0.5", 0, NULL, put_y, put_line, say_line},
    [SMOE_FIGURE_STEPS] = {"steps", "steps", 0, NULL, put_y, put_line, say_line},
    [SMOE_FIGURE_HISTOGRAM] = {"histogram", "histeps", 0, NULL, put_y, put_line, say_line},
    [SMOE_FIGURE_CUMULATIVE] = {"cumulative", "steps", 0, put_shares, put_share, put_line,
                                say_line},
    [SMOE_FIGURE_BANDS] = {"bands", NULL, BANDS + 1, NULL, put_band, put_band_style, say_band},
    [SMOE_FIGURE_BARS] = {"bars", NULL, 0, NULL, put_bars, put_bar_style, say_bar},
    [SMOE_FIGURE_HEAT] = {.name = "heat"},
};

const char *smoe_figure_kind_name(smoe_figure_kind which) {
    return smoe_mark_kinds[which].name;
}
