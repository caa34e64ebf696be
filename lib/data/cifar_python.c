/* CIFAR as Python stores it; see cifar_python.h. */
#include "data/cifar_python.h"

#include <stdlib.h>
#include <string.h>

enum { PIXELS = 3072, LISTS = 2 };

/* What is looked for, and where it was found. */
typedef struct scan {
    uint8_t *data;
    size_t size, at;
    int key;                        /* the last key: a list, LISTS for the pixels, -1: another */
    const char *name[LISTS];        /* of the lists of labels, in the order of a record */
    uint8_t *label[LISTS];          /* [room] owned */
    size_t count[LISTS], room;      /* of labels */
    const uint8_t *pixels;          /* [images, 3072] */
    size_t images;                  /* with pixels */
    bool by_column, bytes_of_pixel; /* the order of the array; whether its type is u1 */
    bool truth;                     /* the last one read */
} scan;

static int unexpected(const scan *s, smoe_err *err, const char *what) {
    return smoe_fail(err, SMOE_DATA, "at byte %zu: %s", s->at, what);
}

/* A little-endian number of n bytes at the front of what is left; false where that is less. */
static bool number(scan *s, size_t n, uint64_t *value) {
    if (n > s->size - s->at) return false;
    *value = 0;
    for (size_t i = 0; i < n; i++) *value |= (uint64_t)s->data[s->at + i] << (8 * i);
    s->at += n;
    return true;
}

static bool is(const uint8_t *text, size_t n, const char *word) {
    return n == strlen(word) && !memcmp(text, word, n);
}

/* Bytes that Python 3 has written for Python 2: characters below 256, in UTF-8. Made bytes in
 * place; their number, or 0 if they are none. */
static size_t narrow(uint8_t *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        bool two = (text[i] & 0xfe) == 0xc2 && i + 1 < n && (text[i + 1] & 0xc0) == 0x80;
        if (text[i] >= 0x80 && !two) return 0;
        text[count] = two ? (uint8_t)(text[i] << 6 | (text[i + 1] & 0x3f)) : text[i];
        i += 1 + two;
    }
    return count;
}

/* A text or bytes: a key, the type of the array, its order, or its elements. */
static void take_text(scan *s, const uint8_t *text, size_t n) {
    if (is(text, n, "latin1")) return; /* in which bytes were written for Python 2 */
    if (s->key == LISTS && is(text, n, "u1")) s->bytes_of_pixel = true;
    if (s->key == LISTS && is(text, n, "F")) s->by_column = true;
    if (s->key == LISTS && !s->pixels && n && n % PIXELS == 0) {
        s->pixels = text;
        s->images = n / PIXELS;
        s->by_column = s->truth;
        return;
    }
    int key = -1;
    for (int k = 0; k < LISTS; k++)
        if (s->name[k] && is(text, n, s->name[k])) key = k;
    if (is(text, n, "data")) {
        key = LISTS;
        s->truth = false;
    }
    if (key >= 0 || s->key != LISTS) s->key = key; /* the parts of an array are texts too */
}

static int take_number(scan *s, uint64_t value, smoe_err *err) {
    if (s->key < 0 || s->key == LISTS) return 0;
    if (value > UINT8_MAX) return unexpected(s, err, "a label above 255");
    if (s->count[s->key] == s->room) return unexpected(s, err, "more labels than bytes");
    s->label[s->key][s->count[s->key]++] = (uint8_t)value;
    return 0;
}

/* The bytes that follow an instruction: those of a length of n bytes and then so many. */
static bool sized(scan *s, size_t n, const uint8_t **text, uint64_t *length) {
    if (!number(s, n, length) || *length > s->size - s->at) return false;
    *text = s->data + s->at;
    s->at += (size_t)*length;
    return true;
}

/* Passes over so many lines. */
static bool lines(scan *s, int count) {
    for (; count; count--) {
        const uint8_t *end = memchr(s->data + s->at, '\n', s->size - s->at);
        if (!end) return false;
        s->at = (size_t)(end - s->data) + 1;
    }
    return true;
}

