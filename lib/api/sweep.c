/* The public function that runs a sweep; see smoe/smoe.h. */
#include "math/blas.h"
#include "store/run.h"
#include "sweep/sweep.h"
#include "sweep/results.h"
#include "sweep/runner.h"

typedef struct listener {
    const smoe_sweep *sweep;
    const smoe_sweep_settings *settings;
} listener;

static void on_ended(void *user, size_t i) {
    const listener *l = user;
    const smoe_trial *trial = &l->sweep->trial[i];
    bool done = trial->state == SMOE_TRIAL_DONE;
    const json_t *result = json_object_get(trial->outcome, "result");
    const json_t *precision = json_object_get(result, "precision_at_1");
    if (trial->state != SMOE_TRIAL_OPEN)
        l->settings->ended(l->settings->user, trial->name, done,
                           json_is_number(precision) ? json_number_value(precision) : NAN);
}

static int from_spec(smoe_sweep *sweep, const char *file, const char *const *overrides,
                     size_t count, const char *dir, const smoe_sweep_settings *settings,
                     smoe_err *err) {
    const smoe_grid_options how = {.skip_invalid = settings->skip_invalid,
                                   .join = settings->mode == SMOE_RUN_RESUME,
                                   .init = settings->init,
                                   .start = {.upcycle = settings->upcycle}};
    SMOE_FREED_BY(smoe_spec_text_free) smoe_spec_text text = {0};
    if (smoe_spec_text_read(&text, file, err) ||
        smoe_grid_of_spec(sweep, &text, (char *const *)overrides, count, &how, err) ||
        (settings->mode == SMOE_RUN_FORCE && smoe_sweep_remove(dir, err)))
        return -1;
    return smoe_sweep_create(sweep, dir, settings->mode != SMOE_RUN_NEW, err);
}

static int from_folder(smoe_sweep *sweep, size_t overrides, const char *dir, smoe_err *err) {
    if (overrides)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: the cells of an existing sweep are fixed; overrides need the file of "
                         "its spec",
                         dir);
    return smoe_sweep_open(sweep, dir, err);
}

static int sweep_run(smoe_sweep *sweep, const smoe_sweep_settings *settings, smoe_err *err) {
    listener l = {sweep, settings};
    const smoe_runner_observer observer = {.user = &l, .ended = settings->ended ? on_ended : NULL};
    const smoe_runner_options options = {.jobs = settings->jobs ? settings->jobs : 1,
                                         .retry_failed = settings->retry_failed,
                                         .fail_fast = settings->fail_fast,
                                         .stop = settings->stop,
                                         .observer = &observer};
    SMOE_FREED_BY(smoe_results_free) smoe_results results = {0};
    smoe_err ran = {0};
    SMOE_FREED_BY(smoe_claim_release) smoe_claim turn = {0};
    SMOE_FREED char *dir = smoe_alloc_text(sweep->dir);
    bool drawn;
    smoe_blas_start();
    int status = smoe_runner_run(sweep, &options, &ran);
    bool lost = smoe_sweep_turn(&turn, dir, err);
    if (!lost) smoe_sweep_free(sweep);
    lost = lost || smoe_sweep_open(sweep, dir, err) || smoe_results_make(&results, sweep, err) ||
           smoe_results_write(&results, err) || smoe_results_draw(&results, &drawn, err);
    if (status) *err = ran;
    return status || lost ? -1 : 0;
}

int smoe_sweep_run(const char *file, const char *const *overrides, size_t count, const char *dir,
                   const smoe_sweep_settings *settings, smoe_sweep_counts *counts, smoe_err *err) {
    static const smoe_sweep_settings plain = {0};
    SMOE_NUMBERS_IN_C;
    smoe_err own; /* messages are built up in it */
    SMOE_FREED_BY(smoe_sweep_free) smoe_sweep sweep = {0};
    if (!err) err = &own;
    if (!settings) settings = &plain;
    int status = smoe_run_check_mode(settings->mode, dir, err);
    if (!status)
        status = file ? from_spec(&sweep, file, overrides, count, dir, settings, err)
                      : from_folder(&sweep, count, dir, err);
    if (!status) status = smoe_results_check(&sweep, err);
    if (!status) status = sweep_run(&sweep, settings, err);
    if (counts) *counts = (smoe_sweep_counts){.trials = sweep.trials};
    for (size_t i = 0; counts && i < sweep.trials; i++) {
        counts->done += sweep.trial[i].state == SMOE_TRIAL_DONE;
        counts->failed += sweep.trial[i].state == SMOE_TRIAL_FAILED;
    }
    return status;
}
