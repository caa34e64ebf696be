/* What a checkpoint says of the training data, by which changed data is noticed. */
#pragma once

#include "base/json.h"
#include "data/dataset.h"
#include "store/checkpoint.h"

/* What is said of a split of as many images and the same classes whose checksum differs. */
extern const char smoe_data_changed[];

/* Sets images, classes, data and names of the state. Names that are not printable UTF-8, or very
 * long, are left out. Returns the memory of names, to be freed. */
char *smoe_data_mark(smoe_checkpoint *state, const smoe_dataset *train);

/* Whether the data of two checkpoints differs, and how, in words. What one does not know is taken
 * to be the same. */
bool smoe_data_differs(const smoe_checkpoint *then, const smoe_checkpoint *now, char *how,
                       size_t size);

/* Whether the checkpoint is of a run that was evaluated on other images of this split; `tested` is
 * the checksum of those of today. */
bool smoe_data_tested_differs(const smoe_checkpoint *then, uint64_t tested);

/* The keys of data in a spec that decide which images a split has, as a new object: without
 * augment, cache_mb and, unless the split is "train", train_limit. */
json_t *smoe_data_keys(const json_t *spec, const char *split);

/* A run, and which images another one must have in common with it. */
typedef struct smoe_beside {
    char *dir;
    bool trained, tested, fewshot; /* of training, of evaluations, of eval.fewshot.data */
} smoe_beside;

/* Fails if the data of the run `dir` is not that of the run `beside`, if that has a checkpoint that
 * can be read. Images that one of them does not know do not count. */
int smoe_data_check_beside(const char *dir, const smoe_beside *beside, const smoe_checkpoint *now,
                           smoe_err *err) SMOE_MUST_CHECK;
