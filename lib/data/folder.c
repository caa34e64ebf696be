/*
 * Which images an image folder gives to its data set, in four passes over one list: the walk lists
 * them (folder_walk.c); data.labels puts images into other splits, and the split to use is chosen;
 * its classes are named and checked; data.holdout and data.limit select.
 *
 * Classes are sorted by name; train and the split that is evaluated must both have images of every
 * class: otherwise classes would have different numbers in the two. Other splits are not checked.
 * File order is by class, then name; with a table, by name.
 */
#include "base/accents.h"
#include "data/folder.h"

typedef smoe_folder folder;
typedef smoe_folder_image image;
typedef smoe_folder_listing listing;
typedef smoe_folder_class folder_class;

/* ---- the split ------------------------------------------------------------------------------- */

/* Of an image that has neither a row nor a folder for its class. */
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
    for (size_t i = 0; i < t->rows; i++) {
        if (seen[i + 1]) continue;
        smoe_err why = {0};
        smoe_fail(&why, SMOE_DATA, "%s:%zu: no image %.200s in %s", t->path, t->row[i].line,
                  t->row[i].name, l->set->path);
        if (smoe_dataset_refuse(l->set, &why, err)) return -1;
    }
    return 0;
}

/* No row fits any image: says for one of each why that may be. */
static int nothing_fits(const listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    const image *first = l->folder->image;
    for (size_t i = 0; i < l->folder->images; i++)
        if (l->folder->image[i].place < first->place) first = &l->folder->image[i];
    const char *name = t->row[0].name;
    bool absolute = *name == '/' || (*name && name[1] == ':');
    bool deep = strchr(name, '/');
    return smoe_fail(
        err, SMOE_DATA,
        "%s:%zu: no row names an image in %s: the first row is %.200s, an image is %.200s; %s",
        t->path, t->row[0].line, l->set->path, name, first->name,
        absolute ? "write paths from the folder of the data, not absolute ones"
        : deep   ? "write paths from the folder of the data, with its folders or without any"
                 : "the first column must be the name of the file");
}

/* Puts an image into the split that its row names, if it names one. */
static int place_image(listing *l, const char **seen, image *a, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    const smoe_labels_row *row = a->row ? &t->row[a->row - 1] : NULL;
    if (row && seen[a->row])
        return smoe_fail(
            err, SMOE_DATA,
            "%s:%zu: %.200s is the end of two paths, %.200s and %.200s: write more of them",
            t->path, row->line, row->name, seen[a->row], a->name);
    seen[a->row] = a->name;
    if (!row && (a->place == LOOSE || a->class_end == a->class_at)) {
        a->place = NOWHERE;
        return without_label(l, a, err);
    }
    if (!row || !row->split || !*row->split) return 0;
    a->place = (uint32_t)smoe_folder_split_named(row->split);
    if (a->place < SPLITS) return 0;
    return smoe_fail(err, SMOE_DATA, "%s:%zu: no split '%.40s' (train, test, val)", t->path,
                     row->line, row->split);
}

/* Finds the row of every image. */
static int apply_table(listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    folder *f = l->folder;
    SMOE_FREED const char **seen = smoe_alloc(t->rows + 1, sizeof *seen); /* by row */
    bool fits = !f->images;
    for (size_t i = 0; i < f->images; i++)
        fits |= (f->image[i].row = smoe_labels_find(t, f->image[i].name)) > 0;
    if (!fits) return nothing_fits(l, err);
    memset(l->found, 0, sizeof l->found);
    for (size_t i = 0; i < f->images; i++) {
        if (place_image(l, seen, &f->image[i], err)) return -1;
        l->found[f->image[i].place]++;
    }
    return check_rows(l, seen, err);
}

/* The folder of a split, or what it would be called. */
static const char *folder_of(const listing *l, size_t split) {
    return l->spelled[split] ? l->spelled[split] : smoe_split_name[split];
}

/* The folder of a split may only be written with capital letters. */
static void rename_capital(const listing *l, smoe_err *err) {
    if (*l->capital)
        smoe_fail_more(err, SMOE_DATA,
                       "names of splits are in lower case: if %s/ is one, rename it", l->capital);
}

