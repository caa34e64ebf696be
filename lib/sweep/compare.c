/* Rows compared with a reference; see compare.h. */
#include "sweep/compare.h"
#include "sweep/contrast.h"
#include "sweep/evaluations.h"
#include "sweep/primary.h"
#include "sweep/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the check ------------------------------------------------------------------------------- */

/* Rows of values: the trials of a sweep, or the points that they are evaluated at. */
typedef struct rows {
    const char *prefix; /* of the columns' names in a setting */
    char *const *column;
    size_t columns, seed;
    char *const **value; /* [count][columns] */
    size_t count;
} rows;

static bool is_column(const rows *r, size_t c, const char *key) {
    size_t length = strlen(r->prefix);
    return c != r->seed && !strncmp(key, r->prefix, length) && !strcmp(key + length, r->column[c]);
}

/* 1 known and there, 0 not of these rows; -1 with err: a value that none of them has. */
static int find_setting(const rows *r, const smoe_setting *s, const char *from, smoe_err *err) {
    size_t c = 0;
    while (c < r->columns && !is_column(r, c, s->key)) c++;
    if (c == r->columns) return 0;
    for (size_t i = 0; i < r->count; i++)
        if (smoe_settings_is_any(s->value) || !strcmp(r->value[i][c], s->value)) return 1;
    return smoe_fail(err, SMOE_USAGE, "%s: no row has %s=%s", from, s->key, s->value);
}

/* Is `other` what `row` becomes with the settings, and not the same? */
static bool is_counterpart(const rows *r, const smoe_settings *s, size_t row, size_t other) {
    bool differ = false;
    for (size_t c = 0; c < r->columns; c++) {
        const char *own = r->value[row][c], *wanted = own;
        if (c == r->seed) continue;
        for (size_t i = 0; i < s->count; i++)
            if (is_column(r, c, s->item[i].key)) wanted = s->item[i].value;
        if (smoe_settings_is_any(wanted)) continue;
        if (strcmp(r->value[other][c], wanted)) return false;
        differ |= strcmp(own, wanted) != 0;
    }
    return differ;
}

static bool has_counterpart(const rows *r, const smoe_settings *s) {
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->count; k++)
            if (is_counterpart(r, s, i, k)) return true;
    return false;
}

static int unknown(const rows *tables, const char *key, const char *from, smoe_err *err) {
    char known[2000] = "";
    size_t used = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t c = 0; c < tables[t].columns && used < sizeof known; c++)
            if (c != tables[t].seed)
                used += (size_t)snprintf(known + used, sizeof known - used, "%s%s%s",
                                         used ? ", " : "", tables[t].prefix, tables[t].column[c]);
    return smoe_fail(err, SMOE_USAGE, "%s: '%s' is not KEY=VALUE with one of the swept keys: %s",
                     from, key, known);
}

static int check(const rows *tables, const smoe_settings *s, const char *text, const char *from,
                 smoe_err *err) {
    bool named[2] = {false, false};
    for (size_t i = 0; i < s->count; i++) {
        int found = 0;
        for (size_t t = 0; t < 2 && s->item[i].value && !found; t++) {
            found = find_setting(&tables[t], &s->item[i], from, err);
            if (found < 0) return -1;
            named[t] |= found;
        }
        if (!found) return unknown(tables, s->item[i].key, from, err);
    }
    for (size_t t = 0; t < 2; t++)
        if (named[t] && !has_counterpart(&tables[t], s))
            return smoe_fail(err, SMOE_USAGE,
                             "%s: no row differs from another in %s alone; keys that change "
                             "together are given together, KEY=VALUE,KEY=VALUE",
                             from, text);
    return 0;
}

int smoe_compare_refer(smoe_sweep *sweep, const char *text, const char *from, smoe_err *err) {
    smoe_settings s;
    size_t points = sweep->evaluate.points;
    char *const **trial = calloc(sweep->trials + 1, sizeof *trial);
    char *const **point = calloc(points + 1, sizeof *point);
    char *copy = strdup(text);
    int status = smoe_settings_read(&s, text) || !trial || !point || !copy
                     ? smoe_fail(err, SMOE_RUNTIME, "out of memory")
                     : 0;
    for (size_t i = 0; trial && i < sweep->trials; i++) trial[i] = sweep->trial[i].value;
    for (size_t p = 0; point && p < points; p++) point[p] = sweep->evaluate.point[p].value;
    const rows tables[] = {
        {"", sweep->column, sweep->columns, sweep->seed, trial, sweep->trials},
        {SMOE_EVALUATED, sweep->evaluate.column, sweep->evaluate.columns, SIZE_MAX, point, points}};
    if (!status) status = check(tables, &s, text, from, err);
    if (!status) {
        free(sweep->reference);
        sweep->reference = copy;
        copy = NULL;
    }
    smoe_settings_free(&s);
    free(copy);
    free(point);
    free(trial);
    return status;
}

