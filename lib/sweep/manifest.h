/* Functions about trials that sweep.c and manifest.c share. */
#ifndef SMOE_MANIFEST_H
#define SMOE_MANIFEST_H

#include "sweep/sweep.h"

/* The spec of a trial, in its stored form, and its hash; -1 when out of memory. */
int smoe_trial_set_spec(smoe_trial *trial, const json_t *spec);

/* The hash of a trial's settings, key by key. */
uint64_t smoe_trial_hash_values(const smoe_sweep *sweep, const smoe_trial *trial);

#endif
