/* The public function that trains; see smoe/smoe.h. */
#include "math/blas.h"
#include "store/env.h"
#include "train/trainer.h"

static void train_on_step(void *user, const smoe_train_status *step) {
    const smoe_train_settings *settings = user;
    settings->step(settings->user, step->step, step->steps, step->loss);
}

int smoe_train_run(const smoe_spec *spec, const char *dir, const smoe_train_settings *settings,
                   smoe_trained *trained, smoe_err *err) {
    static const smoe_train_settings plain = {0};
    SMOE_NUMBERS_IN_C;
    smoe_err own; /* the run's log and STATUS are written from it */
    if (!err) err = &own;
    if (!settings) settings = &plain;
    if (trained) *trained = (smoe_trained){.train_loss = NAN};
    if (!spec) return smoe_fail(err, SMOE_USAGE, "the spec is NULL");
    if (smoe_run_check_mode(settings->mode, dir, err)) return -1;
    smoe_blas_start();
    smoe_observer observer = {.user = (void *)settings,
                              .step = settings->step ? train_on_step : NULL};
    smoe_train_options options = {.dir = dir,
                                  .mode = settings->mode,
                                  .init = settings->init,
                                  .fit = SMOE_FIT_INIT,
                                  .env = smoe_env_here(0, NULL),
                                  .stop = settings->stop,
                                  .observer = &observer};
    smoe_train_result result;
    int status = smoe_train(spec, &options, &result, err);
    if (trained)
        *trained =
            (smoe_trained){result.step,
                           result.train_loss,
                           {result.test.images, result.test.loss, result.test.precision_at_1}};
    return status;
}
