/*
 * Internal to lib/data: the parts of a data set and what a source must provide. A source is one
 * file source_*.c and one entry of sources.def; no other code depends on a single source.
 */
#pragma once

#include "data/dataset.h"
#include "data/decode.h"
#include "data/image.h"

typedef struct smoe_source_type {
    /* Fills the set: path, images, names, label, store ... */
    int (*open)(smoe_dataset *set, const smoe_spec *spec, smoe_err *err);

    /* Image i at image_size: its central square, or with `crop` a random box of it. `work` is a
     * scratch image of the caller, so that several threads can call this at the same time. Where
     * images are files, *header gets that of the file, unless it is NULL. */
    int (*image)(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                 smoe_image *work, smoe_image_header *header, smoe_err *err);

    /* The whole image i of a generated source, whose `image` is smoe_dataset_painted. */
    int (*paint)(const smoe_dataset *set, uint64_t i, smoe_image *out, smoe_image *work,
                 smoe_err *err);

    /* Main label of image i; if `multi` is not NULL, every true class is set to 1 in it. NULL where
     * the set has a table of labels. Generated sources draw the label of each image independently:
     * it must not be possible to predict it from i. */
    size_t (*label)(const smoe_dataset *set, uint64_t i, real *multi);

    /* What image i shows, in words; NULL where the source has no captions. */
    int (*caption)(const smoe_dataset *set, uint64_t i, smoe_caption_choice *choice, char *buf,
                   size_t size, smoe_err *err);

    /* What is known without reading of the contents of image i: the size of its file, or a digest
     * of its pixels in memory. NULL: the contents follow from the spec. */
    uint64_t (*contents)(const smoe_dataset *set, uint64_t i);

    void (*image_name)(const smoe_dataset *set, uint64_t i, char *buf, size_t size);
    void (*close)(smoe_dataset *set); /* NULL: nothing to do */
    bool files;                       /* images are separate files */
} smoe_source_type;

#define SOURCE(name, source, type, ...) extern const smoe_source_type type;
#include "spec/sources.def"

struct smoe_dataset {
    smoe_alloc_pool memory; /* of what follows, but the path */
    smoe_arena pixels;      /* of a source that has them all in memory */
    struct {                /* see smoe_dataset_room */
        uint8_t *pixels;    /* [count, size, size, channels], or NULL */
        uint8_t *state;     /* [count] of each image */
        size_t count;
    } decoded;
    const smoe_source_type *type;
    const char *name;      /* of its source */
    smoe_scan *scan;       /* while the set is opened, or NULL */
    smoe_datasets *keeper; /* where the set goes when it is freed; NULL: it is closed */
    char *opened_for;      /* what is read, if there is a keeper; else NULL */
    char split[8];         /* as asked for, one of smoe_split_name */
    bool train;            /* it is train */
    char *path;            /* resolved; NULL for generated data */
    size_t size, channels; /* data.image_size, data.channels */
    smoe_data_spec data;   /* for what is generated; its path is not used */
    size_t images;         /* of one pass */
    uint64_t seed;         /* of generated images: the run's for training, else data.seed */
    bool endless;
    size_t classes;    /* N */
    char **class_name; /* [named] */
    size_t named;      /* classes the data has, at most N */
    uint32_t *label;   /* [images], or NULL where the source computes it */
    /* All classes of image i of multi-label data: more[more_at[i] .. more_at[i + 1]); NULL where
     * the label is the only one. */
    uint32_t *more;
    size_t *more_at;
    /* These tables use the numbers of the source, like its functions. Part p, such as a shard, has
     * the images part_at[p] .. part_at[p + 1], which are read fastest one after another; parts is 0
     * if any order is as fast. */
    size_t *part_at, parts;
    uint32_t *kept; /* [images] their numbers in the source; NULL: all of them are used */
    bool listed;    /* no image will be read */
    bool tolerant;  /* any number of images may be left out */
    struct smoe_excluded *excluded; /* data.exclude, applied by the source before it looks at images
                                       or after it has; NULL before, and where there is none */
    smoe_dataset_report report;
    size_t cache_bytes; /* data.cache_mb */
    bool native;        /* random boxes will be drawn: keep images at full size */
    void *store;        /* the source's own; its close frees what is not in memory */
};

/* The number of image i in its source. */
static inline uint64_t smoe_dataset_place(const smoe_dataset *set, uint64_t i) {
    return set->kept ? set->kept[i] : i;
}

/*
 * Allocates room for all `count` images of the source, decoded as `image` gives them without
 * `crop`. Forked processes share them, with `later` also those that are decoded after the fork. If
 * data.cache_mb is too small, there is no room, which is not an error.
 */
int smoe_dataset_room(smoe_dataset *set, size_t count, bool later, smoe_err *err) SMOE_MUST_CHECK;
void smoe_dataset_room_free(smoe_dataset *set);
bool smoe_dataset_decoded(const smoe_dataset *set, uint64_t i);
void smoe_dataset_keep_decoded(const smoe_dataset *set, uint64_t i, const smoe_image *image);

/* The image as it was kept, or else from the source; then it is kept. With data.shift it is moved
 * by a number of pixels that follows from data.seed, the split and i. */
