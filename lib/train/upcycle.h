/*
 * Upcycling (train --init --upcycle): the experts of a block start as copies of the MLP of a dense
 * model. This file adds noise, which makes the copies different, and reports how the function of
 * the model changes. Leaves to others: the copying (tensors/init_map.h).
 */
#pragma once

#include "train/likeness.h"

/* Adds to every kernel that was copied into experts normal numbers with a standard deviation of
 * `share` times the root mean square of the copies, keyed by (seed, tensor). */
void smoe_upcycle_noise(smoe_params *params, const smoe_safetensors *file, uint64_t seed,
                        double share);

/* Reports, in one line per block whose experts are copies, which properties of the routing make its
 * function differ from the MLP. Then it compares the logits of the dense model in the file with
 * those of the model, which has been loaded from it and is reserved for `batch` images, on images
 * of the set. */
int smoe_upcycle_compare(const smoe_model_source *upcycled, const smoe_dataset *set, size_t batch,
                         void (*say)(const void *user, const char *line), const void *user,
                         smoe_err *err) SMOE_MUST_CHECK;
