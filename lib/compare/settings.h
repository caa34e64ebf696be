/* Settings in a text, "KEY=VALUE,KEY=VALUE"; the value "*" means any value; and which combinations
 * of values have them. And margins of equivalence, which are written alike. */
#pragma once

#include "base/base.h"

typedef struct smoe_setting {
    char *key, *value; /* value NULL: the item has no '=' */
} smoe_setting;

typedef struct smoe_settings {
    smoe_setting *item;
    size_t count;
} smoe_settings;

/* The settings of "KEY=VALUE,KEY=VALUE"; to be freed. */
void smoe_settings_read(smoe_settings *settings, const char *text);
void smoe_settings_free(smoe_settings *settings);

/* A value of this length as it stands in a text: one with a comma is in quotation marks. Fresh. */
char *smoe_settings_value(const char *text, size_t length);

/* Whether a value is "*"; NULL is not. */
bool smoe_settings_is_any(const char *value);

/* A value as a number; false where it is no positive one. */
bool smoe_settings_number(const char *value, double *x);

/* Whether two values of a key are the same text or, where the key has no texts, the same number:
 * 1e-3 and 0.001, 0 and 0.0. */
bool smoe_settings_same(const char *key, const char *a, const char *b);

/* ---- in words -------------------------------------------------------------------------------- */

/* A key as the heading of a column: its last part, "at exponent" if it is of an evaluation, "start
 * lr" if it is of what cells start from. Returns buf. */
const char *smoe_settings_heading(const char *key, char *buf, size_t size);

/* The value of a key as it is printed among these settings, NULL being all values: a model without
 * experts is "dense" where its router would stand, or else the blocks that have experts, and "-" in
 * other keys of experts. */
const char *smoe_settings_shown(const char *const *key, const char *const *value, size_t count,
                                size_t i);

/* Settings in words, "dense, lr 6e-3": of a router its name alone. Values that are NULL are left
 * out. Fresh. */
char *smoe_settings_words(const char *const *key, const char *const *value, size_t count);

/* ---- combinations ---------------------------------------------------------------------------- */

/* Combinations of settings, of existing or future runs; no two are the same apart from the seed. */
typedef struct smoe_combinations {
    const char *prefix; /* before the columns' names, where settings name them; "": nothing */
    char *const *column;
    size_t columns, seed; /* SIZE_MAX: no column is the seed */
    char *const **value;  /* [count][columns] */
    size_t count;
} smoe_combinations;

/* The number of a combination, which is added if it is new; `value` has room. */
size_t smoe_combinations_add(smoe_combinations *all, char *const *value);

/* The column with the name that settings have for it; SIZE_MAX: none, or it is the seed. */
size_t smoe_combinations_column(const smoe_combinations *all, const char *key);

/* Adds the names that settings have for all columns but the seed, to a list "A, B". */
void smoe_combinations_list(const smoe_combinations *all, char *list, size_t size);

/* What settings want in each column [columns]: a value, "*", or NULL in those they do not name.
 * Fresh; its texts are those of the settings. */
const char **smoe_combinations_wanted(const smoe_combinations *all, const smoe_settings *settings);

/* Whether combination i has what is wanted in every column but the seed, and in those without a
 * wanted value what combination `own` has; SIZE_MAX: anything. */
bool smoe_combinations_fit(const smoe_combinations *all, size_t i, const char *const *wanted,
                           size_t own);

/* The number of other combinations that fit so; *found is one of them. */
size_t smoe_combinations_fitting(const smoe_combinations *all, const char *const *wanted,
                                 size_t own, size_t *found);

/* ---- margins --------------------------------------------------------------------------------- */

/* Margins within which two settings count as equivalent: "0.01", for shares (precision, dropped,
 * few-shot accuracies), or "METRIC=0.01,METRIC=0.1". */

/* The margin of a metric; NAN: none. `text` may be NULL. */
double smoe_margin_of(const char *text, const char *metric);

/* SMOE_USAGE: no positive numbers, or metrics that are not measured; `from` says where they were
 * given, for the message. */
int smoe_margin_check(const char *text, const char *from, smoe_err *err) SMOE_MUST_CHECK;
