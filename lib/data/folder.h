/*
 * Internal to image-folder: the list of its images. folder_list.c finds them, folder_settle.c
 * chooses split and classes (of labels.h where data.labels names a table), and
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
                         the archive */
    uint64_t at;      /* where in that tar */
    uint64_t ordinal; /* place on the walk */
    size_t size;      /* of the file */
    uint8_t *bytes;   /* or NULL; owned */
} smoe_folder_image;

typedef struct smoe_folder_images {
    smoe_folder_image *item;
    size_t count, room;
} smoe_folder_images;

typedef struct smoe_folder {
    smoe_place_kind kind;
    smoe_folder_images images;
    char **tar; /* [tars] paths of plain tars whose members are read where they lie */
    size_t tars;
    smoe_labels *labels; /* or NULL */
    uint8_t *pixels;     /* [images, size, size, channels], or NULL */
} smoe_folder;

/* Fills images, with their labels, and the classes of the set, by data.limit. The set has path and
 * store. */
int smoe_folder_list(smoe_dataset *set, const smoe_spec *spec, const char *split,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Gives the set the number and the labels of its images, which are settled. */
int smoe_folder_settle(smoe_dataset *set, smoe_err *err) SMOE_MUST_CHECK;

/* Adds a tar; its number, from 1. */
uint32_t smoe_folder_tar(smoe_folder *folder, const char *path);

/* Keeps the images with keep[i], in their order. */
void smoe_folder_keep(smoe_folder_images *images, const bool *keep);
void smoe_folder_images_free(smoe_folder_images *images);

/* Puts the place and the name of a member before err. Returns -1. */
int smoe_folder_prefix(const smoe_dataset *set, const char *name, smoe_err *err);

#endif
