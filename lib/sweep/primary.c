/* Primary contrasts; see primary.h. */
#include "sweep/primary.h"
#include "spec/metrics.h"
#include "sweep/contrast.h"
#include "sweep/evaluations.h"
#include "sweep/results_figure.h"
#include "sweep/settings.h"
#include "sweep/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- margins --------------------------------------------------------------------------------- */

static bool is_share(const char *metric) {
    smoe_metric m = smoe_metric_of_column(metric, NULL);
    const char *unit = m < SMOE_METRICS ? smoe_metrics[m].unit : NULL;
    return unit && !strcmp(unit, SMOE_UNIT_SHARE);
}

double smoe_equivalence_margin(const char *text, const char *metric) {
    smoe_settings s = {0};
    double margin = NAN;
    if (text && !smoe_settings_read(&s, text)) {
        const char *own = smoe_settings_value(&s, metric);
        if (own)
            margin = strtod(own, NULL);
        else if (!s.item[0].value && is_share(metric))
            margin = strtod(s.item[0].key, NULL);
    }
    smoe_settings_free(&s);
    return margin;
}

static int check_margins(const char *text, const char *from, smoe_err *err) {
    smoe_settings s;
    double x;
    int status = smoe_settings_read(&s, text) ? smoe_fail(err, SMOE_RUNTIME, "out of memory") : 0;
    for (size_t i = 0; i < s.count && !status; i++) {
        const char *number = s.item[i].value ? s.item[i].value : s.item[i].key;
        if (!smoe_trend_number(number, &x) || (!s.item[i].value && s.count > 1))
            status = smoe_fail(
                err, SMOE_USAGE,
                "%s: '%s' is not a margin: a positive number, or METRIC=NUMBER separated by commas",
                from, text);
        else if (s.item[i].value && !smoe_results_is_measured(s.item[i].key))
            status = smoe_fail(err, SMOE_USAGE, "%s: '%s' is not measured", from, s.item[i].key);
    }
    smoe_settings_free(&s);
    return status;
}

int smoe_equivalence_set(smoe_sweep *sweep, const char *text, const char *from, smoe_err *err) {
    if (check_margins(text, from, err)) return -1;
    char *copy = strdup(text);
    if (!copy) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    free(sweep->plan.equivalence);
    sweep->plan.equivalence = copy;
    return 0;
}

/* ---- which rows ------------------------------------------------------------------------------ */

/* Rows of values, no two the same but for the seed. */
typedef struct rows {
    char *const *column;
    size_t columns, seed;
    char *const **value; /* [count][columns] */
    size_t count;
} rows;

typedef struct asked { /* a contrast with its settings read */
    const smoe_primary *primary;
    smoe_settings row, reference; /* of a trend, row is `where` */
    size_t trend;                 /* its column; SIZE_MAX: none */
} asked;

static void asked_free(asked *a) {
    smoe_settings_free(&a->row);
    smoe_settings_free(&a->reference);
}

static int asked_read(asked *a, const smoe_primary *p, const rows *r, smoe_err *err) {
    const char *row = p->trend ? p->where : p->row;
    *a = (asked){.primary = p, .trend = SIZE_MAX};
    for (size_t c = 0; c < r->columns && p->trend; c++)
        if (!strcmp(r->column[c], p->trend)) a->trend = c;
    if ((row && smoe_settings_read(&a->row, row)) ||
        (p->reference && smoe_settings_read(&a->reference, p->reference)))
        return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    return 0;
}

/* Has a row all the settings? */
static bool fits(const rows *r, size_t i, const smoe_settings *s) {
    for (size_t c = 0; c < r->columns; c++) {
        const char *wanted = smoe_settings_value(s, r->column[c]);
        if (wanted && !smoe_settings_is_any(wanted) && strcmp(r->value[i][c], wanted)) return false;
    }
    return true;
}

/* Are two rows the same in the columns that the contrast leaves alone? */
static bool same_elsewhere(const rows *r, const asked *a, size_t i, size_t k) {
    for (size_t c = 0; c < r->columns; c++) {
        const char *own = smoe_settings_value(&a->row, r->column[c]);
        bool loose = a->primary->trend ? c == a->trend || smoe_settings_is_any(own)
                                       : smoe_settings_value(&a->reference, r->column[c]) != NULL;
        if (c != r->seed && !loose && strcmp(r->value[i][c], r->value[k][c])) return false;
    }
    return true;
}

/* The counterpart of a row: SIZE_MAX none, SIZE_MAX - 1 several. */
static size_t counterpart(const rows *r, const asked *a, size_t i) {
    size_t found = SIZE_MAX;
    for (size_t k = 0; k < r->count; k++) {
        if (k == i || !fits(r, k, &a->reference) || !same_elsewhere(r, a, i, k)) continue;
        if (found != SIZE_MAX) return SIZE_MAX - 1;
        found = k;
    }
    return found;
}

