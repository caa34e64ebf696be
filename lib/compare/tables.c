/* Tables of contrasts; see tables.h. */
#include "compare/tables.h"
#include "compare/outcomes.h"

enum { MOST_ROWS = 12 }; /* groups up to which contrasts of every metric are on the screen */

void smoe_contrasts_free(smoe_contrasts *contrasts) {
    smoe_comparison_free(&contrasts->compared);
    smoe_trends_free(&contrasts->trends);
    free(contrasts->primary);
    *contrasts = (smoe_contrasts){0};
}

/* ---- cells ----------------------------------------------------------------------------------- */

void smoe_tables_keys(smoe_frame *frame, const smoe_measures *m, const char *within,
                      const char *const *value) {
    const char *const *key = (const char *const *)m->column;
    for (size_t c = 0; c < m->columns; c++) {
        if (c == m->seed) continue;
        char heading[96], path[160];
        smoe_settings_heading(key[c], heading, sizeof heading);
        snprintf(path, sizeof path, "%s%s%s", within ? within : "", within ? ":" : "", key[c]);
        smoe_cell_text(frame, key[c], value[c], .path = path, .where = SMOE_IN_FILES,
                       .typed = !smoe_spec_holds_text(key[c]), .optional = true);
        if (!frame->where)
            smoe_cell_text(frame, NULL, smoe_settings_shown(key, value, m->columns, c),
                           .heading = heading, .none = "all", .where = SMOE_IN_PRINT);
    }
    frame->keys = frame->cells;
}

static void add_range(smoe_frame *frame, const char *heading, double mean, double half) {
    char text[64];
    snprintf(text, sizeof text, "[%+.4g, %+.4g]", mean - half, mean + half);
    smoe_cell_text(frame, NULL, isfinite(half) ? text : NULL, .heading = heading);
}

/* The value under its name, its interval, n. */
static void add_value(smoe_frame *frame, const char *name, const char *heading,
                      const smoe_paired *p) {
    smoe_cell_number(frame, name, p->mean, .heading = heading, .format = "%+.4g");
    add_range(frame, "95% interval", p->mean, p->half);
    smoe_frame_cells(frame, {"low", .number = p->mean - p->half, .where = SMOE_IN_FILES},
                     {"high", .number = p->mean + p->half, .where = SMOE_IN_FILES},
                     {"n", .number = p->n, .where = SMOE_IN_FILES});
}

