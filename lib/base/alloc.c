/* Memory that is always there; see alloc.h. */
#include "base/alloc.h"

#include "smoe/smoe.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void smoe_alloc_end(void) {
    static const char text[] = "smoe: out of memory\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(SMOE_RUNTIME);
}

void *smoe_alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) smoe_alloc_end();
    return memory;
}

void *smoe_alloc_more(void *memory, size_t count, size_t size) {
    void *more = count > SIZE_MAX / size ? NULL : realloc(memory, count * size);
    if (!more) smoe_alloc_end();
    return more;
}

char *smoe_alloc_text(const char *text) {
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    return memcpy(smoe_alloc_more(NULL, size, 1), text, size);
}

void *smoe_alloc_next(void *list, size_t count, size_t size) {
    bool full = !(count & (count - 1)); /* 0, or a power of two */
    return full ? smoe_alloc_more(list, count ? 2 * count : 1, size) : list;
}
