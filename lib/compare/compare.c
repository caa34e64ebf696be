/* Groups compared with a reference; see compare.h. */
#include "compare/compare.h"
#include "compare/contrast.h"
#include "spec/metrics.h"

/* ---- the check ------------------------------------------------------------------------------- */

/* 1: the setting is a column of these combinations, and some have its value; 0: it is not a column
 * of these combinations; -1 with err: no combination has the value. */
static int find_setting(const smoe_combinations *r, const smoe_setting *s, const char *from,
                        smoe_err *err) {
    size_t c = smoe_combinations_column(r, s->key);
    if (c == SIZE_MAX) return 0;
    for (size_t i = 0; i < r->count; i++)
        if (smoe_settings_is_any(s->value) ||
            smoe_settings_same(r->column[c], r->value[i][c], s->value))
            return 1;
    char member[256], values[1000] = "";
    for (size_t i = 0; i < r->count; i++) {
        bool listed = false;
        for (size_t k = 0; k < i; k++) listed |= !strcmp(r->value[k][c], r->value[i][c]);
        if (!listed)
            smoe_text_list(values, sizeof values, "%s",
                           smoe_text_member(r->value[i][c], member, sizeof member));
    }
    smoe_fail(err, SMOE_USAGE, "%s: no row has %s=%s", from, s->key, s->value);
    smoe_fail_more(err, SMOE_USAGE, "the values of %s are: %s", s->key, values);
    for (size_t i = 0; i < r->count; i++)
        if (strchr(r->value[i][c], ','))
            return smoe_fail_more(err, SMOE_USAGE,
                                  "a value with a comma is given in quotation marks, as %s=%s",
                                  s->key, smoe_text_member(r->value[i][c], member, sizeof member));
    return -1;
}

int smoe_compare_check(const smoe_combinations tables[2], const char *text, const char *from,
                       smoe_err *err) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    bool named[2] = {false, false};
    smoe_settings_read(&s, text);
    for (size_t i = 0; i < s.count; i++) {
        int found = 0;
        for (size_t t = 0; t < 2 && s.item[i].value && !found; t++) {
            found = find_setting(&tables[t], &s.item[i], from, err);
            if (found < 0) return -1;
            named[t] |= found;
        }
        if (found) continue;
        char known[2000] = "";
        for (size_t t = 0; t < 2; t++) smoe_combinations_list(&tables[t], known, sizeof known);
        if (!*known)
            return smoe_fail(
                err, SMOE_USAGE,
                "%s: only the seed is swept: there is one row, and none to compare it with", from);
        return smoe_fail(err, SMOE_USAGE,
                         "%s: '%s' is not KEY=VALUE with one of the swept keys: %s", from,
                         s.item[i].key, known);
    }
    for (size_t t = 0; t < 2; t++) {
        /* whether some combination has another one with the settings that it lacks itself */
        const smoe_combinations *r = &tables[t];
        SMOE_FREED const char **wanted = smoe_combinations_wanted(r, &s);
        bool has = !named[t];
        for (size_t i = 0, found; i < r->count && !has; i++)
            has = !smoe_combinations_fit(r, i, wanted, i) &&
                  smoe_combinations_fitting(r, wanted, i, &found);
        if (!has)
            return smoe_fail(err, SMOE_USAGE,
                             "%s: no row differs from another in %s alone; keys that change "
                             "together are given together, KEY=VALUE,KEY=VALUE",
                             from, text);
    }
    return 0;
}

/* ---- the differences ------------------------------------------------------------------------- */

/* The values of the reference of a group in each column; see compare.h. */
static void compare_choose(smoe_comparison *r, bool *asked) {
    const smoe_measures *m = r->of;
    if (r->options.reference) smoe_settings_read(&r->settings, r->options.reference);
    r->reference = smoe_combinations_wanted(&m->own, &r->settings);
    *asked = false;
    for (size_t c = 0; c < m->columns; c++) *asked |= r->reference[c] != NULL;
    for (size_t c = r->options.from; c < m->columns && !*asked; c++)
        if (c != m->seed) r->reference[c] = m->setting[0][c];
    r->pool = smoe_alloc(m->columns + 1, sizeof *r->pool);
    for (size_t c = 0; c < m->columns; c++)
        if (!r->reference[c] || smoe_settings_is_any(r->reference[c])) r->pool[c] = "*";
}

