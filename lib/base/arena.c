/* Arenas: see base.h. A piece starts on a cache line, so that no two pieces share one. */
#include "base/base.h"

#include <assert.h>
#include <sys/mman.h>

enum { ALIGN = 64 };

/* What is counted beyond 64 bits stays there: SIZE_MAX, which cannot be bound. */
void *smoe_arena_take(smoe_arena *arena, size_t n, size_t elem) {
    size_t bytes;
    char *piece = arena->base ? arena->base + arena->used : NULL;
    if (__builtin_mul_overflow(n, elem, &bytes) || bytes > SIZE_MAX - ALIGN ||
        __builtin_add_overflow(arena->used, (bytes + ALIGN - 1) / ALIGN * ALIGN, &arena->used))
        arena->used = SIZE_MAX;
    if (arena->used > arena->peak) arena->peak = arena->used;
    assert(!arena->base || arena->used <= arena->size);
    return piece;
}

int smoe_arena_bind(smoe_arena *arena, smoe_err *err) {
    size_t bytes = arena->peak ? arena->peak : ALIGN;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        char text[32];
        return smoe_fail_errno(err, SMOE_RUNTIME, "cannot allocate %s",
                               smoe_text_si(text, sizeof text, (double)bytes, "B"));
    }
    /* Large pages spare the address translation of long streams; a refusal costs nothing. */
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    *arena = (smoe_arena){.base = base, .size = bytes};
    return 0;
}

void smoe_arena_free(smoe_arena *arena) {
    if (arena->base) munmap(arena->base, arena->size);
    *arena = (smoe_arena){0};
}
