/*
 * Figures by gnuplot from the tables beside them; see figures.h and figures.def. A panel and a line
 * are rows of a table: scripts name the first and the last by number, since a run's name may hold
 * anything, and leave out those between that belong to others. What no table holds as it is drawn,
 * shares of rows, is in the script itself. The rows of a run lie together, so what sets others
 * apart is never a run.
 */
#include "draw/figures_view.h"
#include "base/file.h"
#include "draw/gnuplot.h"
#include "spec/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIGNED = SMOE_FIGURE_SIGNED,
    STACKED = SMOE_FIGURE_STACKED,
    ZERO = SMOE_FIGURE_ZERO,
    PANEL_WIDTH = 360, /* pixels; larger where there is one alone */
    PANEL_HEIGHT = 290,
    TITLE_HEIGHT = 40
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
    size_t rows = sizeof words / sizeof *words;
    if (i >= rows) return smoe_metric_words(i - rows, shown);
    *shown = words[i].words;
    return words[i].name;
}

const char *smoe_figure_say(const char *name, char *buf, size_t size) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name)) return words[i].words;
    if (smoe_metric_say(name, buf, size)) return buf;
    snprintf(buf, size, "%s", name);
    for (char *c = buf; *c; c++)
        if (*c == '_') *c = ' ';
    return buf;
}

/* ---- the script ------------------------------------------------------------------------------ */

/* Pixels. The key is a strip below the title, as wide as the figure. */
typedef struct layout {
    size_t across, down, width, height, key, columns;
    size_t panel_width, panel_height;
} layout;

/* Does the key name this mark? */
static bool in_key(const smoe_drawing *d, size_t m, char text[SMOE_DRAWING_LABEL]) {
    smoe_span rows;
    if (!d->kind->entry) return false;
    d->kind->entry(d, m, text);
    for (size_t i = 0; *text && i < d->panels; i++)
        if (smoe_drawing_rows(d, &d->panel[i], m, &rows)) return true;
    return false;
}

static layout lay_out(const smoe_drawing *d) {
    layout l = {.across = d->panels < 3 ? d->panels : 3};
    size_t entries = 0, longest = 0;
    char text[SMOE_DRAWING_LABEL];
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

static void put_head(FILE *out, const smoe_drawing *d, const layout *l) {
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
static void put_key(FILE *out, const smoe_drawing *d, const layout *l) {
    char text[SMOE_DRAWING_LABEL];
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

/* Without a title for y, a panel's name is that. */
static void put_panel(FILE *out, const smoe_drawing *d, const smoe_span *p) {
    char text[SMOE_DRAWING_LABEL];
    const char *y = *d->row->y_title ? d->row->y_title : text;
    size_t marks = 0;
    smoe_span rows;
    smoe_drawing_say_row(d->f, d->row->panel, p->first, 36, text);
    fputs("set title ", out);
    smoe_gnuplot_text(out, y == text ? "" : text);
    fputs("\nset xlabel ", out);
    smoe_gnuplot_text(out, d->row->x_title);
    fputs("\nset ylabel ", out);
    smoe_gnuplot_text(out, y);
    fputc('\n', out);
    smoe_drawing_put_axes(out, d, p);
    if (d->row->kind == SMOE_FIGURE_HEAT) smoe_drawing_put_heat(out, d, p);
    for (size_t m = 0; d->kind->put_block && m < d->lines * d->each; m++)
        if (smoe_drawing_rows(d, p, m, &rows)) d->kind->put_block(out, d, &rows, m);
    for (size_t m = 0; d->kind->put_data && m < d->lines * d->each; m++) {
        if (!smoe_drawing_rows(d, p, m, &rows)) continue;
        fputs(marks++ ? ", \\\n     " : "plot ", out);
        d->kind->put_data(out, d, &rows, m);
        d->kind->put_style(out, d, m);
        fputs(" notitle", out);
    }
    fputc('\n', out);
}

static int put_script(FILE *out, const void *context, smoe_err *err) {
    const smoe_drawing *d = context;
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
    char y[SMOE_DRAWING_NAME];
    smoe_drawing d = {.kind = &smoe_mark_kinds[row->kind],
                      .f = f,
                      .row = row,
                      .z = row->kind == SMOE_FIGURE_HEAT ? "" : row->z};
    int status = 0;
    if (!strncmp(d.z, "run ", 4) && smoe_cells_agree(f, 0, 0, f->rows - 1)) d.z += 4;
    while (smoe_figure_word(row->y, d.each, y, sizeof y)) d.each++;
    if (d.kind->marks) d.each = d.kind->marks;
    if (!d.each) d.each = 1;
    d.panel = calloc(f->rows, sizeof *d.panel);
    d.line = calloc(f->rows, sizeof *d.line);
    d.value = calloc(f->rows, sizeof *d.value);
    if (!d.panel || !d.line || !d.value) {
        status = smoe_fail(err, SMOE_RUNTIME, "%s/%s.gp: out of memory", folder, row->name);
        goto out;
    }
    smoe_drawing_find_panels(&d);
    if (d.panels) {
        smoe_drawing_find_lines(&d);
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
