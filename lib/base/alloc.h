/*
 * Small pieces of memory, which are always there: where memory runs out, smoe_alloc_end is called,
 * and does not return. So functions whose results are texts, lists or JSON return no NULL for lack
 * of memory. What may not fit, arenas, images, data sets, is allocated with malloc, and a lack of
 * memory is an error.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Zeroed memory for `count` elements of `size` bytes. */
void *smoe_alloc(size_t count, size_t size);
/* realloc: room for `count` elements; what is new is not zeroed. */
void *smoe_alloc_more(void *memory, size_t count, size_t size);
/* A copy; of NULL NULL. And one of the first `length` bytes. */
char *smoe_alloc_text(const char *text);
char *smoe_alloc_part(const char *text, size_t length);

/* Frees the memory that a local points to: for SMOE_FREED (base/base.h). */
void smoe_freed(void *local);

/* A list with room for powers of two: zeroed memory for one more element behind `count`. */
void *smoe_alloc_next(void *list, size_t count, size_t size);
/* That element, which is counted: SMOE_APPEND(list, count) = x, where x does not use the two. */
#define SMOE_APPEND(list, count) \
    (*((list) = smoe_alloc_next(list, count, sizeof *(list)), &(list)[(count)++]))

/* Pieces that are freed together: a pool starts as {0}. */
typedef struct smoe_alloc_pool {
    struct smoe_alloc_piece *last;
} smoe_alloc_pool;
void *smoe_alloc_in(smoe_alloc_pool *pool, size_t count, size_t size);
char *smoe_alloc_text_in(smoe_alloc_pool *pool, const char *text);
void smoe_alloc_pool_free(smoe_alloc_pool *pool);

/* A stream into fresh memory. Closing it returns its text, which ends with NUL. */
FILE *smoe_alloc_stream(char **text, size_t *size);
char *smoe_alloc_stream_close(FILE *out, char **text);

/* Calls the handler that smoe_out_of_memory_set has set, or ends the process with a message and
 * exit status 1. */
_Noreturn void smoe_alloc_end(void);