/* ---- the differences ------------------------------------------------------------------------- */

static char *const *values_of(const smoe_results *r, size_t group) {
    return r->sweep->trial[r->first[group]].value;
}

/* What a row's reference has in each column; see results.h. */
static int choose(smoe_results *r, bool *asked) {
    const smoe_sweep *sweep = r->sweep;
    smoe_settings s = {0};
    int status = sweep->reference ? smoe_settings_read(&s, sweep->reference) : 0;
    *asked = false;
    for (size_t c = 0; c < sweep->columns && !status; c++) {
        const char *value = smoe_settings_value(&s, sweep->column[c]);
        if (!value || c == sweep->seed) continue;
        *asked = true;
        if (!(r->reference[c] = strdup(value))) status = -1;
    }
    for (size_t c = r->x_from; c < sweep->columns && !status && !*asked; c++)
        if (c != sweep->seed && !(r->reference[c] = strdup(sweep->trial[0].value[c]))) status = -1;
    smoe_settings_free(&s);
    return status;
}

/* Is a row what the reference of another must be, where the columns `any` [columns] may differ too?
 */
static bool is_reference(const smoe_results *r, size_t row, size_t of, const bool *any) {
    for (size_t c = 0; c < r->sweep->columns; c++) {
        const char *wanted = r->reference[c] ? r->reference[c] : values_of(r, of)[c];
        if (c != r->sweep->seed && !smoe_settings_is_any(r->reference[c]) && !(any && any[c]) &&
            strcmp(values_of(r, row)[c], wanted))
            return false;
    }
    return true;
}

/* ---- rows that are not compared -------------------------------------------------------------- */

/* Has some row what the reference of `group` must have, its own value in this column only? NULL
 * columns of the reference but `column` are let go. */
static bool has_own(const smoe_results *r, size_t group, size_t column) {
    for (size_t g = 0; g < r->groups; g++) {
        bool same = !strcmp(values_of(r, g)[column], values_of(r, group)[column]);
        for (size_t c = 0; c < r->sweep->columns && same; c++)
            same = c == r->sweep->seed || !r->reference[c] ||
                   smoe_settings_is_any(r->reference[c]) ||
                   !strcmp(values_of(r, g)[c], r->reference[c]);
        if (same) return true;
    }
    return false;
}

/* Rows that may stand for the reference of a row when the columns `any` are let go as well. */
static size_t count_references(const smoe_results *r, size_t group, const bool *any) {
    size_t count = 0;
    for (size_t g = 0; g < r->groups; g++) count += is_reference(r, g, group, any);
    return count;
}

/* Puts "column=value" for the columns of `any`, their own values or "*", behind what is there. */
static void put_settings(FILE *out, const smoe_results *r, size_t group, const bool *any,
                         const char *value, const char *comma) {
    for (size_t c = 0; c < r->sweep->columns; c++) {
        if (!any[c]) continue;
        fprintf(out, "%s%s=%s", comma, r->sweep->column[c], value ? value : values_of(r, group)[c]);
        comma = value ? "," : ", ";
    }
}

static void put_reason(FILE *out, const smoe_results *r, size_t group, bool *any) {
    const smoe_sweep *sweep = r->sweep;
    const char *comma = "not compared: ";
    size_t missing = 0;
    for (size_t c = 0; c < sweep->columns; c++) {
        if (c == sweep->seed) continue;
        fprintf(out, "%s%s", comma, values_of(r, group)[c]);
        comma = ", ";
        any[c] = !r->reference[c] && !has_own(r, group, c);
        missing += any[c];
    }
    if (count_references(r, group, NULL)) {
        fputs(" (several rows could be its reference)", out);
        return;
    }
    for (size_t c = 0; c < sweep->columns && !missing; c++)
        any[c] = c != sweep->seed && !r->reference[c]; /* each is there, but not together */
    put_settings(out, r, group, any, NULL, " (no row of the reference with ");
    fputc(')', out);
    if (count_references(r, group, any) != 1) return;
    fprintf(out, "; --reference %s", sweep->reference);
    put_settings(out, r, group, any, "*", ",");
    fputs(" compares it", out);
}

