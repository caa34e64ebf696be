/* Reading settings; see settings.h. */
#include "compare/settings.h"
#include "spec/metrics.h"
#include "spec/schema.h"
#include "spec/spec_sweep.h"

#include <ctype.h>

void smoe_settings_free(smoe_settings *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->item[i].key);
        free(s->item[i].value);
    }
    free(s->item);
    *s = (smoe_settings){0};
}

char *smoe_settings_value(const char *text, size_t length) {
    bool marked = length > 2 && *text == '"' && text[length - 1] == '"';
    return marked && memchr(text, ',', length) ? smoe_alloc_part(text + 1, length - 2)
                                               : smoe_alloc_part(text, length);
}

void smoe_settings_read(smoe_settings *s, const char *text) {
    *s = (smoe_settings){0};
    for (const char *end;; text = end + 1) {
        end = smoe_text_item(text);
        size_t length = (size_t)(end - text);
        while (length && isspace((unsigned char)*text)) text++, length--;
        while (length && isspace((unsigned char)text[length - 1])) length--;
        const char *equals = memchr(text, '=', length);
        size_t key = equals ? (size_t)(equals - text) : length;
        SMOE_APPEND(s->item, s->count) = (smoe_setting){
            .key = smoe_alloc_part(text, key), /* an item without '=' is a key without a value */
            .value = equals ? smoe_settings_value(equals + 1, length - key - 1) : NULL};
        if (!*end) return;
    }
}

bool smoe_settings_is_any(const char *value) {
    return value && !strcmp(value, "*");
}

bool smoe_settings_number(const char *value, double *x) {
    return value && smoe_value_number(value, false, x) && *x > 0;
}

bool smoe_settings_same(const char *key, const char *a, const char *b) {
    double x, y;
    return !strcmp(a, b) || (!smoe_spec_holds_text(key) && smoe_value_number(a, false, &x) &&
                             smoe_value_number(b, false, &y) && x == y);
}

/* ---- in words -------------------------------------------------------------------------------- */

static const char of_experts[] = "model.moe.", of_layers[] = "model.moe.layers";

static bool is_router(const char *key) {
    return !strcmp(key, "model.moe.router") || !strcmp(key, "router"); /* of smoe ablate */
}

const char *smoe_settings_heading(const char *key, char *buf, size_t size) {
    const char *dot = strrchr(key, '.');
    bool evaluated = !strncmp(key, SMOE_EVALUATED, strlen(SMOE_EVALUATED));
    snprintf(buf, size, "%s%s",
             evaluated                ? "at "
             : smoe_spec_started(key) ? "start "
                                      : "",
             dot ? dot + 1 : key);
    return buf;
}

const char *smoe_settings_shown(const char *const *key, const char *const *value, size_t count,
                                size_t i) {
    bool routed = false, dense = false;
    for (size_t k = 0; k < count; k++) {
        routed |= value[k] && is_router(key[k]);
        dense |= value[k] && !strcmp(key[k], of_layers) && !strcmp(value[k], "none");
    }
    if (!dense || !value[i] || strncmp(key[i], of_experts, strlen(of_experts))) return value[i];
    return (routed ? is_router(key[i]) : !strcmp(key[i], of_layers)) ? "dense" : "-";
}

char *smoe_settings_words(const char *const *key, const char *const *value, size_t count) {
    char *text = NULL, heading[96];
    for (size_t i = 0; i < count; i++) {
        const char *shown = smoe_settings_shown(key, value, count, i);
        bool replaced = shown && strcmp(shown, value[i]) != 0;
        if (!shown || (replaced && !strcmp(shown, "-"))) continue;
        smoe_text_add(&text, "%s", text ? ", " : "");
        if (smoe_settings_is_any(shown))
            smoe_text_add(&text, "any %s", smoe_settings_heading(key[i], heading, sizeof heading));
        else if (replaced || is_router(key[i]))
            smoe_text_add(&text, "%s", shown);
        else
            smoe_text_add(&text, "%s %s", smoe_settings_heading(key[i], heading, sizeof heading),
                          shown);
    }
    return text ? text : smoe_alloc_text("");
}

/* ---- combinations ---------------------------------------------------------------------------- */

size_t smoe_combinations_add(smoe_combinations *r, char *const *value) {
    for (size_t k = 0; k < r->count; k++) {
        bool same = true;
        for (size_t c = 0; c < r->columns && same; c++)
            same = c == r->seed || !strcmp(r->value[k][c], value[c]);
        if (same) return k;
    }
    r->value[r->count] = value;
    return r->count++;
}

size_t smoe_combinations_column(const smoe_combinations *r, const char *key) {
    size_t length = strlen(r->prefix);
    for (size_t c = 0; c < r->columns; c++)
        if (c != r->seed && !strncmp(key, r->prefix, length) && !strcmp(key + length, r->column[c]))
            return c;
    return SIZE_MAX;
}

void smoe_combinations_list(const smoe_combinations *r, char *list, size_t size) {
    for (size_t c = 0; c < r->columns; c++)
        if (c != r->seed) smoe_text_list(list, size, "%s%s", r->prefix, r->column[c]);
}

const char **smoe_combinations_wanted(const smoe_combinations *r, const smoe_settings *s) {
    const char **wanted = smoe_alloc(r->columns + 1, sizeof *wanted);
    for (size_t i = s->count; i-- > 0;) { /* the first of those with one key counts */
        size_t c = smoe_combinations_column(r, s->item[i].key);
        if (c < r->columns && s->item[i].value) wanted[c] = s->item[i].value;
    }
    return wanted;
}

bool smoe_combinations_fit(const smoe_combinations *r, size_t i, const char *const *wanted,
                           size_t own) {
    for (size_t c = 0; c < r->columns; c++) {
        const char *value = wanted[c] ? wanted[c] : own < SIZE_MAX ? r->value[own][c] : "*";
        if (c != r->seed && !smoe_settings_is_any(value) &&
            !smoe_settings_same(r->column[c], r->value[i][c], value))
            return false;
    }
    return true;
}

size_t smoe_combinations_fitting(const smoe_combinations *r, const char *const *wanted, size_t own,
                                 size_t *found) {
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (i == own || !smoe_combinations_fit(r, i, wanted, own)) continue;
        *found = i;
        count++;
    }
    return count;
}

/* ---- margins --------------------------------------------------------------------------------- */

double smoe_margin_of(const char *text, const char *metric) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    if (!text) return NAN;
    smoe_settings_read(&s, text);
    const char *own = NULL;
    for (size_t i = 0; i < s.count && !own; i++)
        if (!strcmp(s.item[i].key, metric)) own = s.item[i].value;
    if (!own && !s.item[0].value && smoe_metric_is_share(metric)) own = s.item[0].key;
    double margin = NAN;
    if (own) (void)smoe_settings_number(own, &margin);
    return margin;
}

int smoe_margin_check(const char *text, const char *from, smoe_err *err) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    double x;
    smoe_settings_read(&s, text);
    for (size_t i = 0; i < s.count; i++) {
        const char *metric = s.item[i].value ? s.item[i].key : NULL;
        if (!smoe_settings_number(metric ? s.item[i].value : s.item[i].key, &x) ||
            (!metric && s.count > 1))
            return smoe_fail(
                err, SMOE_USAGE,
                "%s: '%s' is not a margin: a positive number, or METRIC=NUMBER separated by commas",
                from, text);
        if (metric && smoe_metric_of_column(metric, NULL) == SMOE_METRICS)
            return smoe_fail(err, SMOE_USAGE, "%s: '%s' is not a measured column of results.csv",
                             from, metric);
    }
    return 0;
}