/* The interval over seeds alone, and the number of images in the whole one. */
static void add_seeds(smoe_frame *frame, const smoe_paired *p) {
    add_range(frame, "seeds alone", p->mean, p->seeds_half);
    smoe_frame_cells(frame, {"images", .number = p->images, .where = SMOE_IN_FILES},
                     {"seeds_low", .number = p->mean - p->seeds_half, .where = SMOE_IN_FILES},
                     {"seeds_high", .number = p->mean + p->seeds_half, .where = SMOE_IN_FILES},
                     {NULL, .number = p->images ? (double)p->images : NAN, .heading = "images"},
                     {NULL, .number = p->n, .heading = "n"});
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_primary(smoe_frame *frame, const smoe_primary_result *result) {
    static const char *const findings[] = {
        [SMOE_OPEN] = "open", [SMOE_CONFIRMED] = "confirmed", [SMOE_REFUTED] = "refuted"};
    SMOE_FREED char *name = smoe_primary_name(result->asked);
    SMOE_FREED char *words = smoe_primary_words(result->asked);
    char expected[64];
    snprintf(expected, sizeof expected, "within \xc2\xb1%g", result->margin);
    smoe_frame_cells(frame, {"contrast", .text = name, .where = SMOE_IN_FILES},
                     {NULL, .text = words, .heading = "contrast", .where = SMOE_IN_PRINT},
                     {"measure", .text = result->asked->measure},
                     {"expect", .text = result->asked->expect, .where = SMOE_IN_FILES});
    add_value(frame, "value", NULL, &result->paired);
    smoe_cell_number(frame, "rows", result->groups, .where = SMOE_IN_FILES);
    add_seeds(frame, &result->paired);
    smoe_frame_put(frame, {"p", .number = result->p, .format = "%.2g"},
                   {"adjusted", .number = result->adjusted, .format = "%.2g"},
                   {"margin", .number = result->margin, .where = SMOE_IN_FILES},
                   {NULL, SMOE_TEXT_OF(isfinite(result->margin) ? expected : result->asked->expect),
                    .heading = "expected"},
                   {"finding", .text = findings[result->finding]});
}

static void add_difference(smoe_frame *frame, const smoe_contrasts *r, size_t i,
                           const char *reference) {
    const smoe_measures *m = r->compared.of;
    const smoe_difference *d = &r->compared.difference[i];
    char verdict[64];
    SMOE_FREED const char **value = smoe_alloc(m->columns + 1, sizeof *value);
    for (size_t c = 0; c < m->columns; c++) value[c] = smoe_difference_setting(&r->compared, d, c);
    smoe_tables_keys(frame, m, NULL, value);
    smoe_frame_cells(frame, {"reference", SMOE_TEXT_OF(reference), .where = SMOE_IN_FILES},
                     {"metric", .text = m->metric[d->metric]});
    frame->keys = frame->cells;
    add_value(frame, "difference", NULL, &d->paired);
    smoe_frame_cells(frame, {"distinguishable", SMOE_TRUTH_OF(d->paired.distinguishable),
                             .where = SMOE_IN_FILES});
    add_seeds(frame, &d->paired);
    smoe_frame_cells(
        frame, {"p", .number = d->p, .where = SMOE_IN_FILES},
        {"margin", .number = d->margin, .where = SMOE_IN_FILES},
        {"verdict", SMOE_TEXT_OF(smoe_difference_verdict(verdict, sizeof verdict, d))});
}

static void add_trend(smoe_frame *frame, const smoe_contrasts *r, size_t i) {
    const smoe_measures *m = r->trends.of;
    const smoe_trend *t = &r->trends.trend[i];
    SMOE_FREED const char **value = smoe_alloc(m->columns + 1, sizeof *value);
    for (size_t c = 0; c < m->columns; c++) value[c] = smoe_trend_setting(&r->trends, t, c);
    smoe_tables_keys(frame, m, NULL, value);
    smoe_frame_cells(frame, {"over", .text = m->column[t->column], .where = SMOE_IN_FILES},
                     {"metric", .text = m->metric[t->metric]});
    frame->keys = frame->cells;
    add_value(frame, "slope", "per doubling of *", &t->paired);
    smoe_cell_number(frame, "rows", t->groups, .where = SMOE_IN_FILES);
    add_seeds(frame, &t->paired);
    smoe_frame_cells(frame, {"p", .number = t->p, .where = SMOE_IN_FILES},
                     {"verdict", SMOE_TEXT_OF(smoe_trend_direction(t))});
}

/* ---- all of them ----------------------------------------------------------------------------- */

static smoe_frame *open_table(smoe_result *result, const char *prefix, const char *name) {
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return smoe_result_table(result, whole, whole);
}

/* The row of a metric is complete. */
static void end_row(smoe_frame *frame, const smoe_measures *m, size_t metric, size_t first,
                    size_t most) {
    bool outcome = smoe_outcomes_column(m->metric[metric]) >= 0;
    smoe_frame_end_shown(frame, m->groups <= most || metric == first || outcome);
}

static void set_title(smoe_frame *frame, const char *title, const char *of, bool planned) {
    SMOE_FREED char *text = smoe_text_format("%s%s%s", title, of, planned ? " (exploratory)" : "");
    frame->title = smoe_frame_keep(frame, text);
}

void smoe_tables_contrasts(smoe_result *result, const smoe_contrasts *r, const char *prefix,
                           size_t first) {
    const smoe_measures *m = r->compared.of;
    if (r->seen)
        smoe_result_line(result, NULL,
                         "Seeds %s were seen before the others ran. The contrasts are over the "
                         "others alone; --all-seeds takes all.",
                         r->seen);
    smoe_frame *primary = open_table(result, prefix, "primary");
    primary->keys = 3;
    primary->title = "Primary contrasts";
    primary->caption = "Stated before the cells ran; p is adjusted by Holm's method, and findings "
                       "are at the 5% level.";
    for (size_t i = 0; i < r->primaries; i++) add_primary(primary, &r->primary[i]);

    smoe_frame *differences = open_table(result, prefix, "differences");
    SMOE_FREED char *reference = smoe_comparison_reference(&r->compared);
    const char *const *key = (const char *const *)m->column;
    SMOE_FREED char *words =
        smoe_settings_words(key, r->compared.reference, r->compared.reference ? m->columns : 0);
    set_title(differences, "Differences from ", words, r->planned);
    differences->caption =
        "Paired by seed and test image. The 95% interval is over both; if the number of images is "
        "missing, it is over seeds alone. The interval over seeds alone is beside it.";
    for (size_t i = 0; i < r->compared.differences; i++) {
        add_difference(differences, r, i, reference);
        end_row(differences, m, r->compared.difference[i].metric, first, MOST_ROWS);
    }
    for (size_t i = 0; i < r->compared.differences; i++)
        if (r->compared.difference[i].paired.n == 2) {
            smoe_result_line(result, NULL,
                             "Two seeds say little about how much seeds differ: with three, "
                             "intervals would be about a third as wide.");
            break;
        }
    for (size_t g = 0; g < m->groups; g++) {
        SMOE_FREED char *why = smoe_comparison_missing(&r->compared, g);
        if (why) smoe_result_line(result, NULL, "%s", why);
    }

    smoe_frame *trends = open_table(result, prefix, "trends");
    set_title(trends, "Trends", "", r->planned);
    trends->caption = "The slope of each seed per doubling of the key marked *, with the 95% "
                      "interval as above.";
    for (size_t i = 0; i < r->trends.count; i++) {
        add_trend(trends, r, i);
        end_row(trends, m, r->trends.trend[i].metric, first, 0);
    }
}