/* One instruction; 1 at the end. */
static int step(scan *s, smoe_err *err) {
    static const char plain[] = "(]})Nuaets0bR\x81\x85\x86\x87\x90\x91\x93\x94";
    const uint8_t *text = NULL;
    uint64_t value = 0, code;
    bool there = true, numbered = false;
    if (!number(s, 1, &code)) return unexpected(s, err, "the pickle ends in the middle");
    switch (code) {
    case '.': return 1;
    case 0x80: there = number(s, 1, &value); break; /* version */
    case 0x95: there = number(s, 8, &value); break; /* frame */
    case 'q':
    case 'h': there = number(s, 1, &value); break; /* memory */
    case 'r':
    case 'j': there = number(s, 4, &value); break;
    case 'c': there = lines(s, 2); break; /* a name, not looked up */
    case 0x88:
    case 0x89: s->truth = code == 0x88; break;
    case 'K': there = numbered = number(s, 1, &value); break;
    case 'M': there = numbered = number(s, 2, &value); break;
    case 'J': there = numbered = number(s, 4, &value); break;
    case 0x8a:
        there = sized(s, 1, &text, &value);
        text = NULL;
        break;
    case 'U':
    case 'C':
    case 0x8c: there = sized(s, 1, &text, &value); break;
    case 'X':
        there = sized(s, 4, &text, &value);
        if (there && s->key == LISTS && value > PIXELS)
            value = narrow(s->data + (text - s->data), (size_t)value);
        break;
    case 'T':
    case 'B': there = sized(s, 4, &text, &value); break;
    case 0x8d:
    case 0x8e:
    case 0x96: there = sized(s, 8, &text, &value); break;
    default:
        if (!code || !memchr(plain, (int)code, sizeof plain - 1))
            return unexpected(s, err, "an instruction that the pickles of CIFAR do not have");
    }
    if (!there) return unexpected(s, err, "the pickle ends in the middle");
    if (text) take_text(s, text, (size_t)value);
    return numbered ? take_number(s, value, err) : 0;
}

static int check(const scan *s, smoe_err *err) {
    if (!s->pixels || !s->bytes_of_pixel || s->by_column)
        return smoe_fail(err, SMOE_DATA, "a pickle without an array data of bytes [images, 3072]");
    for (int k = 0; k < LISTS && s->name[k]; k++)
        if (s->count[k] != s->images)
            return smoe_fail(err, SMOE_DATA, "a pickle with %zu images, but %zu %s", s->images,
                             s->count[k], s->name[k]);
    return 0;
}

bool smoe_cifar_is_pickle(const uint8_t *bytes, size_t size) {
    return size && *bytes == 0x80;
}

int smoe_cifar_unpickle(uint8_t **bytes, size_t *size, bool hundred, smoe_err *err) {
    scan s = {.data = *bytes, .size = *size, .key = -1, .room = *size / PIXELS + 1};
    s.name[0] = hundred ? "coarse_labels" : "labels";
    s.name[1] = hundred ? "fine_labels" : NULL;
    int status = 0;
    uint8_t *out = NULL;
    for (int k = 0; k < LISTS; k++)
        if (!(s.label[k] = malloc(s.room))) status = smoe_fail(err, SMOE_RUNTIME, "out of memory");
    while (!status) status = step(&s, err);
    if (status > 0) status = check(&s, err);
    size_t header = hundred ? 2 : 1, record = header + PIXELS;
    if (!status && !(out = malloc(s.images * record)))
        status = smoe_fail(err, SMOE_RUNTIME, "out of memory for %zu images", s.images);
    for (size_t i = 0; !status && i < s.images; i++) {
        for (size_t k = 0; k < header; k++) out[i * record + k] = s.label[k][i];
        memcpy(out + i * record + header, s.pixels + i * PIXELS, PIXELS);
    }
    for (int k = 0; k < LISTS; k++) free(s.label[k]);
    if (status) return -1;
    free(*bytes);
    *bytes = out;
    *size = s.images * record;
    return 0;
}
