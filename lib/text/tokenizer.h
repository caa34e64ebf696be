/*
 * Texts to token ids: a start token, those of the text, an end token; a text too long is cut and
 * still ends with the end token. A tokenizer is `bytes`, which is built in, or is read from a file:
 * a SentencePiece model (NAME.model), or merges of byte pairs as CLIP has them.
 * It is read-only once open, so any number of threads can use it.
 */
#pragma once

#include "spec/spec.h"

enum { SMOE_CAPTION = 4096 }; /* room for a text; longer ones are cut */

typedef struct smoe_tokenizer smoe_tokenizer;

/* That of text.tokenizer. SMOE_DATA names the file and the line; SMOE_USAGE where text.vocabulary
 * has no room for its ids or for text.pad_id. */
int smoe_tokenizer_open(smoe_tokenizer **tokenizer, const smoe_spec *spec,
                        smoe_err *err) SMOE_MUST_CHECK;
void smoe_tokenizer_free(smoe_tokenizer *tokenizer);

/* The number of ids of a model: text.vocabulary or, if that is 0, the number of the tokenizer,
 * which is opened for it. */
int smoe_tokenizer_vocabulary(size_t *vocabulary, const smoe_spec *spec,
                              smoe_err *err) SMOE_MUST_CHECK;

/* ids [context], padded with text.pad_id; returns how many there are, at least 1: without a start
 * token, as SentencePiece models may be, an empty text is its end token. */
size_t smoe_tokenizer_encode(const smoe_tokenizer *tokenizer, uint32_t *ids, size_t context,
                             const char *text);

/* A text as open_clip cleans it before its tokenizers (clean.c): what ftfy repairs, except letters
 * that were decoded wrongly, HTML's names of characters, then lower case; smoe-spec(5) lists what
 * differs. Fresh, in UTF-8, NFC, whose words are separated by one blank; `canonical`: without
 * punctuation of ASCII, as for SigLIP. Bytes that are not UTF-8 become U+FFFD. */
char *smoe_clean_text(const char *text, bool canonical);

/* ---- for tokenizers: one file tokenizer_*.c each --------------------------------------------- */

/* Adds an id; false when there is no room for more. */
typedef struct smoe_token_list {
    uint32_t *id;
    size_t count, room;
} smoe_token_list;
static inline bool smoe_token_add(smoe_token_list *list, uint32_t id) {
    if (list->count == list->room) return false;
    list->id[list->count++] = id;
    return true;
}

typedef struct smoe_tokenizer_type {
    /* Adds the ids of the text, which is clean, until there is no room. */
    void (*encode)(const smoe_tokenizer *tokenizer, smoe_token_list *ids, const char *text);
    void (*free)(smoe_tokenizer *tokenizer);
} smoe_tokenizer_type;

struct smoe_tokenizer {
    const smoe_tokenizer_type *type;
    size_t vocabulary;
    uint32_t start, end; /* start: SMOE_NO_TOKEN where texts begin without one */
    uint32_t pad;        /* of the spec */
    smoe_clean clean;    /* its own, unless the spec says another one */
};
#define SMOE_NO_TOKEN UINT32_MAX

void smoe_tokenizer_open_bytes(smoe_tokenizer **tokenizer);
/* From files, which messages name by path. */
int smoe_tokenizer_open_bpe(smoe_tokenizer **tokenizer, const char *path,
                            smoe_err *err) SMOE_MUST_CHECK;
int smoe_tokenizer_open_sentencepiece(smoe_tokenizer **tokenizer, const char *path,
                                      smoe_err *err) SMOE_MUST_CHECK;
