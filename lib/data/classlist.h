/*
 * The classes of the samples of shards, one or several of each: numbers, or names, which become
 * numbers in the end. Leaves to others where they are written.
 */
#ifndef SMOE_DATA_CLASSLIST_H
#define SMOE_DATA_CLASSLIST_H

#include "data/dataset_source.h"

#include <jansson.h>

typedef struct smoe_classlist {
    uint32_t *item; /* [count] of one sample after another */
    size_t count;
    char **name;     /* [names] in the order in which they came; owned */
    uint32_t *order; /* [names] the same, sorted */
    size_t names;
    bool numbered; /* what came first was a number */
} smoe_classlist;

/* The classes of a sample are item[from .. list->count), with from the count before. A text is one
 * number or several ("3", "0,2", "[0, 2]"), or one name or several ("cat", "dog;bird"). SMOE_DATA:
 * there is none, or numbers and names are mixed. */
int smoe_classlist_text(smoe_classlist *list, const char *text, smoe_err *err) SMOE_MUST_CHECK;

/* A number, a text that is the name of one class, or a list of them. */
int smoe_classlist_json(smoe_classlist *list, const json_t *value, smoe_err *err) SMOE_MUST_CHECK;

/* Item `from` and those after it, each once. */
void smoe_classlist_once(smoe_classlist *list, size_t from);

int smoe_classlist_name(smoe_classlist *list, const char *name, smoe_err *err) SMOE_MUST_CHECK;

/* Takes the numbers of the names of another list, as of that of train, and adds what is not used
 * here. SMOE_DATA: a name that the other list does not have. */
int smoe_classlist_adopt(smoe_classlist *list, const smoe_classlist *of,
                         smoe_err *err) SMOE_MUST_CHECK;

/* Names become numbers in the order of the alphabet, and the set gets them as its classes; numbers
 * are classes from 0 to the largest one. */
void smoe_classlist_settle(smoe_classlist *list, smoe_dataset *set);

void smoe_classlist_free(smoe_classlist *list);

#endif
