/*
 * What a split of a data set is like: sizes and modes of its files, mean and deviation of its
 * pixels, the time of an image, and which of its images are nearly those of another split. Leaves
 * to others: what is damaged, which opening finds; drawing and printing.
 */
#pragma once

#include "data/dataset.h"
#include "data/decode.h"

enum { SMOE_SURVEY_MOST = 200000, SMOE_SURVEY_THUMB = 16 };

typedef struct smoe_survey {
    smoe_alloc_pool memory;
    size_t images;    /* of the split */
    size_t looked;    /* of them, evenly over the split, SMOE_SURVEY_MOST at most */
    uint32_t *number; /* [looked] which */
    bool files;       /* whether what follows, up to cropped, is known: each image is a file */
    size_t kind[SMOE_IMAGE_KINDS], mode[SMOE_IMAGE_MODES];
    size_t deep;                /* with 16 bits per sample */
    size_t turned;              /* or mirrored, by their EXIF data */
    double width[3], height[3]; /* least, median, greatest */
    double shorter;             /* the median of the shorter sides */
    double cropped[2];          /* share of an image beside its central square: mean, greatest */
    double mean[3], std[3];     /* of the pixels, by channel, on the scale to 1 */
    double seconds;             /* to read, decode and resize an image on one thread; the median */
    uint8_t *thumb;             /* [looked, SMOE_SURVEY_THUMB^2, channels] */
    size_t channels;
} smoe_survey;

/* Opens a split as smoe_dataset_open does, and leaves out what cannot be used, however much; see
 * smoe_dataset_found. Files are not kept decoded. */
int smoe_survey_open(smoe_dataset **set, const smoe_spec *spec, const char *split, smoe_scan *scan,
                     smoe_err *err) SMOE_MUST_CHECK;

/* Reads the images. Release with smoe_survey_free in any case. */
int smoe_survey_of(smoe_survey *survey, const smoe_dataset *set, smoe_scan *scan,
                   smoe_err *err) SMOE_MUST_CHECK;
void smoe_survey_free(smoe_survey *survey);

/* Two images that are nearly the same: thumbnails whose samples differ by 2 of 255 on average, and
 * by no more than a tenth of their contrast, or not at all. */
typedef struct smoe_near {
    uint32_t a, b; /* numbers in their splits */
    double difference;
} smoe_near;

/* Pairs of an image of a and one of b, in the order of b, the nearest one of a for each; fresh. */
smoe_near *smoe_survey_near(size_t *count, const smoe_survey *a, const smoe_survey *b);
