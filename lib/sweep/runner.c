/*
 * Processes of a sweep; see runner.h. SIGCHLD is blocked and waited for in one place, so that
 * nothing is missed and no handler is needed. A trial's process reports its progress in memory that
 * it shares with its parent.
 */
#include "sweep/runner.h"
#include "base/stop.h"
#include "store/env.h"
#include "sweep/trial.h"
#include "sweep/trial_run.h"
#include "train/fewshot.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct worker { /* a trial that runs */
    pid_t pid;
    size_t trial;
    smoe_claim claim; /* held by the parent until the outcome is written */
    bool lost;        /* another process has taken it over */
} worker;

typedef struct runner {
    smoe_sweep *sweep;
    const smoe_runner_options *options;
    smoe_datasets kept; /* of the first trial, for all others */
    smoe_runner_observer observer;
    smoe_runner_trial *trial; /* [trials], shared */
    worker *worker;           /* [running], room for jobs */
    size_t jobs, running;
    smoe_claim_seen *seen; /* [trials] claims of other processes */
    bool *settled;         /* [trials] done, failed, or to be left */
    bool stopping, told;
    size_t failed, killed; /* trials of this process */
    sigset_t before;       /* the caller's mask */
} runner;

/* ---- in a trial's process -------------------------------------------------------------------- */

static void runner_on_step(void *user, const smoe_train_status *step) {
    smoe_runner_trial *trial = user;
    trial->train = *step;
}

static void runner_on_eval(void *user, uint64_t step, const char *split, const smoe_eval *eval) {
    (void)step, (void)split;
    smoe_runner_trial *trial = user;
    trial->test_precision = eval->precision_at_1;
}

static void on_evaluated(void *user, size_t done, size_t of) {
    smoe_runner_trial *trial = user;
    trial->evaluation = done + 1;
    trial->evaluations = of;
}

static void on_read(void *user, size_t done, size_t all, const char *what) {
    smoe_runner_trial *trial = user;
    (void)what;
    trial->read = done;
    trial->to_read = all;
}

typedef struct task {
    runner *r;
    size_t trial;
    int threads, code;
    const volatile sig_atomic_t *stop;
} task;

static void *runner_work(void *user) {
    SMOE_NUMBERS_IN_C; /* a thread of its own */
    task *t = user;
    smoe_err err = {0};
    smoe_threads_set(t->threads);
    smoe_runner_trial *trial = &t->r->trial[t->trial];
    smoe_observer observer = {.user = trial, .step = runner_on_step, .eval = runner_on_eval};
    smoe_scan scan = {.show = on_read, .user = trial, .kept = &t->r->kept};
    smoe_trial_options how = {.train.env = smoe_env_here(t->r->options->argc, t->r->options->argv),
                              .train.stop = t->stop,
                              .train.save = smoe_save_request(),
                              .train.scan = &scan,
                              .train.observer = &observer,
                              .evaluated = on_evaluated,
                              .evaluated_user = trial};
    t->code = smoe_trial_run(t->r->sweep, t->trial, &how, &err) ? (int)err.code : 0;
    snprintf(trial->why, sizeof trial->why, "%.*s", (int)sizeof trial->why - 1, err.text);
    return NULL;
}

static void child(runner *r, size_t trial, pid_t parent) {
    /* Its own group: a Ctrl-C reaches the parent alone, which passes it on once. */
    setpgid(0, 0);
    task t = {.r = r, .trial = trial, .code = SMOE_RUNTIME, .stop = smoe_stop_catch()};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &r->before, NULL);
    if (getppid() != parent) _exit(SMOE_STOPPED);
    t.threads = smoe_threads() / (int)r->jobs;
    if (!t.threads) t.threads = 1;
    pthread_t thread;
    int code = pthread_create(&thread, NULL, runner_work, &t);
    if (!code) pthread_join(thread, NULL);
    if (code) {
        smoe_err ignored;
        SMOE_FREED char *text = smoe_text_format("cannot start a thread: %s", strerror(code));
        (void)!smoe_trial_finish(r->sweep, trial, smoe_trial_failure(SMOE_RUNTIME, text), &ignored);
    }
    _exit(t.code);
}