/* Weights [count] of a difference; how many rows have a counterpart, SIZE_MAX: one has several. */
static size_t weigh_difference(double *weight, const rows *r, const asked *a) {
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) weight[i] = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t k = fits(r, i, &a->row) ? counterpart(r, a, i) : SIZE_MAX;
        if (k == SIZE_MAX) continue;
        if (k == SIZE_MAX - 1) return SIZE_MAX;
        weight[i] += 1;
        weight[k] -= 1;
        n++;
    }
    for (size_t i = 0; i < r->count && n; i++) weight[i] /= (double)n;
    return n;
}

/* The same of a trend: the mean of the slopes of all lines with three numbers or more. */
static int weigh_trend(double *weight, size_t *n, const rows *r, const asked *a, smoe_err *err) {
    double *x = calloc(2 * r->count + 1, sizeof *x), *line = x ? x + r->count : NULL;
    bool *member = calloc(r->count + 1, sizeof *member);
    size_t lines = 0;
    *n = 0;
    if (!x || !member) {
        free(x);
        free(member);
        return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    for (size_t i = 0; i < r->count; i++) weight[i] = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t rows_of = 0, first = SIZE_MAX;
        for (size_t k = 0; k < r->count; k++) {
            member[k] = fits(r, i, &a->row) && fits(r, k, &a->row) && same_elsewhere(r, a, i, k) &&
                        smoe_trend_number(r->value[k][a->trend], &x[k]);
            if (member[k] && first == SIZE_MAX) first = k;
            rows_of += member[k];
        }
        if (first != i || !smoe_contrast_slope(line, member, x, r->count)) continue;
        for (size_t k = 0; k < r->count; k++) weight[k] += line[k];
        *n += rows_of;
        lines++;
    }
    for (size_t i = 0; i < r->count && lines; i++) weight[i] /= (double)lines;
    free(x);
    free(member);
    return 0;
}

/* Weights [count] of a contrast, and how many rows it has (0: it cannot be measured); SIZE_MAX: one
 * has several references. */
static int weigh(double *weight, size_t *n, const rows *r, const smoe_primary *p, smoe_err *err) {
    asked a;
    int status = asked_read(&a, p, r, err);
    if (!status && p->trend)
        status = weigh_trend(weight, n, r, &a, err);
    else if (!status)
        *n = weigh_difference(weight, r, &a);
    asked_free(&a);
    return status;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* The combinations of the trials, or of trials and points, without the seed. */
static int plan_rows(rows *r, char ***flat, const smoe_sweep *sweep, bool evaluated) {
    const smoe_axis *axis = &sweep->evaluate;
    size_t points = evaluated ? axis->points : 1, later = evaluated ? axis->columns : 0;
    size_t columns = sweep->columns + later, most = sweep->trials * points;
    char **column = calloc(columns + 1, sizeof *column);
    char *const **value = calloc(most + 1, sizeof *value);
    *flat = calloc(most * columns + 1, sizeof **flat);
    *r = (rows){.column = column, .columns = columns, .seed = sweep->seed, .value = value};
    if (!column || !value || !*flat) return -1;
    for (size_t c = 0; c < columns; c++) {
        column[c] = c < sweep->columns
                        ? strdup(sweep->column[c])
                        : smoe_text_format(SMOE_EVALUATED "%s", axis->column[c - sweep->columns]);
        if (!column[c]) return -1;
    }
    for (size_t n = 0; n < most; n++) {
        char **own = *flat + r->count * columns;
        bool known = false;
        for (size_t c = 0; c < columns; c++)
            own[c] = c < sweep->columns ? sweep->trial[n / points].value[c]
                                        : axis->point[n % points].value[c - sweep->columns];
        for (size_t k = 0; k < r->count && !known; k++) {
            known = true;
            for (size_t c = 0; c < columns && known; c++)
                known = c == r->seed || !strcmp(own[c], value[k][c]);
        }
        if (!known) value[r->count++] = own;
    }
    return 0;
}

static void plan_rows_free(rows *r, char **flat) {
    for (size_t c = 0; r->column && c < r->columns; c++) free(r->column[c]);
    free((void *)r->column);
    free((void *)r->value);
    free(flat);
}

static bool names_evaluation(const smoe_primary *p) {
    const char *const text[] = {p->row, p->reference, p->trend, p->where};
    for (size_t i = 0; i < 4; i++)
        for (const char *at = text[i]; at;) {
            at += strspn(at, " ");
            if (!strncmp(at, SMOE_EVALUATED, strlen(SMOE_EVALUATED))) return true;
            at = smoe_axes_item(at);
            at = *at ? at + 1 : NULL;
        }
    return false;
}

static bool has_column(const rows *r, const char *key) {
    for (size_t c = 0; c < r->columns; c++)
        if (c != r->seed && !strcmp(r->column[c], key)) return true;
    return false;
}

static int check_settings(const rows *r, const char *text, const char *from, smoe_err *err) {
    smoe_settings s = {0};
    int status =
        text && smoe_settings_read(&s, text) ? smoe_fail(err, SMOE_RUNTIME, "out of memory") : 0;
    for (size_t i = 0; i < s.count && !status; i++)
        if (!s.item[i].value || !has_column(r, s.item[i].key))
            status = smoe_fail(err, SMOE_USAGE, "%s: '%s' is not KEY=VALUE with a swept key", from,
                               s.item[i].key);
    smoe_settings_free(&s);
    return status;
}

static bool is_one_of(const char *word, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(word, *list)) return true;
    return false;
}

