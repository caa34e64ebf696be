/*
 * Internal to image-folder: what folder_list.c finds on its walk, and folder_settle.c chooses from.
 */
#ifndef SMOE_DATA_FOLDER_LISTING_H
#define SMOE_DATA_FOLDER_LISTING_H

#include "data/folder.h"

/* The splits, and the place of images that lie in the folder of none. */
enum {
    SMOE_LISTING_TRAIN,
    SMOE_LISTING_TEST,
    SMOE_LISTING_VAL,
    SMOE_LISTING_SPLITS,
    SMOE_LISTING_LOOSE = SMOE_LISTING_SPLITS,
    SMOE_LISTING_PLACES
};
extern const char *const smoe_listing_split[SMOE_LISTING_SPLITS]; /* their names */

/* A class of a split, of which there is an image, or only a folder. */
typedef struct smoe_listing_class {
    char *name;
    size_t split;
    bool folder;
} smoe_listing_class;

typedef struct smoe_listing {
    smoe_dataset *set;
    smoe_folder *folder;
    size_t wanted, instead; /* the split, and the one that may stand in; SPLITS for none */
    double holdout;         /* data.holdout */
    bool skip;              /* data.on_error */
    bool collect[SMOE_LISTING_PLACES];             /* whose images are listed */
    bool seen[SMOE_LISTING_SPLITS];                /* there is such a folder */
    smoe_folder_images found[SMOE_LISTING_PLACES]; /* of those */
    smoe_listing_class *class;                     /* of any split */
    size_t classes, class_room;
    smoe_err foreign; /* what must not be in `instead`, in case that is taken */
    const char *spelled[SMOE_LISTING_SPLITS]; /* what its folder is called */
    char others[160];                         /* first names that are no split's, for a message */
    smoe_others passed;                       /* in no split's folder either, and no images */
    size_t loose; /* images seen in no split's folder, as far as it was looked */
    char *above;  /* the leading folder, "" for none, NULL before it is known */
    size_t kept;  /* bytes of images read on the way */
    bool tars;    /* there are tars in the archive */
    uint32_t tar; /* what is visited now lies in this tar, at: */
    uint64_t at, ordinal;
} smoe_listing;

/* Here, so that callers see that it returns -1. */
static inline int smoe_listing_no_memory(smoe_err *err) {
    return smoe_fail(err, SMOE_RUNTIME, "out of memory for the list of images");
}

/* ---- folder_listing.c ------------------------------------------------------------------------ */

/* The length of a name without the ending of a tar, which is a folder here. */
size_t smoe_listing_stem(const char *name, size_t length);

/* The split with a folder of this name, which gets its usual spelling in *spelled; SPLITS: none. */
size_t smoe_listing_split_of(const char *name, size_t length, const char **spelled);

/* Gives an image its class: its folders from `below` on, without the last one where that is called
 * `images`. */
void smoe_listing_cut_class(smoe_folder_image *image, size_t below);

/* Adds an image, whose name and bytes are taken over on success. */
int smoe_listing_add(smoe_folder_images *images, smoe_folder_image image,
                     smoe_err *err) SMOE_MUST_CHECK;
int smoe_listing_add_class(smoe_listing *listing, const char *name, size_t length, size_t split,
                           bool folder, smoe_err *err) SMOE_MUST_CHECK;

/* ---- folder_settle.c ------------------------------------------------------------------------- */

/* Chooses split, classes and images, and gives them to the data set. */
int smoe_listing_settle(smoe_listing *listing, const smoe_spec *spec,
                        smoe_err *err) SMOE_MUST_CHECK;

#endif
