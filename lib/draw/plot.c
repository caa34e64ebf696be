/* Functions for all drawings of a plot; see plot.h. */
#include "draw/plot.h"
#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

smoe_panel *smoe_plot_panel(smoe_plot *plot) {
    plot->panel = smoe_alloc_next(plot->panel, plot->panels, sizeof *plot->panel);
    plot->panel[plot->panels] = (smoe_panel){0};
    return &plot->panel[plot->panels++];
}

smoe_mark *smoe_plot_mark(smoe_panel *panel) {
    panel->mark = smoe_alloc_next(panel->mark, panel->marks, sizeof *panel->mark);
    panel->mark[panel->marks] = (smoe_mark){0};
    return &panel->mark[panel->marks++];
}

smoe_plot_tick *smoe_plot_add_tick(smoe_plot_axis *axis) {
    axis->tick = smoe_alloc_next(axis->tick, axis->ticks, sizeof *axis->tick);
    axis->tick[axis->ticks] = (smoe_plot_tick){0};
    return &axis->tick[axis->ticks++];
}

void smoe_plot_free(smoe_plot *plot) {
    for (size_t i = 0; i < plot->panels; i++) {
        free(plot->panel[i].mark);
        free(plot->panel[i].x.tick);
        free(plot->panel[i].y.tick);
    }
    free(plot->panel);
    *plot = (smoe_plot){0};
}

/* Whether there is a mark of that name before mark m of panel p. */
static bool named_before(const smoe_plot *plot, size_t p, size_t m) {
    const char *name = plot->panel[p].mark[m].name;
    for (size_t i = 0; i <= p; i++)
        for (size_t k = 0; k < (i < p ? plot->panel[i].marks : m); k++)
            if (!strcmp(plot->panel[i].mark[k].name, name)) return true;
    return false;
}

const smoe_mark *smoe_plot_entry(const smoe_plot *plot, size_t i) {
    for (size_t p = 0; p < plot->panels; p++)
        for (size_t m = 0; m < plot->panel[p].marks; m++)
            if (*plot->panel[p].mark[m].name && !named_before(plot, p, m) && !i--)
                return &plot->panel[p].mark[m];
    return NULL;
}

static bool same_cell(const smoe_frame *f, size_t column, size_t a, size_t b) {
    if (f->column[column].text)
        return !strcmp(smoe_frame_text_at(f, a, column), smoe_frame_text_at(f, b, column));
    double x = smoe_frame_number_at(f, a, column), y = smoe_frame_number_at(f, b, column);
    return x == y || (isnan(x) && isnan(y));
}

bool smoe_plot_has(const smoe_plot *plot, const smoe_plot_rows *rows, size_t r) {
    if (r < rows->first || r > rows->last) return false;
    for (const char *const *name = rows->same; *name; name++)
        if (!same_cell(plot->table, smoe_frame_find(plot->table, *name), rows->first, r))
            return false;
    return true;
}

/* About six ticks at round numbers, of whole numbers none between. */
static double step_of(double low, double high, bool whole) {
    double rough = (high - low) / 6, power = pow(10, floor(log10(rough)));
    double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
    return !(rough > 0) || (whole && step < 1) ? 1 : step;
}

void smoe_plot_range(smoe_plot_axis *axis, double low, double high, bool whole, bool wide) {
    double room = fmax(fabs(high) / 20, 1e-3);
    if (low == high) {
        low -= room;
        high += room;
        whole = false;
    }
    axis->step = step_of(low, high, whole);
    axis->low = wide ? floor(low / axis->step + 1e-9) * axis->step : low;
    axis->high = wide ? ceil(high / axis->step - 1e-9) * axis->step : high;
}

void smoe_plot_range_log(smoe_plot_axis *axis, double low, double high, int base) {
    axis->log = base;
    axis->low = low / 1.2;
    axis->high = high * 1.2;
}

double smoe_plot_stop(const smoe_plot_scale *scale, size_t stop) {
    double part = 2 * (double)stop / (SMOE_SCALE_STOPS - 1) - 1; /* -1 .. 1 */
    return part < 0 ? scale->middle + part * (scale->middle - scale->low)
                    : scale->middle + part * (scale->high - scale->middle);
}
