/* Opening the tokenizer of a spec; see tokenizer.h. */
#include "text/tokenizer.h"

static int open_file(smoe_tokenizer **t, const smoe_spec *spec, smoe_err *err) {
    SMOE_FREED char *path = NULL;
    if (smoe_spec_tokenizer_path(spec, &path, err)) return -1;
    return smoe_text_ends(path, ".model") ? smoe_tokenizer_open_sentencepiece(t, path, err)
                                          : smoe_tokenizer_open_bpe(t, path, err);
}

int smoe_tokenizer_open(smoe_tokenizer **t, const smoe_spec *spec, smoe_err *err) {
    *t = NULL;
    if (!smoe_spec_tokenizer_in_file(spec))
        smoe_tokenizer_open_bytes(t);
    else if (open_file(t, spec, err))
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
