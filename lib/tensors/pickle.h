/*
 * The tensors of a pickle as PyTorch writes it. Nothing is executed: objects of classes that are
 * not known here are empty boxes, which keep the state that the pickle gives them, so the tensors
 * in them are found. A pickle that calls what runs programs is refused.
 */
#pragma once

#include "base/base.h"

enum { SMOE_PICKLE_DIMS = 8, SMOE_PICKLE_TEXT = 160 };

/* A tensor: a view of a storage with strides. The pickle is not trusted: the numbers of the view
 * have not been checked. */
typedef struct smoe_pickle_tensor {
    char where[SMOE_PICKLE_TEXT];   /* the keys of the dictionaries around its own: "model" */
    char name[SMOE_PICKLE_TEXT];    /* its key; in a whole module, that of its state dict */
    char storage[SMOE_PICKLE_TEXT]; /* the key of its elements */
    const char *why;                /* it cannot be read, and what to do; NULL if it can be: */
    const char *type;               /* as safetensors calls it, "F32" */
    size_t bytes;                   /* of an element */
    size_t offset;                  /* elements from the start of the storage */
    int ndim;
    size_t dim[SMOE_PICKLE_DIMS], stride[SMOE_PICKLE_DIMS]; /* in elements */
    const char *data; /* where they begin; NULL until the storage is found */
} smoe_pickle_tensor;

typedef struct smoe_pickle smoe_pickle;

/* Reads one pickle from the beginning of `data`, which must stay; *used: its bytes. SMOE_DATA
 * names the offset. */
int smoe_pickle_read(smoe_pickle **pickle, const void *data, size_t size, size_t *used,
                     smoe_err *err) SMOE_MUST_CHECK;
void smoe_pickle_free(smoe_pickle *pickle);
SMOE_FREES(smoe_pickle)

/* Visits all tensors of its dictionaries, lists and objects. SMOE_DATA if there are none. */
typedef int smoe_pickle_visit(void *user, const smoe_pickle_tensor *tensor, smoe_err *err);
int smoe_pickle_each(const smoe_pickle *pickle, smoe_pickle_visit *visit, void *user,
                     smoe_err *err) SMOE_MUST_CHECK;

/* The i-th item of a list, which is a text; NULL beyond the end, or if it is something else. */
const char *smoe_pickle_text(const smoe_pickle *pickle, size_t i, char text[SMOE_PICKLE_TEXT]);
/* Bytes of an element of the storage with that key; 0 if there is none. */
size_t smoe_pickle_element(const smoe_pickle *pickle, const char *storage);

/* Of a dictionary: the list of whole numbers with a key; at most `room` go to number, -1 for what
 * is none. Returns how many items it has; 0 also where it is not there. */
size_t smoe_pickle_numbers(const smoe_pickle *pickle, const char *key, int64_t *number,
                           size_t room);

/* NumPy's array of unsigned bytes in the order C. */
enum { SMOE_PICKLE_AXES = 8 };
typedef struct smoe_pickle_bytes {
    const char *text; /* its elements */
    size_t size;
    bool letters; /* as Python 3 writes bytes for Python 2: characters below 256 in UTF-8 */
    size_t axes;  /* 0: more than SMOE_PICKLE_AXES */
    int64_t axis[SMOE_PICKLE_AXES];
} smoe_pickle_bytes;

/* That of a dictionary with a key; false if it is not there, or another kind of array. */
bool smoe_pickle_array(smoe_pickle_bytes *array, const smoe_pickle *pickle, const char *key);
