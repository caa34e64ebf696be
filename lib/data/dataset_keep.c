/*
 * Which images of an open set are used, and as which classes: data.on_error, data.exclude, and the
 * classes of a model that is evaluated; see dataset.h. Unused images are skipped: image i of the
 * set is image kept[i] of its source.
 */
#include "base/accents.h"
#include "base/file.h"
#include "data/dataset_source.h"

/* ---- images ---------------------------------------------------------------------------------- */

void smoe_dataset_keep(smoe_dataset *set, const bool *keep) {
    size_t count = 0, *part_at = smoe_alloc_in(&set->memory, set->parts + 1, sizeof *part_at);
    uint32_t *kept = smoe_alloc_in(&set->memory, set->images, sizeof *kept);
    for (size_t i = 0, p = 0; i < set->images; i++) {
        for (; p < set->parts && i == set->part_at[p]; p++) part_at[p] = count;
        if (keep[i]) kept[count++] = (uint32_t)smoe_dataset_place(set, i);
    }
    part_at[set->parts] = count;
    set->part_at = part_at;
    set->kept = kept;
    set->images = count;
}

/* ---- data.on_error skip ---------------------------------------------------------------------- */

typedef struct sifting {
    const smoe_dataset *set;
    smoe_err **why; /* [images] what is wrong with each, else NULL */
} sifting;

static int try_to_decode(void *context, size_t i, smoe_image *image, smoe_image *work,
                         smoe_err *err) {
    const sifting *s = context;
    (void)err;
    smoe_err mine = {0};
    if (!smoe_dataset_decode(s->set, smoe_dataset_place(s->set, i), NULL, image, work, &mine))
        return 0;
    s->why[i] = smoe_alloc(1, sizeof mine);
    *s->why[i] = mine;
    return 0;
}

static void leave_out(smoe_dataset *set, size_t i, const smoe_err *why) {
    char own[SMOE_IMAGE_NAME];
    const char *name = smoe_dataset_image_name(set, i, own, sizeof own);
    smoe_dataset_report *r = &set->report;
    if (!r->name) r->name = smoe_alloc_in(&set->memory, set->images, sizeof *r->name);
    r->name[r->damaged++] = smoe_alloc_text_in(&set->memory, name);
    smoe_dataset_leave_out(set, why);
}

char *smoe_dataset_remedy(const smoe_dataset_report *r) {
    size_t others = r->left_out - r->damaged;
    if (!others)
        return smoe_text_format("data.exclude takes the list of them that smoe data -o DIR writes, "
                                "exclude.txt");
    const char *them = others == 1 ? "it" : "them";
    if (!r->damaged)
        return smoe_text_format("data.exclude cannot name %s: correct %s, or take %s out of the "
                                "data",
                                them, them, them);
    return smoe_text_format("data.exclude takes the list of the %zu damaged image%s that smoe data "
                            "-o DIR writes, exclude.txt; correct the %zu other%s, or take %s out "
                            "of the data",
                            r->damaged, SMOE_S(r->damaged), others, SMOE_S(others), them);
}

int smoe_dataset_sift(smoe_dataset *set, smoe_err *err) {
    const size_t n = set->images;
    SMOE_FREED bool *keep = smoe_alloc(n, sizeof *keep);
    sifting all = {set, smoe_alloc(n, sizeof *all.why)};
    int status = smoe_image_each(n, try_to_decode, &all, set->scan, "images read", err);
    for (size_t i = 0; i < n; i++) {
        keep[i] = !all.why[i];
        if (keep[i]) continue;
        if (all.why[i]->code == SMOE_DATA)
            leave_out(set, i, all.why[i]);
        else if (!status)
            status = smoe_fail(err, all.why[i]->code, "%s", all.why[i]->text);
        free(all.why[i]);
    }
    if (!status && set->report.left_out) smoe_dataset_keep(set, keep);
    free(all.why);
    if (status || (set->tolerant && set->images)) return status;
    if (set->report.left_out * SMOE_LEFT_MOST <= set->report.left_out + set->images) return 0;
    SMOE_FREED char *remedy = smoe_dataset_remedy(&set->report);
    return smoe_fail(err, SMOE_DATA,
                     "%s: %zu of %zu images cannot be used, more than one of %d: %s; %s", set->path,
                     set->report.left_out, set->report.left_out + set->images, SMOE_LEFT_MOST,
                     set->report.left[0], remedy);
}

