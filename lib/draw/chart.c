/* Charts as plots; see plot.h. */
#include "draw/plot.h"

#include <math.h>

static smoe_plot_point with_bar(const smoe_chart *chart, const smoe_chart_point *p) {
    double error = isfinite(p->error) ? p->error : 0, low = p->y - error, high = p->y + error;
    if (chart->share) low = fmin(fmax(low, 0), p->y);
    if (chart->share) high = fmax(fmin(high, 1), p->y);
    return (smoe_plot_point){p->x, p->y, {low, high}};
}

/* Leaves room around the outermost points and bars, so that they are not on the frame. */
static void set_ranges(smoe_panel *panel, const smoe_chart *chart) {
    double x[2] = {INFINITY, -INFINITY}, y[2] = {INFINITY, -INFINITY};
    bool whole = true;
    for (size_t i = 0; i < chart->lines; i++)
        for (size_t k = 0; k < chart->line[i].points; k++) {
            const smoe_plot_point p = with_bar(chart, &chart->line[i].point[k]);
            if (!isfinite(p.x) || !isfinite(p.y)) continue;
            x[0] = fmin(x[0], p.x);
            x[1] = fmax(x[1], p.x);
            y[0] = fmin(y[0], p.bar[0]);
            y[1] = fmax(y[1], p.bar[1]);
            whole = whole && p.x == rint(p.x);
        }
    if (!(x[0] <= x[1])) x[0] = y[0] = 0, x[1] = y[1] = 1; /* no points */
    double wide = x[1] > x[0] ? (x[1] - x[0]) / 20 : 1;
    if (panel->x.ticks) { /* categories have a unit each */
        panel->x.low = nearbyint(x[0]) - 0.5;
        panel->x.high = nearbyint(x[1]) + 0.5;
    } else if (chart->log_x)
        smoe_plot_range_log(&panel->x, x[0], x[1], chart->log_x);
    else
        smoe_plot_range(&panel->x, x[0] - wide, x[1] + wide, whole, false);
    smoe_plot_range(&panel->y, y[0], y[1], false, true);
}

/* Adds the name of a point's category to the axis, unless it is there. */
static void add_name(smoe_plot_axis *axis, const smoe_chart_point *p) {
    double at = nearbyint(p->x); /* points drawn side by side are moved by less than half a unit */
    if (!p->label) return;
    for (size_t i = 0; i < axis->ticks; i++)
        if (axis->tick[i].at == at) return;
    smoe_plot_tick *tick = smoe_plot_add_tick(axis);
    tick->at = at;
    snprintf(tick->text, sizeof tick->text, "%s", p->label);
}

static void chart_add_line(smoe_panel *panel, const smoe_chart *chart, size_t i,
                           smoe_plot_point *point) {
    const smoe_chart_line *line = &chart->line[i];
    smoe_mark *m = smoe_plot_mark(panel);
    m->kind = SMOE_MARK_POINTS;
    m->colour = (smoe_colour){SMOE_SERIES, (double)i};
    snprintf(m->name, sizeof m->name, "%s", line->title ? line->title : "");
    m->point = point;
    m->points = line->points;
    m->joined = true;
    for (size_t k = 0; k < line->points; k++) {
        const smoe_chart_point *p = &line->point[k];
        point[k] = with_bar(chart, p);
        add_name(&panel->x, p);
        m->joined = m->joined && !p->label;
    }
}

/* From one end of the x axis to the other. */
static void add_level(smoe_panel *panel, const smoe_chart *chart, smoe_plot_point ends[2]) {
    if (!chart->level_title) return;
    smoe_mark *m = smoe_plot_mark(panel);
    m->kind = SMOE_MARK_POINTS;
    m->dash = 1;
    snprintf(m->name, sizeof m->name, "%s", chart->level_title);
    for (size_t k = 0; k < 2; k++)
        ends[k] = (smoe_plot_point){
            k ? panel->x.high : panel->x.low, chart->level, {chart->level, chart->level}};
    m->point = ends;
    m->points = 2;
    m->joined = m->bare = true;
}

int smoe_chart_write(const smoe_chart *chart, const char *folder, const char *name, bool *drawn,
                     smoe_err *err) {
    SMOE_FREED_BY(smoe_plot_free) smoe_plot plot = {.name = name, .title = chart->title};
    smoe_plot_point ends[2];
    size_t points = 0;
    for (size_t i = 0; i < chart->lines; i++) points += chart->line[i].points;
    SMOE_FREED smoe_plot_point *point = smoe_alloc(points + 1, sizeof *point);
    smoe_plot_point *next = point;
    smoe_panel *panel = smoe_plot_panel(&plot);
    for (size_t i = 0; i < chart->lines; i++) {
        chart_add_line(panel, chart, i, next);
        next += chart->line[i].points;
    }
    *drawn = false;
    snprintf(panel->x.label, sizeof panel->x.label, "%s", chart->x_label);
    snprintf(panel->y.label, sizeof panel->y.label, "%s", chart->y_label);
    set_ranges(panel, chart);
    add_level(panel, chart, ends);
    return smoe_plot_draw(&plot, folder, chart->width, drawn, err);
}
