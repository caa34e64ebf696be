/*
 * Few-shot accuracy of a model's features (Soft MoE paper, section 3.1): a ridge regression is
 * fitted to a few images per class of the train split and predicts the images of eval.split. Works
 * on any data, not only the data trained on (eval.fewshot.data). Leaves to others: the model, the
 * regression.
 */
#pragma once

#include "data/dataset.h"
#include "vit/model.h"

#include <jansson.h>

/* The strengths tried: 2^-10 .. 2^19. */
enum { SMOE_FEWSHOT_LOWEST = -10, SMOE_FEWSHOT_STRENGTHS = 30 };

typedef struct smoe_fewshot smoe_fewshot;

typedef struct smoe_fewshot_score {
    size_t shots;
    double mean, sd; /* of the accuracy over the seeds, at the best strength; sd 0 with one seed */
    double l2;       /* that strength: the highest mean, the smallest among equals */
} smoe_fewshot_score;

/* Opens the data and draws the images for every seed; they do not depend on the model. Without
 * eval.fewshot.shots *fewshot is NULL. SMOE_DATA when a class has fewer images than shots; a class
 * without any image is left out. */
int smoe_fewshot_open(smoe_fewshot **fewshot, const smoe_spec *spec, smoe_scan *scan,
                      smoe_err *err) SMOE_MUST_CHECK;

/* The checksum of the images that are shown and asked (smoe_dataset_checksum); 0: they are
 * generated. */
uint64_t smoe_fewshot_checksum(const smoe_fewshot *fewshot);

/* A fresh remark if images that are asked are of classes without examples, and so count as wrong,
 * or NULL; also without few-shot evaluation (NULL). */
char *smoe_fewshot_remark(const smoe_fewshot *fewshot);

/* score [eval.fewshot.shots' count], in the order of the shots. The model must be reserved for
 * `batch` images. With several processes (comm; NULL: one) each computes its share of the batches
 * and judges its own queries, and all get the same scores, those of one process. SMOE_STOPPED after
 * a request to stop (NULL: there is none). */
int smoe_fewshot_measure(const smoe_fewshot *fewshot, smoe_model *model, size_t batch,
                         smoe_comm *comm, const volatile sig_atomic_t *stop,
                         smoe_fewshot_score *score, smoe_err *err) SMOE_MUST_CHECK;

/* The same, as the metrics FEWSHOT, FEWSHOT_SD and FEWSHOT_L2 of a record. *line: the accuracies as
 * a line of text, fresh; `line` may be NULL. */
int smoe_fewshot_record(const smoe_fewshot *fewshot, smoe_model *model, size_t batch,
                        smoe_comm *comm, json_t *record, char **line,
                        smoe_err *err) SMOE_MUST_CHECK;

void smoe_fewshot_free(smoe_fewshot *fewshot);
SMOE_FREES(smoe_fewshot)

/* ---- its two halves, for features that are there already ------------------------------------- */

typedef struct smoe_features {
    real *x;        /* [n,d] */
    int64_t *label; /* [n] below N */
    size_t n;
} smoe_features;

/* Fits the shots, and counts for every strength the queries that are predicted correctly: correct
 * [SMOE_FEWSHOT_STRENGTHS]. */
int smoe_fewshot_solve(size_t *correct, const smoe_features *shots, const smoe_features *queries,
                       size_t d, size_t N, smoe_err *err) SMOE_MUST_CHECK;

/* The first `shots` images of every class in a random order of the train split; image [N*shots]
 * class by class, *count of them. */
int smoe_fewshot_draw(uint32_t *image, size_t *count, const smoe_dataset *set, size_t shots,
                      uint64_t seed, size_t draw, smoe_err *err) SMOE_MUST_CHECK;
