/* What tokenizers share; see tokenizer.h. */
#include "text/tokenizer.h"
#include "base/alloc.h"
#include "text/clean.h"

#include <stdlib.h>
#include <string.h>

void smoe_tokenizer_free(smoe_tokenizer *t) {
    if (!t) return;
    if (t->type->free) t->type->free(t);
    free(t);
}

bool smoe_token_add(smoe_token_list *list, uint32_t id) {
    if (list->count == list->room) return false;
    list->id[list->count++] = id;
    return true;
}

size_t smoe_tokenizer_encode(const smoe_tokenizer *t, uint32_t *ids, size_t context,
                             const char *text) {
    smoe_token_list list = {.id = ids, .room = context - 1};
    char *given = smoe_alloc(SMOE_CAPTION, 1), *clean = given;
    memcpy(given, text, strnlen(text, SMOE_CAPTION - 1));
    if (t->clean != SMOE_CLEAN_NONE)
        clean = smoe_clean_text(given, t->clean == SMOE_CLEAN_CANONICALIZE);
    if (t->start != SMOE_NO_TOKEN) smoe_token_add(&list, t->start);
    t->type->encode(t, &list, clean);
    if (clean != given) free(clean);
    free(given);
    ids[list.count++] = t->end;
    for (size_t i = list.count; i < context; i++) ids[i] = t->pad;
    return list.count;
}
