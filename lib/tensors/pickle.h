/*
 * The tensors of a pickle as PyTorch writes it, data.pkl in a .pth file. Nothing is executed: only
 * the few instructions and names that dictionaries of tensors need are implemented, and everything
 * else in a pickle is refused.
 */
#ifndef SMOE_PICKLE_H
#define SMOE_PICKLE_H

#include "base/base.h"

enum { SMOE_PICKLE_DIMS = 8, SMOE_PICKLE_TEXT = 160 };

/* A tensor: a view of a storage. The pickle is not trusted: the numbers of the view have not been
 * checked. */
typedef struct smoe_pickle_tensor {
    char name[SMOE_PICKLE_TEXT];
    char storage[SMOE_PICKLE_TEXT]; /* the name of the file with its elements, in data/ */
    const char *type;               /* as safetensors calls it, "F32" */
    size_t bytes;                   /* of an element */
    size_t offset;                  /* elements from the start of the storage */
    int ndim;
    size_t dim[SMOE_PICKLE_DIMS], stride[SMOE_PICKLE_DIMS]; /* in elements */
} smoe_pickle_tensor;

typedef int smoe_pickle_visit(void *user, const smoe_pickle_tensor *tensor, smoe_err *err);

/* Visits the tensors of the dictionary in the pickle or, if that has none, those of its "model",
 * "state_dict" or "module". For anything else SMOE_DATA names the offset. */
int smoe_pickle_each(const void *data, size_t size, smoe_pickle_visit *visit, void *user,
                     smoe_err *err) SMOE_MUST_CHECK;

#endif
