/*
 * Byte pair encoding as CLIP has it. A file of merges, plain or gzip, has a first line that is
 * skipped and then one merge per line: two tokens, in which a letter stands for each byte and </w>
 * for the end of a word. Ids: 256 bytes, the same 256 at the end of a word, the merges in their
 * order, start, end. A text is put into lower case and cut into words; in a word, the pair that
 * comes first in the file is merged until none is left.
 */
#include "text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <unistr.h>
#include <zlib.h>

enum {
    BYTES = 256,
    FIRST = 2 * BYTES,       /* id of the first merge */
    MERGES = 48894,          /* that CLIP uses of its longer file */
    LINE = 512,              /* bytes of a line of the file */
    WORD = 512,              /* bytes of a word; a longer one is several */
    GROWN = 3 * SMOE_CAPTION /* room for a text with every byte replaced; lower case needs less */
};

typedef struct named {
    char *text;
    uint32_t id;
} named;

typedef struct merge {
    uint32_t left, right, rank, id;
} merge;

typedef struct bpe {
    smoe_tokenizer base;
    uint32_t of_byte[BYTES]; /* ids */
    merge *merges;           /* sorted by left and right */
    size_t count;
} bpe;

/* ---- reading --------------------------------------------------------------------------------- */

/* What is needed while the file is read. */
typedef struct reading {
    const char *path;
    named *token; /* every token, sorted by text once all are there */
    size_t tokens;
    char (*line)[LINE]; /* of the merges */
    size_t room;        /* for lines */
} reading;

