/* Axes, and heat maps, whose colours are one more; see figures_view.h. */
#include "draw/figures_view.h"
#include "draw/gnuplot.h"

#include <math.h>
#include <string.h>

enum {
    BOXES = 4096, /* cells of a panel drawn as boxes; more become an image */
    TICKS = 16    /* names along the vertical axis at most; half as many along the other */
};

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
static void put_names(FILE *out, const smoe_drawing *d, const char *axis, const char *rank,
                      const char *name, const smoe_span *p, size_t most) {
    const smoe_frame *f = d->f;
    size_t at = smoe_frame_find(f, rank), what = smoe_frame_find(f, name);
    bool seen[TICKS] = {false};
    double low, high;
    smoe_drawing_range(d, rank, p, &low, &high);
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

void smoe_drawing_put_axes(FILE *out, const smoe_drawing *d, const smoe_span *p) {
    const smoe_figure_row *row = d->row;
    bool bars = row->kind == SMOE_FIGURE_BARS;
    double low, high;
    if (row->kind == SMOE_FIGURE_HEAT) return;
    if (smoe_drawing_range(d, row->x, bars ? p : NULL, &low, &high)) {
        put_whole(out, "x", low, high, bars ? 0.5 : 0, false);
    } else {
        put_range(out, "xrange", low, high, NAN);
        put_tics(out, "x", low, high, false);
    }
    smoe_drawing_range(d, row->y, p, &low, &high);
    if (row->kind == SMOE_FIGURE_BANDS || row->kind == SMOE_FIGURE_CUMULATIVE)
        fputs("set yrange [0:1]\n", out);
    else if (*row->y)
        put_range(out, "yrange", low, high, row->flags & SMOE_FIGURE_ZERO ? 0 : NAN);
}

/* ---- heat maps ------------------------------------------------------------------------------- */

/* Does every cell of the panel's rectangle have a number? */
static bool complete(const smoe_drawing *d, const smoe_span *p) {
    double left, right, top, bottom;
    size_t cells = 0;
    smoe_drawing_range(d, d->row->x, p, &left, &right);
    smoe_drawing_range(d, d->row->y, p, &top, &bottom);
    for (size_t r = p->first; r <= p->last; r++)
        cells += isfinite(smoe_drawing_number(d, r, d->row->z));
    return (double)cells == (right - left + 1) * (bottom - top + 1);
}

/* A box a cell makes sharp edges and, of many cells, large files: then they become one image, for
 * which gnuplot wants them in order, rows after one another. Sorting is what `smooth unique` does.
 */
static void put_image(FILE *out, const smoe_drawing *d, const smoe_span *p) {
    const smoe_figure_row *row = d->row;
    double low, high;
    smoe_drawing_range(d, row->x, p, &low, &high);
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

static void put_heat_axis(FILE *out, const smoe_drawing *d, const char *axis, const char *column,
                          const char *name, const smoe_span *p, size_t most) {
    double low, high;
    char tics[8];
    smoe_drawing_range(d, column, p, &low, &high);
    put_whole(out, axis, low, high, 0.5, *axis == 'y');
    snprintf(tics, sizeof tics, "%stics", axis);
    if (*name) put_names(out, d, tics, column, name, p, most);
}

void smoe_drawing_put_heat(FILE *out, const smoe_drawing *d, const smoe_span *p) {
    const smoe_figure_row *row = d->row;
    char text[SMOE_DRAWING_LABEL];
    double low, high;
    smoe_drawing_range(d, row->z, NULL, &low, &high);
    if (low <= high / 2) low = fmin(low, 0);
    if (!(row->flags & SMOE_FIGURE_SIGNED))
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
    smoe_drawing_put_rows(out, d, p);
    fprintf(
        out,
        ":(column(\"%s\")):(column(\"%s\") - 0.5):(column(\"%s\") + 0.5):(column(\"%s\") - 0.5):"
        "(column(\"%s\") + 0.5):(column(\"%s\")) with boxxyerror fs solid noborder lc palette "
        "notitle",
        row->y, row->x, row->x, row->y, row->y, row->z);
}
