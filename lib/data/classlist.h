/* The classes of the samples of a data set, collected in the order in which samples are read: as
 * numbers, or by names. Leaves to others: where samples are, and which of them are used. */
#pragma once

#include "data/dataset_source.h"

#include <jansson.h>

/* The classes of all samples: numbers, or names, which become numbers in the end. */
typedef struct smoe_classlist {
    uint32_t *item; /* [count] of one sample after another */
    size_t count;
    struct smoe_classname **name; /* [names] in the order in which they came; owned */
    size_t names;
    void *tree;    /* the same by name, of tsearch */
    bool numbered; /* what came first was a number */
} smoe_classlist;

/* Adds a class by its name. SMOE_DATA: others are numbers, or the name is not printable. */
int smoe_classlist_name(smoe_classlist *list, const char *name, smoe_err *err) SMOE_MUST_CHECK;
/* Adds the classes of a text: one number or several ("3", "0,2", "[0, 2]"), or one name or several
 * ("cat", "dog;bird"). SMOE_DATA: there is none, or numbers and names are mixed. */
int smoe_classlist_text(smoe_classlist *list, const char *text, smoe_err *err) SMOE_MUST_CHECK;
/* The same of JSON: a number, a text that is the name of one class, or a list of them. */
int smoe_classlist_json(smoe_classlist *list, const json_t *value, smoe_err *err) SMOE_MUST_CHECK;

/* Keeps each of the items from number `from` on only once. */
void smoe_classlist_once(smoe_classlist *list, size_t from);

/* Takes over the numbers of another list, such as that of train, and its names that do not occur
 * here. SMOE_DATA: the other list lacks a name. */
int smoe_classlist_adopt(smoe_classlist *list, const smoe_classlist *of,
                         smoe_err *err) SMOE_MUST_CHECK;

/* Names become numbers in the order of the alphabet, and the set gets them as its classes; numbers
 * are classes from 0 to the largest one. */
void smoe_classlist_settle(smoe_classlist *list, smoe_dataset *set);

void smoe_classlist_free(smoe_classlist *list);
