/*
 * The ground floor: the letters every file uses, the status rule, errors, arenas. The version, the
 * codes and smoe_err are in the public header, include/smoe/smoe.h.
 *
 * Letters (next to each the one the papers use):
 *   B images      G groups       T tokens of a group (m)   d width           H heads
 *   E experts (n) P slots per expert (p)   S = E*P slots   K choices (k)     C capacity ratio
 *   h MLP width   L blocks       N classes                 R = rows of a matrix
 *
 * Status rule: a function that can fail returns 0 or -1 and fills an smoe_err; a function that only
 * computes returns void and cannot fail. The library never prints, and exits only where there is no
 * memory for a small piece (base/alloc.h). The choice of kernels (math/isa.c), the watcher of the
 * threads (base/team.h), the flag that signals set (base/stop.h) and data that stays open
 * (data/dataset.h) belong to the process, like OpenMP's number of threads, and the watcher of a
 * scan (data/scan.h) to a thread; there is no other mutable global state.
 */
#pragma once

#include "base/alloc.h"
#include "smoe/smoe.h"

#include <math.h> /* with the next three, the parts of the C library that many files use */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number type of weights and activations: double only in the gradient-check flavour. */
#ifdef SMOE_F64
typedef double real;
#else
typedef float real;
#endif
enum { SMOE_LINE = 64 / sizeof(real) }; /* elements of a cache line */

/* The number of elements of an array. */
#define SMOE_COUNT(array) (sizeof(array) / sizeof *(array))

/* Exchanges two values of one type; each is written twice. */
#define SMOE_SWAP(a, b)              \
    do {                             \
        __typeof__(a) swapped = (a); \
        (a) = (b);                   \
        (b) = swapped;               \
    } while (0)

#define SMOE_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* A local that is freed where its scope ends, with its value there: memory, or what a function
 * frees that takes its address. It has a value from its declaration on:
 *     SMOE_FREED char *path = smoe_text_format("%s/spec.yaml", dir);
 *     SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
 * For JSON there is json_auto_t. */
#define SMOE_FREED SMOE_FREED_BY(smoe_freed)
#define SMOE_FREED_BY(function) __attribute__((cleanup(function)))
/* TYPE_freed, for a pointer to what TYPE_free frees. */
#define SMOE_FREES(type)                            \
    static inline void type##_freed(type **local) { \
        type##_free(*local);                        \
    }

/* Replaces the content of err by one line, also with ": " and strerror of the errno found on entry
 * appended; or adds one more line, keeping those before it and the code of the first. Returns -1,
 * so that `return smoe_fail(...)` is possible. err may be NULL, here and in every function that
 * does not say otherwise. */
#define smoe_fail(err, code, ...) smoe_fail_line(err, code, SMOE_FAIL_ALONE, __VA_ARGS__)
#define smoe_fail_errno(err, code, ...) smoe_fail_line(err, code, SMOE_FAIL_ERRNO, __VA_ARGS__)
#define smoe_fail_more(err, code, ...) smoe_fail_line(err, code, SMOE_FAIL_MORE, __VA_ARGS__)
typedef enum smoe_fail_how { SMOE_FAIL_ALONE, SMOE_FAIL_ERRNO, SMOE_FAIL_MORE } smoe_fail_how;
int smoe_fail_line(smoe_err *err, smoe_code code, smoe_fail_how how, const char *fmt, ...)
    SMOE_PRINTF(4, 5);

/* The end of a check that goes on after a problem: 0 if it found none, else err becomes `found`. */
int smoe_fail_found(smoe_err *err, const smoe_err *found) SMOE_MUST_CHECK;

/* Puts "PREFIX: " before each line of err. Returns -1. */
int smoe_fail_prefix(smoe_err *err, const char *fmt, ...) SMOE_PRINTF(2, 3);

#if defined __clang_analyzer__ && !defined SMOE_ERR_C
/* The analyser does not see that these return -1, and would follow paths that do not exist. */
static inline int smoe_failed(int status) {
    (void)status;
    return -1;
}
#define smoe_fail_line(...) smoe_failed(smoe_fail_line(__VA_ARGS__))
#define smoe_fail_prefix(...) smoe_failed(smoe_fail_prefix(__VA_ARGS__))
#endif

/* ---- arenas ------------------------------------------------------------------------------------
 * A stretch of memory that is handed out from front to back, with every piece aligned to 64 bytes.
 * With base NULL it only counts and returns NULL: the same code runs once to measure and once to
 * bind, so the stated size and the used size cannot differ. */
typedef struct smoe_arena {
    char *base;
    size_t size; /* bytes behind base */
    size_t used; /* bytes handed out */
    size_t peak; /* the largest `used` so far */
} smoe_arena;

/* n elements of elem bytes; NULL while counting. Asserts that a bound arena is large enough. */
void *smoe_arena_take(smoe_arena *arena, size_t n, size_t elem);

