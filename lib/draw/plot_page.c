/* A plot as JSON for the report's page; see plot.h. */
#include "draw/page.h"
#include "draw/plot.h"

static void put_list(smoe_page *page, const char *const *list) {
    smoe_page_json(page, "[");
    for (size_t i = 0; list[i]; i++) {
        if (i) smoe_page_json(page, ",");
        smoe_page_json(page, "%s", list[i]);
    }
    smoe_page_json(page, "]");
}

static void put_axis(smoe_page *page, const smoe_plot_axis *axis) {
    smoe_page_json(page, "{\"log\":%d,\"label\":%s,\"low\":%.10g,\"high\":%.10g,\"step\":%.10g",
                   axis->log, axis->label, axis->low, axis->high, axis->step);
    smoe_page_json(page, ",\"ticks\":[");
    for (size_t i = 0; i < axis->ticks; i++) {
        if (i) smoe_page_json(page, ",");
        smoe_page_json(page, "[%.10g,%s]", axis->tick[i].at, axis->tick[i].text);
    }
    smoe_page_json(page, "]}");
}

static void put_mark(smoe_page *page, const smoe_mark *m) {
    static const char *const kinds[] = {[SMOE_MARK_LINE] = "line",
                                        [SMOE_MARK_STEPS] = "steps",
                                        [SMOE_MARK_HISTOGRAM] = "histogram",
                                        [SMOE_MARK_BAND] = "band",
                                        [SMOE_MARK_BAR] = "bar",
                                        [SMOE_MARK_CELLS] = "cells",
                                        [SMOE_MARK_POINTS] = "points"};
    char day[SMOE_COLOUR_TEXT], night[SMOE_COLOUR_TEXT];
    smoe_page_json(
        page,
        "{\"kind\":%s,\"rows\":[%zu,%zu],\"dash\":%zu,\"colour\":[%s,%s],\"same\":", kinds[m->kind],
        m->rows.first, m->rows.last, m->dash, smoe_colour_text(m->colour, false, day),
        smoe_colour_text(m->colour, true, night));
    put_list(page, m->rows.same);
    smoe_page_json(page, ",\"y\":");
    put_list(page, m->y);
    smoe_page_json(page, ",\"x\":%s,\"z\":%s,\"error\":%s,\"each\":%s,\"name\":%s}", m->x, m->z,
                   m->error, m->each, m->name);
}

static void put_scale(smoe_page *page, const smoe_plot_scale *scale) {
    char day[SMOE_COLOUR_TEXT], night[SMOE_COLOUR_TEXT];
    smoe_page_json(page, "{\"label\":%s,\"stops\":[", scale->label);
    for (size_t i = 0; i < SMOE_SCALE_STOPS; i++) {
        if (i) smoe_page_json(page, ",");
        smoe_page_json(page, "[%.10g,%s,%s]", smoe_plot_stop(scale, i),
                       smoe_scale_text(i, scale->diverging, false, day),
                       smoe_scale_text(i, scale->diverging, true, night));
    }
    smoe_page_json(page, "]}");
}

static void put_panel(smoe_page *page, const smoe_panel *p) {
    smoe_page_json(page,
                   "{\"square\":%d,\"group\":%zu,\"block\":%.4g,\"title\":%s,\"x\":", p->square,
                   p->group, p->block, p->title);
    put_axis(page, &p->x);
    smoe_page_json(page, ",\"y\":");
    put_axis(page, &p->y);
    smoe_page_json(page, ",\"marks\":[");
    for (size_t m = 0; m < p->marks; m++) {
        if (m) smoe_page_json(page, ",");
        put_mark(page, &p->mark[m]);
    }
    smoe_page_json(page, "]}");
}

void smoe_plot_page(const smoe_plot *plot, smoe_page *page) {
    smoe_page_json(page, "{\"name\":%s,\"table\":%s,\"section\":%s,\"names\":[%s,%s],\"scale\":",
                   plot->name, plot->table->name, plot->section, plot->x_name ? plot->x_name : "",
                   plot->y_name ? plot->y_name : "");
    if (plot->panel->mark->kind == SMOE_MARK_CELLS)
        put_scale(page, &plot->scale);
    else
        smoe_page_json(page, "null");
    smoe_page_json(page, ",\"panels\":[");
    for (size_t i = 0; i < plot->panels; i++) {
        if (i) smoe_page_json(page, ",\n");
        put_panel(page, &plot->panel[i]);
    }
    smoe_page_json(page, "]}");
}
