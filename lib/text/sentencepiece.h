/*
 * What the module smoe_sentencepiece.so offers: SentencePiece models, which are read by a library
 * in C++. One file in C++ (sentencepiece.cc) behind functions of C.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct smoe_sentencepiece {
    void *model;
    size_t vocabulary;
    int start, end; /* ids; negative where the model has none */
    /* The ids of a text of n bytes, at most `room` of them, and in *count how many; -1 when out of
     * memory. */
    int (*encode)(void *model, uint32_t *ids, size_t room, size_t *count, const char *text,
                  size_t n);
    void (*free)(void *model);
} smoe_sentencepiece;

/* Opens a model file; -1 with what is wrong in problem [size]. */
typedef int smoe_sentencepiece_open(smoe_sentencepiece *pieces, const char *path, char *problem,
                                    size_t size);
#define SMOE_SENTENCEPIECE_ENTRY "smoe_sentencepiece_open_model"

#ifdef __cplusplus
}
#endif
