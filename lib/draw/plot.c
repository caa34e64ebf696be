/* Functions for all drawings of a plot; see plot.h. */
#include "draw/plot.h"

/* ---- colours --------------------------------------------------------------------------------- */

/* By day and by night. Those of series are Okabe and Ito's, which are easy to distinguish, a little
 * darker by day and lighter by night, so that thin lines are visible. */
static const unsigned ink[] = {0x1c2126, 0xe4e2dd};
static const unsigned series[SMOE_COLOURS][2] = {{0x1f6fb2, 0x5ea9e0}, {0xc2571a, 0xee8d52},
                                                 {0x2d8a6b, 0x52c09a}, {0xa64f8f, 0xd890c4},
                                                 {0xb98a00, 0xe3b94a}, {0x5a9bc4, 0xa3d0ec}};
static const unsigned ordered[][2] = {
    {0x3f2c73, 0x7c6bc0}, {0x3f4b8c, 0x6f86cf}, {0x34688e, 0x5a9fcd}, {0x28838e, 0x49b3c0},
    {0x219a84, 0x4fc4a4}, {0x45a869, 0x79d184}, {0x7fae45, 0xb0d96a}, {0xbda428, 0xecdf6a}};
static const unsigned bands[][2] = {{0xdceaf5, 0x1f3345},
                                    {0xb7d5ea, 0x264a69},
                                    {0x8dbcde, 0x2f638f},
                                    {0x5f9fcc, 0x3c7fb5},
                                    {0x3a82b6, 0x5ea0d4}};
static const unsigned little_to_much[SMOE_SCALE_STOPS][2] = {{0xf6f8fa, 0x1c2128},
                                                             {0xc6d9e8, 0x203e5c},
                                                             {0x7aaad0, 0x3070a4},
                                                             {0x2e6ca0, 0x7ab6de},
                                                             {0x0c2c54, 0xecf6fd}};
static const unsigned below_to_above[SMOE_SCALE_STOPS][2] = {{0x14548c, 0x7ebeec},
                                                             {0x7aaad0, 0x306896},
                                                             {0xf7f6f3, 0x22262c},
                                                             {0xe7a06a, 0xa45826},
                                                             {0xac4a0e, 0xfab078}};

static const char *palette_put(unsigned rgb, char buf[SMOE_COLOUR_TEXT]) {
    snprintf(buf, SMOE_COLOUR_TEXT, "#%06x", rgb & 0xFFFFFF);
    return buf;
}

/* Interpolates between the two nearest colours of the ramp. */
static unsigned on_ramp(double at, bool night) {
    double place = fmin(fmax(at, 0), 1) * (SMOE_COUNT(ordered) - 1);
    size_t below = (size_t)place, above = below + 1 < SMOE_COUNT(ordered) ? below + 1 : below;
    unsigned from = ordered[below][night], to = ordered[above][night], mixed = 0;
    for (unsigned shift = 0; shift < 24; shift += 8) {
        double low = from >> shift & 0xFF, high = to >> shift & 0xFF;
        mixed |= (unsigned)lrint(low + (place - (double)below) * (high - low)) << shift;
    }
    return mixed;
}

const char *smoe_colour_text(smoe_colour colour, bool night, char buf[SMOE_COLOUR_TEXT]) {
    size_t i = colour.at > 0 ? (size_t)colour.at : 0;
    switch (colour.kind) {
    case SMOE_SERIES: return palette_put(series[i % SMOE_COLOURS][night], buf);
    case SMOE_BAND: return palette_put(bands[i % SMOE_COUNT(bands)][night], buf);
    case SMOE_ORDERED: return palette_put(on_ramp(colour.at, night), buf);
    default: return palette_put(ink[night], buf);
    }
}

const char *smoe_scale_text(size_t stop, bool diverging, bool night, char buf[SMOE_COLOUR_TEXT]) {
    return palette_put((diverging ? below_to_above : little_to_much)[stop][night], buf);
}

/* ---- plots ----------------------------------------------------------------------------------- */

smoe_panel *smoe_plot_panel(smoe_plot *plot) {
    return &SMOE_APPEND(plot->panel, plot->panels);
}

smoe_mark *smoe_plot_mark(smoe_panel *panel) {
    return &SMOE_APPEND(panel->mark, panel->marks);
}

smoe_plot_tick *smoe_plot_add_tick(smoe_plot_axis *axis) {
    return &SMOE_APPEND(axis->tick, axis->ticks);
}