/* ---- in the parent --------------------------------------------------------------------------- */

static void runner_say(const runner *r, const char *text) {
    if (r->observer.say) r->observer.say(r->observer.user, text);
}

static void runner_show(const runner *r, bool last) {
    if (r->observer.show) r->observer.show(r->observer.user, r->trial, last);
}

/* The set of the signals of a list that ends with 0. */
static sigset_t set_of(const int *signals) {
    sigset_t set;
    sigemptyset(&set);
    for (; *signals; signals++) sigaddset(&set, *signals);
    return set;
}

static const int ends[] = {SIGCHLD, 0}, requests[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, 0};

/* The child of a fork, in which signals wait until they are caught. 0 in the child; -1. */
static pid_t fork_quietly(void) {
    sigset_t held = set_of(requests), mask;
    pthread_sigmask(SIG_BLOCK, &held, &mask);
    pid_t pid = fork();
    if (pid) pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return pid;
}

/* Starts a trial unless another process has it. 1: it runs; 0: another process has it, or it has
 * ended meanwhile; -1: failed. */
static int runner_begin(runner *r, size_t trial, smoe_err *err) {
    smoe_claim claim;
    int got = smoe_trial_claim(r->sweep, trial, &claim, SMOE_CLAIM_LEASE, &r->seen[trial], err);
    if (got <= 0) return got;
    if (smoe_trial_look(r->sweep, trial, err)) goto fail;
    smoe_trial_state state = r->sweep->trial[trial].state;
    if (state == SMOE_TRIAL_DONE || (state == SMOE_TRIAL_FAILED && !r->options->retry_failed)) {
        r->settled[trial] = true;
        smoe_claim_release(&claim);
        return 0;
    }
    pid_t parent = getpid(), pid = fork_quietly();
    if (pid < 0) {
        smoe_fail_errno(err, SMOE_RUNTIME, "cannot start a process");
        goto fail;
    }
    if (!pid) child(r, trial, parent);
    r->worker[r->running++] = (worker){.pid = pid, .trial = trial, .claim = claim};
    r->trial[trial].running = true;
    return 1;
fail:
    smoe_claim_release(&claim);
    return -1;
}

