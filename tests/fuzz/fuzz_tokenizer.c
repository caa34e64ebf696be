/*
 * Tokenizers: the first part of the input, up to a line that is a dash, is a file of merges, the
 * rest a text. Ids must lie within the vocabulary and the context, begin with the start token and
 * end with the end token; a text that is cut has the ids of the whole one but for the end.
 */
#include "files.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const smoe_tokenizer *t, const char *text) {
    enum { SHORT = 9 };
    static uint32_t ids[3 * SMOE_CAPTION], cut[SHORT];
    size_t bytes = strnlen(text, SMOE_CAPTION - 1);
    size_t whole = 3 * bytes + 2; /* a byte that is not UTF-8 becomes three */
    if (whole < SHORT) whole = SHORT;
    size_t n = smoe_tokenizer_encode(t, ids, whole, text);
    size_t m = smoe_tokenizer_encode(t, cut, SHORT, text);
    if (n < 2 || n > whole || ids[0] != t->start || ids[n - 1] != t->end) __builtin_trap();
    if (m != (n < SHORT ? n : SHORT) || cut[m - 1] != t->end) __builtin_trap();
    for (size_t i = 0; i < whole; i++)
        if (i < n ? ids[i] >= t->vocabulary : ids[i] != 0) __builtin_trap();
    for (size_t i = 0; i + 1 < m; i++)
        if (cut[i] != ids[i]) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128], *text;
    const uint8_t *dash = memmem(data, size, "\n-\n", 3);
    size_t merges = dash ? (size_t)(dash - data) : size;
    size_t begins = merges + 3 < size ? merges + 3 : size;
    if (!(text = calloc(size - begins + 1, 1))) abort();
    memcpy(text, data + begins, size - begins);
    fuzz_write("merges.txt", data, merges);
    snprintf(path, sizeof path, "%s/merges.txt", fuzz_place());
    smoe_tokenizer *t = NULL;
    smoe_err err = {0};
    if (!smoe_tokenizer_open_bpe(&t, path, &err)) {
        check(t, text);
        smoe_tokenizer_free(t);
    } else if (!err.text[0] || err.code == SMOE_OK) {
        __builtin_trap();
    }
    smoe_tokenizer_open_bytes(&t);
    check(t, text);
    smoe_tokenizer_free(t);
    fuzz_remove("merges.txt");
    free(text);
    return 0;
}
