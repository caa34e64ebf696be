/* What a checkpoint says of the training data, by which changed data is noticed. */
#pragma once

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

/* Fails if the data of the run `dir` is not that of the run `beside`, if that is not NULL and has a
 * checkpoint that can be read. Where now->tested or now->fewshot is 0, those images do not
 * count. */
int smoe_data_check_beside(const char *dir, const char *beside, const smoe_checkpoint *now,
                           smoe_err *err);