static bool killed(int status) {
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

/* Called when a process has ended: reads the outcome of its trial, or writes it. */
static int runner_end(runner *r, size_t which, int status, smoe_err *err) {
    worker w = r->worker[which];
    r->worker[which] = r->worker[--r->running];
    int bad = smoe_trial_look(r->sweep, w.trial, err);
    smoe_trial *trial = &r->sweep->trial[w.trial];
    bool stopped =
        w.lost || (r->stopping && (WIFSIGNALED(status) || WEXITSTATUS(status) == SMOE_STOPPED));
    bool silent = WIFSIGNALED(status) || (WEXITSTATUS(status) && trial->state != SMOE_TRIAL_FAILED);
    if (killed(status)) { /* killed from outside or for lack of memory: the trial did not fail */
        r->killed += !stopped && trial->state == SMOE_TRIAL_OPEN;
        stopped = true;
    }
    if (!bad && silent && !stopped) {
        char text[sizeof r->trial->why];
        if (WIFSIGNALED(status))
            snprintf(text, sizeof text, "the process was ended by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        else if (*r->trial[w.trial].why)
            memcpy(text, r->trial[w.trial].why, sizeof text);
        else
            snprintf(text, sizeof text, "the process ended with status %d", WEXITSTATUS(status));
        bad = smoe_trial_finish(r->sweep, w.trial, smoe_trial_failure(SMOE_RUNTIME, text), err);
        if (!bad) bad = smoe_trial_look(r->sweep, w.trial, err);
    }
    smoe_claim_release(&w.claim);
    if (bad) return -1;
    /* A claim that was lost belongs to another process; the trial may become free again. */
    r->settled[w.trial] = !w.lost && (trial->state != SMOE_TRIAL_OPEN || stopped);
    r->failed += trial->state == SMOE_TRIAL_FAILED;
    r->trial[w.trial].running = false;
    if (r->observer.ended) r->observer.ended(r->observer.user, w.trial);
    return 0;
}

static int reap(runner *r, smoe_err *err) {
    for (size_t i = 0; i < r->running;) {
        int status;
        if (waitpid(r->worker[i].pid, &status, WNOHANG) != r->worker[i].pid)
            i++;
        else if (runner_end(r, i, status, err))
            return -1;
    }
    return 0;
}

/* Renews the claims. A trial whose claim is lost must no longer write. */
static int renew(runner *r, smoe_err *err) {
    for (size_t i = 0; i < r->running; i++) {
        worker *w = &r->worker[i];
        smoe_err problem = {0};
        int got = w->lost ? 0 : smoe_claim_renew(&w->claim, w->pid, &problem);
        if (got < 0) return *err = problem, -1;
        if (!got) continue;
        runner_say(r, problem.text);
        w->lost = true;
        kill(w->pid, SIGKILL);
    }
    return 0;
}

static void runner_forward(const runner *r, int number) {
    for (size_t i = 0; i < r->running; i++) kill(r->worker[i].pid, number);
}

static void stop_all(runner *r) {
    r->stopping = true;
    runner_forward(r, SIGTERM);
}

/* Starts trials until all jobs are taken. *held: another process runs one of the trials. */
static int runner_fill(runner *r, bool *held, smoe_err *err) {
    *held = false;
    for (size_t i = 0; i < r->sweep->trials && r->running < r->jobs; i++) {
        bool ours = r->settled[i];
        for (size_t w = 0; w < r->running; w++) ours |= r->worker[w].trial == i;
        if (ours) continue;
        int got = runner_begin(r, i, err);
        if (got < 0) return -1;
        *held |= !got && !r->settled[i];
    }
    return 0;
}

static int loop(runner *r, smoe_err *err) {
    const struct timespec moment = {.tv_nsec = 200000000};
    const volatile sig_atomic_t *stop = r->options->stop;
    sigset_t children = set_of(ends);
    for (;;) {
        bool held = false;
        if (reap(r, err)) return -1;
        if (r->failed && r->options->fail_fast && !r->stopping) stop_all(r);
        if (stop && *stop && !r->stopping) {
            stop_all(r);
            if (r->running) runner_say(r, "stopping: every running cell writes a checkpoint");
        }
        if (r->options->save && *r->options->save) {
            *r->options->save = 0;
            runner_forward(r, SIGUSR1);
        }
        if (!r->stopping && runner_fill(r, &held, err)) return -1;
        if (renew(r, err)) return -1;
        runner_show(r, false);
        if (!r->running && (r->stopping || !held)) return 0;
        if (held && !r->running && !r->told) {
            runner_say(r, "waiting for cells that other processes run");
            r->told = true;
        }
        /* a moment, or until a child ends or a signal asks to stop */
        if (r->stopping || !stop || !*stop) sigtimedwait(&children, NULL, &moment);
    }
}

static int runner_conclude(const runner *r, smoe_err *err) {
    const smoe_sweep *sweep = r->sweep;
    /* others may have finished cells since this process looked at them */
    for (size_t i = 0; i < sweep->trials; i++)
        if (sweep->trial[i].state == SMOE_TRIAL_OPEN && smoe_trial_look(r->sweep, i, err))
            return -1;
    size_t failed = smoe_trial_count(sweep, SMOE_TRIAL_FAILED, false);
    size_t open = smoe_trial_count(sweep, SMOE_TRIAL_OPEN, false),
           chosen = smoe_choose_count(sweep);
    if (open && !r->killed && !(r->failed && r->options->fail_fast))
        return smoe_fail(err, SMOE_STOPPED, "stopped on request with %zu of %zu cell%s left", open,
                         chosen, SMOE_S(chosen));
    if (!failed && !r->killed) return 0;
    if (r->killed) smoe_fail(err, SMOE_PARTIAL, "%zu of %zu cells were killed", r->killed, chosen);
    if (!failed) return -1;
    smoe_fail_more(err, SMOE_PARTIAL, "%zu of %zu cell%s failed:", failed, chosen, SMOE_S(chosen));
    for (size_t i = 0; i < sweep->trials; i++) {
        const char *text = json_string_value(json_object_get(sweep->trial[i].outcome, "error"));
        if (sweep->trial[i].state == SMOE_TRIAL_FAILED && !sweep->trial[i].left_out)
            smoe_fail_more(err, SMOE_PARTIAL, "%s: %.*s", sweep->trial[i].name,
                           text ? (int)strcspn(text, "\n") : 1, text ? text : "?");
    }
    return -1;
}

static int runner_open(runner *r, smoe_err *err) {
    size_t trials = r->sweep->trials;
    r->worker = smoe_alloc(r->jobs, sizeof *r->worker);
    r->settled = smoe_alloc(trials, sizeof *r->settled);
    r->seen = smoe_alloc(trials, sizeof *r->seen);
    void *shared = mmap(NULL, trials * sizeof *r->trial, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return smoe_fail_errno(err, SMOE_RUNTIME, "cannot allocate the memory shared by the cells");
    r->trial = shared;
    for (size_t i = 0; i < trials; i++) {
        r->trial[i].test_precision = NAN;
        r->settled[i] = r->sweep->trial[i].left_out;
    }
    struct sigaction action; /* if SIGCHLD is ignored, ends of children are not reported */
    if (sigaction(SIGCHLD, NULL, &action))
        return smoe_fail_errno(err, SMOE_RUNTIME, "cannot read the action of SIGCHLD");
    if (action.sa_handler != SIG_IGN && !(action.sa_flags & SA_NOCLDWAIT)) return 0;
    return smoe_fail(err, SMOE_RUNTIME,
                     "SIGCHLD is ignored, so the end of a trial would not be noticed");
}

/* If several trials are to run, opens the data of the first, so that trials, which are forks of
 * this process, need not decode it again. Failures are left to the trials. */
static void read_data(runner *r) {
    const smoe_sweep *sweep = r->sweep;
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    size_t first = sweep->trials, open = 0;
    smoe_scan scan = smoe_scan_until(r->options->scan, r->options->stop);
    for (size_t i = sweep->trials; i-- > 0;) {
        smoe_trial_state state = sweep->trial[i].state;
        bool over = state == SMOE_TRIAL_FAILED && !r->options->retry_failed;
        if (over || r->settled[i] || state == SMOE_TRIAL_DONE) continue;
        first = i;
        open++;
    }
    scan.kept = &r->kept;
    if (open < 2 || smoe_trial_parse(&spec, &sweep->trial[first], NULL)) return;
    /* all at once, as a trial has them: few-shot images may be those of training */
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *test = NULL;
    SMOE_FREED_BY(smoe_dataset_freed) smoe_dataset *train = NULL;
    SMOE_FREED_BY(smoe_fewshot_freed) smoe_fewshot *fewshot = NULL;
    (void)!smoe_dataset_open(&test, &spec, spec.eval.split, &scan, NULL);
    if (sweep->run) return;
    (void)!smoe_dataset_open(&train, &spec, "train", &scan, NULL);
    (void)!smoe_fewshot_open(&fewshot, &spec, &scan, NULL);
}

int smoe_runner_run(smoe_sweep *sweep, const smoe_runner_options *options, smoe_err *err) {
    runner r = {.sweep = sweep, .options = options, .jobs = options->jobs};
    if (options->observer) r.observer = *options->observer;
    sigset_t children = set_of(ends);
    pthread_sigmask(SIG_BLOCK, &children, &r.before);
    int status = runner_open(&r, err);
    if (!status) {
        read_data(&r);
        status = loop(&r, err);
        if (status) runner_forward(&r, SIGTERM); /* every process that still runs */
        for (size_t i = 0; status && i < r.running; i++) {
            while (waitpid(r.worker[i].pid, NULL, 0) < 0 && errno == EINTR) continue;
            smoe_claim_release(&r.worker[i].claim);
        }
        runner_show(&r, true);
    }
    smoe_datasets_close(&r.kept);
    pthread_sigmask(SIG_SETMASK, &r.before, NULL);
    if (r.trial) munmap(r.trial, sweep->trials * sizeof *r.trial);
    free(r.worker);
    free(r.settled);
    free(r.seen);
    return status ? -1 : runner_conclude(&r, err);
}
