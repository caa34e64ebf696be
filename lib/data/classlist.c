/* The classes of samples, as they are read; see classlist.h. */
#include "data/classlist.h"
#include "base/json.h"
#include "data/labels.h"

#include <search.h>

enum { MOST_CLASSES = 10000000 };

/* The name of a class, and its number. */
struct smoe_classname {
    uint32_t number;
    char name[];
};
typedef struct smoe_classname classname;

static int mixed(const smoe_classlist *l, const char *what, smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "the class %s is not a %s, but others are", what,
                     l->numbered ? "number" : "name");
}

static int add_number(smoe_classlist *l, const char *digits, smoe_err *err) {
    unsigned long long number = strtoull(digits, NULL, 10); /* the largest one if beyond 64 bits */
    if (l->names) return mixed(l, digits, err);
    if (number >= MOST_CLASSES)
        return smoe_fail(err, SMOE_DATA, "class %.40s: the number of a class must be below %d",
                         digits, MOST_CLASSES);
    l->numbered = true;
    SMOE_APPEND(l->item, l->count) = (uint32_t)number;
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const classname *)a)->name, ((const classname *)b)->name);
}

/* *number: that of the name, which is new or not. */
static int classlist_enter(smoe_classlist *l, const char *name, uint32_t *number, smoe_err *err) {
    if (!smoe_text_printable(name))
        return smoe_fail(err, SMOE_DATA, "the name of a class is not printable UTF-8");
    classname *own = smoe_alloc(1, sizeof *own + strlen(name) + 1);
    strcpy(own->name, name);
    own->number = (uint32_t)l->names;
    classname **there = tsearch(own, &l->tree, compare_names);
    if (!there) smoe_alloc_end();
    if (*there == own) {
        SMOE_APPEND(l->name, l->names) = own;
    } else {
        free(own);
    }
    *number = (*there)->number;
    return 0;
}

int smoe_classlist_name(smoe_classlist *l, const char *name, smoe_err *err) {
    uint32_t number;
    if (l->numbered) return mixed(l, name, err);
    if (classlist_enter(l, name, &number, err)) return -1;
    SMOE_APPEND(l->item, l->count) = number;
    return 0;
}

static int nothing(smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "no class");
}

int smoe_classlist_text(smoe_classlist *l, const char *text, smoe_err *err) {
    static const char numbers[] = "0123456789,;|[] \t\r\n";
    char *own = smoe_alloc_text(text), *rest = NULL;
    bool numeric = strspn(own, numbers) == strlen(own);
    const char *between = numeric ? numbers + strlen("0123456789") : ";|";
    size_t before = l->count;
    int status = 0;
    for (char *word = strtok_r(own, between, &rest); word && !status;
         word = strtok_r(NULL, between, &rest)) {
        if (numeric)
            status = add_number(l, word, err);
        else if (*smoe_labels_trimmed(word))
            status = smoe_classlist_name(l, smoe_labels_trimmed(word), err);
    }
    free(own);
    return status || l->count > before ? status : nothing(err);
}

int smoe_classlist_json(smoe_classlist *l, const json_t *value, smoe_err *err) {
    size_t before = l->count;
    int status = 0;
    SMOE_FREED char *number = json_is_integer(value) ? smoe_json_dump(value, 0) : NULL;
    if (number && json_integer_value(value) >= 0) return add_number(l, number, err);
    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        return smoe_classlist_name(l, json_string_value(value), err);
    for (size_t i = 0; i < json_array_size(value) && !status; i++) {
        const json_t *item = json_array_get(value, i);
        status = json_is_array(item) ? nothing(err) : smoe_classlist_json(l, item, err);
    }
    if (!json_is_array(value)) {
        SMOE_FREED char *text = smoe_json_dump(value, 0);
        return smoe_fail(err, SMOE_DATA,
                         "%.40s is no class: write a whole number from 0, or a name", text);
    }
    return status || l->count > before ? status : nothing(err);
}

void smoe_classlist_once(smoe_classlist *l, size_t from) {
    size_t kept = from;
    for (size_t i = from; i < l->count; i++) {
        size_t k = from;
        while (k < kept && l->item[k] != l->item[i]) k++;
        if (k == kept) l->item[kept++] = l->item[i];
    }
    l->count = kept;
}

int smoe_classlist_adopt(smoe_classlist *l, const smoe_classlist *of, smoe_err *err) {
    uint32_t number;
    for (size_t i = 0; i < l->names; i++)
        if (!tfind(l->name[i], &of->tree, compare_names))
            return smoe_fail(err, SMOE_DATA, "the class %s is not one of train", l->name[i]->name);
    for (size_t i = 0; i < of->names; i++)
        if (classlist_enter(l, of->name[i]->name, &number, err)) return -1;
    return 0;
}

void smoe_classlist_settle(smoe_classlist *l, smoe_dataset *set) {
    size_t classes = 1;
    for (size_t i = 0; i < l->count; i++)
        if (l->item[i] >= classes) classes = (size_t)l->item[i] + 1;
    if (!l->names) {
        smoe_dataset_name_classes(set, NULL, classes);
        return;
    }
    SMOE_FREED const char **name = smoe_alloc(l->names, sizeof *name);
    for (size_t k = 0; k < l->names; k++) name[k] = l->name[k]->name;
    (void)smoe_texts_sort(name, l->names);
    for (size_t k = 0; k < l->names; k++)
        l->name[k]->number = (uint32_t)smoe_texts_find(name, l->names, l->name[k]->name);
    for (size_t i = 0; i < l->count; i++) l->item[i] = l->name[l->item[i]]->number;
    smoe_dataset_name_classes(set, name, l->names);
}

void smoe_classlist_free(smoe_classlist *l) {
    tdestroy(l->tree, free);
    free(l->name);
    free(l->item);
    *l = (smoe_classlist){0};
}
