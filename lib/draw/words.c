/* Words; see words.h and words.def. */
#include "draw/words.h"
#include "spec/metrics.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *words;
} words[] = {
#define WORD(name, words) {name, words},
#include "draw/words.def"
#undef WORD
};

const char *smoe_words_at(size_t i, const char **shown) {
    size_t entries = sizeof words / sizeof *words;
    if (i >= entries) return smoe_metric_words(i - entries, shown);
    *shown = words[i].words;
    return words[i].name;
}

const char *smoe_words_of(const char *name, char *buf, size_t size) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name)) return words[i].words;
    if (smoe_metric_say(name, buf, size)) return buf;
    snprintf(buf, size, "%s", name);
    for (char *c = buf; *c; c++)
        if (*c == '_') *c = ' ';
    return buf;
}

const char *smoe_words_of_key(const char *key, char *buf, size_t size) {
    const char *dot = strrchr(key, '.');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, key)) return words[i].words;
    return smoe_words_of(dot ? dot + 1 : key, buf, size);
}
