/* The page of the report; see report.h. report.html has {{name}} in place of each inserted part. */
#include "draw/report.h"
#include "base/file.h"
#include "draw/figures.h"
#include "draw/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Text between tags or in quotes. */
static void put_escaped(FILE *out, const char *text, bool lines) {
    for (const char *c = text; *c; c++) switch (*c) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc((unsigned char)*c < ' ' && !(lines && *c == '\n') ? ' ' : *c, out);
        }
}

static void put_html(FILE *out, const char *text) {
    put_escaped(out, text, false);
}

/* The same with its lines. */
static void put_text(FILE *out, const char *text) {
    put_escaped(out, text, true);
}

/* A column's name for a reader: "slots per expert". */
static void put_heading(FILE *out, const char *name) {
    char buf[64];
    put_html(out, smoe_words_of(name, buf, sizeof buf));
}

/* Whole numbers in groups of three digits, others to four digits; a dash for none. */
static void put_number(FILE *out, double v) {
    char text[32];
    if (!isfinite(v)) {
        fputs("\xe2\x80\x93", out);
    } else if (v != floor(v) || fabs(v) >= 1e15) {
        fprintf(out, "%.4g", v);
    } else {
        int length = snprintf(text, sizeof text, "%.0f", v);
        for (int i = 0; i < length; i++) {
            if (i && text[i - 1] != '-' && (length - i) % 3 == 0)
                fputs("\xe2\x80\xaf", out); /* a narrow space */
            fputc(text[i], out);
        }
    }
}

static void put_cell(FILE *out, const smoe_frame *f, size_t row, size_t column) {
    if (f->column[column].text) {
        fputs("<td class=\"text\">", out);
        put_html(out, smoe_frame_text_at(f, row, column));
    } else {
        double v = smoe_frame_number_at(f, row, column);
        fputs("<td>", out);
        if (!strcmp(f->column[column].name, "class_token"))
            fputs(v > 0 ? "yes" : "no", out);
        else
            put_number(out, v);
    }
    fputs("</td>", out);
}