/* Images in no folder may have their classes elsewhere. */
static int fail_bare(const listing *l, smoe_err *err) {
    return smoe_fail_more(err, SMOE_DATA, "%s",
                          strstr(l->others, ".cls")
                              ? SMOE_FOLDER_SHARDS
                              : "images that are in no folder of a class need a table of their "
                                "classes, data.labels=FILE.csv");
}

static int no_layout(const listing *l, smoe_err *err) {
    char text[256], found[256] = "";
    for (size_t k = 0; k < SPLITS; k++)
        if (l->spelled[k])
            smoe_text_list(found, sizeof found, "%s/ without classes", l->spelled[k]);
    if (l->others[0]) smoe_text_list(found, sizeof found, "%s", l->others);
    smoe_fail(err, SMOE_DATA,
              "%s: no SPLIT/CLASS/ folders: expected train/CLASS/IMAGE and test/CLASS/IMAGE (or "
              "val, validation, valid), inside at most one more folder; found %s",
              l->set->path, *found ? found : "nothing");
    rename_capital(l, err);
    bool shards = strstr(found, ".cls") || strstr(found, ".tar");
    if (shards) smoe_fail_more(err, SMOE_DATA, SMOE_FOLDER_SHARDS);
    if (l->loose)
        smoe_fail_more(
            err, SMOE_DATA,
            "if those folders or tar files are the classes, data.holdout=0.1 holds out a tenth of "
            "each as the split test; data.labels=FILE.csv gives classes in a table");
    if (shards || l->loose) return -1;
    if (l->bare) return fail_bare(l, err);
    if (l->passed.files)
        smoe_fail_more(err, SMOE_DATA,
                       "no file there is of a type that is read (" SMOE_IMAGE_ENDINGS
                       "); there are %s",
                       smoe_dataset_others_text(&l->passed, text, sizeof text));
    else
        smoe_fail_more(err, SMOE_DATA, SMOE_FOLDER_ARRAYS);
    return -1;
}

/* Neither the split nor the one that may stand in has images. */
static int no_images(const listing *l, smoe_err *err) {
    char there[96] = "";
    bool either = l->instead < SPLITS;
    for (size_t k = 0; k < SPLITS; k++)
        if (l->spelled[k]) smoe_text_list(there, sizeof there, "%s/", l->spelled[k]);
    if (!l->classes && !l->folder->labels) return no_layout(l, err);
    smoe_fail(err, SMOE_DATA, "%s: no images in %s/%s%s%s; it has %s", l->set->path,
              smoe_split_name[l->wanted], either ? " or " : "",
              either ? smoe_split_name[l->instead] : "", either ? "/" : "",
              *there ? there : "no folders of splits");
    rename_capital(l, err);
    if (l->folder->labels && l->found[LOOSE])
        smoe_fail_more(err, SMOE_DATA,
                       "add a column split to %s, or hold out a tenth of the images as the split "
                       "test with data.holdout=0.1",
                       l->folder->labels->path);
    else if (l->spelled[l->wanted])
        smoe_fail_more(err, SMOE_DATA, "names of images end in " SMOE_IMAGE_ENDINGS);
    else if (l->wanted != TRAIN && (l->spelled[TRAIN] || l->found[TRAIN]))
        smoe_fail_more(err, SMOE_DATA,
                       "data.holdout=0.1 holds out a tenth of train as the split %s",
                       smoe_split_name[l->wanted]);
    return -1;
}

/* The length of the leading folders that all images of train share: they are not part of the
 * classes, as long as a folder is left. */
static size_t shared_length(const folder *f) {
    const char *first = NULL;
    size_t shared = 0;
    for (size_t i = 0; i < f->images; i++) {
        const char *name = f->image[i].name;
        size_t n = 0;
        if (f->image[i].place != TRAIN) continue;
        if (!first) shared = strlen(first = name);
        while (n < shared && name[n] == first[n]) n++;
        while (n && (name[n - 1] != '/' || !strchr(name + n, '/'))) n--;
        shared = n;
    }
    return shared;
}

