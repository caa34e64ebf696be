/* Texts to pieces by a SentencePiece model, in a module of its own; see sentencepiece.h. */
#include "base/file.h"
#include "base/module.h"
#include "text/sentencepiece.h"
#include "text/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct sentencepiece_tokenizer {
    smoe_tokenizer base;
    smoe_sentencepiece pieces;
} sentencepiece_tokenizer;

static void pieces_encode(const smoe_tokenizer *t, smoe_token_list *ids, const char *text) {
    const smoe_sentencepiece *p = &((const sentencepiece_tokenizer *)t)->pieces;
    size_t count;
    if (p->encode(p->model, ids->id + ids->count, ids->room - ids->count, &count, text,
                  strlen(text)))
        smoe_alloc_end();
    ids->count += count;
}

static void sentencepiece_free(smoe_tokenizer *t) {
    const smoe_sentencepiece *p = &((sentencepiece_tokenizer *)t)->pieces;
    p->free(p->model);
}

/* The library opens a folder or an empty file without an error. */
static int pieces_check_file(const char *path, smoe_err *err) {
    struct stat there = {0};
    int fd = smoe_file_open(path, O_RDONLY, err);
    if (fd < 0) return -1;
    (void)fstat(fd, &there);
    close(fd);
    return there.st_size ? 0 : smoe_fail(err, SMOE_DATA, "%s: empty", path);
}

int smoe_tokenizer_open_sentencepiece(smoe_tokenizer **tokenizer, const char *path, smoe_err *err) {
    static const smoe_tokenizer_type type = {.encode = pieces_encode, .free = sentencepiece_free};
    char problem[256] = "";
    void (*entry)(void);
    errno = 0;
    if (pieces_check_file(path, err)) return -1;
    switch (smoe_module_load("sentencepiece", SMOE_SENTENCEPIECE_ENTRY, false, &entry, err)) {
    case SMOE_MODULE_BROKEN: return -1;
    case SMOE_MODULE_MISSING:
        return smoe_fail(err, SMOE_USAGE,
                         "%s: this build reads no SentencePiece models (smoe_sentencepiece.so is "
                         "not there): install libsentencepiece-dev and g++, and build again",
                         path);
    case SMOE_MODULE_HERE: break;
    }
    sentencepiece_tokenizer *t = smoe_alloc(1, sizeof *t);
    if (((smoe_sentencepiece_open *)entry)(&t->pieces, path, problem, sizeof problem)) {
        free(t);
        return smoe_fail(err, SMOE_DATA, "%s: not a SentencePiece model: %s", path, problem);
    }
    const smoe_sentencepiece *p = &t->pieces;
    t->base = (smoe_tokenizer){.type = &type,
                               .clean = SMOE_CLEAN_NONE,
                               .vocabulary = p->vocabulary,
                               .start = p->start < 0 ? SMOE_NO_TOKEN : (uint32_t)p->start,
                               .end = (uint32_t)p->end};
    if (p->end >= 0) {
        *tokenizer = &t->base;
        return 0;
    }
    sentencepiece_free(&t->base);
    free(t);
    return smoe_fail(err, SMOE_DATA, "%s: the model has no end token (eos_id is -1)", path);
}
