/* Tokenizers: ids by hand, truncated texts, vocabularies. */
#include "text/tokenizer.h"
#include "scratch.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { START = 256, END = 257 };

static void bytes(void **state) {
    smoe_spec spec = {.text = {.tokenizer = (char *)"bytes", .context = 6}};
    smoe_tokenizer *t;
    uint32_t ids[6];
    assert_int_equal(smoe_tokenizer_open(&t, &spec, NULL), 0);
    assert_int_equal(smoe_tokenizer_encode(t, ids, 6, "a\xc3\xa9"), 5);
    const uint32_t right[] = {START, 'a', 0xc3, 0xa9, END, 0};
    assert_memory_equal(ids, right, sizeof right);
    assert_int_equal(smoe_tokenizer_encode(t, ids, 6, ""), 2);
    const uint32_t empty[] = {START, END, 0, 0, 0, 0};
    assert_memory_equal(ids, empty, sizeof empty);
    assert_int_equal(smoe_tokenizer_encode(t, ids, 6, "abcdefg"), 6);
    const uint32_t cut[] = {START, 'a', 'b', 'c', 'd', END};
    assert_memory_equal(ids, cut, sizeof cut);
    smoe_tokenizer_free(t);
}

static void vocabularies(void **state) {
    smoe_spec spec = {.text = {.tokenizer = (char *)"bytes"}};
    smoe_err err = {0};
    size_t n;
    smoe_tokenizer *t;
    assert_int_equal(smoe_tokenizer_vocabulary(&n, &spec, NULL), 0);
    assert_int_equal(n, 258);
    spec.text.vocabulary = 300; /* room is left */
    assert_int_equal(smoe_tokenizer_vocabulary(&n, &spec, NULL), 0);
    assert_int_equal(n, 300);
    spec.text.vocabulary = 257;
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "text.vocabulary: 257, but the tokenizer bytes has 258 ids");
    spec.text.vocabulary = 0;
    spec.text.pad_id = 258;
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
    assert_int_equal(err.code, SMOE_USAGE);
    assert_string_equal(err.text, "text.pad_id: 258, but the model has only the ids 0 to 257");
    spec.text.pad_id = 300;
    spec.text.vocabulary = 301;
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), 0);
    uint32_t ids[4];
    assert_int_equal(smoe_tokenizer_encode(t, ids, 4, ""), 2);
    assert_true(ids[1] == END && ids[2] == 300 && ids[3] == 300);
    smoe_tokenizer_free(t);
}

/* As open_clip cleans texts. */
static void cleaned(void **state) {
    static const struct {
        const char *text, *lower, *canonical;
    } rows[] = {
#define CLEAN(text, lower, canonical) {text, lower, canonical},
#include "../interop/clean_expected.def"
#undef CLEAN
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int canonical = 0; canonical < 2; canonical++) {
            char *clean = smoe_clean_text(rows[i].text, canonical);
            const char *want = canonical ? rows[i].canonical : rows[i].lower;
            if (strcmp(clean, want) != 0)
                fail_msg("\"%s\": \"%s\", not \"%s\"", rows[i].text, clean, want);
            free(clean);
        }
}

static const char merges[] = "#version: made by hand\n"
                             "a b\n"
                             "ab c</w>\n"
                             "a b</w>\n"
                             "\xc3\x83 \xc2\xa9</w>\n" /* the letters of the bytes c3 and a9 */
                             "c c\n";

static smoe_tokenizer *opened(const char *path) {
    smoe_spec spec = {.text = {.tokenizer = (char *)path}};
    smoe_err err = {0};
    smoe_tokenizer *t = NULL;
    if (smoe_tokenizer_open(&t, &spec, &err)) fail_msg("%s", err.text);
    return t;
}

