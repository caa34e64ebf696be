/*
 * Values: from a scalar's text to the member of an entry and back. The kind of the entry decides
 * the meaning of a text (1e-4 is a number, 1_000 a thousand, "on" is true only for a boolean); the
 * types that YAML would infer are not used.
 */
#include "spec/schema.h"

#include <strings.h>

static void *member(const smoe_spec *spec, const smoe_schema_entry *entry) {
    return (char *)spec + entry->at;
}

/* Whether the text is the word that stands before the range of numbers. */
static bool is_word(const smoe_schema_entry *entry, const char *text) {
    size_t length = strcspn(entry->range, "|");
    return strlen(text) == length && !strncmp(text, entry->range, length);
}

/* A number, or that word: SMOE_WORD. */
static int read_word_real(const smoe_schema_entry *entry, const char *text, double *number,
                          char *problem) {
    char type[256];
    const smoe_schema_entry numbers = {.range = strchr(entry->range, '|') + 1};
    *number = SMOE_WORD;
    if (is_word(entry, text)) return 0;
    if (strpbrk(text, SMOE_DIGITS)) return smoe_value_real(&numbers, text, number, problem);
    return smoe_value_expected(problem, smoe_schema_type(entry, type, sizeof type), text);
}

/* The number of the text among the entry's choices, or -1 with the nearest of them in the
 * problem. */
static int value_choose(const smoe_schema_entry *entry, const char *text, char *problem) {
    char choices[256], type[256], shown[64], *rest = choices, *word;
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    snprintf(choices, sizeof choices, "%s", entry->range);
    for (int i = 0; (word = strsep(&rest, "|")); i++) {
        size_t slips = smoe_text_slips(text, word);
        if (!slips) return i;
        if (slips >= best) continue;
        best = slips;
        nearest = word;
    }
    char pair[SMOE_KEY_SIZE];
    snprintf(pair, sizeof pair, "%s=%s", entry->key, text);
    const char *here = smoe_spec_elsewhere(pair);
    if (here) nearest = NULL;
    return smoe_value_wrong(
        problem, "expected %s, found '%s'%s%s%s%s%s", smoe_schema_type(entry, type, sizeof type),
        smoe_text_shown(text, shown, sizeof shown), nearest ? "; did you mean " : "",
        nearest ? nearest : "", nearest ? "?" : "", here ? "; " : "", here ? here : "");
}

static int read_text(char **to, const char *text, char *problem) {
    if (!*text || strlen(text) > 200 || strchr(text, '/') || *text == '.')
        return smoe_value_expected(
            problem, "1 to 200 bytes without '/' and not starting with '.' (it names folders)",
            text);
    smoe_text_set(to, text);
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
    smoe_text_set(to, text);
    return 0;
}

/* The word that stands for no list. */
static int read_no_indices(const smoe_schema_entry *entry, smoe_indices *to, const char *text,
                           char *problem) {
    char type[256];
    if (!is_word(entry, text))
        return smoe_value_expected(problem, smoe_schema_type(entry, type, sizeof type), text);
    free(to->item);
    *to = (smoe_indices){0};
    return 0;
}

static int set_indices(smoe_indices *to, const double *items, size_t count, char *problem) {
    if (!count) return smoe_value_wrong(problem, "has no items");
    uint32_t *item = smoe_alloc(count, sizeof *item);
    for (size_t i = 0; i < count; i++) item[i] = (uint32_t)items[i];
    free(to->item);
    *to = (smoe_indices){item, count};
    return 0;
}

bool smoe_value_is_list(const smoe_schema_entry *entry) {
    return entry->kind >= SMOE_KIND_LAYERS;
}

