/* Functions shared by the kinds of evaluation; those for other files are in trainer.h. */
#ifndef SMOE_EVALUATE_H
#define SMOE_EVALUATE_H

#include "train/trainer.h"

/* smoe_evaluate_each of a task that compares images with captions; comm is not NULL. */
int smoe_evaluate_pairs(smoe_model *model, const smoe_spec *spec, const smoe_dataset *set,
                        size_t batch_size, smoe_comm *comm, float *outcomes, smoe_eval_sink *sink,
                        void *user, smoe_eval *result, smoe_err *err) SMOE_MUST_CHECK;

/* SMOE_NONFINITE, naming image and tensor. Returns -1. */
int smoe_evaluate_nonfinite(smoe_model *model, uint64_t image, double loss, smoe_err *err);

#endif
