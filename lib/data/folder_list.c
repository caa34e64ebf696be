/*
 * Which images an image folder has: walks the directory or archive, finds splits and classes,
 * holds images out of training, and takes labels from a table where there is one.
 *
 *   SPLIT/CLASS/.../IMAGE   with at most one folder above the splits, whose folders may have the
 *                           names of `spelling`
 *   CLASS/.../IMAGE         with data.holdout: the folders that all images share are left out
 *   anything                with data.labels, whose rows find images by their path
 *
 * A class is the path of folders below the split, without a last folder `images`. A tar inside is a
 * folder without its ending. Classes are sorted by name; train and the split that is evaluated must
 * both have images of every class, for otherwise the numbers of the classes would differ between
 * them. What is in other splits is nobody's business. File order is by class, then name; with a
 * table, by name.
 */
#include "base/rng.h"
#include "data/decode.h"
#include "data/folder.h"
#include "data/tar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef smoe_folder_image image;
typedef smoe_folder_images images;

enum { TRAIN, TEST, VAL, SPLITS, LOOSE = SPLITS, PLACES };
static const char *const split_name[] = {"train", "test", "val"};
/* What their folders may be called. */
enum { SPELLINGS = 5 };
static const char *const spelling[SPLITS][SPELLINGS] = {
    {"train", "training", "ILSVRC2012_img_train"},
    {"test", "testing", "ILSVRC2012_img_test"},
    {"val", "validation", "valid", "dev", "ILSVRC2012_img_val"}};

/* A class of a split, of which there is an image, or only a folder. */
typedef struct class {
    char *name;
    size_t split;
    bool folder;
} class;

typedef struct listing {
    smoe_dataset *set;
    smoe_folder *folder;
    size_t wanted, instead; /* the split, and the one that may stand in; SPLITS for none */
    double holdout;         /* data.holdout */
    bool skip;              /* data.on_error */
    bool collect[PLACES];   /* whose images are listed; LOOSE: those in no split's folder */
    bool seen[SPLITS];      /* there is such a folder */
    images found[PLACES];   /* of those */
    class *class;           /* of any split */
    size_t classes, class_room;
    smoe_err foreign;            /* what must not be in `instead`, in case that is taken */
    const char *spelled[SPLITS]; /* what its folder is called */
    char others[160];            /* first names that are no split's, for a message */
    size_t loose;                /* images seen in no split's folder, as far as it was looked */
    char *above;                 /* the leading folder, "" for none, NULL before it is known */
    size_t kept;                 /* bytes of images read on the way */
    bool tars;                   /* there are tars in the archive */
    uint32_t tar;                /* what is visited now lies in this tar, at: */
    uint64_t at, ordinal;
} listing;

static int no_memory(smoe_err *err) {
    return smoe_fail(err, SMOE_RUNTIME, "out of memory for the list of images");
}

int smoe_folder_prefix(const smoe_dataset *set, const char *name, smoe_err *err) {
    return smoe_place_prefix(((const smoe_folder *)set->store)->kind, set->path, name, err);
}

/* ---- lists ----------------------------------------------------------------------------------- */

void smoe_folder_images_free(images *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->item[i].name);
        free(list->item[i].bytes);
    }
    free(list->item);
    *list = (images){0};
}

/* Takes over name and bytes on success. */
static int add(images *list, image new, smoe_err *err) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        image *larger = realloc(list->item, room * sizeof *larger);
        if (!larger) return no_memory(err);
        list->item = larger;
        list->room = room;
    }
    /* What it owns is freed with the list. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    list->item[list->count++] = new;
    return 0;
}

void smoe_folder_keep(images *list, const bool *keep) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (keep[i]) {
            list->item[count++] = list->item[i];
        } else {
            free(list->item[i].name);
            free(list->item[i].bytes);
        }
    }
    list->count = count;
}

uint32_t smoe_folder_tar(smoe_folder *folder, const char *path, smoe_err *err) {
    char **larger = realloc(folder->tar, (folder->tars + 1) * sizeof *larger);
    if (larger) folder->tar = larger;
    if (!larger || !(folder->tar[folder->tars] = strdup(path))) {
        no_memory(err);
        return 0;
    }
    return (uint32_t)++folder->tars;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A name cut at its slashes: [above/]split/below/file. */
