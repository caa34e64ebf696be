/* Names with accented letters; see accents.h. */
#include "base/accents.h"

#include <uninorm.h>

char *smoe_accents_form(const char *text, bool composed) {
    size_t size = 0;
    const char *end = text;
    while (*end && (unsigned char)*end < 0x80) end++;
    if (!*end) return NULL;
    return (char *)u8_normalize(composed ? UNINORM_NFC : UNINORM_NFD, (const uint8_t *)text,
                                strlen(text) + 1, NULL, &size);
}

size_t smoe_accents_find(size_t (*find)(const void *list, const char *name), const void *list,
                         const char *name) {
    size_t place = find(list, name);
    for (int composed = 0; place == SIZE_MAX && composed < 2; composed++) {
        SMOE_FREED char *same = smoe_accents_form(name, composed);
        if (same) place = find(list, same);
    }
    return place;
}

bool smoe_accents_same(const char *a, const char *b) {
    if (!strcmp(a, b)) return true;
    SMOE_FREED char *x = smoe_accents_form(a, true), *y = smoe_accents_form(b, true);
    return x && y && !strcmp(x, y);
}