int smoe_value_set(smoe_spec *spec, const smoe_schema_entry *entry, const char *text, bool plain,
                   char *problem) {
    void *at = member(spec, entry);
    char type[256];
    double number;
    int choice;
    bool null = plain && (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
    if (null && entry->kind != SMOE_KIND_PATH)
        return smoe_value_wrong(problem, "has no value: expected %s",
                                smoe_schema_type(entry, type, sizeof type));
    if (!smoe_text_printable(text))
        return smoe_value_expected(problem, "printable UTF-8 text", text);
    switch (entry->kind) {
    case SMOE_KIND_TEXT: return read_text(at, text, problem);
    case SMOE_KIND_PATH: smoe_text_set(at, null || !*text ? NULL : text); return 0;
    case SMOE_KIND_BOOL: return smoe_value_bool(text, at, problem);
    case SMOE_KIND_LAYERS: return read_layers(at, text, problem);
    case SMOE_KIND_SIZE:
        if (smoe_value_whole(entry, text, &number, problem)) return -1;
        *(size_t *)at = (size_t)number;
        return 0;
    case SMOE_KIND_SPAN: return smoe_value_span(entry, text, at, problem);
    case SMOE_KIND_REAL:
    case SMOE_KIND_WORD_REAL:
        if (entry->kind == SMOE_KIND_REAL ? smoe_value_real(entry, text, &number, problem)
                                          : read_word_real(entry, text, &number, problem))
            return -1;
        *(double *)at = number;
        return 0;
    case SMOE_KIND_ENUM:
        if ((choice = value_choose(entry, text, problem)) < 0) return -1;
        memcpy(at, &choice, sizeof choice);
        return 0;
    case SMOE_KIND_NAME:
        if (value_choose(entry, text, problem) < 0) return -1;
        smoe_text_set(at, text);
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
    char *text = NULL;
    for (size_t i = 0; i < count; i++) smoe_text_add(&text, "%s%zu", i ? ", " : "[", items[i]);
    smoe_text_add(&text, text ? "]" : "none");
    return text;
}

/* In the given order; numbers may repeat. */
static int set_series(smoe_series *to, const double *items, size_t count, char *problem) {
    if (!count)
        return smoe_value_wrong(problem, "has no items: give one number, or a list of them");
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
    if (count > most)
        return smoe_value_wrong(problem, "has %zu items, at most %zu are possible", count, most);
    if (entry->kind == SMOE_KIND_SIZES || entry->kind == SMOE_KIND_REALS)
        return set_series(member(spec, entry), items, count, problem);
    for (size_t i = 0; i < count; i++) { /* insertion: the lists are short */
        size_t j = i, item = (size_t)items[i];
        for (; j && sorted[j - 1] > item; j--) sorted[j] = sorted[j - 1];
        sorted[j] = item;
        if (j && sorted[j - 1] == item) return smoe_value_wrong(problem, "has %zu twice", item);
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
    smoe_indices *list = member(spec, entry);
    switch (entry->kind) {
    case SMOE_KIND_TEXT:
    case SMOE_KIND_PATH:
    case SMOE_KIND_NAME:
    case SMOE_KIND_LAYERS: smoe_text_set(member(spec, entry), NULL); return;
    case SMOE_KIND_INDICES:
        free(list->item);
        *list = (smoe_indices){0};
        return;
    default: return;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *choice_json(const smoe_schema_entry *entry, unsigned number) {
    const char *choice = entry->range;
    while (number--) choice = strchr(choice, '|') + 1;
    return json_stringn(choice, strcspn(choice, "|"));
}

/* One number, or a list. */
static json_t *series_json(const smoe_schema_entry *entry, const smoe_series *series) {
    json_t *list = json_array();
    for (size_t i = 0; i == 0 || i < series->listed; i++)
        json_array_append_new(list, entry->kind == SMOE_KIND_SIZES
                                        ? json_integer((json_int_t)series->item[i])
                                        : json_real(series->item[i]));
    if (series->listed) return list;
    json_t *one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return one;
}

static json_t *shots_json(const smoe_fewshot_spec *fewshot) {
    json_t *list = json_array();
    for (size_t i = 0; i < fewshot->count; i++)
        json_array_append_new(list, json_integer((json_int_t)fewshot->shots[i]));
    return list;
}

static json_t *indices_json(const smoe_indices *indices) {
    json_t *list = json_array();
    for (size_t i = 0; i < indices->count; i++)
        json_array_append_new(list, json_integer(indices->item[i]));
    return list;
}

json_t *smoe_value_json(const smoe_spec *spec, const smoe_schema_entry *entry) {
    const void *at = member(spec, entry);
    const char *text;
    unsigned choice;
    switch (entry->kind) {
    case SMOE_KIND_TEXT:
    case SMOE_KIND_NAME: return json_string(*(char *const *)at);
    case SMOE_KIND_PATH: {
        SMOE_FREED char *path = smoe_path_portable(spec, entry);
        return path ? json_string(path) : json_null();
    }
    case SMOE_KIND_LAYERS:
        text = *(char *const *)at;
        return *text == '[' ? json_loads(text, 0, NULL) : json_string(text);
    case SMOE_KIND_SIZE: return json_integer((json_int_t) * (const size_t *)at);
    case SMOE_KIND_SPAN: return json_integer((json_int_t)((const smoe_span *)at)->steps);
    case SMOE_KIND_BOOL: return json_boolean(*(const bool *)at);
    case SMOE_KIND_WORD_REAL:
        if (*(const double *)at == SMOE_WORD) return choice_json(entry, 0);
        return json_real(*(const double *)at);
    case SMOE_KIND_REAL: return json_real(*(const double *)at);
    case SMOE_KIND_ENUM: memcpy(&choice, at, sizeof choice); return choice_json(entry, choice);
    case SMOE_KIND_SIZES:
    case SMOE_KIND_REALS: return series_json(entry, at);
    case SMOE_KIND_SHOTS: return shots_json(at);
    case SMOE_KIND_INDICES:
        return ((const smoe_indices *)at)->count ? indices_json(at) : choice_json(entry, 0);
    case SMOE_KIND_GROUPS: return smoe_groups_json(at);
    case SMOE_KIND_PROMPTS: return smoe_prompts_json(at);
    }
    return NULL;
}

/* Whether every reader of YAML reads exactly this text from it, without quotes. */
static bool needs_no_quotes(const char *text) {
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; i < SMOE_COUNT(words); i++)
        if (!strcasecmp(text, words[i])) return false;
    return *text && strchr(LETTERS "/", *text) && !text[strspn(text, LETTERS SMOE_DIGITS "/._-")];
}

/* JSON as YAML on one line. */
static void put_yaml(FILE *out, const json_t *value) {
    const char *name, *before = "";
    size_t i;
    json_t *inner;
    if (json_is_array(value)) {
        putc('[', out);
        json_array_foreach((json_t *)value, i, inner) {
            fputs(i ? ", " : "", out);
            put_yaml(out, inner);
        }
        putc(']', out);
    } else if (json_is_object(value)) {
        putc('{', out);
        json_object_foreach((json_t *)value, name, inner) {
            fprintf(out, "%s%s: ", before, name);
            before = ", ";
            put_yaml(out, inner);
        }
        putc('}', out);
    } else if (json_is_real(value)) {
        double number = json_real_value(value);
        fprintf(out, "%.*g", smoe_text_digits(number, 1), number);
    } else {
        SMOE_FREED char *text = json_dumps(value, JSON_ENCODE_ANY);
        fputs(text, out);
    }
}

static char *json_yaml(const json_t *value) {
    const char *word = json_string_value(value);
    char *text = NULL;
    size_t size;
    if (word && needs_no_quotes(word)) return smoe_alloc_text(word);
    FILE *out = smoe_alloc_stream(&text, &size);
    put_yaml(out, value);
    return smoe_alloc_stream_close(out, &text);
}

char *smoe_value_yaml(const smoe_spec *spec, const smoe_schema_entry *entry) {
    json_auto_t *value = smoe_value_json(spec, entry);
    return json_yaml(value);
}

char *smoe_value_quoted(const char *text) {
    json_auto_t *value = json_string(text);
    return json_yaml(value);
}
