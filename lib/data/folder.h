/*
 * Internal to image-folder: the list of its images. folder_list.c finds them on a walk,
 * folder_settle.c chooses split and classes (of labels.h where data.labels names a table), and
 * source_folder.c reads them.
 */
#ifndef SMOE_DATA_FOLDER_H
#define SMOE_DATA_FOLDER_H

#include "data/archive.h"
#include "data/dataset_source.h"
#include "data/labels.h"

typedef struct smoe_folder_image {
    char *name; /* "train/cat/0001.jpg", with all that is above; of a tar in the data,
                   "train/cat.tar/0001.jpg"; owned */
    uint32_t class_at, class_end; /* in name; equal where no folder says the class */
    uint32_t label;
    uint32_t row;     /* of the table of labels, from 1; 0: none */
    uint32_t tar;     /* in which of smoe_folder's tars it lies, from 1; 0: a file, or a member of
                         a compressed archive */
    uint64_t at;      /* where in that tar */
    uint64_t ordinal; /* place on the walk of a compressed archive */
    size_t size;      /* of the file */
    uint8_t *bytes;   /* or NULL; owned */
} smoe_folder_image;

typedef struct smoe_folder_images {
    smoe_folder_image *item;
    size_t count;
} smoe_folder_images;

typedef struct smoe_folder {
    smoe_place_kind kind;
    smoe_folder_images images;
    char *
        *tar; /* [tars] paths of the archive and of tars inside: members are read where they lie */
    size_t tars;
    smoe_labels *labels; /* or NULL */
    uint8_t *pixels;     /* [images, size, size, channels], or NULL */
} smoe_folder;

/* Adds an image, whose name and bytes are taken over. */
void smoe_folder_add(smoe_folder_images *images, smoe_folder_image image);
/* Keeps the images with keep[i], in their order. */
void smoe_folder_keep(smoe_folder_images *images, const bool *keep);
void smoe_folder_images_free(smoe_folder_images *images);

/* Puts the place and the name of a member before err. Returns -1. */
int smoe_folder_prefix(const smoe_dataset *set, const char *name, smoe_err *err);

/* ---- what is found on the walk, and what is chosen of it ------------------------------------- */

/* The splits, and the place of images that lie in the folder of none. */
enum { TRAIN, TEST, VAL, SPLITS, LOOSE = SPLITS, PLACES };
extern const char *const smoe_folder_split[SPLITS]; /* their names */

/* A class of a split, of which there is an image, or only a folder. */
typedef struct smoe_folder_class {
    char *name;
    size_t split;
    bool folder;
} smoe_folder_class;

typedef struct smoe_folder_listing {
    smoe_dataset *set;
    smoe_folder *folder;
    size_t wanted, instead; /* the split, and the one that may stand in; SPLITS for none */
    double holdout;         /* data.holdout */
    bool skip;              /* data.on_error */
    bool collect[PLACES];   /* whose images are listed */
    bool seen[SPLITS];      /* there is such a folder */
    smoe_folder_images found[PLACES]; /* of those */
    smoe_folder_class *class;         /* of any split */
    size_t classes;
    smoe_err foreign;            /* what must not be in `instead`, in case that is taken */
    const char *spelled[SPLITS]; /* what its folder is called */
    char others[160];            /* first names that are no split's, for a message */
    smoe_others passed;          /* in no split's folder either, and no images */
    size_t loose;                /* images seen in no split's folder, as far as it was looked */
    char *above;                 /* the leading folder, "" for none, NULL before it is known */
    size_t kept;                 /* bytes of images read on the way */
    uint32_t tar;                /* what is visited now lies in this tar, */
    int nested;                  /* and in so many that are files of the data set */
} smoe_folder_listing;

/* The split with a folder of this name, which gets its usual spelling in *spelled; SPLITS: none. */
size_t smoe_folder_split_of(const char *name, size_t length, const char **spelled);

/* Gives an image its class: its folders from `below` on, without the last one where that is called
 * `images`. */
void smoe_folder_cut_class(smoe_folder_image *image, size_t below);

/* Adds the class of an image, or a folder that may be one. */
void smoe_folder_add_class(smoe_folder_listing *listing, const smoe_folder_image *image,
                           size_t split, bool folder);

/* Finds the images and classes of the set, which has path and store. Free in any case. */
int smoe_folder_list(smoe_folder_listing *listing, smoe_dataset *set, const smoe_spec *spec,
                     const char *split, smoe_err *err) SMOE_MUST_CHECK;
void smoe_folder_listing_free(smoe_folder_listing *listing);

/* Chooses split, classes and images, by data.limit, and gives them to the data set. */
int smoe_folder_settle(smoe_folder_listing *listing, const smoe_spec *spec,
                       smoe_err *err) SMOE_MUST_CHECK;

#endif