static bool is_reference(const smoe_comparison *r, size_t group) {
    return smoe_combinations_fit(&r->of->own, group, r->reference, group);
}

/* The group that a group is compared with; SIZE_MAX: none, several, or itself. */
static size_t reference_of(const smoe_comparison *r, size_t group) {
    size_t found;
    bool one = smoe_combinations_fitting(&r->of->own, r->reference, group, &found) == 1;
    return one && !is_reference(r, group) ? found : SIZE_MAX;
}

bool smoe_comparison_refers(const smoe_comparison *r, size_t group) {
    size_t fixed = 0; /* columns in which the reference has a value */
    for (size_t c = 0; r->reference && c < r->of->columns; c++) fixed += !r->pool[c];
    return fixed && is_reference(r, group);
}

/* ---- groups that are not compared ------------------------------------------------------------ */

/* Appends "column=value" for some columns, with the group's own values or "*". */
static void put_settings(FILE *out, const smoe_comparison *r, size_t group, const bool *some,
                         const char *value, const char *comma) {
    for (size_t c = 0; c < r->of->columns; c++) {
        if (!some[c]) continue;
        fprintf(out, "%s%s=%s", comma, r->of->column[c],
                value ? value : smoe_measures_setting(r->of, group, c));
        comma = value ? "," : ", ";
    }
}

/* `own` and `lacks` are scratch [columns]: those with the group's own value, and of these those
 * whose value no group has that has the values of the reference. `wanted` is what the reference has
 * if some of them may be anything. */
static void put_reason(FILE *out, const smoe_comparison *r, size_t group, bool *own, bool *lacks,
                       const char **wanted) {
    const smoe_measures *m = r->of;
    const char *comma = "not compared: ";
    size_t missing = 0, last;
    for (size_t c = 0; c < m->columns; c++) {
        own[c] = c != m->seed && !r->reference[c];
        wanted[c] = own[c] ? "*" : r->reference[c];
    }
    for (size_t c = 0; c < m->columns; c++) {
        if (c == m->seed) continue;
        fprintf(out, "%s%s", comma, smoe_measures_setting(m, group, c));
        comma = ", ";
        if (!own[c]) continue;
        wanted[c] = NULL;
        lacks[c] = !smoe_combinations_fitting(&m->own, wanted, group, &last);
        wanted[c] = "*";
        missing += lacks[c];
    }
    if (smoe_combinations_fitting(&m->own, r->reference, group, &last)) {
        fputs(" (several rows could be its reference)", out);
        return;
    }
    if (!missing) lacks = own; /* each is there, but not together */
    put_settings(out, r, group, lacks, NULL, " (no row of the reference with ");
    fputc(')', out);
    for (size_t c = 0; c < m->columns; c++) wanted[c] = lacks[c] ? "*" : r->reference[c];
    if (smoe_combinations_fitting(&m->own, wanted, group, &last) != 1) return;
    fprintf(out, "; --reference %s", r->options.reference);
    put_settings(out, r, group, lacks, "*", ",");
    fputs(" compares it", out);
}

