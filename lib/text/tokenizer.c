/* Tokenizers; see tokenizer.h. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static int open_file(smoe_tokenizer **t, const smoe_spec *spec, smoe_err *err) {
    static const char model[] = ".model";
    char *path;
    if (smoe_spec_tokenizer_path(spec, &path, err)) return -1;
    size_t n = strlen(path), end = sizeof model - 1;
    bool pieces = n > end && !strcmp(path + n - end, model);
    int status = (pieces ? smoe_tokenizer_open_pieces : smoe_tokenizer_open_bpe)(t, path, err);
    free(path);
    return status;
}

int smoe_tokenizer_open(smoe_tokenizer **t, const smoe_spec *spec, smoe_err *err) {
    *t = NULL;
    if (smoe_spec_tokenizer_in_file(spec) ? open_file(t, spec, err)
                                          : smoe_tokenizer_open_bytes(t, err))
        return -1;
    size_t most = spec->text.vocabulary;
    if (!most || (*t)->vocabulary <= most) return 0;
    smoe_fail(err, SMOE_USAGE, "text.vocabulary: %zu, but the tokenizer %s has %zu ids", most,
              spec->text.tokenizer, (*t)->vocabulary);
    smoe_tokenizer_free(*t);
    *t = NULL;
    return -1;
}

void smoe_tokenizer_free(smoe_tokenizer *t) {
    if (!t) return;
    if (t->type->free) t->type->free(t);
    free(t);
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

bool smoe_token_add(smoe_token_list *list, uint32_t id) {
    if (list->count == list->room) return false;
    list->id[list->count++] = id;
    return true;
}

size_t smoe_tokenizer_encode(const smoe_tokenizer *t, uint32_t *ids, size_t context,
                             const char *text) {
    smoe_token_list list = {.id = ids, .room = context - 1};
    if (t->start != SMOE_NO_TOKEN) smoe_token_add(&list, t->start);
    if (!t->type->encode(t, &list, text)) return 0;
    ids[list.count++] = t->end;
    memset(ids + list.count, 0, (context - list.count) * sizeof *ids);
    return list.count;
}

/* ---- bytes: their values, then start and end ------------------------------------------------- */

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
