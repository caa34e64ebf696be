/*
 * The predictions of a classifier for each image of a split, and statistics of them: accuracy per
 * class, confusion of classes, and calibration of the probabilities, as tables. The caller passes
 * the images through the model (smoe_evaluate).
 */
#pragma once

#include "base/frame.h"
#include "data/dataset.h"
#include "train/task.h"

typedef struct smoe_prediction {
    int64_t label;
    size_t top;         /* the class of the largest logit, the lowest among equals */
    double probability; /* of that class, as the task has it */
    bool correct;       /* it is a label of the image */
} smoe_prediction;

/* Of one image, from its logits and target [N]. */
smoe_prediction smoe_prediction_of(const smoe_task *task, const real *logits, const real *target,
                                   size_t N, int64_t label);

enum { SMOE_CALIBRATION_BINS = 15 };

/* Expected calibration error: images in 15 bins of equal width by probability; the mean of
 * |share correct - mean probability| of the bins, weighted by their images. 0 without images. */
double smoe_scores_calibration(const smoe_prediction *prediction, size_t images);

/* Share correct of the images of each class [N]; NAN of a class without images. */
void smoe_scores_by_class(double *share, size_t *images, size_t N,
                          const smoe_prediction *prediction, size_t count);

enum { SMOE_CONFUSION_WHOLE = 128 };

/* Fill tables: one row per image, per class, per pair of classes (with more classes than this, only
 * pairs that occur), and per bin. `run` names the model. Names of classes and images are those of
 * the set. */
void smoe_scores_predictions(smoe_frame *frame, const smoe_prediction *prediction,
                             const smoe_dataset *set);
void smoe_scores_classes(smoe_frame *frame, const smoe_prediction *prediction,
                         const smoe_dataset *set);
void smoe_scores_confusion(smoe_frame *frame, const smoe_prediction *prediction,
                           const smoe_dataset *set, const char *run);
void smoe_scores_bins(smoe_frame *frame, const smoe_prediction *prediction, size_t images);
