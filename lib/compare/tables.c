/* Tables of contrasts; see tables.h. */
#include "compare/tables.h"

#include <math.h>
#include <stdlib.h>

void smoe_contrasts_free(smoe_contrasts *contrasts) {
    smoe_comparison_free(&contrasts->compared);
    smoe_trends_free(&contrasts->trends);
    free(contrasts->primary);
    *contrasts = (smoe_contrasts){0};
}

const char *smoe_tables_paired(char *buf, size_t size, const smoe_paired *p) {
    if (p->n == 1)
        snprintf(buf, size, "%+.4g", p->mean);
    else
        snprintf(buf, size, "%+.4g \xc2\xb1 %.2g", p->mean, p->half);
    return buf;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void add_columns(smoe_frame *frame, const char *const *name, size_t count, bool text) {
    for (size_t i = 0; i < count; i++) smoe_frame_column(frame, name[i], text);
}

static void add_keys(smoe_frame *frame, const smoe_measures *m) {
    for (size_t c = 0; c < m->columns; c++)
        if (c != m->seed) smoe_frame_column(frame, m->column[c], true);
}

/* The value under its name, its interval, n. */
static void add_interval(smoe_frame_cells *row, const char *name, const smoe_paired *p) {
    smoe_frame_cells_number(row, name, p->mean);
    smoe_frame_cells_number(row, "low", p->mean - p->half);
    smoe_frame_cells_number(row, "high", p->mean + p->half);
    smoe_frame_cells_number(row, "n", (double)p->n);
}

/* The number of images in the interval, and the interval over seeds alone. */
static void add_seeds(smoe_frame_cells *row, const smoe_paired *p) {
    smoe_frame_cells_number(row, "images", (double)p->images);
    smoe_frame_cells_number(row, "seeds_low", p->mean - p->seeds_half);
    smoe_frame_cells_number(row, "seeds_high", p->mean + p->seeds_half);
}

void smoe_tables_differences(smoe_frame *frame, const smoe_comparison *r) {
    static const char *const first[] = {"reference", "metric"};
    static const char *const value[] = {"difference", "low", "high", "n"};
    static const char *const distinguishable[] = {"distinguishable"};
    static const char *const more[] = {"images", "seeds_low", "seeds_high", "p", "margin"};
    static const char *const verdict[] = {"verdict"};
    const smoe_measures *m = r->of;
    char text[64], *reference = smoe_comparison_reference(r);
    add_keys(frame, m);
    add_columns(frame, first, 2, true);
    add_columns(frame, value, 4, false);
    add_columns(frame, distinguishable, 1, true);
    add_columns(frame, more, 5, false);
    add_columns(frame, verdict, 1, true);
    for (size_t i = 0; i < r->differences; i++) {
        const smoe_difference *d = &r->difference[i];
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        for (size_t c = 0; c < m->columns; c++) {
            const char *own = smoe_difference_setting(r, d, c);
            if (c != m->seed) smoe_frame_cells_text(&row, m->column[c], own ? own : "");
        }
        smoe_frame_cells_text(&row, "reference", reference ? reference : "");
        smoe_frame_cells_text(&row, "metric", m->metric[d->metric]);
        add_interval(&row, "difference", &d->paired);
        smoe_frame_cells_text(&row, "distinguishable",
                              d->paired.distinguishable ? "true" : "false");
        add_seeds(&row, &d->paired);
        smoe_frame_cells_number(&row, "p", d->p);
        smoe_frame_cells_number(&row, "margin", d->margin);
        smoe_frame_cells_text(&row, "verdict", smoe_difference_verdict(text, sizeof text, d));
        smoe_frame_cells_put(&row, frame);
    }
    frame->failed |= !reference;
    free(reference);
}

void smoe_tables_trends(smoe_frame *frame, const smoe_trends *r) {
    static const char *const first[] = {"over", "metric"};
    static const char *const value[] = {"slope",  "low",       "high",       "n", "rows",
                                        "images", "seeds_low", "seeds_high", "p"};
    static const char *const verdict[] = {"verdict"};
    const smoe_measures *m = r->of;
    add_keys(frame, m);
    add_columns(frame, first, 2, true);
    add_columns(frame, value, 9, false);
    add_columns(frame, verdict, 1, true);
    for (size_t i = 0; i < r->count; i++) {
        const smoe_trend *t = &r->trend[i];
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        for (size_t c = 0; c < m->columns; c++)
            if (c != m->seed)
                smoe_frame_cells_text(&row, m->column[c], smoe_trend_setting(r, t, c));
        smoe_frame_cells_text(&row, "over", m->column[t->column]);
        smoe_frame_cells_text(&row, "metric", m->metric[t->metric]);
        add_interval(&row, "slope", &t->paired);
        smoe_frame_cells_number(&row, "rows", (double)t->groups);
        add_seeds(&row, &t->paired);
        smoe_frame_cells_number(&row, "p", t->p);
        smoe_frame_cells_text(&row, "verdict", smoe_trend_direction(t));
        smoe_frame_cells_put(&row, frame);
    }
}

void smoe_tables_primary(smoe_frame *frame, const smoe_primary_result *primary, size_t count) {
    static const char *const first[] = {"contrast", "measure", "expect"};
    static const char *const value[] = {"value", "low",      "high",      "n",
                                        "rows",  "images",   "seeds_low", "seeds_high",
                                        "p",     "adjusted", "margin"};
    static const char *const finding[] = {"finding"};
    add_columns(frame, first, 3, true);
    add_columns(frame, value, 11, false);
    add_columns(frame, finding, 1, true);
    for (size_t i = 0; i < count; i++) {
        const smoe_primary_result *result = &primary[i];
        char *name = smoe_primary_name(result->asked);
        frame->failed |= !name;
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        smoe_frame_cells_text(&row, "contrast", name ? name : "");
        smoe_frame_cells_text(&row, "measure", result->asked->measure);
        smoe_frame_cells_text(&row, "expect", result->asked->expect);
        add_interval(&row, "value", &result->paired);
        smoe_frame_cells_number(&row, "rows", (double)result->groups);
        add_seeds(&row, &result->paired);
        smoe_frame_cells_number(&row, "p", result->p);
        smoe_frame_cells_number(&row, "adjusted", result->adjusted);
        smoe_frame_cells_number(&row, "margin", result->margin);
        smoe_frame_cells_text(&row, "finding", smoe_finding_name(result->finding));
        smoe_frame_cells_put(&row, frame);
        free(name);
    }
}

/* ---- the summary ----------------------------------------------------------------------------- */

/* " +0.08 +- 0.03 | +- 0.02 | 2000 | 8 |": value, half over seeds alone, images, n. */
static void put_interval(FILE *out, const smoe_paired *p) {
    char text[64];
    const char *bold = p->distinguishable ? "**" : "";
    fprintf(out, " %s%s%s |", bold, smoe_tables_paired(text, sizeof text, p), bold);
    if (p->n > 1)
        fprintf(out, " \xc2\xb1 %.2g |", p->seeds_half);
    else
        fputs(" - |", out);
    if (p->images)
        fprintf(out, " %zu |", p->images);
    else
        fputs(" - |", out);
    fprintf(out, " %zu |", p->n);
}

/* The heading of a table: the swept keys where they are asked for, then `columns`, of which those
 * from `numbers` on stand on the right. */
static void put_heading(FILE *out, const smoe_measures *keys, const char *const *column,
                        size_t columns, size_t numbers) {
    fputc('|', out);
    for (size_t c = 0; keys && c < keys->columns; c++)
        if (c != keys->seed) fprintf(out, " %s |", keys->column[c]);
    for (size_t i = 0; i < columns; i++) fprintf(out, " %s |", column[i]);
    fputs("\n|", out);
    for (size_t c = 0; keys && c < keys->columns; c++)
        if (c != keys->seed) fputs(" --- |", out);
    for (size_t i = 0; i < columns; i++)
        fputs(i >= numbers && i < columns - 1 ? " ---: |" : " --- |", out);
    fputc('\n', out);
}

static void put_primary(FILE *out, const smoe_contrasts *r, const char *level) {
    static const char *const column[] = {"contrast",    "measure", "expected", "value",
                                         "seeds alone", "images",  "n",        "p",
                                         "adjusted",    "finding"};
    if (!r->primaries) return;
    fprintf(out,
            "\n%s Primary contrasts\n\n"
            "Stated before the cells ran; p is adjusted by Holm's method, and findings are at the "
            "5%% level.\n\n",
            level);
    put_heading(out, NULL, column, 10, 3);
    for (size_t i = 0; i < r->primaries; i++) {
        const smoe_primary_result *result = &r->primary[i];
        char *name = smoe_primary_name(result->asked);
        fprintf(out, "| %s | %s | %s", name ? name : "?", result->asked->measure,
                result->asked->expect);
        if (isfinite(result->margin)) fprintf(out, " within \xc2\xb1%g", result->margin);
        fputs(" |", out);
        put_interval(out, &result->paired);
        fprintf(out, " %.2g | %.2g | %s |\n", result->p, result->adjusted,
                smoe_finding_name(result->finding));
        free(name);
    }
}

static void put_differences(FILE *out, const smoe_comparison *r, bool planned, const char *level) {
    static const char *const column[] = {"metric", "difference", "seeds alone",
                                         "images", "n",          "verdict"};
    const smoe_measures *m = r->of;
    char text[64], *reference = smoe_comparison_reference(r);
    if (r->differences) {
        fprintf(out, "\n%s Differences from %s%s\n\n", level, reference ? reference : "",
                planned ? " (exploratory)" : "");
        fputs("Paired by seed and test image. The 95% interval is over both; the one over seeds "
              "alone is beside it, and is the only one where the number of images is missing. "
              "Bold: the interval does not include 0.\n\n",
              out);
        put_heading(out, m, column, 6, 1);
    }
    for (size_t i = 0; i < r->differences; i++) {
        const smoe_difference *d = &r->difference[i];
        fputc('|', out);
        for (size_t c = 0; c < m->columns; c++) {
            const char *value = smoe_difference_setting(r, d, c);
            if (c != m->seed) fprintf(out, " %s |", value ? value : "all");
        }
        fprintf(out, " %s |", m->metric[d->metric]);
        put_interval(out, &d->paired);
        fprintf(out, " %s |\n", smoe_difference_verdict(text, sizeof text, d));
    }
    for (size_t g = 0, said = 0; g < m->groups; g++) {
        char *why = smoe_comparison_missing(r, g);
        if (why) fprintf(out, "%s%s\n", said++ ? "- " : "\n- ", why);
        free(why);
    }
    free(reference);
}

static void put_trends(FILE *out, const smoe_trends *r, bool planned, const char *level) {
    static const char *const column[] = {"metric", "per doubling", "seeds alone", "images",
                                         "n",      "verdict"};
    const smoe_measures *m = r->of;
    if (!r->count) return;
    fprintf(out,
            "\n%s Trends%s\n\n"
            "The slope of each seed against log2 of the key marked *, with the 95%% interval as "
            "above.\n\n",
            level, planned ? " (exploratory)" : "");
    put_heading(out, m, column, 6, 1);
    for (size_t i = 0; i < r->count; i++) {
        const smoe_trend *t = &r->trend[i];
        fputc('|', out);
        for (size_t c = 0; c < m->columns; c++)
            if (c != m->seed) fprintf(out, " %s |", smoe_trend_setting(r, t, c));
        fprintf(out, " %s |", m->metric[t->metric]);
        put_interval(out, &t->paired);
        fprintf(out, " %s |\n", smoe_trend_direction(t));
    }
}

void smoe_tables_markdown(FILE *out, const smoe_contrasts *r, const char *level) {
    put_primary(out, r, level);
    put_differences(out, &r->compared, r->planned, level);
    put_trends(out, &r->trends, r->planned, level);
}