static void assert_ids(const smoe_tokenizer *t, const char *text, const uint32_t *right, size_t n) {
    uint32_t ids[32];
    assert_int_equal(smoe_tokenizer_encode(t, ids, 32, text), n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] != right[i]) fail_msg("\"%s\", id %zu: %u, not %u", text, i, ids[i], right[i]);
    for (size_t i = n; i < 32; i++) assert_int_equal(ids[i], 0);
}
#define IDS(t, text, ...) \
    assert_ids(t, text, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

/* Bytes have the ids of their letters: '!' to '~', a1 to ac, ae to ff, then the other 68; merges
 * begin at 512. */
enum {
    A = 'a' - '!',
    B,
    C,
    WORD_END = 256,
    AB = 512,
    ABC,
    AB_END,
    E_ACUTE,
    CC,
    BPE_START,
    BPE_END,
    EF = 106 + 0xef - 0xae,
    BF = 106 + 0xbf - 0xae,
    BD = 106 + 0xbd - 0xae
};

static void pairs_by_hand(void **state) {
    char path[SCRATCH_PATH];
    scratch_write(scratch_path(*state, path, "merges.txt"), merges, sizeof merges - 1);
    smoe_tokenizer *t = opened(path);
    assert_int_equal(t->vocabulary, BPE_END + 1);
    IDS(t, "", BPE_START, BPE_END);
    IDS(t, "ABC ab \t ca", BPE_START, ABC, AB_END, C, A + WORD_END, BPE_END);
    IDS(t, "abab", BPE_START, AB, AB_END, BPE_END);
    IDS(t, "ccc", BPE_START, CC, C + WORD_END, BPE_END); /* from the left */
    IDS(t, "\xc3\x89!", BPE_START, E_ACUTE, WORD_END,
        BPE_END); /* lower case; ! is a separate word */
    IDS(t, "a1b", BPE_START, A + WORD_END, '1' - '!' + WORD_END, B + WORD_END, BPE_END);
    IDS(t, "a's", BPE_START, A + WORD_END, '\'' - '!', 's' - '!' + WORD_END, BPE_END);
    smoe_spec spec = {.text = {.tokenizer = path, .clean = SMOE_CLEAN_CANONICALIZE}};
    smoe_tokenizer *canonical;
    assert_int_equal(smoe_tokenizer_open(&canonical, &spec, NULL), 0);
    IDS(canonical, "A, b!", BPE_START, A + WORD_END, B + WORD_END, BPE_END);
    smoe_tokenizer_free(canonical);
    IDS(t, "a &amp;amp; &#x61;b", BPE_START, A + WORD_END, '&' - '!' + WORD_END, AB_END, BPE_END);
    IDS(t, "&#0; &nope", BPE_START, EF, BF, BD + WORD_END, '&' - '!' + WORD_END, 'n' - '!',
        'o' - '!', 'p' - '!', 'e' - '!' + WORD_END, BPE_END);
    /* a byte that is not UTF-8 becomes the replacement character */
    IDS(t, "\xff", BPE_START, EF, BF, BD + WORD_END, BPE_END);
    uint32_t ids[3];
    assert_int_equal(smoe_tokenizer_encode(t, ids, 3, "ab ab ab"), 3);
    assert_int_equal(ids[2], BPE_END);
    smoe_tokenizer_free(t);
}

/* 600 letters are one word, with one end. */
static void pairs_of_a_long_word(void **state) {
    enum { LETTERS = 600, PAIRS = (LETTERS - 1) / 2 };
    char path[SCRATCH_PATH], text[LETTERS + 1] = {0};
    uint32_t ids[LETTERS];
    scratch_write(scratch_path(*state, path, "merges.txt"), merges, sizeof merges - 1);
    smoe_tokenizer *t = opened(path);
    memset(text, 'c', LETTERS);
    assert_int_equal(smoe_tokenizer_encode(t, ids, LETTERS, text), PAIRS + 4);
    for (size_t i = 1; i <= PAIRS; i++) assert_int_equal(ids[i], CC);
    assert_int_equal(ids[PAIRS + 1], C);
    assert_int_equal(ids[PAIRS + 2], C + WORD_END);
    assert_int_equal(ids[PAIRS + 3], BPE_END);
    smoe_tokenizer_free(t);
}

/* The longest text, as one word of bytes that are all replaced, and one that becomes longer in
 * lower case. */
static void pairs_of_long_texts(void **state) {
    char path[SCRATCH_PATH];
    static char text[2 * SMOE_CAPTION];
    uint32_t ids[SMOE_CAPTION];
    scratch_write(scratch_path(*state, path, "merges.txt"), merges, sizeof merges - 1);
    smoe_tokenizer *t = opened(path);
    memset(text, 0xff, sizeof text - 1);
    assert_int_equal(smoe_tokenizer_encode(t, ids, SMOE_CAPTION, text), SMOE_CAPTION);
    for (size_t i = 0; i + 2 < sizeof text; i += 2) memcpy(text + i, "\xc8\xba", 2); /* U+023A */
    assert_int_equal(smoe_tokenizer_encode(t, ids, SMOE_CAPTION, text), SMOE_CAPTION);
    memset(text, 'a', sizeof text - 1);
    assert_int_equal(smoe_tokenizer_encode(t, ids, SMOE_CAPTION, text), SMOE_CAPTION);
    smoe_tokenizer_free(t);
}

static void wrong_merges(void **state) {
    static const struct {
        const char *bytes, *problem;
    } wrong[] = {
        {"", "no merges in it"},
        {"#version\n", "no merges in it"},
        {"#version\na b\nabc\n", "line 3: two tokens with one blank"},
        {"#version\na b c\n", "line 2: two tokens with one blank"},
        {"#version\n\na b\n", "line 2: two tokens with one blank"},
        {"#version\na b\nxy z\n", "line 3: a token that is neither a byte nor a merge"},
        {"\x1f\x8b\x08 not gzip", "damaged"},
    };
    char path[SCRATCH_PATH], line[1200];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        smoe_spec spec = {.text = {.tokenizer = path}};
        smoe_err err = {0};
        smoe_tokenizer *t;
        scratch_write(scratch_path(*state, path, "wrong.txt"), wrong[i].bytes,
                      strlen(wrong[i].bytes));
        assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
        assert_int_equal(err.code, SMOE_DATA);
        assert_non_null(strstr(err.text, path));
        if (!strstr(err.text, wrong[i].problem)) fail_msg("%zu: %s", i, err.text);
    }
    memset(line, 'a', sizeof line);
    memcpy(line, "#\na ", 4);
    smoe_spec spec = {.text = {.tokenizer = path}};
    smoe_err err = {0};
    smoe_tokenizer *t;
    scratch_write(path, line, sizeof line);
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
    assert_non_null(strstr(err.text, "line 2: longer than"));
    spec.text.tokenizer = (char *)"nowhere.txt";
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
}

