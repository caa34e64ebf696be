/* Primary contrasts; see primary.h. */
#include "compare/primary.h"
#include "compare/contrast.h"
#include "spec/metrics.h"
#include "spec/schema.h"

/* ---- which combinations ---------------------------------------------------------------------- */

/* What a text of settings, or NULL, wants in each column; the texts are those of `read`. */
static const char **wanted_of(smoe_settings *read, const char *text, const smoe_combinations *r) {
    *read = (smoe_settings){0};
    if (text) smoe_settings_read(read, text);
    return smoe_combinations_wanted(r, read);
}

/* Adds the weights [count], which are 0, of a difference; returns the number of combinations with a
 * counterpart, SIZE_MAX if one has several. */
static size_t weigh_difference(double *weight, const smoe_combinations *r, const char *const *row,
                               const char *const *reference) {
    size_t n = 0;
    for (size_t i = 0, found = 0; i < r->count; i++) {
        if (!smoe_combinations_fit(r, i, row, SIZE_MAX)) continue;
        size_t count = smoe_combinations_fitting(r, reference, i, &found);
        if (count > 1) return SIZE_MAX;
        if (!count) continue;
        weight[i] += 1;
        weight[found] -= 1;
        n++;
    }
    for (size_t i = 0; i < r->count && n; i++) weight[i] /= (double)n;
    return n;
}

/* The same of a trend over a column: the mean of the slopes of all lines with three numbers or
 * more. */
static size_t weigh_trend(double *weight, const smoe_combinations *r, const char **where,
                          size_t trend) {
    SMOE_FREED double *x = smoe_alloc(2 * r->count + 1, sizeof *x);
    double *slope = x + r->count;
    SMOE_FREED bool *member = smoe_alloc(2 * r->count + 1, sizeof *member);
    bool *fits = member + r->count;
    size_t lines = 0, n = 0;
    for (size_t k = 0; k < r->count; k++)
        fits[k] = smoe_combinations_fit(r, k, where, SIZE_MAX) &&
                  smoe_settings_number(r->value[k][trend], &x[k]);
    where[trend] = "*"; /* and in the other columns what the first of a line has */
    for (size_t i = 0; i < r->count; i++) {
        size_t size = 0, first = SIZE_MAX;
        for (size_t k = 0; k < r->count; k++) {
            member[k] = fits[i] && fits[k] && smoe_combinations_fit(r, k, where, i);
            if (member[k] && first == SIZE_MAX) first = k;
            size += member[k];
        }
        if (first != i || !smoe_contrast_slope(slope, member, x, r->count)) continue;
        for (size_t k = 0; k < r->count; k++) weight[k] += slope[k];
        n += size;
        lines++;
    }
    for (size_t i = 0; i < r->count && lines; i++) weight[i] /= (double)lines;
    return n;
}

/* The weights [count] of a contrast, 0 before. Returns how many combinations it has (0: it cannot
 * be measured); SIZE_MAX: one has several references. */
static size_t primary_weigh(double *weight, const smoe_combinations *r, const smoe_primary *p) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings own = {0};
    SMOE_FREED_BY(smoe_settings_free) smoe_settings others = {0};
    SMOE_FREED const char **row = wanted_of(&own, p->trend ? p->where : p->row, r);
    SMOE_FREED const char **reference = wanted_of(&others, p->reference, r);
    size_t trend = p->trend ? smoe_combinations_column(r, p->trend) : SIZE_MAX;
    if (!p->trend) return weigh_difference(weight, r, row, reference);
    return trend < SIZE_MAX ? weigh_trend(weight, r, row, trend) : 0;
}

/* ---- the plan -------------------------------------------------------------------------------- */

bool smoe_primary_is_evaluated(const smoe_primary *p) {
    const char *const text[] = {p->row, p->reference, p->trend, p->where};
    for (size_t i = 0; i < 4; i++)
        for (const char *at = text[i]; at;) {
            at += strspn(at, " ");
            if (!strncmp(at, SMOE_EVALUATED, strlen(SMOE_EVALUATED))) return true;
            at = smoe_text_item(at);
            at = *at ? at + 1 : NULL;
        }
    return false;
}

