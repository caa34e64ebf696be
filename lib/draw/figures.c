/*
 * Figures by gnuplot from the tables beside them; see figures.h and figures.def. A panel and a line
 * are rows of a table: scripts name the first and the last by number, since a run's name may hold
 * anything, and leave out those between that belong to others. What no table holds as it is drawn,
 * shares of rows, is in the script itself. The rows of a run lie together, so what sets others
 * apart is never a run.
 */
#include "draw/figures.h"
#include "base/file.h"
#include "draw/gnuplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIGNED = SMOE_FIGURE_SIGNED,
    STACKED = SMOE_FIGURE_STACKED,
    ZERO = SMOE_FIGURE_ZERO,
    NAME = 64,         /* bytes of a column name */
    LABEL = 256,       /* bytes of a title */
    PANEL_WIDTH = 360, /* pixels; larger where there is one alone */
    PANEL_HEIGHT = 290,
    TITLE_HEIGHT = 40,
    BOXES = 4096, /* cells of a panel drawn as boxes; more become an image */
    TICKS = 16    /* names along the vertical axis at most; half as many along the other */
};

static const smoe_figure_row figures[] = {
#define FIGURE(name, kind, frame, panel, x, y, z, x_name, y_name, x_title, y_title, flags) \
    {#name, SMOE_FIGURE_##kind, frame, panel, x, y, z, x_name, y_name, x_title, y_title, flags},
#include "draw/figures.def"
#undef FIGURE
};
enum { FIGURES = sizeof figures / sizeof *figures };

const smoe_figure_row *smoe_figure_row_at(size_t i) {
    return i < FIGURES ? &figures[i] : NULL;
}

const char *smoe_figure_word(const char *list, size_t i, char *buf, size_t size) {
    for (;; i--) {
        list += strspn(list, " ");
        size_t length = strcspn(list, " ");
        if (!length) return NULL;
        if (!i) {
            snprintf(buf, size, "%.*s", (int)length, list);
            return buf;
        }
        list += length;
    }
}

static const struct {
    const char *name, *words;
} words[] = {
#define WORD(name, words) {name, words},
#include "draw/words.def"
#undef WORD
};

const char *smoe_figure_words(size_t i, const char **shown) {
    if (i >= sizeof words / sizeof *words) return NULL;
    *shown = words[i].words;
    return words[i].name;
}

const char *smoe_figure_say(const char *name, char *buf, size_t size) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name)) return words[i].words;
    snprintf(buf, size, "%s", name);
    for (char *c = buf; *c; c++)
        if (*c == '_') *c = ' ';
    return buf;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows that belong together. */
typedef struct span {
    size_t first, last; /* between them may lie rows of others */
    bool whole;         /* no, they are all its own */
} span;

/* A figure being drawn. A mark is what the key has an entry for: a line, a band, bars of one
 * colour; of every line of the panels, which differ in z, there is one for each of the columns of
 * y. */
typedef struct drawing {
    const struct kind *kind;
    const smoe_frame *f;
    const smoe_figure_row *row;
    const char *z;        /* of the row; without `run` where there is one only */
    span *panel;          /* [panels] */
    size_t *line;         /* [lines] rows of the frame that begin them */
    size_t panels, lines; /* lines: at least 1 */
    size_t each;          /* marks of a line */
    double *value;        /* [rows of the frame] room for those of a mark */
} drawing;

typedef struct kind {
    const char *name;
    const char *style; /* of lines, after `with` */
    /* Data that the table does not hold as they are drawn, ahead of the plot; NULL: none. */
    void (*put_block)(FILE *out, const drawing *d, const span *rows, size_t m);
    /* Columns of data for mark m, then how it is drawn, then its entry in the key ("": none). */
    void (*put_data)(FILE *out, const drawing *d, const span *rows, size_t m);
    void (*put_style)(FILE *out, const drawing *d, size_t m);
    void (*entry)(const drawing *d, size_t m, char text[LABEL]);
} kind;

