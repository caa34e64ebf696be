/*
 * A plot as a script of gnuplot; see plot.h. The script reads the table that lies beside it, so
 * that it can be changed and run by hand. It names the rows of a mark by their numbers, since a
 * run's name may hold anything, and leaves out those between that belong to other marks. Numbers
 * that no table holds as they are drawn are in the script itself.
 */
#include "draw/gnuplot.h"
#include "draw/plot.h"

/* Pixels, 96 per inch. The key is a strip below the title, as wide as the figure. */
enum {
    PANEL_WIDTH = 360, /* on a screen; half as large again where there is one alone */
    PANEL_HEIGHT = 290,
    HIGHEST = 600, /* so that all rows have their names */
    WIDEST = 960,  /* so that the key has */
    NARROW = 288,  /* a panel on paper is no narrower, */
    SLENDER = 144, /* or, where there are many and no cells, than this */
    TALL = 9 * 96, /* a figure on paper that is higher has more panels side by side */
    TITLE_HEIGHT = 40,
    DOTS = 64,    /* rows of a line whose points are marked; more would be a thick line */
    BOXES = 4096, /* cells of a panel drawn as boxes; more become an image */
    TICKS = 64,   /* with numbers along an axis at most */
    TICK = 32     /* bytes of such a number */
};
static const double LETTER = 0.62; /* mean width of a letter, as a share of the font's size */
static const char soft[] = "#5d666f", pale[] = "#e2dfd9"; /* of axes; of the grid */

typedef struct layout {
    bool paper;
    int font;
    size_t word; /* letters of a word along an axis that are drawn: more leave no room */
    size_t across, down, width, height, title, key, key_columns, key_row, panel_width, panel_height;
} layout;

typedef struct script {
    const smoe_plot *plot;
    layout l;
} script;

/* The columns of a key whose longest entry has that many letters, about as gnuplot finds them. */
static size_t key_columns(size_t longest, size_t width, int font) {
    size_t columns = width / (longest * (size_t)font * 2 / 3 + 6 * (size_t)font);
    return columns ? columns : 1;
}

/* A name, or its beginning and an ellipsis if it has more letters than that. Returns text. */
static const char *cut_name(char text[SMOE_PLOT_TEXT + 4], const char *name, size_t most) {
    bool cut = smoe_text_letters(name) > most;
    size_t end = 0, letters = 0;
    for (; name[end]; end++) {
        letters += (name[end] & 0xC0) != 0x80; /* not inside a character */
        if (cut && letters == most) break;
    }
    snprintf(text, SMOE_PLOT_TEXT + 4, "%.*s%s", (int)end, name, cut ? "\xe2\x80\xa6" : "");
    return text;
}

/* The letters that an entry of the key has room for, behind its line, in a figure that wide. */
static size_t key_letters(size_t width, int font) {
    return (size_t)(((double)width - 4.5 * font) / (LETTER * font));
}

/* On a screen a figure becomes wider where names would be cut. */
static void lay_out_key(layout *l, const smoe_plot *plot) {
    size_t entries = 0, longest = 0;
    for (const smoe_mark *m; (m = smoe_plot_entry(plot, entries)); entries++)
        if (smoe_text_letters(m->name) > longest) longest = smoe_text_letters(m->name);
    while (!l->paper && l->width < WIDEST && key_letters(l->width, l->font) < longest) l->width++;
    l->key_row = (size_t)l->font * 5 / 3;
    l->key_columns = key_columns(longest, l->width, l->font);
    if (l->key_columns > entries && entries) l->key_columns = entries;
    if (entries) l->key = ((entries + l->key_columns - 1) / l->key_columns) * l->key_row + 10;
}

/* The width of the longest word of an axis, in pixels. */
static double longest_word(const smoe_plot_axis *a, const layout *l) {
    size_t longest = 0;
    for (size_t i = 0; i < a->ticks; i++) {
        size_t n = smoe_text_letters(a->tick[i].text);
        if (n > longest) longest = n < l->word ? n : l->word;
    }
    return LETTER * l->font * (double)longest;
}

