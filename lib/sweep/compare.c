/* Rows compared with a reference; see compare.h. */
#include "sweep/compare.h"
#include "sweep/evaluations.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- settings -------------------------------------------------------------------------------- */

typedef struct setting {
    char *key, *value;
} setting;

typedef struct settings {
    setting *item;
    size_t count;
} settings;

static void settings_free(settings *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->item[i].key);
        free(s->item[i].value);
    }
    free(s->item);
}

/* "KEY=VALUE" of this length. An item without '=' becomes a key without a value. */
static int settings_add(settings *s, const char *text, size_t length) {
    while (length && isspace((unsigned char)*text)) text++, length--;
    while (length && isspace((unsigned char)text[length - 1])) length--;
    setting *item = realloc(s->item, (s->count + 1) * sizeof *item);
    if (!item) return -1;
    s->item = item;
    item += s->count++;
    const char *equals = memchr(text, '=', length);
    size_t key = equals ? (size_t)(equals - text) : length;
    *item = (setting){.key = strndup(text, key)};
    if (equals) item->value = strndup(equals + 1, length - key - 1);
    return item->key && (item->value || !equals) ? 0 : -1;
}

static int settings_of(settings *s, const char *text) {
    *s = (settings){0};
    for (const char *end;; text = end + 1) {
        end = smoe_axes_item(text);
        if (settings_add(s, text, (size_t)(end - text))) return -1;
        if (!*end) return 0;
    }
}

bool smoe_compare_is_any(const char *value) {
    return value && !strcmp(value, "*");
}