static int check_settings(const smoe_combinations *r, const char *text, const char *from,
                          smoe_err *err) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    char keys[2000] = "";
    if (text) smoe_settings_read(&s, text);
    smoe_combinations_list(r, keys, sizeof keys);
    for (size_t i = 0; i < s.count; i++)
        if (!s.item[i].value || smoe_combinations_column(r, s.item[i].key) == SIZE_MAX)
            return smoe_fail(err, SMOE_USAGE,
                             "%s: '%s' is not KEY=VALUE with a swept key; these are: %s", from,
                             s.item[i].key, *keys ? keys : "none");
    return 0;
}

/* Checks that the parts can be used together. */
static int check_parts(const smoe_primary *p, bool evaluated, const char *from, smoe_err *err) {
    const char *findings = p->trend ? "rising, falling" : "higher, lower, different, equivalent";
    char word[16];
    bool known = false;
    double x;
    for (const char *rest = findings; smoe_text_next(&rest, ',', word, sizeof word);)
        known |= p->expect && !strcmp(word + strspn(word, " "), p->expect);
    if (!p->trend == !(p->row || p->reference) || !p->row != !p->reference ||
        (p->where && !p->trend))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: give row and reference, or trend and optionally where", from);
    if (!known) return smoe_fail(err, SMOE_USAGE, "%s: expect: give one of %s", from, findings);
    bool equivalent = !strcmp(p->expect, "equivalent");
    if (equivalent && (!p->margin || !smoe_settings_number(p->margin, &x)))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: expect: equivalent: give a margin, a positive number", from);
    if (!equivalent && p->margin)
        return smoe_fail(err, SMOE_USAGE, "%s: margin: goes with expect: equivalent", from);
    if (smoe_metric_of_column(p->measure, NULL) == SMOE_METRICS ||
        smoe_metric_of_column(p->measure, NULL) ==
            (evaluated ? SMOE_METRIC_LOSS : SMOE_METRIC_EVALUATION_LOSS))
        return smoe_fail(err, SMOE_USAGE, "%s: measure: '%s' is not a measured column of %s.csv",
                         from, p->measure, evaluated ? "evaluations" : "results");
    return 0;
}

static int check_groups(const smoe_combinations *r, const smoe_primary *p, const char *from,
                        smoe_err *err) {
    SMOE_FREED double *weight = smoe_alloc(r->count + 1, sizeof *weight);
    if (check_settings(r, p->row, from, err) || check_settings(r, p->reference, from, err) ||
        check_settings(r, p->where, from, err))
        return -1;
    if (p->trend && smoe_combinations_column(r, p->trend) == SIZE_MAX) {
        char keys[2000] = "";
        smoe_combinations_list(r, keys, sizeof keys);
        return smoe_fail(err, SMOE_USAGE, "%s: trend: '%s' is not swept; these are: %s", from,
                         p->trend, *keys ? keys : "none");
    }
    size_t n = primary_weigh(weight, r, p);
    if (n == SIZE_MAX)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: a row has several possible references; name all keys that change "
                         "together",
                         from);
    if (!n && p->trend)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: a trend needs three rows that differ in %s alone, with positive "
                         "numbers there",
                         from, p->trend);
    if (n) return 0;
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    SMOE_FREED const char **wanted = wanted_of(&s, p->row, r);
    bool some = false; /* combinations have these settings */
    for (size_t i = 0; i < r->count; i++) some |= smoe_combinations_fit(r, i, wanted, SIZE_MAX);
    return smoe_fail(err, SMOE_USAGE, "%s: no row has %s%s", from,
                     some ? "a counterpart with " : "", some ? p->reference : p->row);
}

int smoe_primary_check(smoe_primary *p, const char *equivalence,
                       const smoe_combinations *combinations, const char *from, smoe_err *err) {
    if (!p->measure) p->measure = smoe_alloc_text(smoe_metrics[SMOE_METRIC_PRECISION].column);
    double margin = smoe_margin_of(equivalence, p->measure);
    if (!p->margin && p->expect && !strcmp(p->expect, "equivalent") && isfinite(margin))
        p->margin = smoe_text_format("%.17g", margin);
    if (check_parts(p, smoe_primary_is_evaluated(p), from, err)) return -1;
    return check_groups(combinations, p, from, err);
}

