/*
 * Processes of a sweep; see trials.h. The parent keeps every signal it cares about blocked and
 * waits for them in one place, so that nothing is missed and no handler is needed; it starts no
 * threads, since a process that has OpenMP threads cannot fork one that wants some.
 */
#include "trials.h"
#include "cmd.h"
#include "live.h"
#include "stop.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "sweep/trial.h"
#include "sweep/compare.h"
#include "sweep/primary.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct worker { /* a trial that runs */
    pid_t pid;
    size_t trial;
    int claim; /* open in the parent too until the outcome is written */
} worker;

typedef struct runner {
    smoe_sweep *sweep;
    const smoe_options *options;
    smoe_live live;
    worker *worker; /* [running], room for jobs */
    size_t jobs, running;
    bool *settled; /* [trials] done, failed, or to be left */
    bool stopping, told;
    size_t failed, killed; /* trials of this process */
    sigset_t signals, before;
} runner;

/* ---- in a trial's process -------------------------------------------------------------------- */

static void child(runner *r, size_t trial, pid_t parent) {
    smoe_err err = {0};
    /* Its own group: a Ctrl-C reaches the parent alone, which passes it on once. */
    setpgid(0, 0);
    const volatile sig_atomic_t *stop = smoe_stop_catch();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &r->before, NULL);
    if (getppid() != parent) _exit(SMOE_STOPPED);
    for (size_t i = 0; i < r->running; i++) close(r->worker[i].claim);
    size_t threads = (size_t)smoe_threads() / r->jobs;
    smoe_threads_set(threads ? (int)threads : 1);
    smoe_observer observer = smoe_live_observer(&r->live, trial);
    smoe_trial_options how = {.env = smoe_cmd_env(r->options),
                              .stop = stop,
                              .observer = &observer,
                              .evaluated = smoe_live_evaluated,
                              .evaluated_user = observer.user};
    int status = smoe_trial_run(r->sweep, trial, &how, &err);
    _exit(status ? (int)err.code : 0);
}

/* ---- in the parent --------------------------------------------------------------------------- */

/* Takes up a trial if nobody has it: 1 it runs, 0 another has it or it is settled by now, -1. */
static int begin(runner *r, size_t trial, smoe_err *err) {
    int claim, got = smoe_trial_claim(r->sweep, trial, &claim, err);
    if (got <= 0) return got;
    if (smoe_trial_look(r->sweep, trial, err)) goto fail;
    smoe_trial_state state = r->sweep->trial[trial].state;
    if (state == SMOE_TRIAL_DONE || (state == SMOE_TRIAL_FAILED && !r->options->retry_failed)) {
        r->settled[trial] = true;
        close(claim);
        return 0;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        smoe_fail_errno(err, SMOE_RUNTIME, "cannot start a process");
        goto fail;
    }
    if (!pid) child(r, trial, parent);
    r->worker[r->running++] = (worker){pid, trial, claim};
    smoe_live_set(&r->live, trial, SMOE_LIVE_RUNNING);
    return 1;
fail:
    close(claim);
    return -1;
}