typedef struct parts {
    size_t split;        /* SPLITS: it is in no split's folder */
    const char *spelled; /* of `spelling` */
    size_t above;        /* length of what is above the split's folder */
    size_t below;        /* where what is in the split begins; 0 without a split */
    size_t depth;        /* components from there on; 0: the split's folder itself */
    size_t file;         /* where the last component begins */
} parts;

/* Without the ending of a tar, which is a folder here. */
static size_t folder_length(const char *name, size_t length) {
    return length > 4 && !memcmp(name + length - 4, ".tar", 4) ? length - 4 : length;
}

static bool is_tar(const char *name) {
    return folder_length(name, strlen(name)) < strlen(name);
}

static size_t split_number(const char *name, size_t length, const char **spelled) {
    for (size_t k = 0; k < SPLITS; k++)
        for (size_t i = 0; i < SPELLINGS && spelling[k][i]; i++)
            if (strlen(spelling[k][i]) == length && !memcmp(name, spelling[k][i], length)) {
                *spelled = spelling[k][i];
                return k;
            }
    return SPLITS;
}

static parts cut(const char *name) {
    parts p = {.split = SPLITS};
    size_t at = 0, number = 0;
    for (;; number++) {
        size_t n = strcspn(name + at, "/");
        p.depth++;
        p.file = at;
        if (number < 2 && p.split == SPLITS) {
            p.split = split_number(name + at, folder_length(name + at, n), &p.spelled);
            if (p.split < SPLITS) {
                p.above = at ? at - 1 : 0;
                p.below = name[at + n] ? at + n + 1 : at + n;
                p.depth = 0;
            }
        }
        if (!name[at + n]) return p;
        at += n + 1;
    }
}

/* The class of an image: its folders from `below` on, without the last one where that is called
 * `images`. */
static void cut_class(image *a, size_t below) {
    const char *slash = strrchr(a->name, '/');
    size_t end = slash ? (size_t)(slash - a->name) : 0;
    if (end <= below) end = below;
    end = below + folder_length(a->name + below, end - below);
    if (end - below > 7 && !memcmp(a->name + end - 7, "/images", 7)) end -= 7;
    a->class_at = (uint32_t)below;
    a->class_end = (uint32_t)end;
}

