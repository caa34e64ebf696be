/* From rows of a table to a plot; see figures.h, figures.def and words.def. */
#include "draw/figures.h"
#include "draw/gnuplot.h"
#include "spec/metrics.h"

/* ---- words ----------------------------------------------------------------------------------- */

static const struct {
    const char *name, *words;
} words[] = {
#define WORD(name, words) {name, words},
#include "draw/words.def"
#undef WORD
};

const char *smoe_words_at(size_t i, const char **shown) {
    size_t entries = SMOE_COUNT(words);
    if (i >= entries) return smoe_metric_words(i - entries, shown);
    *shown = words[i].words;
    return words[i].name;
}

const char *smoe_words_of(const char *name, char *buf, size_t size) {
    for (size_t i = 0; i < SMOE_COUNT(words); i++)
        if (!strcmp(words[i].name, name)) return words[i].words;
    if (smoe_metric_say(name, buf, size)) return buf;
    snprintf(buf, size, "%s", name);
    for (char *c = buf; *c; c++)
        if (*c == '_') *c = ' ';
    return buf;
}

const char *smoe_words_of_key(const char *key, char *buf, size_t size) {
    const char *dot = strrchr(key, '.');
    for (size_t i = 0; i < SMOE_COUNT(words); i++)
        if (!strcmp(words[i].name, key)) return words[i].words;
    return smoe_words_of(dot ? dot + 1 : key, buf, size);
}

/* ---- entries --------------------------------------------------------------------------------- */

enum {
    NAMES = 128,       /* along an axis of a heat map at most */
    RUN_IN_TITLE = 36, /* bytes of a run's name */
    RUN_IN_KEY = 60
};

static const smoe_figure_entry figures[] = {
#define FIGURE(figure, type, ...) {.name = #figure, .kind = SMOE_FIGURE_##type, __VA_ARGS__},
#include "draw/figures.def"
#undef FIGURE
};

const smoe_figure_entry *smoe_figure_at(size_t i) {
    return i < SMOE_COUNT(figures) ? &figures[i] : NULL;
}

const smoe_figure_entry *smoe_figure_find(const char *name) {
    for (size_t i = 0; i < SMOE_COUNT(figures); i++)
        if (!strcmp(figures[i].name, name)) return &figures[i];
    return NULL;
}

/* ---- rows of the table ----------------------------------------------------------------------- */

/* The rows of a run are consecutive; those of a panel or a line may not be. Lists of columns end
 * with NULL. */

static double number_at(const smoe_frame *f, size_t row, const char *column) {
    return smoe_frame_number_at(f, row, smoe_frame_find(f, column));
}

static bool figures_has_column(const char *const *list, const char *column) {
    while (*list && strcmp(*list, column)) list++;
    return *list;
}

static bool is_text(const smoe_frame *f, const char *column) {
    return f->column[smoe_frame_find(f, column)].words;
}

/* The first row of each combination of values in the columns of a list: their numbers go to
 * found [rows], in the order of the table. If the list has only one column and that has numbers,
 * the order is by these, and rows without a number come last. Rows without a number in a column of
 * `needed` (a list; NULL: none) are passed over. Returns how many rows there are. */
static size_t first_rows(const smoe_frame *f, const char *const *list, const char *const *needed,
                         size_t *found) {
    bool sorted = list[0] && !list[1] && !is_text(f, list[0]);
    size_t count = 0;
    for (size_t r = 0; r < f->rows; r++) {
        size_t i = count;
        bool lacks = false;
        for (size_t k = 0; needed && needed[k]; k++) lacks |= !isfinite(number_at(f, r, needed[k]));
        if (lacks) continue;
        while (i && !smoe_plot_agree(f, list, found[i - 1], r)) i--;
        if (i) continue;
        double v = sorted ? number_at(f, r, list[0]) : NAN;
        i = count++;
        /* NAN stays behind all numbers, in the order of the table */
        while (i && sorted && !(number_at(f, found[i - 1], list[0]) <= v) && !isnan(v)) {
            found[i] = found[i - 1];
            i--;
        }
        found[i] = r;
    }
    return count;
}

