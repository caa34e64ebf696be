/*
 * Values: from a scalar's text to the member of an entry and back. The kind of the entry decides
 * the meaning of a text (1e-4 is a number, 1_000 a thousand, "on" is true only for a boolean); the
 * types that YAML would infer are not used.
 */
#include "base/alloc.h"
#include "spec/schema.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *member(const smoe_spec *spec, const smoe_schema_entry *entry) {
    return (char *)spec + entry->at;
}

/* A number, or the word that stands before the range of numbers: SMOE_WORD. */
static int read_word_real(const smoe_schema_entry *entry, const char *text, double *number,
                          char *problem) {
    char type[256];
    size_t length = strcspn(entry->range, "|");
    smoe_schema_entry numbers = *entry;
    numbers.range += length + 1;
    if (strlen(text) == length && !strncmp(text, entry->range, length)) {
        *number = SMOE_WORD;
        return 0;
    }
    if (!strpbrk(text, SMOE_DIGITS)) {
        smoe_value_expected(problem, smoe_schema_type(entry, type, sizeof type), text);
        return -1;
    }
    return smoe_value_real(&numbers, text, number, problem);
}

/* The number of the text among the entry's choices, or -1 with the nearest of them in the
 * problem. */
static int value_choose(const smoe_schema_entry *entry, const char *text, char *problem) {
    char choices[256], type[256], shown[64], *rest = choices, *word;
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    snprintf(choices, sizeof choices, "%s", entry->range);
    for (int i = 0; (word = strsep(&rest, "|")); i++)
        if (!strcmp(word, text)) return i;
    snprintf(choices, sizeof choices, "%s", entry->range);
    for (rest = choices; (word = strsep(&rest, "|"));) {
        size_t slips = smoe_word_slips(text, word);
        if (slips >= best) continue;
        best = slips;
        nearest = word;
    }
    char pair[SMOE_KEY_SIZE];
    snprintf(pair, sizeof pair, "%s=%s", entry->key, text);
    const char *here = smoe_spec_elsewhere(pair);
    if (here) nearest = NULL;
    snprintf(problem, SMOE_PROBLEM, "expected %s, found '%s'%s%s%s%s%s",
             smoe_schema_type(entry, type, sizeof type), smoe_text_shown(text, shown, sizeof shown),
             nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "",
             here ? "; " : "", here ? here : "");
    return -1;
}

static void copy_text(char **to, const char *text) {
    free(*to);
    *to = smoe_alloc_text(text);
}

static int read_text(char **to, const char *text, char *problem) {
    if (!*text || strlen(text) > 200 || strchr(text, '/') || *text == '.')
        return smoe_value_expected(
            problem, "1 to 200 bytes without '/' and not starting with '.' (it names folders)",
            text);
    copy_text(to, text);
    return 0;
}

/* none, all, last-half, last-N, last-even-N, every-N; which blocks these are is resolved once the
 * depth is known. */
static int read_layers(char **to, const char *text, char *problem) {
    const char *number = !strncmp(text, "last-even-", 10) ? text + 10
                         : !strncmp(text, "last-", 5)     ? text + 5
                         : !strncmp(text, "every-", 6)    ? text + 6
                                                          : NULL;
    bool word = !strcmp(text, "none") || !strcmp(text, "all") || !strcmp(text, "last-half");
    bool counted =
        number && *number >= '1' && *number <= '9' && !number[strspn(number, SMOE_DIGITS)];
    if (!word && !(counted && strlen(number) <= 3))
        return smoe_value_expected(
            problem,
            "none, all, last-half, last-N, last-even-N, every-N or a list of blocks like [4, 5]",
            text);
    copy_text(to, text);
    return 0;
}

/* The word that stands for no list. */
static int read_no_indices(const smoe_schema_entry *entry, smoe_indices *to, const char *text,
                           char *problem) {
    char type[256];
    size_t length = strcspn(entry->range, "|");
    if (strlen(text) != length || strncmp(text, entry->range, length))
        return smoe_value_expected(problem, smoe_schema_type(entry, type, sizeof type), text);
    free(to->item);
    *to = (smoe_indices){0};
    return 0;
}

