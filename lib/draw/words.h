/* The labels of columns and their values in figures and in the report. */
#ifndef SMOE_WORDS_H
#define SMOE_WORDS_H

#include <stddef.h>

/* The i-th entry of words.def, then of the metrics, its words in *shown; NULL past the last. */
const char *smoe_words_at(size_t i, const char **shown);

/* A name in words, by words.def, as a metric or with blanks for underscores; in buf where it must
 * be made. */
const char *smoe_words_of(const char *name, char *buf, size_t size);

/* A key of the spec in words: its entry, or its last part with blanks for underscores. */
const char *smoe_words_of_key(const char *key, char *buf, size_t size);

#endif
