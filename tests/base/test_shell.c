/* Words of command lines: a shell reads from them what went in. */
#include "base/alloc.h"
#include "base/base.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *text) {
    SMOE_FREED char *word = smoe_shell_word(text);
    SMOE_FREED char *line = smoe_text_format("printf '<%%s>' %s", word);
    char got[600] = "", wanted[600];
    snprintf(wanted, sizeof wanted, "<%s>", text);
    FILE *shell = popen(line, "r");
    assert_non_null(shell);
    got[fread(got, 1, sizeof got - 1, shell)] = '\0';
    pclose(shell);
    assert_string_equal(got, wanted);
}

static void a_shell_reads_the_same(void **state) {
    static const char *const words[] = {"",   "a",    "a b", "it's", "''",    "$HOME", "~",   "a;b",
                                        "*",  "#x",   "x#",  "(a)",  "a\\b",  "a\nb",  "`x`", "=a",
                                        "\"", "a&&b", "{a}", "!!",   "a<b>c", "é"};
    char all[256] = {0};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) check(words[i]);
    for (int c = 1; c < 256; c++) all[c - 1] = (char)c;
    check(all);
}

static void plain_words_stay_as_they_are(void **state) {
    SMOE_FREED char *word = smoe_shell_word("runs/000-router=soft,seed=0/a_b.png");
    assert_string_equal(word, "runs/000-router=soft,seed=0/a_b.png");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shell_reads_the_same),
        cmocka_unit_test(plain_words_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
