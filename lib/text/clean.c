/* Cleaning texts; see tokenizer.h. A text is an array of code points here, which ends with 0. */
#include "text/tokenizer.h"

#include <ctype.h>
#include <unicase.h>
#include <unictype.h>
#include <uninorm.h>
#include <unistr.h>

enum { MOST = 3 /* code points that one becomes */ };

typedef struct points {
    ucs4_t *at;
    size_t count;
} points;

static points points_new(size_t room) {
    return (points){smoe_alloc(room + 1, sizeof(ucs4_t)), 0};
}

static points points_copy(const ucs4_t *at, size_t count) {
    points p = points_new(count);
    if (count) memcpy(p.at, at, count * sizeof *at);
    p.count = count;
    return p;
}

static points points_of(const char *text) {
    size_t n = strlen(text);
    points p = points_new(n);
    for (size_t at = 0; at < n;)
        at += (size_t)u8_mbtouc(&p.at[p.count++], (const uint8_t *)text + at, n - at);
    return p;
}

static void replace(points *p, points by) {
    free(p->at);
    *p = by;
}

/* ---- names of characters --------------------------------------------------------------------- */

static const struct {
    ucs4_t first;
    bool open;         /* also without a semicolon */
    const char *names; /* of this code and those after it */
} entities[] = {
#define RUN(first, open, names) {first, open, names},
#include "text/entities.def"
};

/* Windows-1252 of the bytes from 0x80 on; those that it lacks stay. */
static ucs4_t windows(ucs4_t c) {
    static const uint16_t table[32] = {
        0x20ac, 0x81,   0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
        0x2039, 0x152,  0x8d,   0x17d,  0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
        0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0x9d,   0x17e,  0x178};
    return c >= 0x80 && c < 0xa0 ? table[c - 0x80] : c;
}

/* "&#233;": the code points that it takes, 0 if it is none; *c: 0 where HTML leaves it out. */
static size_t clean_numbered(const ucs4_t *text, bool closed, ucs4_t *c) {
    bool hex = text[2] == 'x' || text[2] == 'X';
    size_t first = 2 + hex, n = first;
    unsigned long value = 0;
    for (; text[n] < 128 && (hex ? isxdigit((int)text[n]) : isdigit((int)text[n])); n++) {
        unsigned digit = (unsigned)(text[n] <= '9' ? text[n] - '0' : (text[n] | 32) - 'a' + 10);
        if (value < 0x1000000) value = value * (hex ? 16 : 10) + digit;
    }
    if (n == first || (closed && text[n] != ';')) return 0;
    bool wrong = !value || value > 0x10ffff || (value >= 0xd800 && value < 0xe000);
    bool left_out = value < 9 || value == 11 || (value > 13 && value < 32) || value == 127 ||
                    (value >= 0xfdd0 && value <= 0xfdef) || (value & 0xfffe) == 0xfffe;
    *c = wrong ? 0xfffd : left_out ? 0 : windows((ucs4_t)value);
    return n + (text[n] == ';');
}

/* "&eacute;"; of several names that begin so, the longest. */
static size_t clean_named(const ucs4_t *text, bool closed, ucs4_t *c) {
    size_t longest = 0;
    for (size_t i = 0; i < SMOE_COUNT(entities); i++) {
        const char *name = entities[i].names;
        for (ucs4_t code = entities[i].first; *name; code++) {
            size_t length = strcspn(name, " "), n = 0;
            while (n < length && text[1 + n] == (unsigned char)name[n]) n++;
            bool ends = n == length && text[1 + n] == ';';
            if (n == length && (ends || (entities[i].open && !closed)) && 1 + n + ends > longest) {
                longest = 1 + n + ends;
                *c = code;
            }
            name += length + (name[length] == ' ');
        }
    }
    return longest;
}

/* `closed`: only what ends with a semicolon, as ftfy does. Whether anything was replaced. */
static bool unescape(points *p, bool closed) {
    points out = points_new(p->count);
    bool changed = false;
    for (size_t i = 0; i < p->count;) {
        ucs4_t c = p->at[i];
        size_t n = c != '&'              ? 0
                   : p->at[i + 1] == '#' ? clean_numbered(p->at + i, closed, &c)
                                         : clean_named(p->at + i, closed, &c);
        if (!n || c) out.at[out.count++] = c;
        i += n ? n : 1;
        changed |= n > 0;
    }
    replace(p, out);
    return changed;
}

/* ---- what ftfy repairs ----------------------------------------------------------------------- */

static bool is_ligature(ucs4_t c) {
    return c == 0x132 || c == 0x133 || c == 0x149 || (c >= 0x1c4 && c <= 0x1cc) ||
           (c >= 0x1f1 && c <= 0x1f3) || (c >= 0xfb00 && c <= 0xfb06);
}