/* ---- data.exclude ---------------------------------------------------------------------------- */

/* The lines of a text that are neither empty nor comments, sorted; the text is cut at their
 * ends. */
static size_t read_names(char *text, const char ***name) {
    size_t count = 0;
    char *rest = NULL;
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* the mark of UTF-8 */
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (*line == '#') continue;
        while (!strncmp(line, "./", 2)) line += 2;
        SMOE_APPEND(*name, count) = line;
    }
    return count;
}

/* data.exclude, sorted, and which of the names are those of images. */
struct smoe_excluded {
    char *path;
    const char **name; /* [count] */
    bool *seen;        /* [count] */
    size_t count;
};

static size_t kept_find(const void *excluded, const char *image) {
    const smoe_excluded *list = excluded;
    return smoe_texts_find(list->name, list->count, image);
}

/* Which images of the set the list names: keep[i] is false, unless keep is NULL. Their number. */
static size_t kept_mark(bool *keep, const smoe_excluded *list, const smoe_dataset *set) {
    char own[SMOE_IMAGE_NAME];
    size_t found = 0;
    for (size_t i = 0; i < set->images; i++) {
        const char *image = smoe_dataset_image_name(set, i, own, sizeof own);
        size_t k = smoe_accents_find(kept_find, list, image);
        if (k < SIZE_MAX) list->seen[k] = true;
        if (keep) keep[i] = k == SIZE_MAX;
        found += k < SIZE_MAX;
    }
    return found;
}

const char *smoe_dataset_unseen(const smoe_dataset *set, const smoe_dataset *other) {
    const smoe_excluded *list = set->excluded;
    if (other) kept_mark(NULL, list, other);
    for (size_t k = 0; list && k < list->count; k++)
        if (!list->seen[k]) return list->name[k];
    return NULL;
}

static int kept_leave_out(smoe_dataset *set, smoe_err *err) {
    const smoe_excluded *list = set->excluded;
    SMOE_FREED bool *keep = smoe_alloc(set->images, sizeof *keep);
    size_t found = kept_mark(keep, list, set);
    if (found) smoe_dataset_keep(set, keep);
    if (!set->images)
        return smoe_fail(err, SMOE_DATA, "%s: names all images of %s, so none is left", list->path,
                         set->split);
    smoe_dataset_remark_on(
        set, "data.exclude: %zu image%s of %s %s left out, of the %zu that %s names", found,
        SMOE_S(found), set->split, found == 1 ? "is" : "are", list->count, list->path);
    return 0;
}

int smoe_dataset_exclude(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    enum { MOST_BYTES = 1 << 30 };
    SMOE_FREED char *path = NULL;
    SMOE_FREED char *text = NULL;
    SMOE_FREED const char **name = NULL;
    size_t size;
    if (!spec->data.exclude || set->excluded) return 0;
    if (smoe_spec_path(spec, "data.exclude", &path, err) ||
        smoe_file_read(path, MOST_BYTES, &text, &size, err))
        return -1;
    if (strlen(text) != size)
        return smoe_fail(err, SMOE_DATA, "%s: not a text file: byte %zu is zero", path,
                         strlen(text));
    smoe_excluded *list = set->excluded = smoe_alloc_in(&set->memory, 1, sizeof *list);
    size_t count = read_names(smoe_alloc_text_in(&set->memory, text), &name);
    list->path = smoe_alloc_text_in(&set->memory, path);
    list->count = smoe_texts_sort(name, count);
    list->name = smoe_alloc_in(&set->memory, count, sizeof *list->name);
    list->seen = smoe_alloc_in(&set->memory, count, sizeof *list->seen);
    if (count) memcpy(list->name, name, count * sizeof *name);
    return kept_leave_out(set, err);
}

/* ---- the classes of a model ------------------------------------------------------------------ */

static bool is_place(const char *name, size_t k) {
    char number[24];
    snprintf(number, sizeof number, "%zu", k);
    return !strcmp(name, number);
}

/* Whether the classes have names, and not only their numbers. */
static bool has_names(char *const *name, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!is_place(name[k], k) && strcmp(name[k], smoe_dataset_unnamed) != 0) return true;
    return false;
}

bool smoe_dataset_has_names(const smoe_dataset *set) {
    return has_names(set->class_name, set->named);
}

