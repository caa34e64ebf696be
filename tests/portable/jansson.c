/*
 * Of Jansson's memory functions, as much as programs that do not use Jansson link with: the library
 * sets them when a program starts.
 */
#include <jansson.h>
#include <stdlib.h>

static json_malloc_t allocate = malloc;
static json_free_t release = free;

void json_set_alloc_funcs(json_malloc_t with, json_free_t without) {
    allocate = with;
    release = without;
}

void json_get_alloc_funcs(json_malloc_t *with, json_free_t *without) {
    *with = allocate;
    *without = release;
}
