/*
 * The walk of an image folder: which images and classes are there, and in which split.
 *
 *   SPLIT/CLASS/.../IMAGE   with at most one folder above the splits, whose folders may have the
 *                           names of `spelling`
 *   CLASS/.../IMAGE         with data.holdout: the folders that all images share are left out
 *   anything                with data.labels, whose rows find images by their path
 *
 * A class is the path of folders below the split, without a last folder `images`. A tar inside is a
 * folder without its ending.
 */
#include "data/folder.h"
#include "base/file.h"

#include <ctype.h>

static const char SKIPPING[] = "data.on_error=skip leaves out what cannot be used";

typedef smoe_folder_image image;
typedef smoe_folder_listing listing;

void smoe_folder_image_free(image *a) {
    free(a->name);
    free(a->bytes);
}

/* Its number, from 1. */
static uint32_t folder_add_tar(smoe_folder *f, const char *path) {
    f->tar = smoe_alloc_next(f->tar, f->tars, sizeof *f->tar);
    f->tar[f->tars] = smoe_alloc_text(path);
    f->tar_fd = smoe_alloc_next(f->tar_fd, f->tars, sizeof *f->tar_fd);
    f->tar_fd[f->tars] = smoe_place_open(path, f->tars);
    return (uint32_t)++f->tars;
}

