/*
 * The Python version of CIFAR (cifar-10-batches-py, cifar-100-python): a pickle of a dictionary
 * with the labels and one array of pixels. It is not executed and no object of it is made: its
 * instructions are passed over one by one, and only numbers, texts and bytes are looked at. Leaves
 * to others: which files those are.
 */
#ifndef SMOE_DATA_CIFAR_PYTHON_H
#define SMOE_DATA_CIFAR_PYTHON_H

#include "base/base.h"

/* Whether a file begins as a pickle. No record of the binary version does. */
bool smoe_cifar_is_pickle(const uint8_t *bytes, size_t size);

/*
 * Replaces a pickle by the records of the binary version: for each image its labels (one, or with
 * `hundred` the coarse and the fine one), then 3072 bytes. SMOE_DATA says at which byte the pickle
 * is something else; the caller adds the name of the file.
 */
int smoe_cifar_unpickle(uint8_t **bytes, size_t *size, bool hundred, smoe_err *err) SMOE_MUST_CHECK;

#endif