/* Gives arena->peak bytes of zeroed memory to a counting arena and rewinds it, ready to bind. */
int smoe_arena_bind(smoe_arena *arena, smoe_err *err) SMOE_MUST_CHECK;

void smoe_arena_free(smoe_arena *arena);

/* ---- text ------------------------------------------------------------------------------------ */

/* Edit distance between two words; small numbers, for "did you mean". */
size_t smoe_text_distance(const char *a, const char *b);

/* The number of typing errors between a word and a known one: allowed are one, or one per three
 * letters, or two exchanged letters; SIZE_MAX beyond that, because short words would resemble
 * everything. */
size_t smoe_text_slips(const char *word, const char *candidate);

/* The index of the candidate nearest to word, or -1 if none is near enough for a typing error. */
int smoe_text_nearest(const char *word, const char *const *candidates, size_t count);

/* Whether `word` is one of the words of `list`, separated by `separator`. */
bool smoe_text_has_word(const char *list, char separator, const char *word);

/* Whether two words are the same apart from '-' and '_'. */
bool smoe_text_same_word(const char *a, const char *b);

/* The next word of a list with one separator, and moves on behind it; false at the end. */
bool smoe_text_next(const char **list, char separator, char *word, size_t size);

/* Whether one of some words, separated by blanks, is in a text. */
bool smoe_text_has_part(const char *text, const char *words);

/* Whether a text ends so. */
bool smoe_text_ends(const char *text, const char *end);

/* The end of the first item of a list a,b,c: a comma outside brackets and braces, or the end. */
const char *smoe_text_item(const char *list);

/* printf into a fresh string the caller frees. A function with a parameter `fresh` takes such a
 * string and frees it; a macro of the same header formats it. */
char *smoe_text_format(const char *fmt, ...) SMOE_PRINTF(1, 2);

/* Adds an item to a list in a buffer, behind ", " where it is not the first; what does not fit is
 * cut. */
void smoe_text_list(char *list, size_t size, const char *fmt, ...) SMOE_PRINTF(3, 4);

/* A name as a member of such a list: in quotation marks if it has a comma itself. Returns buf. */
const char *smoe_text_member(const char *name, char *buf, size_t size);

/* Puts a copy of a text, or NULL, in the place of a fresh text or NULL, which is freed. */
void smoe_text_set(char **to, const char *text);

/* Adds to a text, which is fresh or NULL. */
void smoe_text_add(char **text, const char *fmt, ...) SMOE_PRINTF(2, 3);

/* Copies of `count` texts, in a fresh array that ends with NULL. And the removal of such an array,
 * which may be NULL. */
char **smoe_texts_copy(const char *const *text, size_t count);
void smoe_texts_free(char **text, size_t count);
/* For qsort: texts, or what begins with one. */
int smoe_text_compare(const void *a, const void *b);
/* Sorts texts, each once; returns their number. And the place of one of them; SIZE_MAX: none. */
size_t smoe_texts_sort(const char **text, size_t count);
size_t smoe_texts_find(const char *const *text, size_t count, const char *word);

/* The ending of a noun that is counted: "%zu image%s", n, SMOE_S(n). */
#define SMOE_S(n) ((n) == 1 ? "" : "s")
#define SMOE_ES(n) ((n) == 1 ? "" : "es")

/* Significant digits, from `least` to 17, from which the number is read back exactly. */
int smoe_text_digits(double number, int least);

/* "1.25 GB", "37.5 M", "54.2 B" (10^9 without a unit): n with three digits and a prefix. Returns
 * buf. */
const char *smoe_text_si(char *buf, size_t size, double n, const char *unit);

/* One character of a text; its bytes are the result: *point is its code, -1 for a byte
 * that is not UTF-8. In texts for readers U+FFFD stands for such a byte. */
size_t smoe_text_character(const char *text, long *point);
#define SMOE_TEXT_REPLACEMENT "\xef\xbf\xbd"

/* Bytes as UTF-8, the same where they are valid. Fresh. */
char *smoe_text_utf8(const char *bytes);

/* Whether every character of the text is printable UTF-8, and so can be stored in YAML and JSON. */
bool smoe_text_printable(const char *text);
size_t smoe_text_letters(const char *text); /* characters, not bytes */
/* As much of text as fits, for a message: control characters and those that change the direction of
 * writing are replaced. Returns buf. */
const char *smoe_text_shown(const char *text, char *buf, size_t size);

/* A word of a command line that a message shows, for a shell that it is pasted into: in single
 * quotes if that would read it otherwise. Fresh. */
char *smoe_shell_word(const char *text);

/* Up to the end of the scope, this thread reads and writes numbers with a decimal point, whatever
 * the locale of the program. Every public function that reads or writes any begins with it. */
#define SMOE_NUMBERS_IN_C \
    __attribute__((unused)) SMOE_FREED_BY(smoe_locale_leave) void *before = smoe_locale_enter()
void *smoe_locale_enter(void);
void smoe_locale_leave(void *entered);
