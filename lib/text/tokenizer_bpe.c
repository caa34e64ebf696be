/*
 * Byte pair encoding as CLIP has it. A file of merges, plain or gzip, has a first line that is
 * skipped and then one merge per line: two tokens, in which a letter stands for each byte and </w>
 * for the end of a word. Ids: 256 bytes, the same 256 at the end of a word, the merges in their
 * order, start, end. A text is cleaned and cut into words; in a word, the pair that
 * comes first in the file is merged until none is left.
 */
#include "text/tokenizer.h"
#include "base/file.h"

#include <fcntl.h>
#include <search.h>
#include <unictype.h>
#include <unistr.h>
#include <zlib.h>

enum {
    BYTES = 256,
    FIRST = 2 * BYTES,  /* id of the first merge */
    MERGES = 48894,     /* that CLIP uses of its longer file */
    LETTERS = 0x144,    /* that stand for bytes */
    LINE = 512,         /* bytes of a line of the file */
    WORD = SMOE_CAPTION /* bytes of a word, which may be a whole text */
};
#define NONE UINT32_MAX

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

/* A line: the texts of its two tokens, one behind the other, which together are that of the
 * merge. */
typedef struct line {
    const char *text;
    size_t left, length; /* bytes of the first token, and of both */
} line;

/* What is needed while the file is read. */
typedef struct reading {
    const char *path;
    smoe_alloc_pool texts;
    line *line;
    size_t lines;
    void *by_text;               /* the lines as a search tree */
    uint32_t of_letter[LETTERS]; /* ids of the bytes for which letters stand */
} reading;

