/*
 * What an image folder gives to its data set: of the images that folder_list.c found, those of the
 * split, with the numbers of their classes. In this order: data.labels puts images into splits, the
 * split is chosen, its classes are named and numbered, data.holdout and data.limit select.
 *
 * Classes are sorted by name; train and the split that is evaluated must both have images of every
 * class, for otherwise the numbers of the classes would differ between them. Other splits are not
 * checked. File order is by class, then name; with a table, by name.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "data/folder.h"

#include <math.h>

typedef smoe_folder_image image;
typedef smoe_folder_images images;
typedef smoe_folder_listing listing;
typedef smoe_folder_class folder_class;

/* ---- a table of labels ----------------------------------------------------------------------- */

/* The place of an image by the table, or else by its folder. */
static int folder_place_of(const listing *l, const image *a, size_t folder, size_t *place,
                           smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    const smoe_labels_row *row = a->row ? &t->row[a->row - 1] : NULL;
    const char *given = row ? row->split : NULL, *spelled;
    *place = folder;
    if (!given || !*given) return 0;
    *place = smoe_folder_split_of(given, strlen(given), &spelled);
    if (*place < SPLITS) return 0;
    return smoe_fail(err, SMOE_DATA, "%s:%zu: no split '%.40s' (train, test, val)", t->path,
                     row->line, given);
}

/* An image that has neither a row nor a folder for its class. */
static int without_label(listing *l, const image *a, smoe_err *err) {
    smoe_err why = {0};
    smoe_fail(&why, SMOE_DATA, "no row in %s, and no folder that is a class",
              l->folder->labels->path);
    smoe_folder_prefix(l->set, a->name, &why);
    return smoe_dataset_refuse(l->set, &why, err);
}

/* Every row must have an image. */
static int check_rows(listing *l, const char **seen, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    int status = 0;
    for (size_t i = 0; i < t->rows && !status; i++) {
        if (seen[i + 1]) continue;
        smoe_err why = {0};
        smoe_fail(&why, SMOE_DATA, "%s:%zu: no image %.200s in %s", t->path, t->row[i].line,
                  t->row[i].name, l->set->path);
        status = smoe_dataset_refuse(l->set, &why, err);
    }
    return status;
}

/* No row fits any image: says for one of each why that may be. */
static int nothing_fits(const listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    const image *first = NULL;
    for (size_t k = 0; k < PLACES && !first; k++)
        if (l->found[k].count) first = l->found[k].item;
    if (!first) return 0;
    const char *name = t->row[0].name;
    bool absolute = *name == '/' || (*name && name[1] == ':');
    bool deep = strchr(name, '/');
    return smoe_fail(
        err, SMOE_DATA,
        "%s:%zu: no row is that of an image in %s: the first one is %.200s, an image %.200s; %s",
        t->path, t->row[0].line, l->set->path, name, first->name,
        absolute ? "write paths from the folder of the data, not absolute ones"
        : deep   ? "write paths from the folder of the data, with its folders or without any"
                 : "the first column must be the name of the file");
}

/* Puts an image, which was found in the place `from`, into that of its row. */
static int place_image(listing *l, images placed[PLACES], const char **seen, image *a, size_t from,
                       smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    size_t place;
    if (a->row && seen[a->row])
        return smoe_fail(err, SMOE_DATA,
                         "%s:%zu: %.200s is two images, %.200s and %.200s: write more of their "
                         "paths",
                         t->path, t->row[a->row - 1].line, t->row[a->row - 1].name, seen[a->row],
                         a->name);
    seen[a->row] = a->name;
    if (!a->row && (from == LOOSE || a->class_end == a->class_at)) return without_label(l, a, err);
    if (folder_place_of(l, a, from, &place, err)) return -1;
    smoe_folder_add(&placed[place], *a);
    *a = (image){0};
    return 0;
}

/* Finds the row of every image, and puts the images of each split together. */
static int apply_table(listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    images placed[PLACES] = {0};
    SMOE_FREED const char **seen = smoe_alloc(t->rows + 1, sizeof *seen); /* by row */
    bool fits = false;
    for (size_t k = 0; k < PLACES; k++)
        for (size_t i = 0; i < l->found[k].count; i++)
            fits |= (l->found[k].item[i].row = smoe_labels_find(t, l->found[k].item[i].name)) > 0;
    int status = fits ? 0 : nothing_fits(l, err);
    for (size_t k = 0; k < PLACES; k++)
        for (size_t i = 0; i < l->found[k].count && !status; i++)
            status = place_image(l, placed, seen, &l->found[k].item[i], k, err);
    if (!status) status = check_rows(l, seen, err);
    for (size_t k = 0; k < PLACES; k++) {
        smoe_folder_images_free(&l->found[k]);
        l->found[k] = placed[k];
    }
    return status;
}

