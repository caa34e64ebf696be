/* How many seeds differences need, from the trials that are there: --power; see trials.h. */
#include "trials.h"
#include "cmd.h"
#include "compare/outcomes.h"
#include "compare/power.h"
#include "compare/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIFFERENCES = 16 };

typedef struct power {
    double difference[MOST_DIFFERENCES];
    size_t differences;
    smoe_table table;
    json_t *records;
} power;

static int read_differences(power *w, const char *text, smoe_err *err) {
    char *copy = strdup(*text ? text : "0.005,0.01,0.02,0.05"), *rest = copy, *item;
    int status = copy ? 0 : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    while (!status && (item = strsep(&rest, ",")))
        if (w->differences == MOST_DIFFERENCES ||
            !smoe_settings_number(item, &w->difference[w->differences++]))
            status =
                smoe_fail(err, SMOE_USAGE,
                          "--power: '%s': expected up to %d positive numbers separated by commas",
                          text, MOST_DIFFERENCES);
    free(copy);
    return status;
}

/* The number of seeds, or why no number of seeds is enough. */
static void add_seeds(smoe_table *table, const smoe_paired *p, double difference, double chance,
                      json_t *record, const char *key) {
    size_t n = smoe_power_seeds(p, difference, chance);
    smoe_paired alone = *p; /* as if there were infinitely many images */
    alone.images_var = 0;
    if (n)
        smoe_table_add(table, "%zu", n);
    else if (smoe_power_seeds(&alone, difference, chance))
        smoe_table_add(table, "more images");
    else
        smoe_table_add(table, "over %d", SMOE_POWER_MOST);
    json_object_set_new(record, key, n ? json_integer((json_int_t)n) : json_null());
}

/* A line per difference. */
static void add_contrast(power *w, const char *name, const char *measure, const smoe_paired *p) {
    if (p->n < 2) return;
    double seed = sqrt(p->seeds_var * (double)p->n), images = sqrt(p->images_var);
    json_t *list = json_array();
    for (size_t i = 0; i < w->differences; i++) {
        json_t *record = json_pack("{s:f}", "difference", w->difference[i]);
        smoe_table_add(&w->table, "%s", i ? "" : name);
        smoe_table_add(&w->table, "%s", i ? "" : measure);
        smoe_table_add(&w->table, "%.3g", seed);
        if (p->images)
            smoe_table_add(&w->table, "%.3g", images);
        else
            smoe_table_add(&w->table, "-");
        smoe_table_add(&w->table, "%zu", p->n);
        smoe_table_add(&w->table, "%g", w->difference[i]);
        add_seeds(&w->table, p, w->difference[i], 0.8, record, "seeds_80");
        add_seeds(&w->table, p, w->difference[i], 0.9, record, "seeds_90");
        json_array_append_new(list, record);
    }
    json_array_append_new(w->records, json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:o}", "contrast",
                                                name, "measure", measure, "n", (json_int_t)p->n,
                                                "images", (json_int_t)p->images, "seed_sd", seed,
                                                "images_sd", images, "needs", list));
}

/* "model.moe.experts=8,model.moe.capacity=all - REFERENCE"; fresh, NULL when out of memory. */
static char *name_of(const smoe_results *r, const smoe_difference *d, const char *reference) {
    char *name = strdup("");
    for (size_t c = 0; c < r->sweep->columns && name; c++) {
        const char *value = smoe_difference_setting(&r->contrasts.compared, d, c);
        if (c == r->sweep->seed) continue;
        char *longer = smoe_text_format("%s%s%s=%s", name, *name ? "," : "", r->sweep->column[c],
                                        value ? value : "all");
        free(name);
        name = longer;
    }
    char *whole = name ? smoe_text_format("%s - %s", name, reference) : NULL;
    free(name);
    return whole;
}

/* The contrast of this name, which is freed. */
static int add_named(power *w, char *name, const char *measure, const smoe_paired *p,
                     smoe_err *err) {
    if (!name) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    add_contrast(w, name, measure, p);
    free(name);
    return 0;
}

static int add_differences(power *w, const smoe_results *r, smoe_err *err) {
    char *reference = smoe_comparison_reference(&r->contrasts.compared);
    int status = reference ? 0 : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    for (size_t i = 0; i < r->contrasts.compared.differences && !status; i++) {
        const smoe_difference *d = &r->contrasts.compared.difference[i];
        const char *metric = r->measured->metric[d->metric];
        if (smoe_outcomes_column(metric) >= 0)
            status = add_named(w, name_of(r, d, reference), metric, &d->paired, err);
    }
    free(reference);
    return status;
}

/* The primary contrasts; where there are none, the differences in precision and loss. */
static int add_all(power *w, const smoe_results *r, smoe_err *err) {
    for (size_t i = 0; i < r->contrasts.primaries; i++) {
        const smoe_primary_result *result = &r->contrasts.primary[i];
        if (add_named(w, smoe_primary_name(result->asked), result->asked->measure, &result->paired,
                      err))
            return -1;
    }
    if (r->contrasts.primaries) return 0;
    if (add_differences(w, r, err)) return -1;
    return r->evaluations ? add_differences(w, r->evaluations, err) : 0;
}

int smoe_trials_power(const smoe_results *r, const smoe_options *options, smoe_err *err) {
    static const char *const heading[] = {"contrast",      "measure",   "sd of seeds",
                                          "sd of images",  "seeds now", "difference",
                                          "seeds for 80%", "for 90%"};
    power w = {.table.columns = sizeof heading / sizeof *heading, .records = json_array()};
    int status = read_differences(&w, options->power, err);
    for (size_t c = 0; c < w.table.columns; c++) smoe_table_add(&w.table, "%s", heading[c]);
    if (!status) status = add_all(&w, r, err);
    if (!status && !json_array_size(w.records))
        status = smoe_fail(err, SMOE_USAGE,
                           "%s: no contrast has two seeds yet, so the variance is unknown",
                           r->sweep->dir);
    if (!status && options->json)
        status = smoe_cmd_json(json_incref(w.records), err);
    else if (!status)
        status = smoe_table_print(&w.table, stdout, smoe_cmd_color(options, stdout), err);
    smoe_table_free(&w.table);
    json_decref(w.records);
    return status;
}
