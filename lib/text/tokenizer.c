/* What tokenizers share, opening that of a spec, and the one of bytes: their values, then start and
 * end; see tokenizer.h. */
#include "text/tokenizer.h"

void smoe_tokenizer_free(smoe_tokenizer *t) {
    if (!t) return;
    if (t->type->free) t->type->free(t);
    free(t);
}

size_t smoe_tokenizer_encode(const smoe_tokenizer *t, uint32_t *ids, size_t context,
                             const char *text) {
    smoe_token_list list = {.id = ids, .room = context - 1};
    SMOE_FREED char *given = smoe_alloc(SMOE_CAPTION, 1), *cleaned = NULL;
    memcpy(given, text, strnlen(text, SMOE_CAPTION - 1));
    if (t->clean != SMOE_CLEAN_NONE)
        cleaned = smoe_clean_text(given, t->clean == SMOE_CLEAN_CANONICALIZE);
    if (t->start != SMOE_NO_TOKEN) smoe_token_add(&list, t->start);
    t->type->encode(t, &list, cleaned ? cleaned : given);
    ids[list.count++] = t->end;
    for (size_t i = list.count; i < context; i++) ids[i] = t->pad;
    return list.count;
}

/* ---- opening --------------------------------------------------------------------------------- */

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

static int tokenizer_open_file(smoe_tokenizer **t, const smoe_spec *spec, smoe_err *err) {
    SMOE_FREED char *path = NULL;
    if (smoe_spec_path(spec, "text.tokenizer", &path, err)) return -1;
    return smoe_text_ends(path, ".model") ? smoe_tokenizer_open_sentencepiece(t, path, err)
                                          : smoe_tokenizer_open_bpe(t, path, err);
}

int smoe_tokenizer_open(smoe_tokenizer **t, const smoe_spec *spec, smoe_err *err) {
    *t = NULL;
    if (!smoe_spec_tokenizer_in_file(spec))
        smoe_tokenizer_open_bytes(t);
    else if (tokenizer_open_file(t, spec, err))
        return -1;
    size_t own = (*t)->vocabulary, most = spec->text.vocabulary ? spec->text.vocabulary : own;
    (*t)->pad = (uint32_t)spec->text.pad_id;
    if (spec->text.clean != SMOE_CLEAN_OWN) (*t)->clean = spec->text.clean;
    if (own <= most && spec->text.pad_id < most) return 0;
    if (own > most)
        smoe_fail(err, SMOE_USAGE, "text.vocabulary: %zu, but the tokenizer %s has %zu ids", most,
                  spec->text.tokenizer, own);
    else
        smoe_fail(err, SMOE_USAGE, "text.pad_id: %zu, but the model has only the ids 0 to %zu",
                  spec->text.pad_id, most - 1);
    smoe_tokenizer_free(*t);
    *t = NULL;
    return -1;
}

int smoe_tokenizer_vocabulary(size_t *vocabulary, const smoe_spec *spec, smoe_err *err) {
    smoe_tokenizer *t;
    *vocabulary = spec->text.vocabulary;
    if (*vocabulary) return 0;
    if (smoe_tokenizer_open(&t, spec, err)) return -1;
    *vocabulary = t->vocabulary;
    smoe_tokenizer_free(t);
    return 0;
}
