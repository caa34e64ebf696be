/* Words and numbers as text: nearest words for error messages, sizes for people. */
#include "base/base.h"

#include <locale.h>
#include <stdarg.h>
#include <strings.h>
#include <unictype.h>
#include <unistr.h>

size_t smoe_text_distance(const char *a, const char *b) {
    enum { MOST = 63 };
    size_t n = strlen(a), m = strlen(b), row[MOST + 1];
    if (n > MOST || m > MOST) return MOST;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

static bool text_same_letters(const char *a, const char *b) {
    int count[256] = {0};
    for (; *a; a++) count[(unsigned char)*a]++;
    for (; *b; b++) count[(unsigned char)*b]--;
    for (size_t i = 0; i < 256; i++)
        if (count[i]) return false;
    return true;
}

size_t smoe_text_slips(const char *word, const char *candidate) {
    if (!strcasecmp(word, candidate)) return strcmp(word, candidate) ? 1 : 0;
    size_t length = strlen(word), other = strlen(candidate), most = length / 3 > 1 ? length / 3 : 1;
    if (length > other + most || other > length + most) return SIZE_MAX; /* the distance is more */
    size_t distance = smoe_text_distance(word, candidate);
    if (distance == 2 && text_same_letters(word, candidate)) return distance;
    return distance > most || distance >= length ? SIZE_MAX : distance;
}

int smoe_text_nearest(const char *word, const char *const *candidates, size_t count) {
    int nearest = -1;
    for (size_t i = 0, best = SIZE_MAX; i < count; i++) {
        size_t slips = smoe_text_slips(word, candidates[i]);
        if (slips >= best) continue;
        best = slips;
        nearest = (int)i;
    }
    return nearest;
}

char *smoe_text_format(const char *fmt, ...) {
    va_list args;
    char *text;
    va_start(args, fmt);
    int length = vasprintf(&text, fmt, args);
    va_end(args);
    if (length < 0) smoe_alloc_end();
    return text;
}

void smoe_text_list(char *list, size_t size, const char *fmt, ...) {
    size_t used = strlen(list);
    va_list args;
    if (used) used += (size_t)snprintf(list + used, size - used, ", ");
    va_start(args, fmt);
    if (used < size) vsnprintf(list + used, size - used, fmt, args);
    va_end(args);
}

const char *smoe_text_member(const char *name, char *buf, size_t size) {
    const char *mark = strchr(name, ',') ? "\"" : "";
    snprintf(buf, size, "%s%s%s", mark, name, mark);
    return buf;
}

void smoe_text_set(char **to, const char *text) {
    char *copy = smoe_alloc_text(text); /* of a part of it, perhaps */
    free(*to);
    *to = copy;
}

void smoe_text_add(char **text, const char *fmt, ...) {
    SMOE_FREED char *more = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&more, fmt, args) < 0) smoe_alloc_end();
    va_end(args);
    size_t used = *text ? strlen(*text) : 0, size = strlen(more) + 1;
    *text = smoe_alloc_more(*text, used + size, 1);
    memcpy(*text + used, more, size);
}

int smoe_text_digits(double number, int least) {
    char text[40];
    for (int digits = least; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) return digits;
    }
    return 17;
}

const char *smoe_text_si(char *buf, size_t size, double n, const char *unit) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E", "Z"};
    size_t i = 0;
    while (fabs(n) >= 999.5 && i + 1 < SMOE_COUNT(prefix)) {
        n /= 1000;
        i++;
    }
    bool billions = !*unit && i == 3; /* of parameters, as papers count them */
    snprintf(buf, size, "%.3g %s%s", n, billions ? "B" : prefix[i], unit);
    return buf;
}

size_t smoe_text_character(const char *text, long *point) {
    ucs4_t code = 0;
    int n = *text ? u8_mbtoucr(&code, (const uint8_t *)text, strnlen(text, 4)) : 1;
    *point = n > 0 ? (long)code : -1;
    return n > 0 ? (size_t)n : 1;
}

char *smoe_text_utf8(const char *bytes) {
    static const char replacement[] = SMOE_TEXT_REPLACEMENT;
    const size_t wide = sizeof replacement - 1;
    char *text = smoe_alloc(wide * strlen(bytes) + 1, 1);
    size_t used = 0;
    long point;
    for (size_t length; *bytes; bytes += length) {
        length = smoe_text_character(bytes, &point);
        memcpy(text + used, point < 0 ? replacement : bytes, point < 0 ? wide : length);
        used += point < 0 ? wide : length;
    }
    return text;
}

