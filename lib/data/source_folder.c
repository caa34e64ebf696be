/*
 * `image-folder`: SPLIT/CLASS/NAME.{jpg,jpeg,png} in a directory or an archive, with at most one
 * folder level above the splits, whose folders may have the names of `spelling`. Classes are sorted
 * by name; train and the split that is evaluated must both have images of every class, because
 * otherwise the numbers of the classes would differ between them. Other splits are ignored. File
 * order is by class, then name.
 *
 * Three ways to keep the images, decided at opening:
 *   pixels  decoded at image_size, when they fit in data.cache_mb and random boxes of larger
 *           originals are not wanted
 *   bytes   the unchanged files, decoded when they are needed; archives are otherwise always kept
 *           in this way, and refused if even that does not fit: they must then be unpacked
 *   disk    a directory whose files are read again each time
 * Every header is checked at opening; images that fit in data.cache_mb are also decoded once then,
 * so that damage is found before training starts.
 */
#include "data/archive.h"
#include "data/dataset.h"
#include "data/decode.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct item {
    char *name; /* "train/cat/0001.jpg", with the leading folder of the archive if there is one */
    uint32_t class_at, file_at; /* where class and file begin in name */
    uint64_t ordinal;           /* of an image its place on the walk, of a class its split */
    size_t size;                /* of the file */
    uint8_t *bytes;             /* or NULL */
} item;

typedef struct items {
    item *item;
    size_t count, room;
} items;

typedef struct folder {
    smoe_place_kind kind;
    items images;
    uint8_t *pixels; /* [images, size, size, channels], or NULL */
} folder;

static int no_memory(smoe_err *err) {
    return smoe_fail(err, SMOE_RUNTIME, "out of memory for the list of images");
}

static int place_prefix(const smoe_dataset *set, const char *name, smoe_err *err) {
    return smoe_place_prefix(((const folder *)set->store)->kind, set->path, name, err);
}

static void items_free(items *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->item[i].name);
        free(list->item[i].bytes);
    }
    free(list->item);
    *list = (items){0};
}

static int items_add(items *list, item new, smoe_err *err) {
    if (!list->item || list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        item *larger = realloc(list->item, room * sizeof *larger);
        if (!larger) return no_memory(err);
        list->item = larger;
        list->room = room;
    }
    new.name = strdup(new.name);
    if (!new.name) return no_memory(err);
    list->item[list->count++] = new;
    return 0;
}

/* ---- the list: which images of which classes there are --------------------------------------- */

enum { TRAIN, TEST, VAL, SPLITS };
static const char *const split_name[] = {"train", "test", "val"};
/* The names that their folders may have. */
enum { SPELLINGS = 4 };
static const char *const spelling[SPLITS][SPELLINGS] = {
    {"train", "training"}, {"test", "testing"}, {"val", "validation", "valid", "dev"}};

typedef struct listing {
    smoe_dataset *set;
    size_t wanted, instead;      /* the split, and the one that may stand in; SPLITS for none */
    bool seen[SPLITS];           /* there is such a folder */
    items found[SPLITS];         /* of wanted and instead */
    items classes;               /* of any split; name is the class alone */
    smoe_err foreign;            /* what must not be in `instead`, in case that is taken */
    const char *spelled[SPLITS]; /* what its folder is called */
    char others[160];            /* first names that are no split's, for a message */
    char *above; /* the leading folder, "" where there is none, NULL before it is known */
    size_t kept; /* bytes of images read on the way */
} listing;

/* A name cut at its slashes: [above/]split/class/file. */
typedef struct parts {
    size_t count, at[6];  /* components; where each begins; at[count] is one past the end + 1 */
    size_t split, number; /* which component is the split, and which split; count where none is */
    const char *spelled;  /* of `spelling` */
} parts;

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
    parts p = {0};
    size_t at = 0;
    while (p.count < 5) {
        p.at[p.count++] = at;
        at += strcspn(name + at, "/") + 1;
        p.at[p.count] = at;
        if (!name[at - 1]) break;
    }
    size_t highest = p.count < 2 ? p.count : 2; /* components that may be one */
    for (p.split = 0; p.split < highest; p.split++) {
        p.number =
            split_number(name + p.at[p.split], p.at[p.split + 1] - p.at[p.split] - 1, &p.spelled);
        if (p.number < SPLITS) return p;
    }
    p.split = p.count;
    return p;
}

