/*
 * Figures by gnuplot from the tables beside them; see figures.h and figures.def. A panel is a
 * stretch of rows of one run: its scripts name rows by number, since a run's name may hold anything,
 * and pick the rows of a line by the number or word in its column.
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
    SERIES = 64,       /* lines of a panel at most */
    PANEL_WIDTH = 360, /* pixels; larger where there is one alone */
    PANEL_HEIGHT = 290,
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

const char *smoe_figure_kind_name(smoe_figure_kind kind) {
    static const char *const names[] = {"lines", "steps", "histogram", "cumulative",
                                        "bands", "bars",  "heat"};
    return names[kind];
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

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct panel {
    size_t first, last; /* rows; between them may lie rows of other panels of the run */
    bool whole;         /* no, they are all its own */
} panel;

static bool same_cell(const smoe_frame *f, size_t column, size_t a, size_t b) {
    if (f->column[column].text)
        return !strcmp(smoe_frame_text_at(f, a, column), smoe_frame_text_at(f, b, column));
    double x = smoe_frame_number_at(f, a, column), y = smoe_frame_number_at(f, b, column);
    return x == y || (isnan(x) && isnan(y));
}

/* Do two rows agree in every column of the list? */
static bool same_panel(const smoe_frame *f, const char *list, size_t a, size_t b) {
    char name[NAME];
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++)
        if (!same_cell(f, smoe_frame_find(f, name), a, b)) return false;
    return true;
}

/* A cell of a heat map without a place (a class token) is no cell. */
static bool drawable(const smoe_frame *f, const smoe_figure_row *row, size_t r) {
    return row->kind != SMOE_FIGURE_HEAT ||
           (isfinite(smoe_frame_number_at(f, r, smoe_frame_find(f, row->x))) &&
            isfinite(smoe_frame_number_at(f, r, smoe_frame_find(f, row->y))));
}

/* The panels in the order of their first rows, in fresh memory; NULL when out of it. */
static panel *find_panels(const smoe_frame *f, const smoe_figure_row *row, size_t *count) {
    panel *panels = calloc(f->rows + 1, sizeof *panels);
    *count = 0;
    for (size_t r = 0; panels && r < f->rows; r++) {
        size_t p = *count;
        if (!drawable(f, row, r)) continue;
        while (p && !same_panel(f, row->panel, panels[p - 1].first, r)) p--;
        if (!p) {
            panels[(*count)++] = (panel){r, r, true};
            continue;
        }
        if (r != panels[p - 1].last + 1) panels[p - 1].whole = false;
        panels[p - 1].last = r;
    }
    return panels;
}

/* The rows that begin a line of the panel, in their order. */
static size_t find_series(const smoe_frame *f, const smoe_figure_row *row, const panel *p,
                          size_t series[SERIES]) {
    size_t count = 0, z = smoe_frame_find(f, row->z);
    series[0] = p->first;
    if (!*row->z) return 1;
    for (size_t r = p->first; r <= p->last && count < SERIES; r++) {
        bool known = !same_panel(f, row->panel, p->first, r);
        for (size_t i = 0; i < count && !known; i++) known = same_cell(f, z, series[i], r);
        if (!known) series[count++] = r;
    }
    return count;
}

/* ---- the script ------------------------------------------------------------------------------ */

/* Safe to tell apart; Okabe and Ito's colours for lines, a ramp for ordered ones. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9"};
static const char *const ramp[] = {"#3f2c73", "#3f4b8c", "#34688e", "#28838e",
                                   "#219a84", "#45a869", "#7fae45", "#bda428"};

static const char *colour_of(size_t i, size_t n, bool ordered) {
    return ordered && n > 1 ? ramp[i * 7 / (n - 1)] : colours[i % 6];
}

/* column("x") where the row is of the panel and of the line; rows of others are no number, which
 * gnuplot leaves out. */
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
            fputc('1', out);
        }
        fputs(" && ", out);
    }
}

static void put_rows(FILE *out, const smoe_frame *f, const panel *p) {
    fprintf(out, "'%s.csv' every ::%zu::%zu using ", f->name, p->first, p->last);
}

/* X where the row belongs to the line that begins with row `start`. */
static void put_x(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p,
                  size_t start) {
    bool lines = row->kind <= SMOE_FIGURE_CUMULATIVE;
    bool filtered = !p->whole || (lines && *row->z);
    fputc('(', out);
    if (filtered) {
        if (!p->whole) put_condition(out, f, row->panel, start);
        if (lines) put_condition(out, f, row->z, start);
        fputs("1 ? ", out);
    }
    fprintf(out, "column(\"%s\")%s)", row->x, filtered ? " : NaN" : "");
}

