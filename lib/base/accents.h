/*
 * Names with accented letters, each of which is one character, or a letter and an accent (Unicode's
 * NFC and NFD). libarchive composes them in names of zip archives and pax tars; in names of folders
 * they may be decomposed.
 */
#pragma once

#include "base/base.h"

/* The text in the one form or the other, fresh; NULL: it is ASCII, or not UTF-8. */
char *smoe_accents_form(const char *text, bool composed);

/* Looks for a name in a list as it is, then in both forms. The place that `find` returns; SIZE_MAX:
 * it has none of them. */
size_t smoe_accents_find(size_t (*find)(const void *list, const char *name), const void *list,
                         const char *name);

/* Whether two names are the same in one form. */
bool smoe_accents_same(const char *a, const char *b);