/* Do the parts go together? */
static int check_parts(const smoe_primary *p, bool evaluated, const char *from, smoe_err *err) {
    static const char *const difference[] = {"higher", "lower", "different", "equivalent", NULL};
    static const char *const trend[] = {"rising", "falling", NULL};
    double x;
    if (!p->trend == !(p->row || p->reference) || !p->row != !p->reference ||
        (p->where && !p->trend))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: give row and reference, or trend and optionally where", from);
    if (!p->expect || !is_one_of(p->expect, p->trend ? trend : difference))
        return smoe_fail(err, SMOE_USAGE, "%s: expect: give one of %s", from,
                         p->trend ? "rising, falling" : "higher, lower, different, equivalent");
    bool equivalent = !strcmp(p->expect, "equivalent");
    if (equivalent && (!p->margin || !smoe_trend_number(p->margin, &x)))
        return smoe_fail(err, SMOE_USAGE,
                         "%s: expect: equivalent: give a margin, a positive number", from);
    if (!equivalent && p->margin)
        return smoe_fail(err, SMOE_USAGE, "%s: margin: goes with expect: equivalent", from);
    if (!smoe_results_is_measured(p->measure) ||
        smoe_metric_of_column(p->measure, NULL) ==
            (evaluated ? SMOE_METRIC_LOSS : SMOE_METRIC_EVALUATION_LOSS))
        return smoe_fail(err, SMOE_USAGE, "%s: measure: '%s' is not measured%s", from, p->measure,
                         evaluated ? " of evaluations" : "");
    return 0;
}

static int check_rows(const smoe_sweep *sweep, const smoe_primary *p, bool evaluated,
                      const char *from, smoe_err *err) {
    rows r;
    char **flat = NULL;
    size_t n = 0;
    int status = plan_rows(&r, &flat, sweep, evaluated);
    double *weight = calloc(r.count + 1, sizeof *weight);
    if (!weight) status = -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (!status) status = check_settings(&r, p->row, from, err);
    if (!status) status = check_settings(&r, p->reference, from, err);
    if (!status) status = check_settings(&r, p->where, from, err);
    if (!status && p->trend && !has_column(&r, p->trend))
        status = smoe_fail(err, SMOE_USAGE, "%s: trend: '%s' is not swept", from, p->trend);
    if (!status) status = weigh(weight, &n, &r, p, err);
    if (!status && n == SIZE_MAX)
        status = smoe_fail(err, SMOE_USAGE,
                           "%s: several rows could be the reference of one; name all keys that "
                           "change together",
                           from);
    if (!status && !n)
        status = smoe_fail(err, SMOE_USAGE,
                           p->trend ? "%s: no rows with three positive numbers that differ in %s "
                                      "alone"
                                    : "%s: no row has such a reference%s",
                           from, p->trend ? p->trend : "");
    free(weight);
    plan_rows_free(&r, flat);
    return status;
}

/* Fills what the spec leaves out. */
static int complete(smoe_primary *p, const char *equivalence) {
    if (!p->measure && !(p->measure = strdup(smoe_metrics[SMOE_METRIC_PRECISION].column)))
        return -1;
    double margin = smoe_equivalence_margin(equivalence, p->measure);
    if (!p->margin && p->expect && !strcmp(p->expect, "equivalent") && isfinite(margin) &&
        !(p->margin = smoe_text_format("%.17g", margin)))
        return -1;
    return 0;
}