char *smoe_results_not_compared(const smoe_results *r, size_t group) {
    char *text = NULL;
    size_t size;
    if (!r->reference || is_reference(r, group, group, NULL) ||
        count_references(r, group, NULL) == 1)
        return NULL;
    bool *any = calloc(r->sweep->columns + 1, sizeof *any);
    FILE *out = any ? open_memstream(&text, &size) : NULL;
    if (out) {
        put_reason(out, r, group, any);
        fclose(out);
    }
    free(any);
    return text;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* The row that a row is compared with; SIZE_MAX: none, several, or itself. */
static size_t reference_of(const smoe_results *r, size_t group) {
    size_t found = SIZE_MAX;
    for (size_t g = 0; g < r->groups; g++) {
        if (!is_reference(r, g, group, NULL)) continue;
        if (g == group || found != SIZE_MAX) return SIZE_MAX;
        found = g;
    }
    return found;
}

/* Whether two rows have the same in all columns for which the reference has a value. */
static bool same_pool(const smoe_results *r, size_t a, size_t b) {
    for (size_t c = 0; c < r->sweep->columns; c++)
        if (r->reference[c] && !smoe_settings_is_any(r->reference[c]) &&
            strcmp(values_of(r, a)[c], values_of(r, b)[c]))
            return false;
    return true;
}

/* Rows with a reference in the pool of a row; 0 where one before it is in the same pool. */
static size_t pool_of(const smoe_results *r, const size_t *reference, size_t group) {
    size_t count = 0;
    for (size_t g = 0; g < r->groups; g++) {
        if (reference[g] == SIZE_MAX || !same_pool(r, g, group)) continue;
        if (g < group) return 0;
        count++;
    }
    return count;
}

/* Does the pair of a row and its reference belong to a difference? Of a pool, those without any
 * result do not. */
static bool takes_part(const smoe_results *r, const size_t *reference, const smoe_difference *d,
                       size_t g) {
    if (reference[g] == SIZE_MAX) return false;
    if (!d->pooled) return g == d->group;
    return same_pool(r, g, d->group) && smoe_contrast_has(r, g, d->metric) &&
           smoe_contrast_has(r, reference[g], d->metric);
}

/* The difference of a row, or of its pool. One without pairs is left out. `weight` [groups] is
 * scratch. */
static int add(smoe_results *r, const size_t *reference, double *weight, size_t group,
               size_t metric, bool pooled, smoe_err *err) {
    smoe_difference d = {.group = group, .metric = metric, .pooled = pooled};
    size_t taking = 0;
    for (size_t g = 0; g < r->groups; g++) {
        weight[g] = 0;
        taking += takes_part(r, reference, &d, g);
    }
    for (size_t g = 0; g < r->groups; g++) {
        if (!takes_part(r, reference, &d, g)) continue;
        weight[g] += 1 / (double)taking;
        weight[reference[g]] -= 1 / (double)taking;
    }
    if (smoe_contrast_measure(&d.paired, r, weight, metric, err)) return -1;
    if (!d.paired.n) return 0;
    d.p = smoe_stats_p(&d.paired, d.paired.mean);
    d.margin = smoe_equivalence_margin(r->sweep->plan.equivalence, r->metric[metric]);
    d.equivalent = smoe_stats_p_equivalent(&d.paired, d.margin) < 0.05;
    r->difference[r->differences++] = d;
    return 0;
}

int smoe_results_compare(smoe_results *r, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    bool asked;
    if (sweep->seed == SIZE_MAX && !sweep->reference) return 0;
    size_t *reference = calloc(r->groups + 1, sizeof *reference);
    double *weight = calloc(r->groups + 1, sizeof *weight);
    r->reference = calloc(sweep->columns + 1, sizeof *r->reference);
    r->difference = calloc(2 * r->groups * r->metrics + 1, sizeof *r->difference);
    int status = reference && weight && r->reference && r->difference ? 0 : -1;
    if (!status) status = choose(r, &asked);
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory for the differences");
    for (size_t g = 0; g < r->groups && !status; g++) reference[g] = reference_of(r, g);
    for (size_t m = 0; m < r->metrics && !status; m++) {
        if (!smoe_results_shown(r->metric[m], true)) continue;
        for (size_t g = 0; g < r->groups && !status; g++)
            if (reference[g] != SIZE_MAX) status = add(r, reference, weight, g, m, false, err);
        for (size_t g = 0; g < r->groups && asked && !status; g++)
            if (reference[g] != SIZE_MAX && pool_of(r, reference, g) > 1)
                status = add(r, reference, weight, g, m, true, err);
    }
    free(weight);
    free(reference);
    return status;
}