static ucs4_t quote(ucs4_t c) {
    if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b)) return '\'';
    return c >= 0x201c && c <= 0x201f ? '"' : c;
}

static bool is_control(ucs4_t c) {
    return c < 9 || c == 11 || (c >= 14 && c < 32) || c == 127 || (c >= 0x206a && c <= 0x206f) ||
           c == 0xfeff || (c >= 0xfff9 && c <= 0xfffc);
}

/* What a character becomes; the number of code points. */
static size_t repaired(ucs4_t out[MOST], ucs4_t c) {
    out[0] = c;
    if (c < 128) return !is_control(c);
    c = windows(c);
    size_t n = MOST;
    bool wide = c > 0xff00 && c < 0xfff0; /* or half as wide */
    if ((wide || is_ligature(c)) && u32_normalize(UNINORM_NFKC, &c, 1, out, &n)) {
        if (c == 0xfb05) out[0] = 0x17f; /* its long s stays */
        for (size_t i = 0; i < n; i++) out[i] = quote(out[i]);
        return n;
    }
    out[0] = c == 0x3000 ? ' ' : c == 0x2028 || c == 0x2029 || c == 0x85 ? '\n' : quote(c);
    return !is_control(out[0]);
}

/* The code points of "ESC [ 31 m", colours of a terminal; 0: none is there. */
static size_t colours(const ucs4_t *text) {
    size_t n = 2;
    if (text[0] != 27 || text[1] != '[') return 0;
    while ((text[n] >= '0' && text[n] <= '9') || text[n] == ';') n++;
    return text[n] < 128 && isalpha((int)text[n]) ? n + 1 : 0;
}

static bool repair(points *p) {
    points out = points_new(MOST * p->count);
    for (size_t i = 0; i < p->count; i++) {
        size_t skip = colours(p->at + i);
        if (skip)
            i += skip - 1;
        else
            out.count += repaired(out.at + out.count, p->at[i]);
    }
    size_t room = 0;
    SMOE_FREED ucs4_t *composed = u32_normalize(UNINORM_NFC, out.at, out.count, NULL, &room);
    bool changed = room != p->count || (room && memcmp(composed, p->at, room * sizeof *composed));
    replace(p, points_copy(composed, room));
    free(out.at);
    return changed;
}

/* A line, again and again until nothing changes. Names are left to HTML where there is a "<". */
static void fix(points *line, bool names) {
    enum { TIMES = 64 };
    bool changed = true;
    for (int i = 0; i < TIMES && changed; i++) {
        changed = names && unescape(line, true);
        changed |= repair(line);
    }
}

static void fix_lines(points *p) {
    points out = points_new(0);
    bool names = true;
    for (size_t first = 0, end; first < p->count; first = end) {
        for (end = first; end < p->count && p->at[end] != '\n'; end++) names &= p->at[end] != '<';
        end += end < p->count;
        points line = points_copy(p->at + first, end - first);
        fix(&line, names);
        out.at = smoe_alloc_more(out.at, out.count + line.count + 1, sizeof *out.at);
        memcpy(out.at + out.count, line.at, line.count * sizeof *line.at);
        out.at[out.count += line.count] = 0;
        free(line.at);
    }
    replace(p, out);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool is_blank(ucs4_t c) {
    return uc_is_property_white_space(c) || (c >= 0x1c && c <= 0x1f);
}

/* One blank between words; `canonical`: "_" is a blank, and other punctuation of ASCII nothing. */
static void clean_tidy(points *p, bool canonical) {
    size_t kept = 0;
    bool blank = false;
    for (size_t i = 0; i < p->count; i++) {
        ucs4_t c = p->at[i];
        if (is_blank(c) || (canonical && c == '_')) {
            blank = kept > 0;
        } else if (!canonical || c > 127 || !ispunct((int)c)) {
            if (blank) p->at[kept++] = ' ';
            blank = false;
            p->at[kept++] = c;
        }
    }
    p->at[p->count = kept] = 0;
}

char *smoe_clean_text(const char *text, bool canonical) {
    points p = points_of(text);
    size_t bytes = 0, letters = 0;
    fix_lines(&p);
    unescape(&p, false);
    unescape(&p, false);
    clean_tidy(&p, canonical);
    SMOE_FREED uint8_t *utf8 = u32_to_u8(p.at, p.count + 1, NULL, &bytes); /* with the 0 */
    uint8_t *lower = utf8 ? u8_tolower(utf8, bytes, NULL, NULL, NULL, &letters) : NULL;
    free(p.at);
    return lower ? (char *)lower : smoe_alloc_text("");
}