/* Otherwise photographs in a format that cannot be read would be skipped silently. */
static void remark_on_others(listing *l) {
    char text[256];
    l->set->report.others = l->passed;
    if (!l->passed.files) return;
    smoe_dataset_remark_on(
        l->set,
        "%zu files are not images that are read (" SMOE_IMAGE_ENDINGS "), and are ignored: %s",
        l->passed.files, smoe_dataset_others_text(&l->passed, text, sizeof text));
}

/* Images outside the splits' folders belong to train. */
static int take_loose(listing *l, smoe_err *err) {
    folder *f = l->folder;
    if (l->spelled[TRAIN] || !l->found[LOOSE] || l->found[TRAIN]) return 0;
    for (size_t i = 0; i < f->images; i++)
        if (f->image[i].place == LOOSE) f->image[i].place = TRAIN;
    l->found[TRAIN] = l->found[LOOSE];
    l->found[LOOSE] = 0;
    if (f->labels) return 0;
    remark_on_others(l);
    size_t shared = shared_length(f);
    for (size_t i = 0; i < f->images; i++) {
        image *a = &f->image[i];
        if (a->place != TRAIN) continue;
        if (smoe_folder_classify(l, a, shared, TRAIN)) continue;
        smoe_fail(err, SMOE_DATA, "not in a folder, so without a class");
        smoe_folder_prefix(l->set, a->name, err);
        return fail_bare(l, err);
    }
    return 0;
}

/* Chooses the split to use. With data.holdout, test is its own folder if there is one; otherwise it
 * is held out of train, like val. */
