/*
 * Which images of a set that was opened are used, and as which classes: data.exclude, and the
 * classes of a model that is evaluated; see dataset.h. What is not used is passed over: image i of
 * the set is image kept[i] of its source.
 */
#include "base/file.h"
#include "data/dataset_source.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(smoe_err *err) {
    return smoe_fail(err, SMOE_RUNTIME, "out of memory for the list of images");
}

/* ---- images ---------------------------------------------------------------------------------- */

int smoe_dataset_keep(smoe_dataset *set, const bool *keep, smoe_err *err) {
    size_t count = 0, *part_at = set->parts ? calloc(set->parts + 1, sizeof *part_at) : NULL;
    uint32_t *kept = malloc((set->images + 1) * sizeof *kept);
    if (!kept || (set->parts && !part_at)) {
        free(part_at);
        free(kept);
        return no_memory(err);
    }
    for (size_t i = 0, p = 0; i < set->images; i++) {
        for (; p < set->parts && i == set->part_at[p]; p++) part_at[p] = count;
        if (keep[i]) kept[count++] = (uint32_t)smoe_dataset_place(set, i);
    }
    if (set->parts) part_at[set->parts] = count;
    free(set->part_at);
    free(set->kept);
    set->part_at = part_at;
    set->kept = kept;
    set->images = count;
    return 0;
}

/* ---- data.exclude ---------------------------------------------------------------------------- */