static bool killed(int status) {
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

/* A process has ended: its trial's outcome is there, or is written now. */
static int end(runner *r, size_t which, int status, smoe_err *err) {
    worker w = r->worker[which];
    r->worker[which] = r->worker[--r->running];
    int bad = smoe_trial_look(r->sweep, w.trial, err);
    smoe_trial *trial = &r->sweep->trial[w.trial];
    bool stopped = r->stopping && (WIFSIGNALED(status) || WEXITSTATUS(status) == SMOE_STOPPED);
    bool silent = WIFSIGNALED(status) || (WEXITSTATUS(status) && trial->state != SMOE_TRIAL_FAILED);
    if (killed(status)) { /* from outside, or for want of memory: no fault of the trial's */
        r->killed += !stopped && trial->state == SMOE_TRIAL_OPEN;
        stopped = true;
    }
    if (!bad && silent && !stopped) {
        char text[128];
        if (WIFSIGNALED(status))
            snprintf(text, sizeof text, "the process was ended by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        else
            snprintf(text, sizeof text, "the process ended with status %d", WEXITSTATUS(status));
        bad = smoe_trial_finish(r->sweep, w.trial, smoe_trial_failure(SMOE_RUNTIME, text), err);
        if (!bad) bad = smoe_trial_look(r->sweep, w.trial, err);
    }
    close(w.claim);
    if (bad) return -1;
    r->settled[w.trial] = trial->state != SMOE_TRIAL_OPEN || stopped;
    r->failed += trial->state == SMOE_TRIAL_FAILED;
    smoe_live_end(&r->live, w.trial);
    return 0;
}

static int reap(runner *r, smoe_err *err) {
    for (size_t i = 0; i < r->running;) {
        int status;
        pid_t pid = waitpid(r->worker[i].pid, &status, WNOHANG);
        if (pid == r->worker[i].pid) {
            if (end(r, i, status, err)) return -1;
        } else {
            i++;
        }
    }
    return 0;
}

static void forward(const runner *r) {
    for (size_t i = 0; i < r->running; i++) kill(r->worker[i].pid, SIGTERM);
}

/* Waits for a child's end, a request to stop, or for a moment. */
static void wait_for_news(runner *r) {
    struct timespec moment = {.tv_nsec = 200000000};
    int number = sigtimedwait(&r->signals, NULL, &moment);
    if (number != SIGINT && number != SIGTERM) return;
    forward(r);
    if (r->stopping) { /* the second time */
        sigprocmask(SIG_SETMASK, &r->before, NULL);
        signal(number, SIG_DFL);
        raise(number);
    }
    r->stopping = true;
    smoe_live_say(&r->live, "stopping: every running cell writes a checkpoint");
}

/* Starts trials until all jobs are taken. *held: some trial is another process's. */
static int fill(runner *r, bool *held, smoe_err *err) {
    *held = false;
    for (size_t i = 0; i < r->sweep->trials && r->running < r->jobs; i++) {
        bool ours = r->settled[i];
        for (size_t w = 0; w < r->running; w++) ours |= r->worker[w].trial == i;
        if (ours) continue;
        int got = begin(r, i, err);
        if (got < 0) return -1;
        *held |= !got && !r->settled[i];
    }
    return 0;
}

static int loop(runner *r, smoe_err *err) {
    for (;;) {
        bool held = false;
        if (reap(r, err)) return -1;
        if (r->failed && r->options->fail_fast && !r->stopping) {
            r->stopping = true;
            forward(r);
        }
        if (!r->stopping && fill(r, &held, err)) return -1;
        smoe_live_show(&r->live);
        if (!r->running && (r->stopping || !held)) return 0;
        if (held && !r->running && !r->told) {
            smoe_live_say(&r->live, "waiting for cells that other processes run");
            r->told = true;
        }
        wait_for_news(r);
    }
}

/* Every process that still runs is told to stop and waited for. */
static void give_up(runner *r) {
    forward(r);
    for (size_t i = 0; i < r->running; i++)
        while (waitpid(r->worker[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
}

static int conclude(const runner *r, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    size_t failed = 0, open = 0;
    for (size_t i = 0; i < sweep->trials; i++) {
        failed += sweep->trial[i].state == SMOE_TRIAL_FAILED;
        open += sweep->trial[i].state == SMOE_TRIAL_OPEN;
    }
    if (open && !r->killed && !(r->failed && r->options->fail_fast))
        return smoe_fail(err, SMOE_STOPPED,
                         "stopped on request with %zu of %zu cells left; --resume "
                         "continues",
                         open, sweep->trials);
    if (!failed && !r->killed) return 0;
    if (r->killed)
        smoe_fail(err, SMOE_PARTIAL, "%zu of %zu cells were killed; --resume continues them",
                  r->killed, sweep->trials);
    if (!failed) return -1;
    smoe_fail_more(err, SMOE_PARTIAL, "%zu of %zu cells failed:", failed, sweep->trials);
    for (size_t i = 0; i < sweep->trials; i++) {
        const char *text = json_string_value(json_object_get(sweep->trial[i].outcome, "error"));
        if (sweep->trial[i].state == SMOE_TRIAL_FAILED)
            smoe_fail_more(err, SMOE_PARTIAL, "%s: %.*s", sweep->trial[i].name,
                           text ? (int)strcspn(text, "\n") : 1, text ? text : "?");
    }
    return smoe_fail_more(err, SMOE_PARTIAL, "--resume --retry-failed runs them again");
}

/* Runs what is open, and with --retry-failed what failed, then waits for trials that other
 * processes have. */
static int run_trials(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    runner r = {.sweep = sweep, .options = options, .jobs = (size_t)options->jobs};
    r.worker = calloc(r.jobs, sizeof *r.worker);
    r.settled = calloc(sweep->trials, sizeof *r.settled);
    int status = smoe_live_open(&r.live, sweep, options, err);
    if (!status && (!r.worker || !r.settled))
        status = smoe_fail(err, SMOE_RUNTIME, "out of memory");
    sigemptyset(&r.signals);
    sigaddset(&r.signals, SIGCHLD);
    sigaddset(&r.signals, SIGINT);
    sigaddset(&r.signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &r.signals, &r.before);
    if (!status) {
        status = loop(&r, err);
        if (status) give_up(&r);
    }
    sigprocmask(SIG_SETMASK, &r.before, NULL);
    smoe_live_close(&r.live);
    free(r.worker);
    free(r.settled);
    return status ? -1 : conclude(&r, err);
}

/* ---- the command ----------------------------------------------------------------------------- */

int smoe_trials_seeds(char **seeds, const smoe_options *options, smoe_err *err) {
    const char *own = NULL;
    *seeds = NULL;
    for (size_t i = 0; i < options->overrides; i++) {
        const char *text = options->override[i];
        if (strncmp(text, "seed=", 5)) continue;
        if (own) return smoe_fail(err, SMOE_USAGE, "override %s: %s sets the same key", text, own);
        own = text;
    }
    if (own && options->seeds)
        return smoe_fail(err, SMOE_USAGE, "--seeds %s and %s set the same key", options->seeds,
                         own);
    if (own) *seeds = strdup(own);
    if (options->seeds) *seeds = smoe_text_format("seed=%s", options->seeds);
    return (own || options->seeds) && !*seeds ? smoe_fail(err, SMOE_RUNTIME, "out of memory") : 0;
}

bool smoe_trials_is_run(const char *arg) {
    return smoe_file_is_folder(arg) && smoe_file_holds(arg, "spec.yaml") &&
           !smoe_file_holds(arg, "cells.jsonl");
}

/* Draws the figures; says so where that needs another program. */
static int draw(const smoe_results *results, const smoe_options *options, smoe_err *err) {
    bool drawn;
    if (smoe_results_draw(results, &drawn, err)) return -1;
    if (!drawn && !options->quiet)
        fprintf(stderr, "gnuplot is not installed; %s/*.gp are the scripts of the figures\n",
                results->sweep->dir);
    return 0;
}

/* Runs the trials and writes and prints what came of them, of failed and stopped sweeps too. */
static int run_and_report(smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    smoe_results results;
    smoe_err ran = {0};
    int run = run_trials(sweep, options, &ran);
    int status = smoe_results_make(&results, sweep, err);
    if (!status) status = smoe_results_write(&results, err);
    if (!status) status = draw(&results, options, err);
    if (!status) status = smoe_trials_summary(&results, options, err);
    smoe_results_free(&results);
    if (run) *err = ran;
    return run || status ? -1 : 0;
}

static int check(const smoe_options *options, const char *arg, bool folder, smoe_err *err) {
    if (!arg)
        return smoe_fail(err, SMOE_USAGE, "SPEC.yaml is missing (or --resume DIR, --status DIR)");
    if (options->force && (options->resume || options->status))
        return smoe_fail(err, SMOE_USAGE, "--force starts again and cannot be used with --%s",
                         options->resume ? "resume" : "status");
    if (options->extend && (options->force || options->resume || options->status))
        return smoe_fail(err, SMOE_USAGE, "--extend cannot be used with --%s",
                         options->force    ? "force"
                         : options->resume ? "resume"
                                           : "status");
    if (options->extend && folder)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a folder; --extend needs the spec with all values, and -o %s", arg,
                         arg);
    if (options->retry_failed && !options->resume)
        return smoe_fail(err, SMOE_USAGE, "--retry-failed needs --resume");
    if (options->status && !folder)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is not a folder; --status needs the folder of a sweep", arg);
    if (options->status && (options->reference || options->equivalence) && options->json)
        return smoe_fail(err, SMOE_USAGE,
                         "--status --json has no differences; --resume --json has them");
    if (options->power && (options->force || options->extend || options->resume ||
                           options->status || options->dry_run))
        return smoe_fail(err, SMOE_USAGE, "--power cannot be used with --%s",
                         options->force    ? "force"
                         : options->extend ? "extend"
                         : options->resume ? "resume"
                         : options->status ? "status"
                                           : "dry-run");
    if (folder && !options->resume && !options->status && !options->power && !options->dry_run)
        return smoe_fail(err, SMOE_USAGE,
                         "%s is a folder; --resume continues a sweep, --status shows its state",
                         arg);
    if (folder && options->profile)
        return smoe_fail(
            err, SMOE_USAGE,
            "--profile %s: the cells of the sweep in %s are fixed; a profile cannot change them",
            options->profile, arg);
    if (folder && (options->overrides || options->seeds))
        return smoe_fail(err, SMOE_USAGE,
                         "'%s': the cells of an existing sweep are fixed; SPEC.yaml with all "
                         "values, --extend and -o %s adds cells",
                         options->overrides ? options->override[0] : options->seeds, arg);
    if (folder && options->args && options->out)
        return smoe_fail(err, SMOE_USAGE, "%s is the sweep; -o %s cannot be used with it", arg,
                         options->out);
    return 0;
}

/* What the command line wants to see beats the spec and the manifest. */
static int set_wishes(smoe_sweep *sweep, const smoe_trials_kind *kind, const smoe_options *options,
                      smoe_err *err) {
    const char *const wish[] = {options->x, options->y, options->line};
    char **const text[] = {&sweep->figure.x, &sweep->figure.y, &sweep->figure.line};
    smoe_err ignored;
    for (size_t i = 0; i < 3; i++) {
        if (!wish[i]) continue;
        free(*text[i]);
        *text[i] = strdup(wish[i]);
        if (!*text[i]) return smoe_fail(err, SMOE_RUNTIME, "out of memory");
    }
    if (smoe_results_check(sweep, err)) return -1;
    if (options->equivalence &&
        smoe_equivalence_set(sweep, options->equivalence, "--equivalence", err))
        return -1;
    if (options->reference)
        return smoe_compare_refer(sweep, options->reference, "--reference", err);
    if (kind->reference && !sweep->reference)
        (void)!smoe_compare_refer(sweep, kind->reference, "", &ignored);
    return 0;
}

/* The sweep that is in a folder. */
static int open_folder(smoe_sweep *sweep, const smoe_trials_kind *kind, const char *dir,
                       const smoe_options *options, smoe_err *err) {
    if (smoe_sweep_open(sweep, dir, err)) return -1;
    if (kind->check && kind->check(sweep, err)) return -1;
    return set_wishes(sweep, kind, options, err);
}

/* The trials, with a folder unless this is a dry run. */
static int prepare(smoe_sweep *sweep, const smoe_trials_kind *kind, const char *arg, bool folder,
                   const smoe_options *options, smoe_err *err) {
    if (folder) return open_folder(sweep, kind, arg, options, err);
    if (kind->expand(sweep, arg, options, err)) return -1;
    if (set_wishes(sweep, kind, options, err)) return -1;
    if (options->dry_run) return 0;
    char *dir = options->out ? strdup(options->out)
                             : smoe_text_format("runs/%s-%s", sweep->name,
                                                sweep->run ? "evaluate" : kind->suffix);
    int status = dir ? 0 : smoe_fail(err, SMOE_RUNTIME, "out of memory");
    if (!status && options->power) {
        smoe_sweep_free(sweep);
        status = open_folder(sweep, kind, dir, options, err);
        free(dir);
        return status;
    }
    if (!status && options->force) status = smoe_sweep_remove(dir, err);
    if (!status)
        status = options->extend
                     ? smoe_sweep_extend(sweep, dir, err)
                     : smoe_sweep_create(sweep, dir, options->resume || options->force, err);
    free(dir);
    /* The manifest of one that is there may have other wishes. */
    return status ? -1 : set_wishes(sweep, kind, options, err);
}

/* --status runs nothing and changes no table; a reference or a figure that is asked for is printed
 * or drawn from the results so far. */
static int tell(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    smoe_results results = {0};
    int status = smoe_trials_status(sweep, options, err);
    bool figure = options->x || options->y || options->line;
    bool contrasts = options->reference || options->equivalence;
    if (status || !(figure || contrasts)) return status;
    status = smoe_results_make(&results, sweep, err);
    if (!status && contrasts) status = smoe_trials_contrasts(&results, "", options, err);
    if (!status && contrasts && results.evaluations) {
        printf("\nEvaluated at other settings:\n");
        status = smoe_trials_contrasts(results.evaluations, "evaluations_", options, err);
    }
    if (!status && figure) status = draw(&results, options, err);
    smoe_results_free(&results);
    return status;
}

static int tell_power(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    smoe_results results = {0};
    int status = smoe_results_make(&results, sweep, err);
    if (!status) status = smoe_trials_power(&results, options, err);
    smoe_results_free(&results);
    return status;
}

int smoe_trials_command(const smoe_trials_kind *kind, const smoe_options *options, smoe_err *err) {
    smoe_sweep sweep = {0};
    bool going_on = options->resume || options->status || options->power;
    const char *arg = options->args ? options->arg[0] : going_on ? options->out : NULL;
    bool folder = arg && smoe_file_is_folder(arg) && !smoe_trials_is_run(arg);
    int status = check(options, arg, folder, err);
    if (!status) status = prepare(&sweep, kind, arg, folder, options, err);
    if (status)
        ;
    else if (options->dry_run)
        status = smoe_trials_estimate(&sweep, options, err);
    else if (options->power)
        status = tell_power(&sweep, options, err);
    else if (options->status)
        status = tell(&sweep, options, err);
    else
        status = run_and_report(&sweep, options, err);
    smoe_sweep_free(&sweep);
    return status;
}
