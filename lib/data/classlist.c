/* Classes of samples; see classlist.h. */
#include "data/classlist.h"
#include "base/alloc.h"

#include <ctype.h>

enum { MOST = 10000000 }; /* classes */

static void classlist_add(smoe_classlist *l, uint32_t class) {
    l->item = smoe_alloc_next(l->item, l->count, sizeof *l->item);
    l->item[l->count++] = class;
}

static int mixed(const smoe_classlist *l, const char *what, smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "the class %s is no %s, but others are", what,
                     l->numbered ? "number" : "name");
}

static int add_number(smoe_classlist *l, unsigned long long number, smoe_err *err) {
    char text[24];
    snprintf(text, sizeof text, "%llu", number);
    if (l->names) return mixed(l, text, err);
    if (number >= MOST)
        return smoe_fail(err, SMOE_DATA, "class %llu, must be below %d", number, MOST);
    l->numbered = true;
    classlist_add(l, (uint32_t)number);
    return 0;
}

/* The place of a name in the sorted order, or where it would be. */
static size_t classlist_place_of(const smoe_classlist *l, const char *name, bool *there) {
    size_t low = 0, high = l->names;
    *there = false;
    while (low < high && !*there) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, l->name[l->order[middle]]);
        *there = !order;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *there ? high : low;
}

/* *number: that of the name, which is new or not. */
static int classlist_enter(smoe_classlist *l, const char *name, uint32_t *number, smoe_err *err) {
    bool there;
    size_t at = classlist_place_of(l, name, &there);
    if (there) return *number = l->order[at], 0;
    if (!smoe_text_printable(name))
        return smoe_fail(err, SMOE_DATA, "the name of a class is not printable UTF-8");
    l->name = smoe_alloc_next(l->name, l->names, sizeof *l->name);
    l->order = smoe_alloc_next(l->order, l->names, sizeof *l->order);
    l->name[l->names] = smoe_alloc_text(name);
    memmove(l->order + at + 1, l->order + at, (l->names - at) * sizeof *l->order);
    l->order[at] = *number = (uint32_t)l->names++;
    return 0;
}

int smoe_classlist_name(smoe_classlist *l, const char *name, smoe_err *err) {
    uint32_t number;
    if (l->numbered) return mixed(l, name, err);
    if (classlist_enter(l, name, &number, err)) return -1;
    classlist_add(l, number);
    return 0;
}

static char *classlist_trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]); n--) text[n - 1] = '\0';
    return text;
}

static int nothing(smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "no class");
}

int smoe_classlist_text(smoe_classlist *l, const char *text, smoe_err *err) {
    static const char numbers[] = "0123456789,;|[] \t\r\n";
    char *own = smoe_alloc_text(text), *rest = NULL;
    bool numeric = strspn(own, numbers) == strlen(own);
    size_t before = l->count;
    int status = 0;
    for (char *word = strtok_r(own, numeric ? numbers + 10 : ";|", &rest); word && !status;
         word = strtok_r(NULL, numeric ? numbers + 10 : ";|", &rest)) {
        if (numeric)
            status = add_number(l, strtoull(word, NULL, 10), err);
        else if (*classlist_trimmed(word))
            status = smoe_classlist_name(l, classlist_trimmed(word), err);
    }
    free(own);
    return status || l->count > before ? status : nothing(err);
}

int smoe_classlist_json(smoe_classlist *l, const json_t *value, smoe_err *err) {
    size_t before = l->count;
    int status = 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return add_number(l, (unsigned long long)json_integer_value(value), err);
    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        return smoe_classlist_name(l, json_string_value(value), err);
    for (size_t i = 0; i < json_array_size(value) && !status; i++) {
        const json_t *item = json_array_get(value, i);
        status = json_is_array(item) ? nothing(err) : smoe_classlist_json(l, item, err);
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
    bool there;
    for (size_t i = 0; i < l->names; i++) {
        (void)classlist_place_of(of, l->name[i], &there);
        if (!there)
            return smoe_fail(err, SMOE_DATA, "the class %s is not one of train", l->name[i]);
    }
    for (size_t i = 0; i < of->names; i++) {
        uint32_t number;
        if (classlist_enter(l, of->name[i], &number, err)) return -1;
    }
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
    SMOE_FREED uint32_t *rank = smoe_alloc(l->names, sizeof *rank);
    for (size_t k = 0; k < l->names; k++) {
        name[k] = l->name[l->order[k]];
        rank[l->order[k]] = (uint32_t)k;
    }
    for (size_t i = 0; i < l->count; i++) l->item[i] = rank[l->item[i]];
    smoe_dataset_name_classes(set, name, l->names);
}

void smoe_classlist_free(smoe_classlist *l) {
    for (size_t i = 0; i < l->names; i++) free(l->name[i]);
    free(l->name);
    free(l->order);
    free(l->item);
    *l = (smoe_classlist){0};
}
