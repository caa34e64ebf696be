/*
 * Scalars: from text to numbers of an entry's range, to true and false, and back. They are read in
 * this way in values, in items of lists and in the settings of groups; see schema.h.
 */
#include "spec/schema.h"

#include <errno.h>
#include <strings.h>

bool smoe_value_ascii(const char *text) {
    while (*text && (unsigned char)*text < 128) text++;
    return !*text;
}

int smoe_value_expected(char *problem, const char *expected, const char *text) {
    char shown[64];
    bool alike = strstr(expected, "number") && !smoe_value_ascii(text); /* a minus of a PDF */
    return smoe_value_wrong(problem, "expected %s, found '%s'%s", expected,
                            smoe_text_shown(text, shown, sizeof shown),
                            alike ? ", which is not all ASCII" : "");
}

/* Whether the number is inside "[LOW, HIGH]"; round brackets mark bounds that are not included. */
static bool inside(const char *range, double number) {
    char *rest;
    double low = strtod(range + 1, &rest), high = strtod(rest + 1, &rest); /* the comma between */
    return (*range == '(' ? number > low : number >= low) &&
           (*rest == ')' ? number < high : number <= high);
}

static int outside(const smoe_schema_entry *entry, const char *text, char *problem) {
    char shown[64];
    return smoe_value_wrong(problem, "must be in %s, found %s", entry->range,
                            smoe_text_shown(text, shown, sizeof shown));
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Drops the underscores that stand between two digits; false when the text is too long for a
 * number. */
static bool strip(const char *text, char *buf, size_t size) {
    size_t used = 0;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '_' && i && is_digit(text[i - 1]) && is_digit(text[i + 1])) continue;
        if (used + 1 >= size) return false;
        buf[used++] = text[i];
    }
    buf[used] = '\0';
    return true;
}

/* [-] digits, with a point between, before or after them, [e[+-]digits]. */
static bool is_number(const char *text, bool *whole) {
    char *end;
    *whole = !strpbrk(text, ".") && !strstr(text, "e-") && !strstr(text, "E-");
    (void)strtod(text, &end);
    return *text && *text != '+' && !*end && !text[strspn(text, SMOE_DIGITS ".eE+-")];
}

/* Whole numbers may carry a positive power of ten (1e4). All ranges end at 2^53 or below: a number
 * that a double cannot represent exactly is outside of each, even if its rounded value is
 * inside. */
int smoe_value_whole(const smoe_schema_entry *entry, const char *text, double *number,
                     char *problem) {
    char buf[128];
    bool whole;
    if (!strip(text, buf, sizeof buf) || !is_number(buf, &whole) || !whole)
        return smoe_value_expected(problem, "a whole number", text);
    long double exact = strtold(buf, NULL);
    *number = (double)exact;
    bool held = (long double)*number == exact;
    return held && inside(entry->range, *number) ? 0 : outside(entry, text, problem);
}

int smoe_value_real(const smoe_schema_entry *entry, const char *text, double *number,
                    char *problem) {
    char buf[128];
    bool whole;
    const char *word = text + (*text == '-' || *text == '+');
    if (!strcasecmp(word, ".inf") || !strcasecmp(word, "inf") || !strcasecmp(word, ".nan") ||
        !strcasecmp(word, "nan"))
        return smoe_value_expected(problem, "a finite number", text);
    if (!strip(text, buf, sizeof buf) || !is_number(buf, &whole))
        return smoe_value_expected(problem, "a number", text);
    errno = 0;
    *number = strtod(buf, NULL) + 0.0; /* -0 becomes 0 */
    if (errno == ERANGE)
        return smoe_value_expected(problem, "a number that a double can hold", text);
    return inside(entry->range, *number) ? 0 : outside(entry, text, problem);
}

bool smoe_value_number(const char *text, bool whole, double *number) {
    static const smoe_schema_entry any = {.range = "[-inf, inf]"},
                                   exact = {.range = "[-9007199254740992, 9007199254740992]"};
    char problem[SMOE_PROBLEM];
    return !(whole ? smoe_value_whole(&exact, text, number, problem)
                   : smoe_value_real(&any, text, number, problem));
}

/* "200", or "0.2" of all steps. */
int smoe_value_span(const smoe_schema_entry *entry, const char *text, smoe_span *span,
                    char *problem) {
    char buf[128];
    bool whole;
    double number;
    const char *wanted = "a whole number of steps, or a share of them in (0, 1)";
    if (!strip(text, buf, sizeof buf) || !is_number(buf, &whole))
        return smoe_value_expected(problem, wanted, text);
    if (whole) {
        if (smoe_value_whole(entry, text, &number, problem)) return -1;
        *span = (smoe_span){.steps = (size_t)number};
        return 0;
    }
    number = strtod(buf, NULL);
    if (!(number > 0 && number < 1)) return smoe_value_expected(problem, wanted, text);
    *span = (smoe_span){.share = number};
    return 0;
}

int smoe_value_item(const smoe_schema_entry *entry, const char *text, double *item, char *problem) {
    static const smoe_schema_entry block = {.range = "[0, 255]"};
    if (entry->kind == SMOE_KIND_REALS) return smoe_value_real(entry, text, item, problem);
    if (entry->kind == SMOE_KIND_INDICES) {
        const smoe_schema_entry numbers = {.range = strchr(entry->range, '|') + 1};
        return smoe_value_whole(&numbers, text, item, problem);
    }
    return smoe_value_whole(entry->kind == SMOE_KIND_LAYERS ? &block : entry, text, item, problem);
}

/* ---- words ----------------------------------------------------------------------------------- */

int smoe_value_bool(const char *text, bool *value, char *problem) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < SMOE_COUNT(words); i++)
        if (!strcasecmp(text, words[i])) {
            *value = i % 2;
            return 0;
        }
    return smoe_value_expected(problem, "true or false", text);
}
