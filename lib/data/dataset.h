/*
 * Data sets: images and labels from files, or generated. Pixels are (x/255 - mean)/std (data.mean,
 * data.std), planes R, G, B (or grey). Leaves to others: batches (data/loader.h).
 */
#pragma once

#include "data/image.h"
#include "spec/spec.h"

enum { SMOE_SPLITS = 3 };
extern const char *const smoe_split_name[SMOE_SPLITS]; /* train, test, val */

/* One split of a data set, opened and checked. Read-only after opening: any number of threads. */
typedef struct smoe_dataset smoe_dataset;

/*
 * Opens a split of the data of a spec. For archives and folders the index is read and every member
 * that can be checked without decoding is; bad data fails with SMOE_DATA naming file, member and
 * offset. Small sets are decoded at once and kept (data.cache_mb), so that corrupt images are found
 * before training starts; of larger ones each header is checked.
 * The scan (data/scan.h) is told how far it is; SMOE_STOPPED after a request to stop.
 */
int smoe_dataset_open(smoe_dataset **set, const smoe_spec *spec, const char *split, smoe_scan *scan,
                      smoe_err *err) SMOE_MUST_CHECK;

/* The same for callers that only need classes, and numbers, names and labels of images: there are
 * no pixels. Image files are found but not read, so damaged ones count; with data.on_error skip
 * they are read. */
int smoe_dataset_list(smoe_dataset **set, const smoe_spec *spec, const char *split, smoe_scan *scan,
                      smoe_err *err) SMOE_MUST_CHECK;
/* SMOE_USAGE if the data of a spec would have images that are written into a folder, which need not
 * exist; NULL: no folder. */
int smoe_dataset_outside(const smoe_spec *spec, const char *folder, smoe_err *err) SMOE_MUST_CHECK;

void smoe_dataset_free(smoe_dataset *set);
SMOE_FREES(smoe_dataset)

/* Sets of files that stay open after they were freed. Opening the same split of the same data with
 * a scan that names them returns them again, also in forked processes. */
typedef struct smoe_datasets {
    /* The last one first, then NULL; as many as a trial opens: train and eval.split, and the same
     * two of eval.fewshot.data. */
    smoe_dataset *set[4];
} smoe_datasets;
void smoe_datasets_close(smoe_datasets *kept);

/* Images per pass; for endless data, in which no image occurs twice, a nominal number. */
size_t smoe_dataset_images(const smoe_dataset *set);
bool smoe_dataset_endless(const smoe_dataset *set);
/* What is known of image i without reading it: the size of its file, or a digest of pixels that are
 * in memory; 0: it is generated. Comparable between sets of one data.source. */
uint64_t smoe_dataset_contents(const smoe_dataset *set, size_t i);
/* A checksum of the names, labels and sizes of all image files, or pixels if these are in memory; 0
 * for generated images. */
uint32_t smoe_dataset_checksum(const smoe_dataset *set);
size_t smoe_dataset_classes(const smoe_dataset *set); /* N, data.classes considered */
size_t smoe_dataset_named(const smoe_dataset *set);   /* those that the data itself has */
const char *smoe_dataset_class_name(const smoe_dataset *set, size_t label);
/* Name of image i for reports: the member's path, or "shapes/test/17". Written to buf, returned;
 * SMOE_IMAGE_NAME bytes have room for every path. */
enum { SMOE_IMAGE_NAME = 4096 };
const char *smoe_dataset_image_name(const smoe_dataset *set, size_t i, char *buf, size_t size);

/*
 * Gives a set that is not endless the classes of a model, in the order of the model. Images of
 * other classes are left out, with a remark. If the model or the data has only numbers for classes,
 * and the other one not the same numbers, the labels are those of the model. SMOE_DATA: no class of
 * the data is one of the model, or these numbers are in the order of texts, as 1, 10, 2.
 */
int smoe_dataset_align(smoe_dataset *set, char *const *name, size_t count,
                       smoe_err *err) SMOE_MUST_CHECK;

/* A fresh remark if the classes are numbers in the order of texts (0, 1, 10, 2), in which a model
 * without names of its classes may not have them, or NULL. */
char *smoe_dataset_sorted_as_texts(const smoe_dataset *set);

/* Whether both have names for classes, and they are not the same ones, or numbers of which
 * smoe_dataset_align says that they cannot be matched. If they are the same names or numbers in
 * another order, *order is fresh and has the model's number of each class of the set; else NULL. */
