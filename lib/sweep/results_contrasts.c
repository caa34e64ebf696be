/* Tables of contrasts; see results_contrasts.h. */
#include "sweep/results_contrasts.h"
#include "sweep/compare.h"
#include "sweep/primary.h"

#include <math.h>
#include <stdlib.h>

/* ---- files ----------------------------------------------------------------------------------- */

static void add_columns(smoe_frame *frame, const char *const *name, size_t count, bool text) {
    for (size_t i = 0; i < count; i++) smoe_frame_column(frame, name[i], text);
}

static void add_keys(smoe_frame *frame, const smoe_sweep *sweep) {
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed) smoe_frame_column(frame, sweep->column[c], true);
}

/* The value under its name, its interval, n. */
static void add_interval(smoe_frame_cells *row, const char *name, const smoe_paired *p) {
    smoe_frame_cells_number(row, name, p->mean);
    smoe_frame_cells_number(row, "low", p->mean - p->half);
    smoe_frame_cells_number(row, "high", p->mean + p->half);
    smoe_frame_cells_number(row, "n", (double)p->n);
}

/* How many images the interval is over, and what it would be over seeds alone. */
static void add_seeds(smoe_frame_cells *row, const smoe_paired *p) {
    smoe_frame_cells_number(row, "images", (double)p->images);
    smoe_frame_cells_number(row, "seeds_low", p->mean - p->seeds_half);
    smoe_frame_cells_number(row, "seeds_high", p->mean + p->seeds_half);
}

void smoe_contrasts_differences(smoe_frame *frame, const smoe_results *r) {
    static const char *const first[] = {"reference", "metric"};
    static const char *const value[] = {"difference", "low", "high", "n"};
    static const char *const distinguishable[] = {"distinguishable"};
    static const char *const more[] = {"images", "seeds_low", "seeds_high", "p", "margin"};
    static const char *const verdict[] = {"verdict"};
    const smoe_sweep *sweep = r->sweep;
    char text[64], *reference = smoe_results_reference(r);
    add_keys(frame, sweep);
    add_columns(frame, first, 2, true);
    add_columns(frame, value, 4, false);
    add_columns(frame, distinguishable, 1, true);
    add_columns(frame, more, 5, false);
    add_columns(frame, verdict, 1, true);
    for (size_t i = 0; i < r->differences; i++) {
        const smoe_difference *d = &r->difference[i];
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        for (size_t c = 0; c < sweep->columns; c++) {
            const char *own = smoe_results_row(r, d, c);
            if (c != sweep->seed) smoe_frame_cells_text(&row, sweep->column[c], own ? own : "");
        }
        smoe_frame_cells_text(&row, "reference", reference ? reference : "");
        smoe_frame_cells_text(&row, "metric", r->metric[d->metric]);
        add_interval(&row, "difference", &d->paired);
        smoe_frame_cells_text(&row, "distinguishable",
                              d->paired.distinguishable ? "true" : "false");
        add_seeds(&row, &d->paired);
        smoe_frame_cells_number(&row, "p", d->p);
        smoe_frame_cells_number(&row, "margin", d->margin);
        smoe_frame_cells_text(&row, "verdict", smoe_results_verdict(text, sizeof text, d));
        smoe_frame_cells_put(&row, frame);
    }
    frame->failed |= !reference;
    free(reference);
}

static const char *trend_value(const smoe_results *r, const smoe_trend *t, size_t column) {
    return column == t->column ? "*" : r->sweep->trial[r->first[t->group]].value[column];
}

void smoe_contrasts_trends(smoe_frame *frame, const smoe_results *r) {
    static const char *const first[] = {"over", "metric"};
    static const char *const value[] = {"slope",  "low",       "high",       "n", "rows",
                                        "images", "seeds_low", "seeds_high", "p"};
    static const char *const verdict[] = {"verdict"};
    const smoe_sweep *sweep = r->sweep;
    add_keys(frame, sweep);
    add_columns(frame, first, 2, true);
    add_columns(frame, value, 9, false);
    add_columns(frame, verdict, 1, true);
    for (size_t i = 0; i < r->trends; i++) {
        const smoe_trend *t = &r->trend[i];
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed)
                smoe_frame_cells_text(&row, sweep->column[c], trend_value(r, t, c));
        smoe_frame_cells_text(&row, "over", sweep->column[t->column]);
        smoe_frame_cells_text(&row, "metric", r->metric[t->metric]);
        add_interval(&row, "slope", &t->paired);
        smoe_frame_cells_number(&row, "rows", (double)t->rows);
        add_seeds(&row, &t->paired);
        smoe_frame_cells_number(&row, "p", t->p);
        smoe_frame_cells_text(&row, "verdict", smoe_results_direction(t));
        smoe_frame_cells_put(&row, frame);
    }
}

