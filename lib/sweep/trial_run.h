/* One trial of a sweep: trained like any run, then measured from the files of the run. */
#pragma once

#include "sweep/evaluations.h"
#include "train/trainer.h"

typedef struct smoe_trial_options {
    smoe_train_options train; /* env, stop, save, scan, observer; the rest is set for the trial */
    void (*evaluated)(void *user, size_t points, size_t of); /* see evaluations.h; may be NULL */
    void *evaluated_user;
} smoe_trial_options;

/* Trains trial i in its run directory, from its last checkpoint if there is one (an existing run is
 * trained already), evaluates it at the points of the sweep, and writes its outcome. The caller
 * holds the claim. -1 with SMOE_STOPPED leaves the trial open; any other failure is also written as
 * the outcome, with the text of err, which must not be NULL. */
int smoe_trial_run(const smoe_sweep *sweep, size_t i, const smoe_trial_options *options,
                   smoe_err *err) SMOE_MUST_CHECK;

/* {COLUMN: number} from the records of a run, for every metric of spec/metrics.def that has both:
 * the latest, of layers the largest; and the best precision with its step, and STEP_S. With
 * `steps` 0 any records will do, and none. NULL with err; SMOE_DATA where nothing is measured, or
 * the records end before `steps`. err must not be NULL. */
json_t *smoe_trial_measure(const char *run_dir, size_t steps, size_t batch_size, smoe_err *err);