/* The least and the largest of some numbers, 0 where there are none, and whether all are whole. */
typedef struct span {
    double low, high;
    bool whole;
} span;

/* Of columns over the rows that agree with row `like` in `list`; like SIZE_MAX: over all. */
static span span_of(const smoe_frame *f, const char *const *columns, const char *const *list,
                    size_t like) {
    span s = {INFINITY, -INFINITY, true};
    for (; *columns; columns++)
        for (size_t r = 0; r < f->rows; r++) {
            double v = number_at(f, r, *columns);
            if (!isfinite(v) || (like != SIZE_MAX && !smoe_plot_agree(f, list, like, r))) continue;
            s.low = fmin(s.low, v);
            s.high = fmax(s.high, v);
            s.whole = s.whole && v == rint(v);
        }
    return s.low <= s.high ? s : (span){.whole = s.whole};
}

/* A path without its folders. */
static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* A run's name without its folders, unless another run of the table has the same; its end where it
 * is long: ends of names differ more than beginnings. */
static void say_run(const smoe_frame *f, size_t column, const char *run, size_t most, char *text,
                    size_t size) {
    bool alone = true;
    for (size_t r = 0; r < f->rows && alone; r++) {
        const char *other = smoe_frame_text_at(f, r, column);
        alone = !strcmp(other, run) || strcmp(last_part(other), last_part(run)) != 0;
    }
    if (alone) run = last_part(run);
    size_t length = strlen(run);
    const char *dots = "";
    if (length > most) {
        run += length - most;
        while ((*run & 0xC0) == 0x80) run++; /* not inside a character */
        dots = "\xe2\x80\xa6";
    }
    snprintf(text, size, "%s%s", dots, run);
}

/* The values of a row in the columns of a list, in words: "soft, block 3". The name of a run is cut
 * to its last `most` bytes. */
static void say_row(const smoe_frame *f, const char *const *list, size_t row, size_t most,
                    char *text, size_t size) {
    *text = '\0';
    for (; *list; list++) {
        size_t column = smoe_frame_find(f, *list);
        char one[160], buf[160];
        if (!strcmp(*list, "run"))
            say_run(f, column, smoe_frame_text_at(f, row, column), most, one, sizeof one);
        else if (f->column[column].words)
            snprintf(one, sizeof one, "%s",
                     smoe_words_of(smoe_frame_text_at(f, row, column), buf, sizeof buf));
        else if (isfinite(smoe_frame_number_at(f, row, column)))
            snprintf(one, sizeof one, "%s %g", smoe_words_of(*list, buf, sizeof buf),
                     smoe_frame_number_at(f, row, column));
        else if (*text)
            continue; /* for example, no block: the other values are enough */
        else
            snprintf(one, sizeof one, "whole model");
        smoe_text_list(text, size, "%s", one);
    }
}

/* ---- a figure -------------------------------------------------------------------------------- */

/* A figure that is being converted to a plot. */
typedef struct figure {
    const smoe_figure_entry *entry;
    const smoe_frame *f, *runs;
    const char *panel[SMOE_PLOT_LIST], *line[SMOE_PLOT_LIST]; /* columns that tell them apart */
    const char *shown[SMOE_PLOT_LIST];                        /* of panel, those in their titles */
    size_t *line_row;      /* [lines] the first row of each; none where there are no columns */
    size_t lines, ordered; /* ordered: lines that have a place on the ramp */
} figure;

static void figures_append(const char **list, const char *const *names, const char *but) {
    while (*list) list++;
    for (; *names; names++)
        if (!but || strcmp(*names, but)) *list++ = *names;
}

/* For figures whose lines are runs: with several runs each is a line, and the other columns of the
 * list determine the panels; with one run its name is not needed and left out. */