static bool same_cell(const smoe_frame *f, size_t column, size_t a, size_t b) {
    if (f->column[column].text)
        return !strcmp(smoe_frame_text_at(f, a, column), smoe_frame_text_at(f, b, column));
    double x = smoe_frame_number_at(f, a, column), y = smoe_frame_number_at(f, b, column);
    return x == y || (isnan(x) && isnan(y));
}

/* Do two rows agree in every column of the list? */
static bool alike(const smoe_frame *f, const char *list, size_t a, size_t b) {
    char name[NAME];
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++)
        if (!same_cell(f, smoe_frame_find(f, name), a, b)) return false;
    return true;
}

static double number_at(const drawing *d, size_t row, const char *column) {
    return smoe_frame_number_at(d->f, row, smoe_frame_find(d->f, column));
}

/* A cell of a heat map without a place (a class token) is no cell. */
static bool drawable(const drawing *d, size_t r) {
    return d->row->kind != SMOE_FIGURE_HEAT ||
           (isfinite(number_at(d, r, d->row->x)) && isfinite(number_at(d, r, d->row->y)));
}

static void find_panels(drawing *d) {
    for (size_t r = 0; r < d->f->rows; r++) {
        size_t p = d->panels;
        if (!drawable(d, r)) continue;
        while (p && !alike(d->f, d->row->panel, d->panel[p - 1].first, r)) p--;
        if (!p) {
            d->panel[d->panels++] = (span){r, r, true};
            continue;
        }
        if (r != d->panel[p - 1].last + 1) d->panel[p - 1].whole = false;
        d->panel[p - 1].last = r;
    }
}

static void find_lines(drawing *d) {
    d->lines = 1;
    d->line[0] = d->panel[0].first;
    for (size_t r = d->line[0]; *d->z && r < d->f->rows; r++) {
        size_t i = d->lines;
        while (i && !alike(d->f, d->z, d->line[i - 1], r)) i--;
        if (!i) d->line[d->lines++] = r;
    }
}

/* The k-th column of y. */
static const char *y_of(const drawing *d, size_t k, char buf[NAME]) {
    return smoe_figure_word(d->row->y, k, buf, NAME);
}

/* Is a row one of the panel that begins at `panel`, and of the line that begins at `line`? */
static bool belongs(const drawing *d, size_t panel, size_t line, size_t r) {
    return alike(d->f, d->row->panel, panel, r) && (!*d->z || alike(d->f, d->z, line, r));
}

/* The rows of a panel that have something for mark m; false where there are none. */
static bool find_rows(const drawing *d, const span *panel, size_t m, span *rows) {
    char y[NAME];
    size_t line = d->line[m / d->each], count = 0;
    const char *needed = y_of(d, m % d->each, y) ? y : d->row->y;
    for (size_t r = panel->first; r <= panel->last; r++) {
        if (!belongs(d, panel->first, line, r)) continue;
        if (*needed && !strchr(needed, ' ') && !isfinite(number_at(d, r, needed))) continue;
        if (!count) rows->first = r;
        rows->last = r;
        count++;
    }
    rows->whole = count && count == rows->last - rows->first + 1;
    return count > 0;
}

/* The least and the largest number of some columns in a panel, or in all (NULL); both 0 where there
 * is none. Returns whether all are whole. */
static bool find_range(const drawing *d, const char *list, const span *p, double *low,
                       double *high) {
    char name[NAME];
    bool whole = true;
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++)
        for (size_t r = p ? p->first : 0; r <= (p ? p->last : d->f->rows - 1); r++) {
            double v = number_at(d, r, name);
            if (!isfinite(v) || (p && !alike(d->f, d->row->panel, p->first, r))) continue;
            *low = fmin(*low, v);
            *high = fmax(*high, v);
            whole &= v == rint(v);
        }
    if (!(*low <= *high)) *low = *high = 0;
    return whole;
}

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
    char name[NAME];
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

