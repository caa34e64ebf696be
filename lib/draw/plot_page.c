/* A plot as JSON for the report's page; see plot.h. */
#include "draw/script.h"
#include "draw/plot.h"

static void put_list(FILE *out, const char *name, const char *const *list) {
    fprintf(out, ",\"%s\":[", name);
    for (size_t i = 0; list[i]; i++) {
        if (i) fputc(',', out);
        smoe_script_text(out, list[i]);
    }
    fputc(']', out);
}

static void put_axis(FILE *out, const char *name, const smoe_plot_axis *axis) {
    fprintf(out, ",\"%s\":{\"log\":%d", name, axis->log);
    smoe_script_text_member(out, "label", axis->label);
    smoe_script_number_member(out, "low", axis->low, 10);
    smoe_script_number_member(out, "high", axis->high, 10);
    smoe_script_number_member(out, "step", axis->step, 10);
    fputs(",\"ticks\":[", out);
    for (size_t i = 0; i < axis->ticks; i++) {
        fputs(i ? ",[" : "[", out);
        smoe_script_number(out, axis->tick[i].at, 10);
        fputc(',', out);
        smoe_script_text(out, axis->tick[i].text);
        fputc(']', out);
    }
    fputs("]}", out);
}

static void put_mark(FILE *out, const smoe_mark *m) {
    static const char *const kinds[] = {[SMOE_MARK_LINE] = "line",
                                        [SMOE_MARK_STEPS] = "steps",
                                        [SMOE_MARK_HISTOGRAM] = "histogram",
                                        [SMOE_MARK_BAND] = "band",
                                        [SMOE_MARK_BAR] = "bar",
                                        [SMOE_MARK_CELLS] = "cells",
                                        [SMOE_MARK_POINTS] = "points"};
    char day[SMOE_COLOUR_TEXT], night[SMOE_COLOUR_TEXT];
    fprintf(out, "{\"kind\":\"%s\",\"rows\":[%zu,%zu],\"dash\":%zu,\"colour\":[\"%s\",\"%s\"]",
            kinds[m->kind], m->rows.first, m->rows.last, m->dash,
            smoe_colour_text(m->colour, false, day), smoe_colour_text(m->colour, true, night));
    put_list(out, "same", m->rows.same);
    put_list(out, "y", m->y);
    smoe_script_text_member(out, "x", m->x);
    smoe_script_text_member(out, "z", m->z);
    smoe_script_text_member(out, "error", m->error);
    smoe_script_text_member(out, "each", m->each);
    smoe_script_text_member(out, "name", m->name);
    fputc('}', out);
}

static void put_scale(FILE *out, const smoe_plot_scale *scale) {
    char day[SMOE_COLOUR_TEXT], night[SMOE_COLOUR_TEXT];
    fputs(",\"scale\":{\"label\":", out);
    smoe_script_text(out, scale->label);
    fputs(",\"stops\":[", out);
    for (size_t i = 0; i < SMOE_SCALE_STOPS; i++) {
        fputs(i ? ",[" : "[", out);
        smoe_script_number(out, smoe_plot_stop(scale, i), 10);
        fprintf(out, ",\"%s\",\"%s\"]", smoe_scale_text(i, scale->diverging, false, day),
                smoe_scale_text(i, scale->diverging, true, night));
    }
    fputs("]}", out);
}

void smoe_plot_page(const smoe_plot *plot, FILE *out) {
    fputs("{\"name\":", out);
    smoe_script_text(out, plot->name);
    smoe_script_text_member(out, "table", plot->table->name);
    smoe_script_text_member(out, "section", plot->section);
    fputs(",\"names\":[", out);
    smoe_script_text(out, plot->x_name ? plot->x_name : "");
    fputc(',', out);
    smoe_script_text(out, plot->y_name ? plot->y_name : "");
    fputc(']', out);
    if (plot->panel->mark->kind == SMOE_MARK_CELLS)
        put_scale(out, &plot->scale);
    else
        fputs(",\"scale\":null", out);
    fputs(",\"panels\":[", out);
    for (size_t i = 0; i < plot->panels; i++) {
        const smoe_panel *p = &plot->panel[i];
        fprintf(out, "%s{\"square\":%s,\"group\":%zu", i ? ",\n" : "", p->square ? "true" : "false",
                p->group);
        smoe_script_number_member(out, "block", p->block, 4);
        smoe_script_text_member(out, "title", p->title);
        put_axis(out, "x", &p->x);
        put_axis(out, "y", &p->y);
        fputs(",\"marks\":[", out);
        for (size_t m = 0; m < p->marks; m++) {
            if (m) fputc(',', out);
            put_mark(out, &p->mark[m]);
        }
        fputs("]}", out);
    }
    fputs("]}", out);
}