static int choose_split(listing *l, smoe_err *err) {
    if (l->folder->labels && apply_table(l, err)) return -1;
    l->used = l->wanted;
    if (l->set->data.holdout > 0) {
        if (take_loose(l, err)) return -1;
        if (l->found[VAL] || l->spelled[VAL])
            return smoe_fail(err, SMOE_USAGE,
                             "data.holdout: %s has %s/ already; leave out data.holdout",
                             l->set->path, folder_of(l, VAL));
        l->parted = l->found[TRAIN] && !(l->wanted == TEST && l->found[TEST]);
        if (l->parted) l->used = TRAIN;
    }
    if (l->found[l->used]) return 0;
    if (l->instead == SPLITS || (!l->found[l->instead] && !l->foreign.code))
        return no_images(l, err);
    l->used = l->instead;
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

/* Images in a folder and in its subfolders are different classes, which may be a mistake. */
static void remark_on_mixtures(smoe_dataset *set) {
    for (size_t k = 0; k < set->named; k++) {
        SMOE_FREED char *outer = smoe_alloc_text(set->class_name[k]);
        for (char *slash; (slash = strrchr(outer, '/'));) {
            *slash = '\0';
            if (class_number(set, outer) < set->named)
                smoe_dataset_remark_on(set,
                                       "images are both in %s/ and in %s/: these are two classes",
                                       outer, set->class_name[k]);
        }
    }
}

/* Names the classes of the set, sorted. They come from the folders of the split in use, of train
 * and, for train, of the split that will be evaluated; or from a table, and from the folders of
 * images without a row. */
static int folder_name_classes(listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    SMOE_FREED const char **name = smoe_alloc((t ? t->classes : 0) + l->classes, sizeof *name);
    size_t count = 0, evaluated = l->evaluated;
    bool some = false, without_row = false;
    for (size_t i = 0; i < l->classes; i++) some |= l->class[i].split == evaluated;
    if (evaluated == TEST && !some) evaluated = VAL;
    for (size_t i = 0; i < l->folder->images; i++)
        without_row |= !l->folder->image[i].row && l->folder->image[i].place < SPLITS;
    for (size_t i = 0; t && i < t->classes; i++) name[count++] = t->all[i];
    for (size_t i = 0; i < l->classes; i++) {
        const folder_class *c = &l->class[i];
        bool counts =
            c->split == l->used || c->split == TRAIN || (l->used == TRAIN && c->split == evaluated);
        if (t ? without_row && !c->folder : counts && !is_above_others(l, c))
            name[count++] = c->name;
    }
    count = smoe_texts_sort(name, count);
    for (size_t i = 0; i < count; i++)
        if (check_class_name(l->set, name[i], err)) return -1;
    smoe_dataset_name_classes(l->set, name, count);
    if (!t) remark_on_mixtures(l->set);
    return 0;
}

/* Fails, and says what was left out, if anything: a folder that cannot be read is not empty. */
static int fail_empty(const listing *l, const char *name, smoe_err *err) {
    const size_t left = l->set->report.left_out;
    smoe_fail(err, SMOE_DATA, "%s: empty class: no images in %s/%s/", l->set->path,
              folder_of(l, l->used), name);
    for (size_t i = 0; i < left && i < SMOE_LEFT; i++)
        smoe_fail_more(err, SMOE_DATA, "left out: %s", l->set->report.left[i]);
    return -1;
}

/* The split has no image of a class: is the folder empty, or is there none? */
static int missing_class(const listing *l, const char *name, smoe_err *err) {
    size_t other = l->used;
    bool accents = false;
    for (size_t i = 0; i < l->classes; i++) {
        const folder_class *c = &l->class[i];
        if (strcmp(c->name, name)) {
            accents |= c->split == l->used && smoe_accents_same(c->name, name);
            continue;
        }
        if (c->split == l->used) return fail_empty(l, name, err);
        other = c->split;
    }
    return smoe_fail(err, SMOE_DATA, "%s: the class %s is in %s/, but not in %s/%s", l->set->path,
                     name, folder_of(l, other), folder_of(l, l->used),
                     accents ? ", where the accents of its name are written in another way, as "
                               "characters of their own or not: rename one of the folders"
                             : "");
}

/* By class, then by the rest of the name; with a table, by name. */
static int compare_images(const void *x, const void *y, void *table) {
    const image *a = x, *b = y;
    if (table) return strcmp(a->name, b->name);
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    return strcmp(a->name + a->class_end, b->name + b->class_end);
}

/* Gives each image the number of its class, and sorts them. Without a table every class must have
 * some. */
static int number_images(listing *l, smoe_err *err) {
    const smoe_dataset *set = l->set;
    folder *f = l->folder;
    SMOE_FREED bool *there = smoe_alloc(set->named, sizeof *there);
    for (size_t i = 0; i < f->images; i++) {
        image *a = &f->image[i];
        SMOE_FREED char *above = smoe_alloc_part(a->name + a->class_at, a->class_end - a->class_at);
        const char *word = a->row ? *smoe_labels_classes(f->labels, a->row) : above;
        a->label = (uint32_t)class_number(set, word);
        there[a->label] = true;
    }
    qsort_r(f->image, f->images, sizeof *f->image, compare_images, f->labels);
    for (size_t i = 1; i < f->images; i++)
        if (!strcmp(f->image[i].name, f->image[i - 1].name)) {
            smoe_fail(err, SMOE_DATA, "twice in the archive");
            return smoe_folder_prefix(set, f->image[i].name, err);
        }
    for (size_t k = 0; k < set->named && !f->labels; k++)
        if (!there[k]) return missing_class(l, set->class_name[k], err);
    return 0;
}

/* ---- selecting ------------------------------------------------------------------------------- */

/* Keeps the images of a place, in their order. */
static void folder_keep(folder *f, size_t place) {
    size_t count = 0;
    for (size_t i = 0; i < f->images; i++) {
        if (f->image[i].place == place)
            f->image[count++] = f->image[i];
        else
            smoe_folder_image_free(&f->image[i]);
    }
    f->images = count;
}

/* Drops the images that are not in the split in use. If some images have a split, those without one
 * may have been meant for it. */
static void drop_others(listing *l) {
    const folder *f = l->folder;
    const image *lost = NULL;
    size_t none = 0;
    for (size_t i = 0; i < f->images; i++)
        if (f->image[i].place == LOOSE && !none++) lost = &f->image[i];
    if (none)
        smoe_dataset_remark_on(l->set, "%zu image%s of no split %s left out: %s%s", none,
                               none > 1 ? "s" : "", none > 1 ? "are" : "is", lost->name,
                               none > 1 ? ", ..." : "");
    folder_keep(l->folder, l->used);
}

/* Divides the images of train and keeps one part: train, or what is held out. That is round(n *
 * holdout) of the n images of a class, at least one of two, and never all. */
static int split_train(listing *l, smoe_err *err) {
    const smoe_dataset *set = l->set;
    folder *f = l->folder;
    SMOE_FREED size_t *member = smoe_alloc(f->images, sizeof *member);
    SMOE_FREED uint32_t *order = smoe_alloc(f->images, sizeof *order);
    for (size_t k = 0; k < set->named; k++) {
        size_t n = 0;
        for (size_t i = 0; i < f->images; i++)
            if (f->image[i].label == k) member[n++] = i;
        if (!n) continue;
        size_t count = (size_t)lround((double)n * set->data.holdout);
        if (!count) count = 1;
        if (count >= n) count = n - 1;
        smoe_rng rng =
            smoe_rng_at(set->data.seed, SMOE_RNG_HOLDOUT, smoe_rng_name(set->class_name[k]), 0, 0);
        smoe_rng_permutation(&rng, order, n);
        for (size_t i = 0; i < count; i++) f->image[member[order[i]]].place = NOWHERE;
    }
    folder_keep(f, l->wanted == TRAIN ? TRAIN : NOWHERE);
    if (f->images) return 0;
    return smoe_fail(err, SMOE_DATA, "%s: data.holdout: too few images to hold some out",
                     set->path);
}

static void folder_limit(const smoe_dataset *set, folder *f) {
    SMOE_FREED bool *keep = smoe_alloc(f->images, sizeof *keep);
    SMOE_FREED uint32_t *label = smoe_alloc(f->images, sizeof *label);
    for (size_t i = 0; i < f->images; i++) label[i] = f->image[i].label;
    smoe_dataset_select(keep, label, f->images, set->named, set->data.limit);
    for (size_t i = 0; i < f->images; i++) f->image[i].place = keep[i] ? TRAIN : NOWHERE;
    folder_keep(f, TRAIN);
}

/* Gives the set the number and the labels of its images. */
static void folder_give_labels(smoe_dataset *set, const folder *f) {
    const smoe_labels *t = f->labels;
    SMOE_FREED size_t *at = smoe_alloc(f->images + 1, sizeof *at);
    SMOE_FREED uint32_t *class = NULL;
    for (size_t i = 0; i < f->images; i++) {
        uint32_t row = f->image[i].row;
        size_t n = at[i], count = row ? t->row[row - 1].count : 1;
        for (size_t k = 0; k < count; k++) {
            SMOE_APPEND(class, n) =
                k ? (uint32_t)class_number(set, smoe_labels_classes(t, row)[k]) : f->image[i].label;
        }
        at[i + 1] = n;
    }
    set->images = f->images;
    smoe_dataset_give_labels(set, f->images, class, at);
}

/* ---- all of it ------------------------------------------------------------------------------- */

int smoe_folder_list(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) {
    listing l = {.set = set, .folder = set->store, .wanted = smoe_folder_split_named(set->split)};
    l.instead = l.wanted == TEST ? VAL : SPLITS;
    l.evaluated = spec->eval.split ? smoe_folder_split_named(spec->eval.split) : TEST;
    int status =
        smoe_folder_walk(&l, err) || choose_split(&l, err) || folder_name_classes(&l, err) ? -1 : 0;
    if (!status) drop_others(&l);
    if (!status && (number_images(&l, err) || (l.parted && split_train(&l, err)))) status = -1;
    if (!status) {
        folder_limit(set, l.folder);
        folder_give_labels(set, l.folder);
    }
    for (size_t i = 0; i < l.classes; i++) free(l.class[i].name);
    free(l.class);
    free(l.above);
    return status;
}