int smoe_primary_plan(smoe_sweep *sweep, smoe_sweep_plan *plan, smoe_err *err) {
    char from[64], *end;
    sweep->plan = *plan;
    *plan = (smoe_sweep_plan){0};
    plan = &sweep->plan;
    if (plan->equivalence && check_margins(plan->equivalence, "sweep.equivalence", err)) return -1;
    unsigned long long family = plan->family ? strtoull(plan->family, &end, 10) : plan->primaries;
    if (plan->family && (*end || *plan->family == '-' || family < plan->primaries || !family))
        return smoe_fail(
            err, SMOE_USAGE,
            "sweep.family: '%s' is not a number of contrasts; the sweep itself has %zu",
            plan->family, plan->primaries);
    for (size_t i = 0; i < plan->primaries; i++) {
        smoe_primary *p = &plan->primary[i];
        bool evaluated = names_evaluation(p);
        snprintf(from, sizeof from, "sweep.primary, contrast %zu", i + 1);
        if (complete(p, plan->equivalence)) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
        if (check_parts(p, evaluated, from, err) || check_rows(sweep, p, evaluated, from, err))
            return -1;
    }
    return 0;
}

static bool same_text(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

bool smoe_primary_same(const smoe_sweep_plan *a, const smoe_sweep_plan *b) {
    bool same = a->primaries == b->primaries && same_text(a->family, b->family);
    for (size_t i = 0; i < a->primaries && same; i++)
        for (size_t part = 0; part < SMOE_PRIMARY_PARTS; part++)
            same &= same_text(*smoe_primary_text(&a->primary[i], part),
                              *smoe_primary_text(&b->primary[i], part));
    return same;
}

char *smoe_primary_name(const smoe_primary *p) {
    if (p->trend)
        return smoe_text_format("slope over %s%s%s", p->trend, p->where ? ", " : "",
                                p->where ? p->where : "");
    return smoe_text_format("%s - %s", p->row, p->reference);
}

/* ---- the results ----------------------------------------------------------------------------- */

static int measure(smoe_primary_result *result, const smoe_results *r, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    const smoe_primary *p = result->asked;
    size_t metric = smoe_results_metric(r, p->measure);
    char *const **value = calloc(r->groups + 1, sizeof *value);
    double *weight = calloc(r->groups + 1, sizeof *weight);
    int status = value && weight ? 0 : -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory");
    for (size_t g = 0; g < r->groups && !status; g++) value[g] = sweep->trial[r->first[g]].value;
    rows table = {.column = sweep->column,
                  .columns = sweep->columns,
                  .seed = sweep->seed,
                  .value = value,
                  .count = r->groups};
    if (!status) status = weigh(weight, &result->rows, &table, p, err);
    if (!status && result->rows && result->rows != SIZE_MAX && metric != SIZE_MAX)
        status = smoe_contrast_measure(&result->paired, r, weight, metric, err);
    free(value);
    free(weight);
    return status;
}

/* What is tested, and how. */
static double p_of(const smoe_primary_result *result) {
    if (isfinite(result->margin)) return smoe_stats_p_equivalent(&result->paired, result->margin);
    return smoe_stats_p(&result->paired, result->paired.mean);
}

static smoe_finding finding_of(const smoe_primary_result *result) {
    const smoe_paired *d = &result->paired;
    const char *expect = result->asked->expect;
    bool significant = result->adjusted<0.05, up = d->mean> 0;
    if (isfinite(result->margin))
        return significant                                ? SMOE_CONFIRMED
               : fabs(d->mean) - d->half > result->margin ? SMOE_REFUTED
                                                          : SMOE_OPEN;
    if (!significant) return SMOE_OPEN;
    if (!strcmp(expect, "different")) return SMOE_CONFIRMED;
    return up == (!strcmp(expect, "higher") || !strcmp(expect, "rising")) ? SMOE_CONFIRMED
                                                                          : SMOE_REFUTED;
}

int smoe_results_decide(smoe_results *r, smoe_err *err) {
    const smoe_sweep_plan *plan = &r->sweep->plan;
    size_t n = plan->primaries, family = plan->family ? strtoull(plan->family, NULL, 10) : n;
    if (!n) return 0;
    double *p = calloc(2 * n, sizeof *p);
    r->primary = calloc(n, sizeof *r->primary);
    int status = p && r->primary ? 0 : -1;
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory");
    for (size_t i = 0; i < n && !status; i++) {
        smoe_primary_result *result = &r->primary[r->primaries++];
        const smoe_primary *primary = &plan->primary[i];
        const smoe_results *of = names_evaluation(primary) ? r->evaluations : r;
        *result = (smoe_primary_result){.asked = primary,
                                        .paired = smoe_stats_paired(NULL, 0),
                                        .margin = primary->margin ? strtod(primary->margin, NULL)
                                                                  : (double)NAN};
        if (of) status = measure(result, of, err);
        p[i] = result->p = p_of(result);
    }
    if (!status) smoe_stats_holm(p + n, p, n, family);
    for (size_t i = 0; i < n && !status; i++) {
        r->primary[i].adjusted = p[n + i];
        r->primary[i].finding = finding_of(&r->primary[i]);
    }
    free(p);
    return status;
}
