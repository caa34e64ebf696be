/* What is printed of contrasts: primary ones, differences, trends; see trials.h. */
#include "trials.h"
#include "cmd.h"
#include "store/run.h"
#include "sweep/compare.h"
#include "sweep/outcomes.h"
#include "sweep/primary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 12 }; /* of the summary whose contrasts are printed for every metric */

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
    json_t *row = interval_json("difference", &d->paired);
    for (size_t c = 0; c < r->sweep->columns; c++) {
        const char *value = smoe_results_row(r, d, c);
        if (c != r->sweep->seed && value)
            json_object_set_new(row, r->sweep->column[c], smoe_trials_value(value));
    }
    json_object_update_new(row, json_pack("{s:s, s:s, s:b, s:o, s:o, s:s}", "reference", reference,
                                          "metric", r->metric[d->metric], "distinguishable",
                                          d->paired.distinguishable, "p", smoe_run_number(d->p),
                                          "margin", smoe_run_number(d->margin), "verdict",
                                          smoe_results_verdict(text, sizeof text, d)));
    return row;
}

static json_t *trend_json(const smoe_results *r, const smoe_trend *t) {
    const smoe_sweep *sweep = r->sweep;
    json_t *row = interval_json("slope", &t->paired);
    for (size_t c = 0; c < sweep->columns; c++)
        if (c != sweep->seed && c != t->column)
            json_object_set_new(row, sweep->column[c],
                                smoe_trials_value(sweep->trial[r->first[t->group]].value[c]));
    json_object_update_new(row, json_pack("{s:s, s:s, s:I, s:o, s:s}", "over",
                                          sweep->column[t->column], "metric", r->metric[t->metric],
                                          "rows", (json_int_t)t->rows, "p", smoe_run_number(t->p),
                                          "verdict", smoe_results_direction(t)));
    return row;
}

static json_t *primary_json(const smoe_primary_result *result) {
    char *name = smoe_primary_name(result->asked);
    json_t *row = interval_json("value", &result->paired);
    json_object_update_new(
        row, json_pack("{s:s?, s:s, s:s, s:I, s:o, s:o, s:o, s:s}", "contrast", name, "measure",
                       result->asked->measure, "expect", result->asked->expect, "rows",
                       (json_int_t)result->rows, "p", smoe_run_number(result->p), "adjusted",
                       smoe_run_number(result->adjusted), "margin", smoe_run_number(result->margin),
                       "finding", smoe_results_finding(result->finding)));
    free(name);
    return row;
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
    char *reference = smoe_results_reference(r);
    for (size_t i = 0; i < r->primaries; i++)
        json_array_append_new(primary, primary_json(&r->primary[i]));
    for (size_t i = 0; i < r->differences && reference; i++)
        json_array_append_new(differences, difference_json(r, &r->difference[i], reference));
    for (size_t i = 0; i < r->trends; i++)
        json_array_append_new(trends, trend_json(r, &r->trend[i]));
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

/* Value, interval, that over seeds alone, images, n. */
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
    smoe_table table = {0};
    if (!r->primaries) return 0;
    printf("\nPrimary contrasts, p adjusted by Holm's method (primary.csv):\n");
    add_headings(&table, heading, sizeof heading / sizeof *heading);
    for (size_t i = 0; i < r->primaries; i++) {
        const smoe_primary_result *result = &r->primary[i];
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
        smoe_table_add(&table, "%s", smoe_results_finding(result->finding));
        free(name);
    }
    return finish(&table, options, err);
}

/* Is a metric printed where there are many rows? The figure's is, and precision and loss are. */
static bool is_first(const smoe_results *r, size_t metric) {
    return metric == smoe_results_first(r, r->sweep->figure.y) ||
           smoe_outcomes_column(r->metric[metric]) >= 0;
}

/* Rows that have no counterpart are named: they are no differences. */
static void print_not_compared(const smoe_results *r) {
    for (size_t g = 0, said = 0; g < r->groups; g++) {
        char *why = smoe_results_not_compared(r, g);
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
    bool all = r->groups <= MOST_ROWS;
    if (!r->differences) return 0;
    char *reference = smoe_results_reference(r);
    if (!reference) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    printf("\nDifferences from %s, by seed and image%s (%s%sdifferences.csv):\n", reference,
           r->planned ? ", exploratory" : "", all ? "" : "other metrics too: ", prefix);
    free(reference);
    smoe_trials_columns(&table, r->sweep);
    add_headings(&table, heading, sizeof heading / sizeof *heading);
    for (size_t i = 0; i < r->differences; i++) {
        const smoe_difference *d = &r->difference[i];
        if (!all && !is_first(r, d->metric)) continue;
        for (size_t c = 0; c < r->sweep->columns; c++) {
            const char *value = smoe_results_row(r, d, c);
            if (c != r->sweep->seed) smoe_table_add(&table, "%s", value ? value : "all");
        }
        smoe_table_add(&table, "%s", r->metric[d->metric]);
        add_interval(&table, &d->paired);
        smoe_table_add(&table, "%s", smoe_results_verdict(text, sizeof text, d));
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
    if (!r->trends) return 0;
    printf("\nTrends, per doubling of the key marked *%s (other metrics too: %strends.csv):\n",
           r->planned ? ", exploratory" : "", prefix);
    smoe_trials_columns(&table, sweep);
    add_headings(&table, heading, sizeof heading / sizeof *heading);
    for (size_t i = 0; i < r->trends; i++) {
        const smoe_trend *t = &r->trend[i];
        if (!is_first(r, t->metric)) continue;
        for (size_t c = 0; c < sweep->columns; c++)
            if (c != sweep->seed)
                smoe_table_add(&table, "%s",
                               c == t->column ? "*" : sweep->trial[r->first[t->group]].value[c]);
        smoe_table_add(&table, "%s", r->metric[t->metric]);
        add_interval(&table, &t->paired);
        smoe_table_add(&table, "%s", smoe_results_direction(t));
    }
    return finish(&table, options, err);
}

int smoe_trials_contrasts(const smoe_results *r, const char *prefix, const smoe_options *options,
                          smoe_err *err) {
    if (print_primary(r, options, err)) return -1;
    if (print_differences(r, prefix, options, err)) return -1;
    return print_trends(r, prefix, options, err);
}