/* The file, its rows, and X, which is no number in rows of others: gnuplot leaves those out. */
static void put_rows(FILE *out, const drawing *d, const span *rows) {
    fprintf(out, "'%s.csv' every ::%zu::%zu using (", d->f->name, rows->first, rows->last);
    if (!rows->whole) {
        put_condition(out, d->f, d->row->panel, rows->first);
        put_condition(out, d->f, d->z, rows->first);
        fputs("1 ? ", out);
    }
    fprintf(out, "column(\"%s\")%s)", d->row->x, rows->whole ? "" : " : NaN");
}

/* What sets the rows of a list of columns apart, in words: "soft, block 3". Of a long name of a run
 * its end. */
static void say_row(const smoe_frame *f, const char *list, size_t row, size_t most,
                    char text[LABEL]) {
    char name[NAME], buf[LABEL];
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name) && used < LABEL; i++) {
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
            used += (size_t)snprintf(text + used, LABEL - used, "%s%s%s", comma, dots, cell);
        } else if (isfinite(number)) {
            used += (size_t)snprintf(text + used, LABEL - used, "%s%s %g", comma, name, number);
        } else {
            used += (size_t)snprintf(text + used, LABEL - used, "%swhole model", comma);
        }
    }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void put_y(FILE *out, const drawing *d, const span *rows, size_t m) {
    char y[NAME];
    put_rows(out, d, rows);
    fprintf(out, ":(column(\"%s\"))", y_of(d, m % d->each, y));
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The share of values that are at most x, from 0 at the least x of the figure to 1 at the largest.
 * gnuplot's own sums leave out the step at the least value: a line of equal ones is a point. */
static void put_shares(FILE *out, const drawing *d, const span *rows, size_t m) {
    double low, high;
    size_t n = 0;
    find_range(d, d->row->x, NULL, &low, &high);
    for (size_t r = rows->first; r <= rows->last; r++)
        if (belongs(d, rows->first, rows->first, r) && isfinite(number_at(d, r, d->row->x)))
            d->value[n++] = number_at(d, r, d->row->x);
    qsort(d->value, n, sizeof *d->value, rising);
    fprintf(out, "$share%zu << EOD\n%s,share\n%.17g,0\n", m, d->row->x, low);
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || d->value[i + 1] > d->value[i])
            fprintf(out, "%.17g,%.17g\n", d->value[i], (double)(i + 1) / (double)n);
    fprintf(out, "%.17g,1\nEOD\n", high);
}

static void put_share(FILE *out, const drawing *d, const span *rows, size_t m) {
    (void)d;
    (void)rows;
    fprintf(out, "$share%zu using 1:2", m);
}

/* How many different values the first or the last column of z has before that of this line. */
static size_t place_in(const drawing *d, size_t line, bool last) {
    char name[NAME], next[NAME];
    size_t place = 0;
    smoe_figure_word(d->z, 0, name, sizeof name);
    for (size_t i = 1; last && smoe_figure_word(d->z, i, next, sizeof next); i++)
        memcpy(name, next, sizeof name);
    size_t column = smoe_frame_find(d->f, name);
    for (size_t i = 0; i < line; i++) {
        if (same_cell(d->f, column, d->line[i], d->line[line])) break;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = same_cell(d->f, column, d->line[k], d->line[i]);
        place += !seen;
    }
    return place;
}

/* Of lines that differ in one column, by its order. In two: the colour is of the first, the dashes
 * are of the second. Of one line, or the second of two columns of y: of the column. */
