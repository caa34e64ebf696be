/* Which rows of a table are a panel and a line of a figure; see figures_view.h. */
#include "draw/figures_view.h"

#include <math.h>
#include <string.h>

bool smoe_cells_agree(const smoe_frame *f, size_t column, size_t a, size_t b) {
    if (f->column[column].text)
        return !strcmp(smoe_frame_text_at(f, a, column), smoe_frame_text_at(f, b, column));
    double x = smoe_frame_number_at(f, a, column), y = smoe_frame_number_at(f, b, column);
    return x == y || (isnan(x) && isnan(y));
}

bool smoe_rows_agree(const smoe_frame *f, const char *list, size_t a, size_t b) {
    char name[SMOE_DRAWING_NAME];
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++)
        if (!smoe_cells_agree(f, smoe_frame_find(f, name), a, b)) return false;
    return true;
}

double smoe_drawing_number(const smoe_drawing *d, size_t row, const char *column) {
    return smoe_frame_number_at(d->f, row, smoe_frame_find(d->f, column));
}

/* A cell of a heat map without a place (a class token) is no cell. */
static bool drawable(const smoe_drawing *d, size_t r) {
    return d->row->kind != SMOE_FIGURE_HEAT || (isfinite(smoe_drawing_number(d, r, d->row->x)) &&
                                                isfinite(smoe_drawing_number(d, r, d->row->y)));
}

void smoe_drawing_find_panels(smoe_drawing *d) {
    for (size_t r = 0; r < d->f->rows; r++) {
        size_t p = d->panels;
        if (!drawable(d, r)) continue;
        while (p && !smoe_rows_agree(d->f, d->row->panel, d->panel[p - 1].first, r)) p--;
        if (!p) {
            d->panel[d->panels++] = (smoe_span){r, r, true};
            continue;
        }
        if (r != d->panel[p - 1].last + 1) d->panel[p - 1].whole = false;
        d->panel[p - 1].last = r;
    }
}

void smoe_drawing_find_lines(smoe_drawing *d) {
    d->lines = 1;
    d->line[0] = d->panel[0].first;
    for (size_t r = d->line[0]; *d->z && r < d->f->rows; r++) {
        size_t i = d->lines;
        while (i && !smoe_rows_agree(d->f, d->z, d->line[i - 1], r)) i--;
        if (!i) d->line[d->lines++] = r;
    }
}

const char *smoe_drawing_y(const smoe_drawing *d, size_t k, char buf[SMOE_DRAWING_NAME]) {
    return smoe_figure_word(d->row->y, k, buf, SMOE_DRAWING_NAME);
}

bool smoe_drawing_has(const smoe_drawing *d, size_t panel, size_t line, size_t r) {
    return smoe_rows_agree(d->f, d->row->panel, panel, r) &&
           (!*d->z || smoe_rows_agree(d->f, d->z, line, r));
}

bool smoe_drawing_rows(const smoe_drawing *d, const smoe_span *panel, size_t m, smoe_span *rows) {
    char y[SMOE_DRAWING_NAME];
    size_t line = d->line[m / d->each], count = 0;
    const char *needed = smoe_drawing_y(d, m % d->each, y) ? y : d->row->y;
    for (size_t r = panel->first; r <= panel->last; r++) {
        if (!smoe_drawing_has(d, panel->first, line, r)) continue;
        if (*needed && !strchr(needed, ' ') && !isfinite(smoe_drawing_number(d, r, needed)))
            continue;
        if (!count) rows->first = r;
        rows->last = r;
        count++;
    }
    rows->whole = count && count == rows->last - rows->first + 1;
    return count > 0;
}

bool smoe_drawing_range(const smoe_drawing *d, const char *list, const smoe_span *p, double *low,
                        double *high) {
    char name[SMOE_DRAWING_NAME];
    bool whole = true;
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; smoe_figure_word(list, i, name, sizeof name); i++)
        for (size_t r = p ? p->first : 0; r <= (p ? p->last : d->f->rows - 1); r++) {
            double v = smoe_drawing_number(d, r, name);
            if (!isfinite(v) || (p && !smoe_rows_agree(d->f, d->row->panel, p->first, r))) continue;
            *low = fmin(*low, v);
            *high = fmax(*high, v);
            whole &= v == rint(v);
        }
    if (!(*low <= *high)) *low = *high = 0;
    return whole;
}