int smoe_dataset_decode(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                        smoe_image *work, smoe_err *err) SMOE_MUST_CHECK;

/* The name of a class without images of data.classes; see smoe_dataset_class_name. */
extern const char smoe_dataset_unnamed[];

/* From now on only the images with keep[i] are used. */
void smoe_dataset_keep(smoe_dataset *set, const bool *keep);

/* data.exclude. */
typedef struct smoe_excluded smoe_excluded;
int smoe_dataset_exclude(smoe_dataset *set, const smoe_spec *spec, smoe_err *err) SMOE_MUST_CHECK;
/* A name in data.exclude that is not an image of this set, of `other` (may be NULL), or of a set of
 * an earlier call; NULL: none. */
const char *smoe_dataset_unseen(const smoe_dataset *set, const smoe_dataset *other);

/* target [N] of image i, zeros and ones; returns the main label. */
int64_t smoe_dataset_target(const smoe_dataset *set, uint64_t i, bool multi, real *target);

/* order[place] = image, for a pass of training. The whole pass is shuffled; or, with
 * data.shuffle_buffer, parts are shuffled, and images are drawn from a buffer that is filled in
 * their order. */
void smoe_dataset_shuffle(const smoe_dataset *set, smoe_rng *rng, uint32_t *order);

/* ---- for sources ----------------------------------------------------------------------------- */

/* Gives the set the labels of n images: the classes of image i are class[at[i] .. at[i + 1]), the
 * main one first; those of an image without any are class 0. Both are copied. */
void smoe_dataset_give_labels(smoe_dataset *set, size_t n, const uint32_t *class, const size_t *at);

/* What a set is opened for: smoe_dataset_open; smoe_dataset_list; or a survey, for which files are
 * not kept decoded, and any number of images may be left out. */
typedef enum smoe_opening { SMOE_OPEN_USE, SMOE_OPEN_LIST, SMOE_OPEN_SURVEY } smoe_opening;
int smoe_dataset_open_as(smoe_dataset **set, const smoe_spec *spec, const char *split,
                         smoe_opening purpose, smoe_scan *scan, smoe_err *err) SMOE_MUST_CHECK;

/* With data.on_error skip: leaves out something in the data; `why` says where it is and what is
 * wrong. */
void smoe_dataset_leave_out(smoe_dataset *set, const smoe_err *why);
/* The same, or with data.on_error stop an error: -1. */
int smoe_dataset_refuse(smoe_dataset *set, const smoe_err *why, smoe_err *err) SMOE_MUST_CHECK;

/* With data.on_error skip: decodes every image and leaves out those that cannot be decoded.
 * SMOE_DATA if more than one in 100 was left out. */
int smoe_dataset_sift(smoe_dataset *set, smoe_err *err) SMOE_MUST_CHECK;

void smoe_dataset_count_other(smoe_others *others, const char *name);

/* "1 .heic, 2 .txt, 3 others"; buf is returned. */
const char *smoe_dataset_others_text(const smoe_others *others, char *buf, size_t size);

/* Adds a remark, of which the first 20 are kept. */
#define smoe_dataset_remark_on(set, ...) smoe_dataset_remark(set, smoe_text_format(__VA_ARGS__))
void smoe_dataset_remark(smoe_dataset *set, char *fresh);

/* Whether the classes have names, and not only their numbers. */
bool smoe_dataset_has_names(const smoe_dataset *set);

/* The number of images of a generated split: for training its limit, or endless images with
 * `nominal` of them per pass; for other splits data.test_size or, if that is 0, `tested`, but at
 * most data.limit. */
void smoe_dataset_generate(smoe_dataset *set, size_t nominal, size_t tested);

/* The split as the layer of random streams of generated images. */
uint32_t smoe_dataset_stream(const smoe_dataset *set);

/* Name of a generated image: "shapes/test/17". */
void smoe_dataset_generated_name(const smoe_dataset *set, uint64_t i, char *buf, size_t size);

/* `image` of sources that paint: what they paint, or the box of it that `crop` draws. */
int smoe_dataset_painted(const smoe_dataset *set, uint64_t i, smoe_rng *crop, smoe_image *out,
                         smoe_image *work, smoe_image_header *header,
                         smoe_err *err) SMOE_MUST_CHECK;

/* The class of image i of a generated split: uniform in [0, n), and independent of other images. */
size_t smoe_dataset_draw_label(const smoe_dataset *set, uint64_t i, size_t n);

/* A remark on so many plain tars, `first` and others, that have no empty blocks at their end. */
void smoe_dataset_remark_unclosed(smoe_dataset *set, size_t tars, const char *first);

/* Copies class names; with NULL, they are the numbers 0 .. count-1. */
void smoe_dataset_name_classes(smoe_dataset *set, const char *const *name, size_t count);

/*
 * data.limit: which of n images with these labels are taken. Every class gives the same number, the
 * first ones one more where the limit does not divide; a class with fewer images leaves its share
 * to the others. Within a class the first in file order are taken. keep[i] says whether image i is.
 */
void smoe_dataset_select(bool *keep, const uint32_t *label, size_t n, size_t classes, size_t limit);