void smoe_plot_free(smoe_plot *plot) {
    for (size_t i = 0; i < plot->panels; i++) {
        for (size_t k = 0; k < plot->panel[i].marks; k++) free(plot->panel[i].mark[k].point);
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
    if (f->column[column].words)
        return !strcmp(smoe_frame_text_at(f, a, column), smoe_frame_text_at(f, b, column));
    double x = smoe_frame_number_at(f, a, column), y = smoe_frame_number_at(f, b, column);
    return x == y || (isnan(x) && isnan(y));
}

bool smoe_plot_agree(const smoe_frame *f, const char *const *list, size_t a, size_t b) {
    for (; *list; list++)
        if (!same_cell(f, smoe_frame_find(f, *list), a, b)) return false;
    return true;
}

bool smoe_plot_has(const smoe_plot *plot, const smoe_plot_rows *rows, size_t r) {
    return r >= rows->first && r <= rows->last &&
           smoe_plot_agree(plot->table, rows->same, rows->first, r);
}

void smoe_plot_range(smoe_plot_axis *axis, double low, double high, bool whole, bool wide) {
    double room = fmax(fabs(high) / 20, whole ? 0.5 : 1e-3);
    if (low == high) {
        low -= room;
        high += room;
    }
    /* about six ticks at round numbers, of whole numbers none between */
    double rough = (high - low) / 6, power = pow(10, floor(log10(rough)));
    axis->step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
    if (!(rough > 0) || (whole && axis->step < 1)) axis->step = 1;
    axis->low = wide ? floor(low / axis->step + 1e-9) * axis->step : low;
    axis->high = wide ? ceil(high / axis->step - 1e-9) * axis->step : high;
}

void smoe_plot_range_share(smoe_plot_axis *axis, double low, double high) {
    double room = low == high ? fmax(fabs(high) / 20, 1e-3) : 0;
    low = fmax(low - room, fmin(low, 0)); /* a share that is not one keeps its place */
    high = fmin(high + room, fmax(high, 1));
    smoe_plot_range(axis, low, high, false, true);
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

/* ---- points ---------------------------------------------------------------------------------- */

smoe_mark *smoe_plot_points(smoe_panel *panel) {
    smoe_mark *m = smoe_plot_mark(panel);
    m->kind = SMOE_MARK_POINTS;
    m->colour = (smoe_colour){SMOE_SERIES, (double)(panel->marks - 1)};
    m->joined = true;
    return m;
}

void smoe_plot_add_point(smoe_mark *m, double x, double y, double half, bool share) {
    double error = isfinite(half) ? half : 0, low = y - error, high = y + error;
    if (share) low = fmin(fmax(low, 0), y);
    if (share) high = fmax(fmin(high, 1), y);
    m->share = share;
    SMOE_APPEND(m->point, m->points) = (smoe_plot_point){x, y, {low, high}};
}

void smoe_plot_name(smoe_plot_axis *axis, double at, const char *name) {
    for (size_t i = 0; i < axis->ticks; i++)
        if (axis->tick[i].at == at) return;
    smoe_plot_tick *tick = smoe_plot_add_tick(axis);
    for (; tick > axis->tick && tick[-1].at > at; tick--) *tick = tick[-1];
    tick->at = at;
    snprintf(tick->text, sizeof tick->text, "%s", name);
}

void smoe_plot_fit(smoe_panel *panel, int log) {
    double x[2] = {INFINITY, -INFINITY}, y[2] = {INFINITY, -INFINITY};
    bool whole = true, share = true;
    for (size_t i = 0; i < panel->marks; i++) {
        share = share && panel->mark[i].share;
        for (size_t k = 0; k < panel->mark[i].points; k++) {
            const smoe_plot_point *p = &panel->mark[i].point[k];
            if (!isfinite(p->x) || !isfinite(p->y)) continue;
            x[0] = fmin(x[0], p->x);
            x[1] = fmax(x[1], p->x);
            y[0] = fmin(y[0], p->bar[0]);
            y[1] = fmax(y[1], p->bar[1]);
            whole = whole && p->x == rint(p->x);
        }
    }
    if (!(x[0] <= x[1])) x[0] = y[0] = 0, x[1] = y[1] = 1; /* no points */
    double wide = x[1] > x[0] ? (x[1] - x[0]) / 20 : fmax(1, fabs(x[0]) / 20);
    if (panel->x.ticks) {
        panel->x.low = nearbyint(x[0]) - 0.5; /* points side by side are not at their places */
        panel->x.high = nearbyint(x[1]) + 0.5;
    } else if (log)
        smoe_plot_range_log(&panel->x, x[0], x[1], log);
    else
        smoe_plot_range(&panel->x, x[0] - wide, x[1] + wide, whole, false);
    if (share)
        smoe_plot_range_share(&panel->y, y[0], y[1]);
    else
        smoe_plot_range(&panel->y, y[0], y[1], false, true);
}

void smoe_plot_level(smoe_panel *panel, double height) {
    smoe_mark *m = smoe_plot_points(panel);
    m->colour = (smoe_colour){SMOE_INK, 0};
    m->dash = 1;
    m->bare = true;
    strcpy(m->name, "reference");
    smoe_plot_add_point(m, panel->x.low, height, 0, false);
    smoe_plot_add_point(m, panel->x.high, height, 0, false);
}