/* All splits lie in the same place: two data sets in one archive are not mixed. */
static int check_above(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    size_t n = p->split ? p->at[1] - 1 : 0;
    if (!l->above) {
        l->above = strndup(member->name, n);
        return l->above ? 0 : no_memory(err);
    }
    if (strlen(l->above) == n && !strncmp(l->above, member->name, n)) return 0;
    smoe_fail(err, SMOE_DATA, "a second set of splits, beside %s/", l->above[0] ? l->above : ".");
    return place_prefix(l->set, member->name, err);
}

static int list_class(listing *l, const char *name, const parts *p, smoe_err *err) {
    size_t at = p->at[p->split + 1], n = p->at[p->split + 2] - at - 1;
    const items *c = &l->classes;
    const item *last = c->count ? &c->item[c->count - 1] : NULL;
    if (last && last->ordinal == p->number && strlen(last->name) == n &&
        !strncmp(last->name, name + at, n))
        return 0;
    char *class = strndup(name + at, n);
    int status = class ? items_add(&l->classes, (item){.name = class, .ordinal = p->number}, err)
                       : no_memory(err);
    free(class);
    return status;
}

/* Reports a file that must not exist. In the split that may replace another one, it is only
 * remembered. */
static int foreign(listing *l, const smoe_member *member, const parts *p, const char *problem,
                   smoe_err *err) {
    bool wanted = p->number == l->wanted;
    if (!wanted && l->foreign.code) return 1;
    if (!wanted) err = &l->foreign;
    smoe_fail(err, SMOE_DATA, "unexpected %s: %s", member->folder ? "folder" : "file", problem);
    place_prefix(l->set, member->name, err);
    return wanted ? -1 : 1;
}

/* Archives are read in one pass if memory allows, so that images need not be found again. */
static int list_image(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    if (smoe_image_kind_of(member->name) == SMOE_IMAGE_NONE)
        return foreign(l, member, p, "its name does not end in .jpg, .jpeg or .png", err);
    item new = {.name = (char *)member->name,
                .class_at = (uint32_t)p->at[p->split + 1],
                .file_at = (uint32_t)p->at[p->split + 2],
                .ordinal = member->ordinal,
                .size = (size_t)member->size};
    bool stand_in = p->number != l->wanted && l->found[l->wanted].count;
    if (member->handle && !stand_in && l->kept + member->size <= l->set->cache_bytes) {
        if (smoe_member_read(member, SMOE_MOST_IMAGE_BYTES, &new.bytes, &new.size, err)) return -1;
        l->kept += new.size;
    }
    if (!items_add(&l->found[p->number], new, err)) return 0;
    free(new.bytes);
    return -1;
}

/* A split has one folder: val/ and validation/ together are not mixed. */
static int check_spelling(listing *l, const smoe_member *member, const parts *p, smoe_err *err) {
    const char **spelled = &l->spelled[p->number];
    if (!*spelled) *spelled = p->spelled;
    if (*spelled == p->spelled) return 0;
    smoe_fail(err, SMOE_DATA, "a second folder for the split %s, beside %s/", split_name[p->number],
              *spelled);
    return place_prefix(l->set, member->name, err);
}

/* Remembers a name that is no split's. */
static void note_other(listing *l, const char *name) {
    char first[64], shown[64];
    snprintf(first, sizeof first, "%.*s%s", (int)strcspn(name, "/"), name,
             strchr(name, '/') ? "/" : "");
    smoe_text_shown(first, shown, sizeof shown);
    size_t used = strlen(l->others), length = strlen(shown);
    bool last = used >= length && !strcmp(l->others + used - length, shown);
    if (!last && used + length + 3 < sizeof l->others)
        snprintf(l->others + used, sizeof l->others - used, "%s%s", used ? ", " : "", shown);
}

