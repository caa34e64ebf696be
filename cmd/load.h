/* RUN|CHECKPOINT of eval and inspect: found, its spec read with the overrides, its data opened, its
 * weights in a model. */
#ifndef SMOE_LOAD_H
#define SMOE_LOAD_H

#include "opt.h"
#include "data/dataset.h"
#include "spec/spec.h"
#include "tensors/safetensors.h"
#include "vit/model.h"

typedef struct smoe_loaded {
    char *path; /* the safetensors file */
    smoe_spec spec;
    smoe_dataset *set;      /* the split eval.split */
    size_t batch;           /* eval.batch_size, or all images where they are fewer */
    smoe_safetensors *file; /* whose pages are the weights */
    smoe_model *model;      /* reserved for a batch */
    bool trains; /* set before: the command also trains, so that keys of training have an effect */
    bool quiet;  /* no remark on what is resized */
} smoe_loaded;

/* The file and the spec of the argument. Release with smoe_loaded_free in any case. */
int smoe_load_spec(smoe_loaded *loaded, const char *arg, const smoe_options *options,
                   smoe_err *err) SMOE_MUST_CHECK;

/* After it: data, model and weights. */
int smoe_load_model(smoe_loaded *loaded, smoe_err *err) SMOE_MUST_CHECK;

/* What is remarkable about its data, on standard error. */
void smoe_load_remarks(const smoe_loaded *loaded);

void smoe_loaded_free(smoe_loaded *loaded);

#endif