static int add_class(listing *l, const char *name, size_t n, size_t split, bool folder,
                     smoe_err *err) {
    const class *last = l->classes ? &l->class[l->classes - 1] : NULL;
    if (last && last->split == split && last->folder == folder && strlen(last->name) == n &&
        !strncmp(last->name, name, n))
        return 0;
    if (!l->class || l->classes == l->class_room) {
        size_t room = l->class_room ? 2 * l->class_room : 256;
        class *larger = realloc(l->class, room * sizeof *larger);
        if (!larger) return no_memory(err);
        l->class = larger;
        l->class_room = room;
    }
    char *own = strndup(name, n);
    if (!own) return no_memory(err);
    l->class[l->classes++] = (class){own, split, folder};
    return 0;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* All splits lie in the same place: two data sets in one archive are not mixed. */
static int check_above(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    if (!l->above) {
        l->above = strndup(member->name, p->above);
        return l->above ? 0 : no_memory(err);
    }
    if (strlen(l->above) == p->above && !strncmp(l->above, member->name, p->above)) return 0;
    smoe_fail(err, SMOE_DATA, "a second set of splits, beside %s/", l->above[0] ? l->above : ".");
    return smoe_folder_prefix(l->set, member->name, err);
}

/* A split has one folder: val/ and validation/ together are not mixed. */
static int check_spelling(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    const char **spelled = &l->spelled[p->split];
    if (!*spelled) *spelled = p->spelled;
    if (*spelled == p->spelled) return 0;
    smoe_fail(err, SMOE_DATA, "a second folder for the split %s, beside %s/", split_name[p->split],
              *spelled);
    return smoe_folder_prefix(l->set, member->name, err);
}

/* What must not be there. In a split that may stand in it is remembered, and passed over. */
static int foreign(listing *l, const smoe_member *member, const parts *p, const char *problem,
                   smoe_err *err) {
    smoe_err why = {0};
    smoe_fail(&why, SMOE_DATA, "unexpected %s: %s", member->folder ? "folder" : "file", problem);
    smoe_folder_prefix(l->set, member->name, &why);
    if (l->folder->labels) return 1; /* its own file may be there */
    if (p->split == l->wanted && !l->skip) {
        if (err) *err = why;
        return -1;
    }
    if (p->split == l->wanted) return smoe_dataset_leave_out(l->set, &why, err) ? -1 : 1;
    if (!l->foreign.code && !l->skip) l->foreign = why;
    return 1;
}

/* Archives are read in one pass where memory allows, so that images need not be searched again. */
static int list_image(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    size_t place = p->split;
    image new = {.name = strdup(member->name),
                 .tar = l->tar,
                 .at = l->at,
                 .ordinal = member->ordinal,
                 .size = (size_t)member->size};
    if (!new.name) return no_memory(err);
    cut_class(&new, p->below);
    int status = 0;
    if (place<SPLITS &&new.class_end> new.class_at)
        status =
            add_class(l, new.name + new.class_at, new.class_end - new.class_at, place, false, err);
    bool stand_in = place != l->wanted && l->found[l->wanted].count;
    bool keep = member->handle && !l->tar && place < SPLITS && !l->holdout && !stand_in;
    if (!status && keep && l->kept + member->size <= l->set->cache_bytes) {
        status = smoe_member_read(member, SMOE_MOST_IMAGE_BYTES, &new.bytes, &new.size, err);
        if (!status) l->kept += new.size;
    }
    if (!status && !add(&l->found[place], new, err)) return 0;
    free(new.name);
    free(new.bytes);
    return -1;
}

/* Remembers a name that is no split's. */
static void note_other(listing *l, const char *name, bool folder) {
    char first[64], shown[64];
    snprintf(first, sizeof first, "%.*s%s", (int)strcspn(name, "/"), name,
             folder || strchr(name, '/') ? "/" : "");
    smoe_text_shown(first, shown, sizeof shown);
    size_t used = strlen(l->others), length = strlen(shown);
    bool last = used >= length && !strcmp(l->others + used - length, shown);
    if (!last && used + length + 3 < sizeof l->others)
        snprintf(l->others + used, sizeof l->others - used, "%s%s", used ? ", " : "", shown);
}

static int list_tar(listing *l, const smoe_member *member, smoe_err *err);

static int list_loose(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    bool picture = !member->folder && smoe_image_kind_of(member->name) != SMOE_IMAGE_NONE;
    note_other(l, member->name, member->folder);
    l->loose += picture && p->depth > 1;
    if (!member->folder && is_tar(member->name)) {
        l->loose++;
        return l->collect[LOOSE] ? list_tar(l, member, err) : 0;
    }
    if (picture && l->collect[LOOSE]) return list_image(l, member, p, err);
    /* Folders that are not ours are not entered, but one that the splits may lie in, and a few to
     * see whether they have images. */
    return member->folder && !l->collect[LOOSE] && p->depth > (l->loose ? 1 : 2);
}

static int list_member(void *user, const smoe_member *member, smoe_err *err) {
    listing *l = user;
    parts p = cut(member->name);
    if (p.split == SPLITS) return list_loose(l, member, &p, err);
    if (check_above(l, member, &p, err) || check_spelling(l, member, &p, err)) return -1;
    l->seen[p.split] = true;
    if (!member->folder && is_tar(member->name)) return list_tar(l, member, err);
    if (member->folder && p.depth == 1 &&
        add_class(l, member->name + p.below, strlen(member->name) - p.below, p.split, true, err))
        return -1;
    if (member->folder) return 0;
    bool picture = smoe_image_kind_of(member->name) != SMOE_IMAGE_NONE;
    if (!l->collect[p.split]) {
        image a = {.name = (char *)member->name};
        cut_class(&a, p.below);
        if (p.depth < 2) return 0;
        return add_class(l, a.name + a.class_at, a.class_end - a.class_at, p.split, !picture, err);
    }
    if (!picture)
        return foreign(l, member, &p, "its name does not end in .jpg, .jpeg, .png or .webp", err);
    if (p.depth < 2 && !l->folder->labels)
        return foreign(l, member, &p, "only images in SPLIT/CLASS/ are possible here", err);
    return list_image(l, member, &p, err);
}

/* ---- tars inside ----------------------------------------------------------------------------- */

typedef struct inside {
    listing *l;
    const char *above; /* the name of the tar */
} inside;

static int list_inside(void *user, const smoe_tar_member *member, smoe_err *err) {
    const inside *in = user;
    listing *l = in->l;
    const char *own = member->name;
    while (!strncmp(own, "./", 2)) own += 2;
    if (smoe_member_hidden(own)) return 0;
    char *name = smoe_text_format("%s/%s", in->above, own);
    if (!name) return no_memory(err);
    smoe_member as = {
        .path = l->set->path, .name = name, .size = member->size, .ordinal = l->ordinal++};
    l->at = member->at;
    int status = list_member(l, &as, err);
    free(name);
    return status < 0 ? -1 : 0;
}

/* The images of a tar in a directory, or in another tar, each where it lies. In an archive they are
 * listed after the walk, for the walk does not say where a member begins. */
static int list_tar(listing *l, const smoe_member *member, smoe_err *err) {
    if (member->handle) {
        l->tars = true;
        return 0;
    }
    inside in = {l, member->name};
    uint32_t outer = l->tar;
    uint64_t at = l->at, size = member->size;
    if (!outer) {
        char *path = smoe_text_format("%s/%s", member->path, member->name);
        l->tar = path ? smoe_folder_tar(l->folder, path, err) : 0;
        if (!path) no_memory(err);
        free(path);
        if (!l->tar) return -1;
        at = 0;
    }
    int status = smoe_tar_index_within(l->folder->tar[l->tar - 1], at, size, list_inside, &in, err);
    l->tar = outer;
    return status;
}

static int list_outer(void *user, const smoe_tar_member *member, smoe_err *err) {
    listing *l = user;
    const char *name = member->name;
    while (!strncmp(name, "./", 2)) name += 2;
    if (!is_tar(name) || smoe_member_hidden(name)) return 0;
    smoe_member as = {
        .path = l->set->path, .name = name, .size = member->size, .ordinal = l->ordinal++};
    l->at = member->at;
    return list_member(l, &as, err) < 0 ? -1 : 0;
}

static int list_tars_of_archive(listing *l, smoe_err *err) {
    const char *path = l->set->path;
    if (!is_tar(path))
        return smoe_fail(err, SMOE_DATA,
                         "%s: tars in a compressed archive cannot be read where they lie: "
                         "uncompress it to a .tar, or unpack it",
                         path);
    l->tar = smoe_folder_tar(l->folder, path, err);
    if (!l->tar) return -1;
    int status = smoe_tar_index(path, list_outer, l, err);
    l->tar = 0;
    return status;
}

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

/* Sorted names of the classes that count, each once: those of the split in use, of train, and for
 * train those of the split that will be evaluated. */
static int settle_classes(listing *l, size_t used, size_t evaluated, smoe_err *err) {
    if (evaluated == TEST && !has_classes(l, TEST)) evaluated = VAL;
    const char **name = calloc(l->classes + 1, sizeof *name);
    if (!name) return no_memory(err);
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
    if (!status) status = smoe_dataset_name_classes(l->set, name, count, err);
    free(name);
    return status;
}

/* The folder of a split, or what it would be called. */
static const char *folder_of(const listing *l, size_t split) {
    return l->spelled[split] ? l->spelled[split] : split_name[split];
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
    *place = split_number(given, strlen(given), &spelled);
    if (*place < SPLITS) return 0;
    return smoe_fail(err, SMOE_DATA, "%s:%zu: no split '%.40s' (train, test, val)",
                     smoe_labels_path(l->folder->labels),
                     smoe_labels_line(l->folder->labels, a->row), given);
}

/* Without a row and without a folder that is a class: left out, or the end. */
static int without_label(listing *l, const image *a, smoe_err *err) {
    smoe_err why = {0};
    smoe_fail(&why, SMOE_DATA, "no row in %s, and no folder that is a class",
              smoe_labels_path(l->folder->labels));
    smoe_folder_prefix(l->set, a->name, &why);
    if (l->skip) return smoe_dataset_leave_out(l->set, &why, err);
    if (err) *err = why;
    return -1;
}

/* Two images for one row, or none. */
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

/* Finds the row of every image, and puts the images of each split together. */
static int apply_table(listing *l, smoe_err *err) {
    const smoe_labels *t = l->folder->labels;
    images placed[PLACES] = {0};
    const char **seen = calloc(smoe_labels_rows(t) + 1, sizeof *seen);
    int status = seen ? 0 : no_memory(err);
    for (size_t k = 0; k < PLACES; k++) {
        for (size_t i = 0; i < l->found[k].count; i++) {
            image *a = &l->found[k].item[i];
            size_t place = k;
            if (status) continue;
            a->row = smoe_labels_find(t, a->name);
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
            status = add(&placed[place], *a, err);
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

static int compare_texts(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
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
    if (!name) return no_memory(err);
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
    int status = smoe_dataset_name_classes(l->set, name, count, err);
    free(name);
    if (status) return -1;
    qsort(list->item, list->count, sizeof *list->item, compare_names);
    for (size_t i = 0; i < list->count; i++) {
        image *a = &list->item[i];
        if (i && !strcmp(a->name, a[-1].name)) return twice(l, a->name, err);
        char *own = strndup(a->name + a->class_at, a->class_end - a->class_at);
        if (!own) return no_memory(err);
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
    if (!set->label || (f->labels && (!set->more_at || !set->more))) return no_memory(err);
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
    for (size_t i = 0; i < list->count; i++) cut_class(&list->item[i], below);
}

/* Images in no split's folder are those of train. */
static int take_loose(listing *l, smoe_err *err) {
    images *loose = &l->found[LOOSE], *train = &l->found[TRAIN];
    if (l->seen[TRAIN] || !loose->count || train->count) return 0;
    if (!l->folder->labels) cut_shared(loose);
    *train = *loose;
    *loose = (images){0};
    for (size_t i = 0; i < train->count; i++) {
        const image *a = &train->item[i];
        if (l->folder->labels) continue;
        if (a->class_end == a->class_at) {
            smoe_fail(err, SMOE_DATA, "in no folder, and so of no class");
            return smoe_folder_prefix(l->set, a->name, err);
        }
        if (add_class(l, a->name + a->class_at, a->class_end - a->class_at, TRAIN, false, err))
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

/* Parts the images of train, which are sorted by class or have a label from the table: what is held
 * out is `used`, which may be train itself. */
static int split_train(listing *l, size_t used, smoe_err *err) {
    images *list = &l->found[TRAIN];
    bool *held = calloc(list->count, sizeof *held), *part = calloc(list->count, sizeof *part);
    uint32_t *order = calloc(list->count, sizeof *order);
    size_t *member = calloc(list->count, sizeof *member);
    int status = held && part && order && member ? 0 : no_memory(err);
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
              split_name[l->wanted], either ? " or " : "", either ? split_name[l->instead] : "",
              either ? "/" : "", *there ? there : "no folders of splits");
    if (l->wanted != TRAIN && (l->seen[TRAIN] || l->found[TRAIN].count))
        smoe_fail_more(err, SMOE_DATA, "data.holdout=0.1 makes a tenth of train the split %s",
                       split_name[l->wanted]);
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
    int status = keep && label ? 0 : no_memory(err);
    for (size_t i = 0; !status && i < list->count; i++) label[i] = list->item[i].label;
    if (!status) status = smoe_dataset_select(keep, label, list->count, classes, limit, err);
    if (!status) smoe_folder_keep(list, keep);
    free(keep);
    free(label);
    return status;
}

static int settle(listing *l, const smoe_spec *spec, smoe_err *err) {
    const char *evaluated = spec->eval.split ? spec->eval.split : split_name[TEST], *spelled;
    size_t used = SPLITS, other = split_number(evaluated, strlen(evaluated), &spelled);
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
    if (apply_limit(&l->folder->images, l->set->named, spec->data.limit, err)) return -1;
    return smoe_folder_settle(l->set, err);
}

/* Which images are to be listed. */
static void choose(listing *l) {
    l->collect[l->wanted] = true;
    if (l->wanted == TEST) l->collect[l->instead = VAL] = true;
    if (l->holdout > 0) l->collect[TRAIN] = l->collect[LOOSE] = true;
    for (size_t k = 0; l->folder->labels && k < PLACES; k++) l->collect[k] = true;
}

int smoe_folder_list(smoe_dataset *set, const smoe_spec *spec, const char *split, smoe_err *err) {
    const char *spelled;
    listing l = {.set = set,
                 .folder = set->store,
                 .wanted = split_number(split, strlen(split), &spelled),
                 .instead = SPLITS,
                 .holdout = spec->data.holdout,
                 .skip = spec->data.on_error == SMOE_ON_ERROR_SKIP};
    choose(&l);
    int status = smoe_walk(set->path, list_member, &l, err);
    if (!status && l.tars) status = list_tars_of_archive(&l, err);
    if (!status) status = settle(&l, spec, err);
    for (size_t k = 0; k < PLACES; k++) smoe_folder_images_free(&l.found[k]);
    for (size_t i = 0; i < l.classes; i++) free(l.class[i].name);
    free(l.class);
    free(l.above);
    return status;
}