static void put_title(FILE *out, const smoe_frame *f, const smoe_figure_row *row, size_t start,
                      const char *y) {
    char text[128] = "";
    size_t z = smoe_frame_find(f, row->z), used = 0;
    if (*row->z && f->column[z].text)
        used = (size_t)snprintf(text, sizeof text, "%s", smoe_frame_text_at(f, start, z));
    else if (*row->z && isfinite(smoe_frame_number_at(f, start, z)))
        used =
            (size_t)snprintf(text, sizeof text, "%s %g", row->z, smoe_frame_number_at(f, start, z));
    if (y && used < sizeof text)
        snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", y);
    fputs(*text ? " title " : " notitle", out);
    if (*text) smoe_gnuplot_text(out, text);
}

static void put_lines(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    static const char *const styles[] = {"linespoints pt 7 ps 0.5", "steps", "histeps", "lines"};
    size_t series[SERIES], n = find_series(f, row, p, series), lines = 0;
    char y[NAME];
    bool several = smoe_figure_word(row->y, 1, y, sizeof y) != NULL;
    bool ordered = *row->z && !f->column[smoe_frame_find(f, row->z)].text;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k == 0 || smoe_figure_word(row->y, k, y, sizeof y); k++) {
            fputs(lines++ ? ", \\\n     " : "plot ", out);
            put_rows(out, f, p);
            put_x(out, f, row, p, series[i]);
            if (row->kind == SMOE_FIGURE_CUMULATIVE)
                fputs(":(1) smooth cnormal", out);
            else
                fprintf(out, ":(column(\"%s\"))", smoe_figure_word(row->y, k, y, sizeof y));
            fprintf(out, " with %s lw 2 lc rgb '%s'%s", styles[row->kind],
                    *row->z ? colour_of(i, n, ordered) : colours[k % 6],
                    *row->z && k ? " dt 2" : "");
            put_title(out, f, row, series[i], several ? y : NULL);
        }
}

static void put_bands(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    static const char *const pairs[][3] = {{"p0.5", "p99.5", "99%"},
                                           {"p2.5", "p97.5", "95%"},
                                           {"p5", "p95", "90%"},
                                           {"p10", "p90", "80%"},
                                           {"p20", "p80", "60%"}};
    fputs("plot ", out);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        put_rows(out, f, p);
        put_x(out, f, row, p, p->first);
        fprintf(out,
                ":(column(\"%s\")):(column(\"%s\")) with filledcurves fc rgb '%s' "
                "fs transparent solid 0.18 noborder title 'central %s', \\\n     ",
                pairs[i][0], pairs[i][1], colours[0], pairs[i][2]);
    }
    put_rows(out, f, p);
    put_x(out, f, row, p, p->first);
    fprintf(out, ":(column(\"%s\")) with lines lw 2 lc rgb '%s' title 'mean'", row->y, colours[0]);
}

/* Bars upon one another are drawn from the tallest, the sum of all, down. */
static void put_bars(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    char y[NAME];
    size_t n = 0;
    while (smoe_figure_word(row->y, n, y, sizeof y)) n++;
    for (size_t k = n; k-- > 0;) {
        fputs(k + 1 == n ? "plot " : ", \\\n     ", out);
        put_rows(out, f, p);
        put_x(out, f, row, p, p->first);
        fputs(":(", out);
        for (size_t i = 0; i <= k; i++)
            fprintf(out, "%scolumn(\"%s\")", i ? " + " : "",
                    smoe_figure_word(row->y, i, y, sizeof y));
        fprintf(out, ") with boxes fs solid noborder lc rgb '%s'", colours[k % 6]);
        put_title(out, f, row, p->first, n > 1 ? smoe_figure_word(row->y, k, y, sizeof y) : NULL);
    }
}

/* The least and the largest number of the panel in some columns; both 0 where there is none. */
static void find_range(const smoe_frame *f, const smoe_figure_row *row, const char *list,
                       const panel *p, double *low, double *high) {
    char name[NAME];
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++)
        for (size_t r = p->first; r <= p->last; r++) {
            double v = smoe_frame_number_at(f, r, smoe_frame_find(f, name));
            if (!isfinite(v) || !same_panel(f, row->panel, p->first, r)) continue;
            *low = fmin(*low, v);
            *high = fmax(*high, v);
        }
    if (!(*low <= *high)) *low = *high = 0;
}