static int set_indices(smoe_indices *to, const double *items, size_t count, char *problem) {
    if (!count) {
        snprintf(problem, SMOE_PROBLEM, "has no items");
        return -1;
    }
    uint32_t *item = smoe_alloc(count, sizeof *item);
    for (size_t i = 0; i < count; i++) item[i] = (uint32_t)items[i];
    free(to->item);
    *to = (smoe_indices){item, count};
    return 0;
}

bool smoe_value_is_list(const smoe_schema_entry *entry) {
    return entry->kind == SMOE_KIND_LAYERS || entry->kind == SMOE_KIND_SHOTS ||
           entry->kind == SMOE_KIND_SIZES || entry->kind == SMOE_KIND_REALS ||
           entry->kind == SMOE_KIND_GROUPS || entry->kind == SMOE_KIND_PROMPTS ||
           entry->kind == SMOE_KIND_INDICES;
}

int smoe_value_set(smoe_spec *spec, const smoe_schema_entry *entry, const char *text, bool plain,
                   char *problem) {
    void *at = member(spec, entry);
    double number;
    int choice;
    bool null = plain && (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
    if (null && entry->kind != SMOE_KIND_PATH) {
        char type[256];
        snprintf(problem, SMOE_PROBLEM, "has no value: expected %s",
                 smoe_schema_type(entry, type, sizeof type));
        return -1;
    }
    if (!smoe_text_printable(text))
        return smoe_value_expected(problem, "printable UTF-8 text", text);
    switch (entry->kind) {
    case SMOE_KIND_TEXT: return read_text(at, text, problem);
    case SMOE_KIND_PATH: {
        copy_text(at, null || !*text ? NULL : text);
        return 0;
    }
    case SMOE_KIND_BOOL: return smoe_value_bool(text, at, problem);
    case SMOE_KIND_LAYERS: return read_layers(at, text, problem);
    case SMOE_KIND_SEED:
        if (smoe_value_whole(entry, text, &number, problem)) return -1;
        *(uint64_t *)at = (uint64_t)number;
        return 0;
    case SMOE_KIND_SIZE:
        if (smoe_value_whole(entry, text, &number, problem)) return -1;
        *(size_t *)at = (size_t)number;
        return 0;
    case SMOE_KIND_SPAN: return smoe_value_span(entry, text, at, problem);
    case SMOE_KIND_REAL:
        if (smoe_value_real(entry, text, &number, problem)) return -1;
        *(double *)at = number;
        return 0;
    case SMOE_KIND_WORD_REAL:
        if (read_word_real(entry, text, &number, problem)) return -1;
        *(double *)at = number;
        return 0;
    case SMOE_KIND_ENUM:
        if ((choice = value_choose(entry, text, problem)) < 0) return -1;
        memcpy(at, &choice, sizeof choice);
        return 0;
    case SMOE_KIND_NAME:
        if (value_choose(entry, text, problem) < 0) return -1;
        copy_text(at, text);
        return 0;
    case SMOE_KIND_SIZES:
    case SMOE_KIND_REALS:
        if (smoe_value_item(entry, text, &number, problem)) return -1;
        *(smoe_series *)at = (smoe_series){.item = {number}};
        return 0;
    case SMOE_KIND_SHOTS:
        if (smoe_value_item(entry, text, &number, problem)) return -1;
        return smoe_value_set_list(spec, entry, &number, 1, problem);
    case SMOE_KIND_INDICES: return read_no_indices(entry, at, text, problem);
    case SMOE_KIND_GROUPS: return smoe_value_expected(problem, entry->range, text);
    case SMOE_KIND_PROMPTS: {
        smoe_prompts one = {.count = 0};
        if (smoe_prompts_add(&one, text, problem)) return -1;
        *(smoe_prompts *)at = one;
        return 0;
    }
    }
    return -1;
}

/* "[4, 5]" of sorted numbers. */
static char *print_list(const size_t *items, size_t count) {
    char text[8 * SMOE_MAX_BLOCKS] = "[";
    size_t used = 1;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu", i ? ", " : "", items[i]);
    memcpy(text + used, "]", 2);
    return smoe_alloc_text(count ? text : "none");
}

/* In the given order; numbers may repeat. */
static int set_series(smoe_series *to, const double *items, size_t count, char *problem) {
    if (!count) {
        snprintf(problem, SMOE_PROBLEM, "has no items: give one for each MoE layer");
        return -1;
    }
    *to = (smoe_series){.listed = count};
    memcpy(to->item, items, count * sizeof *items);
    return 0;
}

int smoe_value_set_list(smoe_spec *spec, const smoe_schema_entry *entry, const double *items,
                        size_t count, char *problem) {
    size_t sorted[SMOE_MAX_BLOCKS];
    if (entry->kind == SMOE_KIND_INDICES)
        return set_indices(member(spec, entry), items, count, problem);
    size_t most = entry->kind == SMOE_KIND_SHOTS ? SMOE_MAX_SHOTS : SMOE_MAX_BLOCKS;
    if (count > most) {
        snprintf(problem, SMOE_PROBLEM, "has %zu items, at most %zu are possible", count, most);
        return -1;
    }
    if (entry->kind == SMOE_KIND_SIZES || entry->kind == SMOE_KIND_REALS)
        return set_series(member(spec, entry), items, count, problem);
    for (size_t i = 0; i < count; i++) { /* insertion: the lists are short */
        size_t j = i, item = (size_t)items[i];
        for (; j && sorted[j - 1] > item; j--) sorted[j] = sorted[j - 1];
        sorted[j] = item;
        if (j && sorted[j - 1] == item) {
            snprintf(problem, SMOE_PROBLEM, "has %zu twice", item);
            return -1;
        }
    }
    if (entry->kind == SMOE_KIND_LAYERS) {
        char **to = member(spec, entry);
        free(*to);
        *to = print_list(sorted, count);
        return 0;
    }
    smoe_fewshot_spec *fewshot = member(spec, entry);
    if (count) memcpy(fewshot->shots, sorted, count * sizeof *sorted);
    fewshot->count = count;
    return 0;
}

void smoe_value_clear(smoe_spec *spec, const smoe_schema_entry *entry) {
    if (entry->kind == SMOE_KIND_INDICES) {
        smoe_indices *list = member(spec, entry);
        free(list->item);
        *list = (smoe_indices){0};
    }
    bool text = entry->kind == SMOE_KIND_TEXT || entry->kind == SMOE_KIND_PATH ||
                entry->kind == SMOE_KIND_NAME || entry->kind == SMOE_KIND_LAYERS;
    if (!text) return;
    char **at = member(spec, entry);
    free(*at);
    *at = NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *choice_name(const smoe_schema_entry *entry, unsigned number, char *buf,
                               size_t size) {
    snprintf(buf, size, "%s", entry->range);
    char *rest = buf, *word = strsep(&rest, "|");
    while (number-- && rest) word = strsep(&rest, "|");
    return word;
}

/* Plain if every reader would read exactly this text, else in double quotes. */
static char *quoted(const char *text) {
    if (!text) return smoe_alloc_text("null");
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    bool plain =
        *text && strchr(LETTERS "/", *text) && !text[strspn(text, LETTERS SMOE_DIGITS "/._-")];
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        plain = plain && strcasecmp(text, words[i]);
    if (plain) return smoe_alloc_text(text);
    char *copy = smoe_alloc(2 * strlen(text) + 3, 1), *end = copy;
    *end++ = '"';
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') *end++ = '\\';
        *end++ = *c;
    }
    memcpy(end, "\"", 2);
    return copy;
}

/* "2" or "[1, 2]". Whole numbers have all their digits, never an exponent, as they are read. */
static char *print_series(const smoe_schema_entry *entry, const smoe_series *series) {
    bool whole = entry->kind == SMOE_KIND_SIZES;
    char text[32 * SMOE_MAX_BLOCKS] = "[";
    size_t used = series->listed ? 1 : 0;
    for (size_t i = 0; i == 0 || i < series->listed; i++) {
        double number = series->item[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*g", i ? ", " : "",
                                 whole ? DBL_DIG : smoe_value_digits(number), number);
    }
    memcpy(text + used, "]", series->listed ? 2 : 0);
    return smoe_alloc_text(text);
}

/* The word for no list, or "[0, 0, 1]". */
static char *print_indices(const smoe_schema_entry *entry, const smoe_indices *list) {
    if (!list->count) return smoe_alloc_part(entry->range, strcspn(entry->range, "|"));
    char *text = NULL;
    size_t size = 0;
    FILE *out = smoe_alloc_stream(&text, &size);
    for (size_t i = 0; i < list->count; i++) fprintf(out, "%s%u", i ? ", " : "[", list->item[i]);
    fputs("]", out);
    return smoe_alloc_stream_close(out, &text);
}

char *smoe_value_yaml(const smoe_spec *spec, const smoe_schema_entry *entry) {
    const void *at = member(spec, entry);
    char buf[256], *path, *text;
    unsigned choice;
    switch (entry->kind) {
    case SMOE_KIND_TEXT:
    case SMOE_KIND_NAME: return quoted(*(char *const *)at);
    case SMOE_KIND_PATH:
        path = smoe_path_portable(spec, entry);
        text = quoted(path);
        free(path);
        return text;
    case SMOE_KIND_LAYERS: return smoe_alloc_text(*(char *const *)at);
    case SMOE_KIND_SEED: return smoe_text_format("%llu", (unsigned long long)*(const uint64_t *)at);
    case SMOE_KIND_SIZE: return smoe_text_format("%zu", *(const size_t *)at);
    case SMOE_KIND_SPAN: return smoe_text_format("%zu", ((const smoe_span *)at)->steps);
    case SMOE_KIND_BOOL: return smoe_alloc_text(*(const bool *)at ? "true" : "false");
    case SMOE_KIND_REAL: {
        double number = *(const double *)at;
        return smoe_text_format("%.*g", smoe_value_digits(number), number);
    }
    case SMOE_KIND_WORD_REAL: {
        double number = *(const double *)at;
        if (number == SMOE_WORD) return smoe_alloc_part(entry->range, strcspn(entry->range, "|"));
        return smoe_text_format("%.*g", smoe_value_digits(number), number);
    }
    case SMOE_KIND_ENUM:
        memcpy(&choice, at, sizeof choice);
        return smoe_alloc_text(choice_name(entry, choice, buf, sizeof buf));
    case SMOE_KIND_SIZES:
    case SMOE_KIND_REALS: return print_series(entry, at);
    case SMOE_KIND_SHOTS: {
        const smoe_fewshot_spec *fewshot = at;
        if (!fewshot->count) return smoe_alloc_text("[]");
        return print_list(fewshot->shots, fewshot->count);
    }
    case SMOE_KIND_INDICES: return print_indices(entry, at);
    case SMOE_KIND_GROUPS: return smoe_groups_yaml(at);
    case SMOE_KIND_PROMPTS: return smoe_prompts_yaml(at);
    }
    return NULL;
}

static json_t *number_json(const smoe_schema_entry *entry, double number) {
    bool whole = entry->kind == SMOE_KIND_SIZES;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}

static json_t *series_json(const smoe_schema_entry *entry, const smoe_series *series) {
    if (!series->listed) return number_json(entry, series->item[0]);
    json_t *list = json_array();
    for (size_t i = 0; i < series->listed; i++)
        json_array_append_new(list, number_json(entry, series->item[i]));
    return list;
}

/* A list as it stands in YAML is a list in JSON as well. */
json_t *smoe_value_json(const smoe_spec *spec, const smoe_schema_entry *entry) {
    const void *at = member(spec, entry);
    char *path;
    json_t *value;
    switch (entry->kind) {
    case SMOE_KIND_SEED: return json_integer((json_int_t) * (const uint64_t *)at);
    case SMOE_KIND_SIZE: return json_integer((json_int_t) * (const size_t *)at);
    case SMOE_KIND_SPAN: return json_integer((json_int_t)((const smoe_span *)at)->steps);
    case SMOE_KIND_WORD_REAL:
        if (*(const double *)at == SMOE_WORD) break;
        return json_real(*(const double *)at);
    case SMOE_KIND_REAL: return json_real(*(const double *)at);
    case SMOE_KIND_SIZES:
    case SMOE_KIND_REALS: return series_json(entry, at);
    case SMOE_KIND_BOOL: return json_boolean(*(const bool *)at);
    case SMOE_KIND_PATH:
        path = smoe_path_portable(spec, entry);
        value = path ? json_string(path) : json_null();
        free(path);
        return value;
    case SMOE_KIND_GROUPS: return smoe_groups_json(at);
    case SMOE_KIND_PROMPTS: return smoe_prompts_json(at);
    case SMOE_KIND_TEXT:
    case SMOE_KIND_NAME: return json_string(*(char *const *)at);
    default: break;
    }
    SMOE_FREED char *text = smoe_value_yaml(spec, entry);
    value = *text == '[' ? json_loads(text, 0, NULL) : json_string(text);
    return value;
}
