/*
 * What an image folder gives to its data set: of the images that folder_list.c found, those of the
 * split, with the numbers of their classes.
 *
 * Classes are sorted by name; train and the split that is evaluated must both have images of every
 * class, for otherwise the numbers of the classes would differ between them. Other splits are not
 * checked. data.holdout takes images out of train; data.labels gives classes and splits in a table.
 * File order is by class, then name; with a table, by name.
 */
#include "base/rng.h"
#include "data/folder_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- classes --------------------------------------------------------------------------------- */

static int compare_class(const char *a, size_t n, const char *b, size_t m) {
    int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int compare_images(const void *x, const void *y) {
    const image *a = x, *b = y;
    int order = compare_class(a->name + a->class_at, a->class_end - a->class_at,
                              b->name + b->class_at, b->class_end - b->class_at);
    return order ? order : strcmp(a->name + a->class_end, b->name + b->class_end);
}

static int compare_names(const void *x, const void *y) {
    return strcmp(((const image *)x)->name, ((const image *)y)->name);
}

static int compare_classes(const void *x, const void *y) {
    return strcmp(((const class *)x)->name, ((const class *)y)->name);
}

/* Whether a folder of a split only has folders that are classes. */
static bool is_above_others(const listing *l, const class *c) {
    size_t n = strlen(c->name);
    for (size_t i = 0; c->folder && i < l->classes; i++) {
        const class *other = &l->class[i];
        if (!other->folder && other->split == c->split && !strncmp(other->name, c->name, n) &&
            (other->name[n] == '/' || !other->name[n]))
            return true;
    }
    return false;
}

static bool has_classes(const listing *l, size_t split) {
    bool some = false;
    for (size_t i = 0; i < l->classes; i++) some |= l->class[i].split == split;
    return some;
}

/* Reports, tables and the checkpoint take names of classes as text. */
static int check_class_name(const smoe_dataset *set, const char *name, smoe_err *err) {
    char shown[256] = "";
    if (smoe_text_printable(name)) return 0;
    for (size_t n = 0; *name && n + 5 < sizeof shown; name++) {
        unsigned char c = (unsigned char)*name;
        n += (size_t)snprintf(shown + n, sizeof shown - n, c >= ' ' && c < 127 ? "%c" : "\\x%02x",
                              c);
    }
    return smoe_fail(err, SMOE_DATA, "%s: the name of the class %s is not printable UTF-8",
                     set->path, shown);
}

static int compare_texts(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Images of a folder, and of folders in it, are different classes, which may not be meant. */
static int remark_on_mixtures(smoe_dataset *set, smoe_err *err) {
    int status = 0;
    for (size_t k = 0; k < set->named && !status; k++) {
        char *outer = strdup(set->class_name[k]), *slash = NULL;
        if (!outer) return smoe_listing_no_memory(err);
        while (!status && (slash = strrchr(outer, '/'))) {
            *slash = '\0';
            if (bsearch(&outer, set->class_name, set->named, sizeof outer, compare_texts))
                status = smoe_dataset_remark_on(
                    set, err, "images lie in %s/ and in %s/ too: these are two classes", outer,
                    set->class_name[k]);
        }
        free(outer);
    }
    return status;
}

/* Sorted names of the classes that count, each once: those of the split in use, of train, and for
 * train those of the split that will be evaluated. */
static int settle_classes(listing *l, size_t used, size_t evaluated, smoe_err *err) {
    if (evaluated == TEST && !has_classes(l, TEST)) evaluated = VAL;
    const char **name = calloc(l->classes + 1, sizeof *name);
    if (!name) return smoe_listing_no_memory(err);
    qsort(l->class, l->classes, sizeof *l->class, compare_classes);
    size_t count = 0;
    int status = 0;
    for (size_t i = 0; !status && i < l->classes; i++) {
        const class *c = &l->class[i];
        if (c->split != used && c->split != TRAIN && (used != TRAIN || c->split != evaluated))
            continue;
        if (is_above_others(l, c) || (count && !strcmp(name[count - 1], c->name))) continue;
        name[count++] = c->name;
        status = check_class_name(l->set, c->name, err);
    }
    if (!status) smoe_dataset_name_classes(l->set, name, count);
    if (!status) status = remark_on_mixtures(l->set, err);
    free(name);
    return status;
}

/* The folder of a split, or what it would be called. */
static const char *folder_of(const listing *l, size_t split) {
    return l->spelled[split] ? l->spelled[split] : smoe_listing_split[split];
}

/* The split has no image of a class: is the folder empty, or is there none? */
static int missing_class(const listing *l, size_t used, const char *name, smoe_err *err) {
    size_t other = used;
    for (size_t i = 0; i < l->classes; i++) {
        const class *c = &l->class[i];
        if (strcmp(c->name, name)) continue;
        if (c->split == used)
            return smoe_fail(err, SMOE_DATA, "%s: empty class: no images in %s/%s/", l->set->path,
                             folder_of(l, used), name);
        other = c->split;
    }
    return smoe_fail(err, SMOE_DATA, "%s: the class %s is in %s/, but not in %s/", l->set->path,
                     name, folder_of(l, other), folder_of(l, used));
}

static int twice(const listing *l, const char *name, smoe_err *err) {
    smoe_fail(err, SMOE_DATA, "twice in the archive");
    return smoe_folder_prefix(l->set, name, err);
}

/* Images sorted, each given the number of its class; every class must have some. */
static int settle_labels(listing *l, size_t used, smoe_err *err) {
    const smoe_dataset *set = l->set;
    images *list = &l->found[used];
    qsort(list->item, list->count, sizeof *list->item, compare_images);
    size_t i = 0;
    for (size_t k = 0; k < set->named; k++) {
        const char *name = set->class_name[k];
        size_t n = strlen(name), first = i;
        for (; i < list->count; i++) {
            image *a = &list->item[i];
            if (compare_class(a->name + a->class_at, a->class_end - a->class_at, name, n)) break;
            if (i > first && !strcmp(a->name, a[-1].name)) return twice(l, a->name, err);
            a->label = (uint32_t)k;
        }
        if (i == first) return missing_class(l, used, name, err);
    }
    return 0;
}

/* ---- a table of labels ----------------------------------------------------------------------- */

/* The place of an image by the table, or else by its folder. */
static int place_of(const listing *l, const image *a, size_t folder, size_t *place, smoe_err *err) {
    const char *given = a->row ? smoe_labels_split(l->folder->labels, a->row) : NULL, *spelled;
    *place = folder;
    if (!given || !*given) return 0;
    *place = smoe_listing_split_of(given, strlen(given), &spelled);
    if (*place < SPLITS) return 0;
    return smoe_fail(err, SMOE_DATA, "%s:%zu: no split '%.40s' (train, test, val)",
                     smoe_labels_path(l->folder->labels),
                     smoe_labels_line(l->folder->labels, a->row), given);
}

/* An image that has neither a row nor a folder for its class is left out, or is an error. */
static int without_label(listing *l, const image *a, smoe_err *err) {
    smoe_err why = {0};
    smoe_fail(&why, SMOE_DATA, "no row in %s, and no folder that is a class",
              smoe_labels_path(l->folder->labels));
    smoe_folder_prefix(l->set, a->name, &why);
    if (l->skip) return smoe_dataset_leave_out(l->set, &why, err);
    if (err) *err = why;
    return -1;
}

/* Every row must have an image. */
static int check_rows(listing *l, const char **seen, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    for (uint32_t row = 1; row <= smoe_labels_rows(t); row++) {
        if (seen[row]) continue;
        smoe_err why = {0};
        smoe_fail(&why, SMOE_DATA, "%s:%zu: no image %.200s in %s", smoe_labels_path(t),
                  smoe_labels_line(t, row), smoe_labels_name(t, row), l->set->path);
        if (l->skip && smoe_dataset_leave_out(l->set, &why, err)) return -1;
        if (l->skip) continue;
        if (err) *err = why;
        return -1;
    }
    return 0;
}

/* No row fits any image: says for one of each why that may be. */
static int nothing_fits(const listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    const image *first = NULL;
    for (size_t k = 0; k < PLACES && !first; k++)
        if (l->found[k].count) first = l->found[k].item;
    if (!first) return 0;
    const char *name = smoe_labels_name(t, 1);
    bool absolute = *name == '/' || (*name && name[1] == ':');
    bool deep = strchr(name, '/');
    return smoe_fail(
        err, SMOE_DATA,
        "%s:%zu: no row is that of an image in %s: the first one is %.200s, an image %.200s; %s",
        smoe_labels_path(t), smoe_labels_line(t, 1), l->set->path, name, first->name,
        absolute ? "write paths from the folder of the data, not absolute ones"
        : deep   ? "write paths from the folder of the data, with its folders or without any"
                 : "the first column must be the name of the file");
}

/* Finds the row of every image, and puts the images of each split together. */
static int apply_table(listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    images placed[PLACES] = {0};
    const char **seen = calloc(smoe_labels_rows(t) + 1, sizeof *seen);
    int status = seen ? 0 : smoe_listing_no_memory(err);
    bool fits = false;
    for (size_t k = 0; k < PLACES; k++)
        for (size_t i = 0; i < l->found[k].count; i++)
            fits |= (l->found[k].item[i].row = smoe_labels_find(t, l->found[k].item[i].name)) > 0;
    if (!status && !fits) status = nothing_fits(l, err);
    for (size_t k = 0; k < PLACES; k++) {
        for (size_t i = 0; i < l->found[k].count; i++) {
            image *a = &l->found[k].item[i];
            size_t place = k;
            if (status) continue;
            if (a->row && seen[a->row])
                status = smoe_fail(err, SMOE_DATA,
                                   "%s:%zu: %.200s is two images, %.200s and %.200s: write more of "
                                   "their paths",
                                   smoe_labels_path(t), smoe_labels_line(t, a->row),
                                   smoe_labels_name(t, a->row), seen[a->row], a->name);
            if (status) continue;
            seen[a->row] = a->name;
            bool known = a->row || (k < SPLITS && a->class_end > a->class_at);
            status = known ? place_of(l, a, k, &place, err) : without_label(l, a, err);
            if (status || !known) continue;
            status = smoe_listing_add(&placed[place], *a, err);
            if (!status) *a = (image){0};
        }
    }
    if (!status) status = check_rows(l, seen, err);
    for (size_t k = 0; k < PLACES; k++) {
        smoe_folder_images_free(&l->found[k]);
        l->found[k] = placed[k];
    }
    free(seen);
    return status;
}

static uint32_t class_number(const smoe_dataset *set, const char *name) {
    char *const *at =
        bsearch(&name, set->class_name, set->named, sizeof *set->class_name, compare_texts);
    return at ? (uint32_t)(at - set->class_name) : 0;
}

/* Classes are all names of the table, and the folders of images that have no row. */
static int settle_table(listing *l, size_t used, smoe_err *err) {
    images *list = &l->found[used];
    size_t words, all;
    const char *const *word = smoe_labels_all(l->folder->labels, &words);
    const char **name = calloc(words + l->classes + 1, sizeof *name);
    if (!name) return smoe_listing_no_memory(err);
    for (all = 0; all < words; all++) name[all] = word[all];
    bool folders = false;
    for (size_t k = 0; k < SPLITS; k++)
        for (size_t i = 0; i < l->found[k].count; i++) folders |= !l->found[k].item[i].row;
    for (size_t i = 0; folders && i < l->classes; i++)
        if (!l->class[i].folder) name[all++] = l->class[i].name;
    qsort(name, all, sizeof *name, compare_texts);
    size_t count = 0;
    for (size_t i = 0; i < all; i++)
        if (!count || strcmp(name[count - 1], name[i])) name[count++] = name[i];
    smoe_dataset_name_classes(l->set, name, count);
    free(name);
    qsort(list->item, list->count, sizeof *list->item, compare_names);
    for (size_t i = 0; i < list->count; i++) {
        image *a = &list->item[i];
        if (i && !strcmp(a->name, a[-1].name)) return twice(l, a->name, err);
        char *own = strndup(a->name + a->class_at, a->class_end - a->class_at);
        if (!own) return smoe_listing_no_memory(err);
        size_t n;
        a->label = class_number(l->set,
                                a->row ? *smoe_labels_classes(l->folder->labels, a->row, &n) : own);
        free(own);
    }
    return 0;
}

int smoe_folder_settle(smoe_dataset *set, smoe_err *err) {
    const smoe_folder *f = set->store;
    const images *list = &f->images;
    size_t all = 0, n;
    set->images = list->count;
    free(set->label);
    free(set->more_at);
    free(set->more);
    set->more_at = NULL;
    set->more = NULL;
    set->label = calloc(list->count + 1, sizeof *set->label);
    if (f->labels) set->more_at = calloc(list->count + 1, sizeof *set->more_at);
    for (size_t i = 0; f->labels && i < list->count; i++, all += n) {
        n = 0;
        if (list->item[i].row) smoe_labels_classes(f->labels, list->item[i].row, &n);
    }
    if (f->labels) set->more = calloc(all + 1, sizeof *set->more);
    if (!set->label || (f->labels && (!set->more_at || !set->more)))
        return smoe_listing_no_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        const image *a = &list->item[i];
        set->label[i] = a->label;
        if (!f->labels) continue;
        const char *const *name = a->row ? smoe_labels_classes(f->labels, a->row, &n) : NULL;
        set->more_at[i + 1] = set->more_at[i];
        for (size_t k = 0; name && k < n; k++)
            set->more[set->more_at[i + 1]++] = class_number(set, name[k]);
    }
    return 0;
}

/* ---- held out of training -------------------------------------------------------------------- */

/* The folders that all loose images share are no part of their classes, as long as a folder is
 * left. */
static void cut_shared(images *list) {
    size_t below = 0;
    for (bool same = list->count > 0; same;) {
        const char *first = list->item[0].name + below;
        size_t n = strcspn(first, "/") + 1;
        for (size_t i = 0; same && i < list->count; i++) {
            const char *rest = list->item[i].name + below;
            same = !strncmp(rest, first, n) && rest[n - 1] && strchr(rest + n, '/');
        }
        if (same) below += n;
    }
    for (size_t i = 0; i < list->count; i++) smoe_listing_cut_class(&list->item[i], below);
}

/* Photographs in a format that is not read would otherwise be missed without a word. */
static int remark_on_others(listing *l, smoe_err *err) {
    char text[256];
    l->set->others = l->passed;
    if (!l->passed.files) return 0;
    return smoe_dataset_remark_on(
        l->set, err,
        "%zu files are no images that are read (" SMOE_IMAGE_ENDINGS "), and are passed over: %s",
        l->passed.files, smoe_dataset_others_text(&l->passed, text, sizeof text));
}

/* Images in no split's folder are those of train. */
static int take_loose(listing *l, smoe_err *err) {
    images *loose = &l->found[LOOSE], *train = &l->found[TRAIN];
    if (l->seen[TRAIN] || !loose->count || train->count) return 0;
    if (!l->folder->labels) cut_shared(loose);
    if (!l->folder->labels && remark_on_others(l, err)) return -1;
    *train = *loose;
    *loose = (images){0};
    for (size_t i = 0; i < train->count; i++) {
        const image *a = &train->item[i];
        if (l->folder->labels) continue;
        if (a->class_end == a->class_at) {
            smoe_fail(err, SMOE_DATA, "in no folder, and so of no class");
            return smoe_folder_prefix(l->set, a->name, err);
        }
        if (smoe_listing_add_class(l, a->name + a->class_at, a->class_end - a->class_at, TRAIN,
                                   false, err))
            return -1;
    }
    return 0;
}

/* Draws round(n * holdout) of n images of a class, at least one of two, and never all. */
static void hold_out(const listing *l, bool *held, uint32_t *order, size_t n, const char *name) {
    size_t count = (size_t)lround((double)n * l->holdout);
    smoe_rng rng = smoe_rng_at(l->set->data.seed, SMOE_RNG_HOLDOUT, smoe_rng_name(name), 0, 0);
    if (!count) count = 1;
    if (count >= n) count = n - 1;
    smoe_rng_permutation(&rng, order, n);
    for (size_t i = 0; i < count; i++) held[order[i]] = true;
}

/* Divides the images of train, which are sorted by class or have labels from the table. `used` says
 * which part is kept: train, or what is held out. */
static int split_train(listing *l, size_t used, smoe_err *err) {
    images *list = &l->found[TRAIN];
    bool *held = calloc(list->count, sizeof *held), *part = calloc(list->count, sizeof *part);
    uint32_t *order = calloc(list->count, sizeof *order);
    size_t *member = calloc(list->count, sizeof *member);
    int status = held && part && order && member ? 0 : smoe_listing_no_memory(err);
    for (size_t k = 0; !status && k < l->set->named; k++) {
        size_t n = 0;
        for (size_t i = 0; i < list->count; i++)
            if (list->item[i].label == k) member[n++] = i;
        if (!n) continue;
        memset(part, 0, n * sizeof *part);
        hold_out(l, part, order, n, l->set->class_name[k]);
        for (size_t i = 0; i < n; i++) held[member[i]] = part[i];
    }
    for (size_t i = 0; !status && i < list->count; i++)
        if (used == TRAIN) held[i] = !held[i];
    if (!status) smoe_folder_keep(list, held);
    free(held);
    free(part);
    free(order);
    free(member);
    if (status || list->count) return status;
    return smoe_fail(err, SMOE_DATA, "%s: data.holdout: too few images to hold some out",
                     l->set->path);
}

/* ---- the split ------------------------------------------------------------------------------- */

static int no_layout(const listing *l, smoe_err *err) {
    smoe_fail(err, SMOE_DATA,
              "%s: no SPLIT/CLASS/ folders: expected train/CLASS/IMAGE and test/CLASS/IMAGE (or "
              "val, validation, valid), with one folder above at most; found %s",
              l->set->path, l->others[0] ? l->others : "nothing");
    if (!l->loose && l->passed.files) {
        char text[256];
        return smoe_fail_more(err, SMOE_DATA,
                              "no file there is an image that is read (" SMOE_IMAGE_ENDINGS
                              "); there are %s",
                              smoe_dataset_others_text(&l->passed, text, sizeof text));
    }
    if (!l->loose) return -1;
    return smoe_fail_more(err, SMOE_DATA,
                          "if those folders are the classes, data.holdout=0.1 makes a tenth of "
                          "each the split test; data.labels=FILE.csv gives classes in a table");
}

/* Chooses the split; SPLITS and an error where neither has images. */
static size_t settle_split(const listing *l, smoe_err *err) {
    char there[96] = "";
    bool either = l->instead < SPLITS;
    if (l->found[l->wanted].count) return l->wanted;
    if (either && (l->found[l->instead].count || l->foreign.code)) {
        if (!l->foreign.code) return l->instead;
        if (err) *err = l->foreign;
        return SPLITS;
    }
    for (size_t k = 0, n = 0; k < SPLITS; k++)
        if (l->seen[k])
            n += (size_t)snprintf(there + n, sizeof there - n, "%s%s/", n ? ", " : "",
                                  folder_of(l, k));
    if (!l->classes && !l->folder->labels) {
        no_layout(l, err);
        return SPLITS;
    }
    smoe_fail(err, SMOE_DATA, "%s: no images in %s/%s%s%s; it has %s", l->set->path,
              smoe_listing_split[l->wanted], either ? " or " : "",
              either ? smoe_listing_split[l->instead] : "", either ? "/" : "",
              *there ? there : "no folders of splits");
    if (l->folder->labels && l->found[LOOSE].count)
        smoe_fail_more(err, SMOE_DATA,
                       "a column split in %s says which are for training, or data.holdout=0.1 "
                       "makes a tenth of the images the split test",
                       smoe_labels_path(l->folder->labels));
    else if (l->wanted != TRAIN && (l->seen[TRAIN] || l->found[TRAIN].count))
        smoe_fail_more(err, SMOE_DATA, "data.holdout=0.1 makes a tenth of train the split %s",
                       smoe_listing_split[l->wanted]);
    return SPLITS;
}

/* With data.holdout: test is its own folder where there is one, else it is held out, as val is. */
static int settle_holdout(listing *l, bool *parted, size_t *used, smoe_err *err) {
    *parted = false;
    if (!(l->holdout > 0)) return 0;
    if (take_loose(l, err)) return -1;
    if (l->found[VAL].count || l->seen[VAL])
        return smoe_fail(err, SMOE_USAGE,
                         "data.holdout: %s has %s/ already; leave out data.holdout", l->set->path,
                         folder_of(l, VAL));
    if (l->wanted == TEST && l->found[TEST].count) return 0;
    *parted = l->found[TRAIN].count > 0;
    if (*parted) *used = TRAIN;
    return 0;
}

static int apply_limit(images *list, size_t classes, size_t limit, smoe_err *err) {
    bool *keep = calloc(list->count, sizeof *keep);
    uint32_t *label = calloc(list->count, sizeof *label);
    int status = keep && label ? 0 : smoe_listing_no_memory(err);
    for (size_t i = 0; !status && i < list->count; i++) label[i] = list->item[i].label;
    if (!status) status = smoe_dataset_select(keep, label, list->count, classes, limit, err);
    if (!status) smoe_folder_keep(list, keep);
    free(keep);
    free(label);
    return status;
}

int smoe_listing_settle(listing *l, const smoe_spec *spec, smoe_err *err) {
    const char *evaluated = spec->eval.split ? spec->eval.split : smoe_listing_split[TEST],
               *spelled;
    size_t used = SPLITS, other = smoe_listing_split_of(evaluated, strlen(evaluated), &spelled);
    bool parted, table = l->folder->labels != NULL;
    if (table && apply_table(l, err)) return -1;
    if (settle_holdout(l, &parted, &used, err)) return -1;
    if (used == SPLITS && (used = settle_split(l, err)) == SPLITS) return -1;
    if (table ? settle_table(l, used, err)
              : settle_classes(l, used, other, err) || settle_labels(l, used, err))
        return -1;
    if (parted && split_train(l, l->wanted, err)) return -1;
    l->folder->images = l->found[used];
    l->found[used] = (images){0};
    if (apply_limit(&l->folder->images, l->set->named, l->set->data.limit, err)) return -1;
    return smoe_folder_settle(l->set, err);
}
