/* Bytes as tokens: their values, then start and end. */
#include "text/tokenizer.h"

#include <stdlib.h>

static bool encode_bytes(const smoe_tokenizer *t, smoe_token_list *ids, const char *text) {
    (void)t;
    while (*text && smoe_token_add(ids, (unsigned char)*text)) text++;
    return true;
}

int smoe_tokenizer_open_bytes(smoe_tokenizer **t, smoe_err *err) {
    enum { BYTES = 256 };
    static const smoe_tokenizer_type type = {.encode = encode_bytes};
    *t = malloc(sizeof **t);
    if (!*t) return smoe_fail(err, SMOE_RUNTIME, "out of memory for a tokenizer");
    **t =
        (smoe_tokenizer){.type = &type, .vocabulary = BYTES + 2, .start = BYTES, .end = BYTES + 1};
    return 0;
}