static void choose_columns(figure *g) {
    const smoe_figure_entry *entry = g->entry;
    static const char *const run[] = {"run", NULL};
    bool of_runs = entry->line[0] && !strcmp(entry->line[0], "run");
    bool several = (g->runs && g->runs->rows > 1) || !smoe_plot_agree(g->f, run, 0, g->f->rows - 1);
    figures_append(g->panel, entry->panel, NULL);
    if (!of_runs) {
        figures_append(g->line, entry->line, NULL);
    } else if (several) {
        figures_append(g->line, run, NULL);
        figures_append(g->panel, entry->line, "run");
    } else {
        figures_append(g->line, entry->line, "run");
    }
    figures_append(g->shown, g->panel, several ? NULL : "run");
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The rows of a panel and, if it is not SIZE_MAX, of a line; false where none has a number in the
 * column. */
static bool figures_rows_of(const figure *g, size_t panel, size_t line, const char *column,
                            smoe_plot_rows *rows) {
    size_t count = 0, numbers = 0;
    *rows = (smoe_plot_rows){0};
    for (size_t r = panel; r < g->f->rows; r++) {
        if (!smoe_plot_agree(g->f, g->panel, panel, r)) continue;
        if (line != SIZE_MAX && !smoe_plot_agree(g->f, g->line, line, r)) continue;
        if (!count++) rows->first = r;
        rows->last = r;
        numbers += isfinite(number_at(g->f, r, column));
    }
    if (count == rows->last - rows->first + 1) return numbers > 0;
    figures_append(rows->same, g->panel, NULL);
    if (line != SIZE_MAX) figures_append(rows->same, g->line, NULL);
    return numbers > 0;
}

/* A mark of the panel for a column; NULL where it would have no numbers. */
static smoe_mark *add_mark(const figure *g, smoe_panel *panel, size_t line, smoe_mark_kind kind,
                           const char *y) {
    smoe_plot_rows rows;
    if (!figures_rows_of(g, panel->row, line, kind == SMOE_MARK_CELLS ? g->entry->colour : y,
                         &rows))
        return NULL;
    smoe_mark *mark = smoe_plot_mark(panel);
    mark->kind = kind;
    mark->rows = rows;
    mark->x = g->entry->x;
    mark->y[0] = y;
    return mark;
}

/* Each column has its own colour; lines that differ in a number have colours by its rank; the
 * columns of one line differ in dashes, and so do lines whose colour has been used before. */
static void colour_line(const figure *g, size_t i, size_t k, smoe_mark *m) {
    const char *column = g->line[0] && !g->line[1] ? g->line[0] : NULL;
    bool number = column && !is_text(g->f, column);
    size_t columns = 0;
    while (g->entry->y[columns]) columns++;
    m->dash = g->lines ? k : 0;
    if (!g->lines)
        m->colour = (smoe_colour){SMOE_SERIES, (double)k};
    else if (number && !isfinite(number_at(g->f, g->line_row[i], column)))
        m->colour = (smoe_colour){SMOE_INK, 0};
    else if (number && g->ordered > 1)
        m->colour = (smoe_colour){SMOE_ORDERED, (double)i / (double)(g->ordered - 1)};
    else
        m->colour = (smoe_colour){SMOE_SERIES, (double)i}, m->dash += i / SMOE_COLOURS * columns;
}

static void add_lines(const figure *g, smoe_panel *panel) {
    static const smoe_mark_kind kinds[] = {[SMOE_FIGURE_LINES] = SMOE_MARK_LINE,
                                           [SMOE_FIGURE_STEPS] = SMOE_MARK_STEPS,
                                           [SMOE_FIGURE_HISTOGRAM] = SMOE_MARK_HISTOGRAM};
    char buf[SMOE_PLOT_TEXT];
    for (size_t i = 0; i < (g->lines ? g->lines : 1); i++)
        for (size_t k = 0; g->entry->y[k]; k++) {
            smoe_mark *m = add_mark(g, panel, g->lines ? g->line_row[i] : SIZE_MAX,
                                    kinds[g->entry->kind], g->entry->y[k]);
            if (!m) continue;
            m->each = g->entry->each;
            m->error = g->entry->error[k];
            colour_line(g, i, k, m);
            if (g->lines)
                say_row(g->f, g->line, g->line_row[i], RUN_IN_KEY, m->name, sizeof m->name);
            if (g->entry->y[1])
                smoe_text_list(m->name, sizeof m->name, "%s",
                               smoe_words_of(g->entry->y[k], buf, sizeof buf));
        }
}

/* The widest band first, the mean last. */
static void add_bands(const figure *g, smoe_panel *panel) {
    static const char *const bands[][3] = {{"p0.5", "p99.5", "central 99%"},
                                           {"p2.5", "p97.5", "95%"},
                                           {"p5", "p95", "90%"},
                                           {"p10", "p90", "80%"},
                                           {"p20", "p80", "60%"}};
    smoe_mark *m;
    for (size_t i = 0; i < SMOE_COUNT(bands); i++) {
        if (!(m = add_mark(g, panel, SIZE_MAX, SMOE_MARK_BAND, bands[i][0]))) continue;
        m->y[1] = bands[i][1];
        m->colour = (smoe_colour){SMOE_BAND, (double)i};
        snprintf(m->name, sizeof m->name, "%s", bands[i][2]);
    }
    m = add_mark(g, panel, SIZE_MAX, SMOE_MARK_LINE, g->entry->y[0]);
    if (m) snprintf(m->name, sizeof m->name, "mean");
}

/* Stacked bars are drawn from the tallest, the sum of all, down to the lowest. */
static void add_bars(const figure *g, smoe_panel *panel) {
    const char *const *y = g->entry->y;
    char buf[SMOE_PLOT_TEXT];
    size_t columns = 0;
    while (y[columns]) columns++;
    for (size_t k = columns; k--;) {
        smoe_mark *m = add_mark(g, panel, SIZE_MAX, SMOE_MARK_BAR, y[k]);
        if (!m) continue;
        for (size_t i = 0; i <= k; i++) m->y[i] = y[i];
        m->colour = (smoe_colour){SMOE_SERIES, (double)k};
        if (columns > 1)
            snprintf(m->name, sizeof m->name, "%s", smoe_words_of(y[k], buf, sizeof buf));
    }
}

static void add_cells(const figure *g, smoe_panel *panel) {
    smoe_mark *m = add_mark(g, panel, SIZE_MAX, SMOE_MARK_CELLS, g->entry->y[0]);
    if (m) m->z = g->entry->colour;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* The height of stacked bars together. */
static double tallest(const figure *g, size_t like) {
    double most = 0;
    for (size_t r = 0; r < g->f->rows; r++) {
        double sum = 0;
        if (like != SIZE_MAX && !smoe_plot_agree(g->f, g->panel, like, r)) continue;
        for (const char *const *y = g->entry->y; *y; y++) {
            double v = number_at(g->f, r, *y);
            if (isfinite(v)) sum += v;
        }
        most = fmax(most, sum);
    }
    return most;
}

/* All panels have the same scale, so that they can be compared, unless they show different
 * things. */
static void set_axes(const figure *g, smoe_panel *panel) {
    const smoe_figure_entry *entry = g->entry;
    const char *const x[] = {entry->x, NULL};
    size_t like = entry->separate ? panel->row : SIZE_MAX;
    bool bars = entry->kind == SMOE_FIGURE_BARS;
    span of_x = span_of(g->f, x, g->panel, SIZE_MAX),
         of_y = span_of(g->f, entry->y, g->panel, like);
    double bin = INFINITY; /* the least distance of two rows that follow each other */
    for (size_t r = 1; entry->kind == SMOE_FIGURE_HISTOGRAM && r < g->f->rows; r++) {
        double far = number_at(g->f, r, entry->x) - number_at(g->f, r - 1, entry->x);
        if (far > 0) bin = fmin(bin, far);
    }
    double beside = bars ? 0.5 : isfinite(bin) ? bin / 2 : 0;
    smoe_plot_range(&panel->x, of_x.low, of_x.high, of_x.whole, false);
    if (beside > 0) panel->x.low = of_x.low - beside, panel->x.high = of_x.high + beside;
    if (bars) of_y.high = tallest(g, like);
    if (entry->ratio && of_y.low > 0 && of_y.high > 10 * of_y.low) {
        smoe_plot_range_log(&panel->y, of_y.low, of_y.high, 10);
        return;
    }
    if (entry->zero) of_y.low = fmin(of_y.low, 0);
    bool metric = figures_has_column(g->panel, "metric");
    if (smoe_metric_is_share(
            metric ? smoe_frame_text_at(g->f, panel->row, smoe_frame_find(g->f, "metric"))
                   : entry->y[0]))
        smoe_plot_range_share(&panel->y, of_y.low, of_y.high);
    else
        smoe_plot_range(&panel->y, of_y.low, of_y.high, of_y.whole, true);
    if (entry->share) smoe_plot_range(&panel->y, 0, 1, false, false);
}

/* The names of ranks, thinned out to NAMES. */
static void name_ranks(const figure *g, smoe_plot_axis *axis, const smoe_panel *panel,
                       const char *rank, const char *name) {
    const smoe_frame *f = g->f;
    if (!name) return;
    double first = fmin(axis->low, axis->high) + 0.5, last = fmax(axis->low, axis->high) - 0.5;
    double every = ceil((last + 1) / NAMES);
    size_t what = smoe_frame_find(f, name);
    for (size_t i = 0; first + (double)i <= last; i++) {
        double at = first + (double)i;
        if (fmod(at, every) > 0) continue;
        size_t r = panel->row;
        while (r < f->rows &&
               (number_at(f, r, rank) != at || !smoe_plot_agree(f, g->panel, panel->row, r)))
            r++;
        if (r == f->rows) continue;
        smoe_plot_tick *tick = smoe_plot_add_tick(axis);
        tick->at = at;
        if (f->column[what].words)
            snprintf(tick->text, sizeof tick->text, "%s", smoe_frame_text_at(f, r, what));
        else
            snprintf(tick->text, sizeof tick->text, "%g", smoe_frame_number_at(f, r, what));
    }
}

/* The number of cells that belong together, from the table of runs; 0 if it is not there. */
static size_t group_of(const figure *g, const smoe_panel *panel) {
    const smoe_frame *runs = g->runs;
    if (!runs || !g->entry->group || smoe_frame_find(runs, g->entry->group) == SIZE_MAX) return 0;
    const char *run = smoe_frame_text_at(g->f, panel->row, smoe_frame_find(g->f, "run"));
    for (size_t r = 0; r < runs->rows; r++)
        if (!strcmp(smoe_frame_text_at(runs, r, smoe_frame_find(runs, "run")), run)) {
            double cells = number_at(runs, r, g->entry->group);
            return cells > 1 ? (size_t)cells : 0;
        }
    return 0;
}

/* Rows from the top down, a unit for each cell. */
static void set_cell_axes(const figure *g, smoe_panel *panel) {
    const smoe_figure_entry *entry = g->entry;
    const char *const x[] = {entry->x, NULL};
    span of_x = span_of(g->f, x, g->panel, panel->row);
    span of_y = span_of(g->f, entry->y, g->panel, panel->row);
    smoe_plot_range(&panel->x, of_x.low, of_x.high, true, false);
    panel->x.low = of_x.low - 0.5, panel->x.high = of_x.high + 0.5;
    smoe_plot_range(&panel->y, of_y.low, of_y.high, true, false);
    panel->y.low = of_y.high + 0.5, panel->y.high = of_y.low - 0.5;
    panel->square = !entry->x_name;
    panel->group = group_of(g, panel);
    name_ranks(g, &panel->x, panel, entry->x, entry->x_name);
    name_ranks(g, &panel->y, panel, entry->y[0], entry->y_name);
}

/* Colours start at 0, unless all cells are nearly equal: then differences would not be visible. */
static void set_scale(const figure *g, smoe_plot_scale *scale) {
    const char *const colour[] = {g->entry->colour, NULL};
    char buf[SMOE_PLOT_TEXT];
    span of = span_of(g->f, colour, g->panel, SIZE_MAX);
    double low = of.low, high = of.high;
    snprintf(scale->label, sizeof scale->label, "%s",
             smoe_words_of(g->entry->colour, buf, sizeof buf));
    scale->diverging = g->entry->around_zero || g->entry->around_one;
    if (g->entry->around_zero) low = -1, high = 1;
    if (g->entry->around_one) low = 0, high = fmax(high, 2);
    if (!scale->diverging && low <= high / 2) low = fmin(low, 0);
    if (!(low < high) && high == 0) high = 0.5;
    if (!(low < high)) low = high - fabs(high) / 2; /* not above the only value, which may be 1 */
    scale->low = low;
    scale->high = high;
    scale->middle = g->entry->around_one ? 1 : (low + high) / 2;
}

/* ---- the plot -------------------------------------------------------------------------------- */

/* A panel with its marks; no panel if it has nothing to show. */
static void add_panel(const figure *g, smoe_plot *plot, size_t row) {
    static void (*const add[])(const figure *, smoe_panel *) = {
        [SMOE_FIGURE_LINES] = add_lines,     [SMOE_FIGURE_STEPS] = add_lines,
        [SMOE_FIGURE_HISTOGRAM] = add_lines, [SMOE_FIGURE_BANDS] = add_bands,
        [SMOE_FIGURE_BARS] = add_bars,       [SMOE_FIGURE_HEAT] = add_cells};
    smoe_panel *panel = smoe_plot_panel(plot);
    panel->row = row;
    panel->block = figures_has_column(g->panel, "block") ? number_at(g->f, row, "block") : NAN;
    add[g->entry->kind](g, panel);
    if (!panel->marks) {
        plot->panels--;
        return;
    }
    say_row(g->f, g->shown, row, RUN_IN_TITLE, panel->title, sizeof panel->title);
    snprintf(panel->x.label, sizeof panel->x.label, "%s", g->entry->x_title);
    snprintf(panel->y.label, sizeof panel->y.label, "%s",
             g->entry->y_title ? g->entry->y_title : "");
    (g->entry->kind == SMOE_FIGURE_HEAT ? set_cell_axes : set_axes)(g, panel);
}

void smoe_figure_plot(smoe_plot *plot, const smoe_figure_entry *entry, const smoe_frame *frames,
                      size_t count) {
    figure g = {.entry = entry,
                .f = smoe_frames_find(frames, count, entry->name),
                .runs = smoe_frames_find(frames, count, "runs")};
    *plot = (smoe_plot){.name = entry->name};
    if (!g.f || !g.f->rows) return;
    /* a cell without a place, as that of a class token, is no cell */
    const char *const place[] = {entry->x, entry->y[0], NULL};
    const char *const *needed = entry->kind == SMOE_FIGURE_HEAT ? place : NULL;
    SMOE_FREED size_t *first = smoe_alloc(g.f->rows, sizeof *first);
    SMOE_FREED size_t *line_row = g.line_row = smoe_alloc(g.f->rows, sizeof *line_row);
    plot->title = g.f->title;
    plot->table = g.f;
    plot->x_name = entry->x_name;
    plot->y_name = entry->y_name;
    plot->section = figures_has_column(entry->panel, "metric")  ? "training"
                    : figures_has_column(entry->panel, "block") ? "layer"
                                                                : "across";
    choose_columns(&g);
    if (g.line[0]) g.lines = first_rows(g.f, g.line, NULL, g.line_row);
    bool number = g.lines && !g.line[1] && !is_text(g.f, g.line[0]);
    for (size_t i = 0; number && i < g.lines; i++)
        g.ordered += isfinite(number_at(g.f, g.line_row[i], g.line[0]));
    size_t panels = first_rows(g.f, g.panel, needed, first);
    if (entry->kind == SMOE_FIGURE_HEAT) set_scale(&g, &plot->scale);
    for (size_t i = 0; i < panels; i++) add_panel(&g, plot, first[i]);
}

int smoe_figures_write(const smoe_frame *frames, size_t count, const char *folder, double width,
                       size_t *scripts, size_t *drawn, smoe_err *err) {
    *scripts = *drawn = 0;
    for (size_t i = 0; i < SMOE_COUNT(figures); i++) {
        SMOE_FREED_BY(smoe_plot_free) smoe_plot plot;
        bool done = false;
        smoe_figure_plot(&plot, &figures[i], frames, count);
        int status = plot.panels ? smoe_plot_draw(&plot, folder, width, &done, err)
                                 : smoe_gnuplot_remove(folder, figures[i].name, err);
        *scripts += plot.panels > 0;
        *drawn += done;
        if (status) return -1;
    }
    return 0;
}