/* The models were made by the library's trainer from 400 lines such as "a photo of the red
 * circle", with the rule "identity" for characters and at most 60 pieces; the ids are those of
 * its Python package. */
static void sentence_pieces(void **state) {
    smoe_spec spec = {.text = {.tokenizer = (char *)"tests/text/sentencepiece/tiny.model"}};
    smoe_err err = {0};
    smoe_tokenizer *t;
    if (smoe_tokenizer_open(&t, &spec, &err)) {
        if (err.code != SMOE_USAGE || !strstr(err.text, "libsentencepiece-dev"))
            fail_msg("%s", err.text);
        print_message("built without SentencePiece, or SMOE_MODULES does not say where it is\n");
        skip();
    }
    assert_int_equal(t->vocabulary, 43);
    IDS(t, "a red circle above", 1, 14, 42, 9, 10, 2);
    IDS(t, "zebra", 1, 41, 0, 40, 31, 37, 38, 2);
    IDS(t, "", 1, 2);
    smoe_tokenizer_free(t);
    t = opened("tests/text/sentencepiece/nobos.model");
    IDS(t, "a red circle above", 9, 38, 4, 54, 35, 9, 36, 37, 1);
    IDS(t, "", 1);
    uint32_t ids[4];
    assert_int_equal(smoe_tokenizer_encode(t, ids, 4, "a red circle above"), 4);
    assert_int_equal(ids[3], 1);
    smoe_tokenizer_free(t);
    spec.text.tokenizer = (char *)"tests/text/sentencepiece/noeos.model";
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
    assert_non_null(strstr(err.text, "no end token"));
    char path[SCRATCH_PATH];
    scratch_write(scratch_path(*state, path, "wrong.model"), merges, sizeof merges - 1);
    spec.text.tokenizer = path;
    assert_int_equal(smoe_tokenizer_open(&t, &spec, &err), -1);
    assert_int_equal(err.code, SMOE_DATA);
    assert_non_null(strstr(err.text, "wrong.model: not a SentencePiece model"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(cleaned),
        unit_test_with(pairs_by_hand, scratch),
        unit_test_with(pairs_of_a_long_word, scratch),
        unit_test_with(pairs_of_long_texts, scratch),
        unit_test_with(wrong_merges, scratch),
        unit_test_with(sentence_pieces, scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