static int list_member(void *user, const smoe_member *member, smoe_err *err) {
    listing *l = user;
    parts p = cut(member->name);
    if (p.split == p.count) {
        note_other(l, member->name);
        return p.count > 1; /* not ours: a README, another folder */
    }
    if (check_above(l, member, &p, err) || check_spelling(l, member, &p, err)) return -1;
    size_t below = p.count - p.split - 1; /* components under the split */
    l->seen[p.number] = true;
    if (member->folder ? below == 1 : below == 2)
        if (list_class(l, member->name, &p, err)) return -1;
    if (p.number != l->wanted && p.number != l->instead) return below > 0;
    if (member->folder && below < 2) return 0;
    if (!member->folder && below == 2) return list_image(l, member, &p, err);
    return foreign(l, member, &p, "only images in SPLIT/CLASS/ are possible here", err);
}

static size_t class_length(const item *a) {
    return a->file_at - a->class_at - 1;
}

static int compare_class(const char *a, size_t n, const char *b, size_t m) {
    int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int compare_items(const void *x, const void *y) {
    const item *a = x, *b = y;
    int order = compare_class(a->name + a->class_at, class_length(a), b->name + b->class_at,
                              class_length(b));
    return order ? order : strcmp(a->name + a->file_at, b->name + b->file_at);
}

static int compare_names(const void *x, const void *y) {
    return strcmp(((const item *)x)->name, ((const item *)y)->name);
}

static int compare_ordinals(const void *x, const void *y) {
    uint64_t a = (*(item *const *)x)->ordinal, b = (*(item *const *)y)->ordinal;
    return (a > b) - (a < b);
}

static bool has_classes(const listing *l, size_t split) {
    bool some = false;
    for (size_t i = 0; i < l->classes.count; i++) some |= l->classes.item[i].ordinal == split;
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
    items *c = &l->classes;
    if (evaluated == TEST && !has_classes(l, TEST)) evaluated = VAL;
    qsort(c->item, c->count, sizeof *c->item, compare_names);
    const char **name = calloc(c->count + 1, sizeof *name);
    if (!name) return no_memory(err);
    size_t count = 0;
    int status = 0;
    for (size_t i = 0; !status && i < c->count; i++) {
        size_t split = c->item[i].ordinal;
        if (split != used && split != TRAIN && (used != TRAIN || split != evaluated)) continue;
        if (count && !strcmp(name[count - 1], c->item[i].name)) continue;
        name[count++] = c->item[i].name;
        status = check_class_name(l->set, c->item[i].name, err);
    }
    if (!status) status = smoe_dataset_name_classes(l->set, name, count, err);
    free(name);
    return status;
}

/* The folder of a split, or its usual name if there is none. */
static const char *folder_of(const listing *l, size_t split) {
    return l->spelled[split] ? l->spelled[split] : split_name[split];
}

/* Reports that a split has no image of a class: the folder is empty, or does not exist. */
static int missing_class(const listing *l, size_t used, const char *class, smoe_err *err) {
    size_t other = used;
    for (size_t i = 0; i < l->classes.count; i++) {
        const item *c = &l->classes.item[i];
        if (strcmp(c->name, class)) continue;
        if (c->ordinal == used)
            return smoe_fail(err, SMOE_DATA, "%s: empty class: no images in %s/%s/", l->set->path,
                             folder_of(l, used), class);
        other = c->ordinal;
    }
    return smoe_fail(err, SMOE_DATA, "%s: the class %s is in %s/, but not in %s/", l->set->path,
                     class, folder_of(l, other), folder_of(l, used));
}

/* Items sorted, each given the number of its class; every class must have some. */
static int settle_labels(listing *l, size_t used, smoe_err *err) {
    smoe_dataset *set = l->set;
    items *list = &l->found[used];
    qsort(list->item, list->count, sizeof *list->item, compare_items);
    set->label = calloc(list->count, sizeof *set->label);
    if (!set->label) return no_memory(err);
    size_t i = 0;
    for (size_t k = 0; k < set->named; k++) {
        const char *class = set->class_name[k];
        size_t n = strlen(class), first = i;
        for (; i < list->count; i++) {
            const item *a = &list->item[i];
            if (compare_class(a->name + a->class_at, class_length(a), class, n)) break;
            if (i > first && !strcmp(a->name, a[-1].name)) {
                smoe_fail(err, SMOE_DATA, "twice in the archive");
                return place_prefix(set, a->name, err);
            }
            set->label[i] = (uint32_t)k;
        }
        if (i == first) return missing_class(l, used, class, err);
    }
    return 0;
}

/* data.limit: drops the images that are not used. */
static int apply_limit(smoe_dataset *set, items *list, size_t limit, smoe_err *err) {
    bool *keep = calloc(list->count, sizeof *keep);
    if (!keep) return no_memory(err);
    int status = smoe_dataset_select(keep, set->label, list->count, set->named, limit, err);
    size_t count = 0;
    for (size_t i = 0; !status && i < list->count; i++) {
        if (keep[i]) {
            set->label[count] = set->label[i];
            item moved = list->item[count];
            list->item[count++] = list->item[i];
            list->item[i] = moved;
        }
    }
    for (size_t i = count; !status && i < list->count; i++) {
        free(list->item[i].name);
        free(list->item[i].bytes);
    }
    if (!status) set->images = list->count = count;
    free(keep);
    return status;
}

/* Chooses the split; SPLITS and an error where neither has images. */
static size_t settle_split(const listing *l, smoe_err *err) {
    char there[32] = "";
    bool either = l->instead < SPLITS;
    if (l->found[l->wanted].count) return l->wanted;
    if (either && l->found[l->instead].count) {
        if (!l->foreign.code) return l->instead;
        if (err) *err = l->foreign;
        return SPLITS;
    }
    for (size_t k = 0, n = 0; k < SPLITS; k++)
        if (l->seen[k])
            n += (size_t)snprintf(there + n, sizeof there - n, "%s%s/", n ? ", " : "",
                                  folder_of(l, k));
    if (!l->classes.count)
        smoe_fail(
            err, SMOE_DATA,
            "%s: no SPLIT/CLASS/ folders: expected train/CLASS/IMAGE and test/CLASS/IMAGE (or "
            "val, validation, valid), with one folder above at most; found %s",
            l->set->path, l->others[0] ? l->others : "nothing");
    else
        smoe_fail(err, SMOE_DATA, "%s: no images in %s/%s%s%s; it has %s", l->set->path,
                  split_name[l->wanted], either ? " or " : "", either ? split_name[l->instead] : "",
                  either ? "/" : "", there);
    return SPLITS;
}

static int list_images(smoe_dataset *set, const smoe_spec *spec, const char *split, items *images,
                       smoe_err *err) {
    const char *evaluated = spec->eval.split ? spec->eval.split : split_name[TEST], *spelled;
    listing l = {
        .set = set, .wanted = split_number(split, strlen(split), &spelled), .instead = SPLITS};
    size_t used;
    int status = -1;
    if (l.wanted == TEST) l.instead = VAL;
    if (smoe_walk(set->path, list_member, &l, err) || (used = settle_split(&l, err)) == SPLITS ||
        settle_classes(&l, used, split_number(evaluated, strlen(evaluated), &spelled), err) ||
        settle_labels(&l, used, err))
        goto out;
    *images = l.found[used];
    l.found[used] = (items){0};
    status = apply_limit(set, images, spec->data.limit, err);
out:
    for (size_t k = 0; k < SPLITS; k++) items_free(&l.found[k]);
    items_free(&l.classes);
    free(l.above);
    return status;
}

/* ---- the bytes that the first walk did not keep ---------------------------------------------- */

typedef struct fetching {
    item **missing; /* in the order of the archive */
    size_t next, count;
} fetching;

static int fetch_member(void *user, const smoe_member *member, smoe_err *err) {
    fetching *f = user;
    if (f->next == f->count || f->missing[f->next]->ordinal != member->ordinal) return 0;
    item *a = f->missing[f->next++];
    if (strcmp(a->name, member->name))
        return smoe_fail(err, SMOE_RUNTIME, "%s: changed while it was read", member->path);
    return smoe_member_read(member, SMOE_MOST_IMAGE_BYTES, &a->bytes, &a->size, err);
}

static int fetch_bytes(const smoe_dataset *set, items *images, smoe_err *err) {
    fetching f = {0};
    size_t total = 0;
    f.missing = malloc((images->count + 1) * sizeof(item *));
    if (!f.missing) return no_memory(err);
    for (size_t i = 0; i < images->count; i++) {
        total += images->item[i].size;
        if (!images->item[i].bytes) f.missing[f.count++] = &images->item[i];
    }
    int status = 0;
    if (total > set->cache_bytes)
        status = smoe_fail(err, SMOE_USAGE,
                           "%s: the images of %s take %zu MiB, more than data.cache_mb (%zu): "
                           "unpack the archive, or raise data.cache_mb",
                           set->path, set->split, (total >> 20) + 1, set->cache_bytes >> 20);
    else if (f.count) {
        qsort(f.missing, f.count, sizeof(item *), compare_ordinals);
        status = smoe_walk(set->path, fetch_member, &f, err);
        if (!status && f.next < f.count)
            status = smoe_fail(err, SMOE_RUNTIME, "%s: changed while it was read", set->path);
    }
    free(f.missing);
    return status;
}

/* ---- checking and decoding, image by image, in parallel -------------------------------------- */

/* The bytes of an image: those kept in memory are borrowed, others are read into *own, which the
 * caller frees. */
static const uint8_t *borrow_bytes(const smoe_dataset *set, const item *a, uint8_t **own,
                                   size_t *size, smoe_err *err) {
    *own = NULL;
    *size = a->size;
    if (a->bytes) return a->bytes;
    if (smoe_member_file_read(set->path, a->name, SMOE_MOST_IMAGE_BYTES, own, size, err))
        return NULL;
    return *own;
}

/* Called for every image; out [size, size, channels], where there is one. */
typedef int each_image(const smoe_dataset *set, size_t i, smoe_image *image, smoe_image *work,
                       smoe_image_header *header, smoe_err *err);

/* Runs `each` over all images on all threads. Of several failures the first one in file order is
 * reported, for any number of threads. */
static int for_each(const smoe_dataset *set, each_image *each, smoe_image_header *header,
                    smoe_err *err) {
    size_t first_failed = set->images;
#pragma omp parallel
    {
        smoe_image image = {0}, work = {0};
#pragma omp for schedule(dynamic, 16)
        for (size_t i = 0; i < set->images; i++) {
            smoe_err mine = {0};
            if (!each(set, i, &image, &work, &header[i], &mine)) continue;
#pragma omp critical(smoe_folder_failure)
            if (i < first_failed) {
                first_failed = i;
                if (err) *err = mine;
            }
        }
        smoe_image_free(&image);
        smoe_image_free(&work);
    }
    return first_failed < set->images ? -1 : 0;
}

/* The header from the first bytes of a large file, if they are enough: opening a folder should not
 * read all of its data. */
static bool header_at_start(const smoe_dataset *set, const item *a, smoe_image_header *header) {
    enum { START = 1 << 16 };
    uint8_t *start;
    size_t size;
    if (a->bytes || a->size <= START || a->size > SMOE_MOST_IMAGE_BYTES) return false;
    if (smoe_member_file_start(set->path, a->name, START, &start, &size, NULL)) return false;
    int status = smoe_decode_header(header, smoe_image_kind_of(a->name), start, size, NULL);
    free(start);
    return !status;
}

static int check_header(const smoe_dataset *set, size_t i, smoe_image *image, smoe_image *work,
                        smoe_image_header *header, smoe_err *err) {
    const item *a = &((const folder *)set->store)->images.item[i];
    uint8_t *own;
    size_t size;
    (void)image, (void)work;
    if (header_at_start(set, a, header)) return 0;
    const uint8_t *bytes = borrow_bytes(set, a, &own, &size, err);
    if (!bytes) return -1;
    int status = smoe_decode_header(header, smoe_image_kind_of(a->name), bytes, size, err);
    free(own);
    return status ? place_prefix(set, a->name, err) : 0;
}

static int decode_image(const smoe_dataset *set, size_t i, smoe_rng *crop, smoe_image *image,
                        smoe_image *work, smoe_err *err) {
    const item *a = &((const folder *)set->store)->images.item[i];
    uint8_t *own;
    size_t size;
    const uint8_t *bytes = borrow_bytes(set, a, &own, &size, err);
    if (!bytes) return -1;
    int status = smoe_decode_fit(image, set->size, set->channels, smoe_image_kind_of(a->name),
                                 bytes, size, crop, work, err);
    free(own);
    return status ? place_prefix(set, a->name, err) : 0;
}

static size_t image_bytes(const smoe_dataset *set) {
    return set->size * set->size * set->channels;
}

static int decode_and_keep(const smoe_dataset *set, size_t i, smoe_image *image, smoe_image *work,
                           smoe_image_header *header, smoe_err *err) {
    const folder *f = set->store;
    (void)header;
    if (decode_image(set, i, NULL, image, work, err)) return -1;
    if (f->pixels) memcpy(f->pixels + i * image_bytes(set), image->pixel, image_bytes(set));
    return 0;
}

static void forget_bytes(items *images) {
    for (size_t i = 0; i < images->count; i++) {
        free(images->item[i].bytes);
        images->item[i].bytes = NULL;
    }
}

/* Decides how the images are stored, and stores them. */
static int keep_images(smoe_dataset *set, folder *f, smoe_err *err) {
    const size_t n = set->images, each = image_bytes(set);
    assert(n && each); /* the list and data.image_size were checked */
    smoe_image_header *header = calloc(n, sizeof *header);
    if (!header) return no_memory(err);
    int status = for_each(set, check_header, header, err);
    bool fits_as_is = true;
    double originals = 0;
    for (size_t i = 0; !status && i < n; i++) {
        fits_as_is = fits_as_is && header[i].width == set->size && header[i].height == set->size;
        originals += (double)header[i].width * (double)header[i].height * (double)set->channels;
    }
    bool small = n <= set->cache_bytes / each;
    bool pixels = small && (!set->native || fits_as_is);
    if (!status && pixels && !(f->pixels = calloc(n, each))) status = no_memory(err);
    if (!status && (pixels || originals <= (double)set->cache_bytes))
        status = for_each(set, decode_and_keep, header, err);
    if (pixels) forget_bytes(&f->images);
    free(header);
    return status;
}

/* ---- the source ------------------------------------------------------------------------------ */

static int folder_open(smoe_dataset *set, const smoe_spec *spec, const char *split, smoe_err *err) {
    folder *f = set->store = calloc(1, sizeof *f);
    if (!f) return no_memory(err);
    if (smoe_spec_data_path(spec, &set->path, err) || smoe_place_kind_of(&f->kind, set->path, err))
        return -1;
    if (f->kind == SMOE_PLACE_FILE)
        return smoe_fail(err, SMOE_DATA,
                         "%s: neither a directory nor an archive (.tar, .tar.gz, .tgz, .zip)",
                         set->path);
    if (list_images(set, spec, split, &f->images, err)) return -1;
    if (f->kind == SMOE_PLACE_ARCHIVE && fetch_bytes(set, &f->images, err)) return -1;
    return keep_images(set, f, err);
}

static int folder_image(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                        smoe_image *work, smoe_err *err) {
    const folder *f = set->store;
    if (!f->pixels) return decode_image(set, i, crop, out, work, err);
    smoe_image kept = {set->size, set->size, set->channels, f->pixels + i * image_bytes(set), 0};
    return smoe_image_fit(out, set->size, &kept, crop, err);
}

static void folder_image_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size) {
    smoe_text_shown(((const folder *)set->store)->images.item[i].name, buf, size);
}

static void folder_close(smoe_dataset *set) {
    folder *f = set->store;
    if (!f) return;
    items_free(&f->images);
    free(f->pixels);
    free(f);
}

const smoe_source_type smoe_source_folder = {
    .open = folder_open,
    .image = folder_image,
    .label = smoe_dataset_table_label,
    .image_name = folder_image_name,
    .close = folder_close,
};
