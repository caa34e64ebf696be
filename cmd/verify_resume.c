/*
 * smoe verify-resume: checks that a run that is killed and resumed gives the same bits as one that
 * is not. Both are run by `smoe train` of this program, in separate processes; the second is killed
 * by SIGKILL once it has a checkpoint, and then resumed.
 */
#include "cmd.h"
#include "base/clock.h"
#include "store/run_compare.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 5, EXTRA = 12 };
static const double patience = 3600; /* seconds until the first checkpoint, at most */

typedef struct verification {
    const smoe_options *options;
    char *dir, *whole, *parts; /* the two runs are in dir */
    FILE *input;               /* the spec that standard input had, for each training; or NULL */
    char every[64];            /* train.checkpoint_every=N */
    uint64_t killed_after;     /* steps at the last checkpoint before the kill */
} verification;

/* Starts `smoe train` on the spec for the run `to`, or resumes it. Returns the process or -1. */
static pid_t verify_resume_start(const verification *v, const char *to, bool resume,
                                 smoe_err *err) {
    const smoe_options *options = v->options;
    char threads[32];
    SMOE_FREED const char **word = smoe_alloc(options->overrides + EXTRA, sizeof *word);
    size_t n = 0;
    snprintf(threads, sizeof threads, "-j%ld", options->threads);
    word[n++] = "smoe";
    word[n++] = "train";
    word[n++] = "-q";
    if (options->threads) word[n++] = threads;
    if (resume) {
        word[n++] = "--resume";
        word[n++] = to;
    } else {
        word[n++] = options->arg[0];
        word[n++] = "-o";
        word[n++] = to;
        if (options->profile) word[n++] = "--profile";
        if (options->profile) word[n++] = options->profile;
        for (size_t i = 0; i < options->overrides; i++) word[n++] = options->assign[i];
        word[n++] = v->every;
    }
    fflush(NULL);
    if (v->input && fseeko(v->input, 0, SEEK_SET))
        return smoe_fail_errno(err, SMOE_RUNTIME, "the spec of standard input");
    pid_t parent = getpid(), child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* training does not go on without this command */
        if (getppid() != parent) _exit(SMOE_RUNTIME);
        if (v->input) dup2(fileno(v->input), STDIN_FILENO);
        /* the result of a training is not the result of this command */
        if (freopen("/dev/null", "w", stdout)) execv("/proc/self/exe", (char **)word);
        fprintf(stderr, "smoe verify-resume: cannot start /proc/self/exe: %s\n", strerror(errno));
        _exit(SMOE_RUNTIME);
    }
    return child < 0 ? smoe_fail_errno(err, SMOE_RUNTIME, "cannot start a process") : child;
}

static int verify_resume_finish(pid_t child, const char *run, smoe_err *err) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return smoe_fail_errno(err, SMOE_RUNTIME, "cannot wait for a process");
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return 0;
    if (WIFEXITED(status))
        return smoe_fail(err, (smoe_code)WEXITSTATUS(status), "%s: training failed (status %d)",
                         run, WEXITSTATUS(status));
    return smoe_fail(err, SMOE_RUNTIME, "%s: training was killed by signal %d", run,
                     WTERMSIG(status));
}