/* The runs beside one another, one column each. */
static void put_runs(FILE *out, const smoe_frame *f) {
    fprintf(out,
            "<div><h3>%s</h3>\n<div class=\"scroll\"><table class=\"runs\" aria-label=\"%s\">\n"
            "<thead><tr><td></td>",
            f->title, f->title);
    for (size_t r = 0; r < f->rows; r++) {
        fputs("<th scope=\"col\">", out);
        put_html(out, smoe_frame_text_at(f, r, 0));
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t c = 1; c < f->columns; c++) {
        fputs("<tr><th scope=\"row\">", out);
        put_heading(out, f->column[c].name);
        fputs("</th>", out);
        for (size_t r = 0; r < f->rows; r++) put_cell(out, f, r, c);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div></div>\n", out);
}

/* All rows; the name of the only run is left out. */
static void put_table(FILE *out, const smoe_frame *f, bool several) {
    fprintf(out,
            "<h3>%s</h3>\n<p class=\"note\">%s.</p>\n<div class=\"scroll\"><table "
            "aria-label=\"%s\">\n<thead><tr>",
            f->title, f->caption, f->title);
    for (size_t c = !several; c < f->columns; c++) {
        fputs("<th scope=\"col\">", out);
        put_heading(out, f->column[c].name);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t r = 0; r < f->rows; r++) {
        fputs("<tr>", out);
        for (size_t c = !several; c < f->columns; c++) put_cell(out, f, r, c);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_names(FILE *out, const smoe_frame *runs) {
    for (size_t r = 0; runs && r < runs->rows; r++) {
        if (r) fputs(r + 1 < runs->rows ? ", " : " and ", out);
        put_html(out, smoe_frame_text_at(runs, r, 0));
    }
}

static void put_lead(FILE *out, const smoe_report *report, size_t runs) {
    if (report->lead)
        put_html(out, report->lead);
    else if (runs == 1)
        fputs("What the routers of one run do with the images they are shown.", out);
    else
        fprintf(out, "What the routers of %zu runs do with the images they are shown.", runs);
}

static void put_facts(FILE *out, const smoe_report_fact *fact, size_t count) {
    fputs("<dl class=\"facts\">\n", out);
    for (size_t i = 0; i < count; i++) {
        fputs("<div><dt>", out);
        put_html(out, fact[i].term);
        fputs(fact[i].folded ? "</dt><dd><details><summary>show</summary><pre>" : "</dt><dd>", out);
        put_text(out, fact[i].text);
        fputs(fact[i].folded ? "</pre></details></dd></div>\n" : "</dd></div>\n", out);
    }
    fputs("</dl>\n", out);
}

static void put_origin(FILE *out, const smoe_report *report) {
    if (!report->origin_count) return;
    fputs("<section id=\"provenance\">\n<h2>Provenance</h2>\n", out);
    put_facts(out, report->origin, report->origin_count);
    fputs("</section>\n", out);
}

/* Without a table of runs all tables, but those of figures. */
static void put_all_tables(FILE *out, const smoe_report *report) {
    for (size_t i = 0; i < report->frame_count; i++)
        if (report->frames[i].rows && !smoe_figure_find(report->frames[i].name))
            put_table(out, &report->frames[i], true);
}

/* The runs, then the short tables that have no figure. */
static void put_summary(FILE *out, const smoe_report *report, const smoe_frame *runs) {
    static const char *const tables[] = {"routing", "token_weight", "companions"};
    if (!runs) {
        fputs("<div>", out);
        put_all_tables(out, report);
        fputs("</div>\n", out);
        return;
    }
    put_runs(out, runs);
    fputs("<div>", out);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const smoe_frame *f = smoe_frames_find(report->frames, report->frame_count, tables[i]);
        if (f && f->rows) put_table(out, f, runs->rows > 1);
    }
    fputs("</div>\n", out);
}

/* Writes the part for {{name}}. */
static int put_named(FILE *out, const smoe_report *report, const char *name, smoe_err *err) {
    const smoe_frame *runs = smoe_frames_find(report->frames, report->frame_count, "runs");
    size_t size;
    const char *part = smoe_report_part(name, &size);
    if (part)
        fwrite(part, 1, size, out);
    else if (!strcmp(name, "data"))
        return smoe_report_data(report, out, err);
    else if (!strcmp(name, "version"))
        fputs(SMOE_VERSION, out);
    else if (!strcmp(name, "title") && !report->title)
        put_names(out, runs);
    else if (!strcmp(name, "title"))
        put_html(out, report->title);
    else if (!strcmp(name, "command"))
        put_html(out, report->command ? report->command : "smoe inspect");
    else if (!strcmp(name, "lead"))
        put_lead(out, report, runs ? runs->rows : 0);
    else if (!strcmp(name, "found") && report->found_count)
        put_facts(out, report->found, report->found_count);
    else if (!strcmp(name, "origin"))
        put_origin(out, report);
    else if (!strcmp(name, "summary"))
        put_summary(out, report, runs);
    return 0;
}

static int put_page(FILE *out, const void *context, smoe_err *err) {
    const smoe_report *report = context;
    size_t size;
    const char *page = smoe_report_part("report.html", &size), *end = page + size;
    while (page < end) {
        const char *open = memmem(page, (size_t)(end - page), "{{", 2);
        const char *close = open ? memmem(open, (size_t)(end - open), "}}", 2) : NULL;
        char name[32];
        fwrite(page, 1, (size_t)((close ? open : end) - page), out);
        if (!close) break;
        snprintf(name, sizeof name, "%.*s", (int)(close - open - 2), open + 2);
        if (put_named(out, report, name, err)) return -1;
        page = close + 2;
    }
    return 0;
}

int smoe_report_write(const smoe_report *report, const char *path, smoe_err *err) {
    return smoe_file_print(path, put_page, report, err);
}
