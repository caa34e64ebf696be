/* Settings as a text has them, "KEY=VALUE,KEY=VALUE"; the value "*" is any. */
#ifndef SMOE_SETTINGS_H
#define SMOE_SETTINGS_H

#include "base/base.h"

typedef struct smoe_setting {
    char *key, *value; /* value NULL: the item has no '=' */
} smoe_setting;

typedef struct smoe_settings {
    smoe_setting *item;
    size_t count;
} smoe_settings;

/* Combinations of settings: of the runs that there are or will be, no two the same but for the
 * seed. */
typedef struct smoe_combinations {
    const char *prefix; /* before the columns' names, where settings name them; "": nothing */
    char *const *column;
    size_t columns, seed; /* SIZE_MAX: no column is the seed */
    char *const **value;  /* [count][columns] */
    size_t count;
} smoe_combinations;

/* 0, or -1 (out of memory). Free in any case. */
int smoe_settings_read(smoe_settings *settings, const char *text) SMOE_MUST_CHECK;
void smoe_settings_free(smoe_settings *settings);

/* What is set for a key, or NULL. */
const char *smoe_settings_value(const smoe_settings *settings, const char *key);

/* Is a value "*"? NULL is not. */
bool smoe_settings_is_any(const char *value);

/* A value as a number; false where it is no positive one. */
bool smoe_settings_number(const char *value, double *x);

#endif