/* A table of labels where the source computes them. */
static void make_table(smoe_dataset *set) {
    if (set->label) return;
    uint32_t *label = smoe_alloc_in(&set->memory, set->images, sizeof *label);
    for (size_t i = 0; i < set->images; i++) label[i] = (uint32_t)set->type->label(set, i, NULL);
    set->label = label;
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
    enum { SHOWN = 5 };
    size_t all = 0;
    char item[80];
    *buf = '\0';
    for (size_t k = 0; k < set->named; k++)
        if (number[k] == UINT32_MAX && all++ < SHOWN)
            smoe_text_list(buf, size, "%s",
                           smoe_text_member(set->class_name[k], item, sizeof item));
    size_t used = strlen(buf);
    if (all > SHOWN) snprintf(buf + used, size - used, " and %zu more", all - SHOWN);
    return buf;
}

char *smoe_dataset_untrained(const smoe_dataset *set, const smoe_dataset *train) {
    char text[600];
    size_t N = set->named, images = 0, classes = 0;
    if (set == train || smoe_dataset_endless(train)) return NULL;
    SMOE_FREED uint32_t *number = smoe_alloc(N, sizeof *number); /* UINT32_MAX: untrained */
    SMOE_FREED bool *trained = smoe_alloc(N, sizeof *trained);
    SMOE_FREED size_t *label = smoe_alloc(train->classes, sizeof *label);
    for (size_t i = 0; i < train->images; i++) {
        size_t count = smoe_dataset_all_labels(train, i, label, train->classes);
        for (size_t k = 0; k < count && k < train->classes; k++)
            if (label[k] < N) trained[label[k]] = true;
    }
    for (size_t i = 0; i < set->images; i++) {
        size_t class = smoe_dataset_label(set, i);
        if (class >= N || trained[class]) continue;
        images++;
        classes += number[class] != UINT32_MAX;
        number[class] = UINT32_MAX;
    }
    if (!images) return NULL;
    return smoe_text_format("%s has %zu image%s of %zu class%s of which train has none, so that "
                            "no model can learn %s: %s",
                            set->split, images, SMOE_S(images), classes, SMOE_ES(classes),
                            classes == 1 ? "it" : "them",
                            unknown_text(set, number, text, sizeof text));
}

static void rename_classes(smoe_dataset *set, char *const *name, size_t count) {
    set->classes = count;
    smoe_dataset_name_classes(set, (const char *const *)name, count);
}

/* Renumbers the classes of the data as in the model; UINT32_MAX: the model does not have it. */
static void apply(smoe_dataset *set, const uint32_t *number, size_t unknown) {
    char text[600];
    size_t last = 0, to = 0, left = 0;
    make_table(set);
    for (size_t i = 0; i < set->images; i++) last = smoe_dataset_place(set, i) + 1;
    SMOE_FREED bool *keep = smoe_alloc(set->images, sizeof *keep);
    SMOE_FREED bool *known = smoe_alloc(last, sizeof *known);
    for (size_t place = 0; place < last; place++) known[place] = renumber(set, place, number, &to);
    if (set->more) set->more_at[last] = to;
    for (size_t i = 0; i < set->images; i++) {
        keep[i] = known[smoe_dataset_place(set, i)];
        left += !keep[i];
    }
    if (left) smoe_dataset_keep(set, keep);
    if (unknown)
        smoe_dataset_remark_on(set,
                               "the model does not know %s: %zu image%s left out, and %zu used",
                               unknown_text(set, number, text, sizeof text), left,
                               left == 1 ? " is" : "s are", set->images);
}

/* The place of a name among those of the model, looked for from `from` on. */
static uint32_t kept_number_of(const char *class, char *const *name, size_t count, size_t from) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name[(from + i) % count], class)) return (uint32_t)((from + i) % count);
    for (size_t i = 0; i < count; i++)
        if (smoe_accents_same(name[i], class)) return (uint32_t)i;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name[i], smoe_dataset_unnamed) && is_place(class, i)) return (uint32_t)i;
    return UINT32_MAX;
}

/* Whether classes are matched by name: both have names; or only one has, which are numbers in
 * another order (as of folders 0, 1, 10, 2), and the model has each number of the data. */
static bool by_names(const smoe_dataset *set, char *const *name, size_t count) {
    bool there = has_names(name, count), here = has_names(set->class_name, set->named);
    bool all = there != here;
    for (size_t k = 0; all && k < set->named; k++)
        all = kept_number_of(set->class_name[k], name, count, k) < count;
    return all || (there && here);
}