static int compare_texts(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* The lines of a text that are not empty and no remarks, sorted; it is cut at their ends. */
static int read_names(char *text, const char ***name, size_t *count, smoe_err *err) {
    size_t room = 1;
    for (const char *c = text; *c; c++) room += *c == '\n';
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* the mark of UTF-8 */
    *name = malloc(room * sizeof **name);
    *count = 0;
    if (!*name) return no_memory(err);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
        if (*line != '#') (*name)[(*count)++] = line;
    qsort(*name, *count, sizeof **name, compare_texts);
    return 0;
}

static int leave_out(smoe_dataset *set, const char *path, const char **name, size_t count,
                     smoe_err *err) {
    bool *keep = malloc(set->images + 1);
    size_t found = 0;
    char own[SMOE_IMAGE_NAME];
    if (!keep) return no_memory(err);
    for (size_t i = 0; i < set->images; i++) {
        const char *key = smoe_dataset_image_name(set, i, own, sizeof own);
        keep[i] = !bsearch(&key, name, count, sizeof *name, compare_texts);
        found += !keep[i];
    }
    int status = found ? smoe_dataset_keep(set, keep, err) : 0;
    free(keep);
    if (!status && !set->images)
        status = smoe_fail(err, SMOE_DATA, "%s: names all images of %s", path, set->split);
    if (status) return -1;
    return smoe_dataset_remark_on(
        set, err, "data.exclude: %zu images of %s are left out, of the %zu that %s names", found,
        set->split, count, path);
}

int smoe_dataset_exclude(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    enum { MOST_BYTES = 1 << 30 };
    char *path = NULL, *text = NULL;
    const char **name = NULL;
    size_t size, count;
    if (!spec->data.exclude) return 0;
    int status = smoe_spec_data_exclude(spec, &path, err);
    if (!status) status = smoe_file_read(path, MOST_BYTES, &text, &size, err);
    if (!status && strlen(text) != size)
        status = smoe_fail(err, SMOE_DATA, "%s: not a text: byte %zu is zero", path, strlen(text));
    if (!status) status = read_names(text, &name, &count, err);
    if (!status) status = leave_out(set, path, name, count, err);
    free(name);
    free(text);
    free(path);
    return status;
}

/* ---- the classes of a model ------------------------------------------------------------------ */

/* Whether the classes have names, and not only their numbers. */
static bool has_names(char *const *name, size_t count) {
    char number[24];
    for (size_t k = 0; k < count; k++) {
        snprintf(number, sizeof number, "%zu", k);
        if (strcmp(name[k], number) != 0 && strcmp(name[k], "(unnamed)") != 0) return true;
    }
    return false;
}

static int compare_places(const void *x, const void *y) {
    return strcmp(**(char *const *const *)x, **(char *const *const *)y);
}

/* A table of labels where the source computes them. */
static int make_table(smoe_dataset *set, smoe_err *err) {
    if (set->label) return 0;
    uint32_t *label = malloc((set->images + 1) * sizeof *label);
    if (!label) return no_memory(err);
    for (size_t i = 0; i < set->images; i++) label[i] = (uint32_t)set->type->label(set, i, NULL);
    set->label = label;
    return 0;
}

/* Renumbers the labels of an image of the source; false where it has none of the classes. */
static bool renumber(smoe_dataset *set, size_t place, const uint32_t *number, size_t *to) {
    if (!set->more) return (set->label[place] = number[set->label[place]]) != UINT32_MAX;
    size_t from = *to, first = set->more_at[place];
    for (size_t k = first; k < set->more_at[place + 1]; k++) {
        uint32_t class = number[set->more[k]];
        if (class != UINT32_MAX) set->more[(*to)++] = class;
    }
    set->more_at[place] = from;
    set->label[place] = number[set->label[place]];
    if (set->label[place] == UINT32_MAX && *to > from) set->label[place] = set->more[from];
    return set->label[place] != UINT32_MAX;
}

/* Names of the classes of the set that are not used, "wolf, yak and 3 more". */
static const char *unknown_text(const smoe_dataset *set, const uint32_t *number, char *buf,
                                size_t size) {
    size_t shown = 0, all = 0, used = 0;
    for (size_t k = 0; k < set->named; k++) {
        if (number[k] != UINT32_MAX) continue;
        if (all++ >= 5) continue;
        used += (size_t)snprintf(buf + used, size - used, "%s%.80s", shown ? ", " : "",
                                 set->class_name[k]);
        shown++;
    }
    if (all > shown) snprintf(buf + used, size - used, " and %zu more", all - shown);
    return buf;
}

static void rename_classes(smoe_dataset *set, char *const *name, size_t count) {
    for (size_t k = 0; k < set->named; k++) free(set->class_name[k]);
    free(set->class_name);
    set->classes = count;
    smoe_dataset_name_classes(set, (const char *const *)name, count);
}

/* Applies the numbers of the classes of the data among those of the model; UINT32_MAX: no class of
 * it. */
static int apply(smoe_dataset *set, const uint32_t *number, size_t unknown, smoe_err *err) {
    char text[600];
    bool *keep = malloc(set->images + 1), *known = NULL;
    size_t last = 0, to = 0, left = 0;
    int status = keep ? make_table(set, err) : no_memory(err);
    for (size_t i = 0; i < set->images; i++) last = smoe_dataset_place(set, i) + 1;
    if (!status && !(known = calloc(last + 1, sizeof *known))) status = no_memory(err);
    for (size_t place = 0; !status && place < last; place++)
        known[place] = renumber(set, place, number, &to);
    if (!status && set->more) set->more_at[last] = to;
    for (size_t i = 0; !status && i < set->images; i++) {
        keep[i] = known[smoe_dataset_place(set, i)];
        left += !keep[i];
    }
    if (!status && left) status = smoe_dataset_keep(set, keep, err);
    free(keep);
    free(known);
    if (status || !unknown) return status;
    return smoe_dataset_remark_on(
        set, err, "the model does not know %s: %zu images are left out, and %zu are used",
        unknown_text(set, number, text, sizeof text), left, set->images);
}

bool smoe_dataset_other_classes(const smoe_dataset *set, char *const *name, size_t count) {
    bool same = count == set->named;
    for (size_t k = 0; same && k < count; k++) same = !strcmp(set->class_name[k], name[k]);
    return !same && has_names(name, count) && has_names(set->class_name, set->named);
}

int smoe_dataset_align(smoe_dataset *set, char *const *name, size_t count, smoe_err *err) {
    size_t same = 0, unknown = 0;
    while (same < set->named && same < count && !strcmp(set->class_name[same], name[same])) same++;
    bool there = has_names(name, count), here = has_names(set->class_name, set->named);
    if (same == set->named) {
        rename_classes(set, name, count);
        return 0;
    }
    if (there != here && count == set->classes)
        return smoe_dataset_remark_on(set, err,
                                      "classes are matched by their numbers, for %s has no names",
                                      here ? "the model" : "the data");
    if (there != here) return 0;
    char *const **sorted = malloc((count + 1) * sizeof *sorted); /* places in `name`, by name */
    uint32_t *number = malloc((set->named + 1) * sizeof *number);
    int status = sorted && number ? 0 : no_memory(err);
    for (size_t k = 0; !status && k < count; k++) sorted[k] = &name[k];
    if (!status) qsort(sorted, count, sizeof *sorted, compare_places);
    for (size_t k = 0; !status && k < set->named; k++) {
        char *const *key = &set->class_name[k];
        char *const **at = bsearch(&key, sorted, count, sizeof *sorted, compare_places);
        number[k] = at ? (uint32_t)(*at - name) : UINT32_MAX;
        unknown += !at;
    }
    if (!status && unknown == set->named)
        status = smoe_fail(err, SMOE_DATA,
                           "%s: none of its classes (%.80s, ...) is one of the model (%.80s, ...)",
                           set->path ? set->path : set->name, set->class_name[0], name[0]);
    if (!status) status = apply(set, number, unknown, err);
    free(sorted);
    free(number);
    if (status) return -1;
    if (!set->images)
        return smoe_fail(err, SMOE_DATA, "%s: no images of a class of the model",
                         set->path ? set->path : set->name);
    rename_classes(set, name, count);
    return 0;
}