char *smoe_primary_name(const smoe_primary *p) {
    if (p->trend)
        return smoe_text_format("slope over %s%s%s", p->trend, p->where ? ", " : "",
                                p->where ? p->where : "");
    return smoe_text_format("%s - %s", p->row, p->reference);
}

/* Settings in words; text may be NULL. */
static char *words_of(const char *text) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    if (text) smoe_settings_read(&s, text);
    SMOE_FREED const char **key = smoe_alloc(2 * s.count + 1, sizeof *key);
    const char **value = key + s.count;
    for (size_t i = 0; i < s.count; i++) {
        key[i] = s.item[i].key;
        value[i] = s.item[i].value;
    }
    return smoe_settings_words(key, value, s.count);
}

char *smoe_primary_words(const smoe_primary *p) {
    SMOE_FREED char *row = words_of(p->trend ? p->where : p->row);
    SMOE_FREED char *reference = words_of(p->reference);
    char heading[96];
    if (!p->trend) return smoe_text_format("%s - %s", row, reference);
    return smoe_text_format("slope over %s%s%s",
                            smoe_settings_heading(p->trend, heading, sizeof heading),
                            *row ? ", " : "", row);
}

/* ---- the results ----------------------------------------------------------------------------- */

static smoe_finding finding_of(const smoe_primary_result *result) {
    const smoe_paired *d = &result->paired;
    const char *expect = result->asked->expect;
    bool significant = result->adjusted < 0.05;
    bool up = d->mean > 0;
    if (isfinite(result->margin))
        return significant                                ? SMOE_CONFIRMED
               : fabs(d->mean) - d->half > result->margin ? SMOE_REFUTED
                                                          : SMOE_OPEN;
    if (!significant) return SMOE_OPEN;
    if (!strcmp(expect, "different")) return SMOE_CONFIRMED;
    return up == (!strcmp(expect, "higher") || !strcmp(expect, "rising")) ? SMOE_CONFIRMED
                                                                          : SMOE_REFUTED;
}

int smoe_primary_decide(smoe_primary_result **results, const smoe_sweep_plan *plan,
                        const smoe_measures *trials, const smoe_measures *evaluations,
                        smoe_err *err) {
    size_t n = plan->primaries;
    double family = (double)n;
    if (plan->family) (void)smoe_value_number(plan->family, true, &family);
    *results = NULL;
    if (!n) return 0;
    SMOE_FREED double *p = smoe_alloc(2 * n, sizeof *p);
    smoe_primary_result *list = *results = smoe_alloc(n, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const smoe_primary *primary = &plan->primary[i];
        const smoe_measures *of = smoe_primary_is_evaluated(primary) ? evaluations : trials;
        double margin = NAN;
        if (primary->margin) (void)smoe_settings_number(primary->margin, &margin);
        list[i] = (smoe_primary_result){
            .asked = primary, .paired = smoe_stats_paired(NULL, 0), .margin = margin};
        size_t metric = of ? smoe_measures_metric(of, primary->measure) : SIZE_MAX;
        SMOE_FREED double *weight = of ? smoe_alloc(of->groups + 1, sizeof *weight) : NULL;
        if (of) list[i].groups = primary_weigh(weight, &of->own, primary);
        if (list[i].groups && list[i].groups != SIZE_MAX && metric != SIZE_MAX &&
            smoe_contrast_measure(&list[i].paired, of, weight, metric, err))
            return -1;
        p[i] = list[i].p = isfinite(margin) ? smoe_stats_p_equivalent(&list[i].paired, margin)
                                            : smoe_stats_p(&list[i].paired, list[i].paired.mean);
    }
    smoe_stats_holm(p + n, p, n, (size_t)family);
    for (size_t i = 0; i < n; i++) {
        list[i].adjusted = p[n + i];
        list[i].finding = finding_of(&list[i]);
    }
    return 0;
}