char *smoe_comparison_missing(const smoe_comparison *r, size_t group) {
    char *text = NULL;
    size_t size, columns = r->of->columns;
    if (!r->reference || is_reference(r, group) || reference_of(r, group) != SIZE_MAX) return NULL;
    SMOE_FREED bool *scratch = smoe_alloc(2 * columns, sizeof *scratch);
    SMOE_FREED const char **wanted = smoe_alloc(columns, sizeof *wanted);
    FILE *out = smoe_alloc_stream(&text, &size);
    put_reason(out, r, group, scratch, scratch + columns, wanted);
    return smoe_alloc_stream_close(out, &text);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Whether two groups have the same in all columns for which the reference has a value. */
static bool same_pool(const smoe_comparison *r, size_t a, size_t b) {
    return smoe_combinations_fit(&r->of->own, a, r->pool, b);
}

/* The number of groups with a reference in the pool of a group; 0 if an earlier group is in the
 * same pool. */
static size_t pool_of(const smoe_comparison *r, const size_t *reference, size_t group) {
    size_t count = 0;
    for (size_t g = 0; g < r->of->groups; g++) {
        if (reference[g] == SIZE_MAX || !same_pool(r, g, group)) continue;
        if (g < group) return 0;
        count++;
    }
    return count;
}

/* Whether the pair of a group and its reference belongs to a difference. In a pool, pairs without
 * any result do not. */
static bool takes_part(const smoe_comparison *r, const size_t *reference, const smoe_difference *d,
                       size_t g) {
    if (reference[g] == SIZE_MAX) return false;
    if (!d->pooled) return g == d->group;
    return same_pool(r, g, d->group) && smoe_contrast_has(r->of, g, d->metric) &&
           smoe_contrast_has(r->of, reference[g], d->metric);
}

/* The difference of a group, or of its pool. One without pairs is left out. */
static int compare_add(smoe_comparison *r, const size_t *reference, size_t group, size_t metric,
                       bool pooled, smoe_err *err) {
    smoe_difference d = {.group = group, .metric = metric, .pooled = pooled};
    SMOE_FREED double *weight = smoe_alloc(r->of->groups, sizeof *weight);
    size_t taking = 0;
    for (size_t g = 0; g < r->of->groups; g++) taking += takes_part(r, reference, &d, g);
    for (size_t g = 0; g < r->of->groups; g++) {
        if (!takes_part(r, reference, &d, g)) continue;
        weight[g] += 1 / (double)taking;
        weight[reference[g]] -= 1 / (double)taking;
    }
    if (smoe_contrast_measure(&d.paired, r->of, weight, metric, err)) return -1;
    if (!d.paired.n) return 0;
    d.time = smoe_metric_is_time(smoe_metric_of_column(r->of->metric[metric], NULL));
    d.p = smoe_stats_p(&d.paired, d.paired.mean);
    d.margin = smoe_margin_of(r->options.equivalence, r->of->metric[metric]);
    d.equivalent = smoe_stats_p_equivalent(&d.paired, d.margin) < 0.05;
    r->difference[r->differences++] = d;
    return 0;
}

int smoe_comparison_make(smoe_comparison *r, const smoe_measures *m,
                         const smoe_compare_options *options, smoe_err *err) {
    bool asked;
    *r = (smoe_comparison){.of = m, .options = *options};
    if (m->seed == SIZE_MAX && !r->options.reference) return 0;
    SMOE_FREED size_t *reference = smoe_alloc(m->groups + 1, sizeof *reference);
    r->difference = smoe_alloc(2 * m->groups * m->metrics + 1, sizeof *r->difference);
    compare_choose(r, &asked);
    for (size_t g = 0; g < m->groups; g++) reference[g] = reference_of(r, g);
    for (size_t i = 0; i < m->metrics; i++) {
        if (!smoe_metric_is_shown(m->metric[i], true) || smoe_measures_zero(m, i)) continue;
        for (int pooled = 0; pooled <= asked; pooled++)
            for (size_t g = 0; g < m->groups; g++)
                if (reference[g] != SIZE_MAX && (!pooled || pool_of(r, reference, g) > 1) &&
                    compare_add(r, reference, g, i, pooled, err))
                    return -1;
    }
    return 0;
}

void smoe_comparison_free(smoe_comparison *r) {
    smoe_settings_free(&r->settings);
    free(r->reference);
    free(r->pool);
    free(r->difference);
    *r = (smoe_comparison){0};
}

/* ---- in words -------------------------------------------------------------------------------- */

char *smoe_comparison_reference(const smoe_comparison *r) {
    char *text = NULL;
    for (size_t c = 0; r->reference && c < r->of->columns; c++) {
        if (!r->reference[c]) continue;
        smoe_text_add(&text, "%s%s=%s", text ? " " : "", r->of->column[c], r->reference[c]);
    }
    return text ? text : smoe_alloc_text("");
}

const char *smoe_difference_setting(const smoe_comparison *r, const smoe_difference *d,
                                    size_t column) {
    return d->pooled && r->pool[column] ? NULL : smoe_measures_setting(r->of, d->group, column);
}

const char *smoe_difference_verdict(char *buf, size_t size, const smoe_difference *d) {
    if (d->time)
        snprintf(buf, size, SMOE_MEASURES_TIME);
    else if (d->equivalent)
        snprintf(buf, size, "equivalent within \xc2\xb1%g", d->margin);
    else if (isfinite(d->margin))
        snprintf(buf, size, d->paired.distinguishable ? "different" : "not decided");
    else
        snprintf(buf, size, d->paired.distinguishable ? "distinguishable" : "not distinguishable");
    return buf;
}