/* A range for gnuplot to find, from `from` where values are not below it (NAN: free). It complains
 * of one that is a point: that is widened. */
static void put_range(FILE *out, const char *axis, double low, double high, double from) {
    if (low >= from) low = from;
    if (low == high)
        fprintf(out, "set %s [%.17g:%.17g]\n", axis, low - (isnan(from) ? 0.5 : 0), high + 0.5);
    else if (low == from)
        fprintf(out, "set %s [%.17g:*]\n", axis, from);
    else
        fprintf(out, "set %s [*:*]\n", axis);
}

/* Names at ranks along an axis of a heat map, thinned out to `most` of them. */
static void put_names(FILE *out, const smoe_frame *f, const char *axis, const char *rank,
                      const char *name, const panel *p, const smoe_figure_row *row, size_t most) {
    size_t at = smoe_frame_find(f, rank), what = smoe_frame_find(f, name);
    bool seen[TICKS] = {false};
    double low, high;
    find_range(f, row, rank, p, &low, &high);
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

/* Does every cell of the panel's rectangle have a number? */
static bool complete(const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    double left, right, top, bottom;
    size_t z = smoe_frame_find(f, row->z), cells = 0;
    find_range(f, row, row->x, p, &left, &right);
    find_range(f, row, row->y, p, &top, &bottom);
    for (size_t r = p->first; r <= p->last; r++) cells += isfinite(smoe_frame_number_at(f, r, z));
    return (double)cells == (right - left + 1) * (bottom - top + 1);
}

/* A box a cell makes sharp edges and, of many cells, large files: then they become one image, for
 * which gnuplot wants them in order, rows after one another. Sorting is what `smooth unique` does. */
static void put_image(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    double low, high;
    find_range(f, row, row->x, p, &low, &high);
    size_t n = (size_t)high + 1;
    fputs("set format x '%.0f'\nset table $grid separator whitespace\nplot ", out);
    put_rows(out, f, p);
    fprintf(out,
            "(column(\"%s\") * %zu + column(\"%s\")):(column(\"%s\")) smooth unique\n"
            "unset table\nset format x\n"
            "set datafile separator whitespace\nset datafile nocolumnheaders\n"
            "plot $grid using (int($1) %% %zu):(int($1) / %zu):2 with image notitle\n"
            "set datafile separator comma\nset datafile columnheaders",
            row->y, n, row->x, row->z, n, n);
}

static void put_heat(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    if (*row->x_name) put_names(out, f, "xtics", row->x, row->x_name, p, row, TICKS / 2);
    if (*row->y_name) put_names(out, f, "ytics", row->y, row->y_name, p, row, TICKS);
    fputs("set xrange [*:*] noextend\nset yrange [*:*] noextend reverse\n", out);
    if (p->last - p->first >= BOXES && complete(f, row, p)) {
        put_image(out, f, row, p);
        return;
    }
    fputs("plot ", out);
    put_rows(out, f, p);
    put_x(out, f, row, p, p->first);
    fprintf(
        out,
        ":(column(\"%s\")):(column(\"%s\") - 0.5):(column(\"%s\") + 0.5):(column(\"%s\") - 0.5):"
        "(column(\"%s\") + 0.5):(column(\"%s\")) with boxxyerror fs solid noborder lc palette "
        "notitle",
        row->y, row->x, row->x, row->y, row->y, row->z);
}

static void put_head(FILE *out, const smoe_frame *f, const smoe_figure_row *row, size_t panels) {
    size_t across = panels < 3 ? panels : 3, down = (panels + across - 1) / across;
    size_t width = across * PANEL_WIDTH, height = down * PANEL_HEIGHT;
    if (panels == 1) width += width / 2, height += height / 4;
    fprintf(out,
            "# Draws %s.svg from %s.csv: gnuplot %s.gp\n"
            "set terminal svg size %zu,%zu font 'sans,12' noenhanced background '#ffffff'\n"
            "set output '%s.svg'\n"
            "set datafile separator comma\n"
            "set datafile columnheaders\n"
            "set datafile missing NaN\n"
            "set border 3 lc rgb '#5d666f'\n"
            "set tics nomirror\n"
            "set key below horizontal samplen 1.5\n"
            "set boxwidth 0.8 relative\n",
            row->name, f->name, row->name, width + 40, height + 50, row->name);
    fputs(row->flags & SIGNED ? "set palette defined (-1 '#14548c', -0.5 '#7aaad0', 0 '#f7f6f3', "
                                "0.5 '#e7a06a', 1 '#ac4a0e')\nset cbrange [-1:1]\n"
                              : "set palette defined (0 '#f6f8fa', 0.25 '#c6d9e8', 0.5 '#7aaad0', "
                                "0.75 '#2e6ca0', 1 '#0c2c54')\n",
          out);
    if (row->kind != SMOE_FIGURE_HEAT) fputs("set grid lc rgb '#e2dfd9' dt 1\n", out);
    fputs("set xlabel ", out);
    smoe_gnuplot_text(out, row->x_title);
    fputs("\nset ylabel ", out);
    smoe_gnuplot_text(out, row->y_title);
    fprintf(out, "\nset multiplot layout %zu,%zu title ", down, across);
    smoe_gnuplot_text(out, f->title);
    fputs("\n", out);
}

/* What sets a panel apart: "soft, block 3". */
static void put_panel_title(FILE *out, const smoe_frame *f, const smoe_figure_row *row, size_t at) {
    char name[NAME];
    char text[256] = "";
    size_t used = 0;
    for (size_t i = 0; smoe_figure_word(row->panel, i, name, sizeof name); i++) {
        size_t column = smoe_frame_find(f, name);
        const char *comma = i ? ", " : "";
        int wrote = f->column[column].text
                        ? snprintf(text + used, sizeof text - used, "%s%s", comma,
                                   smoe_frame_text_at(f, at, column))
                        : snprintf(text + used, sizeof text - used, "%s%s %g", comma, name,
                                   smoe_frame_number_at(f, at, column));
        used += (size_t)wrote;
        if (used >= sizeof text) break;
    }
    fputs("set title ", out);
    smoe_gnuplot_text(out, text);
    fputc('\n', out);
}

/* Colours begin at 0 unless all cells are nearly alike: then what differs would not be seen. */
static void put_ranges(FILE *out, const smoe_frame *f, const smoe_figure_row *row, const panel *p) {
    double low, high;
    if (row->flags & SIGNED) return;
    if (row->kind == SMOE_FIGURE_HEAT) {
        find_range(f, row, row->z, p, &low, &high);
        put_range(out, "cbrange", low, high, low > high / 2 ? low : 0);
        return;
    }
    find_range(f, row, row->x, p, &low, &high);
    put_range(out, "xrange", low, high, NAN);
    if (!strcmp(row->x, "block")) fprintf(out, "set xtics %g\n", fmax(1, ceil((high - low) / 12)));
    find_range(f, row, row->y, p, &low, &high);
    if (*row->y) put_range(out, "yrange", low, high, row->flags & ZERO ? 0 : NAN);
}

static void put_script(FILE *out, const smoe_frame *f, const smoe_figure_row *row,
                       const panel *panels, size_t count) {
    put_head(out, f, row, count);
    for (size_t i = 0; i < count; i++) {
        put_panel_title(out, f, row, panels[i].first);
        put_ranges(out, f, row, &panels[i]);
        switch (row->kind) {
        case SMOE_FIGURE_BANDS: put_bands(out, f, row, &panels[i]); break;
        case SMOE_FIGURE_BARS: put_bars(out, f, row, &panels[i]); break;
        case SMOE_FIGURE_HEAT: put_heat(out, f, row, &panels[i]); break;
        default: put_lines(out, f, row, &panels[i]);
        }
        fputc('\n', out);
    }
    fputs("unset multiplot\n", out);
}

/* One figure; *panels 0 where there is nothing to draw. */
static int write_figure(const smoe_frame *f, const smoe_figure_row *row, const char *folder,
                        size_t *count, bool *drawn, smoe_err *err) {
    char *text = NULL;
    size_t size = 0;
    panel *panels = find_panels(f, row, count);
    int status = 0;
    if (panels && !*count) goto out;
    FILE *out = panels ? open_memstream(&text, &size) : NULL;
    if (out) put_script(out, f, row, panels, *count);
    int bad = !out || ferror(out);
    if (out) bad |= fclose(out);
    status = bad ? smoe_fail(err, SMOE_RUNTIME, "%s/%s.gp: out of memory", folder, row->name)
                 : smoe_gnuplot_draw(folder, row->name, text, size, drawn, err);
out:
    free(panels);
    free(text);
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
