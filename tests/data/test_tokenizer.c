/* Tokenizers: ids by hand, cut texts, vocabularies. */
#include "data/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { START = 256, END = 257 };

static void bytes(void **state) {
    (void)state;
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
    (void)state;
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
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),
        cmocka_unit_test(vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