/* 1: killed after its first checkpoint and before its end; 0: it ended before; -1: failed. */
static int train_and_kill(verification *v, smoe_err *err) {
    const struct timespec moment = {.tv_nsec = 500000};
    double begin = smoe_now();
    pid_t child = verify_resume_start(v, v->parts, false, err), ended = 0;
    int status = 0;
    if (child < 0) return -1;
    while (!(ended = waitpid(child, &status, WNOHANG)) && !smoe_checkpoint_latest(v->parts) &&
           smoe_now() - begin < patience)
        nanosleep(&moment, NULL);
    if (ended) {
        if (WIFEXITED(status) && !WEXITSTATUS(status)) return 0;
        return smoe_fail(err, SMOE_RUNTIME, "%s: training failed before it was killed", v->parts);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    v->killed_after = smoe_checkpoint_latest(v->parts);
    if (WIFSIGNALED(status) && !v->killed_after)
        return smoe_fail(err, SMOE_RUNTIME,
                         "%s: no checkpoint within %.0f minutes; train with fewer steps or images",
                         v->parts, patience / 60);
    return WIFSIGNALED(status);
}

static int train_both(verification *v, smoe_err *err) {
    pid_t child = verify_resume_start(v, v->whole, false, err);
    if (child < 0 || verify_resume_finish(child, v->whole, err)) return -1;
    int killed = 0;
    for (int i = 0; i < TRIES && !killed; i++) {
        if (smoe_file_remove(v->parts, err)) return -1;
        killed = train_and_kill(v, err);
    }
    if (killed < 0) return -1;
    if (!killed)
        return smoe_fail(err, SMOE_RUNTIME,
                         "the run ended before it could be killed: give more steps, as with "
                         "train.steps=1000");
    child = verify_resume_start(v, v->parts, true, err);
    return child < 0 ? -1 : verify_resume_finish(child, v->parts, err);
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* Whether FILE of the last checkpoints is the same, byte for byte: 1, 0, or -1 with err. */
static int same_file(const verification *v, const char *file, smoe_err *err) {
    const char *const run[] = {v->whole, v->parts};
    FILE *in[2] = {NULL, NULL};
    int same = 1;
    for (int i = 0; i < 2 && same > 0; i++) {
        SMOE_FREED char *path = smoe_text_format("%s/ckpt/latest/%s", run[i], file);
        in[i] = fopen(path, "re");
        if (!in[i]) same = smoe_fail_errno(err, SMOE_RUNTIME, "%s", path);
    }
    for (size_t n = 1; same > 0 && n;) {
        char a[1 << 14], b[sizeof a];
        n = fread(a, 1, sizeof a, in[0]);
        same = n == fread(b, 1, sizeof b, in[1]) && !memcmp(a, b, n);
    }
    for (int i = 0; i < 2; i++)
        if (in[i]) fclose(in[i]);
    return same;
}

/* The same of all files whose names begin so; a large tensor file has several parts and an
 * index. */
static int same_files(const verification *v, const char *begin, smoe_err *err) {
    SMOE_FREED char *a = smoe_text_format("%s/ckpt/latest", v->whole);
    SMOE_FREED char *b = smoe_text_format("%s/ckpt/latest", v->parts);
    SMOE_FREED char **x = smoe_file_names(a);
    if (!x) return smoe_fail_errno(err, SMOE_RUNTIME, "%s", a);
    SMOE_FREED char **y = smoe_file_names(b);
    if (!y) return smoe_fail_errno(err, SMOE_RUNTIME, "%s", b);
    size_t i = 0, k = 0, n = strlen(begin);
    int same = 1;
    for (; same > 0; i++, k++) {
        while (x[i] && strncmp(x[i], begin, n) != 0) i++;
        while (y[k] && strncmp(y[k], begin, n) != 0) k++;
        if (!x[i] || !y[k]) return !x[i] && !y[k];
        same = strcmp(x[i], y[k]) ? 0 : same_file(v, x[i], err);
    }
    return same;
}

static int judge(const verification *v, smoe_err *err) {
    smoe_run_difference first = {0};
    SMOE_FREED char *a = smoe_text_format("%s/metrics.jsonl", v->whole);
    SMOE_FREED char *b = smoe_text_format("%s/metrics.jsonl", v->parts);
    if (smoe_runs_compare_records(&first, a, b, err)) return -1;
    int model = same_files(v, "model", err), state = -1;
    if (model > 0) model = same_files(v, "ema", err); /* of train.ema; else there is no file */
    if (model >= 0) state = same_files(v, "state", err);
    if (model < 0 || state < 0) return -1;
    bool same = model && state && !first.any;
    smoe_result result = {0};
    smoe_result_facts(&result, {"same", SMOE_TRUTH_OF(same)}, {"model", SMOE_TRUTH_OF(model)},
                      {"state", SMOE_TRUTH_OF(state)}, {"records", SMOE_TRUTH_OF(!first.any)},
                      {"killed_after", .number = v->killed_after},
                      {"compared", .number = first.records}, {"dir", .text = v->dir});
    smoe_result_line(&result, "killed", "after the checkpoint of step %llu, and resumed",
                     (unsigned long long)v->killed_after);
    smoe_result_line(&result, "model", model ? "the same bytes" : "different");
    smoe_result_line(&result, "state", state ? "the same bytes" : "different");
    if (first.any)
        smoe_result_line(&result, "records", "different from step %llu on (%s)",
                         (unsigned long long)first.step,
                         *first.metric ? first.metric : "one run has none");
    else
        smoe_result_line(&result, "records", "all %zu are the same, except for times",
                         first.records);
    if (smoe_cmd_emit(&result, v->options, err)) return -1;
    if (same) return 0;
    return smoe_fail(err, SMOE_RUNTIME,
                     "the resumed run differs from the uninterrupted one; see %s", v->dir);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Reads the spec, and keeps it where it is standard input, which can be read once. */
static int read_spec(verification *v, smoe_spec *spec, smoe_err *err) {
    const char *file = v->options->arg[0];
    if (smoe_spec_is_input(file)) {
        int byte;
        if (!(v->input = tmpfile())) return smoe_fail_errno(err, SMOE_RUNTIME, "a temporary file");
        while ((byte = getchar()) != EOF && putc(byte, v->input) != EOF) continue;
        if (ferror(stdin) || fseeko(v->input, 0, SEEK_SET) ||
            dup2(fileno(v->input), STDIN_FILENO) < 0)
            return smoe_fail_errno(err, SMOE_RUNTIME, "standard input");
        clearerr(stdin);
    }
    return smoe_cmd_spec(spec, file, v->options, err);
}

/* -o, or a fresh folder in TMPDIR. */
static int make_dir(verification *v, smoe_err *err) {
    const char *tmp = getenv("TMPDIR");
    if (v->options->out) {
        v->dir = smoe_alloc_text(v->options->out);
        if (smoe_file_make_parents(v->dir, err)) return -1;
        if (mkdir(v->dir, 0777))
            return smoe_fail_errno(err, errno == EEXIST ? SMOE_USAGE : SMOE_RUNTIME,
                                   "%s: cannot be created", v->dir);
    } else {
        v->dir = smoe_text_format("%s/smoe-verify-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(v->dir))
            return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot be created", v->dir);
    }
    v->whole = smoe_text_format("%s/whole", v->dir);
    v->parts = smoe_text_format("%s/parts", v->dir);
    return 0;
}

static void verification_free(verification *v) {
    if (v->input) fclose(v->input);
    free(v->dir);
    free(v->whole);
    free(v->parts);
}

int cmd_verify_resume(const smoe_options *options, smoe_err *err) {
    SMOE_FREED_BY(verification_free) verification v = {.options = options};
    SMOE_FREED_BY(smoe_spec_free) smoe_spec spec = {0};
    smoe_result lines = {0};
    if (read_spec(&v, &spec, err)) return -1;
    if (spec.train.steps < 4)
        return smoe_fail(err, SMOE_USAGE, "train.steps is %zu: at least 4 are needed",
                         spec.train.steps);
    /* Checkpoints early on, regardless of the spec: when checkpoints are written changes no
     * number. */
    snprintf(v.every, sizeof v.every, "train.checkpoint_every=%zu", spec.train.steps / 4);
    if (options->dry_run) {
        smoe_fact_number(&lines, "steps", spec.train.steps);
        smoe_result_line(&lines, NULL,
                         "would train %zu step%s without an interruption, and again with one",
                         spec.train.steps, SMOE_S(spec.train.steps));
        return smoe_cmd_emit(&lines, options, err);
    }
    smoe_heading_spec(&lines, &spec, options->scan);
    smoe_heading_print(&lines, options);
    if (make_dir(&v, err) || train_both(&v, err) || judge(&v, err)) return -1;
    return options->out ? 0 : smoe_file_remove(v.dir, err);
}