static bool printable(long point) {
    bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
    bool breaks = point == 0x2028 || point == 0x2029;
    return point >= 0 && !control && !breaks && point != 0xfeff && (point & 0xfffe) != 0xfffe;
}

size_t smoe_text_letters(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

bool smoe_text_printable(const char *text) {
    for (long point; *text;) {
        text += smoe_text_character(text, &point);
        if (!printable(point)) return false;
    }
    return true;
}

const char *smoe_text_shown(const char *text, char *buf, size_t size) {
    size_t used = 0, length;
    for (long point; *text && used + 8 <= size; text += length) { /* one of four bytes and "..." */
        length = smoe_text_character(text, &point);
        /* what changes the order of the text behind it: one name could look like another */
        bool good = printable(point) && !uc_is_property_bidi_control((ucs4_t)point);
        memcpy(buf + used, good ? text : "?", good ? length : 1);
        used += good ? length : 1;
    }
    memcpy(buf + used, *text ? "..." : "", *text ? 4 : 1);
    return buf;
}

char *smoe_shell_word(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=,:@%";
    if (*text && *text != '=' && !text[strspn(text, plain)]) return smoe_alloc_text(text);
    char *quoted = smoe_alloc_text("'");
    for (size_t n; *text; text += n) {
        n = *text == '\'' ? 1 : strcspn(text, "'");
        if (*text == '\'')
            smoe_text_add(&quoted, "'\\''");
        else
            smoe_text_add(&quoted, "%.*s", (int)n, text);
    }
    smoe_text_add(&quoted, "'");
    return quoted;
}

void *smoe_locale_enter(void) {
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : NULL;
}

void smoe_locale_leave(void *entered) {
    locale_t before = *(locale_t *)entered;
    if (before) freelocale(uselocale(before));
}

bool smoe_text_next(const char **list, char separator, char *word, size_t size) {
    size_t length = strcspn(*list, (char[]){separator, '\0'});
    if (!length) return false;
    snprintf(word, size, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == separator);
    return true;
}

bool smoe_text_same_word(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b)) return false;
    return *a == *b;
}

bool smoe_text_has_word(const char *list, char separator, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, separator)) {
        at += at != list;
        size_t here = strcspn(at, (char[]){separator, '\0'});
        if (here == length && !memcmp(at, word, length)) return true;
    }
    return false;
}

bool smoe_text_has_part(const char *text, const char *words) {
    char word[64];
    while (smoe_text_next(&words, ' ', word, sizeof word))
        if (strstr(text, word)) return true;
    return false;
}

bool smoe_text_ends(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

/* The end of what is in quotation marks, if it is; else `text`. */
static const char *text_marked(const char *text) {
    const char *shut = *text == '"' ? strchr(text + 1, '"') : NULL;
    while (shut && shut[1] && !strchr(",]} ", shut[1])) shut = strchr(shut + 1, '"');
    return shut ? shut : text;
}

const char *smoe_text_item(const char *text) {
    int depth = 0;
    for (char before = ','; *text; before = *text++) {
        if (strchr(",=[{ ", before)) text = text_marked(text);
        if (*text == '[' || *text == '{') depth++;
        if (*text == ']' || *text == '}') depth--;
        if (*text == ',' && depth <= 0) break;
    }
    return text;
}

void smoe_texts_free(char **text, size_t count) {
    for (size_t i = 0; text && i < count; i++) free(text[i]);
    free(text);
}

int smoe_text_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t smoe_texts_sort(const char **text, size_t count) {
    size_t kept = 0;
    if (count) qsort(text, count, sizeof *text, smoe_text_compare);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(text[kept - 1], text[i]) != 0) text[kept++] = text[i];
    return kept;
}

size_t smoe_texts_find(const char *const *text, size_t count, const char *word) {
    const char *const *at =
        count ? bsearch(&word, text, count, sizeof *text, smoe_text_compare) : NULL;
    return at ? (size_t)(at - text) : SIZE_MAX;
}

char **smoe_texts_copy(const char *const *text, size_t count) {
    char **copy = smoe_alloc(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i++) copy[i] = smoe_alloc_text(text[i]);
    return copy;
}