int smoe_folder_prefix(const smoe_dataset *set, const char *name, smoe_err *err) {
    return smoe_place_prefix(((const smoe_folder *)set->store)->kind, set->path, name, err);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The length of a name without the ending of a tar, which is a folder here. */
static size_t stem_of(const char *name, size_t length) {
    return length > 4 && !memcmp(name + length - 4, ".tar", 4) ? length - 4 : length;
}

static bool is_tar(const char *name) {
    return stem_of(name, strlen(name)) < strlen(name);
}

/* The split with a folder of this name, and its usual spelling; SPLITS: none. */
static size_t split_of(const char *name, size_t length, const char **spelled) {
    enum { SPELLINGS = 5 };
    static const char *const spelling[SPLITS][SPELLINGS] = {
        {"train", "training", "ILSVRC2012_img_train"},
        {"test", "testing", "ILSVRC2012_img_test"},
        {"val", "validation", "valid", "dev", "ILSVRC2012_img_val"}};
    for (size_t k = 0; k < SPLITS; k++)
        for (size_t i = 0; i < SPELLINGS && spelling[k][i]; i++)
            if (strlen(spelling[k][i]) == length && !memcmp(name, spelling[k][i], length)) {
                *spelled = spelling[k][i];
                return k;
            }
    return SPLITS;
}

size_t smoe_folder_split_named(const char *name) {
    const char *spelled;
    return split_of(name, strlen(name), &spelled);
}

static void cut_class(image *a, size_t below) {
    const char *slash = strrchr(a->name, '/');
    size_t end = slash ? (size_t)(slash - a->name) : 0;
    if (end <= below) end = below;
    end = below + stem_of(a->name + below, end - below);
    if (end - below > 7 && !memcmp(a->name + end - 7, "/images", 7)) end -= 7;
    a->class_at = (uint32_t)below;
    a->class_end = (uint32_t)end;
}

/* Adds the class of an image, or a folder that may be one. */
static void add_class(listing *l, const image *a, size_t split, bool folder) {
    const char *name = a->name + a->class_at;
    size_t n = a->class_end - a->class_at;
    const smoe_folder_class *last = l->classes ? &l->class[l->classes - 1] : NULL;
    if (last && last->split == split && last->folder == folder && strlen(last->name) == n &&
        !strncmp(last->name, name, n))
        return;
    SMOE_APPEND(l->class, l->classes) =
        (smoe_folder_class){smoe_alloc_part(name, n), split, folder};
}

bool smoe_folder_classify(listing *l, image *a, size_t below, size_t split) {
    cut_class(a, below);
    bool some = a->class_end > a->class_at;
    if (some && split < SPLITS) add_class(l, a, split, false);
    return some;
}

/* A name cut at its slashes: [above/]split/below/file. */
typedef struct parts {
    size_t split;        /* SPLITS: it is in no split's folder */
    const char *spelled; /* of `spelling` */
    size_t above;        /* length of what is above the split's folder */
    size_t below;        /* where what is in the split begins; 0 without a split */
    size_t depth;        /* components from there on; 0: the split's folder itself */
} parts;

static parts listing_cut(const char *name) {
    parts p = {.split = SPLITS};
    size_t at = 0, number = 0;
    for (;; number++) {
        size_t n = strcspn(name + at, "/");
        p.depth++;
        if (number < 2 && p.split == SPLITS) {
            p.split = split_of(name + at, stem_of(name + at, n), &p.spelled);
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

int smoe_dataset_outside(const smoe_spec *spec, const char *folder, smoe_err *err) {
    smoe_err ignored;
    SMOE_FREED char *path = NULL, *there = NULL, *part = smoe_alloc_text(folder);
    if (!folder || spec->data.source != SMOE_SOURCE_FOLDER ||
        smoe_spec_path(spec, "data.path", &path, &ignored))
        return 0;
    while (!(there = realpath(part, NULL)) && strcmp(part, ".") != 0 && strcmp(part, "/") != 0) {
        char *above = smoe_file_folder(part);
        free(part);
        part = above;
    }
    size_t n = strlen(path);
    bool within = there && !strncmp(there, path, n) && (!there[n] || there[n] == '/');
    bool loose = spec->data.holdout > 0 || spec->data.labels; /* images may lie anywhere */
    if (!within || (!loose && listing_cut(there + n + (there[n] == '/')).split == SPLITS)) return 0;
    return smoe_fail(err, SMOE_USAGE,
                     "%s is inside the data set, and the images written there would become part of "
                     "it; -o DIR names another folder",
                     folder);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* All splits lie in the same place, and a split has one folder: two data sets in one archive are
 * not mixed, nor val/ and validation/. */
static int check_place(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    const char **spelled = &l->spelled[p->split];
    if (!l->above) l->above = smoe_alloc_part(member->name, p->above);
    if (strlen(l->above) != p->above || strncmp(l->above, member->name, p->above)) {
        smoe_fail(err, SMOE_DATA,
                  "a second set of splits, beside %s/ (expected SPLIT/CLASS/, as train/cat/, not "
                  "cat/train/)",
                  l->above[0] ? l->above : ".");
    } else {
        if (!*spelled) *spelled = p->spelled;
        if (*spelled == p->spelled) return 0;
        smoe_fail(err, SMOE_DATA, "a second folder for the split %s, beside %s/",
                  smoe_split_name[p->split], *spelled);
    }
    return smoe_folder_prefix(l->set, member->name, err);
}

/* A file that is not allowed. In the split that may stand in it is skipped, and the error is kept
 * in case that split is used. */
static int foreign(listing *l, const smoe_member *member, size_t split, const char *problem,
                   smoe_err *err) {
    smoe_err why = {0};
    if (l->folder->labels) return 0; /* its own file may be there */
    smoe_fail(&why, SMOE_DATA, "unexpected file: %s", problem);
    smoe_folder_prefix(l->set, member->name, &why);
    if (split == l->wanted && !smoe_dataset_refuse(l->set, &why, err)) return 0;
    if (split == l->wanted) return smoe_fail_more(err, SMOE_DATA, "%s", SKIPPING);
    if (!l->foreign.code && l->set->data.on_error != SMOE_ON_ERROR_SKIP) l->foreign = why;
    return 0;
}

/* Archives are read in one pass where memory allows, so that images need not be searched again. */
static int list_image(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    smoe_folder *f = l->folder;
    image found = {.name = smoe_alloc_text(member->name),
                   .place = (uint32_t)p->split,
                   .tar = member->at ? l->tar : 0,
                   .at = member->at,
                   .ordinal = member->ordinal,
                   .size = (size_t)member->size};
    (void)smoe_folder_classify(l, &found, p->below, p->split);
    bool stand_in = p->split != l->wanted && l->found[l->wanted];
    bool keep = member->handle && !member->at && p->split < SPLITS && !(l->set->data.holdout > 0) &&
                !stand_in && (!l->set->listed || member->size > SMOE_MOST_IMAGE_BYTES);
    int status = 0;
    if (keep && l->kept + member->size <= l->set->cache_bytes) {
        status = smoe_member_read(member, SMOE_MOST_IMAGE_BYTES, &found.bytes, &found.size, err);
        if (!status) l->kept += found.size;
    }
    SMOE_APPEND(f->image, f->images) = found;
    l->found[p->split]++;
    return status;
}

/* Remembers a folder such as Train/ or photos/Train/. */
static void note_capital(listing *l, const char *name) {
    for (size_t depth = 0; depth < 2 && !*l->capital; depth++) {
        char small[sizeof l->capital] = "";
        size_t n = strcspn(name, "/");
        for (size_t i = 0; i < n && i + 1 < sizeof small; i++)
            small[i] = (char)tolower((unsigned char)name[i]);
        if (n < sizeof small && smoe_folder_split_named(small) < SPLITS)
            memcpy(l->capital, name, n);
        name += n + (name[n] == '/');
    }
}

/* Remembers a name that is not that of a split. */
static void note_other(listing *l, const char *name, bool folder) {
    char first[64], shown[64];
    snprintf(first, sizeof first, "%.*s%s", (int)strcspn(name, "/"), name,
             folder || strchr(name, '/') ? "/" : "");
    smoe_text_shown(first, shown, sizeof shown);
    size_t used = strlen(l->others), length = strlen(shown);
    bool last = used >= length && !strcmp(l->others + used - length, shown);
    if (!last && used + length + 3 < sizeof l->others)
        smoe_text_list(l->others, sizeof l->others, "%s", shown);
    note_capital(l, name);
}

static int list_tar(listing *l, const smoe_member *member, smoe_err *err);

static int list_loose(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    bool picture = !member->folder && smoe_decode_is_image(member->name);
    note_other(l, member->name, member->folder);
    l->loose += picture && p->depth > 1;
    l->bare |= picture && p->depth == 1;
    if (!member->folder && is_tar(member->name)) {
        l->loose++;
        return l->collect[LOOSE] ? list_tar(l, member, err) : 0;
    }
    if (picture && l->collect[LOOSE]) return list_image(l, member, p, err);
    if (!member->folder && p->depth > 1) smoe_dataset_count_other(&l->passed, member->name);
    /* Other folders are not entered, except one in which the splits may lie, and a few to see
     * whether they have images. */
    return member->folder && !l->collect[LOOSE] && p->depth > (l->loose ? 1 : 2);
}

/* A name that cannot be used is left out, or an error, if its split is needed. */
static int list_problem(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    bool other = p->split == LOOSE && !member->folder && !smoe_decode_is_image(member->name);
    if (!l->collect[p->split] || other) return 0;
    if (!smoe_dataset_refuse(l->set, member->problem, err)) return 0;
    return smoe_fail_more(err, SMOE_DATA, "%s", SKIPPING);
}

static int list_member(void *user, const smoe_member *member, smoe_err *err) {
    listing *l = user;
    parts p = listing_cut(member->name);
    if (member->problem) return list_problem(l, member, &p, err);
    if (member->loop) {
        smoe_dataset_remark_on(l->set, "%s/%s leads to a folder above it, and is not followed",
                               member->path, member->name);
        return 0;
    }
    if (p.split == SPLITS) return list_loose(l, member, &p, err);
    if (check_place(l, member, &p, err)) return -1;
    if (!member->folder && is_tar(member->name)) return list_tar(l, member, err);
    bool picture = !member->folder && smoe_decode_is_image(member->name);
    image a = {.name = (char *)member->name};
    cut_class(&a, p.below);
    if (member->folder) a.class_end = (uint32_t)strlen(a.name);
    if (member->folder ? p.depth == 1 : !l->collect[p.split] && p.depth > 1)
        add_class(l, &a, p.split, !picture);
    if (member->folder || !l->collect[p.split]) return 0;
    if (!picture)
        return foreign(
            l, member, p.split,
            "its name does not end as that of an image that is read (" SMOE_IMAGE_ENDINGS ")", err);
    if (p.depth < 2 && !l->folder->labels)
        return foreign(l, member, p.split,
                       "only images in SPLIT/CLASS/ are possible, as train/CLASS/IMAGE", err);
    return list_image(l, member, &p, err);
}

typedef struct inside {
    listing *l;
    const char *above; /* the name of the tar */
} inside;

static int list_inside(void *user, const smoe_member *member, smoe_err *err) {
    const inside *in = user;
    SMOE_FREED char *own = smoe_member_plain(member->name);
    if (!*own || smoe_member_hidden(own)) return 0;
    if (smoe_text_ends(own, ".cls") && !in->l->folder->labels) {
        smoe_fail(err, SMOE_DATA, "not a class: " SMOE_FOLDER_SHARDS);
        return smoe_folder_prefix(in->l->set, in->above, err);
    }
    SMOE_FREED char *name = smoe_text_format("%s/%s", in->above, own);
    smoe_member as = *member;
    as.path = in->l->set->path;
    as.name = name;
    return list_member(in->l, &as, err);
}

/* The images of a tar in a directory, or in another tar, each where it lies. */
static int list_tar(listing *l, const smoe_member *member, smoe_err *err) {
    enum { NESTED = 8 };
    inside in = {l, member->name};
    uint32_t outer = l->tar;
    if (l->nested == NESTED)
        return smoe_fail(err, SMOE_DATA, "%s: tar files within tar files, more than %d deep",
                         l->set->path, NESTED);
    if (member->handle && !member->at)
        return smoe_fail(err, SMOE_DATA,
                         "%s: tar files within a compressed archive cannot be read in place: "
                         "uncompress it to a .tar, or unpack it",
                         member->path);
    if (!member->handle) {
        SMOE_FREED char *path = smoe_text_format("%s/%s", member->path, member->name);
        l->tar = folder_add_tar(l->folder, path);
    }
    l->nested++;
    int status = smoe_walk_tar(l->folder->tar[l->tar - 1], member->at,
                               member->handle ? member->size : UINT64_MAX,
                               &(smoe_visitor){list_inside, &in, l->set->scan, &l->unclosed}, err);
    l->nested--;
    l->tar = outer;
    return status;
}

int smoe_folder_walk(listing *l, smoe_err *err) {
    l->collect[l->wanted] = true;
    if (l->instead < SPLITS) l->collect[l->instead] = true;
    if (l->set->data.holdout > 0) l->collect[TRAIN] = l->collect[LOOSE] = true;
    for (size_t k = 0; l->folder->labels && k < PLACES; k++) l->collect[k] = true;
    if (l->folder->kind == SMOE_PLACE_ARCHIVE) l->tar = folder_add_tar(l->folder, l->set->path);
    const smoe_visitor to = {list_member, l, l->set->scan, &l->unclosed};
    if (smoe_walk(l->set->path, &to, err)) return -1;
    if (l->unclosed) smoe_dataset_remark_unclosed(l->set, l->unclosed, *l->folder->tar);
    return 0;
}
