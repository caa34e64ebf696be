/*
 * Lists of images and of classes, and the names of splits; see folder_listing.h.
 */
#include "data/folder_listing.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

typedef smoe_folder_image image;
typedef smoe_folder_images images;
typedef smoe_listing listing;
typedef smoe_listing_class class;

enum { SPLITS = SMOE_LISTING_SPLITS };
const char *const smoe_listing_split[] = {"train", "test", "val"};
/* What their folders may be called. */
enum { SPELLINGS = 5 };
static const char *const spelling[SPLITS][SPELLINGS] = {
    {"train", "training", "ILSVRC2012_img_train"},
    {"test", "testing", "ILSVRC2012_img_test"},
    {"val", "validation", "valid", "dev", "ILSVRC2012_img_val"}};

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

int smoe_listing_add(images *list, image new, smoe_err *err) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        image *larger = realloc(list->item, room * sizeof *larger);
        if (!larger) return smoe_listing_no_memory(err);
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

uint32_t smoe_folder_tar(smoe_folder *folder, const char *path) {
    folder->tar = smoe_alloc_next(folder->tar, folder->tars, sizeof *folder->tar);
    folder->tar[folder->tars] = smoe_alloc_text(path);
    return (uint32_t)++folder->tars;
}

/* ---- names ----------------------------------------------------------------------------------- */

size_t smoe_listing_stem(const char *name, size_t length) {
    return length > 4 && !memcmp(name + length - 4, ".tar", 4) ? length - 4 : length;
}

size_t smoe_listing_split_of(const char *name, size_t length, const char **spelled) {
    for (size_t k = 0; k < SPLITS; k++)
        for (size_t i = 0; i < SPELLINGS && spelling[k][i]; i++)
            if (strlen(spelling[k][i]) == length && !memcmp(name, spelling[k][i], length)) {
                *spelled = spelling[k][i];
                return k;
            }
    return SPLITS;
}

void smoe_listing_cut_class(image *a, size_t below) {
    const char *slash = strrchr(a->name, '/');
    size_t end = slash ? (size_t)(slash - a->name) : 0;
    if (end <= below) end = below;
    end = below + smoe_listing_stem(a->name + below, end - below);
    if (end - below > 7 && !memcmp(a->name + end - 7, "/images", 7)) end -= 7;
    a->class_at = (uint32_t)below;
    a->class_end = (uint32_t)end;
}

int smoe_listing_add_class(listing *l, const char *name, size_t n, size_t split, bool folder,
                           smoe_err *err) {
    const class *last = l->classes ? &l->class[l->classes - 1] : NULL;
    if (last && last->split == split && last->folder == folder && strlen(last->name) == n &&
        !strncmp(last->name, name, n))
        return 0;
    if (!l->class || l->classes == l->class_room) {
        size_t room = l->class_room ? 2 * l->class_room : 256;
        class *larger = realloc(l->class, room * sizeof *larger);
        if (!larger) return smoe_listing_no_memory(err);
        l->class = larger;
        l->class_room = room;
    }
    char *own = strndup(name, n);
    if (!own) return smoe_listing_no_memory(err);
    l->class[l->classes++] = (class){own, split, folder};
    return 0;
}
