/* Reading settings; see settings.h. */
#include "compare/settings.h"
#include "base/alloc.h"
#include "spec/metrics.h"

#include <ctype.h>
#include <math.h>

void smoe_settings_free(smoe_settings *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->item[i].key);
        free(s->item[i].value);
    }
    free(s->item);
    *s = (smoe_settings){0};
}

/* "KEY=VALUE" of this length. An item without '=' becomes a key without a value. */
static void settings_add(smoe_settings *s, const char *text, size_t length) {
    while (length && isspace((unsigned char)*text)) text++, length--;
    while (length && isspace((unsigned char)text[length - 1])) length--;
    s->item = smoe_alloc_next(s->item, s->count, sizeof *s->item);
    smoe_setting *item = &s->item[s->count++];
    const char *equals = memchr(text, '=', length);
    size_t key = equals ? (size_t)(equals - text) : length;
    *item = (smoe_setting){.key = smoe_alloc_part(text, key)};
    if (equals) item->value = smoe_alloc_part(equals + 1, length - key - 1);
}

void smoe_settings_read(smoe_settings *s, const char *text) {
    *s = (smoe_settings){0};
    for (const char *end;; text = end + 1) {
        end = smoe_text_item(text);
        settings_add(s, text, (size_t)(end - text));
        if (!*end) return;
    }
}

bool smoe_settings_is_any(const char *value) {
    return value && !strcmp(value, "*");
}

const char *smoe_settings_value(const smoe_settings *s, const char *key) {
    for (size_t i = 0; i < s->count; i++)
        if (s->item[i].value && !strcmp(s->item[i].key, key)) return s->item[i].value;
    return NULL;
}

bool smoe_settings_number(const char *value, double *x) {
    char *end;
    if (!value) return false;
    *x = strtod(value, &end);
    return end != value && !*end && isfinite(*x) && *x > 0;
}

/* ---- margins --------------------------------------------------------------------------------- */

double smoe_margin_of(const char *text, const char *metric) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    if (!text) return NAN;
    smoe_settings_read(&s, text);
    const char *own = smoe_settings_value(&s, metric);
    if (!own && !s.item[0].value && smoe_metric_is_share(metric)) own = s.item[0].key;
    return own ? strtod(own, NULL) : (double)NAN;
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
        if (metric && !smoe_metric_is_measured(metric))
            return smoe_fail(err, SMOE_USAGE, "%s: '%s' is not measured", from, metric);
    }
    return 0;
}