static int by_text(const void *a, const void *b) {
    const named *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static int by_pair(const void *a, const void *b) {
    const merge *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static int no_memory(const char *path, smoe_err *err) {
    return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory for a tokenizer", path);
}

static int add_token(reading *r, const char *text, size_t length, smoe_err *err) {
    char *own = strndup(text, length);
    if (!own) return no_memory(r->path, err);
    r->token[r->tokens] = (named){own, (uint32_t)r->tokens};
    r->tokens++;
    return 0;
}

static bool is_printed(uint32_t byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

/* The tokens of single bytes. A byte that is a printed character of Latin-1 stands for itself, the
 * others are the letters from U+0100 on; ids follow the letters, not the bytes. */
static int add_bytes(bpe *t, reading *r, smoe_err *err) {
    uint32_t letter[BYTES], id = 0, other = 0x100;
    for (uint32_t b = 0; b < BYTES; b++)
        if (is_printed(b)) {
            t->of_byte[b] = id;
            letter[id++] = b;
        }
    for (uint32_t b = 0; b < BYTES; b++)
        if (!is_printed(b)) {
            t->of_byte[b] = id;
            letter[id++] = other++;
        }
    for (size_t end = 0; end < 2; end++)
        for (size_t i = 0; i < BYTES; i++) {
            char text[8 + sizeof "</w>"];
            int length = u8_uctomb((uint8_t *)text, letter[i], 8);
            if (end) memcpy(text + length, "</w>", 4);
            if (add_token(r, text, (size_t)length + 4 * end, err)) return -1;
        }
    return 0;
}

/* The next line, without its end. */
static int add_line(reading *r, size_t *count, const char *line, smoe_err *err) {
    if (*count == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        char(*more)[LINE] = realloc(r->line, room * sizeof *more);
        if (!more) return no_memory(r->path, err);
        r->line = more;
        r->room = room;
    }
    strcpy(r->line[(*count)++], line);
    return 0;
}

/* The lines of the merges in r->line, and their number; the line ends are cut off. */
static int read_lines(reading *r, size_t *count, smoe_err *err) {
    char line[LINE];
    gzFile file = gzopen(r->path, "rb");
    if (!file)
        return smoe_fail(err, errno == ENOENT ? SMOE_DATA : SMOE_RUNTIME, "%s: %s", r->path,
                         errno ? strerror(errno) : "out of memory");
    int status = -1, code = Z_OK;
    *count = 0;
    for (size_t number = 1; *count < MERGES && gzgets(file, line, sizeof line); number++) {
        size_t length = strlen(line);
        if (length == sizeof line - 1 && line[length - 1] != '\n') {
            smoe_fail(err, SMOE_DATA, "%s: line %zu: longer than %d bytes: not a file of merges",
                      r->path, number, LINE - 2);
            goto out;
        }
        line[strcspn(line, "\r\n")] = '\0';
        if (number == 1) continue;
        const char *gap = strchr(line, ' ');
        if (!*line && gzeof(file)) break;
        if (!gap || gap == line || !gap[1] || strchr(gap + 1, ' ')) {
            smoe_fail(err, SMOE_DATA,
                      "%s: line %zu: two tokens with one blank between them were expected", r->path,
                      number);
            goto out;
        }
        if (add_line(r, count, line, err)) goto out;
    }
    const char *problem = gzerror(file, &code);
    if (code != Z_OK && code != Z_STREAM_END) {
        smoe_fail(err, SMOE_DATA, "%s: damaged: %s", r->path, problem);
    } else if (!*count) {
        smoe_fail(err, SMOE_DATA, "%s: no merges in it", r->path);
    } else {
        status = 0;
    }
out:
    gzclose(file);
    return status;
}

/* The id of a token; if several have the same text, the last one, as in a Python dictionary.
 * UINT32_MAX if there is none. */
static uint32_t id_of(const reading *r, const char *text, size_t length) {
    size_t low = 0, high = r->tokens;
    while (low < high) { /* the first that is greater */
        size_t middle = low + (high - low) / 2;
        const char *there = r->token[middle].text;
        int order = strncmp(there, text, length);
        if (order < 0 || (!order && !there[length]))
            low = middle + 1;
        else
            high = middle;
    }
    const named *last = low ? &r->token[low - 1] : NULL;
    bool found = last && !strncmp(last->text, text, length) && !last->text[length];
    return found ? last->id : UINT32_MAX;
}

static int resolve(bpe *t, const reading *r, smoe_err *err) {
    for (size_t i = 0; i < t->count; i++) {
        const char *line = r->line[i], *gap = strchr(line, ' ');
        char whole[LINE];
        size_t left = (size_t)(gap - line), right = strlen(gap + 1);
        snprintf(whole, sizeof whole, "%.*s%s", (int)left, line, gap + 1);
        t->merges[i] = (merge){.left = id_of(r, line, left),
                               .right = id_of(r, gap + 1, right),
                               .rank = (uint32_t)i,
                               .id = id_of(r, whole, left + right)};
        if (t->merges[i].left == UINT32_MAX || t->merges[i].right == UINT32_MAX)
            return smoe_fail(err, SMOE_DATA,
                             "%s: line %zu: a token that is no byte and no merge of the file",
                             r->path, i + 2);
    }
    qsort(t->merges, t->count, sizeof *t->merges, by_pair);
    return 0;
}

/* ---- words ----------------------------------------------------------------------------------- */

static const merge *merge_of(const bpe *t, uint32_t left, uint32_t right) {
    const merge key = {.left = left, .right = right};
    return bsearch(&key, t->merges, t->count, sizeof key, by_pair);
}

/* Adds the ids of a word, until there is no room. */
static void encode_word(const bpe *t, smoe_token_list *ids, const uint8_t *word, size_t n) {
    uint32_t part[WORD];
    for (size_t i = 0; i < n; i++) part[i] = t->of_byte[word[i]] + (i + 1 == n ? BYTES : 0);
    while (n > 1) {
        const merge *first = NULL;
        for (size_t i = 0; i + 1 < n; i++) {
            const merge *m = merge_of(t, part[i], part[i + 1]);
            if (m && (!first || m->rank < first->rank)) first = m;
        }
        if (!first) break;
        size_t to = 0;
        for (size_t i = 0; i < n; i++) {
            bool both = i + 1 < n && part[i] == first->left && part[i + 1] == first->right;
            part[to++] = both ? first->id : part[i];
            i += both;
        }
        n = to;
    }
    for (size_t i = 0; i < n && smoe_token_add(ids, part[i]); i++) continue;
}

typedef enum kind { BLANK, LETTER, NUMBER, OTHER } kind;

static kind kind_of(ucs4_t c) {
    if (uc_is_property_white_space(c) || (c >= 0x1c && c <= 0x1f)) return BLANK;
    if (uc_is_general_category_withtable(c, UC_CATEGORY_MASK_L)) return LETTER;
    return uc_is_general_category_withtable(c, UC_CATEGORY_MASK_N) ? NUMBER : OTHER;
}

/* Bytes of the word at the beginning of the text: 's 't 're 've 'm 'll 'd; else letters, one
 * number, or what is neither and no blank. */
static size_t word_length(const uint8_t *text, size_t n) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (length <= n && !memcmp(text, endings[i], length)) return length;
    }
    ucs4_t c;
    size_t at = (size_t)u8_mbtouc(&c, text, n);
    kind first = kind_of(c);
    while (at < n && first != NUMBER) {
        int more = u8_mbtouc(&c, text + at, n - at);
        if (kind_of(c) != first) break;
        at += (size_t)more;
    }
    return at;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The character that &NAME; or &#NUMBER; is, and in *length its bytes; 0 when there is none. */
static ucs4_t entity(const char *text, size_t *length) {
    static const struct {
        const char *name;
        ucs4_t is;
    } names[] = {{"&amp;", '&'},  {"&lt;", '<'},    {"&gt;", '>'},
                 {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xa0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *length = strlen(names[i].name);
        if (!strncmp(text, names[i].name, *length)) return names[i].is;
    }
    if (text[0] != '&' || text[1] != '#') return 0;
    bool hex = text[2] == 'x' || text[2] == 'X';
    const char *digits = text + 2 + hex;
    size_t n = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
    if (!n || n > 7 || digits[n] != ';') return 0;
    unsigned long c = strtoul(digits, NULL, hex ? 16 : 10);
    *length = (size_t)(digits + n + 1 - text);
    return c && c < 0x110000 && (c < 0xd800 || c > 0xdfff) ? (ucs4_t)c : 0;
}

/* In place: no entity is shorter than its character. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from;) {
        size_t length;
        ucs4_t c = entity(from, &length);
        if (c) {
            to += u8_uctomb((uint8_t *)to, c, 6);
            from += length;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* The text [GROWN] with a replacement character for every byte that is not UTF-8. */
static void make_valid(char *to, const char *text) {
    size_t n = strnlen(text, SMOE_CAPTION - 1);
    for (size_t at = 0; at < n;) {
        ucs4_t c;
        at += (size_t)u8_mbtouc(&c, (const uint8_t *)text + at, n - at);
        to += u8_uctomb((uint8_t *)to, c, 4);
    }
    *to = '\0';
}

static bool encode(const smoe_tokenizer *t, smoe_token_list *ids, const char *text) {
    char clean[GROWN + 1];
    uint8_t room[GROWN];
    size_t n = sizeof room;
    make_valid(clean, text);
    unescape(clean);
    unescape(clean);
    /* No letter grows by more than half of its bytes: there is room, so this cannot fail. */
    const uint8_t *lower = u8_tolower((const uint8_t *)clean, strlen(clean), NULL, NULL, room, &n);
    for (size_t at = 0; at < n && ids->count < ids->room;) {
        ucs4_t c;
        int length = u8_mbtouc(&c, lower + at, n - at);
        if (kind_of(c) == BLANK) {
            at += (size_t)length;
            continue;
        }
        size_t word = word_length(lower + at, n - at);
        if (word > WORD) word = WORD;
        encode_word((const bpe *)t, ids, lower + at, word);
        at += word;
    }
    return true;
}

static void bpe_free(smoe_tokenizer *t) {
    free(((bpe *)t)->merges);
}

int smoe_tokenizer_open_bpe(smoe_tokenizer **tokenizer, const char *path, smoe_err *err) {
    static const smoe_tokenizer_type type = {.encode = encode, .free = bpe_free};
    reading r = {.path = path};
    bpe *t = calloc(1, sizeof *t);
    int status = -1;
    if (!t) {
        no_memory(path, err);
        goto out;
    }
    if (read_lines(&r, &t->count, err)) goto out;
    r.token = calloc(FIRST + t->count, sizeof *r.token);
    t->merges = calloc(t->count, sizeof *t->merges);
    if (!r.token || !t->merges) {
        no_memory(path, err);
        goto out;
    }
    if (add_bytes(t, &r, err)) goto out;
    for (size_t i = 0; i < t->count; i++) {
        char whole[LINE];
        size_t left = strcspn(r.line[i], " ");
        int length =
            snprintf(whole, sizeof whole, "%.*s%s", (int)left, r.line[i], r.line[i] + left + 1);
        if (add_token(&r, whole, (size_t)length, err)) goto out;
    }
    qsort(r.token, r.tokens, sizeof *r.token, by_text);
    if (resolve(t, &r, err)) goto out;
    t->base = (smoe_tokenizer){.type = &type,
                               .vocabulary = FIRST + t->count + 2,
                               .start = (uint32_t)(FIRST + t->count),
                               .end = (uint32_t)(FIRST + t->count + 1)};
    *tokenizer = &t->base;
    status = 0;
out:
    for (size_t i = 0; r.token && i < r.tokens; i++) free(r.token[i].text);
    free(r.token);
    free(r.line);
    if (status && t) free(t->merges);
    if (status) free(t);
    return status;
}