void smoe_contrasts_primary(smoe_frame *frame, const smoe_results *r) {
    static const char *const first[] = {"contrast", "measure", "expect"};
    static const char *const value[] = {"value", "low",      "high",      "n",
                                        "rows",  "images",   "seeds_low", "seeds_high",
                                        "p",     "adjusted", "margin"};
    static const char *const finding[] = {"finding"};
    add_columns(frame, first, 3, true);
    add_columns(frame, value, 11, false);
    add_columns(frame, finding, 1, true);
    for (size_t i = 0; i < r->primaries; i++) {
        const smoe_primary_result *result = &r->primary[i];
        char *name = smoe_primary_name(result->asked);
        frame->failed |= !name;
        smoe_frame_cells row = smoe_frame_cells_open(frame);
        smoe_frame_cells_text(&row, "contrast", name ? name : "");
        smoe_frame_cells_text(&row, "measure", result->asked->measure);
        smoe_frame_cells_text(&row, "expect", result->asked->expect);
        add_interval(&row, "value", &result->paired);
        smoe_frame_cells_number(&row, "rows", (double)result->rows);
        add_seeds(&row, &result->paired);
        smoe_frame_cells_number(&row, "p", result->p);
        smoe_frame_cells_number(&row, "adjusted", result->adjusted);
        smoe_frame_cells_number(&row, "margin", result->margin);
        smoe_frame_cells_text(&row, "finding", smoe_results_finding(result->finding));
        smoe_frame_cells_put(&row, frame);
        free(name);
    }
}

/* ---- the summary ----------------------------------------------------------------------------- */

/* " +0.08 +- 0.03 | +- 0.02 | 2000 | 8 |": value, half over seeds alone, images, n. */
static void put_interval(FILE *out, const smoe_paired *p) {
    char text[64];
    const char *bold = p->distinguishable ? "**" : "";
    fprintf(out, " %s%s%s |", bold, smoe_results_difference(text, sizeof text, p), bold);
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
static void put_heading(FILE *out, const smoe_sweep *keys, const char *const *column,
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

static void put_primary(FILE *out, const smoe_results *r, const char *level) {
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
                smoe_results_finding(result->finding));
        free(name);
    }
}

static void put_differences(FILE *out, const smoe_results *r, const char *level) {
    static const char *const column[] = {"metric", "difference", "seeds alone",
                                         "images", "n",          "verdict"};
    const smoe_sweep *sweep = r->sweep;
    char text[64], *reference = smoe_results_reference(r);
    if (r->differences) {
        fprintf(out, "\n%s Differences from %s%s\n\n", level, reference ? reference : "",
                r->planned ? " (exploratory)" : "");
        fputs("Paired by seed and test image. The 95% interval is over both; the one over seeds "
              "alone is beside it, and is the only one where the number of images is missing. "
              "Bold: the interval does not include 0.\n\n",
              out);
        put_heading(out, sweep, column, 6, 1);
    }
    for (size_t i = 0; i < r->differences; i++) {
        const smoe_difference *d = &r->difference[i];
        fputc('|', out);
        for (size_t c = 0; c < sweep->columns; c++) {
            const char *value = smoe_results_row(r, d, c);
            if (c != sweep->seed) fprintf(out, " %s |", value ? value : "all");
        }
        fprintf(out, " %s |", r->metric[d->metric]);
        put_interval(out, &d->paired);
        fprintf(out, " %s |\n", smoe_results_verdict(text, sizeof text, d));
    }
    for (size_t g = 0, said = 0; g < r->groups; g++) {
        char *why = smoe_results_not_compared(r, g);
        if (why) fprintf(out, "%s%s\n", said++ ? "- " : "\n- ", why);
        free(why);
    }
    free(reference);
}

static void put_trends(FILE *out, const smoe_results *r, const char *level) {
    static const char *const column[] = {"metric", "per doubling", "seeds alone", "images",
                                         "n",      "verdict"};
    const smoe_sweep *sweep = r->sweep;
    if (!r->trends) return;
    fprintf(out,
            "\n%s Trends%s\n\n"
            "The slope of each seed against log2 of the key marked *, with the 95%% interval as "
            "above.\n\n",
            level, r->planned ? " (exploratory)" : "");
    put_heading(out, sweep, column, 6, 1);
    for (size_t i = 0; i < r->trends; i++) {
        const smoe_trend *t = &r->trend[i];
        fputc('|', out);
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed) fprintf(out, " %s |", trend_value(r, t, c));
        fprintf(out, " %s |", r->metric[t->metric]);
        put_interval(out, &t->paired);
        fprintf(out, " %s |\n", smoe_results_direction(t));
    }
}

void smoe_contrasts_markdown(FILE *out, const smoe_results *r, const char *level) {
    put_primary(out, r, level);
    put_differences(out, r, level);
    put_trends(out, r, level);
}