bool smoe_dataset_other_classes(const smoe_dataset *set, char *const *name, size_t count,
                                uint32_t **order);

/* A fresh remark if images of the set are of classes that no image of `train` is of, or NULL. */
char *smoe_dataset_untrained(const smoe_dataset *set, const smoe_dataset *train);

/* Main label of image i; nothing is decoded. */
size_t smoe_dataset_label(const smoe_dataset *set, size_t i);

/* One image without augmentation: pixels [channels, image_size, image_size], target [N] (1 for the
 * main label; `multi` also sets the further labels of multi-label data). The main label goes to
 * *label. target NULL: the pixels alone. */
int smoe_dataset_image(const smoe_dataset *set, size_t i, bool multi, real *pixels, real *target,
                       int64_t *label, smoe_err *err) SMOE_MUST_CHECK;

/* One image as the model gets it, but in bytes: out [image_size, image_size, channels]. With a
 * stream it is augmented as in training, but without mixup and CutMix: a random box, flip,
 * RandAugment. */
int smoe_dataset_picture(const smoe_dataset *set, size_t i, const smoe_data_spec *data,
                         const smoe_rng *augmentation, smoe_image *out, smoe_image *work,
                         smoe_err *err) SMOE_MUST_CHECK;

/* Files among the images of a folder without splits whose names do not end like those of images;
 * they are skipped. By ending, in alphabetical order; "" stands for names without a dot, and for
 * endings that are too long or for which there is no room. */
enum { SMOE_ENDINGS = 8 };
typedef struct smoe_ending {
    char text[16]; /* lower case, with the dot */
    size_t count;
} smoe_ending;
typedef struct smoe_others {
    size_t files, endings;
    smoe_ending ending[SMOE_ENDINGS];
} smoe_others;

/* What opening found; valid as long as the set. More than one in SMOE_LEFT_MOST left out is an
 * error. */
enum { SMOE_LEFT = 1000, SMOE_LEFT_MOST = 100 };
typedef struct smoe_dataset_report {
    char **remark; /* [remarks] oddities of data that can be used all the same */
    size_t remarks;
    size_t left_out; /* images (data.on_error) */
    char **left;     /* what was wrong with the first SMOE_LEFT of them, a line each */
    size_t damaged;  /* those of them that cannot be decoded */
    char **name;     /* [damaged] their names, as data.exclude takes them */
    size_t turned;   /* images of a folder that their EXIF data turn or mirror */
    smoe_others others;
} smoe_dataset_report;
const smoe_dataset_report *smoe_dataset_found(const smoe_dataset *set);
/* What to do if too many are left out; to be freed. */
char *smoe_dataset_remedy(const smoe_dataset_report *report);
/* Whether a remark is one of them. */
bool smoe_dataset_remarked(const smoe_dataset *set, const char *remark);

/* The number of classes of image i, 1 unless the data is multi-label; at most `most` of them go to
 * class. */
size_t smoe_dataset_all_labels(const smoe_dataset *set, size_t i, size_t *class, size_t most);
/* Whether any image has several. */
bool smoe_dataset_multi(const smoe_dataset *set);

/* Which of its captions an image shows. */
typedef struct smoe_caption_choice {
    smoe_rng *draw; /* with several, one drawn from it; NULL: number `which` */
    size_t which;   /* becomes the number of the one that was drawn */
    size_t count;   /* becomes the number of captions of the image */
} smoe_caption_choice;

/* A caption of image i, the first one where choice is NULL, cut to fit into buf (SMOE_CAPTION
 * bytes), if the source has captions (spec/sources.h). */
int smoe_dataset_caption(const smoe_dataset *set, size_t i, smoe_caption_choice *choice, char *buf,
                         size_t size, smoe_err *err) SMOE_MUST_CHECK;

/*
 * order[place] = image: the order of the n images of a split in an evaluation, by eval.order.
 * Groups of choice routers are consecutive in it, so every evaluation uses this function. shuffled
 * is a permutation keyed only by data.seed and n, which does not depend on labels; file is the
 * order of the data. n is at most UINT32_MAX.
 */
void smoe_dataset_order(uint32_t *order, size_t n, const smoe_spec *spec);

/* The content of image i of an open `facts` split: the entity (0 is the most frequent), and its
 * cell, counted row by row. */
typedef struct smoe_fact {
    size_t entity, cell;
} smoe_fact;
smoe_fact smoe_facts_at(const smoe_dataset *set, uint64_t i);
