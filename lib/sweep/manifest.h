/* Functions that the files of this room share, about trials and their files. */
#ifndef SMOE_MANIFEST_H
#define SMOE_MANIFEST_H

#include "sweep/sweep.h"

/* The spec of a trial, in its stored form, and its hash; -1 when out of memory. */
int smoe_trial_set_spec(smoe_trial *trial, const json_t *spec);

/* The hash of a trial's settings, key by key. */
uint64_t smoe_trial_hash_values(const smoe_sweep *sweep, const smoe_trial *trial);

/* A small file with an object that gets the member xxh3, the digest of the file with zeros for its
 * digits; and the object of such a file, fresh, NULL where it was changed (SMOE_DATA). *sealed: it
 * has a digest, which those of older versions lack. */
int smoe_sealed_write(const char *path, json_t *object, smoe_err *err) SMOE_MUST_CHECK;
json_t *smoe_sealed_parse(const char *text, size_t size, const char *path, bool *sealed,
                          smoe_err *err) SMOE_MUST_CHECK;

#endif
