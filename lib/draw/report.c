/* The page of the report; see report.h. report.html has {{name}} in place of each inserted part. */
#include "draw/report.h"
#include "draw/figures.h"

/* A column's name for a reader: "slots per expert". */
static void put_heading(smoe_page *page, const char *scope, const char *name) {
    char buf[64];
    smoe_page_html(page, "<th scope=\"%s\">%s</th>", scope, smoe_words_of(name, buf, sizeof buf));
}

static void report_put_cell(smoe_page *page, const smoe_frame *f, size_t row, size_t column) {
    if (f->column[column].words) {
        smoe_page_html(page, "<td class=\"text\">%s</td>", smoe_frame_text_at(f, row, column));
        return;
    }
    double v = smoe_frame_number_at(f, row, column);
    if (!strcmp(f->column[column].name, "class_token"))
        smoe_page_html(page, "<td>%s</td>", v > 0 ? "yes" : "no");
    else
        smoe_page_html(page, "<td>%.4g</td>", v);
}

/* The runs beside one another, one column each. */
static void put_runs(smoe_page *page, const smoe_frame *f) {
    smoe_page_html(page,
                   "<div><h3>%s</h3>\n<div class=\"scroll\"><table class=\"runs\" "
                   "aria-label=\"%s\">\n<thead><tr><td></td>",
                   f->title, f->title);
    for (size_t r = 0; r < f->rows; r++)
        smoe_page_html(page, "<th scope=\"col\">%s</th>", smoe_frame_text_at(f, r, 0));
    smoe_page_html(page, "</tr></thead>\n<tbody>\n");
    for (size_t c = 1; c < f->columns; c++) {
        smoe_page_html(page, "<tr>");
        put_heading(page, "row", f->column[c].name);
        for (size_t r = 0; r < f->rows; r++) report_put_cell(page, f, r, c);
        smoe_page_html(page, "</tr>\n");
    }
    smoe_page_html(page, "</tbody></table></div></div>\n");
}

/* All rows; the name of the only run is left out. */
static void report_put_table(smoe_page *page, const smoe_frame *f, bool several) {
    smoe_page_html(page,
                   "<h3>%s</h3>\n<p class=\"note\">%s.</p>\n<div class=\"scroll\"><table "
                   "aria-label=\"%s\">\n<thead><tr>",
                   f->title, f->caption, f->title);
    for (size_t c = !several; c < f->columns; c++) put_heading(page, "col", f->column[c].name);
    smoe_page_html(page, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < f->rows; r++) {
        smoe_page_html(page, "<tr>");
        for (size_t c = !several; c < f->columns; c++) report_put_cell(page, f, r, c);
        smoe_page_html(page, "</tr>\n");
    }
    smoe_page_html(page, "</tbody></table></div>\n");
}

static void put_facts(smoe_page *page, const smoe_report_fact *fact, size_t count) {
    smoe_page_html(page, "<dl class=\"facts\">\n");
    for (size_t i = 0; i < count; i++) {
        smoe_page_html(page, "<div><dt>%s</dt><dd>", fact[i].term);
        if (fact[i].folded)
            smoe_page_html(page, "<details><summary>show</summary><pre>%s</pre></details>",
                           fact[i].text);
        else
            smoe_page_html(page, "%s", fact[i].text);
        smoe_page_html(page, "</dd></div>\n");
    }
    smoe_page_html(page, "</dl>\n");
}

/* The runs, then the short tables that have no figure; without runs all tables that have none. */
static void put_summary(smoe_page *page, const smoe_report *report, const smoe_frame *runs) {
    static const char *const tables[] = {"routing", "token_weight", "companions"};
    if (runs) put_runs(page, runs);
    smoe_page_html(page, "<div>");
    for (size_t i = 0; !runs && i < report->frame_count; i++)
        if (report->frames[i].rows && !smoe_figure_find(report->frames[i].name))
            report_put_table(page, &report->frames[i], true);
    for (size_t i = 0; runs && i < SMOE_COUNT(tables); i++) {
        const smoe_frame *f = smoe_frames_find(report->frames, report->frame_count, tables[i]);
        if (f && f->rows) report_put_table(page, f, runs->rows > 1);
    }
    smoe_page_html(page, "</div>\n");
}

static int report_put_named(smoe_page *page, const char *name, const void *context, smoe_err *err) {
    const smoe_report *report = context;
    const char *const texts[][2] = {{"version", SMOE_VERSION},
                                    {"title", report->title},
                                    {"command", report->command},
                                    {"lead", report->lead}};
    for (size_t i = 0; i < SMOE_COUNT(texts); i++)
        if (!strcmp(name, texts[i][0])) smoe_page_html(page, "%s", texts[i][1]);
    if (!strcmp(name, "data")) {
        json_auto_t *data = smoe_report_data(report, err);
        if (!data) return -1;
        smoe_page_json(page, data);
    } else if (!strcmp(name, "found") && report->found_count)
        put_facts(page, report->found, report->found_count);
    else if (!strcmp(name, "origin") && report->origin_count) {
        smoe_page_html(page, "<section id=\"provenance\">\n<h2>Provenance</h2>\n");
        put_facts(page, report->origin, report->origin_count);
        smoe_page_html(page, "</section>\n");
    } else if (!strcmp(name, "summary"))
        put_summary(page, report, smoe_frames_find(report->frames, report->frame_count, "runs"));
    return 0;
}

int smoe_report_write(const smoe_report *report, const char *path, smoe_err *err) {
    return smoe_page_write(path, report_put_named, report, err);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Adds the tables and lines of a result to those of the report, whose lists are this file's. */
static void report_collect(smoe_report *report, const smoe_result *result) {
    smoe_frame *frames = (smoe_frame *)report->frames;
    smoe_report_fact *found = (smoe_report_fact *)report->found;
    for (size_t i = 0; i < result->items; i++) {
        const smoe_item *item = &result->item[i];
        const smoe_frame *frame = item->table;
        const char *term = item->kind == SMOE_ITEM_LINE ? item->key : item->heading;
        if (frame && frame->rows) {
            SMOE_APPEND(frames, report->frame_count) = *frame;
            report->frames = frames;
        } else if (item->part) {
            report_collect(report, item->part);
            frames = (smoe_frame *)report->frames;
            found = (smoe_report_fact *)report->found;
        } else if (term && item->text) {
            SMOE_APPEND(found, report->found_count) = (smoe_report_fact){term, item->text, false};
            report->found = found;
        }
    }
}

int smoe_report_result(const smoe_report *report, const smoe_result *result, const char *path,
                       smoe_err *err) {
    smoe_report whole = *report;
    report_collect(&whole, result);
    int status = smoe_report_write(&whole, path, err);
    free((void *)whole.frames);
    free((void *)whole.found);
    return status;
}
