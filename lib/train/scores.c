/* Accuracy per class, confusion and calibration; see scores.h. */
#include "train/scores.h"

smoe_prediction smoe_prediction_of(const smoe_task *task, const real *logits, const real *target,
                                   size_t N, int64_t label) {
    size_t top = smoe_task_top(logits, N);
    return (smoe_prediction){.label = label,
                             .top = top,
                             .probability = smoe_task_probability(task, logits, N, top),
                             .correct = smoe_task_correct(logits, target, N)};
}

typedef struct bin {
    size_t images, correct;
    double probability; /* sum */
} bin;

static void fill_bins(bin bins[SMOE_CALIBRATION_BINS], const smoe_prediction *prediction,
                      size_t images) {
    for (size_t b = 0; b < SMOE_CALIBRATION_BINS; b++) bins[b] = (bin){0};
    for (size_t i = 0; i < images; i++) {
        size_t b = (size_t)(prediction[i].probability * SMOE_CALIBRATION_BINS);
        if (b >= SMOE_CALIBRATION_BINS) b = SMOE_CALIBRATION_BINS - 1; /* probability 1 */
        bins[b].images++;
        bins[b].correct += prediction[i].correct;
        bins[b].probability += prediction[i].probability;
    }
}

double smoe_scores_calibration(const smoe_prediction *prediction, size_t images) {
    bin bins[SMOE_CALIBRATION_BINS];
    double sum = 0;
    fill_bins(bins, prediction, images);
    for (size_t b = 0; b < SMOE_CALIBRATION_BINS; b++)
        sum += fabs((double)bins[b].correct - bins[b].probability);
    return images ? sum / (double)images : 0;
}

void smoe_scores_by_class(double *share, size_t *images, size_t N,
                          const smoe_prediction *prediction, size_t count) {
    for (size_t c = 0; c < N; c++) {
        share[c] = 0;
        images[c] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        images[prediction[i].label]++;
        share[prediction[i].label] += prediction[i].correct;
    }
    for (size_t c = 0; c < N; c++) share[c] = images[c] ? share[c] / (double)images[c] : NAN;
}

/* ---- tables ---------------------------------------------------------------------------------- */

void smoe_scores_predictions(smoe_frame *frame, const smoe_prediction *prediction,
                             const smoe_dataset *set) {
    char name[SMOE_IMAGE_NAME];
    smoe_frame_init(
        frame, "predictions", "Predictions", "the top class of each image",
        "image path* label label_name* prediction prediction_name* correct probability");
    for (size_t i = 0; i < smoe_dataset_images(set); i++)
        smoe_frame_put(
            frame, {"image", .number = i},
            {"path", .text = smoe_dataset_image_name(set, i, name, sizeof name)},
            {"label", .number = prediction[i].label},
            {"label_name", .text = smoe_dataset_class_name(set, (size_t)prediction[i].label)},
            {"prediction", .number = prediction[i].top},
            {"prediction_name", .text = smoe_dataset_class_name(set, prediction[i].top)},
            {"correct", .number = prediction[i].correct},
            {"probability", .number = prediction[i].probability});
}

void smoe_scores_classes(smoe_frame *frame, const smoe_prediction *prediction,
                         const smoe_dataset *set) {
    size_t N = smoe_dataset_classes(set), count = smoe_dataset_images(set);
    SMOE_FREED double *share = smoe_alloc(N, sizeof *share);
    SMOE_FREED size_t *images = smoe_alloc(2 * N, sizeof *images);
    smoe_frame_init(frame, "classes", "Classes", "accuracy on the images of each class",
                    "class name* images predicted precision_at_1");
    smoe_scores_by_class(share, images, N, prediction, count);
    for (size_t i = 0; i < count; i++) images[N + prediction[i].top]++;
    for (size_t c = 0; c < N; c++)
        smoe_frame_put(
            frame, {"class", .number = c}, {"name", .text = smoe_dataset_class_name(set, c)},
            {"images", .number = images[c]}, {"predicted", .number = (double)images[N + c]},
            {"precision_at_1", .number = share[c]});
}

typedef struct pair {
    size_t label, top, images;
} pair;

static int by_label(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return (x->top > y->top) - (x->top < y->top);
}

void smoe_scores_confusion(smoe_frame *frame, const smoe_prediction *prediction,
                           const smoe_dataset *set, const char *run) {
    size_t N = smoe_dataset_classes(set), every = N <= SMOE_CONFUSION_WHOLE ? N * N : 0;
    size_t predictions = smoe_dataset_images(set), count = predictions + every;
    size_t pairs = 0, of_class = 0, first = 0;
    SMOE_FREED pair *list = smoe_alloc(count, sizeof *list);
    smoe_frame_init(
        frame, "confusion", "Which classes are confused",
        "share of the images of a class (row) that are classified as each class (column)",
        "run* class name* predicted predicted_name* images share");
    for (size_t i = 0; i < predictions; i++)
        list[i] = (pair){(size_t)prediction[i].label, prediction[i].top, 1};
    for (size_t i = 0; i < every; i++) list[predictions + i] = (pair){i / N, i % N, 0};
    qsort(list, count, sizeof *list, by_label);
    for (size_t i = 0; i < count; i++) {
        if (pairs && !by_label(&list[pairs - 1], &list[i]))
            list[pairs - 1].images += list[i].images;
        else
            list[pairs++] = list[i];
    }
    for (size_t i = 0; i < pairs; i++) {
        if (!i || list[i].label != list[first].label) {
            first = i;
            of_class = 0;
            for (size_t k = i; k < pairs && list[k].label == list[i].label; k++)
                of_class += list[k].images;
        }
        smoe_frame_put(frame, {"run", .text = run}, {"class", .number = list[i].label},
                       {"name", .text = smoe_dataset_class_name(set, list[i].label)},
                       {"predicted", .number = list[i].top},
                       {"predicted_name", .text = smoe_dataset_class_name(set, list[i].top)},
                       {"images", .number = list[i].images},
                       {"share", .number = (double)list[i].images / (double)of_class});
    }
}

void smoe_scores_bins(smoe_frame *frame, const smoe_prediction *prediction, size_t images) {
    bin bins[SMOE_CALIBRATION_BINS];
    fill_bins(bins, prediction, images);
    smoe_frame_init(frame, "calibration", "Calibration",
                    "images by the probability of their top class: its mean, and the share correct",
                    "from to images probability precision_at_1");
    for (size_t b = 0; b < SMOE_CALIBRATION_BINS; b++) {
        double n = (double)bins[b].images;
        smoe_frame_put(frame, {"from", .number = (double)b / SMOE_CALIBRATION_BINS},
                       {"to", .number = (double)(b + 1) / SMOE_CALIBRATION_BINS},
                       {"images", .number = n},
                       {"probability", .number = n > 0 ? bins[b].probability / n : NAN},
                       {"precision_at_1", .number = n > 0 ? (double)bins[b].correct / n : NAN});
    }
}
