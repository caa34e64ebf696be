/* Printing of contrasts: primary ones, differences, trends; see trials.h. */
#include "trials.h"
#include "heading.h"
#include "cmd.h"
#include "store/run.h"
#include "compare/outcomes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 12 }; /* groups up to which contrasts are printed for every metric */

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The members that every contrast has. */
static json_t *interval_json(const char *name, const smoe_paired *p) {
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:o}", name, smoe_run_number(p->mean), "low",
                     smoe_run_number(p->mean - p->half), "high", smoe_run_number(p->mean + p->half),
                     "n", (json_int_t)p->n, "images", (json_int_t)p->images, "seeds_low",
                     smoe_run_number(p->mean - p->seeds_half), "seeds_high",
                     smoe_run_number(p->mean + p->seeds_half));
}

static json_t *difference_json(const smoe_results *r, const smoe_difference *d,
                               const char *reference) {
    char text[64];
    json_t *record = interval_json("difference", &d->paired);
    for (size_t c = 0; c < r->sweep->columns; c++) {
        const char *value = smoe_difference_setting(&r->contrasts.compared, d, c);
        if (c != r->sweep->seed && value)
            json_object_set_new(record, r->sweep->column[c], smoe_trials_value(value));
    }
    json_object_update_new(record,
                           json_pack("{s:s, s:s, s:b, s:o, s:o, s:s}", "reference", reference,
                                     "metric", r->measured->metric[d->metric], "distinguishable",
                                     d->paired.distinguishable, "p", smoe_run_number(d->p),
                                     "margin", smoe_run_number(d->margin), "verdict",
                                     smoe_difference_verdict(text, sizeof text, d)));
    return record;
}

static json_t *trend_json(const smoe_results *r, const smoe_trend *t) {
    const smoe_sweep *sweep = r->sweep;
    json_t *record = interval_json("slope", &t->paired);
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed && c != t->column)
            json_object_set_new(record, sweep->column[c],
                                smoe_trials_value(smoe_measures_setting(r->measured, t->group, c)));
    json_object_update_new(
        record, json_pack("{s:s, s:s, s:I, s:o, s:s}", "over", sweep->column[t->column], "metric",
                          r->measured->metric[t->metric], "rows", (json_int_t)t->groups, "p",
                          smoe_run_number(t->p), "verdict", smoe_trend_direction(t)));
    return record;
}

static json_t *primary_json(const smoe_primary_result *result) {
    char *name = smoe_primary_name(result->asked);
    json_t *record = interval_json("value", &result->paired);
    json_object_update_new(
        record,
        json_pack("{s:s?, s:s, s:s, s:I, s:o, s:o, s:o, s:s}", "contrast", name, "measure",
                  result->asked->measure, "expect", result->asked->expect, "rows",
                  (json_int_t)result->groups, "p", smoe_run_number(result->p), "adjusted",
                  smoe_run_number(result->adjusted), "margin", smoe_run_number(result->margin),
                  "finding", smoe_finding_name(result->finding)));
    free(name);
    return record;
}

static void set_list(json_t *object, const char *prefix, const char *name, json_t *list) {
    char key[64];
    snprintf(key, sizeof key, "%s%s", prefix, name);
    if (json_array_size(list))
        json_object_set_new(object, key, list);
    else
        json_decref(list);
}