static const char *setting_of(const settings *s, const char *column) {
    for (size_t i = 0; i < s->count; i++)
        if (s->item[i].value && !strcmp(s->item[i].key, column)) return s->item[i].value;
    return NULL;
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Rows of values: the cells of a sweep, or the points that they are evaluated at. */
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
static int find_setting(const rows *r, const setting *s, const char *from, smoe_err *err) {
    size_t c = 0;
    while (c < r->columns && !is_column(r, c, s->key)) c++;
    if (c == r->columns) return 0;
    for (size_t i = 0; i < r->count; i++)
        if (smoe_compare_is_any(s->value) || !strcmp(r->value[i][c], s->value)) return 1;
    return smoe_fail(err, SMOE_USAGE, "%s: no row has %s=%s", from, s->key, s->value);
}

/* Is `other` what `row` becomes with the settings, and not the same? */
static bool is_counterpart(const rows *r, const settings *s, size_t row, size_t other) {
    bool differ = false;
    for (size_t c = 0; c < r->columns; c++) {
        const char *own = r->value[row][c], *wanted = own;
        if (c == r->seed) continue;
        for (size_t i = 0; i < s->count; i++)
            if (is_column(r, c, s->item[i].key)) wanted = s->item[i].value;
        if (smoe_compare_is_any(wanted)) continue;
        if (strcmp(r->value[other][c], wanted)) return false;
        differ |= strcmp(own, wanted) != 0;
    }
    return differ;
}

static bool has_counterpart(const rows *r, const settings *s) {
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

static int check(const rows *tables, const settings *s, const char *text, const char *from,
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
    settings s;
    size_t points = sweep->evaluate.points;
    char *const **cell = calloc(sweep->cells + 1, sizeof *cell);
    char *const **point = calloc(points + 1, sizeof *point);
    char *copy = strdup(text);
    int status = settings_of(&s, text) || !cell || !point || !copy
                     ? smoe_fail(err, SMOE_RUNTIME, "out of memory")
                     : 0;
    for (size_t i = 0; cell && i < sweep->cells; i++) cell[i] = sweep->cell[i].value;
    for (size_t p = 0; point && p < points; p++) point[p] = sweep->evaluate.point[p].value;
    const rows tables[] = {
        {"", sweep->column, sweep->columns, sweep->seed, cell, sweep->cells},
        {SMOE_EVALUATED, sweep->evaluate.column, sweep->evaluate.columns, SIZE_MAX, point, points}};
    if (!status) status = check(tables, &s, text, from, err);
    if (!status) {
        free(sweep->reference);
        sweep->reference = copy;
        copy = NULL;
    }
    settings_free(&s);
    free(copy);
    free(point);
    free(cell);
    return status;
}

/* ---- the differences ------------------------------------------------------------------------- */

static char *const *values_of(const smoe_results *r, size_t group) {
    return r->sweep->cell[r->first[group]].value;
}

/* What a row's reference has in each column; see results.h. */
static int choose(smoe_results *r, bool *asked) {
    const smoe_sweep *sweep = r->sweep;
    settings s = {0};
    int status = sweep->reference ? settings_of(&s, sweep->reference) : 0;
    *asked = false;
    for (size_t c = 0; c < sweep->columns && !status; c++) {
        const char *value = setting_of(&s, sweep->column[c]);
        if (!value || c == sweep->seed) continue;
        *asked = true;
        if (!(r->reference[c] = strdup(value))) status = -1;
    }
    for (size_t c = r->x_from; c < sweep->columns && !status && !*asked; c++)
        if (c != sweep->seed && !(r->reference[c] = strdup(sweep->cell[0].value[c]))) status = -1;
    settings_free(&s);
    return status;
}

/* Is a row what the reference of another must be, where the columns `any` [columns] may differ too?
 */
static bool is_reference(const smoe_results *r, size_t row, size_t of, const bool *any) {
    for (size_t c = 0; c < r->sweep->columns; c++) {
        const char *wanted = r->reference[c] ? r->reference[c] : values_of(r, of)[c];
        if (c != r->sweep->seed && !smoe_compare_is_any(r->reference[c]) && !(any && any[c]) &&
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
                   smoe_compare_is_any(r->reference[c]) ||
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

/* [cells] the cell of the same seed in the row's reference; SIZE_MAX: none. */
static void find_partners(const smoe_results *r, const size_t *reference, size_t *partner) {
    const smoe_sweep *sweep = r->sweep;
    for (size_t i = 0; i < sweep->cells; i++) {
        partner[i] = SIZE_MAX;
        for (size_t k = 0; k < sweep->cells && reference[r->group[i]] != SIZE_MAX; k++)
            if (r->group[k] == reference[r->group[i]] &&
                (sweep->seed == SIZE_MAX ||
                 !strcmp(sweep->cell[i].value[sweep->seed], sweep->cell[k].value[sweep->seed])))
                partner[i] = k;
    }
}

/* Whether two rows have the same in all columns for which the reference has a value. */
static bool same_pool(const smoe_results *r, size_t a, size_t b) {
    for (size_t c = 0; c < r->sweep->columns; c++)
        if (r->reference[c] && !smoe_compare_is_any(r->reference[c]) &&
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

typedef struct pairs {
    const size_t *partner;
    double *a, *b;  /* [cells] */
    size_t *shared; /* [cells] the first partner that a pair stands for, and */
    size_t *count;  /* how many pairs have it */
} pairs;

/* Are two cells, or evaluations, of the same training? */
static bool same_training(const smoe_results *r, size_t a, size_t b) {
    for (size_t c = 0; c < r->trained; c++)
        if (strcmp(r->sweep->cell[a].value[c], r->sweep->cell[b].value[c])) return false;
    return true;
}

/* The pair that a cell belongs to, a new one for a new reference: cells compared with the same
 * training are not independent, and are averaged. */
static size_t pair_of(const smoe_results *r, const pairs *p, size_t n, size_t partner) {
    for (size_t k = 0; k < n; k++)
        if (same_training(r, p->shared[k], partner)) return k;
    p->shared[n] = partner;
    p->a[n] = p->b[n] = 0;
    p->count[n] = 0;
    return n;
}

/* The difference of a row, or of its pool. One without pairs is left out. */
static void add(smoe_results *r, const pairs *p, size_t group, size_t metric, bool pooled) {
    size_t n = 0;
    for (size_t i = 0; i < r->sweep->cells; i++) {
        size_t g = r->group[i], partner = p->partner[i];
        if (partner == SIZE_MAX || !(pooled ? same_pool(r, g, group) : g == group)) continue;
        double a = r->value[i * r->metrics + metric], b = r->value[partner * r->metrics + metric];
        if (!isfinite(a - b)) continue;
        size_t k = pair_of(r, p, n, partner);
        p->a[k] += a;
        p->b[k] += b;
        p->count[k]++;
        n += k == n;
    }
    for (size_t k = 0; k < n; k++) {
        p->a[k] /= (double)p->count[k];
        p->b[k] /= (double)p->count[k];
    }
    smoe_paired paired = smoe_stats_paired(p->a, p->b, n, 0.95);
    if (paired.n)
        r->difference[r->differences++] = (smoe_difference){group, metric, pooled, paired};
}

int smoe_results_compare(smoe_results *r, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    bool asked;
    if (sweep->seed == SIZE_MAX && !sweep->reference) return 0;
    size_t *reference = calloc(r->groups + 1, sizeof *reference);
    size_t *partner = calloc(sweep->cells + 1, sizeof *partner);
    pairs p = {.partner = partner,
               .a = calloc(2 * sweep->cells + 1, sizeof *p.a),
               .shared = calloc(2 * sweep->cells + 1, sizeof *p.shared)};
    r->reference = calloc(sweep->columns + 1, sizeof *r->reference);
    r->difference = calloc(2 * r->groups * r->metrics + 1, sizeof *r->difference);
    int status = reference && partner && p.a && p.shared && r->reference && r->difference ? 0 : -1;
    if (!status) status = choose(r, &asked);
    if (!status) {
        p.b = p.a + sweep->cells;
        p.count = p.shared + sweep->cells;
        for (size_t g = 0; g < r->groups; g++) reference[g] = reference_of(r, g);
        find_partners(r, reference, partner);
    }
    for (size_t m = 0; m < r->metrics && !status; m++) {
        if (!smoe_results_shown(r->metric[m], true)) continue;
        for (size_t g = 0; g < r->groups; g++)
            if (reference[g] != SIZE_MAX) add(r, &p, g, m, false);
        for (size_t g = 0; g < r->groups && asked; g++)
            if (reference[g] != SIZE_MAX && pool_of(r, reference, g) > 1) add(r, &p, g, m, true);
    }
    if (status) smoe_fail(err, SMOE_RUNTIME, "out of memory for the differences");
    free(p.a);
    free(p.shared);
    free(partner);
    free(reference);
    return status;
}
