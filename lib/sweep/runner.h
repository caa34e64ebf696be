/*
 * Running the trials of a sweep: one process per trial, at most a given number at once, possibly
 * beside other processes that share the sweep. Not here: what a trial does (sweep/trial_run.h), the
 * results, and what is shown of them.
 */
#pragma once

#include "data/scan.h"
#include "sweep/sweep.h"
#include "train/trainer.h"

#include <signal.h>

/* The progress of a trial of this process, written by the process of the trial. */
typedef struct smoe_runner_trial {
    bool running;
    size_t read, to_read;    /* images; files that were found, of 0: 0, nothing is read now */
    smoe_train_status train; /* 0 of 0 steps: it is starting; its word is not of this process */
    double test_precision;   /* NAN: not evaluated yet */
    size_t evaluation, evaluations; /* at other settings: begun, of; 0: not there yet */
    char why[512];                  /* it failed; for the case that it could not write this */
} smoe_runner_trial;

/* Callbacks about progress, called in the process that called smoe_runner_run; each may be NULL. */
typedef struct smoe_runner_observer {
    void *user;
    /* Some times per second, with trials [sweep->trials]; `last`: nothing will change any more. */
    void (*show)(void *user, const smoe_runner_trial *trial, bool last);
    /* Trial i has ended as sweep->trial[i] says; an open one was stopped. */
    void (*ended)(void *user, size_t i);
    void (*say)(void *user, const char *text); /* a remark */
} smoe_runner_observer;

typedef struct smoe_runner_options {
    size_t jobs; /* trials at once, at least 1; each has its share of the caller's threads */
    bool retry_failed, fail_fast; /* those that failed earlier; the first failure stops all */
    /* If it is set, every running trial writes a checkpoint and continues, and it becomes 0; may be
     * NULL. */
    volatile sig_atomic_t *save;
    /* If it is set, every running trial writes a checkpoint, and the sweep ends; may be NULL. */
    const volatile sig_atomic_t *stop;
    smoe_scan *scan; /* is told of data that is read before the trials begin; may be NULL */
    int argc;        /* the command line, for env.json */
    char *const *argv;
    const smoe_runner_observer *observer; /* may be NULL */
} smoe_runner_options;

/*
 * Runs the open trials that are not left out (sweep/trial.h), and with retry_failed those that
 * failed, then waits for trials that other processes run. SMOE_STOPPED after a requested stop;
 * SMOE_PARTIAL names the trials that failed. It forks: of the threads of its parent a child has
 * only the caller's, and it works on a new one, so that OpenMP starts again there. SIGCHLD must not
 * be ignored (SMOE_RUNTIME); err must not be NULL.
 */
int smoe_runner_run(smoe_sweep *sweep, const smoe_runner_options *options,
                    smoe_err *err) SMOE_MUST_CHECK;
