/* Bytes as tokens: their values, then start and end. */
#include "text/tokenizer.h"
#include "base/alloc.h"

static void encode_bytes(const smoe_tokenizer *t, smoe_token_list *ids, const char *text) {
    (void)t;
    while (*text && smoe_token_add(ids, (unsigned char)*text)) text++;
}

void smoe_tokenizer_open_bytes(smoe_tokenizer **t) {
    enum { BYTES = 256 };
    static const smoe_tokenizer_type type = {.encode = encode_bytes};
    *t = smoe_alloc(1, sizeof **t);
    **t = (smoe_tokenizer){.type = &type,
                           .vocabulary = BYTES + 2,
                           .start = BYTES,
                           .end = BYTES + 1,
                           .clean = SMOE_CLEAN_NONE};
}