/* The first class k > 0 of those that are numbers in the order of texts, as 10 after 1; 0: none. */
static size_t sorted_as_texts(char *const *name, size_t count) {
    size_t at = 0;
    for (size_t k = 0; k < count; k++) {
        if (!*name[k] || name[k][strspn(name[k], "0123456789")]) return 0;
        if (!at && k && strlen(name[k]) < strlen(name[k - 1]) && *name[k] != '0') at = k;
    }
    return at;
}

char *smoe_dataset_sorted_as_texts(const smoe_dataset *set) {
    size_t at = sorted_as_texts(set->class_name, set->named);
    if (!at) return NULL;
    return smoe_text_format("classes are matched by their places in the order of texts, because "
                            "the model has no names of them: %s comes after %s, in place %zu; "
                            "if the model has them in the order of numbers, write these with as "
                            "many digits each, such as 02",
                            set->class_name[at], set->class_name[at - 1], at);
}

/* Whether the classes of one are numbers in the order of texts, as 1, 10, 2, and those of the other
 * one have no names: neither their names nor their places match. */
static bool unmatchable(const smoe_dataset *set, char *const *name, size_t count) {
    return !by_names(set, name, count) &&
           (sorted_as_texts(set->class_name, set->named) || sorted_as_texts(name, count));
}

bool smoe_dataset_other_classes(const smoe_dataset *set, char *const *name, size_t count,
                                uint32_t **order) {
    bool same = count == set->named, each = same;
    *order = NULL;
    for (size_t k = 0; same && k < count; k++)
        same = smoe_accents_same(set->class_name[k], name[k]);
    if (same || !by_names(set, name, count)) return !same && unmatchable(set, name, count);
    uint32_t *number = smoe_alloc(set->named, sizeof *number);
    SMOE_FREED bool *taken = smoe_alloc(count, sizeof *taken);
    for (size_t k = 0; each && k < count; k++) {
        number[k] = kept_number_of(set->class_name[k], name, count, 0);
        each = number[k] < count && !taken[number[k]];
        if (each) taken[number[k]] = true;
    }
    if (each)
        *order = number;
    else
        free(number);
    return !each;
}

int smoe_dataset_align(smoe_dataset *set, char *const *name, size_t count, smoe_err *err) {
    const char *where = set->path ? set->path : set->name;
    size_t same = 0, unknown = 0;
    while (same < set->named && same < count && !strcmp(set->class_name[same], name[same])) same++;
    bool here = has_names(set->class_name, set->named);
    bool named = by_names(set, name, count), numbered = here != has_names(name, count) && !named;
    if (same == set->named && same == count && count == set->classes) return 0;
    if (unmatchable(set, name, count))
        return smoe_fail(err, SMOE_DATA,
                         "%s: its classes (%.80s, ...) and those of the model (%.80s, ...) are "
                         "numbers, some in the order of texts (1, 10, 2), and not all of the data "
                         "are in the model: name them as the model does",
                         where, set->class_name[0], name[0]);
    set->keeper = NULL; /* it has changed since it was opened */
    if (same == set->named) {
        rename_classes(set, name, count);
        return 0;
    }
    if (numbered && count == set->classes)
        smoe_dataset_remark_on(set, "classes are matched by their numbers, because %s has no names",
                               here ? "the model" : "the data");
    if (numbered) return 0;
    SMOE_FREED uint32_t *number = smoe_alloc(set->named, sizeof *number);
    for (size_t k = 0; k < set->named; k++) { /* mostly both are sorted */
        if (named)
            number[k] = kept_number_of(set->class_name[k], name, count, k ? number[k - 1] + 1u : 0);
        else
            number[k] = k < count ? (uint32_t)k : UINT32_MAX;
        unknown += number[k] == UINT32_MAX;
    }
    if (unknown < set->named) apply(set, number, unknown);
    if (unknown == set->named)
        return smoe_fail(err, SMOE_DATA,
                         "%s: none of its classes (%.80s, ...) is one of the model (%.80s, ...)",
                         where, set->class_name[0], name[0]);
    if (!set->images)
        return smoe_fail(err, SMOE_DATA, "%s: no images of a class of the model", where);
    rename_classes(set, named ? name : NULL, count);
    return 0;
}