/* ---- the split ------------------------------------------------------------------------------- */

/* The folder of a split, or what it would be called. */
static const char *folder_of(const listing *l, size_t split) {
    return l->spelled[split] ? l->spelled[split] : smoe_folder_split[split];
}

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

/* Neither the split nor the one that may stand in has images. */
static int no_images(const listing *l, smoe_err *err) {
    char there[96] = "";
    bool either = l->instead < SPLITS;
    for (size_t k = 0, n = 0; k < SPLITS; k++)
        if (l->seen[k])
            n += (size_t)snprintf(there + n, sizeof there - n, "%s%s/", n ? ", " : "",
                                  folder_of(l, k));
    if (!l->classes && !l->folder->labels) return no_layout(l, err);
    smoe_fail(err, SMOE_DATA, "%s: no images in %s/%s%s%s; it has %s", l->set->path,
              smoe_folder_split[l->wanted], either ? " or " : "",
              either ? smoe_folder_split[l->instead] : "", either ? "/" : "",
              *there ? there : "no folders of splits");
    if (l->folder->labels && l->found[LOOSE].count)
        smoe_fail_more(err, SMOE_DATA,
                       "a column split in %s says which are for training, or data.holdout=0.1 "
                       "makes a tenth of the images the split test",
                       l->folder->labels->path);
    else if (l->wanted != TRAIN && (l->seen[TRAIN] || l->found[TRAIN].count))
        smoe_fail_more(err, SMOE_DATA, "data.holdout=0.1 makes a tenth of train the split %s",
                       smoe_folder_split[l->wanted]);
    return -1;
}

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
    for (size_t i = 0; i < list->count; i++) smoe_folder_cut_class(&list->item[i], below);
}

/* Photographs in a format that is not read would otherwise be missed without a word. */
static void remark_on_others(listing *l) {
    char text[256];
    l->set->report.others = l->passed;
    if (!l->passed.files) return;
    smoe_dataset_remark_on(
        l->set,
        "%zu files are no images that are read (" SMOE_IMAGE_ENDINGS "), and are passed over: %s",
        l->passed.files, smoe_dataset_others_text(&l->passed, text, sizeof text));
}

/* Images in no split's folder are those of train. */
static int take_loose(listing *l, smoe_err *err) {
    images *train = &l->found[TRAIN];
    if (l->seen[TRAIN] || !l->found[LOOSE].count || train->count) return 0;
    *train = l->found[LOOSE];
    l->found[LOOSE] = (images){0};
    if (l->folder->labels) return 0;
    cut_shared(train);
    remark_on_others(l);
    for (size_t i = 0; i < train->count; i++) {
        const image *a = &train->item[i];
        if (a->class_end == a->class_at) {
            smoe_fail(err, SMOE_DATA, "in no folder, and so of no class");
            return smoe_folder_prefix(l->set, a->name, err);
        }
        smoe_folder_add_class(l, a, TRAIN, false);
    }
    return 0;
}

/* Chooses the split that is used. With data.holdout, test is its own folder where there is one,
 * else it is held out of train (*parted), as val is. */