static void put_line(FILE *out, const drawing *d, size_t m) {
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

static void say_line(const drawing *d, size_t m, char text[LABEL]) {
    char y[NAME], buf[NAME];
    *text = '\0';
    if (*d->z) say_row(d->f, d->z, d->line[m / d->each], 60, text);
    if (d->each == 1) return;
    size_t used = strlen(text);
    snprintf(text + used, LABEL - used, "%s%s", used ? ", " : "",
             smoe_figure_say(y_of(d, m % d->each, y), buf, sizeof buf));
}

/* The widest is drawn first; the mean is the last. */
static const char *const bands[][3] = {{"p0.5", "p99.5", "central 99%"},
                                       {"p2.5", "p97.5", "95%"},
                                       {"p5", "p95", "90%"},
                                       {"p10", "p90", "80%"},
                                       {"p20", "p80", "60%"}};
static const char *const band_colours[] = {"#dceaf5", "#b7d5ea", "#8dbcde", "#5f9fcc", "#3a82b6"};
enum { BANDS = sizeof bands / sizeof *bands };

static void put_band(FILE *out, const drawing *d, const span *rows, size_t m) {
    put_rows(out, d, rows);
    if (m < BANDS)
        fprintf(out, ":(column(\"%s\")):(column(\"%s\"))", bands[m][0], bands[m][1]);
    else
        fprintf(out, ":(column(\"%s\"))", d->row->y);
}

static void put_band_style(FILE *out, const drawing *d, size_t m) {
    (void)d;
    if (m < BANDS)
        fprintf(out, " with filledcurves fc rgb '%s' fs solid noborder", band_colours[m]);
    else
        fprintf(out, " with lines lw 2 lc rgb '%s'", ink);
}

static void say_band(const drawing *d, size_t m, char text[LABEL]) {
    (void)d;
    snprintf(text, LABEL, "%s", m < BANDS ? bands[m][2] : "mean");
}

/* Bars upon one another are drawn from the tallest, the sum of all, down. */
static void put_bars(FILE *out, const drawing *d, const span *rows, size_t m) {
    char y[NAME];
    put_rows(out, d, rows);
    fputs(":(", out);
    for (size_t k = 0; k < d->each - m; k++)
        fprintf(out, "%scolumn(\"%s\")", k ? " + " : "", y_of(d, k, y));
    fputc(')', out);
}

static void put_bar_style(FILE *out, const drawing *d, size_t m) {
    fprintf(out, " with boxes fs solid noborder lc rgb '%s'", colours[(d->each - 1 - m) % 6]);
}

static void say_bar(const drawing *d, size_t m, char text[LABEL]) {
    char y[NAME], buf[NAME];
    *text = '\0';
    if (d->each > 1)
        snprintf(text, LABEL, "%s", smoe_figure_say(y_of(d, d->each - 1 - m, y), buf, sizeof buf));
}

static const kind kinds[] = {
    [SMOE_FIGURE_LINES] = {"lines", "linespoints pt 7 ps 0.5", NULL, put_y, put_line, say_line},
    [SMOE_FIGURE_STEPS] = {"steps", "steps", NULL, put_y, put_line, say_line},
    [SMOE_FIGURE_HISTOGRAM] = {"histogram", "histeps", NULL, put_y, put_line, say_line},
    [SMOE_FIGURE_CUMULATIVE] = {"cumulative", "steps", put_shares, put_share, put_line, say_line},
    [SMOE_FIGURE_BANDS] = {"bands", NULL, NULL, put_band, put_band_style, say_band},
    [SMOE_FIGURE_BARS] = {"bars", NULL, NULL, put_bars, put_bar_style, say_bar},
    [SMOE_FIGURE_HEAT] = {"heat", NULL, NULL, NULL, NULL, NULL},
};

const char *smoe_figure_kind_name(smoe_figure_kind which) {
    return kinds[which].name;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* A range for gnuplot to find, from `from` where values are not below it (NAN: free). It complains
 * of one that is a point: that gets 5% of the value around it. */
static void put_range(FILE *out, const char *axis, double low, double high, double from) {
    if (low >= from) low = from;
    double room = fmax(fabs(high) / 20, 1e-3);
    if (low == high)
        fprintf(out, "set %s [%.17g:%.17g]\n", axis, low == from ? low : low - room, high + room);
    else if (low == from)
        fprintf(out, "set %s [%.17g:*]\n", axis, from);
    else
        fprintf(out, "set %s [*:*]\n", axis);
}

/* About six ticks at round numbers, of whole numbers none between. */
static void put_tics(FILE *out, const char *axis, double low, double high, bool whole) {
    double rough = (high - low) / 6, power = pow(10, floor(log10(rough)));
    double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
    if (!(rough > 0) || (whole && step < 1)) step = 1;
    fprintf(out, "set %stics %.10g\n", axis, step);
}

/* An axis of whole numbers, with `room` beyond its ends. */
static void put_whole(FILE *out, const char *axis, double low, double high, double room,
                      bool downwards) {
    double from = low - room, to = high + room;
    if (from == to) from--, to++;
    fprintf(out, "set %srange [%.17g:%.17g]\n", axis, downwards ? to : from, downwards ? from : to);
    put_tics(out, axis, low, high, true);
}

/* Names at ranks along an axis of a heat map, thinned out to `most` of them. */
static void put_names(FILE *out, const drawing *d, const char *axis, const char *rank,
                      const char *name, const span *p, size_t most) {
    const smoe_frame *f = d->f;
    size_t at = smoe_frame_find(f, rank), what = smoe_frame_find(f, name);
    bool seen[TICKS] = {false};
    double low, high;
    find_range(d, rank, p, &low, &high);
    double every = ceil((high + 1) / (double)most);
    fprintf(out, "set %s (", axis);
    const char *comma = "";
    for (size_t r = p->first; r <= p->last; r++) {
        double v = smoe_frame_number_at(f, r, at);
        char number[32];
        if (!isfinite(v) || fmod(v, every) > 0 || seen[(size_t)(v / every)]) continue;
        seen[(size_t)(v / every)] = true;
        if (!f->column[what].text)
            snprintf(number, sizeof number, "%g", smoe_frame_number_at(f, r, what));
        fputs(comma, out);
        smoe_gnuplot_text(out, f->column[what].text ? smoe_frame_text_at(f, r, what) : number);
        fprintf(out, " %g", v);
        comma = ", ";
    }
    fputs(")\n", out);
}

/* ---- heat maps ------------------------------------------------------------------------------- */

/* Does every cell of the panel's rectangle have a number? */
static bool complete(const drawing *d, const span *p) {
    double left, right, top, bottom;
    size_t cells = 0;
    find_range(d, d->row->x, p, &left, &right);
    find_range(d, d->row->y, p, &top, &bottom);
    for (size_t r = p->first; r <= p->last; r++) cells += isfinite(number_at(d, r, d->row->z));
    return (double)cells == (right - left + 1) * (bottom - top + 1);
}

/* A box a cell makes sharp edges and, of many cells, large files: then they become one image, for
 * which gnuplot wants them in order, rows after one another. Sorting is what `smooth unique` does.
 */
static void put_image(FILE *out, const drawing *d, const span *p) {
    const smoe_figure_row *row = d->row;
    double low, high;
    find_range(d, row->x, p, &low, &high);
    size_t n = (size_t)high + 1;
    fprintf(out,
            "set format x '%%.0f'\nset table $grid separator whitespace\n"
            "plot '%s.csv' every ::%zu::%zu using "
            "(column(\"%s\") * %zu + column(\"%s\")):(column(\"%s\")) smooth unique\n"
            "unset table\nset format x\n"
            "set datafile separator whitespace\nset datafile nocolumnheaders\n"
            "plot $grid using (int($1) %% %zu):(int($1) / %zu):2 with image notitle\n"
            "set datafile separator comma\nset datafile columnheaders",
            d->f->name, p->first, p->last, row->y, n, row->x, row->z, n, n);
}

static void put_heat_axis(FILE *out, const drawing *d, const char *axis, const char *column,
                          const char *name, const span *p, size_t most) {
    double low, high;
    char tics[8];
    find_range(d, column, p, &low, &high);
    put_whole(out, axis, low, high, 0.5, *axis == 'y');
    snprintf(tics, sizeof tics, "%stics", axis);
    if (*name) put_names(out, d, tics, column, name, p, most);
}

/* All panels have one scale, from 0 unless all cells are nearly alike: then what differs would not
 * be seen. */
static void put_heat(FILE *out, const drawing *d, const span *p) {
    const smoe_figure_row *row = d->row;
    char text[LABEL];
    double low, high;
    find_range(d, row->z, NULL, &low, &high);
    if (low <= high / 2) low = fmin(low, 0);
    if (!(row->flags & SIGNED))
        fprintf(out, "set cbrange [%.17g:%.17g]\n", low, high > low ? high : low + 0.5);
    fputs("set cblabel ", out);
    smoe_gnuplot_text(out, smoe_figure_say(row->z, text, sizeof text));
    fputc('\n', out);
    put_heat_axis(out, d, "x", row->x, row->x_name, p, TICKS / 2);
    put_heat_axis(out, d, "y", row->y, row->y_name, p, TICKS);
    if (p->last - p->first >= BOXES && complete(d, p)) {
        put_image(out, d, p);
        return;
    }
    fputs("plot ", out);
    put_rows(out, d, p);
    fprintf(
        out,
        ":(column(\"%s\")):(column(\"%s\") - 0.5):(column(\"%s\") + 0.5):(column(\"%s\") - 0.5):"
        "(column(\"%s\") + 0.5):(column(\"%s\")) with boxxyerror fs solid noborder lc palette "
        "notitle",
        row->y, row->x, row->x, row->y, row->y, row->z);
}

/* ---- the script ------------------------------------------------------------------------------ */

/* Pixels. The key is a strip below the title, as wide as the figure. */
typedef struct layout {
    size_t across, down, width, height, key, columns;
    size_t panel_width, panel_height;
} layout;

/* Does the key name this mark? */
static bool in_key(const drawing *d, size_t m, char text[LABEL]) {
    span rows;
    if (!d->kind->entry) return false;
    d->kind->entry(d, m, text);
    for (size_t i = 0; *text && i < d->panels; i++)
        if (find_rows(d, &d->panel[i], m, &rows)) return true;
    return false;
}

static layout lay_out(const drawing *d) {
    layout l = {.across = d->panels < 3 ? d->panels : 3};
    size_t entries = 0, longest = 0;
    char text[LABEL];
    for (size_t m = 0; m < d->lines * d->each; m++) {
        if (!in_key(d, m, text)) continue;
        entries++;
        if (strlen(text) > longest) longest = strlen(text);
    }
    l.down = (d->panels + l.across - 1) / l.across;
    l.panel_width = d->panels > 1 ? PANEL_WIDTH : PANEL_WIDTH * 3 / 2;
    l.panel_height = d->panels > 1 ? PANEL_HEIGHT : PANEL_HEIGHT * 5 / 4;
    l.width = l.across * l.panel_width + 40;
    l.columns = smoe_gnuplot_key_columns(longest, l.width);
    if (l.columns > entries && entries) l.columns = entries;
    if (entries) l.key = ((entries + l.columns - 1) / l.columns) * SMOE_KEY_ROW + 10;
    l.height = TITLE_HEIGHT + l.key + l.down * l.panel_height;
    return l;
}

static void put_place(FILE *out, const layout *l, size_t left, size_t top, size_t width,
                      size_t height) {
    fprintf(out, "set origin %.4f,%.4f\nset size %.4f,%.4f\n", (double)left / (double)l->width,
            1 - (double)(top + height) / (double)l->height, (double)width / (double)l->width,
            (double)height / (double)l->height);
}

static void put_head(FILE *out, const drawing *d, const layout *l) {
    const smoe_figure_row *row = d->row;
    fprintf(out,
            "# Draws %s.svg from %s.csv: gnuplot %s.gp\n"
            "set terminal svg size %zu,%zu font 'sans,12' noenhanced background '#ffffff'\n"
            "set output '%s.svg'\n"
            "set datafile separator comma\n"
            "set datafile columnheaders\n"
            "set datafile missing NaN\n"
            "set border 3 lc rgb '#5d666f'\n"
            "set tics nomirror\n"
            "set boxwidth 0.8 relative\n",
            row->name, d->f->name, row->name, l->width, l->height, row->name);
    fputs(row->flags & SIGNED ? "set palette defined (-1 '#14548c', -0.5 '#7aaad0', 0 '#f7f6f3', "
                                "0.5 '#e7a06a', 1 '#ac4a0e')\nset cbrange [-1:1]\n"
                              : "set palette defined (0 '#f6f8fa', 0.25 '#c6d9e8', 0.5 '#7aaad0', "
                                "0.75 '#2e6ca0', 1 '#0c2c54')\n",
          out);
    if (row->kind != SMOE_FIGURE_HEAT) fputs("set grid lc rgb '#e2dfd9' dt 1\n", out);
    fputs("set multiplot title ", out);
    smoe_gnuplot_text(out, d->f->title);
    fputc('\n', out);
}

/* A plot of nothing, for its key. */
static void put_key(FILE *out, const drawing *d, const layout *l) {
    char text[LABEL];
    size_t entries = 0;
    if (!l->key) return;
    put_place(out, l, 0, TITLE_HEIGHT, l->width, l->key);
    fprintf(out,
            "unset border\nunset xtics\nunset ytics\nset margins 0,0,0,0\n"
            "set key center center horizontal Left reverse samplen 2 maxcols %zu\n",
            l->columns);
    for (size_t m = 0; m < d->lines * d->each; m++) {
        if (!in_key(d, m, text)) continue;
        fputs(entries++ ? ", \\\n     NaN" : "plot [0:1][0:1] NaN", out);
        d->kind->put_style(out, d, m);
        fputs(" title ", out);
        smoe_gnuplot_text(out, text);
    }
    fputs("\nset border 3 lc rgb '#5d666f'\nset xtics nomirror\nset ytics nomirror\nset margins "
          "-1,-1,-1,-1\n",
          out);
}

static void put_axes(FILE *out, const drawing *d, const span *p) {
    const smoe_figure_row *row = d->row;
    bool bars = row->kind == SMOE_FIGURE_BARS;
    double low, high;
    if (row->kind == SMOE_FIGURE_HEAT) return;
    if (find_range(d, row->x, bars ? p : NULL, &low, &high)) {
        put_whole(out, "x", low, high, bars ? 0.5 : 0, false);
    } else {
        put_range(out, "xrange", low, high, NAN);
        put_tics(out, "x", low, high, false);
    }
    find_range(d, row->y, p, &low, &high);
    if (row->kind == SMOE_FIGURE_BANDS || row->kind == SMOE_FIGURE_CUMULATIVE)
        fputs("set yrange [0:1]\n", out);
    else if (*row->y)
        put_range(out, "yrange", low, high, row->flags & ZERO ? 0 : NAN);
}

/* Without a title for y, a panel's name is that. */
static void put_panel(FILE *out, const drawing *d, const span *p) {
    char text[LABEL];
    const char *y = *d->row->y_title ? d->row->y_title : text;
    size_t marks = 0;
    span rows;
    say_row(d->f, d->row->panel, p->first, 36, text);
    fputs("set title ", out);
    smoe_gnuplot_text(out, y == text ? "" : text);
    fputs("\nset xlabel ", out);
    smoe_gnuplot_text(out, d->row->x_title);
    fputs("\nset ylabel ", out);
    smoe_gnuplot_text(out, y);
    fputc('\n', out);
    put_axes(out, d, p);
    if (d->row->kind == SMOE_FIGURE_HEAT) put_heat(out, d, p);
    for (size_t m = 0; d->kind->put_block && m < d->lines * d->each; m++)
        if (find_rows(d, p, m, &rows)) d->kind->put_block(out, d, &rows, m);
    for (size_t m = 0; d->kind->put_data && m < d->lines * d->each; m++) {
        if (!find_rows(d, p, m, &rows)) continue;
        fputs(marks++ ? ", \\\n     " : "plot ", out);
        d->kind->put_data(out, d, &rows, m);
        d->kind->put_style(out, d, m);
        fputs(" notitle", out);
    }
    fputc('\n', out);
}

static int put_script(FILE *out, const void *context, smoe_err *err) {
    const drawing *d = context;
    const layout l = lay_out(d);
    (void)err;
    put_head(out, d, &l);
    put_key(out, d, &l);
    for (size_t i = 0; i < d->panels; i++) {
        put_place(out, &l, 20 + i % l.across * l.panel_width,
                  TITLE_HEIGHT + l.key + i / l.across * l.panel_height, l.panel_width,
                  l.panel_height);
        put_panel(out, d, &d->panel[i]);
    }
    fputs("unset multiplot\n", out);
    return 0;
}

/* One figure; *panels 0 where there is nothing to draw. */
static int write_figure(const smoe_frame *f, const smoe_figure_row *row, const char *folder,
                        size_t *panels, bool *drawn, smoe_err *err) {
    char y[NAME];
    drawing d = {.kind = &kinds[row->kind],
                 .f = f,
                 .row = row,
                 .z = row->kind == SMOE_FIGURE_HEAT ? "" : row->z};
    int status = 0;
    if (!strncmp(d.z, "run ", 4) && same_cell(f, 0, 0, f->rows - 1)) d.z += 4;
    while (smoe_figure_word(row->y, d.each, y, sizeof y)) d.each++;
    if (row->kind == SMOE_FIGURE_BANDS) d.each = BANDS + 1;
    if (!d.each) d.each = 1;
    d.panel = calloc(f->rows, sizeof *d.panel);
    d.line = calloc(f->rows, sizeof *d.line);
    d.value = calloc(f->rows, sizeof *d.value);
    if (!d.panel || !d.line || !d.value) {
        status = smoe_fail(err, SMOE_RUNTIME, "%s/%s.gp: out of memory", folder, row->name);
        goto out;
    }
    find_panels(&d);
    if (d.panels) {
        find_lines(&d);
        status = smoe_gnuplot_draw(folder, row->name, put_script, &d, drawn, err);
    }
    *panels = d.panels;
out:
    free(d.panel);
    free(d.line);
    free(d.value);
    return status;
}

/* What an earlier call drew. */
static int remove_figure(const smoe_figure_row *row, const char *folder, smoe_err *err) {
    static const char *const endings[] = {"gp", "svg"};
    int status = 0;
    for (size_t i = 0; i < 2 && !status; i++) {
        char *path = smoe_text_format("%s/%s.%s", folder, row->name, endings[i]);
        status = path ? smoe_file_remove(path, err) : smoe_fail(err, SMOE_RUNTIME, "out of memory");
        free(path);
    }
    return status;
}

int smoe_figures_write(const smoe_frame *frames, size_t count, const char *folder, size_t *scripts,
                       size_t *drawn, smoe_err *err) {
    *scripts = *drawn = 0;
    for (size_t i = 0; i < FIGURES; i++) {
        const smoe_frame *f = smoe_frames_find(frames, count, figures[i].frame);
        size_t panels = 0;
        bool done = false;
        if (f && f->rows && write_figure(f, &figures[i], folder, &panels, &done, err)) return -1;
        if (!panels && remove_figure(&figures[i], folder, err)) return -1;
        *scripts += panels > 0;
        *drawn += done;
    }
    return 0;
}