static int by_pair(const void *a, const void *b) {
    const merge *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static bool byte_is_printed(uint32_t byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

/* A byte that is a printed character of Latin-1 stands for itself, the others are the letters from
 * U+0100 on; ids follow the letters, not the bytes. */
static void number_bytes(bpe *t, reading *r) {
    uint32_t id = 0, other = 0x100;
    for (uint32_t letter = 0; letter < LETTERS; letter++) r->of_letter[letter] = NONE;
    for (int printed = 1; printed >= 0; printed--)
        for (uint32_t b = 0; b < BYTES; b++)
            if (byte_is_printed(b) == printed) {
                t->of_byte[b] = id;
                r->of_letter[printed ? b : other++] = id++;
            }
}

static void bpe_add_line(reading *r, const char *text, size_t left, size_t right) {
    char *both = smoe_alloc_in(&r->texts, left + right, 1);
    memcpy(both, text, left);
    memcpy(both + left, text + left + 1, right);
    SMOE_APPEND(r->line, r->lines) = (line){both, left, left + right};
}

/* The lines of the merges. */
static int read_lines(reading *r, gzFile file, smoe_err *err) {
    char text[LINE];
    int code = Z_OK;
    for (size_t number = 1; r->lines < MERGES && gzgets(file, text, sizeof text); number++) {
        size_t length = strlen(text);
        if (length == sizeof text - 1 && text[length - 1] != '\n')
            return smoe_fail(err, SMOE_DATA,
                             "%s: line %zu: longer than %d bytes: not a file of merges", r->path,
                             number, LINE - 2);
        text[strcspn(text, "\r\n")] = '\0';
        if (number == 1) continue;
        const char *gap = strchr(text, ' ');
        if (!*text && gzeof(file)) break;
        if (!gap || gap == text || !gap[1] || strchr(gap + 1, ' '))
            return smoe_fail(err, SMOE_DATA,
                             "%s: line %zu: two tokens with one blank between them were expected",
                             r->path, number);
        bpe_add_line(r, text, (size_t)(gap - text), strlen(gap + 1));
    }
    const char *problem = gzerror(file, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        return smoe_fail(err, SMOE_DATA, "%s: damaged: %s", r->path, problem);
    return r->lines ? 0 : smoe_fail(err, SMOE_DATA, "%s: no merges in it", r->path);
}

static int by_text(const void *a, const void *b) {
    const line *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return memcmp(x->text, y->text, x->length);
}

/* If several merges have the same text, the last one counts, as in a Python dictionary. */
static void index_merges(reading *r) {
    for (size_t i = 0; i < r->lines; i++) {
        line **there = tsearch(&r->line[i], &r->by_text, by_text);
        if (!there) smoe_alloc_end();
        *there = &r->line[i];
    }
}

/* The id of a token: of the merge with this text, else of a byte; NONE if there is neither. */
static uint32_t id_of(const reading *r, const char *text, size_t length) {
    const line key = {text, 0, length};
    line *const *merged = tfind(&key, &r->by_text, by_text);
    if (merged) return (uint32_t)(FIRST + (*merged - r->line));
    ucs4_t letter;
    size_t bytes = (size_t)u8_mbtouc(&letter, (const uint8_t *)text, length);
    bool end = length == bytes + 4 && !memcmp(text + bytes, "</w>", 4);
    if ((length != bytes && !end) || letter >= LETTERS || r->of_letter[letter] == NONE) return NONE;
    return r->of_letter[letter] + (end ? BYTES : 0);
}

static int bpe_resolve(bpe *t, const reading *r, smoe_err *err) {
    for (size_t i = 0; i < t->count; i++) {
        const line *l = &r->line[i];
        t->merges[i] = (merge){.left = id_of(r, l->text, l->left),
                               .right = id_of(r, l->text + l->left, l->length - l->left),
                               .rank = (uint32_t)i,
                               .id = id_of(r, l->text, l->length)};
        if (t->merges[i].left == NONE || t->merges[i].right == NONE)
            return smoe_fail(err, SMOE_DATA,
                             "%s: line %zu: a token that is neither a byte nor a merge of the file",
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

/* Adds the ids of a word, until there is no room. The merge of each part with the next one is kept,
 * and looked up again only beside new parts. */
static void encode_word(const bpe *t, smoe_token_list *ids, const uint8_t *word, size_t n) {
    uint32_t part[WORD];
    const merge *next[WORD]; /* NULL: there is none */
    bool new[WORD];
    for (size_t i = 0; i < n; i++) {
        part[i] = t->of_byte[word[i]] + (i + 1 == n ? BYTES : 0);
        next[i] = NULL;
        new[i] = true;
    }
    for (;;) {
        const merge *first = NULL;
        for (size_t i = 0; i + 1 < n; i++) {
            if (new[i] || new[i + 1]) next[i] = merge_of(t, part[i], part[i + 1]);
            if (next[i] && (!first || next[i]->rank < first->rank)) first = next[i];
        }
        if (!first) break;
        size_t to = 0;
        for (size_t i = 0; i < n; i++, to++) {
            new[to] = i + 1 < n &&part[i] == first->left &&part[i + 1] == first->right;
            part[to] = new[to] ? first->id : part[i];
            next[to] = next[i];
            i += new[to];
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
    for (size_t i = 0; i < SMOE_COUNT(endings); i++) {
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

static void bpe_encode(const smoe_tokenizer *t, smoe_token_list *ids, const char *text) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t n = strlen(text);
    for (size_t at = 0; at < n && ids->count < ids->room;) {
        ucs4_t c;
        int length = u8_mbtouc(&c, bytes + at, n - at);
        if (kind_of(c) == BLANK) {
            at += (size_t)length;
            continue;
        }
        size_t word = word_length(bytes + at, n - at);
        if (word > WORD) word = WORD;
        encode_word((const bpe *)t, ids, bytes + at, word);
        at += word;
    }
}

static void bpe_free(smoe_tokenizer *t) {
    free(((bpe *)t)->merges);
}

static void keep_entry(void *entry) {
    (void)entry; /* the tree has no memory of its own */
}

static void bpe_reading_free(reading *r) {
    tdestroy(r->by_text, keep_entry);
    smoe_alloc_pool_free(&r->texts);
    free(r->line);
}

int smoe_tokenizer_open_bpe(smoe_tokenizer **tokenizer, const char *path, smoe_err *err) {
    static const smoe_tokenizer_type type = {.encode = bpe_encode, .free = bpe_free};
    SMOE_FREED_BY(bpe_reading_free) reading r = {.path = path};
    int fd = smoe_file_open(path, O_RDONLY, err);
    if (fd < 0) return -1;
    gzFile file = gzdopen(fd, "rb");
    if (!file) smoe_alloc_end();
    int status = read_lines(&r, file, err);
    gzclose(file);
    if (status) return -1;
    bpe *t = smoe_alloc(1, sizeof *t);
    t->base = (smoe_tokenizer){.type = &type,
                               .clean = SMOE_CLEAN_LOWER,
                               .vocabulary = FIRST + r.lines + 2,
                               .start = (uint32_t)(FIRST + r.lines),
                               .end = (uint32_t)(FIRST + r.lines + 1)};
    t->count = r.lines;
    t->merges = smoe_alloc(t->count, sizeof *t->merges);
    number_bytes(t, &r);
    index_merges(&r);
    if (!bpe_resolve(t, &r, err)) return *tokenizer = &t->base, 0;
    free(t->merges);
    free(t);
    return -1;
}