void smoe_trials_contrasts_json(json_t *object, const smoe_results *r, const char *prefix) {
    json_t *primary = json_array(), *differences = json_array(), *trends = json_array();
    char *reference = smoe_comparison_reference(&r->contrasts.compared);
    for (size_t i = 0; i < r->contrasts.primaries; i++)
        json_array_append_new(primary, primary_json(&r->contrasts.primary[i]));
    for (size_t i = 0; i < r->contrasts.compared.differences && reference; i++)
        json_array_append_new(differences,
                              difference_json(r, &r->contrasts.compared.difference[i], reference));
    for (size_t i = 0; i < r->contrasts.trends.count; i++)
        json_array_append_new(trends, trend_json(r, &r->contrasts.trends.trend[i]));
    set_list(object, prefix, "primary", primary);
    set_list(object, prefix, "differences", differences);
    set_list(object, prefix, "trends", trends);
    free(reference);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_headings(smoe_table *table, const char *const *heading, size_t count) {
    for (size_t i = 0; i < count; i++) smoe_table_add(table, "%s", heading[i]);
    table->columns += count;
}

static void add_range(smoe_table *table, double mean, double half) {
    if (isfinite(half))
        smoe_table_add(table, "[%+.4g, %+.4g]", mean - half, mean + half);
    else
        smoe_table_add(table, "-");
}

/* Value, interval, interval over seeds alone, images, n. */
static void add_interval(smoe_table *table, const smoe_paired *p) {
    if (p->n)
        smoe_table_add(table, "%+.4g", p->mean);
    else
        smoe_table_add(table, "-");
    add_range(table, p->mean, p->half);
    add_range(table, p->mean, p->seeds_half);
    if (p->images)
        smoe_table_add(table, "%zu", p->images);
    else
        smoe_table_add(table, "-");
    smoe_table_add(table, "%zu", p->n);
}

static void add_p(smoe_table *table, double p) {
    if (isfinite(p))
        smoe_table_add(table, "%.2g", p);
    else
        smoe_table_add(table, "-");
}

/* Prints and empties a table. */
static int finish(smoe_table *table, const smoe_options *options, smoe_err *err) {
    int status = smoe_table_print(table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(table);
    return status;
}

static int print_primary(const smoe_results *r, const smoe_options *options, smoe_err *err) {
    static const char *const heading[] = {"contrast",    "measure",  "value",  "95% interval",
                                          "seeds alone", "images",   "n",      "p",
                                          "adjusted",    "expected", "finding"};
    smoe_table table = {.keys = 2};
    if (!r->contrasts.primaries) return 0;
    printf("\nPrimary contrasts, p adjusted by Holm's method (primary.csv):\n");
    add_headings(&table, heading, sizeof heading / sizeof *heading);
    for (size_t i = 0; i < r->contrasts.primaries; i++) {
        const smoe_primary_result *result = &r->contrasts.primary[i];
        char *name = smoe_primary_name(result->asked);
        smoe_table_add(&table, "%s", name ? name : "?");
        smoe_table_add(&table, "%s", result->asked->measure);
        add_interval(&table, &result->paired);
        add_p(&table, result->p);
        add_p(&table, result->adjusted);
        if (isfinite(result->margin))
            smoe_table_add(&table, "within \xc2\xb1%g", result->margin);
        else
            smoe_table_add(&table, "%s", result->asked->expect);
        smoe_table_add(&table, "%s", smoe_finding_name(result->finding));
        free(name);
    }
    return finish(&table, options, err);
}

/* Whether a metric is printed where there are many differences: that of the figure, precision and
 * loss are. */
static bool is_first(const smoe_results *r, size_t metric) {
    return metric == smoe_results_first(r, r->sweep->figure.y) ||
           smoe_outcomes_column(r->measured->metric[metric]) >= 0;
}

/* Groups that have no counterpart are named: they are no differences. */
static void print_not_compared(const smoe_results *r) {
    for (size_t g = 0, said = 0; g < r->measured->groups; g++) {
        char *why = smoe_comparison_missing(&r->contrasts.compared, g);
        if (why) printf("%s%s\n", said++ ? "" : "\n", why);
        free(why);
    }
}

static int print_differences(const smoe_results *r, const char *prefix, const smoe_options *options,
                             smoe_err *err) {
    static const char *const heading[] = {"metric", "difference", "95% interval", "seeds alone",
                                          "images", "n",          "verdict"};
    smoe_table table = {0};
    char text[64];
    bool all = r->measured->groups <= MOST_ROWS;
    if (!r->contrasts.compared.differences) return 0;
    char *reference = smoe_comparison_reference(&r->contrasts.compared);
    if (!reference) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    printf("\n");
    smoe_heading_line(
        stdout, "", "Differences from %s, by seed and image%s (%s%sdifferences.csv):", reference,
        r->contrasts.planned ? ", exploratory" : "", all ? "" : "other metrics too: ", prefix);
    free(reference);
    smoe_trials_columns(&table, r->sweep);
    table.keys++; /* the metric */
    add_headings(&table, heading, sizeof heading / sizeof *heading);
    for (size_t i = 0; i < r->contrasts.compared.differences; i++) {
        const smoe_difference *d = &r->contrasts.compared.difference[i];
        if (!all && !is_first(r, d->metric)) continue;
        for (size_t c = 0; c < r->sweep->columns; c++) {
            const char *value = smoe_difference_setting(&r->contrasts.compared, d, c);
            if (c != r->sweep->seed) smoe_table_add(&table, "%s", value ? value : "all");
        }
        smoe_table_add(&table, "%s", r->measured->metric[d->metric]);
        add_interval(&table, &d->paired);
        smoe_table_add(&table, "%s", smoe_difference_verdict(text, sizeof text, d));
    }
    if (finish(&table, options, err)) return -1;
    print_not_compared(r);
    return 0;
}

static int print_trends(const smoe_results *r, const char *prefix, const smoe_options *options,
                        smoe_err *err) {
    static const char *const heading[] = {"metric", "slope", "95% interval", "seeds alone",
                                          "images", "n",     "verdict"};
    const smoe_sweep *sweep = r->sweep;
    smoe_table table = {0};
    if (!r->contrasts.trends.count) return 0;
    printf("\nTrends, per doubling of the key marked *%s (other metrics too: %strends.csv):\n",
           r->contrasts.planned ? ", exploratory" : "", prefix);
    smoe_trials_columns(&table, sweep);
    table.keys++; /* the metric */
    add_headings(&table, heading, sizeof heading / sizeof *heading);
    for (size_t i = 0; i < r->contrasts.trends.count; i++) {
        const smoe_trend *t = &r->contrasts.trends.trend[i];
        if (!is_first(r, t->metric)) continue;
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed)
                smoe_table_add(&table, "%s", smoe_trend_setting(&r->contrasts.trends, t, c));
        smoe_table_add(&table, "%s", r->measured->metric[t->metric]);
        add_interval(&table, &t->paired);
        smoe_table_add(&table, "%s", smoe_trend_direction(t));
    }
    return finish(&table, options, err);
}

int smoe_trials_contrasts(const smoe_results *r, const char *prefix, const smoe_options *options,
                          smoe_err *err) {
    if (print_primary(r, options, err)) return -1;
    if (print_differences(r, prefix, options, err)) return -1;
    return print_trends(r, prefix, options, err);
}