static int settle_split(listing *l, size_t *used, bool *parted, smoe_err *err) {
    *parted = false;
    *used = l->wanted;
    if (l->holdout > 0) {
        if (take_loose(l, err)) return -1;
        if (l->found[VAL].count || l->seen[VAL])
            return smoe_fail(err, SMOE_USAGE,
                             "data.holdout: %s has %s/ already; leave out data.holdout",
                             l->set->path, folder_of(l, VAL));
        *parted = l->found[TRAIN].count && !(l->wanted == TEST && l->found[TEST].count);
        if (*parted) *used = TRAIN;
    }
    if (l->found[*used].count) return 0;
    if (l->instead == SPLITS || (!l->found[l->instead].count && !l->foreign.code))
        return no_images(l, err);
    *used = l->instead;
    if (l->foreign.code && err) *err = l->foreign;
    return l->foreign.code ? -1 : 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* Whether a folder of a split only has folders that are classes. */
static bool is_above_others(const listing *l, const folder_class *c) {
    size_t n = strlen(c->name);
    for (size_t i = 0; c->folder && i < l->classes; i++) {
        const folder_class *other = &l->class[i];
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

static size_t class_number(const smoe_dataset *set, const char *name) {
    return smoe_texts_find((const char *const *)set->class_name, set->named, name);
}

/* Images of a folder, and of folders in it, are different classes, which may not be meant. */
static void remark_on_mixtures(smoe_dataset *set) {
    for (size_t k = 0; k < set->named; k++) {
        char *outer = smoe_alloc_text(set->class_name[k]), *slash;
        while ((slash = strrchr(outer, '/'))) {
            *slash = '\0';
            if (class_number(set, outer) < set->named)
                smoe_dataset_remark_on(set,
                                       "images lie in %s/ and in %s/ too: these are two classes",
                                       outer, set->class_name[k]);
        }
        free(outer);
    }
}

/* Classes that folders say: those of the split in use, of train, and for train those of the split
 * that will be evaluated. */
static void classes_of_folders(const listing *l, size_t used, size_t evaluated, const char **name,
                               size_t *count) {
    if (evaluated == TEST && !has_classes(l, TEST)) evaluated = VAL;
    for (size_t i = 0; i < l->classes; i++) {
        const folder_class *c = &l->class[i];
        bool counts =
            c->split == used || c->split == TRAIN || (used == TRAIN && c->split == evaluated);
        if (counts && !is_above_others(l, c)) name[(*count)++] = c->name;
    }
}

/* Those of the table, and the folders of images that have no row. */
static void classes_of_table(const listing *l, const char **name, size_t *count) {
    const smoe_labels *t = l->folder->labels;
    bool folders = false;
    for (size_t i = 0; i < t->classes; i++) name[(*count)++] = t->all[i];
    for (size_t k = 0; k < SPLITS; k++)
        for (size_t i = 0; i < l->found[k].count; i++) folders |= !l->found[k].item[i].row;
    for (size_t i = 0; folders && i < l->classes; i++)
        if (!l->class[i].folder) name[(*count)++] = l->class[i].name;
}

/* Names the classes of the set, sorted. */
static int settle_classes(listing *l, size_t used, size_t evaluated, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    SMOE_FREED const char **name = smoe_alloc((t ? t->classes : 0) + l->classes, sizeof *name);
    size_t count = 0;
    int status = 0;
    if (t)
        classes_of_table(l, name, &count);
    else
        classes_of_folders(l, used, evaluated, name, &count);
    count = smoe_texts_sort(name, count);
    for (size_t i = 0; i < count && !status; i++) status = check_class_name(l->set, name[i], err);
    if (!status) smoe_dataset_name_classes(l->set, name, count);
    if (!status && !t) remark_on_mixtures(l->set);
    return status;
}

/* ---- images ---------------------------------------------------------------------------------- */

static int compare_parts(const char *a, size_t n, const char *b, size_t m) {
    int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int compare_images(const void *x, const void *y) {
    const image *a = x, *b = y;
    int order = compare_parts(a->name + a->class_at, a->class_end - a->class_at,
                              b->name + b->class_at, b->class_end - b->class_at);
    return order ? order : strcmp(a->name + a->class_end, b->name + b->class_end);
}

static int compare_names(const void *x, const void *y) {
    return strcmp(((const image *)x)->name, ((const image *)y)->name);
}

/* The split has no image of a class: is the folder empty, or is there none? */
static int missing_class(const listing *l, size_t used, const char *name, smoe_err *err) {
    size_t other = used;
    for (size_t i = 0; i < l->classes; i++) {
        const folder_class *c = &l->class[i];
        if (strcmp(c->name, name)) continue;
        if (c->split == used)
            return smoe_fail(err, SMOE_DATA, "%s: empty class: no images in %s/%s/", l->set->path,
                             folder_of(l, used), name);
        other = c->split;
    }
    return smoe_fail(err, SMOE_DATA, "%s: the class %s is in %s/, but not in %s/", l->set->path,
                     name, folder_of(l, other), folder_of(l, used));
}

/* Sorts the images, and gives each the number of its class. Without a table every class must have
 * some. */
static int settle_images(listing *l, size_t used, smoe_err *err) {
    const smoe_dataset *set = l->set;
    const smoe_labels *t = l->folder->labels;
    images *list = &l->found[used];
    SMOE_FREED bool *there = smoe_alloc(set->named, sizeof *there);
    int status = 0;
    qsort(list->item, list->count, sizeof *list->item, t ? compare_names : compare_images);
    for (size_t i = 0; i < list->count && !status; i++) {
        image *a = &list->item[i];
        char *folder = smoe_alloc_part(a->name + a->class_at, a->class_end - a->class_at);
        const char *word = t && a->row ? *smoe_labels_classes(t, a->row) : folder;
        a->label = (uint32_t)class_number(set, word);
        there[a->label] = true;
        free(folder);
        if (!i || strcmp(a->name, a[-1].name)) continue;
        smoe_fail(err, SMOE_DATA, "twice in the archive");
        status = smoe_folder_prefix(set, a->name, err);
    }
    for (size_t k = 0; k < set->named && !t && !status; k++)
        if (!there[k]) status = missing_class(l, used, set->class_name[k], err);
    return status;
}

/* ---- selecting ------------------------------------------------------------------------------- */

/* Draws round(n * holdout) of n images of a class, at least one of two, and never all. */
static void hold_out(const listing *l, bool *held, const size_t *member, size_t n,
                     const char *name) {
    size_t count = (size_t)lround((double)n * l->holdout);
    smoe_rng rng = smoe_rng_at(l->set->data.seed, SMOE_RNG_HOLDOUT, smoe_rng_name(name), 0, 0);
    SMOE_FREED uint32_t *order = smoe_alloc(n, sizeof *order);
    if (!count) count = 1;
    if (count >= n) count = n - 1;
    smoe_rng_permutation(&rng, order, n);
    for (size_t i = 0; i < count; i++) held[member[order[i]]] = true;
}

/* Divides the images of train, of which it keeps a part: train, or what is held out. */
static int split_train(listing *l, smoe_err *err) {
    images *list = &l->found[TRAIN];
    bool *held = smoe_alloc(list->count, sizeof *held);
    size_t *member = smoe_alloc(list->count, sizeof *member);
    for (size_t k = 0; k < l->set->named; k++) {
        size_t n = 0;
        for (size_t i = 0; i < list->count; i++)
            if (list->item[i].label == k) member[n++] = i;
        if (n) hold_out(l, held, member, n, l->set->class_name[k]);
    }
    for (size_t i = 0; i < list->count; i++)
        if (l->wanted == TRAIN) held[i] = !held[i];
    smoe_folder_keep(list, held);
    free(held);
    free(member);
    if (list->count) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: data.holdout: too few images to hold some out",
                     l->set->path);
}

static void apply_limit(const smoe_dataset *set, images *list) {
    SMOE_FREED bool *keep = smoe_alloc(list->count, sizeof *keep);
    SMOE_FREED uint32_t *label = smoe_alloc(list->count, sizeof *label);
    for (size_t i = 0; i < list->count; i++) label[i] = list->item[i].label;
    smoe_dataset_select(keep, label, list->count, set->named, set->data.limit);
    smoe_folder_keep(list, keep);
}

/* Gives the set the number and the labels of its images. */
static void give_labels(smoe_dataset *set, const smoe_folder *f) {
    const images *list = &f->images;
    const smoe_labels *t = f->labels;
    size_t n = list->count, all = 0, to = 0;
    for (size_t i = 0; i < n; i++)
        if (list->item[i].row) all += t->row[list->item[i].row - 1].count;
    set->images = n;
    set->label = smoe_alloc_in(&set->memory, n, sizeof *set->label);
    for (size_t i = 0; i < n; i++) set->label[i] = list->item[i].label;
    if (!t) return;
    set->more_at = smoe_alloc_in(&set->memory, n + 1, sizeof *set->more_at);
    set->more = smoe_alloc_in(&set->memory, all, sizeof *set->more);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = list->item[i].row;
        for (size_t k = 0; row && k < t->row[row - 1].count; k++)
            set->more[to++] = (uint32_t)class_number(set, smoe_labels_classes(t, row)[k]);
        set->more_at[i + 1] = to;
    }
}

int smoe_folder_settle(listing *l, const smoe_spec *spec, smoe_err *err) {
    const char *evaluated = spec->eval.split ? spec->eval.split : smoe_folder_split[TEST], *spelled;
    size_t used, other = smoe_folder_split_of(evaluated, strlen(evaluated), &spelled);
    bool parted;
    if (l->folder->labels && apply_table(l, err)) return -1;
    if (settle_split(l, &used, &parted, err) || settle_classes(l, used, other, err) ||
        settle_images(l, used, err) || (parted && split_train(l, err)))
        return -1;
    l->folder->images = l->found[used];
    l->found[used] = (images){0};
    apply_limit(l->set, &l->folder->images);
    give_labels(l->set, l->folder);
    return 0;
}
