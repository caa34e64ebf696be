/* Memory that is always there; see alloc.h. */
#include "base/alloc.h"

#include "smoe/smoe.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*handler)(void);

void smoe_out_of_memory_set(void (*end)(void)) {
    handler = end;
}

_Noreturn void smoe_alloc_end(void) {
    static const char text[] = "smoe: out of memory\n";
    if (handler) handler();
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(SMOE_RUNTIME);
}

static void *json_memory(size_t size) {
    void *memory = malloc(size);
    if (!memory && size) smoe_alloc_end();
    return memory;
}

/* Jansson can crash where an allocation fails, and leave a member out. */
__attribute__((constructor)) static void set_json_memory(void) {
    json_set_alloc_funcs(json_memory, free);
}

void *smoe_alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) smoe_alloc_end();
    return memory;
}

void *smoe_alloc_more(void *memory, size_t count, size_t size) {
    void *more = reallocarray(memory, count ? count : 1, size);
    if (!more) smoe_alloc_end();
    return more;
}

char *smoe_alloc_text(const char *text) {
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    return memcpy(smoe_alloc_more(NULL, size, 1), text, size);
}

char *smoe_alloc_part(const char *text, size_t length) {
    char *part = strndup(text, length);
    if (!part) smoe_alloc_end();
    return part;
}

void *smoe_alloc_next(void *list, size_t count, size_t size) {
    bool full = !(count & (count - 1)); /* 0, or a power of two */
    if (full) list = smoe_alloc_more(list, count ? 2 * count : 1, size);
    memset((char *)list + count * size, 0, size);
    return list;
}

struct smoe_alloc_piece {
    _Alignas(max_align_t) struct smoe_alloc_piece *before;
};

void *smoe_alloc_in(smoe_alloc_pool *pool, size_t count, size_t size) {
    struct smoe_alloc_piece *piece;
    if (size && count > (SIZE_MAX - sizeof *piece) / size) smoe_alloc_end();
    piece = smoe_alloc(1, sizeof *piece + count * size);
    piece->before = pool->last;
    pool->last = piece;
    return piece + 1;
}

char *smoe_alloc_text_in(smoe_alloc_pool *pool, const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(smoe_alloc_in(pool, size, 1), text, size);
}

void smoe_alloc_pool_free(smoe_alloc_pool *pool) {
    for (struct smoe_alloc_piece *piece; (piece = pool->last); free(piece))
        pool->last = piece->before;
}

void smoe_freed(void *local) {
    void *memory;
    memcpy(&memory, local, sizeof memory);
    free(memory);
}

FILE *smoe_alloc_stream(char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out) smoe_alloc_end();
    return out;
}

char *smoe_alloc_stream_close(FILE *out, char **text) {
    /* A write that finds no memory is not reported by fclose, should a later one find some. */
    bool bad = ferror(out) != 0;
    if (fclose(out) || bad) smoe_alloc_end();
    return *text;
}
