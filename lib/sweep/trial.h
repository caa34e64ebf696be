/*
 * A trial of a sweep that has a folder: where its files are, the claim on it, its outcome, and
 * whether this process runs it. Running it is in sweep/trial_run.h.
 */
#pragma once

#include "sweep/claim.h"
#include "sweep/sweep.h"

/* Frees what a trial holds. */
void smoe_trial_clear(smoe_trial *trial, size_t columns);

/* The run directory (sweep->run where there is one), fresh. */
char *smoe_trial_dir(const smoe_sweep *sweep, size_t i);

/* The file with what became of each test image (compare/outcomes.h), fresh. */
char *smoe_trial_outcomes(const smoe_sweep *sweep, size_t i);

/* 1: ours until it is released; 0: another process runs it; -1. See smoe_claim_take for the
 * rest. */
int smoe_trial_claim(const smoe_sweep *sweep, size_t i, smoe_claim *claim, unsigned lease,
                     smoe_claim_seen *seen, smoe_err *err) SMOE_MUST_CHECK;

/* The process that runs it, see smoe_claim_holder; NULL: none. */
char *smoe_trial_holder(const smoe_sweep *sweep, size_t i);

/* Reads the outcome of the trial, if it has ended. */
int smoe_trial_look(smoe_sweep *sweep, size_t i, smoe_err *err) SMOE_MUST_CHECK;

/* Writes the outcome and releases it. The caller holds the claim. */
int smoe_trial_finish(const smoe_sweep *sweep, size_t i, json_t *outcome,
                      smoe_err *err) SMOE_MUST_CHECK;

/* {"status": "failed", "code", "error"}. */
json_t *smoe_trial_failure(int code, const char *error);

/* A hash of what a resolved spec means: equal where that is the same, however it is written. `spec`
 * is changed: it keeps how blocks are written, but last-1 of two is [1]. */
uint64_t smoe_trial_meaning(json_t *spec, const smoe_model_spec *model);

/* The spec of a trial, in its stored form, and its hash. -1: it is not an object. */
int smoe_trial_set_spec(smoe_trial *trial, const json_t *spec);

/* The spec of a trial, to be freed also after a failure. */
int smoe_trial_parse(smoe_spec *spec, const smoe_trial *trial, smoe_err *err) SMOE_MUST_CHECK;

/* Whether a trial of a manifest is the one that the spec makes now. A manifest of an earlier
 * version lacks the keys that were added since: there they have their defaults. */
bool smoe_trial_same(const smoe_trial *was, const smoe_trial *is);

/* The names, separated by blanks, of the settings that decide the weights of trial i and are others
 * in the run of its folder, which then is another run, or was trained further (train.steps): fresh;
 * NULL: there are none, or no such run. Paths may have been written in another way. */
char *smoe_trial_differs(const smoe_sweep *sweep, size_t i);

/* Whether the runs of all trials that are done are theirs, or were only trained further. SMOE_DATA
 * with the first one that is not. */
int smoe_trial_check_all(const smoe_sweep *sweep, smoe_err *err) SMOE_MUST_CHECK;

/* The number that its name begins with. */
size_t smoe_trial_number(const smoe_trial *trial);

/* The hash of a trial's settings, key by key. */
uint64_t smoe_trial_hash_values(const smoe_sweep *sweep, const smoe_trial *trial);

/* --cells: leaves out every trial whose number, with which its name begins, is not in the list, as
 * "3,17-20". SMOE_USAGE: a part of the list is no number or range, or there is no such trial. */
int smoe_choose_trials(smoe_sweep *sweep, const char *list, smoe_err *err) SMOE_MUST_CHECK;

/* The number of trials in a state; those that are left out count if `all`. */
size_t smoe_trial_count(const smoe_sweep *sweep, smoe_trial_state state, bool all);

/* The number of trials that are not left out. */
size_t smoe_choose_count(const smoe_sweep *sweep);

/* A small file with an object that gets the member xxh3, the digest of the file with zeros for its
 * digits; and the object of such a file, fresh, NULL where it was changed (SMOE_DATA). *sealed: it
 * has a digest, which those of older versions lack. */
int smoe_sealed_write(const char *path, json_t *object, smoe_err *err) SMOE_MUST_CHECK;
json_t *smoe_sealed_parse(const char *text, size_t size, const char *path, bool *sealed,
                          smoe_err *err) SMOE_MUST_CHECK;