/* How much wider than usual the longest words along axes are, on a screen, where there is room. */
static size_t wider_words(const smoe_plot *plot, bool across, const layout *l) {
    const double usual = 12 * LETTER * l->font;
    double more = 0;
    for (size_t i = 0; i < plot->panels && !l->paper; i++)
        more = fmax(more, longest_word(across ? &plot->panel[i].x : &plot->panel[i].y, l) - usual);
    return (size_t)more;
}

static layout gnuplot_lay_out(const smoe_plot *plot, double width) {
    layout l = {.paper = width > 0, .across = plot->panels < 3 ? plot->panels : 3};
    l.font = l.paper ? SMOE_PLOT_PAPER_FONT : SMOE_PLOT_SCREEN_FONT;
    if (l.paper) {
        l.width = (size_t)lrint(width * SMOE_PLOT_INCH);
        while (l.across > 1 && l.width / l.across < NARROW) l.across--;
        bool cells = plot->panel->mark->kind == SMOE_MARK_CELLS;
        while (!cells && l.width / (l.across + 1) >= SLENDER &&
               (plot->panels + l.across - 1) / l.across * (l.width / l.across) * 4 / 5 > TALL)
            l.across++;
        l.panel_width = l.width / l.across;
        l.panel_height = l.panel_width < NARROW ? l.panel_width : l.panel_width * 4 / 5;
    } else {
        bool alone = plot->panels == 1;
        l.panel_width = alone ? PANEL_WIDTH * 3 / 2 : PANEL_WIDTH;
        l.panel_height = alone ? PANEL_HEIGHT * 5 / 4 : PANEL_HEIGHT;
        size_t names = 0; /* along a y axis at most, then their height */
        for (size_t i = 0; i < plot->panels; i++)
            if (plot->panel[i].y.ticks > names) names = plot->panel[i].y.ticks;
        names = names * SMOE_PLOT_SCREEN_FONT * 5 / 4 + PANEL_HEIGHT / 3;
        if (names > l.panel_height && names <= HIGHEST) l.panel_height = names;
        l.title = TITLE_HEIGHT;
    }
    l.word = (size_t)((double)l.panel_width * 0.4 / (LETTER * l.font));
    l.panel_width += wider_words(plot, false, &l);
    l.panel_height += wider_words(plot, true, &l) / 2; /* slanted */
    if (!l.paper) l.width = l.across * l.panel_width + 40;
    l.down = (plot->panels + l.across - 1) / l.across;
    lay_out_key(&l, plot);
    l.height = l.title + l.key + l.down * l.panel_height;
    return l;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Writes the condition for a row to be one of the mark's rows. The run is left out, because its
 * rows are consecutive. Returns whether there is a condition. */
static bool put_condition(FILE *out, const smoe_plot *plot, const smoe_plot_rows *rows) {
    const smoe_frame *f = plot->table;
    bool some = false;
    for (size_t i = 0; rows->same[i]; i++) {
        size_t column = smoe_frame_find(f, rows->same[i]);
        if (!strcmp(rows->same[i], "run")) continue;
        fputs(some ? " && " : "", out);
        some = true;
        if (f->column[column].words) {
            fprintf(out, "strcol(\"%s\") eq ", rows->same[i]);
            smoe_gnuplot_text(out, smoe_frame_text_at(f, rows->first, column));
        } else if (isfinite(smoe_frame_number_at(f, rows->first, column))) {
            fprintf(out, "column(\"%s\") == %.17g", rows->same[i],
                    smoe_frame_number_at(f, rows->first, column));
        } else {
            fprintf(out, "strcol(\"%s\") eq ''", rows->same[i]);
        }
    }
    return some;
}

/* The file, the rows, and x, which is no number in rows of other marks: gnuplot leaves those out.
 */
static void gnuplot_put_rows(FILE *out, const smoe_plot *plot, const smoe_mark *m) {
    const smoe_plot_rows *rows = &m->rows;
    bool others = false;
    for (size_t r = rows->first; r <= rows->last && !others; r++)
        others = !smoe_plot_has(plot, rows, r);
    fprintf(out, "'%s.csv' every ::%zu::%zu using (", plot->table->name, rows->first, rows->last);
    if (others && put_condition(out, plot, rows)) fputs(" ? ", out);
    fprintf(out, "column(\"%s\")%s)", m->x, others ? " : NaN" : "");
}

/* A blank line in the data ends a line of the figure: between values of a column, and between
 * points. */
static void gnuplot_put_block(FILE *out, const smoe_plot *plot, const smoe_mark *m, size_t number) {
    const char *between = plot->table ? "," : " ";
    if (m->kind == SMOE_MARK_POINTS) {
        fprintf(out, "$line%zu << END\n", number);
        for (size_t k = 0; k < m->points; k++) {
            const smoe_plot_point *p = &m->point[k];
            if (!isfinite(p->x) || !isfinite(p->y)) continue;
            fprintf(out, "%.10g%s%.10g%s%.10g%s%.10g\n", p->x, between, p->y, between, p->bar[0],
                    between, p->bar[1]);
        }
        fputs("END\n", out);
    } else if (m->each) {
        const smoe_frame *f = plot->table;
        size_t x = smoe_frame_find(f, m->x), y = smoe_frame_find(f, m->y[0]);
        size_t each = smoe_frame_find(f, m->each);
        double before = NAN;
        fprintf(out, "$line%zu << END\n%s,%s\n", number, m->x, m->y[0]);
        for (size_t r = m->rows.first; r <= m->rows.last; r++) {
            double now = smoe_frame_number_at(f, r, each);
            if (!smoe_plot_has(plot, &m->rows, r)) continue;
            if (before == before && now != before) fputc('\n', out);
            before = now;
            fprintf(out, "%.6g,%.6g\n", smoe_frame_number_at(f, r, x),
                    smoe_frame_number_at(f, r, y));
        }
        fputs("END\n", out);
    }
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The shape of the points of a mark. One shape more than there are colours: of 42 lines no two have
 * both the same. Error bars have the same shape, because gnuplot clears the background of their
 * points, and points of size 0 give SVG that cannot be drawn. */
static void put_shape(FILE *out, const smoe_mark *m) {
    static const int shapes[] = {7, 5, 9, 13, 11, 15, 6};
    if (m->kind == SMOE_MARK_POINTS)
        fprintf(out, " pt %d ps 0.8", shapes[(size_t)m->colour.at % SMOE_COUNT(shapes)]);
    else
        fputs(" pt 7 ps 0.4", out);
}

static void put_style(FILE *out, const smoe_mark *m) {
    bool points = m->rows.last - m->rows.first < DOTS;
    char colour[SMOE_COLOUR_TEXT];
    smoe_colour_text(m->colour, false, colour);
    switch (m->kind) {
    case SMOE_MARK_LINE:
        if (m->each)
            fprintf(out, " with lines lw 1 lc rgb '#60%s'", colour + 1);
        else
            fprintf(out, " with %s lw 2 lc rgb '%s'", points ? "linespoints" : "lines", colour);
        if (points && !m->each) put_shape(out, m);
        break;
    case SMOE_MARK_STEPS: fprintf(out, " with steps lw 2 lc rgb '%s'", colour); break;
    case SMOE_MARK_HISTOGRAM: fprintf(out, " with histeps lw 2 lc rgb '%s'", colour); break;
    case SMOE_MARK_BAND:
        fprintf(out, " with filledcurves fc rgb '%s' fs solid noborder", colour);
        break;
    case SMOE_MARK_BAR: fprintf(out, " with boxes fs solid noborder lc rgb '%s'", colour); break;
    case SMOE_MARK_POINTS:
        fprintf(out, " with %s lw %d lc rgb '%s'",
                m->bare     ? "lines"
                : m->joined ? "linespoints"
                            : "points",
                m->bare ? 1 : 2, colour);
        if (!m->bare) put_shape(out, m);
        break;
    case SMOE_MARK_CELLS: break;
    }
    if (m->dash) fprintf(out, " dt %zu", m->dash % 5 + 1);
}

/* Whether every cell of the rectangle of the panel has a number. */
static bool gnuplot_complete(const smoe_plot *plot, const smoe_panel *p, const smoe_mark *m) {
    size_t z = smoe_frame_find(plot->table, m->z), cells = 0;
    for (size_t r = m->rows.first; r <= m->rows.last; r++)
        cells +=
            smoe_plot_has(plot, &m->rows, r) && isfinite(smoe_frame_number_at(plot->table, r, z));
    return (double)cells == (p->x.high - p->x.low) * (p->y.low - p->y.high);
}

/* A box for each cell makes sharp edges and, of many cells, large files: then they become one
 * image, for which gnuplot wants them in order, rows after one another. Sorting is what `smooth
 * unique` does. */
static void put_image(FILE *out, const smoe_plot *plot, const smoe_panel *p, const smoe_mark *m) {
    size_t n = (size_t)lrint(p->x.high - 0.5) + 1;
    fprintf(out,
            "set format x '%%.0f'\nset table $grid separator whitespace\n"
            "plot '%s.csv' every ::%zu::%zu using "
            "(column(\"%s\") * %zu + column(\"%s\")):(column(\"%s\")) smooth unique\n"
            "unset table\nset format x\n"
            "set datafile separator whitespace\nset datafile nocolumnheaders\n"
            "plot $grid using (int($1) %% %zu):(int($1) / %zu):2 with image notitle\n"
            "set datafile separator comma\nset datafile columnheaders",
            plot->table->name, m->rows.first, m->rows.last, m->y[0], n, m->x, m->z, n, n);
}

static void put_cells(FILE *out, const smoe_plot *plot, const smoe_panel *p, const smoe_mark *m) {
    if (m->rows.last - m->rows.first >= BOXES && gnuplot_complete(plot, p, m)) {
        put_image(out, plot, p, m);
        return;
    }
    fputs("plot ", out);
    gnuplot_put_rows(out, plot, m);
    fprintf(out,
            ":(column(\"%s\")):(column(\"%s\") - 0.5):(column(\"%s\") + 0.5):(column(\"%s\") - "
            "0.5):(column(\"%s\") + 0.5):(column(\"%s\")) with boxxyerror fs solid noborder lc "
            "palette notitle",
            m->y[0], m->x, m->x, m->y[0], m->y[0], m->z);
}

static void put_mark(FILE *out, const smoe_plot *plot, const smoe_mark *m, size_t number) {
    bool points = m->kind == SMOE_MARK_POINTS, inside = points || m->each;
    char colour[SMOE_COLOUR_TEXT];
    if (inside) {
        fprintf(out, "$line%zu using 1:2", number);
    } else {
        gnuplot_put_rows(out, plot, m);
        const char *between = m->kind == SMOE_MARK_BAND ? "):(" : " + ";
        fputs(":(", out);
        for (size_t k = 0; m->y[k]; k++)
            fprintf(out, "%scolumn(\"%s\")", k ? between : "", m->y[k]);
        fputc(')', out);
    }
    put_style(out, m);
    fputs(" notitle", out);
    if (m->bare || (!points && !m->error)) return;
    fputs(", \\\n     ", out);
    if (points) {
        fprintf(out, "$line%zu using 1:2:3:4", number);
    } else {
        gnuplot_put_rows(out, plot, m);
        fprintf(out, ":(column(\"%s\")):(column(\"%s\"))", m->y[0], m->error);
    }
    fprintf(out, " with yerrorbars lw 1 lc rgb '%s'", smoe_colour_text(m->colour, false, colour));
    put_shape(out, m);
    fputs(" notitle", out);
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* The number of a tick: "0.5", "250000", "16 M"; million, billion and trillion. */
static size_t tick_text(char text[TICK], double v) {
    static const char *const letter[] = {"", " M", " B", " T"};
    size_t i = 0;
    if (fabs(v) >= 1e6)
        for (; fabs(v) >= 1e3 && (i + 1) < SMOE_COUNT(letter); i++) v /= i ? 1e3 : 1e6;
    snprintf(text, TICK, "%g%s", v, letter[i]);
    return strlen(text);
}

/* The distance of ticks whose numbers have room beside one another: twice that of the axis, or four
 * times ..., where a panel is narrow. */
static double step_that_fits(const smoe_plot_axis *a, const layout *l) {
    char text[TICK];
    double step = a->step, inner = (double)l->panel_width - 7 * l->font; /* beside the y axis */
    do {
        double from = ceil(a->low / step) * step;
        size_t first = tick_text(text, from), second = tick_text(text, from + step);
        size_t last = tick_text(text, floor(a->high / step) * step);
        double letters = (double)(first > second ? first : second);
        letters = fmax(letters, (double)last);
        if ((a->high - a->low) / step * (letters * l->font * 0.65 + l->font) <= inner) return step;
        step *= 2;
    } while (step < a->high - a->low);
    return step / 2;
}

/* The ticks of a logarithmic axis: powers of its base, and of two decades also 2, 5, 20 ... */
static size_t powers_of(double at[TICKS], const smoe_plot_axis *a) {
    static const double between[] = {1, 2, 5};
    size_t each = a->log == 10 && a->high < 100 * a->low ? 3 : 1, count = 0;
    for (double p = floor(log(a->low) / log(a->log)); pow(a->log, p) <= a->high; p++)
        for (size_t i = 0; i < each; i++) {
            double v = between[i] * pow(a->log, p);
            if (v >= a->low && v <= a->high && count < TICKS) at[count++] = v;
        }
    return count;
}

/* The ticks of a linear axis, at multiples of its step. */
static size_t multiples_of(double at[TICKS], const smoe_plot_axis *a, double step) {
    double low = fmin(a->low, a->high), high = fmax(a->low, a->high);
    size_t count = 0;
    for (double k = ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && count < TICKS; k++)
        at[count++] = k * step + 0.0; /* no -0 */
    return count;
}

/* Numbers along an axis, every first, second ... as they have room. */
static void put_numbers(FILE *out, const smoe_plot_axis *a, bool across, const layout *l) {
    char text[TICK];
    double at[TICKS], letters = 0;
    double step = a->log ? 1 : across ? step_that_fits(a, l) : a->step;
    size_t count = a->log ? powers_of(at, a) : multiples_of(at, a, step);
    for (size_t i = 0; i < count; i++) letters = fmax(letters, (double)tick_text(text, at[i]));
    double room = across ? LETTER * l->font * (letters + 1) : 1.2 * l->font;
    double length = (double)(across ? l->panel_width : l->panel_height) - 7 * l->font;
    size_t every = (size_t)fmax(1, ceil(room * (double)count / length));
    fprintf(out, "set %ctics norotate (", across ? 'x' : 'y');
    for (size_t i = 0; i < count; i += every) {
        tick_text(text, at[i]);
        fprintf(out, "%s'%s' %.10g", i ? ", " : "", text, at[i]);
    }
    fputs(")\n", out);
}

/* A label that is longer than its axis goes on in a second line, where its parenthesis begins. */
static void put_label(FILE *out, char axis, const char *label, const layout *l) {
    const char *second = strstr(label, " (");
    char first[SMOE_PLOT_TEXT];
    size_t room = axis == 'x' ? l->panel_width : l->panel_height;
    fprintf(out, "set %clabel ", axis);
    if (second && LETTER * l->font * (double)strlen(label) > (double)room) {
        snprintf(first, sizeof first, "%.*s", (int)(second - label), label);
        smoe_gnuplot_text(out, first);
        fputs(" . \"\\n\" . ", out);
        label = second + 1;
    }
    smoe_gnuplot_text(out, label);
    fputc('\n', out);
}

/* Of the words of an axis every first, second ... has room. Those below a panel are slanted where
 * they are long and have no room beside one another. */
static size_t words_every(const smoe_panel *p, bool across, bool slanted, const layout *l) {
    double left = p->y.ticks ? longest_word(&p->y, l) + 4 * l->font : 7 * l->font;
    double right = p->mark->kind == SMOE_MARK_CELLS ? 7 * l->font : l->font;
    double below =
        7 * l->font + (p->x.ticks ? fmax(0, longest_word(&p->x, l) / 2 - 3 * l->font) : 0);
    double length =
        across ? (double)l->panel_width - left - right : (double)l->panel_height - below;
    double room = across && !slanted ? longest_word(&p->x, l) + LETTER * l->font : 1.2 * l->font;
    const smoe_plot_axis *a = across ? &p->x : &p->y;
    double every = ceil(room * fabs(a->high - a->low) / length);
    return every > 1 ? (size_t)every : 1;
}

static void put_axis(FILE *out, const smoe_panel *p, bool across, const layout *l) {
    const smoe_plot_axis *a = across ? &p->x : &p->y;
    const char axis = across ? 'x' : 'y';
    char word[SMOE_PLOT_TEXT + 4];
    put_label(out, axis, a->label, l);
    if (a->log)
        fprintf(out, "set logscale %c %d\n", axis, a->log);
    else
        fprintf(out, "unset logscale %c\n", axis);
    fprintf(out, "set %crange [%.10g:%.10g]\n", axis, a->low, a->high);
    if (a->ticks) {
        bool slanted = across && longest_word(a, l) > 3 * l->font * LETTER &&
                       words_every(p, across, false, l) > 1;
        size_t every = words_every(p, across, slanted, l);
        fprintf(out, "set %ctics %s(", axis, slanted ? "rotate by 30 right " : "norotate ");
        for (size_t i = 0; i < a->ticks; i += every) {
            if (i) fputs(", ", out);
            smoe_gnuplot_tick(out, cut_name(word, a->tick[i].text, l->word), a->tick[i].at);
        }
        fputs(")\n", out);
    } else {
        put_numbers(out, a, across, l);
    }
}

static void put_panel(FILE *out, const smoe_plot *plot, const smoe_panel *p, const layout *l,
                      size_t *number) {
    size_t first = *number;
    fputs("set title ", out);
    smoe_gnuplot_text(out, p->title);
    fputc('\n', out);
    put_axis(out, p, true, l);
    put_axis(out, p, false, l);
    fputs("unset arrow\n", out);
    for (double at = (double)p->group - 0.5; p->group && at < p->x.high; at += (double)p->group)
        fprintf(out,
                "set arrow from %.10g,graph 0 to %.10g,graph 1 nohead front lw 0.5 lc rgb '%s'\n"
                "set arrow from graph 0,first %.10g to graph 1,first %.10g nohead front lw 0.5 lc "
                "rgb '%s'\n",
                at, at, soft, at, at, soft);
    for (size_t m = 0; m < p->marks; m++) gnuplot_put_block(out, plot, &p->mark[m], (*number)++);
    for (size_t m = 0; m < p->marks; m++) {
        if (p->mark[m].kind == SMOE_MARK_CELLS) {
            put_cells(out, plot, p, &p->mark[m]);
            continue;
        }
        fputs(m ? ", \\\n     " : "plot ", out);
        put_mark(out, plot, &p->mark[m], first + m);
    }
    fputc('\n', out);
}

/* ---- the script ------------------------------------------------------------------------------ */

static void put_place(FILE *out, const layout *l, size_t left, size_t top, size_t width,
                      size_t height, bool square) {
    fprintf(out, "set origin %.4f,%.4f\nset size %s%.4f,%.4f\n", (double)left / (double)l->width,
            1 - (double)(top + height) / (double)l->height, square ? "ratio -1 " : "noratio ",
            (double)width / (double)l->width, (double)height / (double)l->height);
}

static void put_palette(FILE *out, const smoe_plot_scale *scale) {
    char colour[SMOE_COLOUR_TEXT];
    fputs("set palette defined (", out);
    for (size_t i = 0; i < SMOE_SCALE_STOPS; i++)
        fprintf(out, "%s%.10g '%s'", i ? ", " : "", smoe_plot_stop(scale, i),
                smoe_scale_text(i, scale->diverging, false, colour));
    fprintf(out, ")\nset cbrange [%.10g:%.10g]\nset cblabel ", scale->low, scale->high);
    smoe_gnuplot_text(out, scale->label);
    fputs(" offset 1,0\n", out); /* else it may touch the numbers */
}

static void put_head(FILE *out, const smoe_plot *plot, const layout *l) {
    const char *name = plot->name, *table = plot->table ? plot->table->name : NULL;
    fprintf(out, "# Draws %s.svg%s%s%s: gnuplot %s.gp; %s.pdf: gnuplot -e pdf=1 %s.gp\n", name,
            table ? " from " : "", table ? table : "", table ? ".csv" : "", name, name, name);
    smoe_gnuplot_terminal(out, name, (double)l->width, (double)l->height, l->font, false);
    if (table) fputs("set datafile separator comma\nset datafile columnheaders\n", out);
    fprintf(out,
            "set datafile missing NaN\n"
            "set border 3 lc rgb '%s'\n"
            "set tics nomirror\n"
            "set format '%%g'\n"
            "set boxwidth 0.8 relative\n",
            soft);
    if (plot->panel->mark->kind == SMOE_MARK_CELLS)
        put_palette(out, &plot->scale);
    else
        fprintf(out, "set grid lc rgb '%s' dt 1\n", pale);
    fputs("set multiplot", out);
    if (!l->paper) {
        fputs(" title ", out);
        smoe_gnuplot_text(out, plot->title);
    }
    fputc('\n', out);
}

/* A plot of nothing, for its key. */
static void put_key(FILE *out, const smoe_plot *plot, const layout *l) {
    if (!l->key) return;
    put_place(out, l, 0, l->title, l->width, l->key, false);
    fprintf(out,
            "unset border\nunset xtics\nunset ytics\nset margins 0,0,0,0\n"
            "set key center center horizontal Left reverse samplen 2 maxcols %zu\n",
            l->key_columns);
    const smoe_mark *m;
    char name[SMOE_PLOT_TEXT + 4];
    for (size_t i = 0; (m = smoe_plot_entry(plot, i)); i++) {
        fputs(i ? ", \\\n     NaN" : "plot [0:1][0:1] NaN", out);
        put_style(out, m);
        fputs(" title ", out);
        smoe_gnuplot_text(out, cut_name(name, m->name, key_letters(l->width, l->font)));
    }
    fprintf(out,
            "\nset border 3 lc rgb '%s'\nset xtics nomirror\nset ytics nomirror\nset margins "
            "-1,-1,-1,-1\nset key default\n",
            soft);
}

static int gnuplot_put_script(FILE *out, const void *context, smoe_err *err) {
    const script *s = context;
    const layout *l = &s->l;
    size_t number = 0, edge = (l->width - l->across * l->panel_width) / 2;
    (void)err;
    put_head(out, s->plot, l);
    put_key(out, s->plot, l);
    for (size_t i = 0; i < s->plot->panels; i++) {
        put_place(out, l, edge + i % l->across * l->panel_width,
                  l->title + l->key + i / l->across * l->panel_height, l->panel_width,
                  l->panel_height, s->plot->panel[i].square);
        put_panel(out, s->plot, &s->plot->panel[i], l, &number);
    }
    fputs("unset multiplot\n", out);
    return 0;
}

int smoe_plot_draw(const smoe_plot *plot, const char *folder, double width, bool *drawn,
                   smoe_err *err) {
    const script s = {plot, gnuplot_lay_out(plot, width)};
    return smoe_gnuplot_draw(folder, plot->name, gnuplot_put_script, &s, s.l.paper, drawn, err);
}
