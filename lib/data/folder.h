/*
 * Internal to image-folder: the list of its images. folder_walk.c finds them, folder.c chooses
 * which of them are used, source_folder.c reads them.
 */
#pragma once

#include "data/archive.h"
#include "data/dataset_source.h"
#include "data/labels.h"

typedef struct smoe_folder_image {
    char *name; /* "train/cat/0001.jpg", with all that is above; of a tar in the data,
                   "train/cat.tar/0001.jpg"; owned */
    uint32_t class_at, class_end; /* in name; equal where no folder says the class */
    uint32_t label;
    uint32_t row;     /* of the table of labels, from 1; 0: none */
    uint32_t place;   /* which split, while the list is made */
    uint32_t tar;     /* in which of smoe_folder's tars it lies, from 1; 0: a file, or a member of
                         a compressed archive */
    uint64_t at;      /* where in that tar */
    uint64_t ordinal; /* place on the walk of a compressed archive */
    size_t size;      /* of the file */
    uint8_t *bytes;   /* or NULL; owned */
} smoe_folder_image;

typedef struct smoe_folder {
    smoe_place_kind kind;
    smoe_folder_image *image; /* [images] */
    size_t images;
    char **tar;  /* [tars] the archive, and tars inside, whose members are read where they lie */
    int *tar_fd; /* [tars] or -1, see smoe_place_open */
    size_t tars;
    smoe_labels *labels; /* or NULL */
} smoe_folder;

/* Lists the images of the split in set->store, which has kind and labels, by data.holdout and
 * data.limit, and gives the set its classes and labels. */
int smoe_folder_list(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;

/* ---- while the list is made ----------------------------------------------------------------- */

/* The splits; then images outside the splits' folders, and images that are not used. */
enum { TRAIN, TEST, VAL, SPLITS = SMOE_SPLITS, LOOSE = SPLITS, NOWHERE, PLACES };

size_t smoe_folder_split_named(const char *name); /* SPLITS: none */

/* What reads archives of images that are no folders of classes, and what to do with other files. */
#define SMOE_FOLDER_SHARDS                                                                     \
    "shards of images with .cls files are read by data.source=webdataset, with "               \
    "data.path=NAME-{split}.tar, or with NAME-{00..09}.tar and data.holdout=N, the number of " \
    "shards to hold out"
#define SMOE_FOLDER_ARRAYS                       \
    "names of images end in " SMOE_IMAGE_ENDINGS \
    "; smoe-spec(5) says how to make image files of arrays and of parquet files"

/* A class of a split, which has an image or at least a folder. */
typedef struct smoe_folder_class {
    char *name;
    size_t split;
    bool folder;
} smoe_folder_class;

typedef struct smoe_folder_listing {
    smoe_dataset *set;
    smoe_folder *folder;      /* its store */
    size_t wanted, instead;   /* the split, and the one that may stand in; SPLITS for none */
    size_t evaluated;         /* eval.split */
    bool collect[PLACES];     /* whose images are listed */
    size_t found[PLACES];     /* images listed in each */
    smoe_folder_class *class; /* [classes] of any split */
    size_t classes;
    const char *spelled[SPLITS]; /* what its folder is called; NULL: there is none */
    smoe_err foreign;            /* what is not allowed in `instead`, in case it is used */
    char others[160];            /* first names that are no split's, for a message, */
    char capital[16];            /* and one that would be, without capital letters */
    smoe_others passed;          /* in no split's folder either, and no images */
    size_t loose;                /* images seen so far outside the splits' folders, */
    bool bare;                   /* and whether some are in no folder at all */
    char *above;                 /* the leading folder, "" for none, NULL before it is known */
    size_t kept;                 /* bytes of images read on the way */
    uint32_t tar;                /* what is visited now lies in this tar, */
    int nested;                  /* and in so many that are files of the data set */
    size_t unclosed;             /* tars without empty blocks at their end */
    size_t used;                 /* the split whose images are used, */
    bool parted;                 /* and whether only a part of them is, by data.holdout */
} smoe_folder_listing;

/* Lists the images and classes of the set, by wanted, instead and evaluated. */
int smoe_folder_walk(smoe_folder_listing *listing, smoe_err *err) SMOE_MUST_CHECK;

/* Gives an image its class: its folders from `below` on, without a last folder `images`. Adds the
 * class to those of its split, if it has one. False: there are no folders. */
bool smoe_folder_classify(smoe_folder_listing *listing, smoe_folder_image *image, size_t below,
                          size_t split);

void smoe_folder_image_free(smoe_folder_image *image);

/* Puts the place and the name of a member before err. Returns -1. */
int smoe_folder_prefix(const smoe_dataset *set, const char *name, smoe_err *err);
